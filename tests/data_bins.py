"""Small data-bins: tokens by fairseq's own builders, features by our command."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
from fairseq.data import indexed_dataset

from binarizing import preprocess
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask
from syntax_data.commands import binarize

#: What is written from trees and dependencies, in this order.
FEATURES = [
    "word",
    "distance",
    "head",
    "deprel",
    "upos",
    "category",
    "category_2",
    "category_3",
    "shared_category",
    "case",
    "position",
]

LANGUAGES = ["--source-lang", "en", "--target-lang", "de"]


def sentences(number: int, *, words: int | None = 6, seed: int = 1) -> list[str]:
    """Different lines of `words` words of a small vocabulary; ``None``: 0 to 9."""
    random = Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < number:
        length = random.randint(0, 9) if words is None else words
        lines[" ".join(random.choice("abcdefghijklmnopqrst") for _ in range(length))] = None
    return list(lines)


def parse(folder: Path, name: str, lines: Sequence[str], *, seed: int = 1) -> None:
    """Write the lines and random parses of them."""
    random = Random(seed)
    blocks, trees = [], []
    for line in lines:
        words = line.split()
        rows = (
            f"{i}\t{w}\t_\tX{w}\t_\t_\t{random.randint(1, i - 1) if i > 1 else 0}\t_\t_\t_\n"
            for i, w in enumerate(words, 1)
        )
        blocks.append("# sentence\n" + "".join(rows) + "\n")
        trees.append(f"(S {' '.join(f'(X {w})' for w in words)})\n" if words else "(())\n")
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    (folder / f"{name}.en.conllu").write_text("".join(blocks))
    (folder / f"{name}.en.trees").write_text("".join(trees))


def make(folder: Path, lines: Sequence[str], name: str = "train") -> Path:
    """A data-bin of the lines with their features."""
    parse(folder, name, lines)
    data = folder / "bin"
    preprocess(data, name, "".join(f"{line}\n" for line in lines))
    option = name.rstrip("0123456789")
    names = [name] if name == option else [option, name]
    prefixes = ",".join(str(folder / name) for name in names)
    binarize.main([*LANGUAGES, f"--{option}pref", prefixes, "--destdir", str(data)])
    return data


def load(data: Path, split: str = "train", *, features: Sequence[str] = ("word", "head", "distance"), **options):
    """A split as the task loads it for a model that needs these features."""
    combine = options.pop("combine", False)
    options.setdefault("dataset_impl", None)
    config = SyntaxTranslationConfig(data=str(data), source_lang="en", target_lang="de", **options)
    task = SyntaxTranslationTask.setup_task(config)
    task.syntax_features = set(features)
    task.load_dataset(split, combine=combine)
    return task.dataset(split)


def verify(data: Path) -> None:
    """fairseq-syntax-binarize --verify."""
    binarize.main([*LANGUAGES, "--verify", "--destdir", str(data)])


def values(data: Path, feature: str | None, split: str = "train") -> tuple[np.memmap, np.ndarray]:
    """The writable values of a feature, or of the tokens, and each sentence's start."""
    prefix = f"{data}/{split}.en-de.en" + (f".{feature}" if feature else "")
    dataset = indexed_dataset.make_dataset(prefix, "mmap")
    starts = np.cumsum([0, *dataset.sizes])[:-1]
    return np.memmap(f"{prefix}.bin", dtype=dataset._index.dtype, mode="r+"), starts


def sign(data: Path, split: str = "train") -> None:
    """Sign the files as they are."""
    path = data / "syntax.en-de.en.json"
    content = json.loads(path.read_text())
    for name, described in content["splits"][split]["files"].items():
        described["bytes"] = os.path.getsize(data / name)
        described["sha256"] = hashlib.sha256((data / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(content))
