"""The made-up task: only the tree determines the label."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest

from syntax_data.squad.read import read_questions
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.conllu import parse_conllu
from syntax_experiments.corpora import attachment
from syntax_experiments.make import read_lines


@pytest.fixture(scope="module")
def tasks() -> dict[int, dict[str, list[attachment.Question]]]:
    """The task, by the number of segments."""
    return {n: attachment.make_task(Random(2), segments=n, train=300, held_out=40) for n in (1, 2)}


def best_accuracy(questions: list[attachment.Question], seen: tuple[int, ...]) -> float:
    """Return the best accuracy, in percent, of a system that sees all words, and the trees of some segments."""
    answers: dict[str, Counter[bool]] = defaultdict(Counter)
    for question in questions:
        words = [segment.source() for segment in question.segments]
        answers[str((words, [question.segments[i].tree() for i in seen]))][question.answer] += 1
    return 100 * sum(max(of.values()) for of in answers.values()) / len(questions)


@pytest.mark.parametrize(
    ("segments", "seen", "best"),
    [(1, (), 50), (1, (0,), 100), (2, (), 50), (2, (0,), 75), (2, (1,), 75), (2, (0, 1), 100)],
)
@pytest.mark.parametrize("split", ["valid", "test"])
def test_best_accuracy_by_the_trees_that_are_seen(tasks, segments, seen, best, split):
    questions = tasks[segments][split]
    assert best_accuracy(questions, seen) == best
    assert len({str([segment.source() for segment in question.segments]) for question in questions}) == 40


@pytest.mark.parametrize("segments", [1, 2])
def test_half_of_the_training_answers_are_yes(tasks, segments):
    assert 0.4 < sum(question.answer for question in tasks[segments]["train"]) / 300 < 0.6


@pytest.mark.parametrize("segments", [1, 2])
def test_splits_share_no_sentence_and_a_question_is_there_once(tasks, segments):
    task = tasks[segments]
    found = [{tuple(s.source()) for q in questions for s in q.segments} for questions in task.values()]
    assert [len(of) for of in found] == [300 * segments, 40 * segments, 40 * segments]
    assert len(set.union(*found)) == 380 * segments
    assert all(len(set(questions)) == len(questions) for questions in task.values())


@pytest.mark.parametrize("segments", [1, 2])
def test_trees_are_those_of_the_words_and_give_the_label(tasks, segments):
    for question in tasks[segments]["test"]:
        of_the_verb = []
        for segment in question.segments:
            (tree,) = parse_brackets(segment.tree(), path="x", line=1)
            dependencies = parse_conllu(segment.conllu().splitlines(), path="x", line=1)
            assert tree.leaves() == dependencies.tokens == segment.source()
            of_the_verb.append(dependencies.heads[-1] == 3)
        assert len(of_the_verb) == segments
        assert question.answer == all(of_the_verb)
        assert sum(of_the_verb) >= segments - 1


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


@pytest.mark.parametrize("split", ["train", "test"])
def test_of_half_of_the_passages_the_answer_is_the_verb(tasks, tmp_path, split):
    attachment.write(tmp_path, split, tasks[1][split], kind="spans")
    questions = read_questions(str(tmp_path / f"{split}.json"))
    blocks = (tmp_path / f"{split}.passage.conllu").read_text().strip().split("\n\n")
    trees = [parse_conllu(block.splitlines(), path="x", line=1) for block in blocks]
    assert len({question.passage for question in questions}) == len(questions) == len(trees)
    of_the_verb = 0
    for question, tree in zip(questions, trees, strict=True):
        ((answer, start),) = question.answers
        words = question.passage.split()
        place = words.index(answer)
        assert start == len(" ".join([*words[:place], ""]))
        assert tree.heads[len(words) - 1] == place + 1
        of_the_verb += place == 2
    assert 0.4 < of_the_verb / len(questions) < 0.6


def test_options_are_ranked_by_the_answer(tasks, tmp_path):
    attachment.write(tmp_path, "test", tasks[1]["test"], kind="ranking")
    label, *options = (read_lines(tmp_path / f"test.{name}") for name in ("label", "input1", "input2"))
    assert [of[int(right)] for right, *of in zip(label, *options, strict=True)] == [
        "the verb" if question.answer else "the noun" for question in tasks[1]["test"]
    ]
    for name in ("input0", "input1", "input2"):
        assert len((tmp_path / f"test.{name}.trees").read_text().splitlines()) == len(label)
