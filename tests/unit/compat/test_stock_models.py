"""Stock models beside ours in an ensemble: they get no syntax, and stay as they are."""

from __future__ import annotations

from random import Random

import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from torch import nn

import small
from fairseq_syntax.compat.stock_models import StockModel
from fairseq_syntax.testing import random_features


def sample():
    random = Random(3)
    net_input = small.batch([random_features(random, 4, 6), random_features(random, 6, 9)])
    target = net_input["prev_output_tokens"].roll(-1, dims=1)
    return {"id": torch.arange(2), "net_input": net_input, "target": target}


def without(batch):
    return {**batch, "net_input": {k: v for k, v in batch["net_input"].items() if k != "src_syntax"}}


def attributes(model):
    return {name: vars(module).keys() for name, module in model.named_modules()}


def test_a_view_translates_and_scores_as_its_model():
    stock = small.model("transformer").eval()
    batch = sample()
    before = {name: set(keys) for name, keys in attributes(stock).items()}
    view = StockModel(stock)
    assert (view.decoder, view.max_decoder_positions()) == (stock.decoder, stock.max_decoder_positions())
    assert not hasattr(StockModel(nn.Linear(2, 2)), "encoder")
    with torch.no_grad():
        torch.testing.assert_close(view(**batch["net_input"]), stock(**without(batch)["net_input"]), rtol=0, atol=0)
    for found, expected in (
        (generated([view], batch), generated([stock], without(batch))),
        (scored([view], batch), scored([stock], without(batch))),
    ):
        assert found == expected
    assert attributes(stock) == before


def generated(ensemble, batch):
    generator = SequenceGenerator(ensemble, small.dictionary(), beam_size=2, max_len_b=5)
    return [(h["tokens"].tolist(), h["score"].item()) for (h, _) in generator.generate(ensemble, batch)]


def scored(ensemble, batch):
    return [h["score"].item() for (h,) in SequenceScorer(small.dictionary()).generate(ensemble, batch)]
