"""Texts of a task, in the settings of steps: the languages of a pair, or the inputs of examples.

An input's name ends the names of its files: ``train.en``, ``train.input0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def classifies(settings: Mapping[str, Any]) -> bool:
    """Return whether the task is another than translation."""
    return "inputs" in settings


def task_of(settings: Mapping[str, Any]) -> str:
    """Return the task of a recipe."""
    return str(settings.get("task", "sentence_prediction" if classifies(settings) else "translation"))


def finds_spans(settings: Mapping[str, Any]) -> bool:
    """Return whether the task is to find answers in passages."""
    return task_of(settings) == "span_prediction"


def has_labels(settings: Mapping[str, Any]) -> bool:
    """Return whether examples have labels."""
    return classifies(settings) and task_of(settings) not in ("span_prediction", "masked_lm")


def data_folder(data: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder of a data-bin that fairseq's commands get; a masked LM's is that of its text."""
    return data / "input0" if task_of(settings) == "masked_lm" else data


def all_texts(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the texts that models read or write."""
    return list(settings["inputs"]) if classifies(settings) else [settings["source"], settings["target"]]


def parsed_texts(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the texts that have parses."""
    return all_texts(settings) if classifies(settings) else [settings["source"]]


def parse_prefixes(files: str, text: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the prefixes of an input's parse files, from those of a split in a recipe."""
    return [f"{prefix}.{text}" if classifies(settings) else prefix for prefix in files.split(",")]


def task_options(settings: Mapping[str, Any]) -> list[str]:
    """Return fairseq's options of the task."""
    task = ["--task", f"syntax_{task_of(settings)}"]
    if classifies(settings):
        return task
    return [*task, "--source-lang", settings["source"], "--target-lang", settings["target"]]
