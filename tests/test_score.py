"""fairseq-syntax-score gives what sacreBLEU gives for the text that people would read."""

from __future__ import annotations

import json
from random import Random

import pytest
import sacrebleu

from fairseq_syntax import score

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
    assert found["restored"] == "remove-bpe:subword_nmt|detokenize:de"
    plain = run(capsys, "--hypotheses", text(tmp_path / "plain.de", read), "--references", references)
    assert [v["score"] for s in plain["scores"].values() for v in s.values()] == list(expected.values())


def test_sentencepiece_is_undone(tmp_path, references, capsys):
    pieces = ["▁" + line.replace(" ", " ▁") for line in REFERENCES]
    hypotheses = log(tmp_path / "gen.log", pieces)
    found = run(capsys, "--hypotheses", hypotheses, "--references", references, "--remove-bpe", "sentencepiece")
    assert found["scores"][str(hypotheses)]["BLEU"]["score"] == pytest.approx(100)


def test_options_say_what_counts(tmp_path, references, capsys):
    hypotheses = text(tmp_path / "x", [line.upper() for line in REFERENCES])
    arguments = "--hypotheses", hypotheses, "--references", references, references
    cased = run(capsys, *arguments, "--ter-case-sensitive", "--tokenize", "intl")["scores"][str(hypotheses)]
    lowered = run(capsys, *arguments, "--lowercase")["scores"][str(hypotheses)]
    assert cased["BLEU"]["score"] < 50 < 99 < lowered["BLEU"]["score"]
    assert cased["TER"]["score"] > 50 > lowered["TER"]["score"]
    assert "nrefs:2|case:mixed|eff:no|tok:intl" in cased["BLEU"]["signature"]
    assert "case:lc" in lowered["chrF2"]["signature"]


def test_a_baseline_brings_sacrebleus_own_tests(tmp_path, capsys):
    random = Random(1)
    words = [f"wort{i}" for i in range(50)]
    lines = [" ".join(random.choices(words, k=12)) for _ in range(60)]

    def worse(share):
        return [" ".join(w if random.random() > share else "falsch" for w in line.split()) for line in lines]

    references = text(tmp_path / "ref", lines)
    systems = {"base": worse(0.5), "like": worse(0.5), "better": worse(0.1)}
    paths = [text(tmp_path / name, x) for name, x in systems.items()]
    arguments = ["--hypotheses", *paths[1:], "--references", references, "--baseline", paths[0], "--paired-ar-n", 500]
    found = run(capsys, *arguments)
    assert set(found["tests"]) == {"paired bootstrap resampling", "paired approximate randomisation"}
    for test in found["tests"].values():
        assert set(test) == {"BLEU", "chrF2", "TER"}
        for metric in test.values():
            assert metric["p"][str(paths[2])] < 0.01
    randomised = found["tests"]["paired approximate randomisation"]["BLEU"]
    assert randomised["p"][str(paths[1])] > 0.05
    assert "ar:500" in randomised["signature"]
    assert "bs:1000" in found["tests"]["paired bootstrap resampling"]["BLEU"]["signature"]
    score.main([*map(str, arguments)])
    printed = capsys.readouterr().out
    assert f"{paths[0]} (baseline)" in printed
    assert "paired approximate randomisation, p of no difference" in printed
    assert "translations: remove-bpe:no|detokenize:no" in printed


def test_nbest_lists_and_progress_bars(tmp_path, references, capsys):
    lines = [f"H-{n}\t-{k}\t{line if k == 1 else 'x'}" for n, line in enumerate(REFERENCES) for k in (1, 2)]
    path = tmp_path / "gen.log"
    path.write_text("\r 10%|█| 1/2\r".join(f"\n{line}\n" for line in lines), encoding="utf-8")
    score.main(["--format", "json", "--hypotheses", str(path), "--references", str(references)])
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scores"][str(path)]["BLEU"]["score"] == pytest.approx(100)
    assert "took the first of 10 hypotheses of 5 sentences" in captured.err


def test_what_is_left_of_the_models_text_is_mentioned(tmp_path, references, capsys):
    path = text(tmp_path / "x", [subwords(line) for line in TOKENISED])
    score.main(["--hypotheses", str(path), "--references", str(references)])
    said = capsys.readouterr().err
    assert "5 translations have '@@ ' in them (--remove-bpe subword_nmt?)" in said
    assert "2 translations have escapes of Moses in them (--detokenize LANG?)" in said


def test_what_cannot_be_scored_is_refused_and_nothing_is_written(tmp_path, references):
    hole = log(tmp_path / "hole.log", TOKENISED, order=[0, 1, 4])
    with pytest.raises(SystemExit, match=r"hole\.log: expected a translation .* 2 are missing: 2, 3"):
        score.main(["--hypotheses", str(hole), "--references", str(references)])
    short = text(tmp_path / "short", REFERENCES[:3])
    output = "--output", str(tmp_path / "out")
    with pytest.raises(SystemExit, match=r"short: expected 5 sentences as in .*, found 3"):
        score.main(["--hypotheses", str(short), "--references", str(references), *output])
    with pytest.raises(SystemExit, match=r"short: expected 5 sentences"):
        score.main(["--hypotheses", str(references), "--references", str(references), str(short), *output])
    broken = tmp_path / "broken"
    broken.write_bytes(b"gut\n\xff\n")
    with pytest.raises(SystemExit, match=r"broken:2: "):
        score.main(["--hypotheses", str(broken), "--references", str(references), *output])
    with pytest.raises(SystemExit, match="nowhere"):
        score.main(["--hypotheses", str(tmp_path / "nowhere"), "--references", str(references), *output])
    broken.write_bytes(b"H-0\t-1\tgut\nH-1\t-1\t\xff\n")
    with pytest.raises(SystemExit, match=r"broken: H-1: expected UTF-8"):
        score.main(["--hypotheses", str(broken), "--references", str(references), *output])
    assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit, match=r"expected the folder .* to write to"):
        score.main(["--hypotheses", str(references), "--references", str(references), "--output", f"{tmp_path}/no/x"])
