"""Raw text is read as its formats have it, from files and archives; words are split and chosen as the papers do."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
import zipfile

import pytest
from steps_in import step_in

from syntax_data.errors import InputError
from syntax_experiments.corpus_formats import READERS
from syntax_experiments.make import read_lines
from syntax_experiments.steps import corpus, text

IWSLT = """\
<url>http://www.ted.com/talks/1</url>
<keywords>talks, a <title> too</keywords>
<speaker>Somebody</speaker>
<talkid>1</talkid>
<title>Somebody: A  talk</title>
<description>What it is about</description>
 The first sentence.
A < b is no tag, nor is this <em>one</em>.
<reviewer href="x">A</reviewer>
<translator href="x">B</translator>

The last one.
"""
SGML = """\
<srcset setid="newstest" srclang="any">
<DOC docid="1"><p>
<seg id="1">Fish &amp; chips &lt;b&gt; &quot;x&quot;</seg>
<seg id="2"> two
lines </seg> <SEG ID="3"></SEG>
</p></DOC></srcset>
"""
TMX = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>One &amp; <hi>two</hi></seg></tuv><tuv xml:lang="tr"><seg>Bir</seg></tuv></tu>
<tu><tuv xml:lang="tr"><seg>iki
üç</seg></tuv><tuv xml:lang="EN-GB"><seg>Two</seg></tuv></tu>
<tu><tuv xml:lang="tr"><seg>alone</seg></tuv></tu>
</body></tmx>
"""


IWSLT_LINES = [
    *("Somebody: A talk", "What it is about", "The first sentence.", "A < b is no tag, nor is this <em>one</em>."),
    *("", "The last one."),
]


@pytest.mark.parametrize(
    ("format", "language", "written", "read"),
    [
        ("lines", "en", "a\tb \n\n\u00a0c\r\nlast", ["a b", "", "c", "last"]),
        ("iwslt", "en", IWSLT, IWSLT_LINES),
        ("seg", "en", SGML, ['Fish & chips <b> "x"', "two lines", ""]),
        ("tmx", "en", TMX, ["One & two", "Two", ""]),
        ("tmx", "tr", TMX, ["Bir", "iki üç", "alone"]),
    ],
)
def test_formats(format, language, written, read):
    assert list(READERS[format](io.BytesIO(written.encode()), language)) == read


def test_a_translation_memory_is_not_held_in_memory():
    unit = b'<tu><tuv xml:lang="en"><seg>' + b"word " * 100 + b"</seg></tuv></tu>\n"
    file = io.BytesIO(b"<tmx><body>" + unit * 5000 + b"</body></tmx>")
    tracemalloc.start()
    assert sum(1 for _ in READERS["tmx"](file, "en")) == 5000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000, "of 2,700,000 bytes"


def archive_of(path, members):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def collect(folder, splits, **arguments):
    settings = {"source": "de", "target": "en", "splits": splits}
    corpus.collect(step_in(folder / "out", settings, **arguments))
    return folder / "out"


@pytest.mark.parametrize("name", ["all.tgz", "all.zip"])
def test_members_of_archives_are_joined(tmp_path, name):
    members = {
        "./text/a.de": b"eins\nzwei\n",
        "text/a.en": b"one\ntwo\n",
        "text/b.de.gz": gzip.compress(b"drei\n"),
        "text/b.en.gz": gzip.compress(b"three\n"),
        "text/r.en": "One’s\nTwo\n".encode(),
    }
    (tmp_path / "download").mkdir()
    archive_of(tmp_path / "download" / name, members)
    train = {side: [f"all!text/a.{of}", f"all!text/b.{of}.gz"] for side, of in (("source", "de"), ("target", "en"))}
    test = {"source": ["all!text/a.de"], "target": ["all!text/a.en"], "reference": ["all!text/r.en"]}
    splits = {"train": train, "test": {**test, "replace": {"’": "'"}}}
    out = collect(tmp_path, splits, inputs={"all": tmp_path / "download"})
    assert read_lines(out / "train.de") == ["eins", "zwei", "drei"]
    assert read_lines(out / "train.en") == ["one", "two", "three"]
    assert read_lines(out / "test.reference") == ["One's", "Two"]
    assert json.loads((out / "counts.json").read_text()) == {"train": 3, "test": 2}
    assert not (out / "train.reference").exists()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("all!text/a.dee", "expected text/a.dee in it, found none; near: text/a.de"),
        ("all!text", "expected text in it, found none"),
        ("missing.de", "missing.de: expected a file of format lines, found: .*No such file"),
        ("latin.de", "latin.de: expected UTF-8"),
        ("cut.de.gz", "cut.de.gz: expected a file of format lines"),
        ("short.de", "train: expected as many lines in each language, found 1 of de, 2 of en"),
        ("empty.de", "train: expected as many lines in each language, found 0 of de"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, file, message):
    (tmp_path / "download").mkdir()
    archive_of(tmp_path / "download" / "all.tgz", {"text/a.de": b"eins\nzwei\n"})
    (tmp_path / "latin.de").write_bytes("ö\n".encode("latin-1"))
    (tmp_path / "cut.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n" * 100)[:-20])
    (tmp_path / "short.de").write_text("eins\n")
    (tmp_path / "empty.de").write_text("")
    (tmp_path / "a.en").write_text("one\ntwo\n")
    arguments = {"inputs": {"all": tmp_path / "download"}, "local": {"folder": str(tmp_path)}}
    with pytest.raises(InputError, match=message):
        collect(tmp_path, {"train": {"source": [file], "target": ["a.en"]}}, **arguments)


