"""Bytes changed at random in every file that users hand over.

The law is one for all: an error that names a file, or the result of the intended file. Never a traceback, a hang, or
another result. ``--nightly`` and ``--fuzz-seconds`` take longer.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import attacked_checkpoints
import commands
import fairseq_syntax.commands.average_checkpoints
import fairseq_syntax.commands.dump
import syntax_data.commands.binarize
import syntax_data.commands.parse
import syntax_data.commands.score
from fairseq_syntax.data.features import load_features
from fairseq_syntax.data.training_record import DataBins
from fairseq_syntax.inference.reader import source_reader
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from forked import Forked
from syntax_data.errors import InputError
from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.picture_data import cells, matrices
from syntax_experiments.training_log import read_validations
from time_limit import within

WORDS = "Die Katze schläft im Haus .\n\nEr kommt ( heute ) . Gut .\nab c\n"
SUBWORDS = "Die Kat@@ ze schl@@ äft im Haus .\n\nEr kommt ( heu@@ te ) . Gut .\nab c\n"
TREES = (
    "(S (NP (DET Die) (NN Katze)) (VP (V schläft) (PP (P im) (NN Haus))) (. .))\n\n"
    "(S (NP Er) (VP (V kommt) (PRN (-LRB- -LRB-) (ADV heute) (-RRB- -RRB-))) (. .)) (S (ADJ Gut) (. .))\n(())\n"
)
_TOKENS = [
    ["1 Die 2", "2 Katze 3", "3 schläft 0", "4-5 im _", "4 in 6", "5 dem 6", "6 Haus 3", "7 . 3"],
    [],
    ["1 Er 2", "2 kommt 0", "3 ( 4", "4 heute 2", "5 ) 4", "6 . 2", "7 Gut 0", "8 . 7"],
    ["1 ab 2", "2 c 0"],
]
CONLLU = "".join(
    "".join(f"# {comment}\n" for comment in comments)
    + "".join("{}\t{}\t_\tX\t_\t_\t{}\tdep\t_\t_\n".format(*token.split()) for token in tokens)
    + "\n"
    for comments, tokens in zip([["generator = by hand"], ["text ="], ["sentences = 2"], []], _TOKENS, strict=True)
)
FEATURES = ["word", "distance", "head", "upos"]
NASTY = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xa0", b"\xc2\xa0", b"(", b")",
    b"(())", b"\t", b" ", b"#", b"# sentences = 3\n", b"# no_parse = x\n", b"-", b"_", b"0", b"1", b"9" * 30,
    b"9" * 5000, b"-1", "²".encode(), "٣".encode(), b'"', b"{", b"}", b"[]", b"null", b"1e999", b"NaN", b"\\ud800",
    b"</s>", b"<pad>", b"<unk>", b"@@", b"@@ ", b"H-1\t-0.1\ta\n", b"H-99999999999\t0\ta\n", b"D-", b"x" * 70_000,
]  # fmt: skip

Edit = tuple[str, int, int, bytes]
KINDS = ["insert", "delete", "replace", "flip", "repeat", "swap lines", "cut"]
PLACES = st.integers(0, 1 << 30)
EDITS = st.lists(st.tuples(st.sampled_from(KINDS), PLACES, PLACES, st.sampled_from(NASTY)), min_size=1, max_size=3)


def edited(content: bytes, edits: list[Edit]) -> bytes:
    """`content` after some edits, whose places are taken modulo its length."""
    for kind, where, length, what in edits:
        start = where % (len(content) + 1)
        end = min(len(content), start + length % 9)
        if kind == "insert":
            content = content[:start] + what + content[start:]
        elif kind == "delete":
            content = content[:start] + content[end:]
        elif kind == "replace":
            content = content[:start] + what + content[end:]
        elif kind == "flip" and start < len(content):
            content = content[:start] + bytes([content[start] ^ (1 << length % 8)]) + content[start + 1 :]
        elif kind == "repeat":
            content = content[:end] + content[start:]
        elif kind == "swap lines":
            lines = content.splitlines(keepends=True)
            if lines:
                a, b = where % len(lines), length % len(lines)
                lines[a], lines[b] = lines[b], lines[a]
            content = b"".join(lines)
        elif kind == "cut":
            content = content[:start]
    return content


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    """Text, parses with and without records, and a data-bin, as they are meant."""
    folder = tmp_path_factory.mktemp("clean")
    for name, content in (("words", WORDS), ("bare", SUBWORDS), ("train", SUBWORDS)):
        (folder / f"{name}.de").write_text(content, encoding="utf-8")
    for kind, content in (("trees", TREES), ("conllu", CONLLU)):
        (folder / f"bare.de.{kind}").write_text(content, encoding="utf-8")
        parse_file(folder, kind, folder / f"bare.de.{kind}", "train.de")
    tokens = [f"--{split}pref={folder}/train" for split in ("train", "valid")]
    commands.preprocess_tokens("-s", "de", "-t", "en", "--only-source", *tokens, f"--destdir={folder}/bin")
    assert binarize(folder, "train") is None
    for more in ([], *(["--num-shards", "2", "--shard-id", shard] for shard in "01")):
        command(syntax_data.commands.parse.main, *stopped_run(folder, "stopped" if more else "whole"), *more)
    log = "".join(f"S-{i}\t{line}\nH-{i}\t-0.5\t{line}\n" for i, line in enumerate(WORDS.splitlines()))
    (folder / "generate.log").write_text(log, encoding="utf-8")
    lines = (
        "gates on 'valid' subset | num_updates 251 | {\"gate_slr_l1\": [0.3, 0.5]}\n",
        "epoch 001 | valid on 'valid' subset | loss 7.598 | gate_slr_l1 0.4 | num_updates 251\n",
        '{"epoch": 2, "valid_loss": "6.9", "valid_gate_slr_l1": "0.4", "valid_num_updates": "502"}\n',
    )
    (folder / "train.log").write_text("".join(f"2026 | INFO | valid | {line}" for line in lines))
    square = np.ones((1, 2, 2), dtype=np.float32)
    arrays = {"tokens": np.array(["a", "</s>"]), "gates": square[:, :1], "masks": square, "attention": square[None]}
    named = {f"0/{name}": array for name, array in arrays.items()}
    np.savez(folder / "dump.npz", layers=np.array([1]), masks=np.array(["slr"]), **named)
    return folder


def command(main: Callable[[list[str]], None], *arguments: object) -> str | None:
    """Runs a command in this process; its message, if it ends with one."""
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main([str(argument) for argument in arguments])
    except SystemExit as end:
        if not isinstance(end.code, str):
            raise
        return end.code
    finally:
        signal.signal(signal.SIGTERM, terminate)
    return None


def assert_place(message: object, folder: Path) -> None:
    """The message names a file first, and is short enough to be read."""
    found = str(message)
    assert found.partition("error: ")[2].startswith(f"{folder}{os.sep}") or found.startswith(f"{folder}{os.sep}"), found
    assert len(found) < 3000, len(found)


def parse_file(folder: Path, kind: str, source: Path, prefix: str, *more: str) -> str | None:
    return command(
        syntax_data.commands.parse.main,
        *("--parser", kind, "--input", folder / "words.de", "--parse-file", source),
        *("--output-prefix", folder / prefix, "--batch-size", "2", "--max-tokens", "20", *more),
    )


def binarize(folder: Path, prefix: str, destination: str = "bin") -> str | None:
    return command(
        syntax_data.commands.binarize.main,
        *("-s", "de", "-t", "en", "--trainpref", folder / prefix, "--destdir", folder / destination),
        *("--features", ",".join(FEATURES)),
    )


def features(folder: Path) -> list[list[list[int]]]:
    """The features of the data-bin, read as training reads them, of the lines that have words."""
    found = load_features(DataBins((str(folder / "bin"),), ("de", "en")), "train", FEATURES[:3])
    return [[found[name][i].tolist() for i in (0, 2, 3)] for name in FEATURES[:3]]


def values(folder: Path) -> dict[str, bytes]:
    """What lies in the data-bin, but for the signature and the tokens."""
    return {p.name: p.read_bytes() for p in (folder / "bin").iterdir() if any(f".{f}." in p.name for f in FEATURES)}


def assert_features(folder: Path, expected: object) -> None:
    """The features of the data-bin are the expected ones, or are refused."""
    try:
        found = features(folder)
    except (InputError, FileNotFoundError) as error:
        assert str(folder) in str(error)  # noqa: PT017
    else:
        assert found == expected


def assert_named(message: str | None, folder: Path) -> None:
    """A command's message, if it ended with one, names a file."""
    if message is not None:
        assert_place(message, folder)


