"""Commands that are killed wherever they change the names of files: once more, and all is as if that had not been."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from binarizing import CONLLU, TEXT, TREES, contents, hidden_folders, run, write
from forked import Forked
from syntax_data.commands import binarize, parse

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def at_renaming(call: int, when: str, act: Callable[[], object], command: Callable[[], object]) -> None:
    """`command`, and `act` before or after it gives a file another name for the so many-th time."""
    calls = 0

    def watched(rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(*args: object, **kwargs: object) -> None:
            nonlocal calls
            calls += 1
            if (calls, when) == (call, "before"):
                act()
            rename(*args, **kwargs)
            if (calls, when) == (call, "after"):
                act()

        return renamed

    for name in ("replace", "rename"):
        setattr(os, name, watched(getattr(os, name)))
    command()


def die(number: int = signal.SIGKILL) -> None:
    os.kill(os.getpid(), number)


def kill_workers() -> None:
    for process in multiprocessing.active_children():
        process.kill()
        process.join()


def killed(
    folder: Path, command: Callable[[], object], *, least: int, by: int = signal.SIGKILL, ends: int = -signal.SIGKILL
) -> Iterator[str]:
    """`folder` after each way of being killed, which is yielded. At least so many calls are expected."""
    start = shutil.copytree(folder, folder.with_name("start"))
    for call in itertools.count(1):
        for when in ("before", "after"):
            process = Forked(partial(at_renaming, call, when, partial(die, by), command), folder.with_name("log"))
            status = process.end()
            if status == 0:
                assert call > least
                return
            assert status == ends, process.said
            yield f"{when} call {call}"
            shutil.rmtree(folder)
            shutil.copytree(start, folder)


def vouched_for(folder: Path) -> dict[str, dict[str, bytes]]:
    """For each split of the signature, the feature files that belong to it."""
    path = folder / "bin/syntax.en-de.en.json"
    splits = json.loads(path.read_text())["splits"] if path.exists() else {}
    return {
        name: {
            f"{feature}.{ending}": (folder / f"bin/{name}.en-de.en.{feature}.{ending}").read_bytes()
            for feature in split["features"]
            for ending in ("bin", "idx")
        }
        for name, split in splits.items()
    }


FEATURES = ["--features", "word,distance,deprel"]


@pytest.mark.parametrize("before", [(), ("valid",), ("train", "valid", "test")])
def test_binarizing(tmp_path, before):
    folder = tmp_path / "work"
    folder.mkdir()
    for name in before:
        write(folder, name, text="x\n", trees="(S x)\n", conllu="1\tx\t_\tX\t_\t_\t0\tx\t_\t_\n\n")
        run(folder, *FEATURES, name=name)
    for name in ("train", "valid"):
        write(folder, name, text=TEXT * 2, trees=TREES * 2, conllu=(CONLLU + "\n") * 2)
    prefixes = [f"--{name}pref={folder}/{name}" for name in ("train", "valid")]
    command = ["-s", "en", "-t", "de", "--destdir", f"{folder}/bin", *prefixes, *FEATURES]
    old = vouched_for(folder)
    unbroken = shutil.copytree(folder, tmp_path / "unbroken")
    binarize.main([part.replace(str(folder), str(unbroken)) for part in command])
    new = vouched_for(unbroken)
    for place in killed(folder, partial(binarize.main, command), least=13):
        for name, files in vouched_for(folder).items():
            assert files == old.get(name) or files == new[name], place
        binarize.main(command)
        assert contents(folder) == contents(unbroken), place
        assert not hidden_folders(folder / "bin")


STOPPED = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("by", "ends"), STOPPED)
def test_binarizing_that_is_stopped_leaves_the_old_data_bin_or_the_new_one(tmp_path, by, ends):
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder, "train", text="x\n", trees="(S x)\n", conllu="1\tx\t_\tX\t_\t_\t0\tx\t_\t_\n\n")
    run(folder, *FEATURES)
    write(folder)
    command = ["-s", "en", "-t", "de", "--destdir", f"{folder}/bin", "--trainpref", f"{folder}/train", *FEATURES]
    old = contents(folder)
    unbroken = shutil.copytree(folder, tmp_path / "unbroken")
    binarize.main([part.replace(str(folder), str(unbroken)) for part in command])
    new = contents(unbroken)
    for place in killed(folder, partial(binarize.main, command), least=8, by=by, ends=ends):
        assert contents(folder) in (old, new), place
        assert not hidden_folders(folder / "bin")


def test_workers_that_die_when_their_work_is_done_are_not_missed(tmp_path):
    run(write(tmp_path))
    before = contents(tmp_path)
    killings = multiprocessing.Value("i")

    def kill() -> None:
        killings.value += 1
        kill_workers()

    for call in itertools.count(1):
        done = killings.value
        command = partial(at_renaming, call, "before", kill, partial(run, tmp_path, "--workers", "2"))
        process = Forked(command, tmp_path / "log")
        assert process.end() == 0, process.said
        (tmp_path / "log").unlink()
        assert contents(tmp_path) == before
        if killings.value == done:
            break
    assert call > 16  # there were as many renamings


@pytest.mark.usefixtures("fake_parser")
@pytest.mark.parametrize("before", [False, True])
def test_parsing(tmp_path, before, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    text = folder / "x.en"
    text.write_text("".join(f"a{i} b\n" for i in range(6)))
    command = ["--input", str(text), "--parser", "fake", "--batch-size", "3"]
    if before:
        monkeypatch.setenv("FAKE_VERSION", "0")
        parse.main(command)
        monkeypatch.delenv("FAKE_VERSION")
    unbroken = shutil.copytree(folder, tmp_path / "unbroken")
    parse.main([part.replace(str(folder), str(unbroken)) for part in command])
    refused = 0
    for place in killed(folder, partial(parse.main, command), least=7):
        again = Forked(partial(parse.main, command), tmp_path / "log")
        if again.end():
            assert re.search(r"^fairseq-syntax-parse: error: .*--resume", again.said, re.M), again.said
            refused += 1
            parse.main([*command, "--resume"])
        assert contents(folder) == contents(unbroken), place
    assert refused > 5


@pytest.mark.usefixtures("fake_parser")
@pytest.mark.parametrize(("by", "ends"), STOPPED)
def test_parsing_that_is_stopped_leaves_the_old_parses_or_the_new_ones(tmp_path, by, ends, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    text = folder / "x.en"
    text.write_text("".join(f"a{i} b\n" for i in range(6)))
    command = ["--input", str(text), "--parser", "fake", "--batch-size", "3"]
    monkeypatch.setenv("FAKE_VERSION", "0")
    parse.main(command)
    monkeypatch.delenv("FAKE_VERSION")
    old = contents(folder)
    unbroken = shutil.copytree(folder, tmp_path / "unbroken")
    parse.main([part.replace(str(folder), str(unbroken)) for part in command])
    new = contents(unbroken)
    for place in killed(folder, partial(parse.main, command), least=7, by=by, ends=ends):
        outside = {path: content for path, content in contents(folder).items() if ".parts/" not in path}
        assert outside in (old, new), place
