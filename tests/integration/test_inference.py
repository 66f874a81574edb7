"""fairseq-interactive and from_pretrained translate as a data-bin is translated."""

from __future__ import annotations

import io
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
from fairseq_syntax.inference.new_text import PARSER_FAILED
from fairseq_syntax.inference.parse_sources import ParserHandle, ParsesFromParser
from fairseq_syntax.inference.reader import SourceReader, source_reader
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig
from fake_parser import FakeParser
from syntax_data.errors import InputError
from syntax_data.features import FEATURES
from syntax_data.features.aligned import Settings
from syntax_data.parsers import Line, Parse
from syntax_data.trees.tree import NoParse, Tree

pytestmark = pytest.mark.usefixtures("fake_parser")

SEARCH = {"beam": 2, "max_len_b": 20}


@pytest.fixture(scope="module")
def expected(trained) -> dict[int, tuple[float, str]]:
    """Scores and translations of the test set by fairseq-generate."""
    return commands.generate_scored(trained.data, trained.checkpoint)


@pytest.fixture(scope="module")
def hub(trained):
    """The model in Python; the first test that parses loads its parser."""
    return commands.hub(trained)


def interactive(trained, lines, tmp_path, *more, status=0):
    return commands.interactive(lines, trained.data, trained.checkpoint, folder=tmp_path, more=more, status=status)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def test_all_ways_give_the_same_translations(trained, expected, hub, tmp_path):
    assert len(expected) == len(trained.lines)
    buffered = ("--buffer-size=7", "--batch-size=4")
    for lines, more in (
        (trained.lines, trained.bpe),
        (trained.subwords, ("--remove-bpe",)),
        (trained.lines, (*trained.bpe, f"--input-parses={trained.parses}")),
    ):
        commands.assert_same(interactive(trained, lines, tmp_path, *more, *buffered)[0], expected)
    texts = [text for _, (_, text) in sorted(expected.items())]
    assert hub.translate(trained.lines, **SEARCH) == texts
    assert hub.translate(trained.lines[0], **SEARCH) == texts[0]
    batch = hub.read(trained.lines)
    assert batch.without_parse == {}
    scores = [score for _, (score, _) in sorted(expected.items())]
    for parts in ((batch,), (batch[:3], batch[3:])):
        found = [hypotheses[0]["score"].item() for part in parts for hypotheses in hub.generate(part, **SEARCH)]
        assert torch.tensor(found).div(torch.tensor(2.0).log()).tolist() == pytest.approx(scores, abs=1e-4)
    assert hub.generate(batch[:1], verbose=True)
    for tokens in (batch.tokens, list(batch), [torch.tensor([4, 5, 2])]):
        with pytest.raises(ValueError, match="token ids have none"):
            hub.generate(tokens)


def test_controls_hold_for_new_text(trained, expected, plain_data_bin, tmp_path):
    noisy = commands.copy(plain_data_bin, tmp_path / "noisy")
    commands.binarize(trained.parses.parent, noisy, "--control=noise:50@2")
    # The same without a parser's model: trees of the parser "control".
    made = commands.copy(plain_data_bin, tmp_path / "made")
    (tmp_path / "bpe").symlink_to(trained.bpe_text)
    for name in ("train", "valid", "test"):
        text = shutil.copy(trained.parses.parent / f"{name}.src", tmp_path / f"{name}.src")
        syntax_data.commands.parse.main(["--input", str(text), "--parser=control", "--control=random@3"])
    commands.binarize(tmp_path, made)
    for data in (noisy, made):
        translations = commands.generate_scored(data, trained.checkpoint)
        assert translations != expected
        controlled = SimpleNamespace(**{**vars(trained), "data": data})
        commands.assert_same(interactive(controlled, trained.lines, tmp_path, *trained.bpe)[0], translations)


