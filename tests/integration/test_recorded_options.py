"""Weights mean what they meant when they were trained: the options that a checkpoint records, and those in force."""

from __future__ import annotations

import re
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models import build_model
from omegaconf import OmegaConf

import commands
import small
from fairseq_syntax.checkpoints import recorded_options
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.commands.average_checkpoints import main as average
from syntax_experiments.steps.runs import GATES_NEVER_TRAINED

BOTH = "--syntax-masks=slr,sdoi"
EMA = ["--store-ema", "--ema-decay=0.5", "--ema-fp32"]


def change(path: Path, to: Path, change) -> Path:
    """A copy of a checkpoint, changed."""
    state = torch.load(path, weights_only=True)
    change(state)
    to.parent.mkdir(exist_ok=True, parents=True)
    torch.save(state, to)
    return to


def options(path: Path) -> Namespace:
    """The options of the model that a checkpoint records."""
    return torch.load(path, weights_only=True)["cfg"]["model"]


def tell_gates_apart(state) -> None:
    """Gates that open to the first mask (here SLR), and close to the second."""
    for weights in (state["model"], state["extra_state"]["ema"], state["extra_state"]["ema_fp32_params"]):
        for name, weight in weights.items():
            if name.endswith("gate.batch_norm.bias"):
                weight += torch.tensor([3.0, -3.0]).repeat_interleave(len(weight) // 2)


def swap_gates(state) -> None:
    """As version 0.1.0 wrote it under --syntax-masks sdoi,slr."""
    for weights in (state["model"], state["extra_state"]["ema"], state["extra_state"]["ema_fp32_params"]):
        for name, weight in weights.items():
            if ".gate.fc2." in name or ".gate.batch_norm." in name:
                weights[name] = torch.cat(weight.chunk(2)[::-1])
    state["cfg"]["model"].syntax_masks = "sdoi,slr"


@pytest.fixture(scope="module")
def gated(data_bin, tmp_path_factory) -> Path:
    """A checkpoint of SLR and SDOI, whose gates are far apart."""
    folder = tmp_path_factory.mktemp("gated")
    commands.train(data_bin, folder / "run", "--max-update=3", BOTH, *EMA)
    return change(folder / "run/checkpoint_last.pt", folder / "checkpoint_last.pt", tell_gates_apart)


@pytest.fixture(scope="module")
def pure(data_bin, tmp_path_factory) -> Path:
    """A checkpoint whose masks have no gates."""
    folder = tmp_path_factory.mktemp("pure")
    commands.train(data_bin, folder, "--max-update=3", BOTH, "--syntax-combination=pure")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def combined(data_bin, gated, pure, tmp_path_factory) -> Callable[[str], Path]:
    """A checkpoint by ``--syntax-combination``."""
    folder = tmp_path_factory.mktemp("token_gate")
    commands.train(data_bin, folder, "--max-update=1", "--syntax-combination=token-gate")
    return {"gate": gated, "pure": pure, "token-gate": folder / "checkpoint_last.pt"}.__getitem__


def resumed(data: Path, checkpoint: Path, folder: Path, *more: str, **kwargs):
    """What fairseq-train makes of a run that was interrupted after 3 updates."""
    folder.mkdir(exist_ok=True)
    shutil.copy(checkpoint, folder / "checkpoint_last.pt")
    commands.train(data, folder, "--max-update=5", *more, **kwargs)
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


def test_the_order_of_masks_does_not_matter(data_bin, gated, tmp_path):
    expected = commands.generate_scored(data_bin, gated)
    found = commands.generate_scored(data_bin, gated, more=("--model-overrides", "{'syntax_masks': 'sdoi,slr'}"))
    assert found == expected
    runs = [
        resumed(data_bin, gated, tmp_path / masks, f"--syntax-masks={masks}", *EMA)
        for masks in ("slr,sdoi", "sdoi,slr")
    ]
    for parts in zip(*((r["model"], r["extra_state"]["ema"]) for r in runs), strict=True):
        assert parts[0].keys() == parts[1].keys()
        assert all(torch.equal(weight, parts[1][name]) for name, weight in parts[0].items())
    assert runs[0]["optimizer_history"][-1]["num_updates"] == 5
    assert runs[1]["cfg"]["model"].syntax_masks == "slr,sdoi"  # as the gates are


def test_a_training_records_the_order_that_its_gates_have(data_bin, tmp_path):
    begun = [
        commands.train(data_bin, tmp_path / masks, "--max-update=2", f"--syntax-masks={masks}")
        for masks in ("slr,sdoi", "sdoi, slr")
    ]
    states = [trainer.get_model().state_dict() for trainer in begun]
    assert all(torch.equal(weight, states[1][name]) for name, weight in states[0].items())
    assert options(tmp_path / "sdoi, slr/checkpoint_last.pt").syntax_masks == "slr,sdoi"
    cfg = OmegaConf.create({"_name": "gated_syntax_transformer_tiny", "syntax_masks": "sdoi,slr"})  # by hydra
    cfg.update(max_source_positions=9, max_target_positions=9)
    OmegaConf.set_struct(cfg, True)
    symbols = small.dictionary()
    task = Namespace(source_dictionary=symbols, target_dictionary=symbols)
    assert build_model(cfg, task).encoder.bias_builder.names == ("slr", "sdoi")
    assert cfg.syntax_masks == "slr,sdoi"


def test_checkpoints_of_version_0_1_0_in_another_order(data_bin, gated, tmp_path):
    old = change(gated, tmp_path / "old.pt", swap_gates)
    expected = commands.generate_scored(data_bin, gated)
    assert commands.generate_scored(data_bin, old) == expected
    for masks in ("slr,sdoi", "sdoi,slr"):
        more = ("--model-overrides", f"{{'syntax_masks': '{masks}'}}")
        assert commands.generate_scored(data_bin, old, more=more) == expected
    average(["--inputs", str(old), "--output", str(tmp_path / "average.pt")])
    assert commands.generate_scored(data_bin, tmp_path / "average.pt") == expected
    with pytest.raises(SystemExit, match=r"old\.pt: expected the masks of its gates in the order in which .*last\.pt"):
        average(["--inputs", str(gated), str(old), "--output", str(tmp_path / "x.pt")])
    with pytest.raises(ValueError, match=r"not the optimizer's state: give --reset-optimizer"):
        resumed(data_bin, old, tmp_path / "refused", BOTH, *EMA)
    runs = [
        resumed(data_bin, path, tmp_path / path.stem, BOTH, *EMA, "--reset-optimizer", "--lr=1e-12")
        for path in (old, gated)
    ]
    for parts in zip(*((r["model"], r["extra_state"]["ema"]) for r in runs), strict=True):
        for name, weight in parts[0].items():
            torch.testing.assert_close(weight, parts[1][name])


def test_gates_of_another_shape_are_named(data_bin, gated, tmp_path):
    def cut(state) -> None:
        swap_gates(state)
        for name, weight in state["model"].items():
            if name.endswith("gate.fc2.bias"):
                state["model"][name] = weight[:-1]
            elif name.endswith("gate.fc2.weight"):
                state["model"][name] = weight[0, 0]

    change(gated, tmp_path / "old.pt", cut)
    with pytest.raises(ValueError, match=r"old\.pt: expected weights that fit .*size mismatch for .*gate\.fc2"):
        SyntaxTransformerModel.from_pretrained(str(tmp_path), "old.pt", str(data_bin))


LOADS = {
    "generate": lambda data, path: commands.generate(data, path),
    "validate": lambda data, path: commands.validate(data, path),
    "python": lambda data, path: SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data)),
}


