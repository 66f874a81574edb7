"""SQuAD: reading, windows, answers, and the official score."""

from __future__ import annotations

import itertools
import json
import os
import re
import string
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.errors import InputError
from syntax_data.squad import read, score
from syntax_data.squad.answers import Span, WindowLogits, best_spans, null_score, verified
from syntax_data.squad.read import Question
from syntax_data.squad.windows import most_context, windows
from syntax_data.text.subwords import subword_reader

PASSAGE = "Bill founded Acme.\nIt grew."
ANSWERABLE = {"id": "a", "question": "Who founded it?", "answers": [{"text": "Bill", "answer_start": 0}] * 2}
IMPOSSIBLE = {"id": "b", "question": "Who sold it?", "answers": [], "is_impossible": True}


def squad(path: Path, *qas: dict, passage: str = PASSAGE) -> str:
    path.write_text(json.dumps({"version": "v2.0", "data": [{"paragraphs": [{"context": passage, "qas": qas}]}]}))
    return str(path)


def pieces_of_two(text: str) -> str:
    """Subwords of at most two characters, marked as subword-nmt marks them."""
    return " ".join(re.sub(r"(..)(?=.)", r"\1@@ ", word) for word in text.split())


def test_a_split_has_each_text_once_and_the_answers_subwords(tmp_path):
    question = {**ANSWERABLE, "id": "c", "answers": [{"text": " founded ", "answer_start": 4}]}
    questions = read.read_questions(squad(tmp_path / "x.json", ANSWERABLE, IMPOSSIBLE, question))
    prefix = f"{tmp_path}/train"
    counts = read.write_split(prefix, questions, pieces_of_two, subword_reader("subword_nmt"))
    assert counts == {"questions": 3, "impossible": 1, "without is_impossible": 2, "passages": 1}
    assert Path(f"{prefix}.passage").read_text() == "Bill founded Acme. It grew.\n"
    assert Path(f"{prefix}.question").read_text().splitlines() == ["Who founded it?", "Who sold it?"]
    assert Path(f"{prefix}.passage.bpe").read_text() == "Bi@@ ll fo@@ un@@ de@@ d Ac@@ me@@ . It gr@@ ew@@ .\n"
    assert len(Path(f"{prefix}.question.bpe").read_text().splitlines()) == 2
    examples = read.read_examples(f"{prefix}.examples.jsonl")
    assert [(e.id, e.passage, e.question, e.impossible, e.answers) for e in examples] == [
        ("a", 0, 0, False, [[0, 1]]),
        ("b", 0, 1, True, []),
        ("c", 0, 0, False, [[2, 5]]),
    ]
    (passage,) = read.read_passages(f"{prefix}.passages.jsonl")
    assert passage.starts == [0, 2, 5, 7, 9, 11, 13, 15, 17, 19, 22, 24, 26]
    assert [passage.span(*span) for span in ((0, 1), (2, 5), (7, 9), (12, 12))] == ["Bill", "founded", "me. It", "."]


@given(st.text("ab é🙂", min_size=1).filter(str.strip), st.data())
def test_spans_are_the_shortest_that_hold_an_answer(text, data):
    """Also where a character has several subwords (bytes), and where a subword has no visible character."""
    subwords = []
    for word in text.split():
        subwords += ["▁"] if data.draw(st.booleans()) else []
        for i, character in enumerate(word):
            mark = "" if i or (subwords and subwords[-1] == "▁") else "▁"
            as_bytes = character in "é🙂" and not mark
            subwords += [f"<0x{byte:02X}>" for byte in character.encode()] if as_bytes else [mark + character]
    passage = read.find_subwords(text, subword_reader("sentencepiece")(subwords))
    start = data.draw(st.integers(0, len(text) - 1).filter(lambda i: not text[i].isspace()))
    end = data.draw(st.integers(start, len(text) - 1).filter(lambda i: not text[i].isspace())) + 1
    first, last = passage.subwords(start, end)
    assert passage.span(first, last) == text[start:end]
    assert all(passage.starts[i] < start for i in range(first))
    assert all(passage.starts[i] >= end for i in range(last + 1, len(subwords)))


