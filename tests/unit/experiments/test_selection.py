"""Lines are selected by measures of a drawn parse."""

from __future__ import annotations

import json

import pytest
from steps_in import step_in

from syntax_experiments.make import read_lines
from syntax_experiments.steps import selection

#: By word: tag, head and relation. "with telescopes" is attached to the verb, "of Ann" to a noun.
SAW = [
    ("I", "PRON", 2, "nsubj"),
    ("saw", "VERB", 0, "root"),
    ("men", "NOUN", 2, "obj"),
    ("of", "ADP", 5, "case"),
    ("Ann", "PROPN", 3, "nmod"),
    ("who", "PRON", 7, "nsubj"),
    ("sleep", "VERB", 3, "acl:relcl"),
    ("with", "ADP", 9, "case"),
    ("telescopes", "NOUN", 2, "obl"),
]
ENDS = [("It", "PRON", 2, "nsubj"), ("ends", "VERB", 0, "root")]
TREES = [
    "(S (NP I) (VP saw (NP (NP (NP men) (PP of (NP Ann))) (SBAR who (VP sleep))) (PP with (NP telescopes))))",
    "(S (NP It) (VP ends))",
]
LINES = ["I saw men of Ann who sleep with telescopes", "It ends", "I saw men of Ann who sleep with telescopes It ends"]


def conllu(*sentences):
    """A line's sentences in one block, their words counted on."""
    rows = [f"# sentences = {len(sentences)}"]
    for sentence in sentences:
        before = len(rows) - 1
        for i, (word, tag, head, relation) in enumerate(sentence, before + 1):
            columns = (i, word, "_", tag, "_", "_", head + before if head else 0, relation, "_", "_")
            rows.append("\t".join(map(str, columns)))
    return "\n".join(rows) + "\n\n"


@pytest.fixture
def parsed(tmp_path):
    """Text and parses of three lines: a rich sentence, a plain one, and both in one line."""
    (tmp_path / "text").mkdir()
    (tmp_path / "parses").mkdir()
    text = "".join(f"{line}\n" for line in LINES)
    for name in ("train.en", "train.de", "test.en", "test.de", "test.reference"):
        (tmp_path / "text" / name).write_text(text)
    (tmp_path / "text/counts.json").write_text("{}")
    for split in ("train", "test"):
        (tmp_path / f"parses/{split}.en.conllu").write_text(conllu(SAW) + conllu(ENDS) + conllu(SAW, ENDS))
        with open(tmp_path / f"parses/{split}.en.trees", "w") as file:
            file.writelines(f"{line}\n" for line in (*TREES, " ".join(TREES)))
    return tmp_path


def test_measures_of_a_drawn_parse(parsed):
    expected = {
        "words": [9, 2, 11],
        "height": [6, 2, 6],  # words 1, of Ann 2, men of Ann 3, men … sleep 4, the verb phrase 5, the sentence 6
        "depth": [4, 2, 4],  # words on the way: saw men Ann of
        "attachments": [2, 0, 2],
        "clauses": [2, 1, 3],
    }
    measured = selection.measure(expected, parsed / "text/test.en", parsed / "parses/test.en")
    assert measured.to_dict("list") == expected
    (parsed / "text/test.en").write_text("one\n")
    with pytest.raises(ValueError, match="expected 1 parses, found 3"):
        selection.measure(["clauses"], parsed / "text/test.en", parsed / "parses/test.en")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [0, 1, 2]),
        ({"words": [3, None]}, [0, 2]),
        ({"words": [3, 9]}, [0]),
        ({"depth": [None, 3]}, [1]),
        ({"attachments": [2, 2], "clauses": [3, None]}, [2]),
        ({"lines": 3, "seed": 7}, [0, 1, 2]),
        ({"words": [50, None]}, "test: expected at least one line with .*words.*, found 0"),
        ({"clauses": [2, None], "lines": 3}, "test: expected 3 lines with .*clauses.*, found 2"),
        ({"words": [9, 11], "per_length": 1}, "test: expected 1 lines of 10 words, found 0"),
    ],
)
def test_lines_within_all_ranges(parsed, wanted, found):
    settings = {"source": "en", "target": "de", "tests": ["test"], "subsets": {"some": wanted}}
    step = step_in(parsed / "out", settings, inputs={"text": parsed / "text", "parses of test": parsed / "parses"})
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            selection.subsets(step)
    else:
        selection.subsets(step)
        assert json.loads((parsed / "out/test.json").read_text()) == {"some": found}


@pytest.mark.parametrize("wanted", [{"lines": 10}, {"words": [1, 2], "per_length": 5}])
def test_a_sample_is_the_same_again(tmp_path, wanted):
    (tmp_path / "train.en").write_text("word\nsome words\n" * 50)

    def drawn(seed):
        settings = {"source": "en", "target": "de", "select": {"train": {**wanted, "seed": seed}}}
        selection.choose(step_in(tmp_path / "out", settings, inputs={"text": tmp_path}))
        return json.loads((tmp_path / "out/train.json").read_text())

    one, again, other = drawn(1), drawn(1), drawn(2)
    assert one == again == sorted(set(one)) != other
    assert len(one) == 10
    assert "lines" in wanted or sum(i % 2 for i in one) == 5, "as many of each length"


def test_text_and_parses_of_a_split_are_selected_alike(parsed):
    (parsed / "lines").mkdir()
    (parsed / "lines/train.json").write_text("[1]")
    inputs = {"text": parsed / "text", "parses": parsed / "parses", "lines": parsed / "lines"}
    selection.select(step_in(parsed / "chosen", {"what": "text", "source": "en"}, inputs=inputs))
    assert read_lines(parsed / "chosen/train.en") == read_lines(parsed / "chosen/train.de") == [LINES[1]]
    assert read_lines(parsed / "chosen/test.en") == read_lines(parsed / "chosen/test.reference") == LINES
    for split, kept in (("train", [TREES[1]]), ("test", [*TREES, " ".join(TREES)])):
        settings = {"what": "parses", "split": split, "source": "en"}
        selection.select(step_in(parsed / "trees", settings, inputs=inputs))
        assert read_lines(parsed / f"trees/{split}.en.trees") == kept
        assert (parsed / f"trees/{split}.en.conllu").read_text().count("\n\n") == len(kept)
