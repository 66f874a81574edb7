"""fairseq-syntax-translate gives the translations of fairseq's commands, one for each line, in their order."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import commands
from fairseq_syntax.commands import export, translate
from fairseq_syntax.inference.hub import SentenceTooLong
from fairseq_syntax.inference.new_text import PARSER_FAILED
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from tiers import others_nightly

pytestmark = pytest.mark.usefixtures("fake_parser")

SEARCH = ("--beam=2", "--max-len-b=20")


def model_of(trained) -> list[str]:
    return [f"--path={trained.checkpoint}", f"--data={trained.data}", f"--bpe-codes={trained.codes}", *SEARCH, "--cpu"]


def status_of(main: Any, *arguments: object) -> Any:
    """The exit status of a command, or its message."""
    try:
        main([*map(str, arguments)])
    except SystemExit as end:
        return end.code
    return 0


def run(folder: Path, text: str | bytes, *model: object, status: Any = 0) -> list[str]:
    """The lines that the command writes for some text; it ends with a status."""
    (folder / "text").write_bytes(text.encode() if isinstance(text, str) else text)
    files = [f"--input={folder / 'text'}", f"--output={folder / 'out'}"]
    assert status_of(translate.main, *model, *files) == status
    written = (folder / "out").read_bytes().decode()
    assert written.endswith("\n") or not written
    return written.split("\n")[:-1]


def joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("more", others_nightly(["--batch-size=3", "--max-tokens=40"], {"--max-tokens=40"}))
def test_translations_are_those_of_fairseq_generate_in_order(trained, tmp_path, size, more):
    expected = [text for _, text in sorted(commands.generate(trained.data, trained.checkpoint).items())]
    assert run(tmp_path, joined(trained.lines), *model_of(trained), f"--buffer-size={size}", more) == expected


@pytest.mark.parametrize(
    "more",
    others_nightly(
        [
            ["--parser=none"],
            ["--input-parses={parses}"],
            ["--lenpen=2", "--nbest=2"],
            ["--constraints"],
            ["--constraints=unordered"],
            ["--diverse-beam-groups=2"],
        ],
        [["--input-parses={parses}"], ["--constraints"]],
    ),
)
def test_options_are_those_of_fairseq_interactive(trained, tmp_path, more):
    lines, more = trained.lines, [option.format(parses=trained.parses) for option in more]
    if more[0].startswith("--constraints"):
        words = [*lines[0].split(), *lines[1].split()]
        lines = [f"{lines[0]}\t{words[0]}\t{words[1]} {words[2]}", *lines[1:4], f"{lines[4]}\t{words[-1]}", lines[5]]
    options = (*trained.bpe, "--buffer-size=7", "--batch-size=4", *more)
    _, log = commands.interactive(lines, trained.data, trained.checkpoint, folder=tmp_path, more=options)
    expected = [(float(score) * math.log(2), text) for score, text in re.findall(r"^D-\d+\t(.*)\t(.*)$", log, re.M)]
    found = run(tmp_path, joined(lines), *model_of(trained), "--json", *more)
    assert [json.loads(line)["line"] for line in found] == [*range(1, len(lines) + 1)]
    hypotheses = [one for line in found for one in json.loads(line)["hypotheses"]]
    assert [one["text"] for one in hypotheses] == [text for _, text in expected]
    assert [one["score"] for one in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


LONG = "x " * 2000
ODD = {
    "blank": "",
    "spaces": " \t ",
    "separators": "\x1c\x85\u2028",
    "tabs": "the\tdog",
    "control": "the\x00 \x07dog\x1b",
    "unknown": "日本 ☃ \U0001f600",
    "symbols": "<pad> </s> <s> <unk>",
}


def test_every_kind_of_line_has_its_line(trained, tmp_path, caplog, capsys):
    hub, good = commands.hub(trained), trained.lines[0]
    lines = [part for line in ODD.values() for part in (good, line)] + [LONG, f"FAIL {good}", good]
    (whole,) = {*run(tmp_path, joined([good]), *model_of(trained))}
    capsys.readouterr()
    for size, text in ((1, joined(lines)), (4, joined(lines)[:-1]), (100, joined(lines).replace("\n", "\r\n"))):
        caplog.clear()
        found = run(tmp_path, text, *model_of(trained), f"--buffer-size={size}", status=PARSER_FAILED)
        assert len(found) == len(lines)
        assert {found[i] for i, line in enumerate(lines) if line == good} == {whole}
        for (name, line), translation in zip(ODD.items(), found[1::2], strict=False):
            blank = name in ("blank", "spaces", "separators")
            assert translation == ("" if blank else hub.translate(line, beam=2, max_len_b=20)), name
        assert found[lines.index(LONG)] == ""
        number = lines.index(LONG) + 1
        assert f"line {number} is not translated: expected at most 1024 subwords with </s>" in caplog.text
        assert f"line {number + 1} has no parse (conllu, trees): told to fail" in caplog.text
        assert capsys.readouterr().err == (
            f"fairseq-syntax-translate: 1 of {len(lines)} lines translated without a parse (failed: 1); "
            f"1 of {len(lines)} lines not translated (too long for the model)\n"
        )
    for text, count in (("", 0), ("\n", 1), ("\n\n\n", 3), (good, 1), (LONG, 1)):
        found = run(tmp_path, text, *model_of(trained))
        assert found == [whole if text == good else ""] * count


def test_broken_input_is_an_error_that_names_its_line(trained, tmp_path):
    good, message = trained.lines[0].encode(), f"fairseq-syntax-translate: error: {tmp_path}/"
    (tmp_path / "out").write_text("old\n")
    for text, expected in ((b"\xff", r"text:3: expected UTF-8"), (b"a\rb", "text:3: expected no carriage return")):
        (tmp_path / "text").write_bytes(b"\n".join([good, good, text, good]))
        files = f"--input={tmp_path}/text", f"--output={tmp_path}/out"
        status = status_of(translate.main, *model_of(trained), *files, "--buffer-size=1")
        assert status.startswith(message + expected)
        assert (tmp_path / "out").read_text() == "old\n"
    (tmp_path / "text").write_text("FAIL\n" * 10)
    dead = status_of(translate.main, *model_of(trained), *files, "--buffer-size=5")
    assert dead.endswith(": error: the parser fake failed on 10 lines and parsed none, for the reasons above")
    gone = status_of(translate.main, *model_of(trained), f"--input={tmp_path}/gone")
    assert gone == f"{message}gone: No such file or directory"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam=0"], "--beam: expected at least 1, found 0"),
        (["--nbest=3", "--json"], "--nbest: expected at most --beam 2, found 3"),
        (["--nbest=2"], "--nbest above 1: expected --json beside it"),
        (["--sampling"], "--sampling: expected --nbest equal to --beam"),
        (["--sampling-topk=3"], "--sampling-topk, --sampling-topp: expected with --sampling"),
        (["--constraints", "--sampling", "--beam=1"], "expected one of --sampling, --diverse-beam-groups and"),
        (["--diverse-beam-groups=3"], "--diverse-beam-groups: expected a divisor of --beam"),
        (["--bpe=none"], "expected one of --bpe-codes, --sentencepiece-model and --bpe none, found several"),
    ],
)
def test_options_that_exclude_each_other(trained, tmp_path, capsys, options, message):
    assert status_of(translate.main, *model_of(trained), "--input=/dev/null", *options) == 2
    assert message in capsys.readouterr().err


def test_samples_are_those_of_their_seed(trained, tmp_path):
    options = *model_of(trained), "--parser=none", "--sampling", "--sampling-topk=5", "--beam=1"
    found = [run(tmp_path, joined(trained.lines), *options, f"--seed={seed}") for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


def test_a_data_bin_that_nobody_gave(trained):
    status = status_of(translate.main, f"--path={trained.checkpoint}", "--input=/dev/null")
    expected = f"{trained.checkpoint.parent}: expected dictionaries beside the checkpoint, as fairseq-syntax-export"
    assert status.startswith(f"fairseq-syntax-translate: error: {expected}")


def test_subwords_that_nobody_gave(trained, tmp_path):
    without = [option for option in model_of(trained) if "codes" not in option]
    status = status_of(translate.main, *without, "--input=/dev/null")
    expected = r"syntax\.src-tgt\.src\.json: the training data has subwords \(subword_nmt\): expected --bpe-codes FILE"
    assert re.search(expected, status)
    texts = [run(tmp_path, joined(lines), *with_bpe) for lines, with_bpe in (
        (trained.lines, model_of(trained)), (trained.subwords, [*without, "--bpe=none"]),
    )]  # fmt: skip
    assert texts[0] == [line.replace("@@ ", "").removesuffix("@@") for line in texts[1]]


def process(trained, *more: str, **streams: Any) -> subprocess.Popen[str]:
    command = ["fairseq-syntax-translate", *model_of(trained), *more]
    return subprocess.Popen(command, text=True, encoding="utf-8", **{"stderr": subprocess.PIPE, **streams})


def test_streams_are_answered_buffer_by_buffer_and_stopped_at_once(trained):
    """Each line is answered before the next one is written; Ctrl-C ends a command that waits for input."""
    pipe = subprocess.PIPE
    with process(trained, "--buffer-size=1", stdin=pipe, stdout=pipe, bufsize=1) as running:
        assert running.stdin
        assert running.stdout
        for line in (trained.lines[0], "", trained.lines[0]):
            running.stdin.write(f"{line}\n")
            running.stdin.flush()
            assert bool(running.stdout.readline().strip()) == bool(line)
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
        assert running.stderr
        assert running.stderr.read().endswith("\nfairseq-syntax-translate: stopped\n")


@pytest.mark.nightly
def test_output_that_nobody_reads_ends_the_command(trained):
    reading, writing = os.pipe()
    with process(trained, "--buffer-size=1", stdin=subprocess.PIPE, stdout=writing) as running:
        os.close(writing)
        os.close(reading)
        _, said = running.communicate(joined(trained.lines * 20))
    assert running.returncode == 1
    assert said.splitlines()[-1] == "fairseq-syntax-translate: error: [Errno 32] Broken pipe"


def test_translate_in_python_has_the_same_options(trained):
    hub, (first, second, *_) = commands.hub(trained), trained.lines
    search = {"beam": 2, "max_len_b": 20}
    expected = hub.translate([first, second], **search)
    lines = [first, LONG, "", second]
    assert hub.translate(lines, **search, on_too_long="skip") == [expected[0], "", "", expected[1]]
    assert hub.translate(LONG, on_too_long="skip") == hub.translate("  ") == ""
    with pytest.raises(SentenceTooLong, match="sentence 2: expected at most 1024 subwords with </s>, found 2001"):
        hub.translate(lines)
    with pytest.raises(ValueError, match="on_too_long: expected one of error, skip, found 'cut'"):
        hub.translate(first, on_too_long="cut")
    with pytest.raises(TypeError, match="bem: there is no such option of generation"):
        hub.translate("", bem=3)
    with pytest.raises(ValueError, match=r"constraints: expected ordered or unordered, .*found True"):
        hub.translate(first, constraints=True)
    word = Path(trained.data / "dict.tgt.txt").read_text().split()[0]
    assert word not in expected[0].split()
    for kind in ("ordered", "unordered"):
        found = hub.translate([f"{first}\t{word}", first], **search, constraints=kind)
        assert word in found[0].split()
        assert found[1] == expected[0]


def test_an_exported_folder_is_all_that_a_model_needs(trained, tmp_path, capsys):
    options = f"--path={trained.checkpoint}", f"--data={trained.data}", f"--bpe-codes={trained.codes}"
    export.main([str(tmp_path / "x/made"), *options, "--tokenizer=moses"])
    names = ["bpecodes", "dict.src.txt", "dict.tgt.txt", "model.pt", "syntax.src-tgt.src.json"]
    assert capsys.readouterr().out == joined([f"{tmp_path}/x/made/{name}" for name in names])
    folder = (tmp_path / "x/made").rename(tmp_path / "moved")
    (tmp_path / "x").rmdir()  # with nothing else in it
    state = torch.load(folder / "model.pt", weights_only=True)
    assert "last_optimizer_state" not in state
    assert (folder / "model.pt").stat().st_size < trained.checkpoint.stat().st_size / 2
    expected = run(tmp_path, joined(trained.lines), *model_of(trained), "--tokenizer=moses")
    exported = f"--path={folder}/model.pt", *SEARCH, "--cpu"
    assert run(tmp_path, joined(trained.lines), *exported) == expected
    model = SyntaxTransformerModel.from_pretrained(str(folder))
    assert model.translate(trained.lines, beam=2, max_len_b=20) == expected
    export.main([str(tmp_path / "again"), f"--path={folder}/model.pt"])
    for name in names[:-2]:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    ensemble = f"--path={folder}/model.pt:{tmp_path}/again/model.pt", *exported[1:]
    assert run(tmp_path, joined(trained.lines), *ensemble) == expected
    for other in ({"bpe": None}, {"tokenizer": None}):
        model = SyntaxTransformerModel.from_pretrained(str(folder), **other)
        assert (model.bpe is None, model.tokenizer is None) == ("bpe" in other, "tokenizer" in other)
    with pytest.raises(ValueError, match="bpe: expected subword_nmt, as the checkpoint records, or None, found bytes"):
        SyntaxTransformerModel.from_pretrained(str(folder), bpe="bytes")
    (folder / "bpecodes").unlink()
    status = status_of(translate.main, *exported, "--input=/dev/null")
    assert status.endswith("model.pt: expected bpe_codes of its subword_nmt, found none")


def test_what_does_not_fit_is_not_exported(trained, tmp_path):
    options = [f"--path={trained.checkpoint}", f"--data={trained.data}", f"--bpe-codes={trained.codes}"]
    (tmp_path / "there").mkdir()
    unsigned = commands.copy(trained.data, tmp_path / "data")
    (unsigned / "syntax.src-tgt.src.json").unlink()
    for name, given, message in (
        ("there", options, "there: expected the name of a new folder to write, found that it exists"),
        ("new", options[:2], "the training data has subwords (subword_nmt): expected --bpe-codes FILE"),
        ("new", [*options, f"--data={unsigned}"], "expected the signature of the training data, found none"),
        ("new", [*options, f"--path={tmp_path}/x.pt"], "x.pt: expected a checkpoint, found no file"),
    ):
        status = status_of(export.main, tmp_path / name, *given)
        assert status.startswith("fairseq-syntax-export: error: ")
        assert message in status
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]
