"""Models of any size, and random batches for them: random tokens under random trees."""

from __future__ import annotations

import argparse
import logging
import shlex
import warnings
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

import torch
from fairseq import options, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from torch import Tensor

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.models.syntax_model import syntax_of
from fairseq_syntax.modules.syntax_batch import SPECIAL, SyntaxBatch
from fairseq_syntax.modules.tree_mixing import Descendants
from fairseq_syntax.tasks.syntax_sentence_prediction import SyntaxSentencePredictionTask
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask
from fairseq_syntax.testing import BOS, EOS, FIRST_WORD, LABELS, PAD, random_features, random_labels, random_source

VOCABULARY = 8000
REGULARISATION = "--dropout 0.3 --attention-dropout 0.2"  # as Hou 2024 §5.1

#: Systems by name: their options.
SYSTEMS = {
    "transformer": "--arch transformer",
    "slr": "--arch gated_syntax_transformer --syntax-masks slr --syntax-dropout 0.1",
    "slr,sdoi": "--arch gated_syntax_transformer --syntax-masks slr,sdoi --syntax-dropout 0.1",
    "tree biases": "--arch tree_bias_transformer",
}
_LABELS = f"'{' '.join(LABELS)}'"
_OF_LABELS = f"--upos-labels {_LABELS} --deprel-labels {_LABELS}"
_EDGES = "--arch tree_bias_transformer --syntax-masks tree_path,tree_height,tree_edge"
_CATEGORIES = "--arch tree_bias_transformer --syntax-masks tree_path,tree_height,tree_category"
#: Systems of the other papers, and ours with labels.
PAPERS = {
    "transformer": "--arch transformer",
    "relative position": "--arch relative_position_transformer",
    "word boundaries": "--arch word_position_transformer",
    "tree biases": SYSTEMS["tree biases"],
    "labels": f"--arch tree_label_transformer {_OF_LABELS}",
    "Distance": "--arch distance_transformer",
    "PASCAL": "--arch pascal_transformer --parent-ignoring 0.3",
    "SLA": "--arch sla_transformer",
    "SG-Net": "--arch sg_net_transformer",
    "infused": f"--arch syntax_infused_transformer --feature-merge sum --upos-labels {_LABELS}",
    "LISA": "--arch lisa_transformer --criterion label_smoothed_cross_entropy_with_syntax",
    "SEPREM": "--arch seprem_transformer --criterion label_smoothed_cross_entropy_with_syntax",
}
_SUPERTAGS = f"--feature-embeddings upos,deprel --feature-merge sum --supertags {_OF_LABELS}"
#: What a system gets from one to the next: positions, word boundaries, trees; positions in the decoder; each use of
#: labels.
PARTS = {
    **{name: PAPERS[name] for name in ("transformer", "relative position", "word boundaries", "tree biases")},
    "… decoder": "--arch tree_bias_transformer --decoder-position-bias",
    "… edges": f"{_EDGES} {_OF_LABELS}",
    "… edges, values": f"{_EDGES} --tree-edge-values {_OF_LABELS}",
    "… categories, values": f"{_CATEGORIES} --tree-category-values --shared-category-labels {_LABELS}",
    "… supertags": f"--arch tree_bias_transformer {_SUPERTAGS}",
    "… supertags, keys": f"--arch tree_bias_transformer {_SUPERTAGS} --feature-keys",
    "labels": PAPERS["labels"],
    "tree HMM": "--arch tree_hmm_transformer",
}
#: RoBERTa, fairseq's and with each system's encoder.
ROBERTAS = {
    "roberta": "--arch roberta",
    "relative position": "--arch relative_position_roberta",
    "tree biases": "--arch tree_bias_roberta",
    "slr": "--arch gated_syntax_roberta",
    "slr,sdoi": "--arch gated_syntax_roberta --syntax-masks slr,sdoi",
    "SLA": "--arch sla_roberta",
    "SG-Net": "--arch sg_net_roberta",
    "POS": f"--arch pos_roberta --upos-labels {_LABELS}",
    "SEPREM": "--arch seprem_roberta",
}


