"""Hands a plan to Snakemake, which makes what is not there yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from syntax_experiments.commands import wait
from syntax_experiments.gpus import visible_gpus
from syntax_experiments.make import spec_path
from syntax_experiments.plan import Artefact, Plan, existing
from syntax_experiments.progress import Progress

_SNAKEFILE = Path(__file__).resolve().with_name("Snakefile")
#: With one of them, Snakemake tells or draws something, and makes nothing.
_TELLS = {"-n", "--dry-run", "--dryrun", "--dag", "--rulegraph", "--filegraph", "--summary", "--lint", "--report"}


def tells_only(options: Sequence[str]) -> bool:
    """Whether under these options Snakemake makes nothing."""
    return not _TELLS.isdisjoint(word.partition("=")[0] for word in options)


def links_of(plan: Plan) -> Path:
    """The folder of a recipe's links: what each artefact is, and the table."""
    return Path("recipes", f"{plan.recipe.name}.so-far" if plan.so_far else plan.recipe.name)


def run_plan(plan: Plan, options: Sequence[str]) -> int:
    """Makes the plan's table and pictures, and what they need, in the current folder; returns Snakemake's status.

    Args:
        options: of Snakemake, from the user.
    """
    artefacts = plan.artefacts
    for artefact in artefacts:
        _write(spec_path(artefact.path), artefact.spec)
    _index(plan, artefacts)
    tells = tells_only(options)
    given = {word.partition("=")[0] if word.startswith("--") else word[:2] for word in options}
    gpus = visible_gpus()
    asks = {"--resources", "--res", "--executor", "-e"}
    limits = ["--resources", f"gpu={len(gpus)}"] if gpus and given.isdisjoint(asks) else []
    targets = ",".join(target.path for target in plan.targets)
    # What is there is whole (make.py): Snakemake need not look for what a killed job left.
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", str(_SNAKEFILE), "--directory", ".",
        "--config", f"targets={targets}", "--nolock", "--ignore-incomplete", "--rerun-triggers", "mtime",
        *limits,
        *([] if given & {"-c", "--cores", "-j", "--jobs", "--dag", "--rulegraph"} else ["--cores", "all"]),
        "--quiet", "rules" if tells else "all", *options,
    ]  # fmt: skip
    with Progress(plan.needed(existing(artefacts, ".")), active=not tells):
        # It holds the lock of this folder, too: killed, this process leaves it at work.
        return wait(subprocess.Popen(command, close_fds=False))


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1)
    if not path.exists() or path.read_text() != text:
        part = path.with_name(f"{path.name}.part")
        part.write_text(text)
        os.replace(part, path)


def _index(plan: Plan, artefacts: Sequence[Artefact]) -> None:
    """Links, in a folder of the recipe's name, that tell what each artefact is."""
    folder = links_of(plan)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for artefact in artefacts:
        name = artefact.label.replace("/", "-").replace(" ", "_").replace(",", "")
        link = folder / f"{name}.{artefact.key[:4]}"
        link.symlink_to(Path("../..", artefact.path))
    if plan.pictures:
        (folder / "pictures").symlink_to(Path("../..", plan.pictures.path))
    for ending in ("md", "csv", "tex"):
        (folder / f"table.{ending}").symlink_to(Path("../..", plan.table.path, f"table.{ending}"))