def test_a_character_inside_a_subword_takes_all_of_it():
    passage = read.find_subwords("founded it", subword_reader("subword_nmt")(["found@@", "ed", "it"]))
    assert passage.subwords(3, 6) == [0, 1]
    assert passage.span(0, 1) == "founded"


def test_unknown_words_and_lost_accents_of_bert():
    """``[UNK]`` is a word between spaces and punctuation; an ideograph is one of its own."""
    subwords = ["ca", "##fe", "(", "[UNK]", ")", "[UNK]", "[UNK]", "##", ".", "x", "##y"]
    passage = read.find_subwords("Café (🙂☂) 漢字##. xy", subword_reader("wordpiece")(subwords))
    spans = [passage.span(i, i) for i in range(len(subwords))]
    assert spans == ["Ca", "fé", "(", "🙂☂", ")", "漢", "字", "##", ".", "x", "y"]


@pytest.mark.parametrize(
    ("qas", "message"),
    [
        (
            [{**ANSWERABLE, "answers": [{"text": "bill", "answer_start": 0}]}],
            "question a: expected the answer 'bill' as",
        ),
        ([{**ANSWERABLE, "answers": [{"text": "Bill", "answer_start": -4}]}], "characters -4 to 0 of the passage"),
        ([{**ANSWERABLE, "answers": [{"text": "grew.", "answer_start": 23}]}], "found 'rew.'"),
        ([{**ANSWERABLE, "answers": [{"text": " ", "answer_start": 4}]}], "expected the answer ' '"),
        ([ANSWERABLE, ANSWERABLE], "expected each id once, found 'a' twice"),
        (
            [{**ANSWERABLE, "is_impossible": True}],
            "question a: expected no answers, since is_impossible is true, found 2",
        ),
        ([{**ANSWERABLE, "answers": []}], "question a: expected an answer, or is_impossible: true, found 0"),
        ([], "expected SQuAD's questions, found none"),
        ([{"id": "a", "question": "x"}], "expected SQuAD's questions, found no 'answers'"),
    ],
)
def test_broken_questions_are_refused(tmp_path, qas, message):
    path = squad(tmp_path / "x.json", *qas)
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        read.read_questions(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_subwords_of_another_text_are_refused(tmp_path):
    questions = read.read_questions(squad(tmp_path / "x.json", IMPOSSIBLE))
    with pytest.raises(ValueError, match="passage of question b: expected the same text in both, found a difference"):
        read.write_split(f"{tmp_path}/x", questions, lambda line: "other words", subword_reader("words"))
    (blank,) = read.read_questions(squad(tmp_path / "y.json", IMPOSSIBLE, passage=" \n"))
    with pytest.raises(ValueError, match="passage of question b: expected text, found none"):
        read.write_split(f"{tmp_path}/x", [blank], str, subword_reader("words"))
    assert not [*tmp_path.glob("x.*s*l")]


@pytest.mark.parametrize(
    "line", ["{}", "[]", "x", '{"id": 1, "passage": 0, "question": 0, "impossible": true, "answers": []}']
)
def test_other_files_than_examples_are_refused(tmp_path, line):
    (tmp_path / "x").write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"x:1: expected a line of fairseq-syntax-squad prepare, found"):
        read.read_examples(str(tmp_path / "x"))


def test_an_example_is_there_once(tmp_path):
    line = '{"id": "a", "passage": 0, "question": 0, "impossible": true, "answers": []}\n'
    (tmp_path / "x").write_text(line * 2)
    with pytest.raises(InputError, match=r"x:2: expected a line .*, found the id 'a' twice"):
        read.read_examples(str(tmp_path / "x"))


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_windows_cover_the_passage_and_each_subword_has_one_with_most_context(length, width, stride):
    found = windows(length, width, stride)
    assert {i for window in found for i in window} == {*range(length)}
    assert all(len(window) == width for window in found[:-1])
    assert (len(found) == 1) == (length <= width)
    assert [b.start - a.start for a, b in itertools.pairwise(found)] == [min(width, stride)] * (len(found) - 1)
    window_of = most_context(found)
    assert len(window_of) == length

    def context(token: int, window: range) -> float:
        return min(token - window[0], window[-1] - token) + 0.01 * len(window) if token in window else -1

    for token, best in enumerate(window_of):
        assert best == max(range(len(found)), key=lambda i: (context(token, found[i]), -i))