def test_without_parses_it_is_a_plain_transformer_and_says_so_once(trained, expected, plain_data_bin, tmp_path):
    found, printed = interactive(trained, trained.lines, tmp_path, *trained.bpe, "--parser=none", "--buffer-size=5")
    assert printed.count("plain Transformer") == 1
    data = commands.copy(plain_data_bin, tmp_path / "data")
    write(tmp_path / "none.src.trees", ["(()) unknown"] * len(trained.lines))
    write(tmp_path / "none.src.conllu", ["# no_parse = unknown\n"] * len(trained.lines))
    commands.binarize_parses(f"--testpref={trained.bpe_text}/test", f"--testparse={tmp_path}/none", f"--destdir={data}")
    commands.assert_same(found, commands.generate_scored(data, trained.checkpoint))
    assert max(abs(found[n][0] - expected[n][0]) for n in found) > 1e-2


def test_the_same_line_with_two_parses_has_two_translations(trained, corpus, tmp_path):
    number = max(range(len(trained.lines)), key=lambda n: len(trained.lines[n].split()))
    lines = [trained.lines[number]] * 4
    for kind, end in (("trees", "\n"), ("conllu", "\n\n")):
        files = f"{trained.parses}.{kind}", f"{corpus}/test.src.{kind}"
        fake, own = (Path(file).read_text().split(end)[number] + end for file in files)
        (tmp_path / f"side.src.{kind}").write_text(fake + own + own + fake)
    write(tmp_path / "bpe.src", [trained.subwords[number]] * 4)
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
        assert abs(scores[0] - scores[1]) > 5e-4


def test_every_kind_of_line_gets_its_translation_or_a_message(trained, tmp_path, capsys):
    good = trained.lines[0]
    long, tokens = " ".join(["x"] * 2000), " ".join(["the"] * 251)
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
        "fairseq-interactive: 2 of 10 lines translated without a parse (failed: 1, too_long: 1); "
        "1 of 10 lines not translated (too long for the model)\n"
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


def test_side_files_that_do_not_fit(trained, tmp_path):
    for kind in ("trees", "conllu"):
        shutil.copy(f"{trained.parses}.{kind}", tmp_path / f"side.{kind}")
    for lines, name, more, message in (
        (trained.lines[1:], "side", (), r"side\.\w+:\d+: expected 23 parses, one for each line of .*, found more"),
        (trained.lines[::-1], "side", (), r"side\.trees:1: line 1 of the input: expected the same text"),
        ([*trained.lines, "one"], "side", (), r"expected a parse for every line of .*, found only 24"),
        (trained.lines, "elsewhere", (), r"elsewhere\.\w+: expected the parses of the input"),
        (trained.lines, "side", ("--parser=fake",), "expected --input-parses or --parser, found both"),
    ):
        with pytest.raises(ValueError, match=message):
            interactive(trained, lines, tmp_path, *trained.bpe, f"--input-parses={tmp_path / name}", *more)


def test_bad_parses_of_side_files_are_an_error_or_skipped(trained, expected, tmp_path, capsys):
    trees = Path(f"{trained.parses}.trees").read_text().splitlines()
    entries = Path(f"{trained.parses}.conllu").read_text().split("\n\n")
    trees[1] = trees[1].replace(")", "", 1)
    entries[3] = entries[3].replace("\t1\t", "\t0\t", 1)
    trees[5] = "(S other)"
    write(tmp_path / "side.trees", trees)
    (tmp_path / "side.conllu").write_text("\n\n".join(entries))
    options = *trained.bpe, f"--input-parses={tmp_path / 'side'}"
    with pytest.raises(InputError, match=r"side\.trees:2: expected .*--on-bad-parse skip"):
        interactive(trained, trained.lines, tmp_path, *options)
    found, printed = interactive(trained, trained.lines, tmp_path, *options, "--on-bad-parse=skip", "--buffer-size=4")
    commands.assert_same(
        {n: one for n, one in found.items() if n not in (1, 3, 5)},
        {n: one for n, one in expected.items() if n not in (1, 3, 5)},
    )
    for line, kind in ((2, "trees"), (4, "conllu"), (6, "trees")):
        assert f"line {line} has no parse ({kind}): " in printed
    total = f"3 of {len(trained.lines)} lines translated without a parse"
    assert f"{total} (unbalanced: 1, several_roots: 1, mismatch: 1)" in capsys.readouterr().err
    model = commands.hub(trained, input_parses=str(tmp_path / "side"), on_bad_parse="skip")
    assert model.read(trained.lines[:4]).without_parse == {"unbalanced": 1, "several_roots": 1}


