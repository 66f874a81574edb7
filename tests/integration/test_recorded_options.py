"""Weights are used under the options with which they were trained, which their checkpoint records."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models import build_model
from omegaconf import OmegaConf

import commands
import small
from fairseq_syntax.checkpoints import recorded_options
from fairseq_syntax.commands.average_checkpoints import main as average
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_experiments.steps.runs import GATES_NEVER_TRAINED
from tiers import others_nightly

BOTH = "--syntax-masks=slr,sdoi"
PURE = [BOTH, "--syntax-combination=pure"]
WARNING = "these weights were trained"


@pytest.fixture(scope="module")
def by_combination(data_bin, tmp_path_factory) -> Callable[[str], Path]:
    """A checkpoint of SLR and SDOI by ``--syntax-combination``."""
    folder = tmp_path_factory.mktemp("combinations")
    for combination in ("gate", "pure", "token-gate"):
        more = [BOTH, f"--syntax-combination={combination}"]
        commands.train(data_bin, folder / combination, "--max-update=3", *more)
    return lambda combination: folder / combination / "checkpoint_last.pt"


@pytest.fixture
def gated(by_combination) -> Path:
    return by_combination("gate")


@pytest.fixture
def pure(by_combination) -> Path:
    return by_combination("pure")


def resume(data: Path, checkpoint: Path, folder: Path, *more: str, **kwargs: Any) -> dict[str, Any]:
    """The checkpoint of a training that goes on after 3 updates."""
    folder.mkdir(exist_ok=True)
    shutil.copy(checkpoint, folder / "checkpoint_last.pt")
    commands.train(data, folder, "--max-update=5", *more, **kwargs)
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of other options, since the last call."""
    found = [record.getMessage() for record in caplog.records if WARNING in record.getMessage()]
    caplog.clear()
    return [line.rpartition("/")[2] for line in found]


@pytest.mark.nightly
def test_the_order_of_masks_does_not_matter(data_bin, gated, tmp_path):
    expected = commands.generate_scored(data_bin, gated)
    overrides = ("--model-overrides", "{'syntax_masks': 'sdoi,slr'}")
    assert commands.generate_scored(data_bin, gated, more=overrides) == expected
    one, other = (
        resume(data_bin, gated, tmp_path / masks, f"--syntax-masks={masks}") for masks in ("slr,sdoi", "sdoi, slr")
    )
    assert one["model"].keys() == other["model"].keys()
    assert all(torch.equal(weight, other["model"][name]) for name, weight in one["model"].items())
    assert one["optimizer_history"][-1]["num_updates"] == 5
    assert other["cfg"]["model"].syntax_masks == "slr,sdoi"  # as the gates are
    cfg = OmegaConf.create({"_name": "gated_syntax_transformer_tiny", "syntax_masks": "sdoi,slr"})  # by hydra
    cfg.update(max_source_positions=9, max_target_positions=9)
    OmegaConf.set_struct(cfg, True)
    symbols = small.dictionary()
    task = Namespace(source_dictionary=symbols, target_dictionary=symbols)
    assert build_model(cfg, task).encoder.bias_builder.names == ("slr", "sdoi")
    assert cfg.syntax_masks == "slr,sdoi"


LOADS = {
    "generate": lambda data, path: commands.generate(data, path),
    "validate": lambda data, path: commands.validate(data, path),
    "python": lambda data, path: SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data)),
}


@pytest.mark.parametrize(
    ("load", "combination", "warmup", "iterator", "epoch"),
    [
        ("generate", "gate", 3, {"epoch": 4, "iterations_in_epoch": 0}, 3),  # as fairseq records the end of epoch 3
        ("validate", "gate", 3, {"epoch": 3, "iterations_in_epoch": 2}, 3),
        ("python", "token-gate", 3, {"epoch": 2, "iterations_in_epoch": 0}, 1),
        ("generate", "gate", 3, {"epoch": 4, "iterations_in_epoch": 1}, None),
        ("generate", "gate", 0, {"epoch": 1, "iterations_in_epoch": 1}, None),
        ("generate", "pure", 3, {"epoch": 2, "iterations_in_epoch": 0}, None),
        ("python", "gate", 3, None, None),  # nothing is recorded
    ],
)
def test_a_warning_where_gates_that_were_never_trained_translate(
    data_bin, by_combination, tmp_path, monkeypatch, load, combination, warmup, iterator, epoch
):
    found: list[str] = []
    monkeypatch.setattr(recorded_options.logger, "warning", lambda text, *values: found.append(text % values))

    def as_of_epoch(state: dict[str, Any]) -> None:
        state["cfg"]["model"].gate_warmup_epochs = warmup
        state["extra_state"]["train_iterator"] = iterator

    LOADS[load](data_bin, commands.edited(by_combination(combination), tmp_path / "x.pt", as_of_epoch))
    text = f"x.pt: {GATES_NEVER_TRAINED}: it is of epoch {epoch}, and pre-warmup freezes them up to epoch {warmup}."
    assert [text in line for line in found] == [True] * (epoch is not None)


