"""Subwords of the training set that are drawn in each epoch."""

from __future__ import annotations

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary

import commands
from fairseq_syntax.data.subword_sampling import SubwordModel, SubwordSampler
from syntax_data.errors import InputError
from syntax_data.text.symbols import SymbolPattern

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
        assert torch.equal(SubwordSampler(model, dictionary, 0.0).draw(stored, seed).tokens, stored)
    assert differ > len(lines) / 2
    stored = dictionary.encode_line(lines[0], add_if_not_exist=False)
    for word in model.words(lines[0].split()):
        text = "".join(map(model.text, word)).removeprefix("▁")
        kept = SubwordSampler(model, dictionary, RATE, SymbolPattern.read(text))
        for seed in range(20):
            assert " ".join(word) in dictionary.string(kept.draw(stored, seed).tokens)


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
    task.dataset_to_epoch_iter.clear()
    task.get_batch_iterator(pairs, max_sentences=8, epoch=2)  # as a resumed training does
    assert all(torch.equal(pairs[i]["source"], second["source"]) for i, second in enumerate(epochs[1]))
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


@pytest.mark.nightly
@pytest.mark.parametrize("loading", [["--num-workers=0"], ["--num-workers=1", "--data-buffer-size=0"]])
def test_a_resumed_training_draws_as_an_unbroken_one(corpus, data_bin, tmp_path, loading):
    options = [*loading, *SAMPLING, models_of(corpus), "--disable-validation"]
    commands.train(data_bin, tmp_path / "whole", "--max-update=15", *options)
    for update in (11, 15):  # eight an epoch
        commands.train(data_bin, tmp_path / "broken", f"--max-update={update}", *options)
    whole, broken = (commands.parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "broken"))
    assert all(torch.equal(broken[name], weight) for name, weight in whole.items())


def test_a_rate_of_zero_draws_nothing(corpus, data_bin, tmp_path, caplog):
    rates = [f"{option.partition('=')[0]}=0" for option in SAMPLING]
    commands.train(data_bin, tmp_path / "zero", "--max-update=2", *rates, models_of(corpus))
    assert "--subword-model is not used" in caplog.text
    commands.train(data_bin, tmp_path / "plain", "--max-update=2")
    zero, plain = (commands.parameters(tmp_path / name / "checkpoint_last.pt") for name in ("zero", "plain"))
    assert all(torch.equal(zero[name], weight) for name, weight in plain.items())


def test_what_cannot_be_drawn_is_refused_or_counted(corpus, data_bin, tmp_path, caplog):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.3\na b\n")
    for options, error, message in (
        ([], ValueError, "expected --subword-model FILE or SOURCE,TARGET beside it, found None"),
        ([models_of(corpus) + ",x"], ValueError, "beside it, found .*,x"),
        ([models_of(corpus), "--num-batch-buckets=2"], ValueError, "expected no --load-alignments, no --num-batch-b"),
        ([models_of(corpus), "--valid-subset=valid,train"], ValueError, "and a --valid-subset without train"),
        ([models_of(corpus), "--target-subword-sampling=1.5"], ValueError, "--target-subword-sampling: .*found 1.5"),
        (["--subword-model=nowhere"], InputError, "nowhere: expected a model of subwords, found "),
        ([f"--subword-model={codes}"], InputError, "codes: expected a model of sentencepiece or merges .*neither"),
        ([f"--subword-model={data_bin / 'dict.src.txt'}"], InputError, "expected the model.*splits .* of [0-9]* words"),
    ):
        with pytest.raises(error, match=message):
            commands.train(data_bin, tmp_path, "--max-update=1", *SAMPLING, *options)
    dictionary = Dictionary()
    lines = [dictionary.encode_line(line) for line in (corpus / "bpe/train.src").read_text().splitlines()]
    sampler = SubwordSampler(SubwordModel.read(str(corpus / "codes.src")), dictionary, 0.9)
    with caplog.at_level("WARNING"):
        sampler.check("codes", lines)
    assert "have subwords that the dictionary lacks, and stay" in caplog.text