@pytest.mark.nightly
def test_side_files_beside_a_pipe(trained, expected, tmp_path, monkeypatch):
    def piped(lines: list[str], *more: str, status: object = 0) -> dict[int, tuple[float, str]]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        side = (*trained.bpe, f"--input-parses={trained.parses}", "--input=-", *more)
        return interactive(trained, [], tmp_path, *side, status=status)[0]

    commands.assert_same(piped(trained.lines), expected)
    third = sum(len(line.split()) + 1 for line in trained.lines[:2]) + 1
    for size in (0, 2):  # what went before is forgotten
        status = (
            f"fairseq-interactive: error: {trained.parses}.conllu:{third if size else 1}: expected the end, after a "
            f"parse for each of the {size} lines of the input, found more"
        )
        found = piped(trained.lines[:size], "--buffer-size=7", status=status)
        commands.assert_same(found, {n: expected[n] for n in range(size)})
    with pytest.raises(InputError, match=f"found none for line {len(trained.lines) + 1}"):
        piped([*trained.lines, "one more"])


def test_each_kind_may_have_a_parser_of_its_own(trained):
    lines, fake, limits = trained.lines[:5], FakeParser(0.0), {"max_tokens": 250}
    both = [ParserHandle(fake, ("trees", "conllu"), limits)]
    each = [ParserHandle(fake, (kind,), limits) for kind in ("trees", "conllu")]
    found = [
        SourceReader(ParsesFromParser(parsers), Settings("words"), ["distance", "head"], {})
        .read(lines, lines, small.dictionary())
        .features
        for parsers in (both, each, each[::-1])
    ]
    for other in found:
        for name, rows in found[0].items():
            assert all(map(torch.equal, other[name], rows))
            assert all(map(len, rows))


def test_another_parse_is_a_failure_of_the_parser_and_none_is_not(trained, tmp_path, monkeypatch, capsys):
    parse = FakeParser.parse
    monkeypatch.setattr(FakeParser, "check", lambda self, line, found: None)
    monkeypatch.setattr(
        FakeParser, "parse", lambda self, lines: parse(self, [Line(n.number, n.text.replace("the", "")) for n in lines])
    )
    _, printed = interactive(trained, trained.lines[:2], tmp_path, *trained.bpe, status=PARSER_FAILED)
    assert "line 1 has no parse (trees): expected the same text" in printed
    assert "2 of 2 lines translated without a parse (mismatch: 2)" in capsys.readouterr().err
    monkeypatch.setattr(FakeParser, "parse", lambda self, lines: [NoParse("{odd}")] * len(lines))
    _, printed = interactive(trained, trained.lines[:3], tmp_path, *trained.bpe)
    assert printed.count("has no parse (conllu, trees): {odd}") == 3
    assert "3 of 3 lines translated without a parse ({odd}: 3)" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_parser_that_dies_midway_shows_in_the_exit_status(trained):
    lines = [*trained.lines[:5], *["FAIL"] * 12]
    options = [str(trained.data), *commands.USER_DIR, f"--path={trained.checkpoint}", "--cpu", "--beam=2"]
    ended = subprocess.run(
        ["fairseq-interactive", *options, "--max-len-b=20", "--buffer-size=4", *trained.bpe],
        input="".join(f"{line}\n" for line in lines), capture_output=True, text=True,
    )  # fmt: skip
    assert sorted(commands.scored(ended.stdout, "D")) == list(range(len(lines)))
    assert "Traceback" not in ended.stderr
    last = "fairseq-interactive: 12 of 17 lines translated without a parse (failed: 12)"
    assert (ended.stderr.splitlines()[-1], ended.returncode) == (last, PARSER_FAILED)


