"""Parses of a split: by a parser, or from files that were made elsewhere."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from syntax_experiments.make import Step, locked, options, run
from syntax_experiments.texts import parse_prefixes

#: The processors of stanza for each kind of parse.
_PROCESSORS = {"conllu": "depparse", "trees": "constituency"}


def parse(step: Step) -> None:
    """Write ``SPLIT.TEXT.conllu`` and ``.trees`` of each text with parses, the kinds that the recipe names."""
    for text in step.settings.get("inputs", [step.settings["lang"]]):
        name = f"{step.settings['split']}.{text}"
        if "files" in step.settings:
            _copy(step, name)
        else:
            _parse(step, name)


def _parse(step: Step, name: str) -> None:
    settings = step.settings
    text = step.inputs["text"] / name
    cased = text.with_name(f"{name}.cased")  # parsers know words by their capitals
    asked = {**settings["options"], **step.local["options"]}
    if settings["parser"] == "stanza":
        processors = ",".join(_PROCESSORS[kind] for kind in settings["kinds"])
        asked = {"lang": settings["lang"], "processors": processors, **asked}
    if asked.pop("download", False):
        _fetch_models(settings["parser"], asked, step.folder / "log")
    run(
        "fairseq-syntax-parse", "--input", cased if cased.exists() else text, "--output-prefix", step.folder / name,
        "--parser", settings["parser"], *options(asked), "--workers", str(step.threads),
        log=step.folder / "log",
    )  # fmt: skip


def _fetch_models(parser: str, asked: Mapping[str, Any], log: Path) -> None:
    """Download a parser's models, one process at a time, by parsing nothing."""
    with locked(".models.lock"), TemporaryDirectory() as empty:
        text = Path(empty, "text")
        text.touch()
        run("fairseq-syntax-parse", "--input", text, "--parser", parser, "--download", *options(asked), log=log)


def _copy(step: Step, name: str) -> None:
    folder = Path(step.inputs.get("generated", step.local.get("folder", ".")))
    for kind in step.settings["kinds"]:
        with open(step.folder / f"{name}.{kind}", "wb") as copy:
            for prefix in parse_prefixes(step.settings["files"], name.partition(".")[2], step.settings):
                path = folder / f"{prefix}.{kind}"
                with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as source:
                    shutil.copyfileobj(source, copy)
