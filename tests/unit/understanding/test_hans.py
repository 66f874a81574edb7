"""HANS's table as splits: kinds of sentences that are held out, and examples that are left out."""

from __future__ import annotations

import gzip

import pytest

from syntax_experiments.corpora import hans

COLUMNS = ["gold_label", "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "subcase"]
TREE = "(ROOT (S (NP (NNS Dogs)) (VP (VBP {})) (. .)))"


def row(verb: str, kind: str, *, of_tree: str = "") -> str:
    label = "entailment" if kind[1] == "e" else "non-entailment"
    tree = TREE.format(of_tree or verb)
    return "\t".join([label, tree, tree, f"Dogs {verb} .", f"Dogs {verb} .", kind])


@pytest.mark.parametrize("packed", [False, True])
def test_splits(tmp_path, capsys, packed):
    rows = [row(f"v{i}", "le_conjunction") for i in range(20)]
    rows += [row("ran", "ln_passive"), row("sat", "ce_after_since_clause"), row("ate", "le_passive", of_tree="eat")]
    text = "".join(f"{line}\n" for line in ["\t".join(COLUMNS), *rows])
    path = tmp_path / f"hans.txt{'.gz' * packed}"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    hans.main([str(path), str(tmp_path / "out")])
    found = {split: (tmp_path / f"out/{split}.input1").read_text().splitlines() for split in ("train", "valid", "test")}
    assert found["test"] == ["Dogs ran .", "Dogs sat ."]
    assert (found["valid"], len(found["train"])) == (["Dogs v9 .", "Dogs v19 ."], 18)
    assert (tmp_path / "out/test.label").read_text() == "non-entailment\nentailment\n"
    assert (tmp_path / "out/test.input0.trees").read_text().splitlines()[0] == TREE.format("ran")
    assert "left out, with other words in a tree: 1" in capsys.readouterr().out


def test_another_table_is_refused(tmp_path):
    (tmp_path / "rte.tsv").write_text("index\tsentence1\n")
    with pytest.raises(SystemExit, match=r"rte\.tsv:1: expected a column sentence2, found index, sentence1"):
        hans.main([str(tmp_path / "rte.tsv"), str(tmp_path / "out")])


def test_one_kind_of_each_heuristic_and_label_is_held_out():
    assert sorted(kind[:2] for kind in hans.HELD_OUT) == ["ce", "cn", "le", "ln", "se", "sn"]