@dataclass(frozen=True)
class Size:
    """Size of a model.

    Attributes:
        dim: width of encoder and decoder.
        ffn: width of their feed-forward networks.
        heads: number of heads of each attention.
        layers: number of the encoder's layers, and of the decoder's, if there is one.
    """

    dim: int
    ffn: int
    heads: int
    layers: int

    def __str__(self) -> str:
        return f"{self.dim}/{self.ffn}, {self.heads} heads, {self.layers} layers"

    def options(self, *sides: str) -> str:
        """Options of the command line for an encoder and a decoder."""
        return " ".join(
            f"--{side}-embed-dim {self.dim} --{side}-ffn-embed-dim {self.ffn} --{side}-attention-heads {self.heads} "
            f"--{side}-layers {self.layers}"
            for side in sides
        )


def random_sentence(random: Random, length: int) -> dict[str, list[int]]:
    """Features of a sentence; its length counts `</s>`."""
    tree = random_features(random, max(1, round((length - 1) * 0.85)), length - 1)
    return {**tree, **random_labels(random, length - 1)}


def random_batch(random: Random, lengths: list[int]) -> dict[str, Any]:
    """A batch as the task's dataset makes it; `lengths` count `</s>`."""
    width = max(lengths)
    sentences = [random_sentence(random, n) for n in lengths]
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


def random_segments(random: Random, *lengths: int) -> list[Segment]:
    """Segments of an example, each after one special token; lengths count `</s>`."""
    sentences = [random_sentence(random, n) for n in lengths]
    tensors = [{name: torch.tensor(values) for name, values in sentence.items()} for sentence in sentences]
    return [Segment(features, n, before=1) for features, n in zip(tensors, lengths, strict=True)]


def example_batch(random: Random, examples: list[list[Segment]]) -> dict[str, Any]:
    """A batch of examples ``<s> A </s> </s> B </s>`` with one of two labels, as the task's dataset makes it."""
    composed = [compose(segments) for segments in examples]
    lengths = torch.tensor([len(features[SPECIAL]) for features in composed])
    real = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    syntax = SyntaxBatch.collate(composed, real)
    tokens = torch.tensor([[random.randrange(FIRST_WORD, VOCABULARY) for _ in row] for row in real])
    tokens = tokens.masked_fill(syntax[SPECIAL] == 1, EOS).masked_fill(~real, PAD)
    tokens[:, 0] = BOS
    return {
        "id": torch.arange(len(examples)),
        "nsentences": len(examples),
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": tokens, "src_lengths": lengths, "src_syntax": syntax},
        "target": torch.tensor([[random.randrange(2)] for _ in examples]),
    }