@pytest.mark.parametrize("masks", others_nightly(["sdoi", "slr,sdoi,tree_path"], {"sdoi"}))
def test_gates_of_other_masks_are_refused(data_bin, gated, tmp_path, masks):
    path = gated
    message = rf"checkpoint_last\.pt: --syntax-masks: expected slr,sdoi, whose gates these are, found {masks}"
    with pytest.raises(ValueError, match=message):
        commands.generate(data_bin, path, more=("--model-overrides", f"{{'syntax_masks': '{masks}'}}"))
    with pytest.raises(ValueError, match=message):
        SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data_bin), syntax_masks=masks)
    for more in (["--restore-file"], ["--finetune-from-model"], ["--reset-optimizer", "--restore-file"]):
        with pytest.raises(ValueError, match=message):
            commands.train(data_bin, tmp_path / "run", "--max-update=2", f"--syntax-masks={masks}", *more, str(path))


@pytest.mark.parametrize(
    ("option", "old", "new"),
    others_nightly(
        [
            ("slr", "soft", "hard"),
            ("slr-temperature", "10.0", "3.0"),
            ("sdoi-subwords", "share", "first"),
            ("syntax-masks", "slr,sdoi", "slr"),
            ("syntax-combination", "pure", "average"),
            ("syntax-layers", "1,2", "2"),
            ("syntax-heads", "all", "2"),
            ("encoder-attention-heads", "4", "2"),
            ("activation-fn", "relu", "gelu"),
        ],
        {("syntax-masks", "slr,sdoi", "slr"), ("activation-fn", "relu", "gelu")},
    ),
)
def test_options_that_weights_depend_on(data_bin, pure, tmp_path, caplog, option, old, new):
    message = rf"pure/checkpoint_last\.pt: --{option}: expected {old}, as this training began, found {new}\. .*"
    with pytest.raises(ValueError, match=message + r"--finetune-from-model and a new --save-dir, or --reset-optimizer"):
        commands.train(data_bin, tmp_path, "--max-update=5", *PURE, f"--{option}={new}", f"--restore-file={pure}")
    value: Any = new if option == "syntax-layers" or not new.replace(".", "").isdigit() else float(new)
    overrides = repr({option.replace("-", "_"): int(value) if value == 2 else value})
    assert commands.generate(data_bin, pure, more=("--model-overrides", overrides))
    assert warned(caplog) == [f"checkpoint_last.pt: --{option} is {new} here, and was {old} when {WARNING}"]


@pytest.mark.parametrize(
    "option",
    others_nightly(
        ["slr", "no_token_positional_embeddings", "cross_self_attention", "share_decoder_input_output_embed"],
        {"slr", "no_token_positional_embeddings"},
    ),
)
def test_neither_a_training_nor_an_average_mixes_such_options(data_bin, pure, tmp_path, option):
    def switch(state: dict[str, Any]) -> None:
        options = vars(state["cfg"]["model"])
        options[option] = "hard" if option == "slr" else not options.get(option, False)

    other = commands.edited(pure, tmp_path / "other.pt", switch)
    message = rf"other\.pt: --{option.replace('_', '-')}: expected"
    with pytest.raises(ValueError, match=rf"{message} \w+, as this training began, found"):
        commands.train(data_bin, tmp_path, "--max-update=5", *PURE, f"--restore-file={other}")
    with pytest.raises(SystemExit, match=rf"{message} \w+ as in .*, found"):
        average(["--inputs", str(pure), str(other), "--output", str(tmp_path / "average.pt")])
    assert not (tmp_path / "average.pt").exists()


def test_the_scale_of_tables_stays_with_their_weights(data_bin, tmp_path, caplog):
    """In an average and in Python; where another is asked for, it is refused, or there is a warning."""
    tables = ["--syntax-masks=tree_path", "--syntax-combination=product"]
    commands.train(data_bin, tmp_path, "--max-update=2", "--bias-table-scale=8", *tables)
    path, mean = tmp_path / "checkpoint_last.pt", tmp_path / "mean.pt"
    average(["--inputs", str(path), "--output", str(mean)])
    expected = commands.generate_scored(data_bin, path)
    assert commands.generate_scored(data_bin, mean) == expected
    (net,) = SyntaxTransformerModel.from_pretrained(str(tmp_path), mean.name, str(data_bin)).models
    assert {table.scale for layer in net.syntax_attentions.values() for table in layer.tables.values()} == {8.0}
    assert not warned(caplog)
    assert commands.generate_scored(data_bin, path, more=("--model-overrides", "{'bias_table_scale': 1.0}")) != expected
    assert warned(caplog) == [f"checkpoint_last.pt: --bias-table-scale is 1.0 here, and was 8.0 when {WARNING}"]
    with pytest.raises(ValueError, match=r"--bias-table-scale: expected 8\.0, as this training began, found 1\.0"):
        commands.train(data_bin, tmp_path, "--max-update=3", *tables)


