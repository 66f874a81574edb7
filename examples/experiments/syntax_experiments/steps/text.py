"""Words of raw text, by sacremoses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import TextIO, cast

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from tqdm import tqdm

from syntax_experiments.make import Step
from syntax_experiments.recipe import Text

#: Pairs in memory.
_CHUNK = 50_000


def tokenize(step: Step) -> None:
    """Write ``SPLIT.LANG``, of test sets also ``SPLIT.reference``, ``SPLIT.raw``.

    Training and validation pairs beyond the recipe's limits are left out; of the rest each k-th pair is kept, or
    dropped. Where text is lower-cased after all else, ``SPLIT.SOURCE.cased`` is what it was before.
    """
    counts = {split: _split(step, split) for split in json.loads((step.inputs["corpus"] / "counts.json").read_text())}
    (step.folder / "counts.json").write_text(json.dumps(counts))
    print("; ".join(f"{split}: {', '.join(f'{n} {what}' for what, n in c.items())}" for split, c in counts.items()))


def _split(step: Step, split: str) -> dict[str, int]:
    source, target = step.settings["source"], step.settings["target"]
    asked, chosen = Text(**step.settings["text"]), dict(step.settings["chosen"].get(split, {}))
    limited = chosen.pop("limits", True) and split in ("train", "valid")
    raw = step.inputs["corpus"]
    # Of a test set the reference, and the raw source, which some metrics read.
    originals = {"reference": f"{split}.reference", "raw": f"{split}.{source}"}
    if not (raw / originals["reference"]).exists():
        originals = {}
    counts = {"pairs": 0, "beyond the limits": 0, "of other splits": 0}
    with ExitStack() as stack:

        def opened(path: Path, mode: str = "r") -> TextIO:
            return cast(TextIO, stack.enter_context(open(path, mode, encoding="utf-8")))

        names = [source, target, *originals, *([f"{source}.cased"] if asked.lowercase else [])]
        out = [opened(step.folder / f"{split}.{name}", "w") for name in names]
        pairs = zip(opened(raw / f"{split}.{source}"), opened(raw / f"{split}.{target}"), strict=True)
        files = [opened(raw / file) for file in originals.values()]
        for pair, *lines in zip(_words(step, split, asked, pairs), *files, strict=True):
            if limited and not _within(pair, asked):
                counts["beyond the limits"] += 1
                continue
            within = counts["pairs"] + counts["of other splits"] + 1
            if not _taken(within, **chosen):
                counts["of other splits"] += 1
                continue
            counts["pairs"] += 1
            words = [text.lower() if asked.lowercase else text for text in pair]
            written = [*words, *(line.rstrip("\n") for line in lines), *([pair[0]] if asked.lowercase else [])]
            for file, text in zip(out, written, strict=True):
                file.write(f"{text}\n")
    if not counts["pairs"]:
        raise ValueError(f"{split}: expected at least one pair, found none of {sum(counts.values())} within the limits")
    return counts


def _words(step: Step, split: str, asked: Text, pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    words = partial(_words_of, (step.settings["source"], step.settings["target"]), asked)
    if asked.tokenize == "none":
        yield from map(words, pairs)
        return
    with Pool(step.threads) as pool, tqdm(desc=f"tokenising {split}", unit=" pairs", disable=None) as bar:
        while chunk := list(islice(pairs, _CHUNK)):
            yield from pool.imap(words, chunk, chunksize=1000)
            bar.update(len(chunk))


def _words_of(languages: tuple[str, str], asked: Text, pair: tuple[str, str]) -> tuple[str, ...]:
    found = []
    for language, line in zip(languages, pair, strict=True):
        line = line.rstrip("\n")
        line = line.lower() if asked.lowercase_first else line
        if asked.tokenize == "moses":
            normalizer, tokenizer = _moses(language)
            line = normalizer.normalize(line) if asked.normalize else line
            line = str(tokenizer.tokenize(line, aggressive_dash_splits=asked.dashes, return_str=True))
        found.append(line)
    return tuple(found)


@cache
def _moses(language: str) -> tuple[MosesPunctNormalizer, MosesTokenizer]:
    return MosesPunctNormalizer(language), MosesTokenizer(language)


def _within(pair: tuple[str, ...], asked: Text) -> bool:
    lengths = [len(side.split()) for side in pair]
    least, most = asked.words or (1, None)
    if min(lengths) < max(1, least or 1) or (most is not None and max(lengths) > most):
        return False
    return asked.ratio is None or max(lengths) <= asked.ratio * min(lengths)


def _taken(number: int, *, keep_every: int | None = None, drop_every: int | None = None) -> bool:
    """Return whether the split has the pair of this number, from 1."""
    return (keep_every is None or number % keep_every == 0) and (drop_every is None or number % drop_every != 0)
