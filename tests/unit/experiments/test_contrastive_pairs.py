"""Contrastive pairs by rule from German text, and those of LingEval97."""

from __future__ import annotations

import gzip

import pytest

from syntax_data.scoring.contrastive import accuracies
from syntax_experiments.corpora.contrastive_pairs import Lexicon, german_pairs, main

TRAIN = """\
ein mann sieht einen hund
zwei männer sehen einen hund und einen roten hund
ein mann sitzt im gras und hält einen hut
zwei frauen sitzen und halten einen hut oder eine mütze
ein hund läuft mit einem hut und einer mütze
drei hunde laufen um das haus und eine mütze
eine frau rast um das haus , das haus ist rot
zwei frauen spielen und setzen eine frau oder einen mann
ein mann spielt für eine frau , einen mann und einen mann
eine frau steht bei einer frau mit einem hut
zwei frauen stehen auf einen hut und den rasen""".splitlines()

#: By category a right translation, and the wrong ones with the words that differ.
CASES = {
    "article case": {
        "ein mann sieht einen roten hut .": ["einen mann sieht einen roten hut .", "ein mann sieht ein roten hut ."],
        "sie spielt mit einem roten hut und einer mütze .": [
            "sie spielt mit einen roten hut und einer mütze .",
            "sie spielt mit einem roten hut und eine mütze .",
        ],
        "die frau und das haus": ["der frau und das haus", "die frau und dem haus"],
        "auf dem hut": ["auf der hut"],  # the accusative would be right elsewhere
        "in einer mütze , in einem haus": [],  # so would that of feminine and neuter nouns, which is their nominative
        "ein paar männer , der mann , eine unbekannte , einen hut entlang": [],
    },
    "relative pronoun": {
        "ein hund , der im gras sitzt .": ["ein hund , die im gras sitzt ."],
        "ein haus , in dem frauen spielen": ["ein haus , in der frauen spielen"],
        "frauen , deren hüte rot sind": ["frauen , dessen hüte rot sind"],
        "sie spielt , der hund ist rot .": [],  # a main clause
        "ein mann versucht , die frau zu sehen": [],
    },
    "verb position": {
        "sie spielt , während ein alter mann im gras sitzt .": [
            "sie spielt , während ein alter mann sitzt im gras ."
        ],
        "ein hund , der ihm zusieht .": ["ein hund , der zusieht ihm ."],
        "sie spielt , während ein mann sitzt .": [],
    },
    "agreement": {
        "ein mann mit hut sieht rot .": ["ein mann mit hut sehen rot ."],
        "zwei frauen laufen .": ["zwei frauen läuft ."],
        "ein mann mit hunden , die im gras sitzen": ["ein mann mit hunden , die im gras sitzt"],
        "eine gruppe von frauen sitzt .": [],
        "ein mann auf dem rasen .": [],
    },
}  # fmt: skip


@pytest.mark.parametrize(("category", "right"), [(name, right) for name, of in CASES.items() for right in of])
def test_wrong_translations_by_rule(category, right):
    found = [wrong for of, wrong in german_pairs(right, Lexicon.of(TRAIN)) if of == category]
    assert found == CASES[category][right]


def test_files_of_pairs_by_rule_and_of_lingeval(tmp_path, capsys):
    texts = {
        "train": TRAIN,
        "source": ["one", "two"],
        "target": ["zwei frauen laufen .", "ein mann mit hut sieht rot ."],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    for name, line in (("src.en", "A"), ("tgt.correct.de", "B"), ("tgt.incorrect.de", "C")):
        (tmp_path / "order.human").mkdir(exist_ok=True)
        with gzip.open(tmp_path / f"order.human/{name}.gz", "wt") as file:
            file.write(f"{line}\n")

    def written() -> list[list[str]]:
        files = [tmp_path / f"out.{name}" for name in ("source", "right", "wrong", "category")]
        return list(map(list, zip(*(file.read_text().splitlines() for file in files), strict=True)))

    main(["german", *(str(tmp_path / name) for name in texts), str(tmp_path / "out")])
    assert capsys.readouterr().out == "article case: 1 pairs\nagreement: 2 pairs\n"
    assert written() == [
        ["two", "ein mann mit hut sieht rot .", "einen mann mit hut sieht rot .", "article case"],
        ["one", "zwei frauen laufen .", "zwei frauen läuft .", "agreement"],
        ["two", "ein mann mit hut sieht rot .", "ein mann mit hut sehen rot .", "agreement"],
    ]
    main(["lingeval", str(tmp_path / "order.human"), str(tmp_path / "out")])
    assert written() == [["A", "B", "C", "order"]]
    (tmp_path / "order.human/src.en.gz").unlink()
    with pytest.raises(SystemExit, match=r"src\.en\.gz: expected a file, found none"):
        main(["lingeval", str(tmp_path / "order.human"), str(tmp_path / "out")])
    (tmp_path / "source").write_text("one\n")
    with pytest.raises(SystemExit, match="target: expected 1 lines, found 2"):
        main(["german", *(str(tmp_path / name) for name in texts), str(tmp_path / "out")])


def test_accuracies_by_hand():
    found = accuracies([("a", True), ("b", False), ("a", False), ("a", True), ("all", True)])
    assert [(name, *of, of.percent) for name, of in found.items()] == [
        ("a", 3, 2, pytest.approx(200 / 3)), ("b", 1, 0, 0), ("all", 5, 3, 60)
    ]  # fmt: skip
