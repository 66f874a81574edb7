"""What syntax costs a Transformer: fairseq's own `transformer` and ours, side by side.

    python benchmarks/speed.py [--sizes 64,128,512] [--papers] [--cpu]

No data is needed: random tokens under random trees, in batches of sentences of like lengths, the same for all models
of a size. Everything is measured in one run, in turn, step by step; medians. A ratio is stock's time over ours: above
1 is faster than stock. Tables:

1. training step (forward, backward, Adam) by fairseq's trainer, with torch's dropout in all models and with fast
   dropout in all (`--cpu-dropout`), encoder forward, beam search, peak memory;
2. what a batch's masks cost, as a share of the training step;
3. how masks and self-attention grow with the sentence's length n.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import platform
import re
import shlex
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
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
from syntax_preprocess.system.workers import end_with_parent

VOCABULARY = 8000
SIZES = {  # embed dim: (FFN, heads, layers, tokens in a batch)
    64: (128, 4, 2, 4096),
    128: (256, 4, 3, 4096),
    512: (1024, 4, 6, 1024),
}
REGULARISATION = "--dropout 0.3 --attention-dropout 0.2"  # as Hou 2024 §5.1
SYSTEMS = {
    "transformer": "--arch transformer",
    "slr": "--arch gated_syntax_transformer --syntax-masks slr --syntax-dropout 0.1",
    "slr,sdoi": "--arch gated_syntax_transformer --syntax-masks slr,sdoi --syntax-dropout 0.1",
}
#: The systems of the other papers, by ``--papers``.
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
    """Batches of so many tokens, of sentences of 8 to 48."""
    random = Random(1)
    batches = []
    for i in range(count):
        middle = 10 + 36 * i // max(1, count - 1)
        size = max(2, tokens // (middle + 2))
        batches.append(random_batch(random, [middle + random.randint(-2, 2) for _ in range(size)]))
    return batches


class System:
    """One of :data:`SYSTEMS` or :data:`PAPERS`, ready to train, encode and generate."""

    def __init__(self, name: str, size: int, cpu: bool, *, dropout: str = "fast"):
        ffn, heads, layers, _ = SIZES[size]
        shape = " ".join(
            f"--{side}-embed-dim {size} --{side}-ffn-embed-dim {ffn} --{side}-attention-heads {heads} "
            f"--{side}-layers {layers}"
            for side in ("encoder", "decoder")
        )
        command = (
            f"none --task syntax_translation {shape} {REGULARISATION} --share-all-embeddings "
            "--optimizer adam --lr 1e-4 --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --clip-norm 1 "
            f"--max-tokens 4096 --seed 1 --cpu-dropout {dropout} {'--cpu' * cpu} {(SYSTEMS | PAPERS)[name]}"
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
        """The batch, for this model, where it computes; with what its auxiliary losses need, if it is to have that."""
        net_input = dict(batch["net_input"])
        syntax = syntax_of(self.model)
        needed = {*syntax.syntax_features, *(syntax.label_features if labels else ())}
        features = {name: f for name, f in net_input.pop("src_syntax").items() if name in needed}
        if features:
            net_input["src_syntax"] = features
        sample = {**batch, "net_input": net_input}
        return utils.move_to_cuda(sample) if self.cuda else sample

    def train(self, batch: dict[str, Any]) -> None:
        self.trainer.train_step([self.sample(batch, labels=True)])

    def encode(self, batch: dict[str, Any]) -> None:
        net_input = self.sample(batch)["net_input"]
        self.model.eval()
        with torch.no_grad():
            self.model.encoder(**{name: x for name, x in net_input.items() if name != "prev_output_tokens"})

    def generate(self, batch: dict[str, Any]) -> None:
        self.model.eval()
        sample = self.sample(batch)
        del sample["target"]
        self.task.inference_step(self.generator, [self.model], sample)

    def build_masks(self, batch: dict[str, Any]) -> None:
        net_input = self.sample(batch)["net_input"]
        self.model.encoder.mask_builder(net_input.get("src_syntax"), net_input["src_tokens"])


def seconds(function: Callable[[], Any]) -> float:
    """How long a call takes, to its end on a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begin = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def in_turn(
    functions: dict[str, Callable[[Any], Any]], inputs: list[Any], repeats: int
) -> tuple[dict[str, float], list[float]]:
    """Seconds of each function on all `inputs`, medians of `repeats` that are taken in turn; and for each function but
    the first the median ratio of the first one's time to its own, turn by turn, which outlives a machine's moods."""
    total = dict.fromkeys(functions, 0.0)
    turns: list[list[float]] = []
    for given in inputs:
        measured = []
        for function in functions.values():  # to warm up
            function(given)
        for _ in range(repeats):
            measured.append([seconds(lambda f=function, x=given: f(x)) for function in functions.values()])
        turns += measured
        for name, values in zip(functions, zip(*measured, strict=True), strict=True):
            total[name] += statistics.median(values)
    return total, [statistics.median(turn[0] / turn[i] for turn in turns) for i in range(1, len(functions))]


