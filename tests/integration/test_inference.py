"""New text is translated as the same text is from a data-bin: fairseq-interactive and from_pretrained."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
from fairseq.data import indexed_dataset

import commands
import small
import syntax_data.commands.parse
from fairseq_syntax.compat import unknown_words
from fairseq_syntax.inference.parse_sources import ParserHandle, ParsesFromParser
from fairseq_syntax.inference.reader import SourceReader, source_reader
from fairseq_syntax.inference.translation_report import PARSER_FAILED
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig
from fake_parser import FakeParser
from syntax_data.commands import binarize
from syntax_data.errors import InputError
from syntax_data.features import FEATURES
from syntax_data.features.aligned import Settings
from syntax_data.parsers import Line, Parse, Parser
from syntax_data.trees.tree import NoParse

pytestmark = pytest.mark.usefixtures("fake_parser")


def interactive(trained, lines, tmp_path, *more, status=0):
    return commands.interactive(lines, trained.data, trained.checkpoint, folder=tmp_path, more=more, status=status)


def test_all_ways_give_the_same_translations(trained, tmp_path):
    expected = commands.generate_scored(trained.data, trained.checkpoint)
    assert len(expected) == len(trained.lines)
    buffered = ("--buffer-size=7", "--batch-size=4")
    commands.assert_same(interactive(trained, trained.lines, tmp_path, *trained.bpe, *buffered)[0], expected)
    commands.assert_same(interactive(trained, trained.subwords, tmp_path, "--remove-bpe", *buffered)[0], expected)
    commands.assert_same(
        interactive(trained, trained.lines, tmp_path, *trained.bpe, *buffered, f"--input-parses={trained.parses}")[0],
        expected,
    )
    model = commands.hub(trained)
    texts = [text for _, (_, text) in sorted(expected.items())]
    assert model.translate(trained.lines, beam=2, max_len_b=20) == texts
    assert model.translate(trained.lines[0], beam=2, max_len_b=20) == texts[0]
    found = model.generate(model.read(trained.lines), beam=2, max_len_b=20)
    for n, hypotheses in enumerate(found):
        assert hypotheses[0]["score"].item() / torch.log(torch.tensor(2.0)).item() == pytest.approx(
            expected[n][0], abs=1e-4
        )


def test_controls_hold_for_new_text(trained, plain_data_bin, tmp_path):
    new_text = trained.lines, tmp_path, *trained.bpe
    noisy = commands.copy(plain_data_bin, tmp_path / "noisy")
    commands.binarize(trained.parses.parent, noisy, "--control=noise:50@2")
    expected = commands.generate_scored(noisy, trained.checkpoint)
    assert expected != commands.generate_scored(trained.data, trained.checkpoint)
    commands.assert_same(interactive(replaced(trained, noisy), *new_text)[0], expected)
    # The same without a parser's model: trees of the parser "control".
    made = commands.copy(plain_data_bin, tmp_path / "made")
    (tmp_path / "bpe").symlink_to(trained.bpe_text)
    for name in ("train", "valid", "test"):
        text = shutil.copy(trained.parses.parent / f"{name}.src", tmp_path / f"{name}.src")
        syntax_data.commands.parse.main(["--input", str(text), "--parser=control", "--control=random@3"])
    commands.binarize(tmp_path, made)
    binarize.main(["-s", "src", "-t", "tgt", "--verify", "--destdir", str(made)])
    expected = commands.generate_scored(made, trained.checkpoint)
    commands.assert_same(interactive(replaced(trained, made), *new_text)[0], expected)
    # Other sentences are none for new text.
    commands.binarize(tmp_path, made, "--control=shuffled")
    binarize.main(["-s", "src", "-t", "tgt", "--verify", "--destdir", str(made)])
    assert commands.generate_scored(made, trained.checkpoint) != expected
    with pytest.raises(ValueError, match=r"binarize it as a test split with this control.*fairseq-generate"):
        interactive(replaced(trained, made), *new_text)


def replaced(trained, data: Path) -> SimpleNamespace:
    """The model with another data-bin."""
    return SimpleNamespace(**{**vars(trained), "data": data})


def test_without_parses_it_is_a_plain_transformer_and_says_so_once(trained, plain_data_bin, tmp_path):
    found, printed = interactive(trained, trained.lines, tmp_path, *trained.bpe, "--parser=none", "--buffer-size=5")
    assert printed.count("plain Transformer") == 1
    data = commands.copy(plain_data_bin, tmp_path / "data")
    (tmp_path / "none.src.trees").write_text("(()) unknown\n" * len(trained.lines))
    (tmp_path / "none.src.conllu").write_text("# no_parse = unknown\n\n" * len(trained.lines))
    text = f"--testpref={trained.bpe_text}/test", f"--testparse={tmp_path}/none"
    binarize.main(["-s", "src", "-t", "tgt", *text, "--destdir", str(data)])
    commands.assert_same(found, commands.generate_scored(data, trained.checkpoint))
    parsed = commands.generate_scored(trained.data, trained.checkpoint)
    assert max(abs(found[n][0] - parsed[n][0]) for n in found) > 1e-2


def two_parses(line: str, folder: Path, order: str) -> None:
    """Side files for a line that comes several times, under a flat tree and star (f) or a deep one and chain (d)."""
    words = line.split()
    flat = f"(S {' '.join(f'(X {word})' for word in words)})\n"
    deep = "".join(f"(S (X {word}) " for word in words[:-1]) + f"(X {words[-1]})" + ")" * (len(words) - 1) + "\n"
    chain = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{i - 1}\t_\t_\t_\n" for i, w in enumerate(words, start=1)) + "\n"
    star = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{int(i > 1)}\t_\t_\t_\n" for i, w in enumerate(words, start=1)) + "\n"
    (folder / "side.src.trees").write_text("".join({"f": flat, "d": deep}[which] for which in order))
    (folder / "side.src.conllu").write_text("".join({"f": star, "d": chain}[which] for which in order))


def test_the_same_line_with_two_parses_has_two_translations(trained, tmp_path):
    number = max(range(len(trained.lines)), key=lambda n: len(trained.lines[n].split()))
    lines = [trained.lines[number]] * 4
    two_parses(lines[0], tmp_path, "fddf")
    (tmp_path / "bpe.src").write_text(f"{trained.subwords[number]}\n" * 4)
    data = commands.binarize_source(tmp_path / "bpe", tmp_path / "side", trained.data, tmp_path / "data")
    side = f"--input-parses={tmp_path / 'side.src'}"
    for found in (
        interactive(trained, lines, tmp_path, *trained.bpe, side)[0],
        interactive(trained, lines, tmp_path, *trained.bpe, side, "--buffer-size=3", "--batch-size=2")[0],
        commands.generate_scored(data, trained.checkpoint, more=("--num-workers=2", "--batch-size=2")),
    ):
        scores = [found[n][0] for n in range(4)]
        assert scores[0] == pytest.approx(scores[3], abs=1e-4)
        assert scores[1] == pytest.approx(scores[2], abs=1e-4)
        assert abs(scores[0] - scores[1]) > 1e-3


def test_every_kind_of_line_gets_its_translation_or_a_message(trained, tmp_path, capsys):
    good = trained.lines[0]
    long, tokens = " ".join(["x"] * 2000), " ".join(trained.lines[1].split() * 60)
    lines = [good, "", long, f"FAIL {good}", "日本 ☃ \U0001f600", "! ? , .", good, "x", tokens, "   "]
    more = (*trained.bpe, "--buffer-size=10", "--batch-size=3")
    found, printed = interactive(trained, lines, tmp_path, *more, status=PARSER_FAILED)
    assert sorted(found) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    commands.assert_same({0: found[6]}, {0: found[0]})
    assert "line 3 is not translated: 2001 subwords with </s>, expected at most 1024" in printed
    assert "line 4 has no parse (conllu, trees): told to fail" in printed
    assert "line 9 has no parse (conllu, trees): more than 250 tokens or 10000 characters are not parsed" in printed
    assert printed.count("has no parse") == 3  # of lines 3, 4 and 9
    assert capsys.readouterr().err == (
        "fairseq-interactive: 2 of 10 lines were translated without a parse (failed: 1, too_long: 1); "
        "1 of 10 lines was not translated (too long for the model)\n"
    )
    alone, _ = interactive(trained, [good, ""], tmp_path, *trained.bpe)
    commands.assert_same({0: found[0]}, {0: alone[0]})
    assert capsys.readouterr().err == ""
    _, printed = interactive(trained, ["<pad> the </s>"], tmp_path, "--remove-bpe")  # subwords
    assert "line 1: <pad>, </s> is taken for an unknown word" in printed


@pytest.mark.parametrize("lines", [["good", "x " * 60, "good"], ["x " * 60]])
def test_a_line_longer_than_a_batch_is_not_the_end(trained, tmp_path, lines):
    lines = [line.replace("good", trained.lines[0]) for line in lines]
    found, printed = interactive(trained, lines, tmp_path, *trained.bpe, "--max-tokens=50", "--buffer-size=3")
    assert sorted(found) == [n for n, line in enumerate(lines) if line == trained.lines[0]]
    assert f"line {len(lines) // 2 + 1} is not translated" in printed


def test_side_files_that_do_not_fit(trained, tmp_path, caplog):
    for kind in ("trees", "conllu"):
        shutil.copy(f"{trained.parses}.{kind}", tmp_path / f"side.{kind}")
    side = (*trained.bpe, f"--input-parses={tmp_path / 'side'}")
    with pytest.raises(InputError, match=r"side\.\w+:\d+: expected 23 parses, one for each line of .*, found more"):
        interactive(trained, trained.lines[1:], tmp_path, *side)
    with pytest.raises(InputError, match=r"side\.trees:1: line 1 of the input: expected the same text"):
        interactive(trained, trained.lines[::-1], tmp_path, *side)
    with pytest.raises(InputError, match=r"expected a parse for every line of .*, found only 24"):
        interactive(trained, [*trained.lines, "one more"], tmp_path, *side)
    with pytest.raises(InputError, match=r"elsewhere\.\w+: expected the parses of the input"):
        interactive(trained, trained.lines, tmp_path, f"--input-parses={tmp_path / 'elsewhere'}")
    with pytest.raises(ValueError, match="expected --input-parses or --parser, found both"):
        interactive(trained, trained.lines, tmp_path, *side, "--parser=fake")


def test_bad_parses_of_side_files_are_an_error_or_skipped(trained, tmp_path, capsys):
    trees = Path(f"{trained.parses}.trees").read_text().splitlines(keepends=True)
    units = Path(f"{trained.parses}.conllu").read_text().split("\n\n")
    trees[1] = trees[1].replace(")", "", 1)
    units[3] = units[3].replace("\t1\t", "\t0\t", 1)
    trees[5] = "(S other)\n"
    (tmp_path / "side.trees").write_text("".join(trees))
    (tmp_path / "side.conllu").write_text("\n\n".join(units))
    expected = commands.generate_scored(trained.data, trained.checkpoint)
    options = *trained.bpe, f"--input-parses={tmp_path / 'side'}"
    with pytest.raises(InputError, match=r"side\.trees:2: expected .*--on-bad-parse skip"):
        interactive(trained, trained.lines, tmp_path, *options)
    found, printed = interactive(trained, trained.lines, tmp_path, *options, "--on-bad-parse=skip", "--buffer-size=4")
    good = {n: text for n, text in expected.items() if n not in (1, 3, 5)}
    commands.assert_same({n: found[n] for n in good}, good)
    assert found.keys() == expected.keys()
    for said in (
        r"2 has no parse \(trees\)",
        r"4 has no parse \(conllu\): .*expected one",
        r"6 has no parse \(trees\): ",
    ):
        assert re.search(f"line {said}", printed)
    total = f"3 of {len(trained.lines)} lines were translated without a parse"
    assert f"{total} (unbalanced: 1, several_roots: 1, mismatch: 1)" in capsys.readouterr().err
    model = commands.hub(trained, input_parses=str(tmp_path / "side"), on_bad_parse="skip")
    assert model.read(trained.lines[:4]).without_parse == {"unbalanced": 1, "several_roots": 1}
    model = commands.hub(trained, input_parses=str(tmp_path / "side"))
    with pytest.raises(InputError, match="--on-bad-parse skip"):
        model.translate(trained.lines[:2])


def pipe(monkeypatch, lines: list[str]) -> tuple[str]:
    """Lines that come from standard input: options of fairseq-interactive."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return ("--input=-",)