def tokenize(folder, raw, asked, *, chosen=None, threads=1):
    (folder / "raw").mkdir()
    for name, lines in raw.items():
        (folder / "raw" / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    splits = dict.fromkeys(name.partition(".")[0] for name in raw)
    (folder / "raw/counts.json").write_text(json.dumps(splits))
    settings = {"source": "de", "target": "en", "text": asked, "chosen": chosen or {}}
    text.tokenize(step_in(folder / "out", settings, inputs={"corpus": folder / "raw"}, threads=threads))
    return folder / "out"


@pytest.mark.parametrize(
    ("asked", "german", "threads"),
    [
        ({"tokenize": "none"}, "„Öl-Preise“ SIND &", 1),
        ({}, "&quot; Öl-Preise &quot; SIND &amp;", 2),
        ({"normalize": False}, "„ Öl-Preise “ SIND &amp;", 1),
        ({"dashes": True}, "&quot; Öl @-@ Preise &quot; SIND &amp;", 1),
        ({"lowercase": True}, "&quot; öl-preise &quot; sind &amp;", 2),
        ({"lowercase_first": True}, "&quot; öl-preise &quot; sind &amp;", 1),
        ({"tokenize": "none", "lowercase_first": True}, "„öl-preise“ sind &", 1),
    ],
)
def test_words(tmp_path, asked, german, threads):
    out = tokenize(tmp_path, {"train.de": ["„Öl-Preise“ SIND &"], "train.en": ["x"]}, asked, threads=threads)
    assert read_lines(out / "train.de") == [german]
    cased = out / "train.de.cased"  # for the parser
    assert (read_lines(cased) if cased.exists() else None) == (
        ["&quot; Öl-Preise &quot; SIND &amp;"] if asked.get("lowercase") else None
    )


def test_limits_come_before_each_kth_pair_and_not_on_test_sets(tmp_path):
    """As fairseq's prepare-iwslt14.sh: clean, then every 23rd of the rest is for validation."""
    german = ["a b", "a b c d e f", "", "c", "d e f g", "e", "f", "g", "h"]
    english = ["x", "x", "x", "y z", "v", "z", "u", "", "w"]
    raw = {f"{split}.{side}": lines for split in ("train", "valid", "test")
           for side, lines in (("de", german), ("en", english))}  # fmt: skip
    raw["test.reference"] = english
    asked = {"tokenize": "none", "words": [1, 5], "ratio": 2}
    out = tokenize(tmp_path, raw, asked, chosen={"train": {"drop_every": 2}, "valid": {"keep_every": 2}})
    # Left are a b, c, e, f, h: d e f g is four times as long as its translation.
    assert read_lines(out / "train.de") == ["a b", "e", "h"]
    assert read_lines(out / "train.en") == ["x", "z", "w"]
    assert read_lines(out / "valid.de") == ["c", "f"]
    assert read_lines(out / "test.de") == read_lines(out / "test.raw") == german
    assert read_lines(out / "test.en") == read_lines(out / "test.reference") == english
    counts = json.loads((out / "counts.json").read_text())
    assert counts["train"] == {"pairs": 3, "beyond the limits": 4, "of other splits": 2}
    assert counts["test"] == {"pairs": 9, "beyond the limits": 0, "of other splits": 0}


def test_a_validation_set_without_limits_and_a_split_that_they_leave_empty(tmp_path):
    raw = {f"{split}.{side}": ["a b c", "a"] for split in ("train", "valid") for side in ("de", "en")}
    asked = {"tokenize": "none", "words": [1, 2]}
    out = tokenize(tmp_path, raw, asked, chosen={"valid": {"limits": False}})
    assert (read_lines(out / "train.de"), read_lines(out / "valid.de")) == (["a"], ["a b c", "a"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="train: expected at least one pair, found none of 2 within the limits"):
        tokenize(tmp_path / "empty", raw, {"words": [4, 5]})
