"""Every way in which fairseq trains, on a tiny corpus."""

from __future__ import annotations

import argparse
import copy
import logging
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from fairseq.logging import metrics, progress_bar
from torch.nn.modules.module import register_module_forward_hook

import commands
import small
from fairseq_syntax.encoder.attention import SyntaxAttention
from fairseq_syntax.modules.trace import SyntaxTrace
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask
from syntax_experiments.training_log import read_validations
from tiers import others_nightly

BLEU = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 2, "max_len_b": 10}']


def assert_learns(trainer: Any, folder: Path, *, copies: float = 1) -> None:
    """The last validation's loss is below the first's, and below guessing evenly.

    `copies`: how often the criterion counts each subword; infinite if its loss is none of a subword.
    """
    losses = [
        torch.load(folder / f"checkpoint{name}.pt", weights_only=True)["extra_state"]["val_loss"]
        for name in ("1", "_last")
    ]
    chance = copies * math.log2(len(trainer.task.target_dictionary))
    assert losses[1] < min(losses[0], chance), (losses, chance)


CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU (pytest -m gpu)")


@pytest.mark.parametrize(
    "options",
    [
        ["--update-freq=3", "--left-pad-source", "--required-seq-len-multiple=8", "--max-valid-steps=1"],
        pytest.param(
            [
                "--encoder-layerdrop=0.5",
                "--curriculum=1",
                "--patience=3",
                "--layernorm-embedding",
                "--encoder-learned-pos",
            ],
            marks=pytest.mark.nightly,
        ),
        ["--encoder-normalize-before", "--decoder-normalize-before", "--store-ema", "--ema-decay=0.9", "--ema-fp32"],
        # (fairseq's noise stays in the weights: with 0.1 the loss of its own Transformer rises from epoch to epoch)
        pytest.param(["--quant-noise-pq=0.02", "--quant-noise-pq-block-size=4"], marks=pytest.mark.nightly),
        pytest.param(["--quant-noise-scalar=0.1"], marks=CUDA),
        ["--amp", "--update-freq=3", "--checkpoint-activations"],
        pytest.param(["--fp16", "--memory-efficient-fp16", "--no-scale-embedding"], marks=pytest.mark.nightly),
        pytest.param(
            ["--fp16", "--store-ema", "--ema-decay=0.9", "--ema-fp32", "--checkpoint-activations"],
            marks=pytest.mark.nightly,
        ),
    ],
    ids=lambda options: " ".join(options).replace("--", ""),
)
def test_trains_and_generates(data_bin, tmp_path, options, half_precision):
    computed = set()

    def record(module, _, output):
        if isinstance(module, SyntaxAttention) and module.training:
            computed.add(output[0].dtype)

    cpu = not half_precision or not {"--amp", "--fp16", "--quant-noise-scalar=0.1"} & set(options)
    with register_module_forward_hook(record):
        trainer = commands.train(data_bin, tmp_path, "--max-epoch=2", "--syntax-masks=slr,sdoi", *options, cpu=cpu)
    # (fairseq's activation checkpointing computes for the second time without --amp)
    assert (torch.float16 in computed) == bool({"--amp", "--fp16"} & set(options))
    assert_learns(trainer, tmp_path)
    model = trainer.get_model()
    assert all(weight.isfinite().all() for weight in model.state_dict().values())
    for gate in model.gates.values():
        assert gate.batch_norm.running_mean.dtype == torch.float32
        assert gate.batch_norm.running_mean.ne(0).all()
    if "--store-ema" in options:
        averaged = trainer.ema.get_model().state_dict()
        assert any(not torch.equal(averaged[name], weight) for name, weight in model.state_dict().items())
    more = ("--fp16",) if "--fp16" in options else ()
    assert commands.generate(data_bin, tmp_path / "checkpoint_last.pt", more=more)


def test_amp_updates_as_much_as_float32(data_bin, tmp_path, half_precision):
    options = ["--optimizer=sgd", "--lr=1", "--max-update=1", "--dropout=0"]
    weights = [
        commands.train(data_bin, tmp_path / name, *options, *more, cpu=not (half_precision and more))
        .get_model().state_dict()
        for name, more in (("before", ["--lr=0"]), ("fp32", []), ("amp", ["--amp"]))
    ]  # fmt: skip
    before, *after = (torch.cat([weight.float().flatten().cpu() for weight in w.values()]) for w in weights)
    exact, mixed = (weight - before for weight in after)
    assert exact.norm() > 0.1
    assert (mixed - exact).norm() < 0.02 * exact.norm()


