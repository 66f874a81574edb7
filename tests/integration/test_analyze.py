"""fairseq-syntax-analyze: from files to a page."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from browser import browser
from syntax_experiments.plots.analyze import main

ENDINGS = {".svg", ".png", ".csv"}
SOURCE = ["the dog barks", "a man who sleeps sees the dog", "he sings and dances", "the price is $5 and $6"] * 3
REFERENCES = [
    "der Hund bellt laut",
    "ein Mann , der schläft , sieht den Hund",
    "er singt und tanzt gern",
    "es kostet 5 $",
] * 3
WORSE = ["der Hund bellt", "ein Mann , der schlief , sieht den Hund", "er singt und tanzt", "es kostet 6 $ oder so"] * 3
TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
    "(S (NP (NP (DT a) (NN man)) (SBAR (WP who) (VP (VBZ sleeps)))) (VP (VBZ sees) (NP (DT the) (NN dog))))",
    "(()) no parser",
    "(S (NP (DT the) (NN price)) (VP (VBZ is) (NP (NP ($ $5)) (CC and) (NP ($ $6)))))",
] * 3
DEPENDENCIES = [
    [("the", "DET", 2, "det"), ("dog", "NOUN", 3, "nsubj"), ("barks", "VERB", 0, "root")],
    [("a", "DET", 2, "det"), ("man", "NOUN", 5, "nsubj"), ("who", "PRON", 4, "nsubj"),
     ("sleeps", "VERB", 2, "acl:relcl"), ("sees", "VERB", 0, "root"), ("the", "DET", 7, "det"),
     ("dog", "NOUN", 5, "obj")],
    [("he", "PRON", 2, "nsubj"), ("sings", "VERB", 0, "root"), ("and", "CCONJ", 4, "cc"),
     ("dances", "VERB", 2, "conj")],
    [("the", "DET", 2, "det"), ("price", "NOUN", 4, "nsubj"), ("is", "AUX", 4, "cop"), ("$5", "NUM", 0, "root"),
     ("and", "CCONJ", 6, "cc"), ("$6", "NUM", 4, "conj")],
] * 3  # fmt: skip


def train_log(*losses: float, gate: float | None = None, heads: dict[str, list[float]] | None = None) -> str:
    gates = "" if gate is None else f"gate_slr_l1 {gate} | gate_slr_l2 {gate / 2} | "
    before = "2026-01-01 10:00:00 | INFO | valid | "
    return "".join(
        (f"{before}gates on 'valid' subset | num_updates {100 * k} | {json.dumps(heads)}\n" if heads else "")
        + f"{before}epoch {k:03d} | valid on 'valid' subset | loss {loss} | {gates}ppl 7 | num_updates {100 * k}\n"
        for k, loss in enumerate(losses, start=1)
    )


def generate_log(texts: list[str]) -> str:
    return "".join(f"S-{i}\tx\nT-{i}\ty\nH-{i}\t-0.5\t{text}\nP-{i}\t-0.5\n" for i, text in enumerate(texts))


def write_dump(path: Path, masks: list[str]) -> None:
    rng = np.random.default_rng(1)
    arrays = {"layers": np.array([1, 2]), "masks": np.array(masks)}
    if len(masks) > 1:
        arrays["biases"] = np.array(["position_bias"])
    for i, line in enumerate(SOURCE):
        tokens = [*line.split(), "</s>"]
        scores = rng.random((2, 2, len(tokens), len(tokens))).astype(np.float32)
        arrays[f"{i}/tokens"] = np.array(tokens)
        arrays[f"{i}/gates"] = np.full((2, len(masks), 2), 0.25, dtype=np.float32)
        arrays[f"{i}/masks"] = np.tile(np.eye(len(tokens), dtype=np.float32), (len(masks), 1, 1))
        if len(masks) > 1:
            arrays[f"{i}/biases"] = scores[:, None] - np.float32(0.5)
        arrays[f"{i}/attention"] = scores / scores.sum(-1, keepdims=True)
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    """A folder of what the command reads."""
    folder = tmp_path_factory.mktemp("given")
    texts = {
        "stock.log": train_log(6, 5, 4.5),
        "slr.1.log": train_log(6, 4.8, 4.2, gate=0.5, heads={"gate_slr_l1": [0.6, 0.4], "gate_slr_l2": [0, 0.5]}),
        "slr.2.log": train_log(5, 4.4, 4.0, gate=0.7),
        "stock.gen": generate_log(WORSE),
        "slr.1.gen": generate_log(REFERENCES),
        "slr.2.gen": generate_log(WORSE),
        "ref.de": "".join(f"{line}\n" for line in REFERENCES),
        "test.en": "".join(f"{line}\n" for line in SOURCE),
        "test.en.trees": "".join(f"{line}\n" for line in TREES),
        "test.en.conllu": "".join(
            "".join(f"{i}\t{w}\t_\t{u}\t_\t_\t{h}\t{r}\t_\t_\n" for i, (w, u, h, r) in enumerate(rows, start=1)) + "\n"
            for rows in DEPENDENCIES
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_dump(folder / "slr.npz", ["slr"])
    write_dump(folder / "both.npz", ["slr", "sdoi"])
    (folder / "record").mkdir()
    (folder / "record/test.txt").write_text("".join(f"{line}\n" for line in WORSE), encoding="utf-8")
    epochs = [{"epoch": k, "updates": 100 * k, "valid_loss": 7 - k, "gates": {"gate_slr_l1": 0.1}} for k in (1, 2, 3)]
    record = {"system": "recorded", "seed": 1, "epochs": epochs, "tests": ["test"]}
    (folder / "record/run.json").write_text(json.dumps(record))
    return folder


def arguments(given: Path, output: Path) -> list[str]:
    """Everything at once."""
    return [
        f"--output={output}", "--title=Mein <Titel>", f"--log=stock={given}/stock.log", f"--log=slr={given}/slr.1.log",
        f"--log=slr={given}/slr.2.log", f"--run={given}/record", f"--hypotheses=stock={given}/stock.gen",
        f"--hypotheses=slr={given}/slr.1.gen", f"--hypotheses=slr={given}/slr.2.gen", f"--references={given}/ref.de",
        f"--source={given}/test.en", f"--parses={given}/test.en", "--min-sentences=3", f"--dump=slr={given}/slr.npz",
        f"--dump=slr & sdoi={given}/both.npz", "--sentence=1", "--sentence=3",
        "--sweep", "parser noise (%)", "slr", "10", f"{given}/slr.2.gen",
        "--sweep", "parser noise (%)", "slr", "0", f"{given}/slr.1.gen",
        "--sweep", "parser noise (%)", "stock", "-", f"{given}/stock.gen",
        "--sweep", "location", "slr", "1-2", f"{given}/record",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def page(given) -> Path:
    folder = given / "out" / "page"
    main(arguments(given, folder))
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


PICTURES = [
    "learning-curves", "gates-at-end", "gates-over-training", "gates-of-heads-3-slr",
    "score-by-length", "score-by-height", "score-by-depth", "score-by-clauses",
    "sweep-1-parser-noise", "sweep-2-location",
    "sentence-1-constituents", "sentence-1-dependencies", "sentence-1-attention",
    "sentence-1-heads-1-slr", "sentence-1-heads-2-slr-sdoi",
    "sentence-3-constituents", "sentence-3-dependencies", "sentence-3-attention",
    "sentence-3-heads-1-slr", "sentence-3-heads-2-slr-sdoi",
]  # fmt: skip


def test_the_page_has_every_picture_and_nothing_else_is_there(page):
    html = (page / "index.html").read_text(encoding="utf-8")
    assert "Mein &lt;Titel&gt;" in html
    assert re.findall(r'<section id="(.*?)"', html) == PICTURES
    linked = set(re.findall(r'(?:src|href)="([^#"][^"]*)"', html))
    assert linked == {name + ending for name in PICTURES for ending in ENDINGS}
    assert {path.name for path in page.iterdir()} == {*linked, "index.html"}
    assert [path.name for path in page.parent.iterdir()] == ["page"]
    assert "://" not in html.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("learning-curves", ["updates", "validation loss (bits a target token)", "stock", "slr", "recorded"]),
        ("gates-at-end", ["layer", "head", "gate (weight of the mask)", "slr & sdoi: sdoi", "0.25"]),
        ("gates-over-training", ["updates", "layer 1", "layer 2", "slr: slr"]),
        ("gates-of-heads-3-slr", ["updates", "gate", "layer 1: slr", "layer 2: slr", "head 1", "head 2", "mean"]),
        ("score-by-length", ["BLEU (0–100)", "chrF2 (0–100)", "source length (words); n: sentences", "n=3"]),
        ("score-by-clauses", ["clauses; n: sentences"]),
        ("sweep-1-parser-noise", ["parser noise (%)", "0", "10"]),
        ("sweep-2-location", ["location", "1-2"]),
        ("sentence-1-constituents", ["SBAR", "sleeps"]),
        ("sentence-1-dependencies", ["acl:relcl", "sleeps", "root"]),
        (
            "sentence-3-attention",
            [
                "query",
                "key",
                "attention weight",
                "slr: mask slr",
                "learned bias (added to scores)",
                "$5",
                "</s>",
            ],
        ),
        ("sentence-3-heads-1-slr", ["head 2", "query", "key"]),
    ],
)
def test_text_of_pictures_is_text(page, name, labels):
    svg = ElementTree.parse(page / f"{name}.svg")
    texts = ["".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    texts += [line for text in texts for line in text.split("\n")]
    assert not [label for label in labels if label not in texts]


def test_pictures_are_small(page):
    sizes = {path.name: path.stat().st_size for path in page.glob("*.svg")}
    assert max(sizes.values()) < 150_000, sizes
    assert all((page / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in PICTURES)


def test_the_numbers_are_those_of_the_inputs(page):
    curves = rows(page / "learning-curves.csv")
    assert [(r["system"], r["updates"], float(r["mean"]), r["seeds"]) for r in curves] == [
        ("recorded", "100", 6, "1"), ("recorded", "200", 5, "1"), ("recorded", "300", 4, "1"),
        ("stock", "100", 6, "1"), ("stock", "200", 5, "1"), ("stock", "300", 4.5, "1"),
        ("slr", "100", 5.5, "2"), ("slr", "200", 4.6, "2"), ("slr", "300", 4.1, "2"),
    ]  # fmt: skip
    gates = {(r["system"], r["mask"], r["layer"], r["head"]): float(r["mean"]) for r in rows(page / "gates-at-end.csv")}
    assert gates == {
        **{("slr", "slr", layer, head): 0.25 for layer in "12" for head in "12"},
        **{("slr & sdoi", mask, layer, head): 0.25 for mask in ("slr", "sdoi") for layer in "12" for head in "12"},
        ("recorded", "slr", "1", "0"): 0.1,
    }
    training = rows(page / "gates-over-training.csv")
    assert [float(r["mean"]) for r in training if (r["system"], r["layer"]) == ("slr", "2")] == [0.3, 0.3, 0.3]
    heads = rows(page / "gates-of-heads-3-slr.csv")
    assert sorted((r["updates"], r["layer"], r["head"], float(r["gate"])) for r in heads) == [
        (updates, layer, head, gate)
        for updates in ("100", "200", "300")
        for layer, gates in (("1", (0.5, 0.6, 0.4)), ("2", (0.25, 0, 0.5)))
        for head, gate in zip("012", gates, strict=True)
    ]
    assert "Of run 1 of 2." in (page / "index.html").read_text(encoding="utf-8")


def test_scores_are_those_of_the_bins(page):
    bins = {r["bin"]: int(r["sentences"]) for r in rows(page / "score-by-clauses.csv")}
    assert bins == {"1": 6, "2": 6}
    chosen = [i for i in range(12) if i % 4 in (1, 2)]
    found = {r["metric"]: r for r in rows(page / "score-by-clauses.csv") if (r["bin"], r["system"]) == ("2", "slr")}
    for metric, name in ((BLEU(), "BLEU"), (CHRF(), "chrF2")):
        low = metric.corpus_score([WORSE[i] for i in chosen], [[REFERENCES[i] for i in chosen]]).score
        assert float(found[name]["low"]) == pytest.approx(low, rel=1e-5)
        assert float(found[name]["high"]) == pytest.approx(100)
    heights = rows(page / "score-by-height.csv")
    assert sum(int(r["sentences"]) for r in heights if (r["system"], r["metric"]) == ("slr", "BLEU")) == 9
    assert "3 of 12 sentences are in no bin" in (page / "index.html").read_text(encoding="utf-8")
    noise = {
        (r["system"], r["value"]): float(r["mean"])
        for r in rows(page / "sweep-1-parser-noise.csv")
        if r["metric"] == "BLEU"
    }
    worse = BLEU().corpus_score(WORSE, [REFERENCES]).score
    assert noise == {
        ("slr", "0"): pytest.approx(100), ("slr", "10"): pytest.approx(worse, rel=1e-5),
        ("stock", ""): pytest.approx(worse, rel=1e-5),
    }  # fmt: skip


def test_the_same_inputs_give_the_same_bytes_and_take_the_pages_place(given, page):
    before = {path.name: path.read_bytes() for path in page.iterdir()}
    (page / "old.svg").write_text("of an earlier page")
    main(arguments(given, page))
    assert {path.name: path.read_bytes() for path in page.iterdir()} == before
    assert [path.name for path in page.parent.iterdir()] == ["page"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "nothing can be drawn: expected --log"),
        (["--log=x={given}/ref.de"], "ref.de: expected a log of fairseq-train with validations of 'valid', found none"),
        (["--log=x={given}/stock.log", "--log=x={given}/stock.log"], "--log: expected each seed once"),
        (["--hypotheses=x={given}/stock.gen"], "--hypotheses: expected --references with it"),
        (["--hypotheses=x={given}/stock.gen", "--references={given}/ref.de"], "expected --source or --parses with it"),
        (["--references={given}/ref.de"], "--references: expected --hypotheses, --sweep or --run with it"),
        (["--sentence=0"], "--sentence: expected --dump or --parses with it"),
        (["--sentence=12", "--parses={given}/test.en"], "--sentence: expected 0 to 11, as there are parses, found 12"),
        (["--sentence=12", "--dump=x={given}/slr.npz"], "slr.npz: expected sentence 12, found 0 to 11"),
        (["--parses={given}/none", "--sentence=0"], "none: expected .*none.trees or .*none.conllu, found neither"),
        (["--dump=x={given}/ref.de"], "ref.de: expected a file of fairseq-syntax-dump, found no .npz archive"),
        (["--run={given}"], "run.json"),
        (["--run={given}/record", "--references={given}/ref.de", "--source={given}/test.en", "--test=x"],
         "record: expected the test set 'x', found test"),
        (["--run={given}/record", "--references={given}/test.en.conllu", "--source={given}/test.en"],
         "test.txt: expected 72 translations as in .*test.en.conllu, found 12"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_and_nothing_is_left(given, tmp_path, asked, message):
    (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit, match=f"^fairseq-syntax-analyze: error: .*{message}"):
        main([f"--output={tmp_path}/out/page", *(word.format(given=given) for word in asked)])
    assert not list((tmp_path / "out").iterdir())


def test_a_broken_parse_is_an_error_or_skipped(given, tmp_path, capsys):
    for kind in ("trees", "conllu"):
        (tmp_path / f"x.{kind}").write_text((given / f"test.en.{kind}").read_text(), encoding="utf-8")
    with (tmp_path / "x.trees").open("a") as trees:
        trees.write("(S broken\n")
    command = [f"--output={tmp_path}/page", "--sentence=1", f"--parses={tmp_path}/x"]
    with pytest.raises(SystemExit, match=r"x\.trees:13: expected 1 more '\)'.*--on-bad-parse skip"):
        main(command)
    main([*command, "--on-bad-parse=skip"])
    told = capsys.readouterr().err
    assert f"skipped (unbalanced): {tmp_path}/x.trees:13: expected 1 more" in told
    assert f"{tmp_path}/x.trees: 4 of 13 sentences have no parse" in told


def test_no_folder_of_another_kind_is_replaced(given, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.csv").write_text("1")
    (tmp_path / "index.html").write_text("a file")
    for output, found in (("mine", r"no index\.html beside notes\.csv"), ("index.html", "a file or a link")):
        with pytest.raises(SystemExit, match=f"{output}: expected .*, found {found}"):
            main([f"--output={tmp_path}/{output}", f"--log=x={given}/stock.log"])
    assert (tmp_path / "mine/notes.csv").read_text() == "1"


@pytest.mark.parametrize("name", ["jinja2", "matplotlib", "nltk"])
def test_a_package_that_is_missing_is_named(given, tmp_path, name):
    program = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "from syntax_experiments.plots.analyze import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, f"--output={tmp_path}/page", "--sentence=1"]
    command.append(f"--parses={given}/test.en")
    done = subprocess.run(command, capture_output=True, text=True)
    expected = f"fairseq-syntax-analyze: error: {name} is not installed: pip install jinja2 matplotlib nltk"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, expected)


def test_the_page_in_a_browser(page):
    with browser() as opened_browser:
        for width, scheme, paper in ((1200, "light", "rgb(255, 255, 255)"), (390, "dark", "rgb(23, 25, 29)")):
            opened = opened_browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            problems: list[object] = []
            for event in ("requestfailed", "pageerror"):
                opened.on(event, lambda problem: problems.append(problem))  # noqa: B023
            opened.goto(page.joinpath("index.html").as_uri(), wait_until="load")
            sizes = opened.evaluate("[...document.images].map(image => image.naturalWidth)")
            assert len(sizes) == len(PICTURES)
            assert min(sizes) > 200
            assert opened.evaluate("document.documentElement.scrollWidth") == width
            assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == paper
            opened.goto(page.joinpath("learning-curves.svg").as_uri(), wait_until="load")
            shown = "getComputedStyle(document.querySelector('#paper path')).fill"
            assert opened.evaluate(shown) == paper
            assert not problems
