"""Public data sets, as their authors publish them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import read_task
from tiers import others_nightly

DATA = os.environ.get("FAIRSEQ_SYNTAX_DATA")
TREE = "(ROOT (S (NP (DT {}) (NN {})) (VP (VBD {})) (. .)))"
SNLI = "gold_label\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\n"
SNLI_ROW = f"{{}}\t{TREE.format('A', 'dog', 'ran')}\t{TREE.format('It', 'dog', 'sat')}\tA dog ran.\tIt sat.\n"

READ = {  # task: the file, the files that are written
    "cola": ("gj04\t1\t\tI ran.\ncj99\t0\t*\tI runs.\n", {"input0": "I ran.\nI runs.\n", "label": "1\n0\n"}),
    "rte": (
        "index\tsentence1\tsentence2\tlabel\n0\tA dog. It ran.\tA dog ran.\tentailment\n",
        {"input0": "A dog. It ran.\n", "input1": "A dog ran.\n", "label": "entailment\n"},
    ),
    "mrpc": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t10\t11\tA \"dog\" ran .\tA dog sat .\r\n",
        {"input0": 'A "dog" ran .\n', "input1": "A dog sat .\n", "label": "1\n"},
    ),
    "stsbenchmark": (
        "news\tMSR\t2012\t1\t4.5\tA dog.\tDogs.\nnews\tMSR\t2012\t2\t0\tA.\tB.\tsource\tsource\n",
        {"input0": "A dog.\nA.\n", "input1": "Dogs.\nB.\n", "label": "4.5\n0\n"},
    ),
    "snli": (
        SNLI + SNLI_ROW.format("neutral") + SNLI_ROW.format("-"),
        {
            "input0": "A dog ran.\n",
            "input0.trees": TREE.format("A", "dog", "ran") + "\n",
            "input1": "It sat.\n",
            "input1.trees": TREE.format("It", "dog", "sat") + "\n",
            "label": "neutral\n",
        },
    ),
    "semeval": (
        '1\t"The <e1>dog</e1> saw a <e2>house cat</e2>."\r\nCause-Effect(e2,e1)\r\nComment: none\r\n\r\n'
        '2\t"<e1>Foot</e1>-<e2>ball</e2>"\r\nOther\r\nComment:\r\n',
        {
            "input0": "The dog saw a house cat.\nFoot-ball\n",
            "input0.marked": "The @ dog @ saw a # house cat # .\n@ Foot @ - # ball #\n",
            "label": "Cause-Effect(e2,e1)\nOther\n",
        },
    ),
    "blimp": (
        '{"sentence_good": "She ran.", "sentence_bad": "She run.", "UID": "x"}\n',
        {"input0": "She ran.\nShe run.\n"},
    ),
}  # fmt: skip
REFUSED = {
    "another table": ("rte", "index\tquestion\tlabel\n", ":1: expected a column 'sentence1', found ['index', '"),
    "a row cut off": ("rte", READ["rte"][0] + "1\tA dog.\n", ":3: expected 4 columns, found 2"),
    "a tab in the text": ("cola", "gj04\t1\t\tThey\tran.\n", ":1: expected 4 columns, found 5"),
    "no text": ("cola", "gj04\t1\t\t \n", ":1: expected one line of text as input0, found ''"),
    "no label": ("cola", "gj04\t\t\tThey ran.\n", ":1: expected one line of text as label, found ''"),
    "a line end in the text": ("cola", "gj04\t1\t\tI\rran.\n", r":1: expected one line of text as input0, found 'I\rr"),
    "no row": ("cola", "", ": expected examples, found none"),
    "no names": ("rte", "", ":1: expected a column 'sentence1', found []"),
    "an entity": ("semeval", '7\t"The <e1>dog</e1> saw."\nOther\n', ":1: expected NUMBER, a tab, and \"… <e1>…</e1>"),
    "half a pair": ("blimp", '{"sentence_good": "She ran."}', ":1: expected a JSON object with sentence_good and sent"),
    "no text in a pair": (
        "blimp", '{"sentence_good": null, "sentence_bad": "She run."}', ":1: expected a JSON object with sentence_good"
    ),
    "no relation": ("semeval", '7\t"<e1>A</e1> <e2>b</e2>"\n', ":2: expected one line of text as label, found ''"),
}  # fmt: skip


def read(folder: Path, task: str, text: str) -> None:
    (folder / "in").write_text(text, encoding="utf-8", newline="")
    read_task.main([task, str(folder / "in"), "--output", str(folder / "out/train"), "--markers", "@,#"])


@pytest.mark.parametrize("task", READ)
def test_written(tmp_path, capsys, task):
    text, expected = READ[task]
    read(tmp_path, task, text)
    found = {path.name.removeprefix("train."): path.read_text(encoding="utf-8") for path in tmp_path.glob("out/*")}
    assert found == expected
    examples, left_out = expected["input0"].count("\n"), int(task == "snli")
    report = capsys.readouterr().out
    assert f"train: {examples} examples; without a label that annotators agree on, and left out: {left_out}" in report


@pytest.mark.parametrize(("task", "text", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_file_and_line(tmp_path, task, text, message):
    with pytest.raises(SystemExit) as end:
        read(tmp_path, task, text)
    assert f"{tmp_path}/in{message}" in str(end.value)
    assert not list((tmp_path / "out").iterdir())


def read_sst(folder: Path, words: str, parents: str, phrases: list[str]) -> list[str]:
    (folder / "SOStr.txt").write_text(words)
    (folder / "STree.txt").write_text(parents)
    (folder / "in").write_text("sentence\tlabel\n" + "".join(f"{phrase} \t1\n" for phrase in phrases))
    read_task.main(["sst2", str(folder / "in"), "--trees", str(folder), "--output", str(folder / "out/train")])
    return (folder / "out/train.input0.trees").read_text().splitlines()


def test_trees_of_sentiment(tmp_path, capsys):
    """The second sentence's constituents are numbered from the root down."""
    phrases = ["it 's ( fun", "'s ( fun", "fun", "it fun", "and/or sad"]
    found = read_sst(tmp_path, "Bad|and\\/or|sad\nIt|'s|(|fun\n", "5|4|4|5|0\n5|6|7|7|0|5|6\n", phrases)
    assert found == [
        "(X (X it) (X (X 's) (X (X -LRB-) (X fun))))",
        "(X (X 's) (X (X -LRB-) (X fun)))",
        "(X fun)",
        "(()) not_in_the_treebank",
        "(X (X and/or) (X sad))",
    ]
    assert "train.input0.trees: without a tree: 1" in capsys.readouterr().out