def test_a_span_in_the_overlap_is_in_both_windows():
    assert windows(10, 6, 4) == [range(6), range(4, 10)]
    assert most_context(windows(10, 6, 4)).tolist() == [0] * 5 + [1] * 5


START = [1, 0.3, 0.1, 0.2, 0.5, 2, -0.5, 0.4, 0.9]
END = [0.8, 0.1, 0, 0.3, -1, 0.7, 1.9, 0.2, 1.2]


def test_the_answer_of_a_window():
    """``<s> q </s> </s> p1 p2 p3 p4 </s>``."""
    window = WindowLogits(range(4), np.array(START[4:8]), np.array(END[4:8]), START[0] + END[0])
    (best,) = best_spans([window], count=1, max_length=30)
    assert (best.first + 4, best.last + 4, best.score) == (5, 6, pytest.approx(3.9))
    (short,) = best_spans([window], count=1, max_length=1)
    assert (short.first + 4, short.last + 4, short.score) == (5, 5, pytest.approx(2.7))
    assert null_score([window]) == pytest.approx(1.8)
    assert null_score([window]) - best.score == pytest.approx(-2.1)
    assert verified(-1.1, 0.3, -0.4) == pytest.approx(-0.4)
    assert verified(-1.1, 0.3, -0.4, weights=(2, 0.5)) == pytest.approx(-1.85)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6), st.integers(1, 8), st.integers(0, 10**6))
def test_the_best_spans_are_those_of_all_pairs(length, width, stride, max_length, seed):
    random = np.random.default_rng(seed)
    found = windows(length, width, stride)
    logits = [WindowLogits(w, *random.integers(-3, 3, (2, len(w))) + 0.0, null=float(i)) for i, w in enumerate(found)]
    window_of = most_context(found)
    pairs = [
        Span(float(of.start[k - of.window[0]] + of.end[end - of.window[0]]), k, end)
        for i, of in enumerate(logits)
        for k in of.window
        for end in range(k, min(k + max_length, of.window[-1] + 1))
        if window_of[k] == i
    ]
    pairs.sort(key=lambda span: (-span.score, span.first, span.last))
    assert best_spans(logits, count=5, max_length=max_length) == pairs[:5]
    assert null_score(logits) == 0


# The official script's definitions, written again without ours.


def official_normalize(text: str) -> str:
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def official_f1(gold: str, found: str) -> float:
    gold_tokens, tokens = official_normalize(gold).split(), official_normalize(found).split()
    if not gold_tokens or not tokens:
        return int(gold_tokens == tokens)
    same = sum((Counter(gold_tokens) & Counter(tokens)).values())
    if same == 0:
        return 0
    precision, recall = same / len(tokens), same / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def official_scores(questions: list[Question], predictions: dict[str, str]) -> dict[str, float]:
    exact, of_f1 = {}, {}
    for question in questions:
        golds = [text for text, _ in question.answers if official_normalize(text)] or [""]
        found = predictions[question.id]
        exact[question.id] = max(int(official_normalize(gold) == official_normalize(found)) for gold in golds)
        of_f1[question.id] = max(official_f1(gold, found) for gold in golds)
    result = {}
    groups = {"": [q.id for q in questions]}
    groups["HasAns_"] = [q.id for q in questions if q.answers]
    groups["NoAns_"] = [q.id for q in questions if not q.answers]
    for name, ids in groups.items():
        if ids:
            result |= {
                f"{name}exact": 100.0 * sum(exact[i] for i in ids) / len(ids),
                f"{name}f1": 100.0 * sum(of_f1[i] for i in ids) / len(ids),
                f"{name}total": len(ids),
            }
    return result


