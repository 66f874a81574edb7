"""R-Drop, fairseq's criterion that runs each batch twice through the model."""

from __future__ import annotations

import copy
from random import Random
from types import SimpleNamespace

import torch
from fairseq import criterions

import small
from fairseq_syntax.testing import random_features


def sample():
    """A batch in which one sentence has no parse."""
    random = Random(3)
    net_input = small.batch([random_features(random, 4, 6), 5, random_features(random, 6, 9)])
    target = net_input["prev_output_tokens"].roll(-1, dims=1)
    return {"id": torch.arange(3), "net_input": net_input, "target": target, "ntokens": target.numel()}


def loss_of(net, batch, **r_drop):
    name = "label_smoothed_cross_entropy" + ("_with_rdrop" if r_drop else "")
    task = SimpleNamespace(target_dictionary=small.dictionary())
    criterion = criterions.CRITERION_REGISTRY[name](task, sentence_avg=False, label_smoothing=0.1, **r_drop)
    loss, _, log = criterion(net, batch)
    return loss, log


def test_both_copies_of_a_batch_have_its_features():
    net = small.model(syntax_masks="slr,sdoi").eval()
    batch = sample()
    twice, log = loss_of(net, batch, rdrop_alpha=5.0)
    once, _ = loss_of(net, batch)
    torch.testing.assert_close(twice, 2 * once)
    assert abs(log["rdrop_kl_loss"]) < 1e-5


def test_a_batch_is_as_it_was_afterwards():
    batch = sample()
    before = copy.deepcopy(batch)
    loss_of(small.model(), batch, rdrop_alpha=5.0)
    torch.testing.assert_close(batch, before, rtol=0, atol=0)


def test_copies_differ_by_dropout_and_that_trains_the_gates():
    net = small.model(dropout=0.3).train()
    loss, log = loss_of(net, sample(), rdrop_alpha=5.0)
    assert log["rdrop_kl_loss"] > 0
    loss.backward()
    assert all(p.grad.ne(0).any() for gate in net.gates.values() for p in gate.parameters())
