"""Operations and copies that a GPU is asked for, on torch's meta device: shapes and types, no numbers."""

from __future__ import annotations

import os
from functools import cache
from random import Random

import pytest
import torch
import torch.nn.functional as F
from fairseq.utils import apply_to_sample
from torch.overrides import TorchFunctionMode

import systems
from fairseq_syntax.modules.gate_norm import GateBatchNorm
from fairseq_syntax.testing import LABELS, CopiesOfDevice
from pairwise import pairwise
from small import batch, model


class Answers(TorchFunctionMode):
    """Says no and yes by turns where Python asks a tensor for its truth, for which it would wait; counts how often."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.__bool__:
            self.asked += 1
            return self.asked % 2 == 0
        return function(*args, **(kwargs or {}))


def step(arch, dtype, training, **options):
    """One pass, backward too in training; the output, the model, how often Python waited, and what it copied."""
    random = Random(7)
    net_input = batch([*(systems.features(random, words, words + 2) for words in (1, 5, 9)), 8])
    if "roberta" in arch:
        net_input = systems.pairs()
    if arch in ("transformer", "roberta"):
        del net_input["src_syntax"]
    learned = {"encoder_learned_pos": True}  # fairseq's sinusoids have no meta
    learned |= {} if "roberta" in arch else {"decoder_learned_pos": True}
    net = model(arch, dropout=0.1, **learned, **options).to("meta", dtype).train(training)

    def moved(value):
        return {k: moved(v) for k, v in value.items()} if isinstance(value, dict) else value.to("meta")

    there = moved(net_input)
    with Answers() as answers, CopiesOfDevice() as copies, torch.set_grad_enabled(training):
        logits = net(**there)[0]
        if training:
            targets = torch.empty(logits.shape[0] * logits.shape[1], dtype=torch.long, device="meta")
            F.cross_entropy(logits.float().flatten(0, 1), targets).backward()
    return logits, net, answers.asked, copies.count


#: Once a pass, is there padding: in the encoder, and in the decoder. fairseq's encoder asks again in each layer.
WAITS = 2


@cache
def of_stock(arch, dtype, training, dropout):
    """How often fairseq's Transformer or RoBERTa waits, and what it copies."""
    return step(arch, dtype, training, attention_dropout=dropout)[2:]


EDGES = {"tree_edge_values": True, "tree_edge_dropout": 0.5, "deprel_labels": " ".join(LABELS)}

#: Models by their options; each system, and variants of the gated one.
MODELS = [
    *{**systems.SYSTEMS, **systems.ROBERTAS}.items(),
    ("pascal_transformer", {"parent_ignoring": 0.3}),
    *((system, systems.LABELLED.get(system, {})) for system in systems.OF_POSITIONS),
    *(
        ("gated_syntax_transformer", options)
        for options in (
            {"syntax_masks": "slr", "slr": "hard", "syntax_heads": 2},
            {"syntax_masks": "sdoi", "sdoi_subwords": "first", "syntax_combination": "average"},
            {"gate_batch_norm_statistics": "batch"},
            {"syntax_masks": "position,slr", "position_bias": True},
            {"syntax_masks": "tree_edge,tree_path", "syntax_combination": "product", **EDGES},
            {"syntax_masks": "tree_edge,slr", "tree_edge_factored": True, **EDGES},
            {"syntax_masks": "slr,sdoi", "syntax_heads": 2, "syntax_attention_dropout_on": "experts"},
        )
    ),
]


@pytest.mark.parametrize(
    ("chosen", "dtype", "passes", "implementation"),
    pairwise(
        MODELS,
        [torch.float32, torch.float16],
        [(True, 0.0), (True, 0.1), (False, 0.1)],
        ["reference", "sdpa"],  # what auto takes on CUDA
    ),
    ids=str,
)
def test_all_is_made_where_the_model_is_and_in_its_precision(chosen, dtype, passes, implementation):
    (system, options), (training, dropout) = chosen, passes
    dropouts = {"attention_dropout": dropout, "syntax_dropout": dropout}
    options = {**options, **dropouts, "syntax_attention_impl": implementation}
    logits, net, asked, copies = step(system, dtype, training, **options)
    assert (logits.device.type, logits.dtype) == ("meta", dtype)
    assert all(p.grad is not None and p.grad.dtype == dtype for p in net.parameters() if training)
    for norm in net.modules():
        if isinstance(norm, GateBatchNorm):
            assert (norm.running_mean.device.type, norm.running_mean.dtype) == ("meta", torch.float32)
    stock, waits = ("roberta", 1) if system in systems.ROBERTAS else ("transformer", WAITS)
    assert copies == of_stock(stock, dtype, training, dropout)[1]
    waits_for_parses = training and dropout > 0 and bool(net.syntax_encoder.options.biases)  # syntax dropout: has each?
    assert asked - waits == waits_for_parses


def test_copies_of_a_device_are_counted():
    x, on_host = torch.ones(3, 4, device="meta"), torch.arange(2)
    for copy in (
        lambda: torch.tensor([1, 2], device=x.device),
        lambda: x.new_tensor([1, 2]),
        lambda: x[:, (0, 2)],  # numbers from Python
        lambda: x.__setitem__((slice(None), [0, 2]), 1.0),
        lambda: x[:, on_host],
        lambda: on_host.to(x.device),
        lambda: torch.empty(2, device="meta").copy_(on_host),
    ):
        with CopiesOfDevice() as found:
            copy()
        assert found.count == 1
    with CopiesOfDevice() as found:
        x[:, torch.zeros(2, dtype=torch.long, device="meta")] = x[0, 1:3, None] * torch.tensor(2.0)
        x.new_zeros(3).to(torch.float16).split([1, 2])
    assert found.count == 0


def test_no_run_of_the_tests_but_that_for_gpus_sees_one():
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU (pytest -m gpu)")
@pytest.mark.parametrize("system", [*systems.SYSTEMS, *systems.ROBERTAS])
def test_a_gpu_computes_what_a_cpu_does(system):
    random = Random(7)
    net_input = batch([*(systems.features(random, words, words + 2) for words in (1, 5, 9)), 8])
    if system in systems.ROBERTAS:
        net_input = systems.pairs()
    found = []
    for device in ("cpu", "cuda"):
        net = systems.model(system).eval().to(device)
        moved = apply_to_sample(lambda tensor, device=device: tensor.to(device), net_input)
        net(**moved)[0].logsumexp(-1).sum().backward()
        found.append({name: p.grad.cpu() for name, p in net.named_parameters() if p.grad is not None})
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)