def test_side_files_beside_a_pipe(trained, tmp_path, monkeypatch):
    side = (*trained.bpe, f"--input-parses={trained.parses}")
    whole, _ = interactive(trained, trained.lines, tmp_path, *side, *pipe(monkeypatch, trained.lines))
    third = sum(len(line.split()) + 1 for line in trained.lines[:2]) + 1
    left = "fairseq-interactive: error: {}.conllu:{}: expected the end, after a parse for each of the {} lines of the "
    for size in ("1", "2", "7"):
        given = (*side, *pipe(monkeypatch, trained.lines[:2]), f"--buffer-size={size}")
        status = f"{left.format(trained.parses, third, 2)}input, found more"
        found, _ = interactive(trained, [], tmp_path, *given, status=status)
        commands.assert_same(found, {n: whole[n] for n in (0, 1)})
    status = f"{left.format(trained.parses, 1, 0)}input, found more"
    interactive(trained, [], tmp_path, *side, *pipe(monkeypatch, []), status=status)
    with pytest.raises(InputError, match=f"found none for line {len(trained.lines) + 1}"):
        interactive(trained, [], tmp_path, *side, *pipe(monkeypatch, [*trained.lines, "one more"]))
    interactive(trained, [], tmp_path, *side, *pipe(monkeypatch, trained.lines))  # what went before is forgotten


