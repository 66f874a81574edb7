"""fairseq-syntax-experiment: runs a recipe and prints its table.

    fairseq-syntax-experiment quickstart        a recipe of the package
    fairseq-syntax-experiment my.yaml -n        one of your own: what would be done

A recipe is a YAML file; --list shows those of the package. Everything is made in the folder of all work (--work), which
recipes share: what two have in common is made once. A stopped run goes on where it was. Options that are not named here
go to snakemake, such as -n (what would be done), --cores 8, --executor slurm, --keep-going.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

from syntax_data.commands.main import command, command_line
from syntax_experiments import archive, smoke
from syntax_experiments.engine import links_of, run_plan, tells_only
from syntax_experiments.fairseq_options import refuse_unknown
from syntax_experiments.locks import held
from syntax_experiments.plan import Plan, existing, make_plan
from syntax_experiments.plots import analyze
from syntax_experiments.recipe import read_recipe
from syntax_experiments.schema import recipe_names

NAME = "fairseq-syntax-experiment"


def _absolute(path: str) -> Path:
    return Path(path).resolve()  # before this program goes to the folder of all work


class _List(argparse.Action):
    """Prints each recipe's name and title, and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str):
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for name in recipe_names():
            print(f"{name:28}{read_recipe(name).title}")
        parser.exit()


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line(NAME, __doc__)
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe of the package, or a YAML file")
    parser.add_argument("--list", action=_List, help="show the recipes of the package")
    parser.add_argument(
        "--work", type=Path, default="experiments", metavar="DIR", help="folder of all work (default: %(default)s)"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="every step on a few hundred made-up lines, tiny models, offline"
    )
    parser.add_argument(
        "--smoke-systems", type=int, default=smoke.SYSTEMS, metavar="N", help="of --smoke (default: %(default)s)"
    )
    parser.add_argument(
        "--so-far", action="store_true", help="train nothing; the table of those runs that are there already"
    )
    parser.add_argument(
        "--save", type=_absolute, metavar="FILE", help="pack the finished runs (.tar.xz), and do no more"
    )
    parser.add_argument("--load", type=_absolute, metavar="FILE", help="first take in runs that --save packed")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    with command(NAME, advice="; the same command goes on where it was"):
        args, engine = get_parser().parse_known_args(argv)
        sys.exit(_run(args, engine))


def _run(args: argparse.Namespace, engine: list[str]) -> int:
    recipe = read_recipe(args.recipe)
    work: Path = args.work.resolve() / "smoke" if args.smoke else args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    if args.smoke:
        recipe = smoke.small(recipe, work, systems=args.smoke_systems)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what takes a second needs no GPU
    plan = make_plan(recipe)
    # What makes nothing anew may be done beside an experiment.
    alone = held(".lock", busy=f"{work}: another experiment works in this folder", wait=False)
    beside = (args.so_far or tells_only(engine)) and not args.load
    with nullcontext() if beside else alone:
        if args.load:
            archive.unpack(plan, args.load)
        if args.save:
            archive.pack(plan, args.save)
            return 0
        if args.so_far:
            there = existing(list(plan.runs.values()), ".")
            plan = make_plan(recipe, only={at for at, run in plan.runs.items() if run.path in there})
        if plan.pictures and not tells_only(engine):
            _check_pictures_packages(recipe.name)
        if not (args.smoke or args.so_far or tells_only(engine)):
            refuse_unknown(plan)
        status = run_plan(plan, engine)
        if status == 0 and not tells_only(engine):
            _show(plan)
    return status


def _check_pictures_packages(recipe: str) -> None:
    if lacking := [name for name in analyze.PACKAGES if find_spec(name) is None]:
        raise ValueError(f"{recipe}: its pictures need {', '.join(lacking)}: pip install 'fairseq-syntax[analysis]'")


def _show(plan: Plan) -> None:
    table = Path(plan.table.path, "table.md")
    if table.exists():  # not under all of Snakemake's options
        print(table.read_text(encoding="utf-8"))
        print(f"tables, CSV and LaTeX: {links_of(plan).resolve()}", file=sys.stderr)


if __name__ == "__main__":
    main()
