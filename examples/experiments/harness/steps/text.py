"""Raw text to words, by sacremoses."""

from __future__ import annotations

import json
from collections.abc import Callable
from multiprocessing import Pool
from typing import Any

from sacremoses import MosesPunctNormalizer, MosesTokenizer
from tqdm import tqdm

from harness.make import Step
from harness.recipe import Text

_tokenize: Callable[[str], str]


def tokenize(step: Step) -> None:
    """Writes ``SPLIT.LANG``, tokenised, and leaves out training and validation pairs beyond the recipe's limits."""
    languages = step.settings["source"], step.settings["target"]
    raw = step.inputs["corpus"]
    splits = json.loads((raw / "counts.json").read_text())
    counts: dict[str, Any] = {}
    for split in splits:
        sides = [_words(step, split, language) for language in languages]
        pairs = list(zip(*sides, strict=True))
        kept = pairs
        if split in ("train", "valid"):
            kept = [pair for pair in pairs if _within(pair, Text(**step.settings["text"]))]
        counts[split] = {"pairs": len(kept), "left out": len(pairs) - len(kept)}
        for i, language in enumerate(languages):
            _write(step, f"{split}.{language}", [pair[i] for pair in kept])
        if (raw / f"{split}.reference").exists():
            _write(step, f"{split}.reference", (raw / f"{split}.reference").read_text(encoding="utf-8").splitlines())
            _write(step, f"{split}.raw", (raw / f"{split}.{languages[0]}").read_text(encoding="utf-8").splitlines())
    (step.folder / "counts.json").write_text(json.dumps(counts))
    print("; ".join(f"{split}: {c['pairs']} pairs, {c['left out']} left out" for split, c in counts.items()))


def _words(step: Step, split: str, language: str) -> list[str]:
    with open(step.inputs["corpus"] / f"{split}.{language}", encoding="utf-8") as file:
        lines = file.read().splitlines()
    asked = Text(**step.settings["text"])
    if asked.tokenize == "moses":
        wanted = language, asked.normalize, asked.dashes
        bar = tqdm(total=len(lines), desc=f"tokenising {split}.{language}", unit=" lines", disable=None)
        with bar, Pool(step.threads, _set_up, wanted) as pool:
            found = []
            for line in pool.imap(_tokenized, lines, chunksize=1000):
                found.append(line)
                bar.update()
        lines = found
    return [line.lower() for line in lines] if asked.lowercase else lines


def _set_up(language: str, normalize: bool, dashes: bool) -> None:
    global _tokenize
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)

    def words(line: str) -> str:
        line = normalizer.normalize(line) if normalize else line
        return str(tokenizer.tokenize(line, aggressive_dash_splits=dashes, return_str=True))

    _tokenize = words


def _tokenized(line: str) -> str:
    return _tokenize(line)


def _within(pair: tuple[str, ...], asked: Text) -> bool:
    lengths = [len(side.split()) for side in pair]
    least, most = asked.words or (1, None)
    if min(lengths) < max(1, least or 1) or (most is not None and max(lengths) > most):
        return False
    return asked.ratio is None or max(lengths) <= asked.ratio * min(lengths)


def _write(step: Step, name: str, lines: list[str]) -> None:
    (step.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
