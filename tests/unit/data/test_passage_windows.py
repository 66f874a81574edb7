"""Windows of passages as a dataset: tokens, spans and features."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

import small
from fairseq_syntax.data.passage_windows import Layout, PassageWindows, Text
from fairseq_syntax.modules.biases import BiasBuilder, SyntacticDependencyOfInterest, SyntacticLocalRange
from fairseq_syntax.modules.syntax_batch import SPECIAL
from fairseq_syntax.testing import EOS, FIRST_WORD, PAD, random_features
from syntax_data.squad.read import SquadExample
from syntax_data.squad.windows import windows

BOS = 0
DICTIONARY = Dictionary()


def text(lengths: Sequence[int], *, random: Random | None = None, first: int = FIRST_WORD) -> Text:
    """Lines of consecutive numbers from `first` on, with random features."""
    tokens = small.Rows([[*range(first, first + n), EOS] for n in lengths])
    features = [random_features(random, max(n - 2, 1), n) for n in lengths] if random else []
    return Text(
        tokens, {name: [torch.tensor(of[name]) for of in features] for name in (features[0] if features else ())}
    )


def dataset(
    examples: Sequence[SquadExample], *, labels: bool = False, random: Random | None = None, **layout
) -> PassageWindows:
    """Questions of 2 and 5 subwords, from 10 on; passages of 9 and 3, from 20 on."""
    settings = {"window": 10, "stride": 3, "max_question": 3, **layout}
    texts = {"questions": text([2, 5], random=random, first=10), "passages": text([9, 3], random=random, first=20)}
    return PassageWindows(examples, **texts, layout=Layout(**settings), dictionary=DICTIONARY, labels=labels)


ANSWERABLE = SquadExample("a", 0, 1, False, [[4, 5], [0, 0]])
IMPOSSIBLE = SquadExample("b", 1, 0, True, [])


@pytest.mark.parametrize("passage_first", [False, True])
def test_tokens_and_targets_of_windows(passage_first):
    data = dataset([ANSWERABLE, IMPOSSIBLE], passage_first=passage_first)
    assert data.windows == [(0, range(3)), (0, range(3, 6)), (0, range(6, 9)), (1, range(3))]
    batch = data.collater([data[i] for i in range(4)])
    question, passage = [10, 11, 12], [[20, 21, 22], [23, 24, 25], [26, 27, 28]]
    expected = [
        [BOS, *p, EOS, EOS, *question, EOS] if passage_first else [BOS, *question, EOS, EOS, *p, EOS] for p in passage
    ]
    short = [BOS, 20, 21, 22, EOS, EOS, 10, 11, EOS] if passage_first else [BOS, 10, 11, EOS, EOS, 20, 21, 22, EOS]
    assert batch["net_input"]["src_tokens"].tolist() == [*expected, [*short, PAD]]
    assert batch["net_input"]["src_lengths"].tolist() == [10, 10, 10, 9] == data.sizes.tolist()
    assert "src_syntax" not in batch["net_input"]
    firsts = [1] * 4 if passage_first else [6, 6, 6, 5]
    assert batch["passage"].tolist() == [[first, first + 3] for first in firsts]
    assert batch["target"].tolist() == [[0, 0], [2, 3] if passage_first else [7, 8], [0, 0], [0, 0]]
    assert (batch["nsentences"], batch["ntokens"], batch["id"].tolist()) == (4, 39, [0, 1, 2, 3])
    labelled = dataset([ANSWERABLE, IMPOSSIBLE], labels=True)
    assert labelled.collater([labelled[i] for i in range(4)])["target"].tolist() == [1, 0, 1, 1]


def test_an_answer_that_a_window_cuts_is_none():
    data = dataset([SquadExample("a", 0, 0, False, [[2, 3]])], window=9, max_question=2)
    found = {tuple(window): data[i]["target"] for i, (_, window) in enumerate(data.windows)}
    assert found == {(0, 1, 2): (0, 0), (3, 4, 5): (0, 0), (6, 7, 8): (0, 0)}
    overlapping = dataset([SquadExample("a", 0, 0, False, [[2, 3]])], window=10, stride=2, max_question=2)
    assert [overlapping[i]["target"] for i in range(4)] == [(7, 8), (5, 6), (0, 0), (0, 0)]


@pytest.mark.parametrize("passage_first", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_masks_of_windows_are_those_of_the_whole_texts(seed, passage_first):
    data = dataset([ANSWERABLE, IMPOSSIBLE], random=Random(seed), max_question=4, passage_first=passage_first)
    build = BiasBuilder([SyntacticLocalRange(form="hard"), SyntacticDependencyOfInterest()])

    def masks(features) -> torch.Tensor:
        return small.log_masks(build({name: values[None] for name, values in features.items() if name != SPECIAL}))[0]

    batch = data.collater([data[i] for i in range(len(data))])
    for row, (number, window) in enumerate(data.windows):
        features = {name: values[row] for name, values in batch["net_input"]["src_syntax"].items()}
        length = int(batch["net_input"]["src_lengths"][row])
        found = masks({name: values[:length] for name, values in features.items()})
        example = data.examples[number]
        of_question = range(min(data.questions.subwords(example.question), 4))
        start = 1 if passage_first else len(of_question) + 3
        parts = [(data.passages, example.passage, window, start)]
        parts += [(data.questions, example.question, of_question, len(window) + 3 if passage_first else 1)]
        for lines, line, subwords, at in parts:
            whole = masks({name: rows[line] for name, rows in lines.features.items()})
            part = slice(at, at + len(subwords))
            inside = slice(subwords.start, subwords.stop)
            torch.testing.assert_close(found[:, part, part], whole[:, inside, inside])
            assert features[SPECIAL][part].tolist() == [0] * len(subwords)
        assert features[SPECIAL][:length].sum() == 4


def test_all_windows_are_in_batches_and_each_epoch_has_its_order():
    data = dataset([ANSWERABLE, IMPOSSIBLE] * 9)
    orders = [data.ordered_indices().tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    for order in orders:
        assert [data.size(i) for i in order] == sorted(data.sizes)
        batches = data.batch_by_size(np.array(order), max_tokens=40, required_batch_size_multiple=8)
        assert sorted(i for batch in batches for i in batch) == [*range(len(data))]
    assert data.num_tokens_vec(np.array([3, 0])).tolist() == [data.num_tokens(3), data.num_tokens(0)] == [9, 10]
    assert len(windows(9, 3, 3)) * 9 + 9 == len(data)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"window": 7}, "--window: expected more tokens than the question's 3 .* and 4 special ones, found 7"),
        ({"stride": 0}, "--stride from 1 and --max-question from 0, found 0 and 3"),
        ({"max_question": -1}, "found 3 and -1"),
    ],
)
def test_layouts_without_room_are_refused(layout, message):
    with pytest.raises(ValueError, match=message):
        dataset([], **layout)


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (SquadExample("a", 2, 0, True, []), r"question a: expected the passage in line 2 \(from 0\), found 2 lines"),
        (SquadExample("a", 0, -1, True, []), r"question a: expected the question in line -1 \(from 0\), found 2 lines"),
        (
            SquadExample("a", 1, 0, False, [[0, 1], [2, 3]]),
            "question a: expected a passage of more than 3 subwords, found 3",
        ),
    ],
)
def test_examples_of_another_text_are_refused(example, message):
    with pytest.raises(ValueError, match=message):
        dataset([example])
