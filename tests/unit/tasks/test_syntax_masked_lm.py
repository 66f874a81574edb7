"""Batches of masked language modelling: fairseq's own, with the features of the lines under the masks."""

from __future__ import annotations

import pytest
import torch
from fairseq.data import data_utils
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

import data_bins
import example_bins
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.tasks.syntax_masked_lm import SyntaxMaskedLMConfig, SyntaxMaskedLMTask

FEATURES = ("word", "head", "distance", "upos")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Lines of 0 to 9 words, some of them empty, as between documents."""
    return example_bins.text(
        tmp_path_factory.mktemp("news") / "bin", {"train": [*data_bins.sentences(30, words=None), ""]}
    )


def loaded(kind, config, data, **options):
    given = {"data": str(data), "seed": 3, "tokens_per_sample": 20, "sample_break_mode": "complete", **options}
    ours = {"valid_subset": "valid", "train_subset": "train", "tpu": False} if kind is SyntaxMaskedLMTask else {}
    task = kind.setup_task(config(**given, **ours))
    task.syntax_features = set(FEATURES)
    task.load_dataset("train")
    return task.dataset("train")


BREAKS = ["eos", "complete", "complete_doc"]
SHORTENED = [{}, {"shorten_method": "truncate", "tokens_per_sample": 5}]


@pytest.mark.parametrize("options", SHORTENED, ids=str)
@pytest.mark.parametrize("breaks", BREAKS)
def test_batches_are_fairseqs_and_features_those_of_whole_lines(data, breaks, options):
    options = {"sample_break_mode": breaks, "mask_prob": 0.4, **options}
    found = loaded(SyntaxMaskedLMTask, SyntaxMaskedLMConfig, data, **options)
    stock = loaded(MaskedLMTask, MaskedLMConfig, data, **options)
    names = ["", *(f".{feature}" for feature in FEATURES)]
    tokens, *features = [data_utils.load_indexed_dataset(f"{data}/train{name}", None) for name in names]
    order = iter(range(len(tokens)))
    masked_specials = 0
    for i in range(len(found)):
        batch, expected = found.collater([found[i]]), stock.collater([stock[i]])
        syntax = batch["net_input"].pop("src_syntax")
        torch.testing.assert_close(batch, expected, rtol=0, atol=0)
        source, target = batch["net_input"]["src_tokens"][0], batch["target"][0]
        whole = torch.where(target == 1, source, target).tolist()  # without masks
        segments: list[Segment] = []
        left = len(whole) - 1
        while left:
            line = next(order)
            if breaks == "complete_doc" and len(tokens[line]) == 1:
                continue  # between documents
            rows = {name: row[line] for name, row in zip(FEATURES, features, strict=True)}
            kept, before = min(len(tokens[line]), 5 if "shorten_method" in options else 99), int(not segments)
            segments.append(Segment(rows, len(tokens[line]), before, before + kept))
            left -= kept
        for name, values in compose(segments, len(whole)).items():
            assert syntax[name][0].tolist() == (values.tolist() or [UNKNOWN] * len(whole)), (i, name)
        masked_specials += int((syntax["special"][0][target != 1] == 1).sum())
        assert [token in (0, 2) for token in whole] == syntax["special"][0].bool().tolist()
    assert masked_specials  # <s> and </s> are masked, too


def test_features_of_an_example_are_the_same_in_every_epoch_while_masks_are_not(data):
    found = loaded(SyntaxMaskedLMTask, SyntaxMaskedLMConfig, data, mask_prob=0.3)
    epochs = []
    for epoch in (1, 2):
        found.set_epoch(epoch)
        batch = found.collater([found[i] for i in range(len(found))])
        epochs.append((batch["net_input"]["src_tokens"], batch["net_input"]["src_syntax"]))
    (first, syntax), (second, again) = epochs
    assert not torch.equal(first, second)
    assert all(torch.equal(syntax[name], again[name]) for name in syntax)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_break_mode": "none"}, "--sample-break-mode: expected eos, complete or complete_doc"),
        ({"shorten_method": "random_crop"}, "--shorten-method: expected none or truncate"),
        ({"d2v2_multi": True}, "--d2v2-multi: expected without it"),
        ({"mask_whole_words": True}, "--mask-whole-words: fairseq's task fails under it"),
    ],
)
def test_what_features_cannot_follow_is_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        loaded(SyntaxMaskedLMTask, SyntaxMaskedLMConfig, data, **options)


def test_masks_of_whole_words_still_fail_in_fairseq(data):
    """Once they do not, ours need not refuse them."""
    with pytest.raises(AttributeError, match="args"):
        loaded(MaskedLMTask, MaskedLMConfig, data, mask_whole_words=True)