def bare_parses(kind: str, folder: Path, clean: Path) -> None:
    """Parses without a record are used as they are; fairseq-syntax-parse writes the same."""
    before = values(folder)
    message = binarize(folder, "bare")
    if message is not None:
        assert_place(message, folder)
        assert values(folder) == before
        return
    direct = features(folder)
    assert parse_file(folder, kind, folder / f"bare.de.{kind}", "normal.de") is None
    shutil.copy(folder / f"normal.de.{kind}", folder / f"bare.de.{kind}")
    assert binarize(folder, "bare") is None
    assert features(folder) == direct


def text(folder: Path, clean: Path) -> None:
    """Features of another text are refused where they are written, or where they meet the tokens."""
    message = binarize(folder, "bare")
    assert_named(message, folder)
    if message is None:
        assert_features(folder, features(clean))


def recorded_parses(folder: Path, clean: Path) -> None:
    assert_named(binarize(folder, "train"), folder)
    assert values(folder) == values(clean)


def signature(folder: Path, clean: Path) -> None:
    """It vouches for the features, is added to, names the parser of new text, and is verified."""
    assert_features(folder, features(clean))
    data = "-s", "de", "-t", "en", "--destdir", folder / "bin"
    assert_named(command(syntax_data.commands.binarize.main, "--verify", *data), folder)
    options = SimpleNamespace(data=folder / "bin", source_lang="de", target_lang="en", input_parses=None, parser="none")
    with contextlib.suppress(InputError):
        source_reader(options, FEATURES)
    for name in ("", ".trees", ".conllu"):
        shutil.copy(folder / f"bare.de{name}", folder / f"valid.de{name}")
    assert_named(command(syntax_data.commands.binarize.main, *data, "--validpref", folder / "valid"), folder)