#: fairseq's criteria, and ours, that can train its Transformer to translate, and the options that they need for that.
R_DROP = "label_smoothed_cross_entropy_with_rdrop"
CRITERIA = {
    "cross_entropy": [],
    "label_smoothed_cross_entropy": ["--report-accuracy", "--ignore-prefix-size=1", "--share-all-embeddings"],
    "label_smoothed_cross_entropy_with_alignment": ["--load-alignments"],
    R_DROP: ["--rdrop-alpha=5", "--update-freq=3", "--checkpoint-activations", "--gate-warmup-epochs=1", *BLEU],
    f"{R_DROP} --fp16": ["--rdrop-alpha=5", "--report-accuracy", "--fp16"],
    "adaptive_loss": ["--adaptive-softmax-cutoff=10,20", "--ddp-backend=legacy_ddp"],
    "composite_loss": ["--underlying-criterion=label_smoothed_cross_entropy"],
    "label_smoothed_cross_entropy_with_syntax": ["--report-accuracy", "--parent-loss=squared"],
}
#: They run nightly; label_smoothed_cross_entropy trains most other tests.
RARE = {
    "cross_entropy",
    "label_smoothed_cross_entropy_with_alignment",
    "label_smoothed_cross_entropy",
    f"{R_DROP} --fp16",
    "adaptive_loss",
    "composite_loss",
}


@pytest.fixture(scope="module")
def aligned(corpus, tmp_path_factory):
    """The corpus with an alignment of each target subword to some source subword; one sentence in three has no tree."""
    folder = tmp_path_factory.mktemp("aligned")
    shutil.copytree(corpus / "bpe", folder / "bpe")
    for name in ("train", "valid", "test"):
        trees = (corpus / f"{name}.src.trees").read_text().splitlines()
        (folder / f"{name}.src.trees").write_text("".join(f"{t if i % 3 else '(())'}\n" for i, t in enumerate(trees)))
        (folder / f"{name}.src.conllu").symlink_to(corpus / f"{name}.src.conllu")
        with open(folder / f"bpe/{name}.src") as source, open(folder / f"bpe/{name}.tgt") as target:
            lengths = [(len(s.split()), len(t.split())) for s, t in zip(source, target, strict=True)]
        lines = (" ".join(f"{min(i, m - 1)}-{i}" for i in range(n)) for m, n in lengths)
        (folder / f"bpe/{name}.align").write_text("".join(f"{line}\n" for line in lines))
    return commands.preprocess(folder, folder / "data", "--align-suffix=align", "--joined-dictionary")


@pytest.mark.parametrize("criterion", others_nightly(CRITERIA, CRITERIA.keys() - RARE))
def test_trains_by_every_criterion(aligned, tmp_path, criterion, half_precision):
    options, half = CRITERIA[criterion], criterion.endswith("--fp16")
    criterion = criterion.split()[0]
    model = [option for option in commands.TINY if "share" not in option or criterion != "adaptive_loss"]
    all_options = ["--max-epoch=2", f"--criterion={criterion}", *options]
    trainer = commands.train(aligned, tmp_path, *all_options, model=model, cpu=not (half and half_precision))
    copies = {R_DROP: 2, "composite_loss": math.inf}  # a mean over sentences
    assert_learns(trainer, tmp_path, copies=copies.get(criterion, 1))
    model, valid = trainer.get_model(), metrics.get_smoothed_values("valid")
    assert all(weight.isfinite().all() for weight in model.state_dict().values())
    assert all(0 < value < 1 for name, value in valid.items() if name.startswith("gate_"))
    assert ("bleu" in valid) == ("--eval-bleu" in options)
    if "--share-all-embeddings" in options:
        assert model.encoder.embed_tokens.weight is model.decoder.output_projection.weight
    if "--load-alignments" in options:
        assert valid["alignment_loss"] > 0
    if criterion == R_DROP:
        before = trainer.get_num_updates()
        trainer.train_step([{}])  # the dummy batch
        assert trainer.get_num_updates() == before + 1
    commands.validate(aligned, tmp_path / "checkpoint_last.pt")
    assert commands.generate(aligned, tmp_path / "checkpoint_last.pt", more=("--fp16",) * half)