def test_a_parser_that_fails_on_ten_lines_before_it_parsed_one_ends_the_run(trained, tmp_path):
    good, bad = trained.lines[0], "FAIL"
    options = *trained.bpe, "--buffer-size=5", "--max-len-b=1", "--max-len-a=0"
    interactive(trained, [*[bad] * 9, "", good, bad], tmp_path, *options, status=PARSER_FAILED)
    message = "the parser fake failed on {} lines and parsed none, for the reasons above"
    with pytest.raises(RuntimeError, match=message.format(10)):
        interactive(trained, [*[bad] * 10, *[good] * 5], tmp_path, *options)
    model = commands.hub(trained)
    for lines, failed in (([bad] * 10, 10), ([bad], 11)):
        with pytest.raises(RuntimeError, match=message.format(failed)):
            model.translate(lines)
    assert model.translate([good, bad], max_len_b=2)
    assert len(model.translate([bad] * 12, max_len_b=2)) == 12


def test_an_error_of_the_parser_comes_before_the_first_line_is_read(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # nobody reads it
    for option, message in (
        ("--parser=nobody", r"run here \(control, .*, found 'nobody'"),
        ("--input-parses=elsewhere", "elsewhere"),
    ):
        with pytest.raises(ValueError, match=message):
            interactive(trained, [], tmp_path, *trained.bpe, "--input=-", option)


def below_two_more(line, parse: Parse) -> Parse:
    """The parse with two constituents above its tree, so that there is a category of each level."""
    return Parse(dependencies=parse.dependencies, trees=[Tree("TOP", [Tree("SENT", parse.trees)])])


@pytest.mark.parametrize(
    ("marks", "symbols"), [("subword_nmt", ""), ("subword_nmt", "<2de> {} <num>"), ("sentencepiece", ""), ("words", "")]
)
def test_new_text_has_the_features_that_the_binarizer_makes(corpus, tmp_path, monkeypatch, marks, symbols):
    seen = []
    parse = FakeParser.parse
    monkeypatch.setattr(FakeParser, "parse", lambda self, given: seen.extend(given) or parse(self, given))
    monkeypatch.setattr(FakeParser, "hook", staticmethod(below_two_more))
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
    raw = [(symbols or "{}").format(line) for line in lines]
    encoded = [(symbols or "{}").format(line) for line in encoded]
    write(tmp_path / "bpe.src", encoded)
    prefixes = [f"--testpref={tmp_path}/bpe", f"--destdir={tmp_path}/data"]
    commands.preprocess_tokens(f"--trainpref={tmp_path}/bpe", *prefixes, "--only-source")
    commands.binarize_parses(f"--subwords={marks}", f"--testparse={tmp_path}/test", "--symbols=<2*>,<num>", *prefixes)
    files = {name: f"{tmp_path}/data/test.src-tgt.src.{name}" for name in FEATURES}
    made = {name: indexed_dataset.make_dataset(path, "mmap") for name, path in files.items()}
    cfg = SyntaxTranslationConfig(data=f"{tmp_path}/data", source_lang="src", target_lang="tgt")
    for pretokenized, given in ((True, raw), (False, raw), (True, encoded)):
        monkeypatch.setattr(FakeParser, "pretokenized", pretokenized)
        seen.clear()
        found = source_reader(cfg, FEATURES).read(given, encoded, small.dictionary())
        for name, dataset in made.items():
            assert [row.tolist() for row in found.features[name]] == [row.tolist() for row in dataset], name
        assert found.lengths == [len(line.split()) + 1 for line in encoded]
        assert [line.text for line in seen] == lines


def test_lexical_constraints(trained, expected, tmp_path):
    lines = [f"{trained.lines[0]}\t{trained.lines[1].split()[0]}", trained.lines[0]]
    found, printed = interactive(trained, lines, tmp_path, *trained.bpe, "--constraints", "--buffer-size=2")
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


def test_python_interface_refuses_what_it_cannot_translate(trained, hub):
    good = trained.lines[0]
    for wrong, message in (
        (None, "NoneType"),
        (good.encode(), "sentence 1: expected a string, found int"),
        ([good, None], "sentence 2: expected a string, found NoneType"),
    ):
        for call in (hub.translate, hub.sample, hub.read):
            with pytest.raises(TypeError, match=message):
                call(wrong)
    for wrong in ("a\nb", "a\rb", "a\r\nb", "\nb", "a\n\n", "a\r\n\n", "a\n\r"):
        with pytest.raises(ValueError, match="sentence 2: expected one line of text, found a line break"):
            hub.translate([good, wrong])
    with pytest.raises(ValueError, match="sentence 2: expected at most 1024 subwords with </s>, found 2001"):
        hub.translate([good, " ".join(["x"] * 2000)])
    with pytest.raises(TypeError, match="bem: there is no such option of generation"):
        hub.translate(good, bem=3)


def test_python_interface_takes_strings_of_any_kind(trained, hub, tmp_path):
    lines = trained.lines[:3]
    expected = hub.translate(lines, max_len_b=20)
    write(tmp_path / "text", lines)
    with open(tmp_path / "text") as file:  # lines with their ends
        assert hub.translate(file, max_len_b=20) == expected
    for given in ((line for line in lines), tuple(f"  {line}\r\n" for line in lines)):
        assert hub.translate(given, max_len_b=20) == expected
    assert torch.equal(hub.read(lines[0]).tokens[0], hub.read(lines[:1]).tokens[0])
    assert hub.translate([]) == []
    assert len(hub.translate(["", lines[0]], max_len_b=20)) == 2


def test_white_space_that_ends_no_line_stands_between_words(trained, hub, tmp_path):
    lines = [space.join(trained.lines[0].split()) for space in "\x0b\x0c\x1c\x1d\x1e\x85\xa0\u2028\u2029"]
    found, _ = interactive(trained, lines, tmp_path, *trained.bpe)
    assert hub.translate(lines, **SEARCH) == [found[n][1] for n in range(len(lines))]


def test_analysis_leaves_the_model_as_it_was(trained, hub):
    tokens = hub.read(trained.lines[:3])
    attentions = hub.models[0].syntax_attentions.values()
    before = [attention.implementation for attention in attentions]
    found = hub.analyse(tokens)
    assert [attention.implementation for attention in attentions] == before == ["auto", "auto"]
    assert [set(arrays) for arrays in found] == [{"gates", "masks", "attention"}] * 3
    assert [set(arrays) for arrays in hub.analyse(tokens, ("gates",))] == [{"gates"}] * 3
    for arrays, ids in zip(found, tokens.tokens, strict=True):
        assert arrays["attention"].shape == (2, 4, len(ids), len(ids))


@pytest.mark.nightly
def test_an_ensemble_of_a_stock_and_two_syntax_models(trained, tmp_path):
    commands.train(trained.data, tmp_path / "stock", "--max-update=2", model=commands.STOCK)
    commands.train(trained.data, tmp_path / "sdoi", "--max-update=2", "--syntax-masks=sdoi")
    stock = tmp_path / "stock/checkpoint_last.pt"
    paths = [stock, trained.checkpoint, tmp_path / "sdoi/checkpoint_last.pt"]
    together = commands.generate_scored(trained.data, *paths)
    more = *trained.bpe, "--buffer-size=9", "--batch-size=4"
    found, _ = commands.interactive(trained.lines, trained.data, *paths, folder=tmp_path, more=more)
    commands.assert_same(found, together)
    bpe = {"bpe": "subword_nmt", "bpe_codes": str(trained.codes)}
    for chosen, translations in ((paths, together), ([stock], commands.generate_scored(trained.data, stock))):
        name = ":".join(map(str, chosen))
        model = SyntaxTransformerModel.from_pretrained(str(tmp_path), name, str(trained.data), **bpe)
        assert model.translate(trained.lines, **SEARCH) == [translations[n][1] for n in sorted(translations)]
    # A stock model alone needs no parser.
    found, printed = commands.interactive(trained.lines[:3], trained.data, stock, folder=tmp_path, more=trained.bpe)
    assert len(found) == 3
    assert "parser" not in printed.replace("'parser", "").replace("input_parses", "")
