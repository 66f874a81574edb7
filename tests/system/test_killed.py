"""Commands killed or stopped wherever they parse a batch, or rename or delete a file: the next run puts all right."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from binarizing import CONLLU, TEXT, TREES, contents, run, write
from fake_parser import FakeParser
from forked import Forked
from syntax_data.commands import binarize, parse
from tiers import others_nightly

pytestmark = [pytest.mark.usefixtures("fake_parser"), pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")]

FEATURES = ["--features", "word,distance,deprel"]
STEPS = [(os, "replace"), (os, "rename"), (os, "unlink"), (FakeParser, "parse")]


def at_step(number: int, when: str, act: Callable[[], object], command: Callable[[], object]) -> None:
    """`command`, and `act` before or after one of its steps."""
    step = 0

    def watched(function: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **kwargs: object) -> object:
            nonlocal step
            step += 1
            now = when if step == number else ""
            if now == "before":
                act()
            try:
                return function(*args, **kwargs)
            finally:  # also where there is no file to delete
                if now == "after":
                    act()

        return called

    for place, name in STEPS:
        setattr(place, name, watched(getattr(place, name)))
    command()


def killed(folder: Path, command: Callable[[], object], by: int) -> Iterator[str]:
    """`folder` after each way of being killed, which is yielded."""
    start, log = shutil.copytree(folder, folder.with_name("start")), folder.with_name("log")
    for number in itertools.count(1):
        for when in ("before", "after"):
            process = Forked(partial(at_step, number, when, partial(signal.raise_signal, by), command), log)
            status = process.end()
            if status == 0:
                assert number > 6
                return
            assert status == {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130, signal.SIGTERM: 143}[by], (
                process.said
            )
            yield f"{when} step {number}"
            shutil.rmtree(folder)
            shutil.copytree(start, folder)


def vouched_for(folder: Path) -> dict[str, dict[str, bytes]]:
    """For each split of a data-bin's signature, the feature files that belong to it."""
    path = folder / "bin/syntax.en-de.en.json"
    splits = json.loads(path.read_text())["splits"] if path.exists() else {}
    return {
        split: {
            name: (folder / f"bin/{split}.en-de.en.{name}").read_bytes()
            for name in (f"{feature}.{ending}" for feature in of["features"] for ending in ("bin", "idx"))
        }
        for split, of in splits.items()
    }


def outputs(folder: Path) -> dict[str, bytes]:
    return {path: content for path, content in contents(folder).items() if ".parts/" not in path}


def binarizing(folder: Path, before: bool) -> list[str]:
    for name in ("train", "valid") if before else ():
        write(folder, name, text="x\n", trees="(S x)\n", conllu="1\tx\t_\tX\t_\t_\t0\tx\t_\t_\n\n")
        run(folder, *FEATURES, name=name)
    for name in ("train", "valid"):
        write(folder, name, text=TEXT * 2, trees=TREES * 2, conllu=(CONLLU + "\n") * 2)
    prefixes = [f"--{name}pref={folder}/{name}" for name in ("train", "valid")]
    return ["-s", "en", "-t", "de", "--destdir", f"{folder}/bin", *prefixes, *FEATURES]


def parsing(folder: Path, before: bool) -> list[str]:
    text = folder / "x.en"
    text.write_text("".join(f"a{i} b\n" for i in range(6)))
    command = ["--input", str(text), "--parser", "fake", "--batch-size", "2", "--overwrite"]
    if before:
        parse.main([*command, "--max-tokens", "7"])
    return command


BINARIZE, PARSE = (binarize.main, binarizing), (parse.main, parsing)
CASES = [
    (*command, by, before)
    for command in (BINARIZE, PARSE)
    for by, before in ((signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGTERM, True))
]
ORDINARY = [(*PARSE, signal.SIGTERM, True)]


@pytest.mark.parametrize(("main", "prepare", "by", "before"), others_nightly(CASES, ORDINARY))
def test_the_same_command_again_makes_what_an_undisturbed_one_makes(tmp_path, main, prepare, by, before):
    folder = tmp_path / "work"
    folder.mkdir()
    command = prepare(folder, before)
    old, old_splits = outputs(folder), vouched_for(folder)
    unbroken = shutil.copytree(folder, tmp_path / "unbroken")
    main([part.replace(str(folder), str(unbroken)) for part in command])
    new, new_splits = outputs(unbroken), vouched_for(unbroken)
    for place in killed(folder, partial(main, command), by):
        if by == signal.SIGTERM:
            assert outputs(folder) in (old, new), place
        for name, files in vouched_for(folder).items():
            assert files in (old_splits.get(name), new_splits[name]), place
        main(command)
        assert contents(folder) == new, place
