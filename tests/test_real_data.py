"""Real text and treebanks, from the folder that FAIRSEQ_SYNTAX_DATA names."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fairseq_syntax import binarize
from fairseq_syntax.trees import DependencyTree, conllu_blocks, parse_conllu, read_lines

DATA = os.environ.get("FAIRSEQ_SYNTAX_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="FAIRSEQ_SYNTAX_DATA is not set: no real data to read")


def unpack(name: str, to: Path) -> Path:
    with gzip.open(Path(DATA or "") / name, "rb") as packed, open(to, "wb") as file:
        shutil.copyfileobj(packed, file)
    return to


@pytest.mark.parametrize("treebank", ["de_gsd", "fr_gsd", "en_ewt"])
def test_treebanks_collapse_to_their_surface(tmp_path, treebank):
    path = unpack(f"ud/{treebank}-ud-test.conllu.gz", tmp_path / "x.conllu")
    texts = [line[9:].rstrip("\n") for line in path.read_text().split("\n") if line.startswith("# text = ")]
    trees = [parse_conllu(block, path=str(path), line=line) for line, block in conllu_blocks(read_lines(str(path)))]
    assert len(trees) == len(texts) > 400
    for text, tree in zip(texts, trees, strict=True):
        assert isinstance(tree, DependencyTree)
        assert "".join("".join(tree.tokens).split()) == "".join(text.split())
        assert tree.heads.count(0) == 1
        for token in range(1, len(tree.tokens) + 1):  # every token reaches the root
            steps = 0
            while token:
                token = tree.heads[token - 1]
                steps += 1
                assert steps <= len(tree.tokens)


def test_multi30k_with_its_parses(tmp_path, capsys):
    text = unpack("multi30k/tok/val.lc.norm.tok.en.gz", tmp_path / "val.en")
    for kind in ("trees", "conllu"):
        unpack(f"multi30k/parsed/val.en.{kind}.gz", tmp_path / f"val.en.{kind}")
    codes, bpe = tmp_path / "codes", tmp_path / "bpe.en"
    subprocess.run(["subword-nmt", "learn-bpe", "-s", "500", "-i", text, "-o", codes], check=True)
    subprocess.run(["subword-nmt", "apply-bpe", "-c", codes, "-i", text, "-o", bpe], check=True)
    prefixes = ["--validpref", f"{tmp_path}/bpe", "--validparse", f"{tmp_path}/val"]
    binarize.main(["-s", "en", "-t", "de", *prefixes, "--destdir", f"{tmp_path}/data-bin", "--workers", "2"])
    report = capsys.readouterr().out
    words = len(text.read_text().split())
    assert f"1014 sentences; {words} words; {len(bpe.read_text().split())} subwords" in report
    assert "trees: 1014 parsed (100.00%), without a parse: 0" in report
    assert "conllu: 1014 parsed (100.00%), without a parse: 0" in report


def test_multi30k_example_for_a_few_steps(tmp_path):
    example = Path(__file__).parent.parent / "examples/multi30k/run.sh"
    small = tmp_path / "data"  # the first lines of the real files
    for folder, names in (("tok", "*.lc.norm.tok.[ed][ne].gz"), ("parsed", "*.gz")):
        (small / folder).mkdir(parents=True)
        for path in (Path(DATA or "") / "multi30k" / folder).glob(names):
            with gzip.open(path, "rt", encoding="utf-8") as full:
                text = full.read()
            parts = text.split("\n\n") if ".conllu" in path.name else text.split("\n")
            end = "\n\n" if ".conllu" in path.name else "\n"
            with gzip.open(small / folder / path.name, "wt", encoding="utf-8") as file:
                file.write(end.join(parts[:20]) + end)
    command = ["bash", example, small, tmp_path / "work", "--cpu", "--num-workers", "0", "--max-update", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, line in zip(("transformer", "gated", "gated-slr-sdoi"), done.stdout.splitlines()[-3:], strict=True):
        assert line.startswith(f"{name}: BLEU|nrefs:1")
    assert len((tmp_path / "work/gated.de").read_text().splitlines()) == 20
