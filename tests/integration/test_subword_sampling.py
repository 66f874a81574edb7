"""Subwords of the training set that are drawn in each epoch."""

from __future__ import annotations

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary

import commands
from fairseq_syntax.data.subword_sampling import SubwordModel, SubwordSampler, check_model
from syntax_data.errors import InputError

RATE = 0.3


@pytest.fixture(params=["subword_nmt", "bpe", "unigram"])
def model_and_lines(request, corpus, tmp_path):
    """A model of subwords, and the source's lines that it split."""
    if request.param == "subword_nmt":
        return corpus / "codes.src", (corpus / "bpe/train.src").read_text().splitlines()
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus / "train.src"), model_prefix=str(tmp_path / "m"), vocab_size=60, model_type=request.param,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    lines = (corpus / "train.src").read_text().splitlines()
    return tmp_path / "m.model", [" ".join(model.encode(line, out_type=str)) for line in lines]


def test_a_draw_is_the_same_text_and_follows_from_its_seed(model_and_lines):
    path, lines = model_and_lines
    model = SubwordModel.read(str(path))
    dictionary = Dictionary()
    for line in lines:
        dictionary.encode_line(line)
        for character in {c for word in line.split() for c in model.text(word)}:
            for symbol in (character, f"{character}@@"):
                dictionary.add_symbol(symbol)
    dictionary.add_symbol("<tag>")
    sampler = SubwordSampler(model, dictionary, RATE)
    differ = 0
    for seed, line in enumerate(["<tag> " + line for line in lines] + ["<unk> " + lines[0], ""]):
        stored = dictionary.encode_line(line, add_if_not_exist=False)
        tokens, first_in = sampler.draw(stored, seed)
        assert torch.equal(sampler.draw(stored, seed).tokens, tokens)
        assert tokens[-1] == dictionary.eos()
        assert first_in[-1] == len(stored) - 1
        differ += not torch.equal(tokens, stored)
        # Each subword begins within the text of its stored one.
        here, there = ([model.text(dictionary[i]) for i in of[:-1].tolist()] for of in (stored, tokens))
        assert "".join(here) == "".join(there)
        starts, ends = np.cumsum([0, *map(len, here)]), np.cumsum([*map(len, here), 1])
        places = np.cumsum([0, *map(len, there)])
        assert ((starts[first_in] <= places) & (places < ends[first_in])).all()
        assert tokens[: line.startswith("<")].tolist() == stored[: line.startswith("<")].tolist()
    assert differ > len(lines) / 2
    assert torch.equal(SubwordSampler(model, dictionary, 1e-9).draw(stored, 1).tokens, stored)


SAMPLING = "--source-subword-sampling=0.3", "--target-subword-sampling=0.3"


def models_of(corpus) -> str:
    return f"--subword-model={corpus / 'codes.src'},{corpus / 'codes.tgt'}"


def test_batches_have_drawn_subwords_with_the_features_of_their_words(corpus, data_bin, tmp_path):
    trainer = commands.train(
        data_bin, tmp_path, "--max-update=1", *SAMPLING, models_of(corpus), "--syntax-masks=slr,sdoi", "--no-save"
    )
    task = trainer.task
    pairs = task.datasets["train"]
    stored = pairs.dataset.dataset
    words = (corpus / "train.src").read_text().splitlines()
    epochs = []
    for epoch in (1, 2, 1):
        pairs.set_epoch(epoch)
        epochs.append([pairs[i] for i in range(len(pairs))])
    for i, (first, second, again) in enumerate(zip(*epochs, strict=True)):
        assert torch.equal(first["source"], again["source"])
        for example in (first, second):
            assert task.src_dict.string(example["source"], "subword_nmt") == words[i]
            assert task.tgt_dict.string(example["target"], "subword_nmt") == task.tgt_dict.string(
                stored[i]["target"], "subword_nmt"
            )
            ends = [not task.src_dict[n].endswith("@@") for n in example["source"][:-1].tolist()]
            assert example["syntax"]["word"].tolist() == np.cumsum([0, *ends]).tolist()
            assert {len(values) for values in example["syntax"].values()} == {len(example["source"])}
    assert any(not torch.equal(a["source"], b["source"]) for a, b in zip(*epochs[:2], strict=True))
    assert any(not torch.equal(a["target"], b["target"]) for a, b in zip(*epochs[:2], strict=True))
    assert not hasattr(task.datasets["valid"].dataset, "samplers")


def test_a_resumed_training_draws_as_an_unbroken_one(corpus, data_bin, tmp_path):
    options = ["--num-workers=1", *SAMPLING, models_of(corpus), "--disable-validation"]
    commands.train(data_bin, tmp_path / "whole", "--max-update=15", *options)
    for update in (8, 15):  # six an epoch
        commands.train(data_bin, tmp_path / "broken", f"--max-update={update}", *options)
    whole, broken = (commands.parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "broken"))
    assert all(torch.equal(broken[name], weight) for name, weight in whole.items())


def test_another_model_is_refused(corpus, data_bin, tmp_path):
    for options, error, message in (
        ([], ValueError, "expected --subword-model FILE, too"),
        ([models_of(corpus), "--num-batch-buckets=2"], ValueError, "nor --num-batch-buckets"),
        ([f"--subword-model={data_bin / 'dict.src.txt'}"], InputError, "found neither"),
    ):
        with pytest.raises(error, match=message):
            commands.train(data_bin, tmp_path, "--max-update=1", *SAMPLING, *options)
    dictionary = Dictionary()
    line = dictionary.encode_line("q@@ z@@ q z@@ z")
    sampler = SubwordSampler(SubwordModel.read(str(corpus / "codes.src")), dictionary, RATE)
    check_model("codes", sampler, [line])
    line = dictionary.encode_line("tama@@ ri tamari")
    with pytest.raises(InputError, match=r"codes: expected the model .*, found 0 of 2 in the first"):
        check_model("codes", sampler, [line])
