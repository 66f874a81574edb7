"""What else is done with a model: copies, torch.compile and TorchScript."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

import small
import systems


def output_and_gradients(net, encoder):
    """Of a pass in training, in which gates are frozen."""
    inputs = {name: value for name, value in systems.batch().items() if name != "prev_output_tokens"}
    output = encoder(**inputs)["encoder_out"][0]
    output.square().sum().backward()
    assert all(p.grad.eq(0).all() for gate in net.gates.values() for p in gate.parameters())
    return [output, *(p.grad for p in net.encoder.parameters()), *net.encoder.buffers()]


@pytest.mark.nightly
@pytest.mark.parametrize("training", [False, True])
def test_copies_and_what_torch_compiles_are_the_same_model_and_as_frozen(training):
    net = small.model(syntax_masks="slr,sdoi", gate_warmup_epochs=1, encoder_layers=1).train(training)
    net.begin_epoch(1)
    copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.deepcopy(net)]
    encoders = [of.encoder for of in copies]
    encoders[2] = torch.compile(encoders[2], backend="eager")
    expected = output_and_gradients(net, net.encoder)
    for of, encoder in zip(copies, encoders, strict=True):
        torch.testing.assert_close(output_and_gradients(of, encoder), expected)


def test_torchscript_is_refused_and_leaves_the_model_as_it_was():
    net = small.model().eval()
    before = small.encode(net, systems.batch())
    generator = SequenceGenerator([net], small.dictionary(), beam_size=2)
    for module in (net, net.encoder, generator):
        with pytest.raises(NotImplementedError, match=r"TorchScript .* syntax features .* torch\.compile"):
            torch.jit.script(module)
    assert torch.equal(small.encode(net, systems.batch()), before)