@pytest.mark.parametrize("parents", ["5|4|4|5|6", "5|4|4|5", "4|5|4|5|0", "5|4|4|9|0", "5|4|4|4|0", "5|4|x|5|0", ""])
def test_parents_that_make_no_tree_are_refused(tmp_path, parents):
    with pytest.raises(SystemExit, match=r"STree\.txt:1: expected the parents of a tree over 'Bad\|and\|sad', found"):
        read_sst(tmp_path, "Bad|and|sad\n", f"{parents}\n", ["sad"])


PUBLISHED = {  # examples; labels
    "cola/in_domain_train.tsv": ("cola", 8551, 2),
    "rte/train.tsv": ("rte", 2490, 2),
    "mrpc/train.txt": ("mrpc", 4076, 2),
    "sst/sst2_dev.tsv": ("sst2", 872, 2),
    "stsb/train.tsv": ("stsbenchmark", 5749, None),
    "sick/SICK.txt": ("sick", 9927, 3),
    "semeval/TRAIN_FILE.TXT": ("semeval", 8000, 19),
    "hans/hans.txt.gz": ("hans", 15000, 2),
}


@pytest.mark.skipif(not DATA, reason="FAIRSEQ_SYNTAX_DATA is not set: no real data to read")
@pytest.mark.parametrize("name", others_nightly(PUBLISHED, PUBLISHED.keys() - {"sst/sst2_dev.tsv"}))
def test_published_files(tmp_path, name):
    task, examples, labels = PUBLISHED[name]
    content = (Path(DATA or "") / "understanding" / name).read_bytes()
    (tmp_path / "in").write_bytes(gzip.decompress(content) if name.endswith(".gz") else content)
    trees = ["--trees", f"{DATA}/understanding/sst"] if task == "sst2" else []
    read_task.main([task, str(tmp_path / "in"), "--output", str(tmp_path / "train"), *trees])
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in tmp_path.glob("train.*")}
    assert {len(of) for of in lines.values()} == {examples}
    assert not any(tree.startswith("(())") for tree in lines.get("train.input0.trees", ()))
    assert labels in (None, len(set(lines["train.label"])))