def random_text(random: Random) -> str:
    words = ["the", "The", "A", "an", "ann", "cat", "Cat.", "dog's", "—", "...", "1,000", "état", "cat-dog", "\n"]
    return random.choice([" ", "  "]).join(random.choices(words, k=random.randint(1, 5)))


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_the_official_ones(seed):
    random = Random(seed)
    questions, predictions = [], {}
    for number in range(random.randint(1, 40)):
        answers = tuple((random_text(random), 0) for _ in range(random.choice([0, 0, 1, 3])))
        question = Question(str(number), "?", "", answers, not answers)
        questions.append(question)
        some = [text for text, _ in answers] or [""]
        predictions[question.id] = random.choice(["", random_text(random), random.choice(some)])
    found, expected = score.scores(questions, predictions), official_scores(questions, predictions)
    assert found == pytest.approx(expected, abs=1e-9)
    assert [*found] == [*expected]


def candidates(*rows: tuple[float, float, float]) -> list[score.Candidate]:
    return [score.Candidate(*row) for row in rows]


GOLDEN = candidates((-3, 1, 0), (-1, 0.5, 0), (-0.5, 0, 1), (0.2, 1, 0), (1.5, 0, 1), (2, 0, 0))


def mean_score(some: list[score.Candidate], threshold: float) -> float:
    return 100 * sum(c.empty if c.diff > threshold else c.score for c in some) / len(some)


def test_the_golden_sweep():
    thresholds = [-np.inf, -3, -1, -0.5, 0.2, 1.5]
    expected = [33.33, 50, 58.33, 41.67, 58.33, 41.67]
    assert [round(mean_score(GOLDEN, t), 2) for t in thresholds] == expected
    assert score.best_threshold(GOLDEN) == (-1, pytest.approx(58.3333, abs=1e-4))
    assert score.best_threshold(candidates((0, 0, 1), (1, 1, 0))) == (-np.inf, 50)


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3).map(float), st.sampled_from([0, 0.25, 0.4, 2 / 3, 1]), st.sampled_from([0.0, 1.0])
        ),
        min_size=1,
    )
)
def test_the_sweep_finds_what_all_thresholds_have(rows):
    some = candidates(*rows)
    found, best = score.best_threshold(some)
    thresholds = [-np.inf, *sorted({c.diff for c in some})]
    of_all = [mean_score(some, t) for t in thresholds]
    assert best == pytest.approx(max(of_all))
    assert mean_score(some, found) == pytest.approx(best)
    assert found == next(t for t, value in zip(thresholds, of_all, strict=True) if value > max(of_all) - 1e-6)


@pytest.mark.skipif("FAIRSEQ_SYNTAX_DATA" not in os.environ, reason="FAIRSEQ_SYNTAX_DATA: no SQuAD")
@pytest.mark.parametrize(("name", "number"), [("train-v2.0", 626), ("dev-v2.0", 706), ("squad_sample", 120)])
def test_the_spans_of_real_questions_hold_the_answers(tmp_path, name, number):
    path = Path(os.environ["FAIRSEQ_SYNTAX_DATA"]) / f"understanding/squad/{name}.json"
    questions = read.read_questions(str(path))
    assert len(questions) == number
    read.write_split(f"{tmp_path}/x", questions, pieces_of_two, subword_reader("subword_nmt"))
    passages = read.read_passages(f"{tmp_path}/x.passages.jsonl")
    examples = read.read_examples(f"{tmp_path}/x.examples.jsonl")
    predictions = {}
    for question, example in zip(questions, examples, strict=True):
        texts = [passages[example.passage].span(*span) for span in example.answers]
        assert all(any(text.strip() in found for found in texts) for text, _ in question.answers)
        predictions[question.id] = question.answers[0][0] if question.answers else ""
    assert score.scores(questions, predictions)["exact"] == 100