def shard(folder: Path, clean: Path) -> None:
    for more in (["--num-shards", "2", "--shard-id", "0"], ["--merge"]):
        message = command(syntax_data.commands.parse.main, *stopped_run(folder, "stopped"), *more)
        if message is not None:
            assert_place(message, folder)
            assert not (folder / "stopped.de.conllu").exists()
            return
    assert (folder / "stopped.de.conllu").read_bytes() == (clean / "whole.de.conllu").read_bytes()


def stopped_run(folder: Path, name: str) -> list[str]:
    options = ["--batch-size", "2", "--max-tokens", "20", "--parser", "control", "--control", "random"]
    return ["--input", str(folder / "words.de"), "--output-prefix", str(folder / f"{name}.de"), *options]


def generate_log(folder: Path, clean: Path) -> None:
    """Scores are of all sentences, one of each."""
    files = "--hypotheses", folder / "generate.log", "--references", folder / "words.de"
    assert_named(command(syntax_data.commands.score.main, *files), folder)


def training_log(folder: Path, clean: Path) -> None:
    try:
        read_validations(str(folder / "train.log"))
    except InputError as error:
        assert_place(error, folder)


def dumped(folder: Path, clean: Path) -> None:
    try:
        dump = Dump(str(folder / "dump.npz"))
        dump.mean_gates()
        for sentence in dump.sentences:
            for kind in ("masks", "attention", "heads"):
                assert len(cells(matrices("x", dump, sentence, kind, 80)))
    except InputError as error:
        assert_place(error, folder)


FILES = [f"train.de-en.de{f}.{ending}" for f in ("", *(f".{f}" for f in FEATURES[:3])) for ending in ("bin", "idx")]
#: What holds when a file of a folder was changed: of the folder, and the unchanged one.
LAWS: dict[str, Callable[[Path, Path], None]] = {
    "bare.de.trees": partial(bare_parses, "trees"),
    "bare.de.conllu": partial(bare_parses, "conllu"),
    "bare.de": text,
    **dict.fromkeys(["train.de.parse.json", "train.de.conllu", "train.de.trees"], recorded_parses),
    "bin/syntax.de-en.de.json": signature,
    **{f"bin/{name}": lambda folder, clean: assert_features(folder, features(clean)) for name in FILES},
    "stopped.de.parts/0-of-2.jsonl": shard,
    "generate.log": generate_log,
    "train.log": training_log,
    "dump.npz": dumped,
}
COUNT = 14  # shares of the time: of the files of features together, of every other file, and of checkpoints


@pytest.mark.parametrize("name", LAWS)
def test_an_edited_file_is_read_as_intended_or_named(name, clean, tmp_path, request):
    share = request.config.getoption("fuzz_seconds") / COUNT / (len(FILES) if name[4:] in FILES else 1)
    numbers, content = itertools.count(), (clean / name).read_bytes()

    def one(edits: list[Edit]) -> None:
        folder = tmp_path / str(next(numbers))
        shutil.copytree(clean, folder)
        (folder / name).write_bytes(edited(content, edits))
        with within(20):
            LAWS[name](folder, clean)
        shutil.rmtree(folder)

    some = settings(
        max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False, phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    end = time.monotonic() + share
    for k in itertools.count():
        seed(k)(some(given(EDITS)(one)))()
        if time.monotonic() > end:
            break


def changed_entries(content: Any) -> Iterator[Any]:
    """A JSON value with each of the entries anywhere in it left out, or replaced by another value."""
    if not isinstance(content, (dict, list)):
        return
    for key in content if isinstance(content, dict) else range(len(content)):
        for other in (None, 3, "x", [], [1], {}, {"x": 1}, *changed_entries(content[key])):
            copy = content.copy()
            copy[key] = other
            yield copy
        copy = content.copy()
        del copy[key]
        yield copy


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bin/syntax.de-en.de.json", "train.de.parse.json"])
def test_every_entry_of_a_signature_and_a_record(name, clean, tmp_path):
    folder = Path(shutil.copytree(clean, tmp_path / "x"))
    for content in changed_entries(json.loads((clean / name).read_text())):
        (folder / name).write_text(json.dumps(content))
        LAWS[name](folder, clean)


def load(data: Path, path: Path) -> dict[str, torch.Tensor]:
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})
    return model.state_dict()


