"""Cost of the parse preprocessor, beside that of what it adds to.

    python benchmarks/preprocessing.py DATA WORK [--stanza-dir DIR]

DATA is the folder that the recipes of Multi30k read (examples/experiments/README.md#multi30k). Measured in one run,
alternating, medians of --repeats:

1. fairseq-syntax-binarize (source side, all features) against fairseq-preprocess (both sides) on Multi30k's training
   set written --copies times, with the same numbers of workers; and its peak memory on one copy and on all.
2. With --stanza-dir: fairseq-syntax-parse against stanza called directly on the same batches.
3. Bytes a subword of the feature files, indexes included.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import stanza

from syntax_data.parsers.parser import MAX_TOKENS, default_characters
from syntax_data.parsers.stanza import StanzaParser
from syntax_data.parsing.batches import open_parser
from syntax_data.parsing.run import ParseRun
from syntax_data.text.folding import unescape_moses

LANGUAGES = ["--source-lang", "en", "--target-lang", "de"]


def prepare(data: Path, copies: int) -> None:
    """Writes BPE and parses of Multi30k's training set, once as `one` and `copies` times as `all`."""
    for lang in ("en", "de"):
        with gzip.open(data / f"tok/train.lc.norm.tok.{lang}.gz") as file:
            Path(f"tok.{lang}").write_bytes(file.read())
    subprocess.run("cat tok.en tok.de | subword-nmt learn-bpe -s 8000 -o codes", shell=True, check=True)
    for lang in ("en", "de"):
        subprocess.run(f"subword-nmt apply-bpe -c codes < tok.{lang} > one.{lang}", shell=True, check=True)
    for kind in ("conllu", "trees"):
        path = data / f"parsed/train.en.{kind}"
        with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as file:
            Path(f"one.en.{kind}").write_bytes(file.read())
    for ending in ("en", "de", "en.conllu", "en.trees"):
        with open(f"all.{ending}", "wb") as file:
            for _ in range(copies):
                file.write(Path(f"one.{ending}").read_bytes())


def run(command: list[str], destination: str, tokens: str | None = None) -> tuple[float, float]:
    """Seconds and peak memory (MiB, of the largest of its processes) of a command; `tokens`: a data-bin to add to."""
    shutil.rmtree(destination, ignore_errors=True)
    if tokens is not None:
        shutil.copytree(tokens, destination)
    begin = time.perf_counter()
    with open("log", "ab") as log:
        process = subprocess.Popen([*command, "--destdir", destination], stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed: see {Path('log').resolve()}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def alternate(repeats: int, *functions: Callable[[], float]) -> list[list[float]]:
    """Measurements of functions that are called in turn."""
    measured: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, results in zip(functions, measured, strict=True):
            results.append(function())
    return measured


def binarizer(repeats: int, copies: int) -> None:
    def theirs(name: str, workers: str) -> float:
        return run(["fairseq-preprocess", *LANGUAGES, "--trainpref", name, "--workers", workers], "theirs")[0]

    def ours(name: str, workers: str) -> tuple[float, float]:
        options = [*LANGUAGES, "--trainpref", name, "--workers", workers]
        return run(["fairseq-syntax-binarize", *options], "ours", tokens="theirs")

    memory = {}
    for name in ("one", "all"):
        theirs(name, "2")
        memory[name] = ours(name, "2")[1]
    for workers in ("1", "2"):
        turns = alternate(repeats, lambda n=workers: theirs("all", n), lambda n=workers: ours("all", n)[0])
        a, b = map(statistics.median, turns)
        print(f"| seconds, {workers} workers | {a:.1f} | {b:.1f} | {b / a:.2f} |")
    one, many = memory.values()
    print(f"| MiB, {copies} copies against one | {one:.0f} | {many:.0f} | {many / one:.2f} |")


def live_parser(repeats: int, stanza_dir: str, lines: int) -> None:
    for mode in ("pretokenized", "raw"):
        text = Path(f"parse.{mode}")
        with open("tok.en", encoding="utf-8") as file:
            text.write_text("".join(line for line, _ in zip(file, range(lines), strict=False)), encoding="utf-8")
        parser = StanzaParser(lang="en", pretokenized=mode != "raw", stanza_dir=stanza_dir, device="cpu")
        pipeline = stanza.Pipeline(
            "en",
            dir=stanza_dir,
            processors="tokenize,pos,lemma,depparse,constituency",
            tokenize_pretokenized=mode != "raw",
            download_method=None,
            device="cpu",
            verbose=False,
        )

        def direct(text: Path = text, pipeline: stanza.Pipeline = pipeline) -> float:
            whole = text.read_text(encoding="utf-8").splitlines()
            begin = time.perf_counter()
            for first in range(0, lines, 500):
                pipeline.bulk_process([unescape_moses(line)[0] for line in whole[first : first + 500]])
            return time.perf_counter() - begin

        def ours(text: Path = text, parser: StanzaParser = parser) -> float:
            begin = time.perf_counter()
            limits = {"max_tokens": MAX_TOKENS, "max_characters": default_characters(MAX_TOKENS)}
            with tempfile.TemporaryDirectory() as folder, open_parser(1, lambda: parser) as parsers:
                ParseRun(str(text), f"{folder}/x", batch_size=500, **limits).parse(parsers, None)
            return time.perf_counter() - begin

        ours()  # the first call of a pipeline is slower
        a, b = map(statistics.median, alternate(repeats, direct, ours))
        print(f"| seconds, {mode}, {lines} lines | {a:.1f} | {b:.1f} | {b / a:.3f} |")


def sizes() -> None:
    subwords = len(Path("all.en").read_text(encoding="utf-8").split())
    bytes_of = {
        feature: sum(Path(f"ours/train.en-de.en.{feature}.{ending}").stat().st_size for ending in ("bin", "idx"))
        for feature in ("word", "distance", "head", "deprel", "upos", "case", "position")
    }
    core = sum(bytes_of.pop(feature) for feature in ("word", "distance", "head"))
    print(f"| word, distance and head | {core / subwords:.2f} |")
    for feature, size in bytes_of.items():
        print(f"| {feature} | {size / subwords:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--stanza-dir", help="folder of English stanza models")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--lines", type=int, default=2000, help="lines that stanza parses")
    args = parser.parse_args()
    data = args.data.resolve()
    stanza_dir = os.path.abspath(args.stanza_dir) if args.stanza_dir else None
    args.work.mkdir(parents=True, exist_ok=True)
    os.chdir(args.work)
    os.environ["OMP_NUM_THREADS"] = "1"
    prepare(data, args.copies)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| | fairseq-preprocess | fairseq-syntax-binarize | ratio |\n| --- | --- | --- | --- |")
    binarizer(args.repeats, args.copies)
    print("\n| bytes a subword | |\n| --- | --- |")
    sizes()
    if stanza_dir:
        print("\n| | stanza | fairseq-syntax-parse | ratio |\n| --- | --- | --- | --- |")
        live_parser(args.repeats, stanza_dir, args.lines)


if __name__ == "__main__":
    main()