@pytest.mark.parametrize("begin", others_nightly(["--finetune-from-model", "--reset-optimizer"], {"--reset-optimizer"}))
def test_a_new_training_may_begin_with_weights_under_other_options(data_bin, pure, tmp_path, caplog, begin):
    more = [f"{begin}={pure}"]
    if begin == "--reset-optimizer":
        more = [begin, f"--restore-file={pure}", "--reset-dataloader"]
    options = [BOTH, "--syntax-combination=average", "--slr=hard"]
    commands.train(data_bin, tmp_path, *options, "--max-update=4", "--lr=1e-12", *more)
    assert [line.split(": ", 1)[1].split(" here")[0] for line in warned(caplog)] == [
        "--syntax-combination is average", "--slr is hard",
    ]  # fmt: skip
    commands.train(data_bin, tmp_path, *options, "--max-update=6")  # goes on, as it began
    assert not warned(caplog)


@pytest.mark.nightly
def test_a_training_by_fairseq_hydra_train_is_compared_too(data_bin, gated, tmp_path, caplog):
    def as_hydra_records_it(state: dict[str, Any]) -> None:
        options = vars(state["cfg"]["model"])
        state["cfg"]["model"] = {**options, "_name": options["arch"]}

    by_hydra = commands.edited(gated, tmp_path / "hydra.pt", as_hydra_records_it)
    found = commands.generate_scored(data_bin, by_hydra, more=("--model-overrides", "{'syntax_masks': 'sdoi,slr'}"))
    assert found == commands.generate_scored(data_bin, gated)
    assert not warned(caplog)
    commands.generate(data_bin, by_hydra, more=("--model-overrides", "{'gate_batch_norm_eps': 0.5, 'dropout': 0.2}"))
    assert warned(caplog) == [f"hydra.pt: --gate-batch-norm-eps is 0.5 here, and was 1e-05 when {WARNING}"]
    for option, old, new in (("slr", "soft", "strict"), ("gate-batch-norm-eps", "1e-05", "0.5")):
        message = rf"hydra\.pt: --{option}: expected {old}, as this training began, found {new}"
        with pytest.raises(ValueError, match=message):
            resume(data_bin, by_hydra, tmp_path / option, BOTH, f"--restore-file={by_hydra}", f"--{option}={new}")


def test_options_of_the_same_effect_are_the_same(data_bin, pure, tmp_path, caplog):
    same = ["--syntax-layers=1-2", "--syntax-heads=4", "--slr-temperature=10", "--syntax-dropout=0.3", "--dropout=0"]
    resume(data_bin, pure, tmp_path, *PURE, *same)
    overrides = "{'syntax_layers': '2,1', 'syntax_heads': 4, 'slr_temperature': 10}"
    assert commands.generate(data_bin, pure, more=("--model-overrides", overrides))
    assert not warned(caplog)


def test_a_stock_transformer_does_not_go_on_as_ours_nor_ours_as_stock(data_bin, pure, tmp_path, caplog):
    size = [
        "--encoder-embed-dim=32", "--encoder-ffn-embed-dim=128", "--encoder-layers=2", "--encoder-attention-heads=4",
        "--decoder-layers=1", "--decoder-attention-heads=4", "--share-decoder-input-output-embed",
    ]  # fmt: skip
    stock = ["--arch", "transformer", *size]
    with pytest.raises(ValueError, match=r"--arch: expected gated_syntax_transformer, .* found transformer\."):
        resume(data_bin, pure, tmp_path / "a", model=stock)
    commands.train(data_bin, tmp_path / "b", "--max-update=1", f"--finetune-from-model={pure}", model=stock)
    assert "--arch is transformer here, and was gated_syntax_transformer when" in warned(caplog)[0]
    stock_checkpoint = tmp_path / "b/checkpoint_last.pt"
    with pytest.raises(ValueError, match=r"--arch: expected transformer, .* found gated_syntax_transformer\."):
        resume(data_bin, stock_checkpoint, tmp_path / "c", *PURE)
    resume(data_bin, stock_checkpoint, tmp_path / "d", model=stock)
