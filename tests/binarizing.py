"""Three lines with their parses, fairseq-syntax-binarize run on them, and what it leaves."""

from __future__ import annotations

from pathlib import Path

from fairseq.data import indexed_dataset

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
    return folder


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
