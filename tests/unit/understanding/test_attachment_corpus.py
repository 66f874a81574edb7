"""The made-up task: only the tree determines the label."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.conllu import parse_conllu
from syntax_experiments.corpora import attachment


@pytest.fixture(params=[1, 2], ids=["one segment", "two segments"])
def task(request):
    return attachment.make_task(Random(2), segments=request.param, train=300, held_out=40)


def test_words_alone_answer_half_of_the_test_questions(task):
    for split in ("valid", "test"):
        counts = Counter((str([s.source() for s in q.segments]), q.answer) for q in task[split])
        assert all(counts[text, not answer] == count for (text, answer), count in counts.items())
        assert len({text for text, _ in counts}) == 40
    assert 0.4 < sum(question.answer for question in task["train"]) / 300 < 0.6


def test_splits_share_no_sentence_and_a_question_is_there_once(task):
    sentences = {split: {tuple(q.segments[0].source()) for q in questions} for split, questions in task.items()}
    assert len(task["train"]) == len(sentences["train"]) == 300
    assert len(set.union(*sentences.values())) == 300 + 40 + 40
    assert all(len(set(questions)) == len(questions) for questions in task.values())


def test_trees_are_those_of_the_words_and_give_the_label(task):
    for question in task["test"]:
        for segment in question.segments:
            (tree,) = parse_brackets(segment.tree(), path="x", line=1)
            dependencies = parse_conllu(segment.conllu().splitlines(), path="x", line=1)
            assert tree.leaves() == dependencies.tokens == segment.source()
        example, *statement = question.segments
        heads, words = parse_conllu(example.conllu().splitlines(), path="x", line=1).heads, example.source()
        if statement:
            host, noun = words.index(statement[0].host), words.index(statement[0].noun)
        else:
            host, noun = 2, len(words) - 1
        assert question.answer == (heads[noun] == host + 1)


def test_same_seed_same_task():
    one, again, other = (attachment.make_task(Random(seed), segments=2, train=9, held_out=2) for seed in (1, 1, 2))
    assert one == again != other


def test_numbers_of_the_documented_task(tmp_path):
    task = attachment.make_task(Random(1), segments=1, train=4000, held_out=100)
    attachment.write(tmp_path, "test", task["test"])
    assert {path.name: path.read_text().count("\n") for path in tmp_path.iterdir() if path.suffix != ".conllu"} == {
        "test.input0": 314, "test.input0.trees": 314, "test.label": 314,
    }  # fmt: skip
    assert (tmp_path / "test.input0.conllu").read_text().count("\n\n") == 314
    assert (tmp_path / "test.label").read_text().count("yes") == 157
