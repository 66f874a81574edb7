"""R-Drop, fairseq's criterion that runs each batch twice through the model."""

from __future__ import annotations

import copy
from random import Random
from types import SimpleNamespace

import pytest
import torch
from fairseq import criterions
from fairseq.logging import metrics

import commands
import small

R_DROP = ["--criterion=label_smoothed_cross_entropy_with_rdrop", "--rdrop-alpha=5"]
BLEU = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 2, "max_len_b": 10}']


def sample():
    """A batch in which one sentence has no parse."""
    random = Random(3)
    net_input = small.batch([small.features(random, 4, 6), 5, small.features(random, 6, 9)])
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