def test_what_cannot_be_trained_is_refused(data_bin, tmp_path):
    for option in ("--bf16", "--tpu"):
        with pytest.raises(ValueError, match="make fairseq train on a TPU, for which torch_xla is not installed"):
            commands.train(data_bin, tmp_path, option)
    symbols = small.dictionary()
    task = SyntaxTranslationTask(SyntaxTranslationConfig(ddp_backend="fully_sharded"), symbols, symbols)
    options = argparse.Namespace(arch="gated_syntax_transformer_tiny", max_source_positions=9, max_target_positions=9)
    task.build_model(options)
    options.gate_warmup_epochs = 1
    with pytest.raises(ValueError, match="--gate-warmup-epochs 0, or another backend"):
        task.build_model(options)


@pytest.mark.parametrize("statistics", others_nightly(["running", "batch"], {"running"}))
def test_gates_evaluate_as_they_were_trained_and_a_dummy_batch_moves_nothing(data_bin, tmp_path, statistics):
    options = ["--checkpoint-activations", f"--gate-batch-norm-statistics={statistics}"]
    trainer = commands.train(data_bin, tmp_path, "--max-epoch=1", *options)
    model, dataset = trainer.get_model(), trainer.task.dataset("valid")
    batch = dataset.collater([dataset[i] for i in range(12)])
    found = []
    for training in (False, True):
        model.eval()
        for gate in model.gates.values():
            gate.train(training)
        trace = SyntaxTrace()
        with torch.no_grad():
            model(**batch["net_input"], trace=trace)
        found.append(trace.stacked("gates"))
    distance = (found[0] - found[1]).abs().max()
    assert distance < 1e-5 if statistics == "running" else distance > 1e-2

    def running():
        state = model.state_dict()
        return torch.cat([state[name] for name in state if "running" in name])

    before = running()
    trainer.train_step([{}])  # which fills up a step of several ranks
    assert torch.equal(running(), before)
    trainer.train_step([batch])
    assert running().ne(before).all()


def out_of_memory(*args, **kwargs):
    raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize("fault", ["out of memory", "--amp"])
def test_a_step_that_is_skipped_leaves_nothing_in_the_statistics(
    data_bin, tmp_path, fault, half_precision, monkeypatch
):
    scaling = [fault] if fault.startswith("--") else []
    trainer = commands.train(
        data_bin, tmp_path, "--max-update=2", "--dropout=0", *scaling, cpu=not (half_precision and scaling)
    )
    if not half_precision:
        monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)  # fairseq's, of a step that overflows
    model, dataset, updates = trainer.get_model(), trainer.task.dataset("train"), trainer.get_num_updates()
    batches = [dataset.collater([dataset[i] for i in some]) for some in (range(5), range(5, 15), range(15, 20))]

    def statistics(net):
        return torch.cat(net.encoder.gate_statistics.norms[0].statistics_buffers).clone()

    alone, before = copy.deepcopy(model), statistics(model)
    with monkeypatch.context() as broken:
        if scaling:
            hook = model.decoder.layers[0].fc1.bias.register_hook(lambda gradient: gradient * torch.inf)
        else:
            passes = iter([trainer.optimizer.backward, out_of_memory])
            broken.setattr(trainer.optimizer, "backward", lambda loss: next(passes)(loss))
        trainer.train_step(batches[:2])
        if scaling:
            hook.remove()
    assert trainer.get_num_updates() == updates
    assert torch.equal(statistics(model), before)
    trainer.train_step(batches[2:])
    assert trainer.get_num_updates() == updates + 1
    sample, _ = trainer._prepare_sample(batches[2])
    trainer.task.train_step(sample, alone, trainer.criterion, trainer.optimizer, 0)
    alone.end_step(stepped=True)
    torch.testing.assert_close(statistics(model), statistics(alone), rtol=1e-3, atol=1e-5)
    assert not torch.equal(statistics(model), before)


