"""RoBERTa with syntax begins from what stock RoBERTa learned, and is what its checkpoint says."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

import commands
import example_bins
from fairseq_syntax.commands import dump
from fairseq_syntax.models.roberta import SyntaxRobertaModel
from systems import ROBERTAS
from tiers import others_nightly

SIZES = [
    "--encoder-layers=2", "--encoder-embed-dim=32", "--encoder-ffn-embed-dim=48", "--encoder-attention-heads=4",
    "--max-positions=64",
]  # fmt: skip
PREDICTION = ["--criterion=sentence_prediction", "--num-classes=2", "--init-token=0", "--separator-token=2"]
RESET = ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return example_bins.examples(tmp_path_factory.mktemp("lines"), inputs=1)


@pytest.fixture(scope="module")
def stock(data, tmp_path_factory) -> Path:
    """A checkpoint of fairseq's own RoBERTa."""
    folder = tmp_path_factory.mktemp("stock")
    task = ["--task=masked_lm", "--criterion=masked_lm", "--sample-break-mode=complete", "--tokens-per-sample=64"]
    task += ["--batch-size=1"]
    commands.train(data / "input0", folder, *task, "--max-update=2", model=["--arch=roberta", *SIZES[:4]])
    return folder / "checkpoint_last.pt"


def train(data: Path, folder: Path, system: str, *more: str, task: str = "syntax_sentence_prediction"):
    arguments = [f"--task={task}", *PREDICTION, "--max-update=1", *more]
    return commands.train(data, folder, *arguments, model=[f"--arch={system}", *SIZES])


@pytest.mark.parametrize(
    ("number", "system"), others_nightly(enumerate(ROBERTAS), {(0, "gated_syntax_roberta"), (3, "sla_roberta")})
)
def test_a_training_begins_from_stocks_weights_and_its_checkpoint_is_the_model(
    number, system, data, stock, tmp_path, caplog
):
    start = [f"--restore-file={stock}", *RESET] if number % 2 else [f"--finetune-from-model={stock}"]
    with caplog.at_level(logging.INFO):
        trainer = train(data, tmp_path, system, *start, "--lr=1e-12")
    assert "start fresh: encoder.sentence_encoder." in caplog.text
    live, learned = trainer.model, checkpoint_utils.load_checkpoint_to_cpu(str(stock))["model"]
    for name, value in live.state_dict().items():
        if name in learned:
            torch.testing.assert_close(value, learned[name], rtol=0, atol=1e-6, msg=name)
    path = tmp_path / "checkpoint_last.pt"
    (again,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    batch = dataset.collater([dataset[i] for i in range(3)])
    found, expected = (
        net.eval()(**batch["net_input"], classification_head_name="sentence_classification_head")[0]
        for net in (again, live)
    )
    assert torch.equal(found, expected)
    hub = SyntaxRobertaModel.from_pretrained(str(tmp_path), path.name, str(data), bpe=None).eval()
    tokens, syntax = (batch["net_input"].get(name) for name in ("src_tokens", "src_syntax"))
    head = "sentence_classification_head"
    assert torch.equal(hub.predict(head, tokens, return_logits=True, src_syntax=syntax), expected)
    if live.syntax_features:
        with pytest.raises(ValueError, match="needs net_input"):
            hub.predict(head, tokens)
    dump.main([str(data), f"--path={path}", "--cpu", "--gen-subset=valid", f"--output={tmp_path}/dump.npz"])


def test_what_needs_no_parse_trains_under_fairseqs_own_task_and_what_does_is_refused(data, tmp_path):
    trainer = train(data, tmp_path, "relative_position_roberta", task="sentence_prediction")
    assert trainer.get_num_updates() == 1
    with pytest.raises(ValueError, match=r"needs net_input\['src_syntax'\] to hold word, head, special; missing: word"):
        train(data, tmp_path / "more", "sla_roberta", task="sentence_prediction")


def test_stocks_weights_with_another_number_of_heads_are_warned_of(data, stock, tmp_path, caplog):
    train(data, tmp_path, "pos_roberta", f"--finetune-from-model={stock}", "--encoder-attention-heads=8")
    assert "--encoder-attention-heads is 8 here, and was 4 when these weights were trained" in caplog.text


def test_weights_of_another_system_are_refused_by_the_option(data, tmp_path):
    train(data, tmp_path / "seprem", "seprem_roberta")
    start = f"--finetune-from-model={tmp_path}/seprem/checkpoint_last.pt"
    with pytest.raises(
        ValueError, match=r"checkpoint_last\.pt: .* which the model lacks: give --tree-mixing as it was"
    ):
        train(data, tmp_path / "sla", "sla_roberta", start)