def peak_memory(name: str, size: int, cpu: bool) -> float:
    """MiB that three training steps take at most: all of a process (CPU, Linux), or what torch allocates (CUDA)."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=end_with_parent) as pool:
        return pool.submit(_peak_memory, name, size, cpu).result()


def _peak_memory(name: str, size: int, cpu: bool) -> float:
    be_quiet()
    system = System(name, size, cpu)
    batches = random_batches(SIZES[size][3], 3)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far, which was inherited, is forgotten
    for batch in batches:
        system.train(batch)
    if system.cuda:
        return torch.cuda.max_memory_allocated() / 2**20
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def be_quiet() -> None:
    """fairseq's and hydra's deprecation warnings would stand between the tables."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def compare(names: Iterable[str], size: int, repeats: int, cpu: bool) -> None:
    ffn, heads, layers, tokens = SIZES[size]
    systems = {name: System(name, size, cpu) for name in names}
    batches = random_batches(tokens, 3)
    words = sum(batch["ntokens"] for batch in batches)
    print(f"\n{size}/{ffn}, {heads} heads, {layers}+{layers} layers, batches of about {tokens} tokens\n")
    print(f"| | {' | '.join(systems)} | {' | '.join(f'ratio, {name}' for name in list(systems)[1:])} |")
    print(f"| --- {'| --- ' * (2 * len(systems) - 1)}|")

    def row(what: str, values: list[float], ratios: list[float], form: str = "{:,.0f}") -> None:
        print(f"| {what} | {' | '.join([*map(form.format, values), *(f'{r:.3f}' for r in ratios)])} |", flush=True)

    for dropout, trained in (("torch", {name: System(name, size, cpu, dropout="torch") for name in systems}),
                             ("fast", systems)):  # fmt: skip
        train, ratios = in_turn({name: system.train for name, system in trained.items()}, batches, repeats)
        row(f"training, {dropout} dropout, words/s", [words / value for value in train.values()], ratios)
    encode, ratios = in_turn({name: system.encode for name, system in systems.items()}, batches, 4 * repeats)
    row("encoder forward, words/s", [words / value for value in encode.values()], ratios)
    some = [random_batch(Random(1), [24] * (tokens // 128))]
    generate, ratios = in_turn({name: system.generate for name, system in systems.items()}, some, 8 * repeats)
    row("generation, sentences/s", [len(some[0]["id"]) / value for value in generate.values()], ratios, "{:.1f}")
    memory = [peak_memory(name, size, cpu) for name in systems]
    row("peak memory, MiB", memory, [memory[0] / value for value in memory[1:]])
    guided = {name: system for name, system in systems.items() if name != "transformer"}
    masks, _ = in_turn({name: system.build_masks for name, system in guided.items()}, batches, repeats)
    shares = [f"{100 * masks[name] / train[name]:.2f}%" for name in guided]
    print(f"| masks, share of a training step | | {' | '.join(shares)} |{' |' * len(guided)}", flush=True)


def growth(size: int, repeats: int, cpu: bool) -> None:
    systems = {name: System(name, size, cpu) for name in SYSTEMS}
    ours = [name for name in systems if name != "transformer"]
    print(f"\n{size} dimensions, 16 sentences of n subwords, milliseconds\n")
    print(f"| n | {' | '.join(f'masks, {n}' for n in ours)} | {' | '.join(f'encoder, {n}' for n in systems)} |")
    print(f"| --- {'| --- ' * (len(ours) + len(systems))}|")
    for n in (16, 32, 64, 128, 256, 512):
        batch = [random_batch(Random(n), [n] * 16)]
        masks, _ = in_turn({name: systems[name].build_masks for name in ours}, batch, repeats)
        encoder, _ = in_turn({name: system.encode for name, system in systems.items()}, batch, repeats)
        values = [*masks.values(), *encoder.values()]
        print(f"| {n} | {' | '.join(f'{1000 * value:.2f}' for value in values)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="embed dims (default: all)")
    parser.add_argument("--papers", action="store_true", help="the systems of the other papers")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch on a CPU (default: all cores)")
    args = parser.parse_args()
    be_quiet()
    torch.set_num_threads(args.threads)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() and not args.cpu else None
    print(f"{gpu or f'{platform.machine()}, {args.threads} threads'}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = [int(size) for size in args.sizes.split(",")]
        for size in sizes:
            compare(PAPERS if args.papers else SYSTEMS, size, args.repeats, args.cpu)
        if not args.papers:
            growth(sizes[min(1, len(sizes) - 1)], args.repeats, args.cpu)


if __name__ == "__main__":
    main()
