"""Parses of a split: by a parser, in shards if there are some, or from files that were made elsewhere."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from syntax_experiments.commands import options, run
from syntax_experiments.locks import held
from syntax_experiments.make import Step

#: What of stanza makes each kind of parse.
_PROCESSORS = {"conllu": "depparse", "trees": "constituency"}


def parse(step: Step) -> None:
    """Writes ``SPLIT.LANG.conllu`` and ``.trees``, those kinds that are wanted."""
    settings = step.settings
    if "files" in settings:
        _copy(step)
        return
    if step.places.get("shards"):
        _run(step, step.folder, "--num-shards", str(step.places["shards"]), "--merge")
    else:
        _run(step, step.folder)


def parse_shard(step: Step) -> None:
    """Parses one of the shards, in the folder where the parses will be made."""
    common = Path(step.places["parses"])
    common = common.with_name(f".{common.name}")
    common.mkdir(parents=True, exist_ok=True)
    numbers = ["--num-shards", str(step.settings["shards"]), "--shard-id", str(step.settings["shard"])]
    _run(step, common, *numbers, log=step.folder / "log")


def _run(step: Step, folder: Path, *more: str, log: Path | None = None) -> None:
    settings = step.settings
    name = f"{settings['split']}.{settings['lang']}"
    text = step.inputs["text"] / name
    cased = text.with_name(f"{name}.cased")
    asked = {**settings["options"], **step.places.get("options", {})}
    if settings["parser"] == "stanza":
        asked = {
            "lang": settings["lang"],
            "processors": ",".join(_PROCESSORS[kind] for kind in settings["kinds"]),
            **asked,
        }
    log = log or folder / "log"
    if asked.pop("download", False) and "--merge" not in more:
        _fetch_models(settings["parser"], asked, log)
    run(
        "fairseq-syntax-parse",
        "--input",
        cased if cased.exists() else text,  # parsers know words by their capitals
        "--output-prefix",
        folder / name,
        "--parser",
        settings["parser"],
        *options(asked),
        *more,
        log=log,
        threads=step.threads,
    )


def _fetch_models(parser: str, asked: Mapping[str, Any], log: Path) -> None:
    """Downloads a parser's models, by parsing nothing; one process at a time, as they write to the same files."""
    with held(".models.lock", busy="waiting for another download of models", wait=True), TemporaryDirectory() as empty:
        text = Path(empty, "text")
        text.touch()
        run("fairseq-syntax-parse", "--input", text, "--parser", parser, "--download", *options(asked), log=log)


def _copy(step: Step) -> None:
    settings = step.settings
    prefix = Path(step.inputs.get("generated", step.places.get("folder", ".")), settings["files"])
    for kind in settings["kinds"]:
        target = step.folder / f"{settings['split']}.{settings['lang']}.{kind}"
        path = Path(f"{prefix}.{kind}")
        with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy)