def example_batches(tokens: int, count: int) -> list[dict[str, Any]]:
    """Batches of about N tokens, of pairs of 10 to 50 and 6 to 16 subwords in any order, so that 30% is padding."""
    random = Random(1)
    pairs = [[(random.randint(10, 50), random.randint(6, 16)) for _ in range(tokens // 43)] for _ in range(count)]
    return [example_batch(random, [random_segments(random, *pair) for pair in batch]) for batch in pairs]


class System:
    """A model that translates, ready to train, encode and generate.

    Args:
        options_of_system: as in :data:`SYSTEMS` or :data:`PAPERS`, and perhaps more options.
        cpu: use no GPU.
        dropout: ``--cpu-dropout``.
    """

    task_type: type[Any] = SyntaxTranslationTask
    batches = staticmethod(random_batches)
    command = (
        "--task syntax_translation --share-all-embeddings --max-tokens 4096 --criterion label_smoothed_cross_entropy "
        f"--label-smoothing 0.1 {REGULARISATION}"
    )
    sides: tuple[str, ...] = ("encoder", "decoder")
    evaluation = "encoder forward"  # what evaluate does

    def __init__(self, options_of_system: str, size: Size, *, cpu: bool, dropout: str = "fast"):
        command = (
            f"none {self.command} {size.options(*self.sides)} --optimizer adam --lr 1e-4 --clip-norm 1 --seed 1 "
            f"--cpu-dropout {dropout} {'--cpu' * cpu} {options_of_system}"
        )
        args = options.parse_args_and_arch(options.get_training_parser(), shlex.split(command))
        cfg = convert_namespace_to_omegaconf(args)
        cfg.common.tpu = False  # which --bf16 means on fairseq's command line
        symbols = Dictionary()
        for i in range(len(symbols), VOCABULARY):
            symbols.add_symbol(f"s{i}")
        labels = Dictionary()
        for label in ("0", "1"):
            labels.add_symbol(label)
        self.task = self.task_type(cfg.task, symbols, symbols if "decoder" in self.sides else labels)
        torch.manual_seed(1)
        self.model = self.task.build_model(cfg.model)
        self.trainer = Trainer(cfg, self.task, self.model, self.task.build_criterion(cfg.criterion))
        self.trainer.lr_step(1)
        self.cuda = self.trainer.cuda

    def sample(self, batch: dict[str, Any], *, labels: bool = False) -> dict[str, Any]:
        """The batch, for this model, where it computes; with labels for its auxiliary losses, if asked for."""
        net_input = dict(batch["net_input"])
        syntax = syntax_of(self.model)
        needed = {*syntax.syntax_features, *(syntax.label_features if labels else ())} if syntax else set()
        features = {name: f for name, f in net_input.pop("src_syntax").items() if name in needed | {SPECIAL}}
        if needed:
            net_input["src_syntax"] = features
        sample = {**batch, "net_input": net_input}
        return utils.move_to_cuda(sample) if self.cuda else sample

    def train(self, batch: dict[str, Any]) -> Any:
        """One update; its log, or ``None`` if gradients overflowed."""
        return self.trainer.train_step([self.sample(batch, labels=True)])

    def evaluate(self, batch: dict[str, Any]) -> None:
        """Encode, without gradients."""
        net_input = self.sample(batch)["net_input"]
        self._evaluate()
        with torch.no_grad():
            self.model.encoder(**{name: x for name, x in net_input.items() if name != "prev_output_tokens"})

    @cached_property
    def generator(self) -> Any:
        return self.task.build_generator(
            [self.model], argparse.Namespace(beam=5, max_len_a=0, max_len_b=30, min_len=30)
        )

    def generate(self, batch: dict[str, Any]) -> Any:
        """Translations of each sentence, the best first."""
        self._evaluate()
        sample = self.sample(batch)
        del sample["target"]
        return self.task.inference_step(self.generator, [self.model], sample)

    def _evaluate(self) -> None:
        if self.model.training:  # else time is spent on walking through all modules
            self.model.eval()

    def build_masks(self, batch: dict[str, Any]) -> list[Tensor]:
        """Build what all layers share of a batch's parses: biases, and the weights of descendants."""
        net_input = self.sample(batch)["net_input"]
        syntax, encoder = net_input.get("src_syntax"), syntax_of(self.model).syntax_encoder
        shared = [*encoder.bias_builder(syntax, net_input["src_tokens"]).biases]
        if encoder.tree_mixing is not None:
            shared.append(Descendants.of(SyntaxBatch.of(syntax)))
        return [part for of_kind in shared for part in vars(of_kind).values() if isinstance(part, Tensor)]


class Classifier(System):
    """A model that classifies pairs of sentences, ready to train and evaluate; its options as in :data:`ROBERTAS`."""

    task_type = SyntaxSentencePredictionTask
    batches = staticmethod(example_batches)
    command = (
        "--task syntax_sentence_prediction --num-classes 2 --max-positions 512 --batch-size 32 "
        "--criterion sentence_prediction"
    )
    sides = ("encoder",)
    evaluation = "classification"

    def evaluate(self, batch: dict[str, Any]) -> None:
        """Classify, without gradients."""
        net_input = self.sample(batch)["net_input"]
        self._evaluate()
        with torch.no_grad():
            self.model(**net_input, features_only=True, classification_head_name="sentence_classification_head")


def be_quiet() -> None:
    """Silence deprecation warnings of fairseq and hydra, which would be printed between the tables."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
