"""Translations, or predictions, of the test sets by a trained system, and the record of the run."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from pathlib import Path

from syntax_data.commands.score import read_translations, restore
from syntax_data.scoring.translations import join_subwords
from syntax_experiments.fairseq_options import with_user_dir
from syntax_experiments.make import Step, on_a_gpu, options, read_lines, run, visible_gpus, write_lines
from syntax_experiments.texts import data_folder, finds_spans
from syntax_experiments.training_log import read_training

#: Logged of a checkpoint whose gates pre-warmup has kept at their initial values.
GATES_NEVER_TRAINED = "its gates were never trained"
_PACKAGES = ("fairseq-syntax", "fairseq-fixed", "torch", "sacrebleu", "stanza", "numpy")


def translate(step: Step) -> None:
    """Write ``TEST.txt``, the translations, one a line, and ``run.json``.

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
            reference = read_lines(step.inputs["text"] / f"{test}.reference")
            subwords = None if settings["subwords"] == "none" else settings["subwords"]
            language = settings["target"] if settings["detokenize"] else None
            raw = read_translations(str(output), len(reference))
            texts = restore(str(output), raw, remove_bpe=subwords, detokenize=language)
            write_lines(step.folder / f"{test}.txt", texts)
            if settings["tokens"]:
                tokens = [join_subwords(text, subwords) for text in raw] if subwords else raw
                write_lines(step.folder / f"{test}.tokens", tokens)
            # fairseq-generate logs to stdout, unless a module that it imports has begun to log to stderr.
            for log in (output, step.folder / "log"):
                never_trained |= GATES_NEVER_TRAINED in log.read_text(encoding="utf-8", errors="replace")
            output.unlink()
    _write_record(step, never_trained=never_trained)


def predict(step: Step) -> None:
    """Write ``TEST.tsv``, as fairseq-syntax-predict does, or ``TEST.answers.json``, and ``run.json``."""
    log, data = step.folder / "log", data_folder(step.inputs["data"], step.settings)
    command, ending = ["fairseq-syntax-predict"], "tsv"
    if finds_spans(step.settings):
        command, ending = ["fairseq-syntax-squad", "answer"], "answers.json"
    with on_a_gpu():
        for i, test in enumerate(step.settings["tests"]):
            run(
                *command, data, "--path", step.inputs["model"] / "checkpoint.pt",
                "--gen-subset", f"test{i or ''}", "--output", step.folder / f"{test}.{ending}",
                *options(with_user_dir({}, step.local)), log=log, threads=step.threads,
            )  # fmt: skip
    never_trained = GATES_NEVER_TRAINED in log.read_text(encoding="utf-8", errors="replace")
    _write_record(step, never_trained=never_trained)


def _write_record(step: Step, *, never_trained: bool) -> None:
    record = read_training(step.inputs["model"] / "train.log")
    record |= {"system": step.local["system"], "seed": step.local["seed"], "tests": step.settings["tests"]}
    record["gates_never_trained"] = never_trained
    record |= {"device": device(), "versions": versions() | {"code": " and ".join(record.pop("code")) or "unknown"}}
    (step.folder / "run.json").write_text(json.dumps(record, indent=1))


def device() -> str:
    """Return the name of this machine's GPU or CPU."""
    if visible_gpus():
        import torch

        if torch.cuda.is_available():
            return torch.cuda.get_device_name()
    cpu = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpu.read_text()) if cpu.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of software that a run depends on."""
    installed = {d.name: d.version for d in metadata.distributions() if d.name in _PACKAGES}
    return {"python": platform.python_version(), **dict(sorted(installed.items()))}