def trained_until(path: Path, to: Path, warmup: int, iterator: dict[str, int] | None) -> Path:
    """A copy of a checkpoint, as if fairseq had written it at this place of a training."""

    def training(state) -> None:
        state["cfg"]["model"].gate_warmup_epochs = warmup
        state["extra_state"]["train_iterator"] = iterator

    return change(path, to, training)


@pytest.fixture
def warnings(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(recorded_options.logger, "warning", lambda text, *values: found.append(text % values))
    return found


@pytest.mark.parametrize("load", LOADS)
def test_a_warning_where_gates_that_were_never_trained_translate(data_bin, gated, tmp_path, warnings, load):
    LOADS[load](data_bin, trained_until(gated, tmp_path / "x.pt", 3, {"epoch": 4, "iterations_in_epoch": 0}))
    (said,) = warnings
    assert f"x.pt: {GATES_NEVER_TRAINED}: it is of epoch 3, and pre-warmup freezes them up to epoch 3." in said


@pytest.mark.parametrize(
    ("combination", "warmup", "iterator", "epoch"),
    [
        ("gate", 3, {"epoch": 4, "iterations_in_epoch": 0}, 3),  # as fairseq records the end of epoch 3
        ("gate", 3, {"epoch": 3, "iterations_in_epoch": 2}, 3),
        ("token-gate", 3, {"epoch": 2, "iterations_in_epoch": 0}, 1),
        ("gate", 3, {"epoch": 4, "iterations_in_epoch": 1}, None),
        ("gate", 0, {"epoch": 1, "iterations_in_epoch": 1}, None),
        ("pure", 3, {"epoch": 2, "iterations_in_epoch": 0}, None),
        ("gate", 3, None, None),  # nothing is known
    ],
)
def test_which_gates_were_never_trained(combined, tmp_path, warnings, combination, warmup, iterator, epoch):
    path = trained_until(combined(combination), tmp_path / "x.pt", warmup, iterator)
    checkpoint_utils.load_checkpoint_to_cpu(str(path), {})
    assert [re.findall(r"it is of epoch (\d+)", line) for line in warnings] == ([[str(epoch)]] if epoch else [])
    warnings.clear()
    checkpoint_utils.load_checkpoint_to_cpu(str(path))  # as a trainer does, which goes on with it
    assert not warnings


@pytest.mark.parametrize(("epochs", "warned"), [((2, 3), True), ((3, 2), True), ((3, 4), False), ((4, 3), False)])
def test_an_average_is_of_its_latest_epoch(gated, tmp_path, warnings, epochs, warned):
    paths = [
        str(trained_until(gated, tmp_path / f"{e}.pt", 3, {"epoch": e + 1, "iterations_in_epoch": 0})) for e in epochs
    ]
    average(["--inputs", *paths, "--output", str(tmp_path / "average.pt")])
    checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "average.pt"), {})
    assert len(warnings) == warned


