"""Speed and memory of models with syntax: fairseq's own `transformer` or `roberta` and ours, side by side.

    python benchmarks/speed.py [--sizes 64,128,512] [--papers | --parts | --roberta] [--syntax-dropout 0] [--cpu]

No data is needed: random tokens under random trees, in batches of sentences of like lengths, or of pairs of sentences
in any order, the same for all models of a size. Everything is measured in one run, in turn, step by step; medians. With
one thread on a CPU times are of the process alone, which other programs hardly change. A ratio is stock's time over
ours: above 1 is faster than stock. Tables:

1. training step (forward, backward, Adam) by fairseq's trainer, with torch's dropout in all models and with fast
   dropout in all (`--cpu-dropout`), encoder forward, beam search, peak memory. A second stock model gives the ratio
   of the same to the same;
2. the time to build a batch's attention biases, as a share of the training step;
3. growth of biases and self-attention with the sentence's length n; of RoBERTa the cost of examples' features.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from fairseq_syntax.data.composition import compose
from fairseq_syntax.modules.numerics import UNKNOWN
from fairseq_syntax.modules.syntax_batch import SPECIAL, SyntaxBatch
from fairseq_syntax.tasks.cpu_memory import keep_freed_memory
from random_models import (
    PAPERS,
    PARTS,
    ROBERTAS,
    SYSTEMS,
    Classifier,
    Size,
    System,
    be_quiet,
    example_batch,
    random_batch,
    random_segments,
)
from syntax_data.features import FEATURES
from syntax_data.io.workers import end_with_parent

#: By width, and how many tokens a batch has.
SIZES = {
    System: {
        64: (Size(64, 128, 4, 2), 4096),
        128: (Size(128, 256, 4, 3), 4096),
        512: (Size(512, 1024, 4, 6), 1024),
    },
    Classifier: {
        128: (Size(128, 512, 4, 3), 1376),
        384: (Size(384, 1536, 12, 6), 1376),
        768: (Size(768, 3072, 12, 12), 1376),
    },
}

AGAIN = " again"  # ends the name of a second stock model


def seconds(function: Callable[[], Any]) -> float:
    """How long a call takes, to its end on a GPU; of the CPU alone, where one thread computes."""
    gpu = torch.cuda.is_available()
    clock = time.process_time if torch.get_num_threads() == 1 and not gpu else time.perf_counter
    if gpu:
        torch.cuda.synchronize()
    begin = clock()
    function()
    if gpu:
        torch.cuda.synchronize()
    return clock() - begin


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


def peak_memory(kind: type[System], chosen: str, size: int, cpu: bool) -> float:
    """MiB that three training steps take at most: all of a process (CPU, Linux), or what torch allocates (CUDA)."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=end_with_parent) as pool:
        return pool.submit(_peak_memory, kind, chosen, size, cpu).result()


