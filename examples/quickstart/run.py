"""The whole path on a corpus made on the spot: does the parse reach the translation?

Trains three models of one size through the real commands and prints one table: fairseq's Transformer, the gated
syntax Transformer on the right trees, and the same on false ones. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from sacrebleu.metrics import BLEU
from tqdm import tqdm

from grammar import false_parse, make_corpus, tree_blind_best, with_trees_of_others, write

HERE = Path(__file__).resolve().parent
MODEL = (
    "--encoder-embed-dim 64 --encoder-ffn-embed-dim 128 --encoder-attention-heads 4 --encoder-layers 2 "
    "--decoder-embed-dim 64 --decoder-ffn-embed-dim 128 --decoder-attention-heads 4 --decoder-layers 2 "
    "--share-decoder-input-output-embed --dropout 0.0"
)
SYNTAX = "--task syntax_translation --arch gated_syntax_transformer_tiny --syntax-masks slr,sdoi --slr-temperature 1"
TRAINING = (
    "--optimizer adam --adam-betas (0.9,0.98) --lr 0.004 --lr-scheduler polynomial_decay "
    "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --batch-size 150 --no-epoch-checkpoints "
    "--log-format simple --log-interval 10 --num-workers 0 --seed 1"
)
SYSTEMS = {  # name: (data-bin, options)
    "Transformer (fairseq)": ("true", "--task syntax_translation --arch transformer"),
    "gated syntax Transformer": ("true", SYNTAX),
    "gated syntax Transformer, false trees": ("false", SYNTAX),
}


def run(
    command: str,
    log: str,
    *,
    stdin: str | None = None,
    stdout: str | None = None,
    progress: tqdm | None = None,
) -> None:
    """Runs a command; its output goes to the file `log` (or `stdout`). Ends the program if it fails.

    `progress` follows the numbers of updates that fairseq-train logs.
    """
    print(f"$ {command}" + f" < {stdin}" * bool(stdin) + f" > {stdout}" * bool(stdout), flush=True)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # several commands share the cores
    with (
        open(stdin or os.devnull, "rb") as source,
        open(stdout or log, "wb" if stdout else "ab") as out,
        open(log, "ab") as err,
        subprocess.Popen(
            shlex.split(command), stdin=source, stdout=subprocess.PIPE, stderr=err, env=environment
        ) as process,
    ):
        for line in process.stdout or ():
            out.write(line)
            updates = re.search(rb"num_updates=(\d+)", line)
            if updates and progress is not None:
                progress.update(int(updates[1]) - progress.n)
    if process.returncode:
        tail = "\n".join(Path(log).read_text(errors="replace").splitlines()[-15:])
        sys.exit(f"failed with status {process.returncode}; the end of {log}:\n{tail}")


def prepare(*, train: int, held_out: int, seed: int) -> float:
    """Makes the corpus and both data-bins; returns the tree-blind best of the test set."""
    corpus = make_corpus(Random(seed), train=train, held_out=held_out)
    for name, examples in corpus.items():
        write(Path("true"), name, examples, examples)
        others = with_trees_of_others(Random(seed), examples)
        parses = [false_parse(e, o) for e, o in zip(examples, others, strict=True)]
        write(Path("false"), name, examples, parses)
    log = "logs/prepare.log"
    os.makedirs("bpe", exist_ok=True)
    for side in ("src", "tgt"):
        run(f"subword-nmt learn-bpe -s 80 -o bpe/codes.{side}", log, stdin=f"true/train.{side}")
        for name in corpus:
            files = {"stdin": f"true/{name}.{side}", "stdout": f"bpe/{name}.{side}"}
            run(f"subword-nmt apply-bpe -c bpe/codes.{side}", log, **files)
    prefixes = " ".join(f"--{name}pref bpe/{name}" for name in corpus)
    languages = "--source-lang src --target-lang tgt"
    shutil.rmtree("data-bin", ignore_errors=True)
    run(f"fairseq-preprocess {languages} {prefixes} --destdir data-bin/true", log)
    shutil.copytree("data-bin/true", "data-bin/false")
    for kind in ("true", "false"):
        parses = " ".join(f"--{name}parse {kind}/{name}" for name in corpus)
        run(f"fairseq-syntax-binarize {languages} {prefixes} {parses} --destdir data-bin/{kind}", log)
    return tree_blind_best(corpus["test"])


def train_and_generate(name: str, *, updates: int) -> str:
    """Trains a system (or goes on where it was stopped) and translates the test set; returns the log."""
    kind, options = SYSTEMS[name]
    label = re.sub(r"\W+", "-", name).strip("-")
    schedule = f"--warmup-updates {updates // 10} --total-num-update {updates} --max-update {updates}"
    with tqdm(desc=name, total=updates, unit=" updates", disable=None) as progress:
        run(
            f"fairseq-train data-bin/{kind} --user-dir fairseq_syntax {options} {MODEL} "
            f"{shlex.join(TRAINING.split())} {schedule} --save-dir checkpoints/{label} --cpu",
            f"logs/{label}.train.log",
            progress=progress,
        )
    output = f"logs/{label}.generate.log"
    run(
        f"fairseq-generate data-bin/{kind} --user-dir fairseq_syntax --task syntax_translation --gen-subset test "
        f"--path checkpoints/{label}/checkpoint_best.pt --beam 5 --remove-bpe --cpu",
        f"logs/{label}.generate.err",
        stdout=output,
    )
    return output


def enter(work: Path, settings: dict[str, int]) -> None:
    """Goes to the folder in which everything is made, unless other settings made what is there."""
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    made = Path("settings.json")
    if made.exists() and json.loads(made.read_text()) != settings:
        sys.exit(f"{work} was made with {made.read_text()}; delete it, or name another folder by --work")
    made.write_text(json.dumps(settings))


def score(output: str) -> tuple[float, float]:
    """BLEU and exact match, in percent, of a fairseq-generate log."""
    lines: dict[str, dict[int, str]] = {"H": {}, "T": {}}
    for line in Path(output).read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition("-")
        if key in lines:
            number, *fields = rest.split("\t")
            lines[key][int(number)] = fields[-1]
    hypotheses = [lines["H"][i] for i in sorted(lines["T"])]
    references = [lines["T"][i] for i in sorted(lines["T"])]
    bleu = BLEU(tokenize="none", force=True).corpus_score(hypotheses, [references]).score
    exact = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return bleu, 100 * exact / len(references)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=lambda path: Path(path).resolve(), default=HERE / "run", help="folder for everything made"
    )
    parser.add_argument("--train", type=int, default=10000, help="training sentences")
    parser.add_argument("--held-out", type=int, default=100, help="different sentences in valid and test")
    parser.add_argument("--updates", type=int, default=1000, help="training updates of each system")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus")
    args = parser.parse_args()
    begin = time.time()
    sizes = {"train": args.train, "held_out": args.held_out, "seed": args.seed}
    enter(args.work, {**sizes, "updates": args.updates})
    best = prepare(**sizes)
    with ThreadPoolExecutor(max_workers=min(len(SYSTEMS), os.cpu_count() or 1)) as pool:
        outputs = pool.map(lambda name: train_and_generate(name, updates=args.updates), SYSTEMS)
        scores = {name: score(output) for name, output in zip(SYSTEMS, outputs, strict=True)}
    print(f"\n{'system':40} {'BLEU':>6} {'exact match':>12}")
    for name, (bleu, exact) in scores.items():
        print(f"{name:40} {bleu:6.1f} {exact:11.1f}%")
    print(f"{'best possible without seeing the tree':40} {'':6} {best:11.1f}%")
    print(f"\n{time.time() - begin:.0f} seconds; everything made is in {args.work}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same command goes on from the last saved epochs")
