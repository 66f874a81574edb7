"""Counts of benchmarks/operations.py, what a model asks of its device; the other benchmarks run small."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace

import pytest
import torch

import systems
from fairseq_syntax.modules.numerics import UNKNOWN
from fake_parser import FakeParser
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
@pytest.mark.nightly
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


@pytest.mark.nightly
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
@pytest.mark.nightly
def test_the_checks_of_a_gpu_pass_on_a_cpu(step, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(tmp_path)  # fairseq's trainer writes there
    import gpu

    gpu.STEPS[step][0](gpu.Report(step, tmp_path / "findings", "cpu", tiny=True))
    findings = [json.loads(line) for line in (tmp_path / "findings").read_text().splitlines()]
    assert findings
    assert not [finding for finding in findings if finding["ok"] is False]
    gpu.write(tmp_path, findings, {step: "ended"})
    assert f"| {step} | ended |" in (tmp_path / "report.md").read_text()


@pytest.mark.nightly
def test_new_text_is_translated_beside_stanza_and_stock(tmp_path, monkeypatch, capsys):
    pytest.importorskip("stanza")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(tmp_path)
    import interactive

    monkeypatch.setattr(interactive, "be_quiet", lambda: None)  # other tests read logs
    called = []
    pipeline = SimpleNamespace(processors={}, bulk_process=called.append)
    monkeypatch.setattr(interactive.StanzaParser, "_make_pipeline", lambda self, **_: pipeline)
    monkeypatch.setattr(interactive.StanzaParser, "parse", lambda self, lines: FakeParser(0.0).parse(lines))
    (tmp_path / "text").write_text("the cat sat\na dog ran\n")
    options = ["text", "--stanza-dir", "models", "--size", "64", "--repeats", "1", "--threads", "1"]
    monkeypatch.setattr("sys.argv", ["interactive.py", *options])
    interactive.main()
    rows = re.findall(r"\| ([\w, ]+), seconds(?: \| [\d.]+){4} \|", capsys.readouterr().out)
    assert rows == ["slr", "slr,sdoi", "tree biases"]
    assert called == [["the cat sat", "a dog ran"]] * 3


@pytest.mark.nightly
def test_the_preprocessor_is_timed_beside_fairseqs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("stanza")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.chdir(tmp_path)
    import preprocessing

    texts = {"tok/train.lc.norm.tok.en": "the cat sat\n", "tok/train.lc.norm.tok.de": "die katze sitzt\n"}
    texts |= {"parsed/train.en.trees": "(S (NP the cat) (VP sat))\n"}
    words = (("the", 2, "det"), ("cat", 3, "nsubj"), ("sat", 0, "root"))
    rows = [f"{i}\t{word}\t_\tX\t_\t_\t{head}\t{of}\t_\t_\n" for i, (word, head, of) in enumerate(words, 1)]
    texts["parsed/train.en.conllu"] = "".join([*rows, "\n"])
    for name, text in texts.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / f"{name}.gz").write_bytes(gzip.compress(text.encode() * 3))
    options = ["data", "work", "--repeats", "1", "--copies", "2"]
    monkeypatch.setattr("sys.argv", ["preprocessing.py", *options])
    preprocessing.main()
    rows = re.findall(r"\| ([^|]+) \| [^|]*\d \|", capsys.readouterr().out)
    assert rows[:2] == ["seconds, 1 workers", "seconds, 2 workers"]
    assert rows[-5:] == ["word, distance and head", "deprel", "upos", "case", "position"]
