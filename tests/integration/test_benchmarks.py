"""Counts of benchmarks/operations.py: what a model asks of its device."""

from __future__ import annotations

import json
import re

import pytest
import torch

import systems
from fairseq_syntax.modules.numerics import UNKNOWN
from places import ROOT

LAYERS = 6


@pytest.fixture(scope="module")
def counted():
    """By device and system what benchmarks/operations.py counts, 6+6 layers; on a CPU in the way that a GPU takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        import operations
        from random_models import SYSTEMS

        systems = operations.with_implementations(SYSTEMS, "gpu")
        found = {}
        for device, name in [("gpu", "transformer"), ("cpu", "transformer"), *MOST]:
            with operations.device(device):
                found[device, name] = operations.count(systems[name], LAYERS)
        return found


#: Ratios to stock's, which must not creep up: operations of a training step, of the encoder in evaluation, bytes kept,
#: those of them that grow with the square of the length.
MOST = {
    ("gpu", "slr"): (1.21, 1.43, 1.11, 2.01),
    ("gpu", "slr, dropout on experts"): (1.15, 1.43, 1.05, 1.0),
    ("gpu", "slr,sdoi"): (1.24, 1.74, 1.14, 2.31),
    ("gpu", "slr,sdoi, dropout on experts"): (1.18, 1.74, 1.08, 1.0),
    ("cpu", "slr"): (1.15, 1.52, 1.03, 1.12),
    ("cpu", "slr,sdoi"): (1.17, 1.80, 1.06, 1.23),
}


@pytest.mark.parametrize(("device", "system"), MOST)
def test_a_model_asks_little_more_of_its_device_than_stock(counted, device, system):
    stock, ours = counted[device, "transformer"], counted[device, system]
    found = (
        ours.training / stock.training,
        ours.encoder / stock.encoder,
        ours.kept / stock.kept,
        ours.kept_n_by_n / stock.kept_n_by_n,
    )
    assert all(of <= most for of, most in zip(found, MOST[device, system], strict=True)), found
    assert ours.decoding_step == stock.decoding_step
    if device == "gpu" or "sdoi" not in system:  # on a CPU, which need not wait, sdoi asks how deep trees are
        # In each layer fairseq's encoder asks for padding, ours once a pass.
        assert (ours.training_waits, ours.encoder_waits) == (
            stock.training_waits - LAYERS,
            stock.encoder_waits - LAYERS,
        )


def test_what_is_counted_is_what_was_asked_for(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import operations

    x = torch.ones(3, operations.N, operations.N, requires_grad=True)
    model = torch.nn.Linear(operations.N, operations.N)
    with operations.Launches() as found, operations.Kept(model, {"x": x}) as kept:
        y = (x.transpose(1, 2) * 2).exp()  # 2 operations: a view is none
        assert y.sum().item() > 0  # and 1 more, and a wait
        first = x.detach()[:, [0]]  # and 1 more, and a number from Python, which is copied
    assert (found.operations, found.waits, first.shape[1]) == (4, 2, 1)
    assert kept.bytes(n_by_n=True) == kept.bytes(n_by_n=False) == 4 * x.numel()  # exp's result
    with operations.Kept(model, {"x": x}) as kept:
        model(x).square().sum()
    assert kept.bytes(n_by_n=False) == 4 * x.numel()  # neither x nor the weights, but what is squared


def test_every_roberta_is_measured_on_examples_of_two_segments(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from random_models import ROBERTAS, Classifier, Size, example_batches

    measured = {re.search(r"--arch (\w+)", options)[1] for options in ROBERTAS.values()}
    assert measured == {"roberta", *systems.ROBERTAS}
    (batch,) = example_batches(172, 1)
    special = batch["net_input"]["src_syntax"]["special"]
    assert (special == 1).sum(dim=1).tolist() == [4] * 4
    assert int((special == UNKNOWN).sum()) == special.numel() - batch["ntokens"]
    for name, options in ROBERTAS.items():
        system = Classifier(options, Size(16, 32, 2, 1), cpu=True)
        weight = system.model.encoder.sentence_encoder.layers[0].fc1.weight
        before = weight.clone()
        system.evaluate(batch)
        system.train(batch)
        assert not torch.equal(weight, before), name


@pytest.mark.parametrize(
    "step", ["device", "biases", "attention", "gates", "models", "training", "speed", "launches", "tables"]
)
def test_the_checks_of_a_gpu_pass_on_a_cpu(step, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(tmp_path)  # fairseq's trainer writes there
    import gpu

    gpu.CHECKS[step](gpu.Report(step, tmp_path / "findings", "cpu", tiny=True))
    findings = [json.loads(line) for line in (tmp_path / "findings").read_text().splitlines()]
    assert findings
    assert not [finding for finding in findings if finding["ok"] is False]
    assert [*gpu.CHECKS] == [*gpu.STEPS]
    gpu.write(tmp_path, findings, {step: "ended"})
    assert f"| {step} | ended |" in (tmp_path / "report.md").read_text()
