"""fairseq-syntax-analyze: from files to a page."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from browser import browser
from syntax_experiments.plots.analyze import main

SOURCE = ["the dog barks", "a man who sleeps sees the dog", "he sings and dances", "the price is $5 and $6"] * 3
REFERENCES = [
    "der Hund bellt laut",
    "ein Mann , der schläft , sieht den Hund",
    "er singt und tanzt",
    "es kostet 5 $",
] * 3
WORSE = ["der Hund bellt", "ein Mann , der schlief , sieht den Hund", "er singt und", "es kostet 6 $ oder so"] * 3
TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
    "(S (NP (NP (DT a) (NN man)) (SBAR (WP who) (VP (VBZ sleeps)))) (VP (VBZ sees) (NP (DT the) (NN dog))))",
    "(()) no parser",
    "(S (NP (DT the) (NN price)) (VP (VBZ is) (NP (NP ($ $5)) (CC and) (NP ($ $6)))))",
] * 3
#: Of each word its part of speech, head and relation.
DEPENDENCIES = [
    "DET 2 det, NOUN 3 nsubj, VERB 0 root",
    "DET 2 det, NOUN 5 nsubj, PRON 4 nsubj, VERB 2 acl:relcl, VERB 0 root, DET 7 det, NOUN 5 obj",
    "PRON 2 nsubj, VERB 0 root, CCONJ 4 cc, VERB 2 conj",
    "DET 2 det, NOUN 4 nsubj, AUX 4 cop, NUM 0 root, CCONJ 6 cc, NUM 4 conj",
] * 3


def conllu(sentence: str, columns: str) -> str:
    rows = enumerate(zip(sentence.split(), columns.split(", "), strict=True), start=1)
    return "".join("{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t_\n".format(i, w, *of.split()) for i, (w, of) in rows) + "\n"


def generate_log(texts: list[str]) -> str:
    return "".join(f"S-{i}\tx\nT-{i}\ty\nH-{i}\t-0.5\t{text}\nP-{i}\t-0.5\n" for i, text in enumerate(texts))


def write_dump(path: Path, masks: list[str], biases: list[str]) -> None:
    rng = np.random.default_rng(1)
    arrays = {"layers": np.array([1, 2]), "masks": np.array(masks), "biases": np.array(biases, dtype=str)}
    for i, line in enumerate(SOURCE):
        tokens = [*line.split(), "</s>"]
        n = len(tokens)
        arrays[f"{i}/tokens"] = np.array(tokens)
        arrays[f"{i}/gates"] = np.full((2, len(masks), 2), 0.25, dtype=np.float32)
        arrays[f"{i}/masks"] = np.tile(np.eye(n, dtype=np.float32), (len(masks), 1, 1))
        arrays[f"{i}/attention"] = rng.dirichlet(np.ones(n), (2, 2, n)).astype(np.float32)
        if biases:
            arrays[f"{i}/biases"] = rng.normal(size=(2, len(biases), 2, n, n)).astype(np.float32)
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    """A folder of what the command reads."""
    folder = tmp_path_factory.mktemp("given")
    validation = "2026 | valid | epoch {0} | valid on 'valid' subset | loss 4 | gate_slr_l1 {1} | num_updates {0}\n"
    texts = {
        "logged.log": validation.format(1, 0.2) + validation.format(2, 0.1),
        "stock.gen": generate_log(WORSE),
        "slr.1.gen": generate_log(REFERENCES),
        "slr.2.gen": generate_log(WORSE),
        "ref.de": "\n".join([*REFERENCES, ""]),
        "test.en": "\n".join([*SOURCE, ""]),
        "test.en.trees": "\n".join([*TREES, ""]),
        "test.en.conllu": "".join(map(conllu, SOURCE, DEPENDENCIES)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_dump(folder / "slr.npz", ["slr"], [])
    write_dump(folder / "both.npz", ["slr", "sdoi"], ["position_bias"])
    return folder


def arguments(given: Path, output: Path) -> list[str]:
    """Everything at once."""
    return [
        f"--output={output}", "--title=Mein <Titel>", f"--log=logged={given}/logged.log",
        f"--hypotheses=stock={given}/stock.gen", f"--hypotheses=slr={given}/slr.1.gen",
        f"--hypotheses=slr={given}/slr.2.gen", f"--references={given}/ref.de", f"--source={given}/test.en",
        f"--parses={given}/test.en", "--min-sentences=3", f"--dump=slr={given}/slr.npz",
        f"--dump=slr & sdoi={given}/both.npz", "--sentence=3",
        "--sweep", "parser noise (%)", "slr", "10", f"{given}/slr.2.gen",
        "--sweep", "parser noise (%)", "slr", "0", f"{given}/slr.1.gen",
        "--sweep", "parser noise (%)", "stock", "-", f"{given}/stock.gen",
        "--sweep", "location", "slr", "1-2", f"{given}/slr.2.gen",
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
    "gates-at-end", "score-by-length", "score-by-height", "score-by-depth", "score-by-clauses",
    "sweep-1-parser-noise", "sweep-2-location",
    "sentence-3-constituents", "sentence-3-dependencies", "sentence-3-masks", "sentence-3-biases",
    "sentence-3-attention", "sentence-3-heads-1-slr", "sentence-3-heads-2-slr-sdoi",
]  # fmt: skip


def test_the_page_has_every_picture_and_nothing_else_is_there(page):
    html = (page / "index.html").read_text(encoding="utf-8")
    assert "Mein &lt;Titel&gt;" in html
    assert "3 of 12 sentences are in no bin" in html
    assert re.findall(r'<section id="(.*?)"', html) == PICTURES
    linked = set(re.findall(r'(?:src|href)="([^#"][^"]*)"', html))
    assert linked == {name + ending for name in PICTURES for ending in (".svg", ".csv")}
    assert {path.name for path in page.iterdir()} == {*linked, "index.html"}
    assert [path.name for path in page.parent.iterdir()] == ["page"]
    assert "://" not in html
    assert max(path.stat().st_size for path in page.glob("*.svg")) < 150_000


def texts_in(svg: Path) -> list[str]:
    found = ["".join(node.itertext()) for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    return [*found, *(line for text in found for line in text.split("\n"))]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("gates-at-end", ["layer", "head", "gate (weight of the bias)", "slr & sdoi: sdoi", "0.25", "all"]),
        ("score-by-length", ["BLEU (0–100)", "chrF2 (0–100)", "source length (words); n: sentences", "n=3", "slr"]),
        ("sweep-1-parser-noise", ["parser noise (%)", "0", "10"]),
        ("sweep-2-location", ["location", "1-2"]),
        ("sentence-3-constituents", ["VBZ", "price"]),
        ("sentence-3-dependencies", ["price  NOUN  nsubj", "$5  NUM  root"]),
        ("sentence-3-masks", ["query", "key", "mask (0: hidden, 1: visible)", "slr: slr", "$5", "</s>"]),
        ("sentence-3-biases", ["bias (added to scores)"]),
        ("sentence-3-heads-1-slr", ["slr: layer 1, head 2", "query", "key"]),
    ],
)
def test_text_of_pictures_is_text(page, name, labels):
    found = texts_in(page / f"{name}.svg")
    assert not [label for label in labels if label not in found]


def test_the_numbers_are_those_of_the_inputs(page):
    gates = {(r["system"], r["bias"], r["layer"], r["head"]): float(r["mean"]) for r in rows(page / "gates-at-end.csv")}
    assert gates == {
        **{("slr", "slr", layer, head): 0.25 for layer in "12" for head in "12"},
        **{("slr & sdoi", mask, layer, head): 0.25 for mask in ("slr", "sdoi") for layer in "12" for head in "12"},
        ("logged", "slr", "1", "0"): 0.1,
    }
    by_clauses = rows(page / "score-by-clauses.csv")
    assert {r["value"]: int(r["sentences"]) for r in by_clauses} == {"1": 6, "2": 6}
    chosen = [i for i in range(12) if i % 4 in (1, 2)]
    found = {r["metric"]: r for r in by_clauses if (r["value"], r["system"]) == ("2", "slr")}
    for metric, name in ((BLEU(), "BLEU"), (CHRF(), "chrF2")):
        low = metric.corpus_score([WORSE[i] for i in chosen], [[REFERENCES[i] for i in chosen]]).score
        assert float(found[name]["low"]) == pytest.approx(low, rel=1e-5)
        assert float(found[name]["high"]) == pytest.approx(100)
    by_noise = rows(page / "sweep-1-parser-noise.csv")
    noise = {(r["system"], r["value"]): float(r["mean"]) for r in by_noise if r["metric"] == "BLEU"}
    worse = pytest.approx(BLEU().corpus_score(WORSE, [REFERENCES]).score, rel=1e-5)
    assert noise == {("stock", "-"): worse, ("slr", "0"): pytest.approx(100), ("slr", "10"): worse}


def test_the_same_inputs_give_the_same_bytes_and_an_earlier_page_is_replaced(given, page):
    before = {path.name: path.read_bytes() for path in page.iterdir()}
    main(arguments(given, page))
    assert {path.name: path.read_bytes() for path in page.iterdir()} == before
    assert [path.name for path in page.parent.iterdir()] == ["page"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "nothing can be drawn: expected --dump"),
        (["--log=x={given}/ref.de"], "ref.de: expected a log of fairseq-train with validations of 'valid', found none"),
        (["--log=x={given}/logged.log", "--log=x={given}/logged.log"], "--log: expected each seed once"),
        (["--hypotheses=x={given}/stock.gen"], "--hypotheses: expected --references with it"),
        (["--hypotheses=x={given}/stock.gen", "--references={given}/ref.de"], "expected --source or --parses with it"),
        (["--references={given}/ref.de"], "--references: expected --hypotheses or --sweep with it"),
        (["--sentence=0"], "--sentence: expected --dump or --parses with it"),
        (["--sentence=12", "--parses={given}/test.en"], "--sentence: expected 0 to 11, as there are parses, found 12"),
        (["--sentence=12", "--dump=x={given}/slr.npz"], "slr.npz: expected sentence 12, found 0 to 11"),
        (["--parses={given}/none", "--sentence=0"], "none: expected .*none.trees or .*none.conllu, found neither"),
        (["--dump=x={given}/ref.de"], "ref.de: expected a file of fairseq-syntax-dump, found no .npz archive"),
        (["--hypotheses=x={given}/ref.de", "--references={given}/test.en.conllu", "--source={given}/test.en"],
         "ref.de: expected 72 translations as in .*test.en.conllu, found 12"),
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
    printed = capsys.readouterr().err
    assert f"skipped (unbalanced): {tmp_path}/x.trees:13: expected 1 more" in printed
    assert f"{tmp_path}/x.trees: 4 of 13 sentences have no parse" in printed


def test_of_long_sentences_the_first_tokens_are_drawn_as_xml(tmp_path, capsys):
    """Else a picture would take minutes; the page and a message give the numbers."""
    words = ["a\x01b", "<&>", "\x1b[31m", *(f"w{i}" for i in range(3, 400))]
    (tmp_path / "x.trees").write_text(f"(S {' '.join(words)})\n{'(X ' * 5000}a{')' * 5000}\n")
    chain = conllu(" ".join(words), ", ".join(f"X {i} x" for i in range(400)))
    (tmp_path / "x.conllu").write_text(chain + conllu("a", "X 0 x"))
    words[3] = "\ud800"  # as only a dump can have
    arrays = {"0/tokens": np.array(words), "0/attention": np.ones((1, 1, 400, 400), dtype=np.float32)}
    np.savez(tmp_path / "x.npz", layers=np.array([1]), masks=np.array([], dtype=str), **arrays)
    command = [f"--output={tmp_path}/page", f"--parses={tmp_path}/x"]
    main([*command, f"--dump=x\udcff={tmp_path}/x.npz", "--sentence=0"])
    html, printed = (tmp_path / "page/index.html").read_text(), capsys.readouterr().err
    assert html.count("Only the first 80 of 400 tokens are drawn.") == printed.count("80 of 400 tokens") == 4
    for name, other in (("constituents", "w3"), ("attention", "�")):
        found = texts_in(tmp_path / f"page/sentence-0-{name}.svg")
        assert {"a␁b", "<&>", "␛[31m", "w79", other} <= {*found}  # control characters are no part of XML
        assert "w80" not in found
    main([*command, "--sentence=1"])
    assert "Sentence 1: constituents: not drawn, as it has more than 100 levels" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "page").glob("*.svg")] == ["sentence-1-dependencies.svg"]


def test_no_folder_of_another_kind_is_replaced(given, page, tmp_path):
    """Nor one that has a page of another program, or something else beside our page."""
    shutil.copytree(page, tmp_path / "page")
    (tmp_path / "site").mkdir()
    for name in ("file", "site/index.html", "page/thesis.png"):
        (tmp_path / name).write_text("mine")
    for output, found in (("site", "index.html"), ("page", "thesis.png"), ("file", "a file or a link")):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
        with pytest.raises(SystemExit, match=f"{output}: expected a .*folder.*, found {found}"):
            main([f"--output={tmp_path}/{output}", f"--log=x={given}/logged.log"])
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_the_page_in_a_browser(page):
    with browser() as opened_browser:
        for width, scheme in ((1200, "light"), (390, "dark")):
            opened = opened_browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            opened.goto(page.joinpath("index.html").as_uri(), wait_until="load")
            sizes = opened.evaluate("[...document.images].map(image => image.naturalWidth)")
            assert len(sizes) == len(PICTURES)
            assert min(sizes) > 100
            assert opened.evaluate("document.documentElement.scrollWidth") == width
            assert opened.evaluate("getComputedStyle(document.images[0]).backgroundColor") == "rgb(255, 255, 255)"
