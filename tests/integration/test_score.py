"""fairseq-syntax-score gives sacreBLEU's scores of detokenised text."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import hypothesis
import pytest
import sacrebleu
from fairseq.data.data_utils import post_process
from hypothesis import strategies as st

from syntax_data.commands import score
from syntax_data.scoring.translations import join_subwords

REFERENCES = [
    "Der Hund, der bellt, läuft nach Hause.",
    'Peters Freund sagte: "Komm!"',
    "Ein Mann & eine Frau gehen.",
    "Das kostet 3,5 Euro (ungefähr).",
    "Zwei Kinder spielen im Garten.",
]
TOKENISED = [
    "Der Hund , der bellt , läuft nach Hause .",
    "Peters Freund sagte : &quot; Komm ! &quot;",
    "Ein Mann &amp; eine Frau gehen .",
    "Das kostet 3,5 Euro ( ungefähr ) .",
    "Zwei Kinder spielen im Park .",
]


def log(path, texts, order=None):
    order = range(len(texts)) if order is None else order
    lines = [f"S-{n}\tsource\nT-{n}\ttarget\nH-{n}\t-0.5\t{texts[n]}\nD-{n}\t-0.5\tx\nP-{n}\t-1 -2" for n in order]
    path.write_text("2026 | INFO | loading\n" + "\n".join(lines) + "\nGenerate test with beam=5\n", encoding="utf-8")
    return path


def text(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def references(tmp_path):
    return text(tmp_path / "ref.de", REFERENCES)


def run(capsys, *arguments):
    score.main(["--format", "json", *map(str, arguments)])
    return json.loads(capsys.readouterr().out)


def subwords(line):
    return " ".join(f"{w[:2]}@@ {w[2:]}" if len(w) > 3 and not w.startswith("&") else w for w in line.split())


def test_a_log_out_of_order_is_scored_as_the_text_that_it_stands_for(tmp_path, references, capsys):
    hypotheses = log(tmp_path / "gen.log", [subwords(line) for line in TOKENISED], order=[3, 1, 4, 0, 2])
    options = "--remove-bpe", "subword_nmt", "--detokenize", "de", "--output", tmp_path / "out.de"
    found = run(capsys, "--hypotheses", hypotheses, "--references", references, *options)
    read = [*REFERENCES[:4], "Zwei Kinder spielen im Park."]
    assert (tmp_path / "out.de").read_text().splitlines() == read
    scores = found["scores"][str(hypotheses)]
    expected = {
        "BLEU": sacrebleu.corpus_bleu(read, [REFERENCES]).score,
        "chrF2": sacrebleu.corpus_chrf(read, [REFERENCES]).score,
        "TER": sacrebleu.corpus_ter(read, [REFERENCES]).score,
    }
    assert {name: values["score"] for name, values in scores.items()} == expected
    assert 0 < expected["BLEU"] < 100
    assert scores["BLEU"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert score.get_parser().get_default("tokenize") == sacrebleu.BLEU.TOKENIZER_DEFAULT
    assert found["restored"] == "remove-bpe:subword_nmt|detokenize:de"
    plain = run(capsys, "--hypotheses", text(tmp_path / "plain.de", read), "--references", references)
    assert [v["score"] for s in plain["scores"].values() for v in s.values()] == list(expected.values())


@pytest.mark.parametrize("kind", ["subword_nmt", "sentencepiece"])
@hypothesis.given(st.lists(st.sampled_from(["a", "@", "@@ ", " ", "▁", "\u00a0", "é"])).map("".join) | st.text())
def test_subwords_are_undone_as_fairseq_does(kind, line):
    assert join_subwords(line, kind) == post_process(line, kind)


def test_options_say_what_counts(tmp_path, references, capsys):
    hypotheses = text(tmp_path / "x", [line.upper() for line in REFERENCES])
    arguments = "--hypotheses", hypotheses, "--references", references, text(tmp_path / "second", REFERENCES)
    cased = run(capsys, *arguments, "--ter-case-sensitive", "--tokenize", "intl")["scores"][str(hypotheses)]
    lowered = run(capsys, *arguments, "--lowercase")["scores"][str(hypotheses)]
    assert cased["BLEU"]["score"] < 50 < 99 < lowered["BLEU"]["score"]
    assert cased["TER"]["score"] > 50 > lowered["TER"]["score"]
    assert "nrefs:2|case:mixed|eff:no|tok:intl" in cased["BLEU"]["signature"]
    assert "case:lc" in lowered["chrF2"]["signature"]


def test_a_baseline_brings_sacrebleus_own_tests(tmp_path, references, capsys):
    paths = [text(tmp_path / name, lines) for name, lines in (("base", TOKENISED), ("same", TOKENISED))]
    arguments = ["--hypotheses", paths[1], "--references", references, "--baseline", paths[0], "--paired-ar-n", 50]
    found = run(capsys, *arguments)["tests"]
    for name, samples in (("paired bootstrap resampling", "bs:1000"), ("paired approximate randomisation", "ar:50")):
        assert set(found[name]) == {"BLEU", "chrF2", "TER"}
        assert all(samples in of["signature"] and of["p"] == {str(paths[1]): 1} for of in found[name].values())
    score.main([*map(str, arguments)])
    printed = capsys.readouterr().out
    for words in (f"{paths[0]} (baseline)", "paired approximate randomisation, p of no difference",
                  "translations: remove-bpe:no|detokenize:no"):  # fmt: skip
        assert words in printed


def test_nbest_lists_and_progress_bars(tmp_path, references, capsys):
    lines = [f"H-{n}\t-{k}\t{line if k == 1 else 'x'}" for n, line in enumerate(REFERENCES) for k in (1, 2)]
    path = tmp_path / "gen.log"
    path.write_text("\r 10%|█| 1/2\r".join(f"\n{line}\n" for line in lines), encoding="utf-8")
    score.main(["--format", "json", "--hypotheses", str(path), "--references", str(references)])
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scores"][str(path)]["BLEU"]["score"] == pytest.approx(100)
    assert "took the first of 10 hypotheses of 5 sentences" in captured.err


def test_what_is_left_of_the_models_text_is_mentioned(tmp_path, references, capsys):
    path = log(tmp_path / "x", [*map(subwords, TOKENISED[:3]), "", ""])
    score.main(["--hypotheses", str(path), "--references", str(references)])
    printed = capsys.readouterr().err
    assert "3 translations have '@@ ' in them (--remove-bpe subword_nmt?)" in printed
    assert "2 translations have escapes of Moses in them (--detokenize LANG?)" in printed
    assert f"{path}: 2 of 5 lines are empty" in printed


def refused(references, hypotheses, *options):
    """The message where translations are not scored."""
    with pytest.raises(SystemExit) as stopped:
        score.main([*map(str, ["--hypotheses", hypotheses, "--references", references, *options])])
    assert stopped.value.code not in (None, 0)
    return str(stopped.value.code)


@pytest.mark.parametrize(
    ("content", "as_hypotheses", "as_references"),
    [
        (b"a\nb\nc\n", "expected 5 sentences as in {references}, found 3", "expected 3 sentences as in "),
        (b"gut\n\xff\n", "{path}:2: expected UTF-8", "{path}:2: expected UTF-8"),
        (b"H-0\t-1\tgut\nH-1\t-1\t\xff\n", "{path}:2: expected UTF-8", "{path}:1: expected raw text, found a line of"),
        (b"", "{path}: expected 5 sentences", "{path}: expected references, found an empty file"),
        (None, "No such file", "No such file"),
    ],
)
def test_what_cannot_be_scored_is_refused_and_nothing_is_written(
    tmp_path, references, content, as_hypotheses, as_references
):
    path, good, output = tmp_path / "x", text(tmp_path / "good", REFERENCES), tmp_path / "out"
    if content is not None:
        path.write_bytes(content)
    for given, expected in (((references, path), as_hypotheses), ((path, good), as_references)):
        assert expected.format(path=path, references=references) in refused(*given, "--output", output)
    assert not output.exists()
    assert "expected the folder" in refused(references, good, "--output", tmp_path / "no/x")


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("H-1\t-0.5\tb", "H-1\t-0.5", 9, "expected H-NUMBER, score and text"),  # what a killed run leaves
        ("P-4\t-1 -2", "H-", 26, "expected H-NUMBER, score and text"),
        ("b\nD-1\t-0.5\tx\nP-1\t-1 -2\nS-2\tsource\nT-2\ttarget", "bH-2\t-0.5\tc", 9, "expected H-NUMBER, score"),
        ("P-1\t-1 -2\nS-2\tsource\nT-2\ttarget\nH-2", "P-1\t-H-2", 11, "expected H-2 where a line begins"),
        ("H-2\t-0.5\tc", "H-2\t-0.5\tc\r 10%|█| 1/2\rd", 14, "expected a whole line H-…"),
        ("H-2\t-0.5\tc", "H-2\t-0.5\tc\0\0", 14, "expected H-NUMBER, score and text"),
        ("H-2\t-0.5\tc", "H-2\tscore\tc", 14, "expected a score after H-2, found 'score'"),
        ("H-2\t-0.5\tc\n", "", None, "expected a translation (H-…) of each of 5 sentences, 1 are missing: 2"),
        ("H-4", "H-5", 24, "expected H-0 to H-4"),
        ("H-4", "H-" + "9" * 5000, 24, "expected H-NUMBER"),
        ("H-4", "H-04", 24, "expected H-NUMBER"),
        (
            "P-4\t-1 -2",
            "H-4\t-1\tnext best\nH-1\t-1\tx",
            27,
            "expected the hypotheses of a sentence together, found H-1",
        ),
    ],
)
def test_a_log_whose_hypotheses_are_not_whole_is_refused(tmp_path, references, old, new, line, expected):
    path = log(tmp_path / "gen.log", ["a", "b", "c", "d", "e"])
    written = path.read_text()
    assert written.count(old) == 1
    path.write_bytes(written.replace(old, new).encode())
    assert f"{path}:{f'{line}:' * bool(line)} {expected}" in refused(references, path)


@pytest.mark.parametrize("kind", "STDP")
def test_a_log_without_hypotheses_is_no_text(tmp_path, references, kind):
    lines = log(tmp_path / "gen.log", TOKENISED).read_text().splitlines()
    path = text(tmp_path / "lines", ["| INFO |", *(line for line in lines if line.startswith(f"{kind}-"))])
    expected = f"{path}:2: expected a log with hypotheses (H-…), found {kind}-0 and no H-"
    assert expected in refused(references, path)


def test_a_text_may_begin_like_a_log_and_either_may_have_line_ends_of_windows(tmp_path, references, capsys):
    lines = ["H-Milch ist gut.", "D-1", *REFERENCES[2:]]
    path, as_log, out = tmp_path / "hypotheses", tmp_path / "log", tmp_path / "out"
    for lines_end in (b"\n", b"\r\n"):
        found = []
        for each in (text(path, lines), log(as_log, lines)):
            each.write_bytes(each.read_bytes().replace(b"\n", lines_end))
            scores = run(capsys, "--hypotheses", each, "--references", references, "--output", out)["scores"]
            found.append(scores[str(each)])
            assert out.read_text().splitlines() == lines
        assert found[0] == found[1]


def test_each_file_is_given_once_and_none_is_overwritten(tmp_path, references):
    good, other = (text(tmp_path / name, REFERENCES) for name in ("good", "other"))
    link = tmp_path / "link"
    os.symlink(good, link)
    for more in (["--baseline", link], ["--hypotheses", good, good], ["--references", good]):
        assert "expected each file once" in refused(references, good, *more)
    for path in (references, good, other, link):
        found = refused(references, good, "--baseline", other, "--output", path)
        assert f"{path}: expected another file to write to" in found
    for option in ("--output", "--baseline"):
        assert "''" in refused(references, good, option, "")
    assert references.read_text() == good.read_text() == other.read_text()


NUMBERS = ["0", "-5", "1.5", "100001", "9" * 5000, "٣"]


@pytest.mark.parametrize(
    ("option", "values", "expected"),
    [
        ("--tokenize", ["moses", "", "ZH"], "'13a'"),
        ("--detokenize", ["klingon", "DE", "de_DE", "tr", ""], "'de', 'el', 'en'"),
        ("--paired-bs-n", NUMBERS, "expected a number from 1 to 100000, found"),
        ("--paired-ar-n", NUMBERS, "expected a number from 1 to 100000, found"),
    ],
)
def test_invalid_values_are_refused(tmp_path, references, capsys, option, values, expected):
    good, other = (text(tmp_path / name, REFERENCES) for name in ("good", "other"))
    for value in values:
        assert refused(references, good, "--baseline", other, option, value) == "2"
        printed = capsys.readouterr().err
        assert f"{option}: " in printed
        assert expected in printed
        assert len(printed) < 2000
    if values is NUMBERS:
        assert "with --baseline only" in refused(references, good, option, "7")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_more_samples_than_memory_holds(tmp_path):
    good, other, references = (text(tmp_path / name, ["a b c d"] * 3000) for name in ("good", "other", "ref"))
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 10**9, limits[1]))
    try:
        printed = refused(references, good, "--baseline", other, "--paired-bs-n", 100000)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert "100000 samples of 3000 sentences do not fit into memory: paired bootstrap resampling" in printed


def test_chinese_is_detokenised_and_what_counts_no_words_of_it_is_mentioned(tmp_path, capsys):
    references = text(tmp_path / "ref", ["我喜欢你。", "他们在北京学中文。"])
    hypotheses = text(tmp_path / "x", ["我 喜欢 你 。", "他们 在 北京 学 中文 。"])
    arguments = ["--hypotheses", hypotheses, "--references", references, "--detokenize", "zh", "--format", "json"]
    score.main([*map(str, arguments)])
    assert "Chinese or Japanese, where '13a' finds no words (--tokenize zh" in capsys.readouterr().err
    score.main([*map(str, arguments), "--tokenize", "zh"])
    captured = capsys.readouterr()
    assert "Chinese" not in captured.err
    assert json.loads(captured.out)["scores"][str(hypotheses)]["BLEU"]["score"] == pytest.approx(100)