def load_from_python(data: Path, path: Path) -> dict[str, torch.Tensor]:
    return SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data)).models[0].state_dict()


def average(data: Path, path: Path) -> dict[str, torch.Tensor]:
    to = path.parent / "average.pt"
    to.unlink(missing_ok=True)
    fairseq_syntax.commands.average_checkpoints.main(["--inputs", str(path), "--output", str(to)])
    return torch.load(to, weights_only=True)["model"]


def dump(data: Path, path: Path) -> dict[str, torch.Tensor]:
    options = ["--cpu", "--output", str(path.parent / "dump.npz")]
    fairseq_syntax.commands.dump.main([str(data), "--path", str(path), *options])
    return {}


def generate(data: Path, path: Path) -> dict[str, torch.Tensor]:
    commands.generate(data, path)
    return {}


def resume(data: Path, path: Path) -> dict[str, torch.Tensor]:
    shutil.rmtree(path.parent / "run", ignore_errors=True)
    commands.train(data, path.parent / "run", "--max-update=1", f"--restore-file={path}")
    return {}


#: Commands that load a checkpoint, the fast ones more often. They return the weights as they were loaded, if they can.
LOADS = [load] * 8 + [load_from_python] * 4 + [average] * 4 + [dump] * 2 + [generate, resume]


def outcome(load: Callable[[Path, Path], dict[str, torch.Tensor]], data: Path, path: Path) -> str:
    """How loading a checkpoint ends: "loaded", with its weights; "refused", by a line that names it; else the fault."""
    try:
        with within(20):
            found = load(data, path)
    except (InputError, SystemExit) as error:
        line = str(error)
        named = (str(path) in line or str(data) in line) and "\n" not in line and len(line) < 1500
        return "refused" if named else f"printed {line!r}"
    except BaseException as error:
        return f"raised {type(error).__name__} {str(error)!r}"
    try:
        expected = torch.load(path, weights_only=True)["model"]
    except Exception as error:
        return f"loaded what torch does not: {error}"
    wrong = [name for name in found if name in expected and not same(found[name], expected[name])]
    return f"loaded other weights {wrong}" if wrong else "loaded"


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.equal(found.nan_to_num(), expected.to(found.dtype).nan_to_num())


@pytest.mark.nightly
def test_checkpoints(data_bin, tmp_path, request):
    """A signal would end the process, so they are loaded in a copy of it."""
    scoring = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 1, "max_len_b": 5}']
    commands.train(data_bin, tmp_path / "first", "--max-update=1", *scoring)
    state = torch.load(tmp_path / "first/checkpoint_last.pt", weights_only=True)
    share = request.config.getoption("fuzz_seconds") / COUNT
    least = 250

    def load_all() -> None:
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for k in itertools.count():
            if k >= least and time.monotonic() > begin + share:
                break
            random, path = Random(k), tmp_path / "x.pt"
            how, content = attacked_checkpoints.attacked(random, state)
            path.write_bytes(content)
            load = random.choice(LOADS)
            print(f"\n@{k}: {how}, {load.__name__}: ", end="", flush=True)
            print(f"\n@@{outcome(load, data_bin, path)}", flush=True)
        print(f"\n@more memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before} KB")

    child = Forked(load_all, tmp_path / "log")
    status = child.end(600 + share)
    lines = [line for line in child.said.splitlines() if line.startswith("@")]
    assert status == 0, (status, lines[-2:])
    found = list(zip(lines[:-1:2], lines[1:-1:2], strict=True))
    assert not [line for line in found if line[1] not in ("@@loaded", "@@refused")]
    assert min(sum(line[1] == f"@@{end}" for line in found) for end in ("loaded", "refused")) > least / 10
    assert int(lines[-1].split()[-2]) < 1_300_000, lines[-1]  # beside 2^28 numbers, which SizeLimit lets be built