def test_gates_are_in_the_log_of_validation(data_bin, tmp_path, monkeypatch, caplog):
    writer = Mock()  # stands for tensorboard's
    monkeypatch.setattr(progress_bar, "SummaryWriter", Mock(return_value=writer), raising=False)
    monkeypatch.setattr(progress_bar, "_tensorboard_writers", {})
    options = ["--max-epoch=1", "--syntax-masks=slr,sdoi", "--syntax-layers=2", f"--tensorboard-logdir={tmp_path}/tb"]
    with caplog.at_level(logging.INFO):
        trainer = commands.train(data_bin, tmp_path, *options, "--log-format=simple")
    updates, dataset = trainer.get_num_updates(), trainer.task.dataset("valid")
    sums = torch.zeros(8)
    for i in range(len(dataset)):
        trace = SyntaxTrace()
        with torch.no_grad():
            trainer.get_model().eval()(**dataset.collater([dataset[i]])["net_input"], trace=trace)
        sums += trace.layers[2]["gates"].flatten()
    means = (sums / len(dataset)).view(2, 4)
    logged = {name: mean for name, mean in metrics.get_smoothed_values("valid").items() if name.startswith("gate")}
    assert list(logged) == ["gate_slr_l2", "gate_sdoi_l2"]
    torch.testing.assert_close(torch.tensor(list(logged.values())), means.mean(dim=1), rtol=0, atol=6e-4)
    assert not [name for name in metrics.get_smoothed_values("train") if name.startswith("gate")]
    progress_bar.SummaryWriter.assert_any_call(f"{tmp_path}/tb/valid")
    calls = [call.args for call in writer.add_scalar.call_args_list]
    scalars = {name: value for name, value, step in calls if step == updates and name.startswith("gate")}
    expected = {("slr", 2, 0): logged["gate_slr_l2"], ("sdoi", 2, 0): logged["gate_sdoi_l2"]}
    for mask, of_mask in zip(("slr", "sdoi"), means.tolist(), strict=True):
        for head, mean in enumerate(of_mask, start=1):
            scalar = scalars[f"gate_{mask}_l2_h{head}"]
            assert scalar == pytest.approx(mean, abs=1e-5)
            expected[mask, 2, head] = round(scalar, 3)
    (tmp_path / "train.log").write_text("".join(f"{message}\n" for message in caplog.messages))
    [validation] = read_validations(str(tmp_path / "train.log"))
    assert (validation.updates, validation.gates) == (updates, expected)


@pytest.mark.nightly
def test_trains_by_hydra_and_in_bfloat16(data_bin, tmp_path):
    (tmp_path / "gated.yaml").write_text(
        f"""# @package _group_
common: {{user_dir: fairseq_syntax, cpu: true, log_format: simple, seed: 3, bf16: true}}
task: {{_name: syntax_translation, data: {data_bin}}}
model:
  _name: gated_syntax_transformer_tiny
  encoder_embed_dim: 32
  decoder_layers: 1
  share_decoder_input_output_embed: true
  syntax_masks: slr,sdoi
  gate_warmup_epochs: 1
  gate_hidden_dim: 6
criterion: {{_name: label_smoothed_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam, weight_decay: 0.1}}
lr_scheduler: {{_name: fixed}}
dataset: {{batch_size: 20, num_workers: 0}}
optimization: {{max_update: 3, lr: [0.01]}}
checkpoint: {{save_dir: {tmp_path}/run, save_interval_updates: 1}}
"""
    )
    command = ["fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "gated", f"hydra.run.dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (tmp_path / "train.log").write_text(done.stdout + done.stderr)
    history = read_validations(str(tmp_path / "train.log"))
    assert [(v.updates, len(v.gates)) for v in history] == [(updates, 2 * 2 * 5) for updates in (1, 2, 3)]
    weights = commands.parameters(tmp_path / "run/checkpoint_last.pt")
    assert weights["encoder.layers.0.self_attn.gate.fc2.weight"].shape == (8, 6)
    weight = weights["encoder.layers.0.fc1.weight"]  # saved as float32 anyway
    assert torch.equal(weight, weight.bfloat16().float())
    first = commands.parameters(tmp_path / "run/checkpoint_1_1.pt")
    for name in weights:  # pre-warmup holds under the optimizer of half precision, too
        still = ".gate." in name and "running" not in name
        assert still == torch.equal(weights[name], first[name]) or "version" in name or "float_tensor" in name, name
    assert commands.generate(data_bin, tmp_path / "run/checkpoint_last.pt")
