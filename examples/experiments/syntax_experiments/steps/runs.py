"""Translates the test sets by a trained system, and records what the run was."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from syntax_data.commands.score import read_translations, restore
from syntax_data.scoring.translations import join_subwords
from syntax_experiments.fairseq_options import with_user_dir
from syntax_experiments.make import Step, on_a_gpu, options, run, visible_gpus
from syntax_experiments.plots.history import heads_of_line
from syntax_experiments.steps.training import CODE

#: What fairseq_syntax says of a checkpoint that pre-warmup has kept the gates of as they began.
GATES_NEVER_TRAINED = "its gates were never trained"
_PACKAGES = ("fairseq-syntax", "fairseq-fixed", "torch", "sacrebleu", "stanza", "numpy")


def translate(step: Step) -> None:
    """Writes ``TEST.txt``, the translations, one a line, and ``run.json``.

    If the recipe scores tokens as well, ``TEST.tokens`` has the translations before they are detokenised.
    """
    settings, data = step.settings, step.inputs["data"]
    never_trained = False
    with on_a_gpu():
        for i, test in enumerate(settings["tests"]):
            output = step.folder / f"{test}.generate.log"
            run(
                "fairseq-generate", data, "--task", "syntax_translation",
                "--source-lang", settings["source"], "--target-lang", settings["target"],
                "--gen-subset", f"test{i or ''}", "--path", step.inputs["model"] / "checkpoint.pt",
                *options(with_user_dir(settings["generate"], step.local)),
                log=step.folder / "log", stdout=output, threads=step.threads,
            )  # fmt: skip
            reference = (step.inputs["text"] / f"{test}.reference").read_text(encoding="utf-8").splitlines()
            subwords = None if settings["subwords"] == "none" else settings["subwords"]
            language = settings["target"] if settings["detokenize"] else None
            raw = read_translations(str(output), len(reference))
            texts = restore(str(output), raw, remove_bpe=subwords, detokenize=language)
            (step.folder / f"{test}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            if settings["tokens"]:
                tokens = [join_subwords(text, subwords) for text in raw] if subwords else raw
                (step.folder / f"{test}.tokens").write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
            # fairseq-generate logs to stdout, unless a module that it imports has begun to log to stderr.
            for said in (output, step.folder / "log"):
                never_trained |= GATES_NEVER_TRAINED in said.read_text(encoding="utf-8", errors="replace")
            output.unlink()
    record = read_log(step.inputs["model"] / "train.log")
    record |= {"system": step.local["system"], "seed": step.local["seed"], "tests": settings["tests"]}
    record["gates_never_trained"] = never_trained
    record |= {"device": device(), "versions": versions() | {"code": " and ".join(record.pop("code")) or "unknown"}}
    (step.folder / "run.json").write_text(json.dumps(record, indent=1))


def read_log(path: Path) -> dict[str, Any]:
    """What fairseq-train's log (``--log-format json``) says of a training; of a resumed epoch, its last entry.

    Hours and words a second are of training alone, without validation and loading; words a second of the fastest
    epoch, since what else a machine does slows all others. ``code``: the hashes of the code that trained.
    """
    trained: dict[int, dict[str, Any]] = {}
    validated: dict[int, dict[str, Any]] = {}
    heads: dict[int, dict[str, float]] = {}  # of the validation after so many updates
    record: dict[str, Any] = {"code": []}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := re.search(r"num\. shared model params: ([\d,]+)", line):
            record["parameters"] = int(match[1].replace(",", ""))
        if line.startswith(CODE) and (code := line.removeprefix(CODE)) not in record["code"]:
            record["code"].append(code)
        if line.endswith("}") and (found := heads_of_line(line)) and found[0] == "valid":
            heads[found[1]] = found[2]
        match = re.search(r"\| (train|valid) \| (\{.*\})$", line)
        if match:
            logged = json.loads(match[2])
            (trained if match[1] == "train" else validated)[int(logged["epoch"])] = logged
    updates, seconds, speed = 0, 0.0, 0.0
    for _, logged in sorted(trained.items()):  # by epoch: fairseq's sums begin anew where a training is resumed
        wall = float(logged["train_train_wall"])
        words = float(logged["train_wpb"]) * (int(logged["train_num_updates"]) - updates)
        # Whole seconds: of a tiny epoch, none.
        speed = max(speed, words / wall if wall else float(logged["train_wps"]))
        seconds += wall
        updates = int(logged["train_num_updates"])
    record |= {"updates": updates, "words_per_second": speed, "hours": seconds / 3600}
    record["epochs"] = [
        {
            "epoch": epoch,
            "updates": int(logged["train_num_updates"]),
            "train_loss": float(logged["train_loss"]),
            **_validation(validated[epoch], heads),
        }
        for epoch, logged in trained.items()
        if epoch in validated
    ]
    record["valid_loss"] = min(float(logged["valid_loss"]) for logged in validated.values())
    return record


def _validation(logged: dict[str, Any], heads: dict[int, dict[str, float]]) -> dict[str, Any]:
    gates = {name.removeprefix("valid_"): float(value) for name, value in logged.items() if "gate_" in name}
    gates |= heads.get(int(logged["valid_num_updates"]), {})
    losses = {name: float(logged[f"valid_{name}"]) for name in ("loss", "nll_loss") if f"valid_{name}" in logged}
    return {f"valid_{name}": value for name, value in losses.items()} | ({"gates": gates} if gates else {})


def device() -> str:
    """What this machine computes with."""
    if visible_gpus():
        import torch  # takes seconds

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    cpu = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpu.read_text()) if cpu.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Of what a run depends on."""
    installed = {d.name: d.version for d in metadata.distributions() if d.name in _PACKAGES}
    return {"python": platform.python_version(), **dict(sorted(installed.items()))}
