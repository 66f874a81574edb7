"""Hands a plan to Snakemake, which makes what is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from syntax_data.io.atomic_write import atomic_write
from syntax_experiments.make import locked, spec_path, visible_gpus
from syntax_experiments.plan import Plan

_SNAKEFILE = Path(__file__).resolve().with_name("Snakefile")
#: With one of these options, Snakemake prints or draws something, and makes nothing.
_PRINTS = {"-n", "--dry-run", "--dryrun", "--dag", "--rulegraph", "--filegraph", "--summary", "--lint", "--report"}
#: Options that say how many jobs run at once, or where.
_CORES = {"-c", "--cores", "-j", "--jobs", "-e", "--executor", "--profile"}
#: The name of our plug-in of Snakemake's logger.
_LOGGER = "steps"


def only_prints(options: Sequence[str]) -> bool:
    """Return whether under these options Snakemake makes nothing."""
    return not _PRINTS.isdisjoint(word.partition("=")[0] for word in options)


def links_of(plan: Plan) -> Path:
    """Return the folder of a recipe's links, to the table and to every target."""
    return Path("recipes", f"{plan.recipe.name}.partial" if plan.partial else plan.recipe.name)


def run_plan(plan: Plan, options: Sequence[str]) -> int:
    """Make the plan in the current folder under a user's options of Snakemake; return its exit status."""
    for target in plan.targets:
        path = spec_path(target.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(str(path)) as part:
            Path(part).write_text(json.dumps(target.spec, indent=1), encoding="utf-8")
    prints = only_prints(options)
    if not prints:
        _link(plan)
    given = {word.partition("=")[0] if word.startswith("--") else word[:2] for word in options}
    gpus = visible_gpus() if given.isdisjoint({"--resources", "--res", "-e", "--executor"}) else []
    output = ["--quiet", "host", "reason"] if prints else ["--logger", _LOGGER]
    command = [
        *("--snakefile", str(_SNAKEFILE), "--rerun-incomplete", "--rerun-triggers", "mtime"),
        *("--config", f"targets={','.join(target.path for target in plan.wanted)}"),
        *(["--resources", f"gpu={len(gpus)}"] if gpus else []),
        *(["--cores", "all"] if given.isdisjoint(_CORES) else []),
        *(output if given.isdisjoint({"-q", "--quiet", "--verbose", "--logger"}) else []),
        # It makes nothing that another run makes, too, but for scores; make.py waits for those.
        *(["--nolock"] if plan.partial else []),
        *options,
    ]
    with nullcontext() if prints or plan.partial else locked(".lock", wait=False) as alone:
        if alone:  # the locks of Snakemake that are there are of a run that was killed
            shutil.rmtree(".snakemake/locks", ignore_errors=True)
        return run_snakemake(command)


def run_snakemake(command: Sequence[str]) -> int:
    """Run Snakemake in this process; return its exit status."""
    from snakemake.cli import main  # takes seconds

    from syntax_experiments import progress

    progress.register(_LOGGER)
    try:
        main(command)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _link(plan: Plan) -> None:
    """Make a link to each target by its label; remove links to others."""
    folder = links_of(plan)
    folder.mkdir(parents=True, exist_ok=True)
    table = Path(plan.table.path)
    links = {f"table.{ending}": table / f"table.{ending}" for ending in ("md", "csv", "tex")}
    links |= {"pictures": Path(plan.pictures.path)} if plan.pictures else {}
    for target in plan.targets:
        name = target.label.replace("/", "-").replace(" ", "_").replace(",", "")
        links[f"{name}.{target.key[:4]}"] = Path(target.path)
    for path in folder.iterdir():
        if path.is_symlink() and path.name not in links and path.name[0] != ".":  # a link that another run makes
            path.unlink(missing_ok=True)
    for name, path in links.items():
        part = folder / f".{os.getpid()}.{name}"
        part.symlink_to("../.." / path)
        os.replace(part, folder / name)