@pytest.mark.parametrize("masks", ["sdoi", "slr,sdoi"])
def test_gates_of_other_masks_are_refused(data_bin, tmp_path, masks):
    commands.train(data_bin, tmp_path / "slr", "--max-update=1", "--syntax-masks=slr")
    path = tmp_path / "slr/checkpoint_last.pt"
    message = rf"checkpoint_last\.pt: --syntax-masks: expected slr, whose gates these are, found {masks}"
    with pytest.raises(ValueError, match=message):
        commands.generate(data_bin, path, more=("--model-overrides", f"{{'syntax_masks': '{masks}'}}"))
    with pytest.raises(ValueError, match=message):
        SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data_bin), syntax_masks=masks)
    for more in (["--restore-file"], ["--finetune-from-model"], ["--reset-optimizer", "--restore-file"]):
        with pytest.raises(ValueError, match=message):
            commands.train(data_bin, tmp_path / "run", "--max-update=2", f"--syntax-masks={masks}", *more, str(path))


CHANGES = [
    ("slr", "soft", "hard"),
    ("slr-temperature", "10.0", "3.0"),
    ("sdoi-subwords", "share", "first"),
    ("syntax-masks", "slr,sdoi", "slr"),
    ("syntax-combination", "pure", "average"),
    ("syntax-layers", "1,2", "2"),
    ("syntax-heads", "all", "2"),
    ("encoder-attention-heads", "4", "2"),
    ("activation-fn", "relu", "gelu"),
]


