"""A small made-up corpus, in the very files, formats and archives that a recipe names."""

from __future__ import annotations

import gzip
import hashlib
import html
import io
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from random import Random

from syntax_data.commands import parse
from syntax_experiments.recipe import Corpus, Recipe, SplitFiles

#: Pairs of the training text and of another split.
_TRAIN, _OTHERS = 300, 24
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]

#: Sentences as numbers of words.
Sentences = list[list[int]]


def make_up(recipe: Recipe, folder: Path) -> Corpus:
    """Writes the files of the recipe's corpus into `folder`; the corpus that reads them there.

    A corpus of a command has no files: the command runs, the smaller one if there is one.
    """
    corpus = recipe.corpus
    if corpus.command is not None:
        return replace(corpus, command=corpus.smoke_command or corpus.command)
    files = dict(_files(recipe))
    downloads = {}
    for name, asked in corpus.downloads.items():
        members = {file.partition("!")[2]: data for file, data in files.items() if file.partition("!")[0] == name}
        data = members[""] if "" in members else _archive(asked.file_name, members)
        path = folder / name / asked.file_name
        _write(path, data)
        sha256 = hashlib.sha256(data).hexdigest()
        downloads[name] = replace(asked, url=path.as_uri(), mirrors=[], sha256=sha256, md5=None, size=len(data))
    local = folder / "local"
    local.mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        if file.partition("!")[0] not in downloads:
            _write(local / file, data)
    _write_parses(recipe, local)
    return replace(corpus, downloads=downloads, folder=None if corpus.folder is None else str(local))


def _files(recipe: Recipe) -> Iterator[tuple[str, bytes]]:
    """Each file of the corpus, or member of an archive, and what is in it."""
    written: dict[str, tuple[Sentences, SplitFiles, list[str]]] = {}
    for split, files in recipe.corpus.splits.items():
        for place, (source, target) in enumerate(zip(files.source, files.target, strict=True)):
            found = written.get(source) or written.get(target)
            sentences = found[0] if found else _sentences(split, place, len(files.source))
            sides = [(source, recipe.source), (target, recipe.target)]
            sides += [(files.reference[place], recipe.target)] if files.reference else []
            for file, language in sides:
                _, _, languages = written.setdefault(file, (sentences, files, []))
                languages.append(language)
    for file, (sentences, files, languages) in written.items():
        texts = {language: [_text(s, language) for s in sentences] for language in languages}
        data = _FORMATS[files.format](texts).encode()
        name = file if "!" in file or file not in recipe.corpus.downloads else recipe.corpus.downloads[file].file_name
        yield file, gzip.compress(data, mtime=0) if name.endswith(".gz") else data


def _sentences(split: str, place: int, files: int) -> Sentences:
    random = Random(f"{split} {place}")
    number = -(-(_TRAIN if split == "train" else _OTHERS) // files)
    return [[random.randrange(60) for _ in range(random.randint(5, 14))] for _ in range(number)]


def _text(sentence: list[int], language: str) -> str:
    words = [_word(number, language) for number in sentence]
    return " ".join([words[0].capitalize(), *words[1:], "."])


def _word(number: int, language: str) -> str:
    return "".join(Random(f"{language} {number}").choices(_SYLLABLES, k=2)) + language[-1]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _lines(texts: Mapping[str, list[str]]) -> str:
    (lines,) = texts.values()
    return "".join(f"{line}\n" for line in lines)


def _iwslt(texts: Mapping[str, list[str]]) -> str:
    (lines,) = texts.values()
    about = "<url>http://localhost</url>\n<keywords>talks</keywords>\n<speaker>Somebody</speaker>\n<talkid>1</talkid>\n"
    title, description, *talk = lines
    return f"{about}<title>{title}</title>\n<description>{description}</description>\n{_lines({'': talk})}"


def _seg(texts: Mapping[str, list[str]]) -> str:
    (lines,) = texts.values()
    segments = "".join(f'<seg id="{i}"> {html.escape(line)} </seg>\n' for i, line in enumerate(lines, start=1))
    return f'<srcset setid="made-up">\n<doc docid="1">\n<p>\n{segments}</p>\n</doc>\n</srcset>\n'


def _tmx(texts: Mapping[str, list[str]]) -> str:
    units = "".join(
        "<tu>" + "".join(f'<tuv xml:lang="{of}"><seg>{html.escape(line)}</seg></tuv>' for of, line in unit) + "</tu>\n"
        for unit in ([(of, lines[i]) for of, lines in texts.items()] for i in range(len(next(iter(texts.values())))))
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'


_FORMATS = {"lines": _lines, "iwslt": _iwslt, "seg": _seg, "tmx": _tmx}


def _archive(name: str, members: Mapping[str, bytes]) -> bytes:
    """The same bytes each time, since their hash is part of names."""
    out = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(out, "w") as archive:
            for member, data in members.items():
                archive.writestr(zipfile.ZipInfo(member), data)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0) if name.endswith((".tgz", ".gz")) else out.getvalue()


def _write_parses(recipe: Recipe, folder: Path) -> None:
    """Random trees, where the recipe has parses in files."""
    for parser in recipe.parsers.values():
        for split, prefix in parser.files.items():
            text = folder / f"{prefix}.text"
            text.parent.mkdir(parents=True, exist_ok=True)
            sources = [folder / file for file in recipe.corpus.splits[split].source]
            lines = [gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in sources]
            text.write_bytes(b"".join(lines))
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                command = ["--input", str(text), "--output-prefix", str(folder / prefix)]
                parse.main([*command, "--parser", "control", "--control", "random"])
