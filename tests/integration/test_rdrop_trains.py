"""Training by R-Drop, fairseq's criterion that runs each batch twice through the model."""

from __future__ import annotations

import pytest
from fairseq.logging import metrics

import commands

R_DROP = ["--criterion=label_smoothed_cross_entropy_with_rdrop", "--rdrop-alpha=5"]
BLEU = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 2, "max_len_b": 10}']


@pytest.fixture(scope="module")
def data(corpus, plain_data_bin, tmp_path_factory):
    """A data-bin of which one sentence in three has no parse."""
    folder = tmp_path_factory.mktemp("partly")
    for name in ("train", "valid", "test"):
        trees = (corpus / f"{name}.src.trees").read_text().splitlines()
        (folder / f"{name}.src.trees").write_text("".join(f"{t if i % 3 else '(())'}\n" for i, t in enumerate(trees)))
    (folder / "bpe").symlink_to(corpus / "bpe")
    commands.binarize(folder, commands.copy(plain_data_bin, folder / "data-bin"))
    return folder / "data-bin"


@pytest.mark.parametrize(
    "options",
    [[], ["--amp"], ["--fp16"], ["--update-freq=3", "--checkpoint-activations"], ["--gate-warmup-epochs=1"], BLEU],
    ids=lambda options: " ".join(options[:2]).replace("--", ""),
)
def test_trains(data, tmp_path, options, half_precision):
    trainer = commands.train(
        data, tmp_path, "--max-epoch=2", *R_DROP, *options, cpu=not half_precision or options[:1] != ["--fp16"]
    )
    valid = metrics.get_smoothed_values("valid")
    assert valid["nll_loss"] < 16  # of both copies
    assert all(0 < value < 1 for name, value in valid.items() if name.startswith("gate_"))
    assert ("bleu" in valid) == ("--eval-bleu" in options)
    before = trainer.get_num_updates()
    for _ in range(2):
        trainer.train_step([{}])  # the dummy batch
    assert trainer.get_num_updates() == before + 2
    assert commands.generate(data, tmp_path / "checkpoint_last.pt", more=("--fp16",) * ("--fp16" in options))
