"""Time to translate new text, beside that of its two parts.

fairseq-interactive of ours with the live parser, side by side with stanza called directly and then fairseq-interactive
of a stock Transformer of the same size.

    python benchmarks/interactive.py TEXT --stanza-dir DIR [--lang en] [--size 128]

In one run, in turn, buffer by buffer; medians of seconds a buffer. Models have random weights and write 30 subwords for
each line, beam 5; loading is not counted. A ratio is the parts' time over ours: above 1 is faster than the parts.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq_cli.interactive import make_batches

from random_models import SYSTEMS, System, be_quiet
from speed import SIZES
from syntax_data.parsers.stanza import StanzaParser


def interactive(system: System, buffer: list[str], batch_size: int) -> float:
    """Seconds that fairseq-interactive takes for a buffer of lines."""
    system.model.eval()
    cfg = SimpleNamespace(
        generation=SimpleNamespace(constraints=None),
        dataset=SimpleNamespace(max_tokens=None, batch_size=batch_size, skip_invalid_size_inputs_valid_test=False),
    )
    begin = time.perf_counter()
    for batch in make_batches(buffer, cfg, system.task, (1024, 1024), lambda line: line):
        sample = {"net_input": {"src_tokens": batch.src_tokens, "src_lengths": batch.src_lengths}}
        system.task.inference_step(system.generator, [system.model], sample)
    return time.perf_counter() - begin


def stanza(parser: StanzaParser, buffer: list[str]) -> float:
    """Seconds that stanza's pipeline takes for a buffer of lines."""
    begin = time.perf_counter()
    parser.pipeline.bulk_process(buffer)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="raw text")
    parser.add_argument("--stanza-dir", required=True, help="folder of stanza's models")
    parser.add_argument("--lang", default="en")
    parser.add_argument("--size", type=int, choices=SIZES[System], default=128, help="of the models (default: 128)")
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--buffer-size", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    be_quiet()
    torch.set_num_threads(args.threads)
    lines = args.text.read_text(encoding="utf-8").splitlines()[: args.lines]
    print(f"{platform.machine()}, {args.threads} threads, torch {torch.__version__}, {len(lines)} lines\n")
    size, _ = SIZES[System][args.size]
    systems = {name: System(of, size, cpu=True) for name, of in SYSTEMS.items()}
    print("| | stanza | transformer | ours, parser included | ratio |\n| --- | --- | --- | --- | --- |")
    stock = systems.pop("transformer")
    for name, system in systems.items():
        cfg = system.task.cfg
        cfg.parser, cfg.parser_models, cfg.parser_device, cfg.source_lang = "stanza", args.stanza_dir, "cpu", args.lang
        live = system.task.new_text.reader.source.parsers[0].parser
        buffers = [lines[i : i + args.buffer_size] for i in range(0, len(lines), args.buffer_size)]
        interactive(system, buffers[0], args.batch_size)  # to warm up
        interactive(stock, buffers[0], args.batch_size)
        turns = [
            (
                stanza(live, buffer),
                interactive(stock, buffer, args.batch_size),
                interactive(system, buffer, args.batch_size),
            )
            for _ in range(args.repeats)
            for buffer in buffers
        ]
        seconds = [statistics.median(column) for column in zip(*turns, strict=True)]
        ratio = statistics.median((a + b) / c for a, b, c in turns)
        print(f"| {name}, seconds | {' | '.join(f'{s:.1f}' for s in seconds)} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
