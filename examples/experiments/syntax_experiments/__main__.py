"""fairseq-syntax-experiment: runs a recipe and prints its table.

    fairseq-syntax-experiment quickstart        a recipe of the package
    fairseq-syntax-experiment my.yaml -n        one of your own: what would be done

A recipe is a YAML file; --list shows those of the package. Everything is made in the work directory (--work), which
recipes share: what two have in common is made once. The same command goes on with a run that was stopped. All other
options are Snakemake's, such as -n (what would be done), --cores 8, --executor slurm, --keep-going.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from syntax_data.commands.main import command, command_line
from syntax_experiments import smoke
from syntax_experiments.fairseq_options import refuse_unknown
from syntax_experiments.plan import make_plan
from syntax_experiments.plots import analyze
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names
from syntax_experiments.workflow import links_of, only_prints, run_plan

NAME = "fairseq-syntax-experiment"


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line(NAME, __doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("recipe", metavar="RECIPE", nargs="?", help="name of a recipe of the package, or a YAML file")
    which.add_argument("--list", action="store_true", help="show the recipes of the package")
    parser.add_argument(
        "--work", type=Path, default="experiments", metavar="DIR", help="work directory (default: %(default)s)"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="a test of the recipe with a made-up corpus and tiny models, offline"
    )
    parser.add_argument(
        "--smoke-systems", type=int, default=smoke.SYSTEMS, metavar="N", help="of --smoke (default: %(default)s)"
    )
    parser.add_argument("--partial", action="store_true", help="train nothing; the table of the runs that are finished")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    with command(NAME, advice="; the same command goes on where it was"):
        sys.exit(_run(*get_parser().parse_known_args(argv)))


def _run(args: argparse.Namespace, options: list[str]) -> int:
    if args.list:
        for name in recipe_names():
            print(f"{name:30}{read_recipe(name).title}")
        return 0
    recipe = read_recipe(args.recipe)
    work: Path = args.work.resolve()
    if args.smoke:
        work /= "smoke"
        recipe = smoke.small(recipe, systems=args.smoke_systems)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a job of a second needs no GPU
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    plan = make_plan(recipe, partial=args.partial)
    prints = only_prints(options)
    if not prints and plan.pictures and (missing := [name for name in analyze.PACKAGES if find_spec(name) is None]):
        needed = f"{recipe.name}: its pictures need {', '.join(missing)}"
        raise ValueError(f"{needed}: pip install 'fairseq-syntax[analysis]'")
    if not (args.smoke or args.partial or prints):
        refuse_unknown(plan)
    status = run_plan(plan, options)
    table = Path(plan.table.path, "table.md")
    if status == 0 and not prints and table.exists():  # not under all of Snakemake's options
        print(table.read_text(encoding="utf-8"))
        print(f"tables, CSV and LaTeX: {links_of(plan).resolve()}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