@pytest.mark.parametrize(("option", "old", "new"), CHANGES)
def test_options_that_change_what_weights_mean(data_bin, pure, tmp_path, caplog, option, old, new):
    unchanged = [BOTH, "--syntax-combination=pure"]
    message = rf"pure\d+/checkpoint_last\.pt: --{option}: expected {old}, as this training began, found {new}\. .*"
    with pytest.raises(ValueError, match=message + r"--finetune-from-model and a new --save-dir, or --reset-optimizer"):
        commands.train(data_bin, tmp_path, "--max-update=5", *unchanged, f"--{option}={new}", f"--restore-file={pure}")
    mentioned = f"checkpoint_last.pt: --{option} is {new} here, and was {old} when these weights were trained"
    value = new if option == "syntax-layers" or not new.replace(".", "").isdigit() else float(new)
    value = int(value) if value == 2 else value
    caplog.clear()
    overrides = repr({option.replace("-", "_"): value})
    assert commands.generate(data_bin, pure, more=("--model-overrides", overrides))
    said = [record.getMessage() for record in caplog.records if "these weights were trained" in record.getMessage()]
    assert [line.rpartition("/")[2] for line in said] == [mentioned]


@pytest.mark.parametrize(
    "option", ["no_token_positional_embeddings", "cross_self_attention", "share_decoder_input_output_embed"]
)
def test_switches_that_change_what_weights_mean(data_bin, pure, tmp_path, option):
    def switch(state) -> None:
        options = vars(state["cfg"]["model"])
        options[option] = not options.get(option, False)

    other = change(pure, tmp_path / "other.pt", switch)
    flag = "--" + option.replace("_", "-")
    with pytest.raises(ValueError, match=rf"other\.pt: {flag}: expected (True|False), as this training began, found"):
        commands.train(
            data_bin, tmp_path, "--max-update=5", BOTH, "--syntax-combination=pure", f"--restore-file={other}"
        )
    with pytest.raises(SystemExit, match=rf"other\.pt: {flag}: expected (True|False) as in .*, found"):
        average(["--inputs", str(pure), str(other), "--output", str(tmp_path / "average.pt")])


@pytest.mark.parametrize("way", ["--finetune-from-model", "--reset-optimizer"])
def test_a_new_training_may_give_weights_another_meaning(data_bin, pure, tmp_path, caplog, way):
    begin = (
        [f"{way}={pure}"] if way == "--finetune-from-model" else [way, f"--restore-file={pure}", "--reset-dataloader"]
    )
    changed = [BOTH, "--syntax-combination=average", "--slr=hard", "--max-update=4", "--lr=1e-12"]
    commands.train(data_bin, tmp_path, *changed, *begin)
    said = [record.getMessage() for record in caplog.records if "these weights were trained" in record.getMessage()]
    assert [line.split(": ", 1)[1].split(" here")[0] for line in said] == [
        "--syntax-combination is average", "--slr is hard",
    ]  # fmt: skip
    caplog.clear()
    commands.train(data_bin, tmp_path, *changed[:3], "--max-update=6")  # goes on, as it began
    assert not [record for record in caplog.records if "these weights were trained" in record.getMessage()]


