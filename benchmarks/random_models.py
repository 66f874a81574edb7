"""Models of any size, and random batches for them: random tokens under random trees."""

from __future__ import annotations

import argparse
import logging
import shlex
import warnings
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from fairseq import options, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask
from fairseq_syntax.testing import EOS, FIRST_WORD, LABELS, PAD, random_features, random_labels, random_source

VOCABULARY = 8000
REGULARISATION = "--dropout 0.3 --attention-dropout 0.2"  # as Hou 2024 §5.1

#: Systems by name: their options.
SYSTEMS = {
    "transformer": "--arch transformer",
    "slr": "--arch gated_syntax_transformer --syntax-masks slr --syntax-dropout 0.1",
    "slr,sdoi": "--arch gated_syntax_transformer --syntax-masks slr,sdoi --syntax-dropout 0.1",
}
#: Systems of the other papers.
PAPERS = {
    "transformer": "--arch transformer",
    "relative position": "--arch relative_position_transformer",
    "tree biases": "--arch tree_bias_transformer",
    "Distance": "--arch distance_transformer",
    "PASCAL": "--arch pascal_transformer --parent-ignoring 0.3",
    "SLA": "--arch sla_transformer",
    "SG-Net": "--arch sg_net_transformer",
    "infused": f"--arch syntax_infused_transformer --feature-merge sum --upos-labels '{' '.join(LABELS)}'",
    "LISA": "--arch lisa_transformer --criterion label_smoothed_cross_entropy_with_syntax",
    "SEPREM": "--arch seprem_transformer --criterion label_smoothed_cross_entropy_with_syntax",
}


@dataclass(frozen=True)
class Size:
    """Size of a model.

    Attributes:
        dim: width of encoder and decoder.
        ffn: width of their feed-forward networks.
        heads: number of heads of each attention.
        layers: number of the encoder's layers, and of the decoder's.
    """

    dim: int
    ffn: int
    heads: int
    layers: int

    def __str__(self) -> str:
        return f"{self.dim}/{self.ffn}, {self.heads} heads, {self.layers}+{self.layers} layers"


def random_batch(random: Random, lengths: list[int]) -> dict[str, Any]:
    """A batch as the task's dataset makes it; `lengths` count `</s>`."""
    width = max(lengths)
    trees = [random_features(random, max(1, round((n - 1) * 0.85)), n - 1) for n in lengths]
    sentences = [{**tree, **random_labels(random, n - 1)} for tree, n in zip(trees, lengths, strict=True)]
    targets = [
        [random.randrange(FIRST_WORD, VOCABULARY) for _ in range(n - 1)] + [EOS] + [PAD] * (width - n) for n in lengths
    ]
    target = torch.tensor(targets)
    return {
        "id": torch.arange(len(lengths)),
        "nsentences": len(lengths),
        "ntokens": sum(lengths),
        "net_input": {
            **random_source(random, sentences, vocabulary=VOCABULARY),
            "prev_output_tokens": torch.cat([target.new_full((len(lengths), 1), EOS), target[:, :-1]], dim=1),
        },
        "target": target,
    }


def random_batches(tokens: int, count: int) -> list[dict[str, Any]]:
    """Batches of about N tokens, of sentences of 8 to 48."""
    random = Random(1)
    batches = []
    for i in range(count):
        middle = 10 + 36 * i // max(1, count - 1)
        size = max(2, tokens // (middle + 2))
        batches.append(random_batch(random, [middle + random.randint(-2, 2) for _ in range(size)]))
    return batches


class System:
    """A model, ready to train, encode and generate.

    Args:
        options_of_system: as in :data:`SYSTEMS` or :data:`PAPERS`, and perhaps more options.
        cpu: use no GPU.
        dropout: ``--cpu-dropout``.
    """

    def __init__(self, options_of_system: str, size: Size, *, cpu: bool, dropout: str = "fast"):
        shape = " ".join(
            f"--{side}-embed-dim {size.dim} --{side}-ffn-embed-dim {size.ffn} --{side}-attention-heads {size.heads} "
            f"--{side}-layers {size.layers}"
            for side in ("encoder", "decoder")
        )
        command = (
            f"none --task syntax_translation {shape} {REGULARISATION} --share-all-embeddings "
            "--optimizer adam --lr 1e-4 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --clip-norm 1 "
            f"--max-tokens 4096 --seed 1 --cpu-dropout {dropout} {'--cpu' * cpu} {options_of_system}"
        )
        args = options.parse_args_and_arch(options.get_training_parser(), shlex.split(command))
        cfg = convert_namespace_to_omegaconf(args)
        symbols = Dictionary()
        for i in range(len(symbols), VOCABULARY):
            symbols.add_symbol(f"s{i}")
        self.task = SyntaxTranslationTask(cfg.task, symbols, symbols)
        torch.manual_seed(1)
        self.model = self.task.build_model(cfg.model)
        self.trainer = Trainer(cfg, self.task, self.model, self.task.build_criterion(cfg.criterion))
        self.trainer.lr_step(1)
        self.cuda = self.trainer.cuda
        self.generator = self.task.build_generator(
            [self.model], argparse.Namespace(beam=5, max_len_a=0, max_len_b=30, min_len=30)
        )

    def sample(self, batch: dict[str, Any], *, labels: bool = False) -> dict[str, Any]:
        """The batch, for this model, where it computes; with labels for its auxiliary losses, if asked for."""
        net_input = dict(batch["net_input"])
        syntax = syntax_of(self.model)
        needed = {*syntax.syntax_features, *(syntax.label_features if labels else ())} if syntax else set()
        features = {name: f for name, f in net_input.pop("src_syntax").items() if name in needed}
        if features:
            net_input["src_syntax"] = features
        sample = {**batch, "net_input": net_input}
        return utils.move_to_cuda(sample) if self.cuda else sample

    def train(self, batch: dict[str, Any]) -> None:
        self.trainer.train_step([self.sample(batch, labels=True)])

    def encode(self, batch: dict[str, Any]) -> None:
        net_input = self.sample(batch)["net_input"]
        self._evaluate()
        with torch.no_grad():
            self.model.encoder(**{name: x for name, x in net_input.items() if name != "prev_output_tokens"})

    def generate(self, batch: dict[str, Any]) -> None:
        self._evaluate()
        sample = self.sample(batch)
        del sample["target"]
        self.task.inference_step(self.generator, [self.model], sample)

    def _evaluate(self) -> None:
        if self.model.training:  # else time is spent on walking through all modules
            self.model.eval()

    def build_masks(self, batch: dict[str, Any]) -> None:
        net_input = self.sample(batch)["net_input"]
        self.model.encoder.bias_builder(net_input.get("src_syntax"), net_input["src_tokens"])


def be_quiet() -> None:
    """Silence deprecation warnings of fairseq and hydra, which would be printed between the tables."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