class OneKind(Parser):
    """Only one of the two kinds of the fake parser."""

    pretokenized = True

    def __init__(self, kind: str):
        self.kinds = (kind,)
        self.fake = FakeParser(0.0)

    @classmethod
    def from_arguments(cls, args):
        raise NotImplementedError

    def describe(self):
        return {"name": self.kinds[0]}

    def parse(self, lines):
        return [Parse(**{f: getattr(p, f)}) if isinstance(p, Parse) else p for p in self.fake.parse(lines)
                for f in ("dependencies" if self.kinds == ("conllu",) else "trees",)]  # fmt: skip


def test_each_kind_may_have_a_parser_of_its_own(trained):
    lines = trained.lines[:5]
    both = ParsesFromParser([ParserHandle(FakeParser(0.0), ("trees", "conllu"), {"max_tokens": 250})])
    each = [ParserHandle(OneKind(kind), (kind,), {"max_tokens": 250}) for kind in ("trees", "conllu")]
    found = [
        SourceReader(source, Settings("words"), ["distance", "head", "word"], {}).read(lines, lines, small.dictionary())
        for source in (both, ParsesFromParser(each), ParsesFromParser(each[::-1]))
    ]
    for other in found[1:]:
        for name, rows in found[0].features.items():
            assert [row.tolist() for row in other.features[name]] == [row.tolist() for row in rows]
    assert all(len(row) for row in found[0].features["head"])


