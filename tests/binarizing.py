"""Three lines with their parses, fairseq-syntax-binarize, and its output."""

from __future__ import annotations

import json
import os
from pathlib import Path

from fairseq.data import Dictionary, indexed_dataset

from syntax_data.commands import binarize

TEXT = "the in@@ crease ( rise )\n\na b\n"
TREES = "(S (NP (DT the) (NN increase)) (PRN (-LRB- -LRB-) (NN rise) (-RRB- -RRB-)))\n\n(())\n"
CONLLU = (
    "# generator = a parser 1.0\n"
    + "".join(
        f"{i}\t{w}\t_\t_\t_\t_\t{h}\t_\t_\t_\n"
        for i, (w, h) in enumerate([("the", 2), ("increase", 0), ("(", 4), ("rise", 2), (")", 4)], 1)
    )
    + "\n# text =\n\n1\ta\t_\t_\t_\t_\t2\t_\t_\t_\n2\tb\t_\t_\t_\t_\t0\t_\t_\t_\n"
)


def write(folder: Path, name: str = "train", *, text=TEXT, trees=TREES, conllu=CONLLU) -> Path:
    for ending, content in (("en", text), ("en.trees", trees), ("en.conllu", conllu)):
        if content is not None:
            (folder / f"{name}.{ending}").write_bytes(content.encode("utf-8"))
    if text is not None:
        preprocess(folder / "bin", name, text)
    return folder


def preprocess(data: Path, name: str, text: str, *, grow: bool = True, dataset_impl: str = "mmap") -> None:
    """Write tokens as fairseq-preprocess does; dictionaries get the text's words."""
    data.mkdir(exist_ok=True)
    for lang in ("en", "de"):
        path = str(data / f"dict.{lang}.txt")
        dictionary = Dictionary.load(path) if os.path.exists(path) else Dictionary()
        prefix = f"{data}/{name}.en-de.{lang}"
        builder = indexed_dataset.make_builder(f"{prefix}.bin", dataset_impl, 1 << 20)
        for line in text.removesuffix("\n").split("\n") if text else []:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=grow))
        builder.finalize(f"{prefix}.idx")
        Path(path).write_text("".join(f"{symbol} 1\n" for symbol in dictionary.symbols[dictionary.nspecial :]))


def run(folder: Path, *more: str, name: str = "train") -> None:
    binarize.main(
        ["-s", "en", "-t", "de", f"--{name}pref", str(folder / name), "--destdir", str(folder / "bin"), *more]
    )


def rows(folder: Path, feature: str, split: str = "train") -> list[list[int]]:
    dataset = indexed_dataset.make_dataset(str(folder / f"bin/{split}.en-de.en.{feature}"), "mmap")
    return [dataset[i].tolist() for i in range(len(dataset))]


def contents(folder: Path) -> dict[str, bytes]:
    """Files by path, but for those whose only use is to be locked."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def hidden_folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".") and path.is_dir()]


def signature(folder: Path) -> dict:
    """The signature of the data-bin, as JSON."""
    return json.loads((folder / "bin/syntax.en-de.en.json").read_text())


def labels(folder: Path, feature: str, split: str = "train") -> list[str]:
    """The labels of each sentence's words, as those who read the feature see them."""
    names = signature(folder)["labels"][feature]
    return [" ".join(names[number] for number in row[:-1]) for row in rows(folder, feature, split)]
