"""Texts of a task, in the settings of steps: the languages of a pair, or the inputs of examples.

An input's name ends the names of its files: ``train.en``, ``train.input0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def classifies(settings: Mapping[str, Any]) -> bool:
    """Return whether the task is to predict labels, or answers."""
    return "inputs" in settings


def task_of(settings: Mapping[str, Any]) -> str:
    """Return the task of a recipe."""
    return str(settings.get("task", "sentence_prediction" if classifies(settings) else "translation"))


def finds_spans(settings: Mapping[str, Any]) -> bool:
    """Return whether the task is to find answers in passages."""
    return task_of(settings) == "span_prediction"


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
