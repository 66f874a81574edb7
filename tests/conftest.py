"""What all tests share: two tiers, tiny data-bins that all workers use, and where tests run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from filelock import FileLock

from fake_parser import install_parser
from places import EXPERIMENTS, TESTS

# Before torch is imported: the tests are small, and its threads would get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Processes in the background are started with Ctrl-C ignored, and so are those that they start. Some tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests with the marker nightly as well")
    parser.addoption(
        "--fuzz-seconds", type=float, help="time of tests/system/test_fuzz.py (default: 5, with --nightly 600)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Only ``pytest -m gpu`` sees GPUs. Other tests fork, which a process that has used a GPU cannot.

    fairseq counts GPUs when it is imported. So nothing here imports it before this.
    """
    if config.option.fuzz_seconds is None:
        config.option.fuzz_seconds = 600 if config.option.nightly else 5
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the marker nightly, unless --nightly is given; put the longest tests first, beside which others run.

    Tests in half precision are tests of a GPU; ``-m gpu`` runs those that are nightly, too.
    """
    if not config.option.nightly and config.option.markexpr != "gpu":
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    items.sort(key=lambda item: "test_quickstart.py" not in item.nodeid)
    for item in items:
        if "half_precision" in getattr(item, "fixturenames", ()):
            item.add_marker("gpu")
        if config.option.markexpr == "gpu" and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="there is no GPU"))


@pytest.fixture(scope="session", autouse=True)
def elsewhere(tmp_path_factory) -> None:
    """Tests run outside the checkout, so that the installed package is what they test."""
    os.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def half_precision(monkeypatch) -> bool:
    """fairseq's --fp16 and --amp compute in float16: on a GPU under ``pytest -m gpu`` (the answer), else on the CPU,
    where fairseq, which thinks of GPUs alone, would fail with --fp16 and compute in float32 with --amp."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # the index of the device "cpu"
        monkeypatch.setattr(torch.cuda.amp, "autocast", partial(torch.autocast, "cpu", dtype=torch.float16))
        monkeypatch.setattr(torch.cuda.amp, "GradScaler", partial(torch.amp.GradScaler, "cpu"))
    return torch.cuda.is_available()


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first worker that needs it fills by `make`, and that all use; tests write to copies of it."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, done = base / name, base / f"{name}.done"
    with FileLock(base / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def fake_parser_site(tmp_path_factory) -> Path:
    return install_parser(tmp_path_factory.mktemp("site"), "fake", "fake_parser:FakeParser")


@pytest.fixture
def fake_parser(fake_parser_site, monkeypatch) -> None:
    """The parser ``fake`` is installed, in this process and those that it starts."""
    monkeypatch.syspath_prepend(str(fake_parser_site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fake_parser_site), str(TESTS)]))


SPLITS = "train", "valid", "test"


def make_corpus(folder: Path) -> None:
    """Word-level text with parses (src, tgt) by the quickstart's grammar, its BPE, and its data-bins."""
    sys.path.insert(0, str(EXPERIMENTS / "corpora"))
    import commands
    import grammar

    for name, examples in grammar.make_corpus(Random(5), train=120, held_out=6).items():
        grammar.write(folder, name, examples, examples)
    (folder / "bpe").mkdir()
    for side in ("src", "tgt"):
        codes = folder / f"codes.{side}"
        with open(folder / f"train.{side}") as text, open(codes, "w") as out:
            subprocess.run(["subword-nmt", "learn-bpe", "-s", "60"], stdin=text, stdout=out, check=True)
        for name in SPLITS:
            with open(folder / f"{name}.{side}") as text, open(folder / f"bpe/{name}.{side}", "w") as out:
                subprocess.run(["subword-nmt", "apply-bpe", "-c", codes], stdin=text, stdout=out, check=True)
    prefixes = [f"--{name}pref={folder}/bpe/{name}" for name in SPLITS]
    commands.preprocess_tokens(*prefixes, "--destdir", str(folder / "plain-data-bin"))
    commands.binarize(folder, commands.copy(folder / "plain-data-bin", folder / "data-bin"))


def train_on_fake_parses(corpus: Path, site: Path, folder: Path) -> None:
    """Train a model for a few steps on parses of the fake parser, whose distribution is in `site`."""
    import commands
    from syntax_data.commands import parse

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        for name in SPLITS:
            text = shutil.copy(corpus / f"{name}.src", folder / f"{name}.src")
            parse.main(["--input", str(text), "--parser", "fake"])
        data = commands.copy(corpus / "plain-data-bin", folder / "data-bin")
        (folder / "bpe").mkdir()
        for name in SPLITS:
            shutil.copy(corpus / f"bpe/{name}.src", folder / f"bpe/{name}.src")
        commands.binarize(folder, data)
        commands.train(data, folder / "run", "--max-update=40", "--syntax-masks=slr,sdoi")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """Word-level text with parses (src, tgt), and its BPE in bpe/."""
    return made_once(tmp_path_factory, "corpus", make_corpus)


@pytest.fixture(scope="session")
def plain_data_bin(corpus) -> Path:
    """The corpus through fairseq-preprocess."""
    return corpus / "plain-data-bin"


@pytest.fixture(scope="session")
def data_bin(corpus) -> Path:
    """The corpus through fairseq-preprocess and fairseq-syntax-binarize."""
    return corpus / "data-bin"


@pytest.fixture(scope="session")
def trained(corpus, fake_parser_site, tmp_path_factory) -> SimpleNamespace:
    """A model trained for a few steps on parses of the fake parser."""
    folder = made_once(tmp_path_factory, "trained", partial(train_on_fake_parses, corpus, fake_parser_site))
    return SimpleNamespace(
        data=folder / "data-bin",
        checkpoint=folder / "run/checkpoint_last.pt",
        lines=(corpus / "test.src").read_text().splitlines(),
        parses=folder / "test.src",
        bpe=("--bpe=subword_nmt", f"--bpe-codes={corpus / 'codes.src'}", "--remove-bpe"),
        codes=corpus / "codes.src",
        bpe_text=corpus / "bpe",
        subwords=(corpus / "bpe/test.src").read_text().splitlines(),
    )