def test_options_of_gates_and_of_fairseq_hydra_train(data_bin, gated, tmp_path, caplog):
    with pytest.raises(ValueError, match=r"--gate-batch-norm-eps: expected 1e-05, as this training began, found 0\.5"):
        resumed(data_bin, gated, tmp_path / "run", BOTH, *EMA, "--gate-batch-norm-eps=0.5")

    def as_hydra_records_it(state):
        options = vars(state["cfg"]["model"])
        state["cfg"]["model"] = {**options, "_name": options["arch"]}

    by_hydra = change(gated, tmp_path / "hydra.pt", as_hydra_records_it)
    found = commands.generate_scored(data_bin, by_hydra, more=("--model-overrides", "{'syntax_masks': 'sdoi,slr'}"))
    assert found == commands.generate_scored(data_bin, gated)
    assert "these weights were trained" not in caplog.text
    commands.generate(data_bin, by_hydra, more=("--model-overrides", "{'gate_batch_norm_eps': 0.5, 'dropout': 0.2}"))
    assert "--gate-batch-norm-eps is 0.5 here, and was 1e-05 when these weights were trained" in caplog.text
    with pytest.raises(ValueError, match=r"hydra\.pt: --slr: expected soft, as this training began, found strict"):
        resumed(data_bin, by_hydra, tmp_path / "run", BOTH, *EMA, f"--restore-file={by_hydra}", "--slr=strict")


def test_what_means_the_same_is_not_mentioned(data_bin, pure, tmp_path, caplog):
    same = ["--syntax-layers=1-2", "--syntax-heads=4", "--slr-temperature=10", "--syntax-dropout=0.3", "--dropout=0"]
    resumed(data_bin, pure, tmp_path, BOTH, "--syntax-combination=pure", *same)
    overrides = "{'syntax_layers': '2,1', 'syntax_heads': 4, 'slr_temperature': 10}"
    assert commands.generate(data_bin, pure, more=("--model-overrides", overrides))
    assert not [record for record in caplog.records if "these weights were trained" in record.getMessage()]


def test_a_stock_transformer_does_not_go_on_as_ours_nor_ours_as_stock(data_bin, pure, tmp_path, caplog):
    size = [
        "--encoder-embed-dim=32", "--encoder-ffn-embed-dim=128", "--encoder-layers=2", "--encoder-attention-heads=4",
        "--decoder-layers=1", "--decoder-attention-heads=4", "--share-decoder-input-output-embed",
    ]  # fmt: skip
    stock = ["--arch", "transformer", *size]
    with pytest.raises(ValueError, match=r"--arch: expected gated_syntax_transformer, .* found transformer\."):
        resumed(data_bin, pure, tmp_path / "a", model=stock)
    commands.train(data_bin, tmp_path / "b", "--max-update=1", f"--finetune-from-model={pure}", model=stock)
    assert "--arch is transformer here, and was gated_syntax_transformer when" in caplog.text
    stock_checkpoint = tmp_path / "b/checkpoint_last.pt"
    with pytest.raises(ValueError, match=r"--arch: expected transformer, .* found gated_syntax_transformer\."):
        resumed(data_bin, stock_checkpoint, tmp_path / "c", BOTH, "--syntax-combination=pure")
    resumed(data_bin, stock_checkpoint, tmp_path / "d", model=stock)


def test_averages_are_of_weights_that_mean_the_same(gated, tmp_path):
    hard = change(gated, tmp_path / "hard.pt", lambda state: setattr(state["cfg"]["model"], "slr", "hard"))
    with pytest.raises(SystemExit, match=r"hard\.pt: --slr: expected soft as in .*checkpoint_last\.pt, found hard"):
        average(["--inputs", str(gated), str(hard), "--output", str(tmp_path / "x.pt")])
    assert not (tmp_path / "x.pt").exists()


def test_an_option_that_has_become_the_tasks_is_left_out_of_what_hydra_recorded_before(data_bin, gated, tmp_path):
    def as_hydra_recorded_it(state):
        options = {**vars(state["cfg"]["model"]), "cpu_dropout": "torch"}
        left_out = {"task", "gate_output_bias", "gate_hidden_dim"}
        state["cfg"]["model"] = {k: v for k, v in options.items() if k not in left_out} | {"_name": options["arch"]}

    by_hydra = change(gated, tmp_path / "hydra.pt", as_hydra_recorded_it)
    assert commands.generate_scored(data_bin, by_hydra) == commands.generate_scored(data_bin, gated)