def _peak_memory(kind: type[System], chosen: str, size: int, cpu: bool) -> float:
    be_quiet()
    keep_freed_memory()
    shape, tokens = SIZES[kind][size]
    system = kind(chosen, shape, cpu=cpu)
    batches = kind.batches(tokens, 3)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far, which was inherited, is forgotten
    for batch in batches:
        system.train(batch)
    if system.cuda:
        return torch.cuda.max_memory_allocated() / 2**20
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def compare(kind: type[System], chosen: Mapping[str, str], size: int, repeats: int, cpu: bool) -> None:
    shape, tokens = SIZES[kind][size]
    batches = kind.batches(tokens, 3)
    words = sum(batch["ntokens"] for batch in batches)
    print(f"\n{shape}, batches of about {tokens} tokens\n")
    print(f"| | {' | '.join(chosen)} | {' | '.join(f'ratio, {name}' for name in list(chosen)[1:])} |")
    print(f"| --- {'| --- ' * (2 * len(chosen) - 1)}|")

    def row(what: str, values: list[float], ratios: list[float], form: str = "{:,.0f}") -> None:
        print(f"| {what} | {' | '.join([*map(form.format, values), *(f'{r:.3f}' for r in ratios)])} |", flush=True)

    systems: dict[str, System] = {}
    for dropout in ("torch", "fast"):
        systems.clear()  # large ones do not fit twice
        systems |= {name: kind(of, shape, cpu=cpu, dropout=dropout) for name, of in chosen.items()}
        train, ratios = in_turn({name: system.train for name, system in systems.items()}, batches, repeats)
        row(f"training, {dropout} dropout, words/s", [words / value for value in train.values()], ratios)
    forward, ratios = in_turn({name: system.evaluate for name, system in systems.items()}, batches, 4 * repeats)
    row(f"{kind.evaluation}, words/s", [words / value for value in forward.values()], ratios)
    if kind is System:
        some = [random_batch(Random(1), [24] * (tokens // 128))]
        generate, ratios = in_turn({name: system.generate for name, system in systems.items()}, some, 8 * repeats)
        row("generation, sentences/s", [len(some[0]["id"]) / value for value in generate.values()], ratios, "{:.1f}")
    memory = [peak_memory(kind, of, size, cpu) for of in chosen.values()]
    row("peak memory, MiB", memory, [memory[0] / value for value in memory[1:]])
    with_syntax = dict(list(systems.items())[2:])
    masks, _ = in_turn({name: system.build_masks for name, system in with_syntax.items()}, batches, repeats)
    shares = [f"{100 * masks[name] / train[name]:.2f}%" for name in with_syntax]
    print(f"| masks, share of a training step | | | {' | '.join(shares)} |{' |' * (len(systems) - 1)}", flush=True)


def growth(chosen: Mapping[str, str], size: int, repeats: int, cpu: bool) -> None:
    systems = {name: System(of, SIZES[System][size][0], cpu=cpu) for name, of in chosen.items() if AGAIN not in name}
    ours = list(systems)[1:]
    print(f"\n{size} dimensions, 16 sentences of n subwords, milliseconds\n")
    print(f"| n | {' | '.join(f'masks, {n}' for n in ours)} | {' | '.join(f'encoder, {n}' for n in systems)} |")
    print(f"| --- {'| --- ' * (len(ours) + len(systems))}|")
    for n in (16, 32, 64, 128, 256, 512):
        batch = [random_batch(Random(n), [n] * 16)]
        masks, _ = in_turn({name: systems[name].build_masks for name in ours}, batch, repeats)
        encoder, _ = in_turn({name: system.evaluate for name, system in systems.items()}, batch, repeats)
        values = [*masks.values(), *encoder.values()]
        print(f"| {n} | {' | '.join(f'{1000 * value:.2f}' for value in values)} |", flush=True)


def examples(chosen: Mapping[str, str], repeats: int) -> None:
    """Print what features cost, of 32 examples of 128 tokens: bytes a token on disk, µs an example, MB a batch."""
    size = SIZES[Classifier][128][0]
    segments = [random_segments(Random(i), 94, 32) for i in range(32)]
    batch = example_batch(Random(1), segments)
    print("\n32 examples of 128 tokens\n\n| | features | bytes | compose, µs | collate, µs | biases, µs | biases, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, of in chosen.items():
        system = Classifier(of, size, cpu=True)
        found = system.sample(batch)["net_input"].get("src_syntax")
        if found is None:
            continue
        names = [feature for feature in found if feature != SPECIAL]
        given = [[replace(s, features={n: s.features[n] for n in names}) for s in example] for example in segments]
        composed = [compose(example) for example in given]
        real = found[SPECIAL] != UNKNOWN
        parts = {
            "compose": lambda _, given=given: [compose(example) for example in given],
            "collate": lambda _, composed=composed, real=real: SyntaxBatch.collate(composed, real),
            "biases": system.build_masks,
        }
        times, _ = in_turn(parts, [batch], repeats)
        megabytes = sum(shared.untyped_storage().nbytes() for shared in system.build_masks(batch)) / 1e6
        stored = sum(np.dtype(FEATURES[feature].dtype).itemsize for feature in names)
        cells = [", ".join(names), str(stored), *(f"{1e6 * value / len(segments):.0f}" for value in times.values())]
        print(f"| {name} | {' | '.join(cells)} | {megabytes:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", help="embed dims, with commas between (default: all)")
    families = parser.add_mutually_exclusive_group()
    families.add_argument("--papers", action="store_true", help="the systems of the other papers")
    families.add_argument("--parts", action="store_true", help="positions, word boundaries, trees, each use of labels")
    families.add_argument("--roberta", action="store_true", help="RoBERTa with the systems' encoders")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="beside stock (default: all)")
    parser.add_argument(
        "--syntax-dropout",
        type=float,
        metavar="P",
        help="of all but fairseq's (default: 0.1; of the papers' what they have)",
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of torch on a CPU (default: all cores)")
    args = parser.parse_args()
    be_quiet()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    kind = Classifier if args.roberta else System
    chosen = ROBERTAS if args.roberta else PAPERS if args.papers else PARTS if args.parts else SYSTEMS
    if unknown := {*(args.systems or ())} - chosen.keys():
        parser.error(f"--systems: expected some of {', '.join(chosen)}, found {min(unknown)}")
    stock = next(iter(chosen))
    if args.systems is not None:
        chosen = {name: chosen[name] for name in (stock, *args.systems)}
    if args.syntax_dropout is not None:
        dropped = f" --syntax-dropout {args.syntax_dropout}"
        chosen = {name: of if name == stock else of + dropped for name, of in chosen.items()}
    chosen = {stock: chosen[stock], stock + AGAIN: chosen[stock], **chosen}
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() and not args.cpu else None
    print(f"{gpu or f'{platform.machine()}, {args.threads} threads'}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = [int(size) for size in args.sizes.split(",")] if args.sizes else list(SIZES[kind])
        for size in sizes:
            compare(kind, chosen, size, args.repeats, args.cpu)
        if args.roberta:
            examples(chosen, args.repeats)
        elif not (args.papers or args.parts):
            growth(chosen, sizes[min(1, len(sizes) - 1)], args.repeats, args.cpu)


if __name__ == "__main__":
    main()