def test_a_parse_of_another_text_is_a_failure_of_the_parser(trained, tmp_path, monkeypatch, capsys):
    parse = FakeParser.parse
    monkeypatch.setattr(FakeParser, "check", lambda self, line, found: None)
    monkeypatch.setattr(
        FakeParser, "parse", lambda self, lines: parse(self, [Line(n.number, n.text.replace("the", "")) for n in lines])
    )
    _, printed = interactive(trained, trained.lines[:2], tmp_path, *trained.bpe, status=PARSER_FAILED)
    assert "line 1 has no parse (trees): expected the same text" in printed
    assert "2 of 2 lines were translated without a parse (mismatch: 2)" in capsys.readouterr().err


def test_a_parser_that_has_no_parse_is_not_a_failure(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(FakeParser, "parse", lambda self, lines: [NoParse("{odd}")] * len(lines))
    _, printed = interactive(trained, trained.lines[:3], tmp_path, *trained.bpe)
    assert printed.count("has no parse (conllu, trees): {odd}") == 3
    assert "3 of 3 lines were translated without a parse ({odd}: 3)" in capsys.readouterr().err


def test_a_parser_that_dies_midway_shows_in_the_exit_status(trained):
    lines = [*trained.lines[:5], *["FAIL"] * 12]
    options = [str(trained.data), *commands.USER_DIR, f"--path={trained.checkpoint}", "--cpu", "--beam=2"]
    ended = subprocess.run(
        ["fairseq-interactive", *options, "--max-len-b=20", "--buffer-size=4", *trained.bpe],
        input="".join(f"{line}\n" for line in lines), capture_output=True, text=True,
    )  # fmt: skip
    assert sorted(commands.scored(ended.stdout, "D")) == list(range(len(lines)))
    assert "Traceback" not in ended.stderr
    last = "fairseq-interactive: 12 of 17 lines were translated without a parse (failed: 12)"
    assert (ended.stderr.splitlines()[-1], ended.returncode) == (last, PARSER_FAILED)


def test_a_parser_that_fails_on_ten_lines_before_it_parsed_one_ends_the_run(trained, tmp_path, monkeypatch):
    asked = []
    parse = FakeParser.parse
    monkeypatch.setattr(FakeParser, "parse", lambda self, lines: asked.extend(lines) or parse(self, lines))
    good, bad = trained.lines[0], "FAIL"
    options = *trained.bpe, "--buffer-size=100", "--max-len-b=1", "--max-len-a=0"
    message = "the parser fake failed on {} lines and parsed none, for the reasons above"
    interactive(trained, [*[bad] * 9, "", good, bad], tmp_path, *options, status=PARSER_FAILED)
    lines = ["", *[bad] * 5, "", *[bad] * 5, *[good] * 5]
    asked.clear()
    with pytest.raises(RuntimeError, match=message.format(10)):
        interactive(trained, lines, tmp_path, *options)
    assert max(line.number for line in asked) == len([line for line in lines if line != good])
    model = commands.hub(trained)
    with pytest.raises(RuntimeError, match=message.format(10)):
        model.translate([*[bad] * 10, good])
    with pytest.raises(RuntimeError, match=message.format(11)):
        model.translate(bad)
    assert model.translate([good, bad], max_len_b=2)
    assert len(model.translate([bad] * 12, max_len_b=2)) == 12


def test_an_error_of_the_parser_comes_before_the_first_line_is_read(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # nobody reads it
    for option, message in (("--parser=nobody", "found 'nobody'"), ("--input-parses=elsewhere", "elsewhere")):
        with pytest.raises(ValueError, match=message):
            interactive(trained, [], tmp_path, *trained.bpe, "--input=-", option)


@pytest.mark.parametrize("marks", ["subword_nmt", "sentencepiece", "words"])
def test_new_text_has_the_features_that_the_binarizer_makes(corpus, tmp_path, marks):
    text = shutil.copy(corpus / "test.src", tmp_path / "test.src")
    lines = (corpus / "test.src").read_text().splitlines()
    syntax_data.commands.parse.main(["--input", str(text), "--parser", "fake"])
    if marks == "sentencepiece":
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(tmp_path / "spm"), vocab_size=45, minloglevel=2
        )
        model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
        encoded = [" ".join(model.encode(line, out_type=str)) for line in lines]
    else:
        encoded = lines if marks == "words" else (corpus / "bpe/test.src").read_text().splitlines()
    (tmp_path / "bpe.src").write_text("".join(f"{line}\n" for line in encoded))
    prefixes = [f"--testpref={tmp_path}/bpe", f"--destdir={tmp_path}/data"]
    commands.preprocess_tokens(f"--trainpref={tmp_path}/bpe", *prefixes, "--only-source")
    binarize.main(["-s", "src", "-t", "tgt", "--subwords", marks, f"--testparse={tmp_path}/test", *prefixes])
    files = {name: f"{tmp_path}/data/test.src-tgt.src.{name}" for name in FEATURES}
    made = {name: indexed_dataset.make_dataset(path, "mmap") for name, path in files.items()}
    cfg = SyntaxTranslationConfig(data=f"{tmp_path}/data", source_lang="src", target_lang="tgt")
    for given in (lines, encoded):
        reader = source_reader(cfg, FEATURES)
        reader.read(given[:1], encoded[:1], small.dictionary())  # until it has parsed one, it gets ten lines at most
        reader.restart()
        found = reader.read(given, encoded, small.dictionary())
        for name, dataset in made.items():
            assert [row.tolist() for row in found.features[name]] == [row.tolist() for row in dataset], name
        assert found.lengths == [len(line.split()) + 1 for line in encoded]


def test_the_parser_of_new_text_does_not_see_symbols(corpus, trained, tmp_path, monkeypatch):
    """And their features are those that the binarizer makes."""
    seen = []
    parse = FakeParser.parse
    monkeypatch.setattr(
        FakeParser, "parse", lambda self, lines: seen.extend(x.text for x in lines) or parse(self, lines)
    )
    tagged = {}
    (tmp_path / "bpe").mkdir()
    for name in ("train", "valid", "test"):
        lines = (corpus / f"bpe/{name}.src").read_text().splitlines()
        tagged[name] = [f"<2de> {line} <num>" for line in lines]
        (tmp_path / f"bpe/{name}.src").write_text("".join(f"{line}\n" for line in tagged[name]))
        for path in trained.parses.parent.glob(f"{name}.src*"):
            shutil.copy(path, tmp_path)
    data = commands.preprocess(tmp_path, tmp_path / "data", "--only-source", syntax=("--symbols=<2*>,<num>",))
    made = {f: indexed_dataset.make_dataset(f"{data}/test.src-tgt.src.{f}", "mmap") for f in FEATURES}
    for pretokenized in (True, False):
        monkeypatch.setattr(FakeParser, "pretokenized", pretokenized)
        reader = source_reader(SyntaxTranslationConfig(data=str(data), source_lang="src", target_lang="tgt"), FEATURES)
        given = [f"<2de> {line} <num>" for line in trained.lines[:6]]
        found = reader.read(given, tagged["test"][:6], small.dictionary())
        assert not found.without_parse
        for name in ("word", "distance", "head", "upos", "case", "position"):  # the relation says which call it was
            assert [row.tolist() for row in found.features[name]] == [made[name][i].tolist() for i in range(6)], name
    assert seen == trained.lines[:6] * 2


def test_lexical_constraints(trained, tmp_path):
    line = trained.lines[0]
    expected = commands.generate_scored(trained.data, trained.checkpoint)
    word = next(w for w in (trained.lines[1]).split())
    found, printed = interactive(
        trained, [f"{line}\t{word}", line], tmp_path, *trained.bpe, "--constraints", "--buffer-size=2"
    )
    assert "C-0\t" in printed
    assert sorted(found) == [0, 1]
    assert found[1][1] == expected[0][1]


def test_unknown_words_are_those_that_their_tokens_look_at():
    tokens = torch.tensor([[1, 1, 5, 6, 2], [7, 8, 9, 5, 2]])
    attention = torch.zeros(2, 5, 3)
    for row, looked_at in enumerate([[3, 2, 4], [0, 3, 1]]):
        attention[row, looked_at, range(3)] = 1
    hypotheses = [[{"attention": a, "alignment": torch.empty(0)}] for a in attention]
    unknown_words.align(hypotheses, tokens, pad=1)
    assert [h["alignment"].tolist() for (h,) in hypotheses] == [[1, 0, 2], [0, 3, 1]]


def test_unknown_words_are_replaced(trained, tmp_path):
    table = tmp_path / "table"
    table.write_text("the zuz\n")
    found, _ = interactive(
        trained, trained.lines[:4], tmp_path, "--unkpen=-100", f"--replace-unk={table}", "--buffer-size=4"
    )
    for n, line in enumerate(trained.lines[:4]):
        assert set(found[n][1].split()) <= {"zuz", "<eos>", "<unk>", *line.split()} - {"the"}
        assert set(found[n][1].split()) - {"<unk>"}
    for more in (trained.bpe, ("--print-alignment",)):
        with pytest.raises(ValueError, match="--replace-unk: expected neither --remove-bpe nor --print-alignment"):
            interactive(trained, trained.lines[:1], tmp_path, f"--replace-unk={table}", *more)


@pytest.fixture
def broken_parser(tmp_path_factory, monkeypatch) -> None:
    """Someone else's parser is installed, whose package cannot be imported."""
    site = tmp_path_factory.mktemp("broken")
    info = site / "broken_parser-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-parser\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fairseq_syntax.parsers]\nbroken = broken_parser:Parser\n")
    (site / "broken_parser.py").write_text("raise OSError('libparser.so: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("broken_parser")
def test_a_broken_parser_breaks_nothing_but_itself(trained, tmp_path):
    expected = commands.generate_scored(trained.data, trained.checkpoint)
    commands.assert_same(interactive(trained, trained.lines, tmp_path, *trained.bpe)[0], expected)
    known = r"\(broken, control, fake, spacy, stanza, udpipe\)"
    with pytest.raises(ValueError, match=rf"can be run here {known} .*, found 'nobody'"):
        interactive(trained, [], tmp_path, *trained.bpe, "--parser=nobody")
    with pytest.raises(ValueError, match=r"the parser broken .*cannot be loaded: OSError\('libparser\.so: cannot open"):
        interactive(trained, [], tmp_path, *trained.bpe, "--parser=broken")


def test_a_stock_model_needs_no_parser(plain_data_bin, trained, tmp_path):
    commands.train(plain_data_bin, tmp_path / "run", "--max-update=1", model=commands.STOCK)
    found, printed = commands.interactive(
        trained.lines[:3], plain_data_bin, tmp_path / "run/checkpoint_last.pt", folder=tmp_path, more=trained.bpe
    )
    assert len(found) == 3
    assert "parser" not in printed.replace("'parser", "").replace("input_parses", "")


def test_python_interface_refuses_what_it_cannot_translate(trained):
    model = commands.hub(trained)
    good = trained.lines[0]
    with pytest.raises(ValueError, match="sentence 2: expected at most 1024 subwords with </s>, found 2001"):
        model.translate([good, " ".join(["x"] * 2000)])
    with pytest.raises(ValueError, match="token ids have none"):
        model.generate([torch.tensor([4, 5, 2])])
    for wrong, message in (
        (good.encode(), "expected a string or strings, found bytes"),
        (None, "expected a string or strings, found NoneType"),
        (7, "expected a string or strings, found int"),
        ([good, None], "sentence 2: expected a string, found NoneType"),
        ((good.encode(), good), "sentence 1: expected a string, found bytes"),
        ([[good]], "sentence 1: expected a string, found list"),
    ):
        for call in (model.translate, model.sample, model.read):
            with pytest.raises(TypeError, match=message):
                call(wrong)
    for wrong in ("a\nb", "a\rb", "a\r\nb", "\nb", "a\n\n", "a\r\n\n", "a\n\r"):
        with pytest.raises(ValueError, match="sentence 2: expected one line of text, found a line break"):
            model.translate([good, wrong])
    with pytest.raises(ValueError, match="sentence 1: expected one line"):
        model.translate("a\nb")
    with pytest.raises(TypeError, match="bem: there is no such option of generation"):
        model.translate(good, bem=3)


def test_python_interface_takes_strings_of_any_kind(trained, tmp_path):
    model = commands.hub(trained)
    expected = model.translate(trained.lines[:3], max_len_b=20)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in trained.lines[:3]))
    with open(tmp_path / "text") as file:  # lines with their ends
        assert model.translate(file, max_len_b=20) == expected
    assert model.translate((line for line in trained.lines[:3]), max_len_b=20) == expected
    assert model.translate(tuple(f"  {line}\r\n" for line in trained.lines[:3]), max_len_b=20) == expected
    assert model.translate(trained.lines[0], max_len_b=20) == expected[0]
    assert [ids.tolist() for ids in model.read(trained.lines[0]).tokens] == [
        model.read(trained.lines[:1]).tokens[0].tolist()
    ]
    assert model.translate([]) == []
    assert model.translate(iter([])) == []
    assert len(model.translate(["", trained.lines[0]], max_len_b=20)) == 2


