"""Do the gates evaluate as they were trained? Batch normalisation of their logits, setting by setting.

    python benchmarks/gate_evaluation.py WORK [--seeds 5] [--settings 'plain;running, floor']

Trains the quickstart's gated syntax Transformer on its corpus, keeps every epoch's checkpoint, and asks of each, on the
test set with greedy search: how often does it translate exactly, with the gates in evaluation mode and in the mode in
which they were trained? How far apart are the gates in the two? (For `frozen`, training mode normalises by batch, which
its training no longer does: there the difference tells how far the statistics have aged.)
Finished runs are kept in WORK, so it can be stopped and called again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # runs go side by side

import torch
from fairseq import checkpoint_utils
from tqdm import tqdm

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.nn.trace import SyntaxTrace
from syntax_preprocess.system.workers import Workers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples/quickstart"))
import run as quickstart

import gate_variants

PLAIN = "--gate-batch-norm --gate-batch-norm-statistics batch --gate-batch-norm-eps 1e-5"
SETTINGS = {
    "none": "--no-gate-batch-norm",
    "plain": PLAIN,
    "floor": "--gate-batch-norm --gate-batch-norm-statistics batch --gate-batch-norm-eps 0.1",
    "running": "--gate-batch-norm --gate-batch-norm-statistics running --gate-batch-norm-eps 1e-5",
    "running, floor": "--gate-batch-norm --gate-batch-norm-statistics running --gate-batch-norm-eps 0.1",
    **dict.fromkeys(gate_variants.VARIANTS, PLAIN),
}
UPDATES = 1000
CONVERGED = 5  # so many of the last epochs are looked at one by one


def train(setting: str, seed: int, folder: Path, constant_lr: bool) -> None:
    model = f"{quickstart.SYNTAX} {quickstart.MODEL} {quickstart.TRAINING}".replace("--no-epoch-checkpoints", "")
    schedule = f"--warmup-updates {UPDATES // 10} --total-num-update {UPDATES} --max-update {UPDATES}"
    if constant_lr:
        schedule += " --lr 0.002 --end-learning-rate 0.002"
    program = "fairseq-train"
    if setting in gate_variants.VARIANTS:
        program = f"{sys.executable} {gate_variants.__file__} {setting}"
    command = (
        f"{program} data-bin/true --user-dir fairseq_syntax {model} {schedule} {SETTINGS[setting]} --seed {seed} "
        f"--save-dir {folder} --cpu"
    )
    with open(f"{folder}.log", "w") as log:
        subprocess.run(command.split(), stdout=log, stderr=log, check=True)


def exact_match(model: Any, task: Any, generator: Any) -> tuple[float, torch.Tensor]:
    """Percentage of the test set that greedy search translates exactly, and the gates of the sentences."""
    iterator = task.get_batch_iterator(task.dataset("test"), max_sentences=150, disable_iterator_cache=True)
    gates = []
    exact = count = 0
    with torch.no_grad():
        for batch in iterator.next_epoch_itr(shuffle=False):
            trace = SyntaxTrace()
            batch["net_input"]["trace"] = trace
            for (best, *_), target in zip(generator.generate([model], batch), batch["target"], strict=True):
                exact += best["tokens"].tolist() == target[target != task.target_dictionary.pad()].tolist()
                count += 1
            gates.append(trace.stacked("gates").flatten())
    return 100 * exact / count, torch.cat(gates)


def evaluate(path: Path) -> dict[str, float]:
    """Exact match with the gates in evaluation and in training mode, and the mean distance of the gates."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": "data-bin/true"}
    )
    task.load_dataset("test")
    generator = task.build_generator([model], Namespace(beam=1, max_len_a=0, max_len_b=50))  # puts all in eval mode
    exact, gates = exact_match(model, task, generator)
    for gate in model.gates.values():
        gate.train()
    as_trained, gates_as_trained = exact_match(model, task, generator)
    return {"exact": exact, "as_trained": as_trained, "gap": float((gates - gates_as_trained).abs().mean())}


def result_of(setting: str, seed: int) -> Path:
    """Where :func:`measure` writes."""
    return Path(f"{setting}-{seed}.json".replace(", ", "-"))


def measure(run: tuple[str, int, bool]) -> None:
    """Trains and evaluates every epoch, the best (by validation loss) first; writes SETTING-SEED.json."""
    setting, seed, constant_lr = run
    result = result_of(setting, seed)
    folder = result.with_suffix("")
    train(setting, seed, folder, constant_lr)
    epochs = sorted(folder.glob("checkpoint[0-9]*.pt"), key=lambda path: int(re.findall(r"\d+", path.name)[0]))
    results = [evaluate(path) for path in [folder / "checkpoint_best.pt", *epochs]]
    partial = Path(f"{result}.tmp")
    partial.write_text(json.dumps(results))
    partial.rename(result)
    for path in folder.iterdir():
        path.unlink()


def report(settings: list[str], seeds: int) -> None:
    print(
        "| setting | best checkpoint: mean | worst | last epochs: mean difference | largest | mean gap of the gates |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for setting in settings:
        runs = [json.loads(result_of(setting, s).read_text()) for s in range(1, seeds + 1)]
        best = [run[0]["exact"] for run in runs]
        last = [epoch for run in runs for epoch in run[-CONVERGED:]]
        differences = [abs(epoch["exact"] - epoch["as_trained"]) for epoch in last]
        everywhere = [epoch for run in runs for epoch in run[1:]]
        largest = max(abs(epoch["exact"] - epoch["as_trained"]) for epoch in everywhere)
        cells = [f"{statistics.mean(best):.1f}", f"{min(best):.1f}", f"{statistics.mean(differences):.1f}"]
        cells += [f"{largest:.1f}", f"{statistics.mean(epoch['gap'] for epoch in last):.3f}"]
        print(f"| {setting} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--settings", default=";".join(SETTINGS), help="separated by semicolons (default: all)")
    parser.add_argument("--constant-lr", action="store_true", help="0.002 to the end (default: 0.004, falling to 0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    settings = args.settings.split(";")
    args.work.mkdir(parents=True, exist_ok=True)
    os.chdir(args.work)
    if not Path("data-bin/true").exists():
        os.makedirs("logs", exist_ok=True)
        quickstart.prepare(train=10000, held_out=100, seed=1)
    runs = [
        (setting, seed, args.constant_lr)
        for seed in range(1, args.seeds + 1)
        for setting in settings
        if not result_of(setting, seed).exists()
    ]
    with Workers(args.workers) as workers:
        for _ in tqdm(workers.map_ordered(measure, runs), total=len(runs), unit=" runs"):
            pass
    report(settings, args.seeds)


if __name__ == "__main__":
    main()