def test_white_space_that_ends_no_line_stands_between_words(trained, tmp_path):
    lines = [space.join(trained.lines[0].split()) for space in "\x0b\x0c\x1c\x1d\x1e\x85\xa0\u2028\u2029"]
    found, _ = interactive(trained, lines, tmp_path, *trained.bpe)
    translations = commands.hub(trained).translate(lines, beam=2, max_len_b=20)
    assert translations == [text for _, (_, text) in sorted(found.items())]
    assert len(translations) == len(lines)


def test_parts_of_a_batch_are_translated_with_their_own_parses(trained):
    model = commands.hub(trained)
    batch = model.read(trained.lines)
    assert batch.without_parse == {}
    whole = model.generate(batch, beam=2, max_len_b=20)
    found = [model.generate(part, beam=2, max_len_b=20, verbose=True) for part in (batch[:3], batch[3:])]
    scores = [[hypotheses[0]["score"].item() for hypotheses in run] for run in (whole, found[0] + found[1])]
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)
    with pytest.raises(ValueError, match="token ids have none"):
        model.generate(batch.tokens)


def test_analysis_leaves_the_model_as_it_was(trained):
    model = commands.hub(trained)
    tokens = model.read(trained.lines[:3])
    attentions = model.models[0].syntax_attentions.values()
    before = [attention.implementation for attention in attentions]
    found = model.analyse(tokens)
    assert [attention.implementation for attention in attentions] == before == ["auto", "auto"]
    assert [set(arrays) for arrays in found] == [{"gates", "masks", "attention"}] * 3
    assert [set(arrays) for arrays in model.analyse(tokens, ("gates",))] == [{"gates"}] * 3
    for arrays, ids in zip(found, tokens.tokens, strict=True):
        assert arrays["attention"].shape == (2, 4, len(ids), len(ids))


def test_an_ensemble_of_a_stock_and_two_syntax_models(trained, plain_data_bin, tmp_path):
    commands.train(trained.data, tmp_path / "stock", "--max-update=2", model=commands.STOCK)
    commands.train(trained.data, tmp_path / "sdoi", "--max-update=2", "--syntax-masks=sdoi")
    paths = [trained.checkpoint, *(tmp_path / name / "checkpoint_last.pt" for name in ("stock", "sdoi"))]
    expected = commands.generate_scored(trained.data, *paths)
    found, _ = commands.interactive(
        trained.lines, trained.data, *paths, folder=tmp_path, more=(*trained.bpe, "--buffer-size=9", "--batch-size=4")
    )
    commands.assert_same(found, expected)
    folder = Path(*paths[0].parts[:-1])
    model = SyntaxTransformerModel.from_pretrained(
        str(folder.parent), ":".join(str(p) for p in paths), str(trained.data), bpe="subword_nmt",
        bpe_codes=str(trained.codes),
    )  # fmt: skip
    assert model.translate(trained.lines, beam=2, max_len_b=20) == [expected[n][1] for n in sorted(expected)]
