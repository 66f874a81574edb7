"""Tables of a small experiment, as Markdown, LaTeX and CSV; what is missing in them, and what is refused."""

from __future__ import annotations

import lzma
import re
from typing import Any

import pytest

pytest.importorskip("pandas")
pytest.importorskip("scipy")

import scipy
from small_recipe import plan_of, settings_of_tables

from syntax_data.errors import InputError
from syntax_experiments.metric_names import p_value, signed
from syntax_experiments.recipe import System
from syntax_experiments.results import read_results, write_results
from syntax_experiments.significance import adjust, holm, over_seeds
from syntax_experiments.tables import Tables, table_settings

BLEU = {"stock": [28.0, 27.0, 29.0], "slr": [30.0, 31.0, 29.5]}
LABELS = {"stock": "stock", "slr": "`slr`, τ = 10", "sdoi": "sdoi"}
SIGNATURE = "case:mixed|tok:13a|version:2.6.0"
SYSTEMS = {
    "stock": System("transformer", label=LABELS["stock"]),
    "slr": System("gated_syntax_transformer", label=LABELS["slr"], group="biases"),
    "sdoi": System("gated_syntax_transformer", label=LABELS["sdoi"], group="biases", published={"BLEU": 28.25}),
}
SETTINGS = settings_of_tables(SYSTEMS, test="flickr", title="A small experiment", seeds=[1, 2, 3])


def run(system: str, seed: int) -> list[dict[str, Any]]:
    """Rows of table.csv."""
    bleu = BLEU[system][seed - 1]
    about = {"recipe": "small", "system": system, "seed": seed, "code": "11", "device": "2 cores"}
    about["versions"] = "fairseq-syntax 1.0, torch 2.7.0"
    of_run = {"valid_loss": 5 - bleu / 50, "parameters": 1_234_567, "updates": 1440, "hours": 0.25}
    of_run |= {"words_per_second": 5000.0 + 1000 * seed, "gates_never_trained": 0}
    scored = {"test": "flickr", "signature": SIGNATURE}
    return [{**about, "metric": metric, "value": value} for metric, value in of_run.items()] + [
        {**about, **scored, "metric": metric, "value": value}
        for metric, value in {"BLEU": bleu, "chrF2": bleu + 20, "TER": 90 - bleu}.items()
    ]


def compared(seed: int, *, p: float) -> list[dict[str, Any]]:
    """Rows of comparisons.csv."""
    difference = BLEU["slr"][seed - 1] - BLEU["stock"][seed - 1]
    about = {"recipe": "small", "system": "slr", "baseline": "stock", "seed": seed, "test": "flickr"}
    tests = {"bootstrap": p, "randomisation": p / 2, "bootstrap_signature": f"bs:1000|seed:12345|{SIGNATURE}"}
    tests["randomisation_signature"] = f"ar:10000|seed:12345|{SIGNATURE}"
    of_metrics = {"BLEU": difference, "chrF2": difference, "TER": -difference}
    return [{**about, "metric": metric, "difference": value, **tests} for metric, value in of_metrics.items()]


def parsed(columns: str, *lines: str) -> list[dict[str, Any]]:
    """Rows of a file, from words."""
    about = {"recipe": "small", "system": "stock"}
    return [{**about, **dict(zip(columns.split(), line.split(), strict=True))} for line in lines]


def rows() -> list[dict[str, Any]]:
    return [row for system in BLEU for seed in (1, 2, 3) for row in run(system, seed)]


@pytest.fixture
def tables(tmp_path):
    """Return tables of rows under settings."""

    def build(table: Any = None, *, settings: Any = None, comparisons: Any = None, **more: Any) -> Tables:
        if comparisons is None:
            comparisons = [row for seed in (1, 2, 3) for row in compared(seed, p=0.04 * seed)]
        files = {"table": rows() if table is None else table, "comparisons": comparisons, "epochs": [], **more}
        write_results(tmp_path, **files)
        return Tables(read_results(tmp_path), SETTINGS | (settings or {}))

    return build


MARKDOWN = """\
# A small experiment

### flickr

| system        |       BLEU ↑ | BLEU (paper) |      chrF2 ↑ |        TER ↓ | valid. loss (bits) ↓ | Δ BLEU to stock |     p |  seeds | parameters | words/s | hours |
| stock         | 28.00 ± 1.00 |              | 48.00 ± 1.00 | 62.00 ± 1.00 |        4.440 ± 0.020 |                 |       |      3 |     1.23 M |   7,000 |  0.25 |
| **biases**    |              |              |              |              |                      |                 |       |        |            |         |       |
| `slr`, τ = 10 | 30.17 ± 0.76 |              | 50.17 ± 0.76 | 59.83 ± 0.76 |        4.397 ± 0.015 |           +2.17 | 0.166 |      3 |     1.23 M |   7,000 |  0.25 |
| sdoi          |              |        28.25 |              |              |                      |                 |       | 0 of 3 |            |         |       |

### flickr, against stock

| system        |         Δ BLEU [95%] |     p |      bs |      ar |            Δ loss [95%] |     p |
| **biases**    |                      |       |         |         |                         |       |
| `slr`, τ = 10 | +2.17 [−2.20, +6.53] | 0.166 | +1 of 3 | +2 of 3 | −0.043 [−0.131, +0.044] | 0.166 |
| sdoi          |                      |       |         |         |                         |       |

### Notes

- ±: standard deviation over seeds (n − 1).
- Δ: mean difference over the seeds that both have, with its 95% confidence interval (not adjusted); p: paired t-test over seeds (SciPy VERSION), adjusted by Benjamini-Hochberg for all differences in a metric on a test set (1 in BLEU).
- A difference of 5.73 in BLEU, 0.115 in valid_loss has 80% power (t-test over seeds, median of the comparisons): smaller ones have less.
- (paper): as published; papers tokenise and score in their own ways: take no difference to ours.
- Missing runs: sdoi (seed 1, 2, 3).
- BLEU; chrF2; TER: `case:mixed|tok:13a|version:2.6.0`
- Within a seed: bs, paired bootstrap resampling (`bs:1000|seed:12345`), and ar, approximate randomisation (`ar:10000|seed:12345`), both sacreBLEU's: in how many of the seeds compared p < 0.05, + with a greater score than the baseline's, − with a smaller; p itself of one seed. Prefer ar: bs is one-sided, and calls 10% of equal systems different.
- Software: fairseq-syntax 1.0, torch 2.7.0, code 11.
- Words/s (target words, in a training's fastest epoch) and hours of training on: 2 cores. Hours depend on what else the machine did.
"""  # noqa: E501


def folded(markdown: str) -> str:
    """Return Markdown without the widths and rules of tables."""
    return re.sub(r" +", " ", re.sub(r"\|[:-][-:|]+\|\n", "", markdown))


def cells(markdown: str, label: str) -> dict[str, str]:
    """Return the first row with a label, by heading."""
    lines = [re.split(r" *(?<!\\)\| *", line)[1:-1] for line in markdown.splitlines() if line.startswith("| ")]
    place = next(i for i, line in enumerate(lines) if line[0] == label)
    heading = next(line for line in reversed(lines[:place]) if line[0] == "system")
    return dict(zip(reversed(heading), reversed(lines[place]), strict=True))  # of headings that are alike the first


def test_markdown(tables):
    assert folded(tables().markdown()) == folded(MARKDOWN.replace("VERSION", scipy.__version__))


def test_latex(tables):
    main, against = tables(settings={"subsets": ["50% & a_b"]}).latex().split("\n\n")
    assert r"\begin{tabular}{lrrrrrr}" in against
    assert r"system & $\Delta$ BLEU {[}95\%] & p & bs & ar & $\Delta$ loss {[}95\%] & p \\" in against
    assert r"\textbf{biases} &  &  &  &  &  &  \\" in against
    row = r"+2.17 {[}$-$2.20, +6.53] & 0.166 & +1 of 3 & +2 of 3 & $-$0.043 {[}$-$0.131, +0.044] & 0.166 \\"
    assert rf"\texttt{{slr}}, $\tau$ = 10 & {row}" in against
    assert r"\caption{flickr, against stock.}" in against
    assert "\nstock & 28.00 $\\pm$ 1.00 &  & 48.00 $\\pm$ 1.00 & " in main
    assert r"BLEU; chrF2; TER: \texttt{case:mixed\textbar{}\allowbreak{}tok:13a\textbar{}" in main
    assert r"p \textless{} 0.05" in main


def test_p_is_adjusted_for_all_differences_of_all_tables(tables, monkeypatch):
    monkeypatch.setitem(BLEU, "sdoi", [28.5, 27.9, 29.1])
    sections = {
        name: {"systems": [], "baselines": [name.split()[0]], "about": ""} for name in ("stock", "slr", "stock again")
    }
    found = tables(rows(), settings={"tables": sections}).differences
    of_bleu = found[found["metric"] == "BLEU"].set_index(["system", "baseline"])
    pairs = [(name, baseline) for baseline in ("stock", "slr") for name in BLEU if name != baseline]
    expected = {pair: over_seeds(*(dict(enumerate(BLEU[name])) for name in pair)) for pair in pairs}
    adjusted = adjust({pair: of.p for pair, of in expected.items()})  # a difference in two tables counts once
    assert any(adjusted[pair] != pytest.approx(of.p) for pair, of in expected.items())
    assert len(of_bleu) == len(pairs)
    for pair, of in expected.items():
        numbers = of_bleu.loc[pair, ["difference", "low", "high", "p", "p_adjusted"]].tolist()
        assert numbers == pytest.approx([of.difference, of.low, of.high, of.p, adjusted[pair]])


def test_missing_runs_and_scores_are_shown(tables):
    there = [row for row in rows() if (row["system"], row["seed"]) != ("slr", 3)]
    there = [row for row in there if (row["system"], row["seed"], row.get("test")) != ("slr", 2, "flickr")]
    markdown = tables(there, comparisons=compared(1, p=0.04)).markdown()
    row = cells(markdown, LABELS["slr"])
    assert (row["BLEU ↑"], row["valid. loss (bits) ↓"], row["seeds"]) == ("30.00 (1 of 2)", "4.390 ± 0.014", "2 of 3")
    assert "Missing runs: slr (seed 3); sdoi (seed 1, 2, 3)." in markdown
    assert "Without an interval: 1 seed in common, 2 are needed." in markdown
    row = cells(markdown.partition("against stock")[2], LABELS["slr"])
    assert [row[name] for name in ("Δ BLEU [95%]", "bs", "ar")] == ["+2.00", "0.040", "0.020"]


def test_notes_on_trainings(tables):
    table = rows()
    for row in table:
        row["value"] = int(row["system"] == "slr" and row["seed"] > 1) if "gates" in row["metric"] else row["value"]
    losses = [(1, 1, 5.0), (1, 2, 4.0), (2, 1, 4.0), (2, 2, 5.0)]
    epochs = parsed("seed epoch updates train_loss valid_loss", *(f"{s} {e} {e} 1 {loss}" for s, e, loss in losses))
    markdown = tables(table, epochs=epochs).markdown()
    assert (cells(markdown, "stock")["seeds"], cells(markdown, LABELS["slr"])["seeds"]) == ("3", "3 †")
    assert re.search(r"- †: gates never trained, .* `--gate-warmup-epochs`: slr \(seed 2, 3\)\.\n", markdown)
    assert "The best epoch was the last one in 1 of 2 runs." in markdown


def test_without_runs_there_are_bounds_and_published_numbers(tables):
    published = {"a paper": {"BLEU": 31.5, "METEOR": 50.0, "tokenised BLEU": 34.58}}
    settings = {"bounds": {"best": {"BLEU": 40.0}}, "published": published}
    markdown = tables([], comparisons=[], settings=settings).markdown()
    labels = ("stock", "sdoi", "best", "a paper")
    shown = {label: {n: c for n, c in cells(markdown, label).items() if c} for label in labels}
    of_paper = {"BLEU (paper)": "31.50", "tokenised BLEU (paper)": "34.58", "METEOR (paper)": "50.00"}
    assert shown == {
        "stock": {"system": "stock", "seeds": "0 of 3"},
        "sdoi": {"system": "sdoi", "BLEU (paper)": "28.25", "seeds": "0 of 3"},
        "best": {"system": "best", "BLEU ↑": "40.00"},
        "a paper": {"system": "a paper", **of_paper},
    }
    assert list(cells(markdown, "a paper"))[::-1][1:5] == ["BLEU ↑", *of_paper], "kinds of BLEU are side by side"
    assert markdown.index("**bound**") < markdown.index("| best ") < markdown.index("**published**")


def test_parts_of_a_test_set_and_measurements_have_columns(tables):
    table = rows()
    of_part = [{**row, "subset": "long", "value": row["value"] - 1} for row in table if row.get("test")]
    gap = {"metric": "gap | x", "signature": "m"}
    measured = [{**row, **gap, "value": row["seed"] / 10} for row in table if row["metric"] == "updates"]
    settings = {"subsets": ["long"], "compared": ["gap | x", "BLEU", "absent"], "measurements": {"gap | x": "m"}}
    markdown = tables(table + of_part + measured, settings=settings).markdown()
    assert cells(markdown, "stock")[r"gap \| x"] == "0.2000 ± 0.1000"
    by_part, against = (markdown.partition(f"### flickr, by part{rest}\n")[2] for rest in ("", ", against stock"))
    assert cells(by_part, LABELS["slr"])["BLEU, long"] == "29.17 ± 0.76"
    of_slr = {"system": LABELS["slr"], "Δ BLEU, long [95%]": "+2.17 [−2.20, +6.53]", "p": "0.166"}
    assert cells(against, LABELS["slr"]) == of_slr
    assert r"Δ gap \| x [95%]" in markdown
    assert "- gap | x: `m`\n" in markdown


PAIRS = [[name, "stock", f"{LABELS[name]} − stock"] for name in ("slr", "sdoi")]
PRIMARY = {"primary": {"metric": "BLEU", "pairs": PAIRS}, "equivalence": {"BLEU": 5}}


def test_seeds_and_sentences_are_resampled_together(tables):
    places = [(seed, sentence) for seed in (1, 2) for sentence in (0, 1)]
    lines = [f"{of} {seed} loss {line} {bits} 1" for of, bits in (("stock", 2), ("slr", 1)) for seed, line in places]
    sentences = parsed("system seed metric sentence numerator denominator", *lines)
    settings = {"primary": {"metric": "loss", "pairs": PAIRS}, "equivalence": {"loss": 2}}
    markdown = tables(sentences=sentences, settings=settings).markdown()
    found, interval = "−1.0000 [−1.0000, −1.0000]", "[−1.0000, −1.0000]"
    assert "### Primary comparisons: loss, seeds and sentences resampled" in markdown
    (line,) = [re.split(r" *\| *", line)[1:-1] for line in markdown.splitlines() if " − stock" in line]
    assert line[1:] == [found, "<0.001", interval, "0.0000", "a difference within ±2"]
    row = cells(markdown.partition("Seeds and sentences resampled, against stock")[2], LABELS["slr"])
    assert row == {"system": LABELS["slr"], "Δ loss [95%]": found, "p": "<0.001", "within ±2": "yes"}
    assert "a bootstrap of seeds and sentences together; p is not adjusted" in markdown
    with pytest.raises(InputError, match=r"sentences\.csv\.xz: expected the same sentences of all systems"):
        tables(sentences=sentences[:-1]).markdown()


def test_primary_comparisons_come_first_and_are_adjusted_for_alone(tables, monkeypatch):
    monkeypatch.setitem(BLEU, "sdoi", [28.1, 27.3, 29.2])
    everything = {"": {"systems": [], "baselines": ["stock", "slr"], "about": ""}}
    markdown = tables(rows(), settings={**PRIMARY, "tables": everything}).markdown()
    assert markdown.index("### Primary comparisons: BLEU, t-test over seeds") < markdown.index("## (exploratory)")
    of = {name: over_seeds(*(dict(enumerate(BLEU[of])) for of in (name, "stock"))) for name in ("slr", "sdoi")}
    p = holm({name: found.p for name, found in of.items()})
    lines = [re.split(r" *\| *", line)[1:-1] for line in markdown.splitlines() if " − stock" in line]
    assert lines == [
        [
            f"{LABELS[name]} − stock", f"{signed(found.difference, 'BLEU')} [{signed(found.low, 'BLEU')}, "
            f"{signed(found.high, 'BLEU')}]", p_value(p[name]), f"[{signed(found.low_90, 'BLEU')}, "
            f"{signed(found.high_90, 'BLEU')}]", f"{found.detectable:.2f}", conclusion,
        ]
        for (name, found), conclusion in zip(of.items(), ("undecided", "no difference (within ±5)"), strict=True)
    ]  # fmt: skip
    against = markdown.partition("### flickr, against stock")[2]
    within = {name: cells(against, LABELS[name])["within ±5"] for name in of}
    assert within == {name: "yes" if found.is_within(5) else "no" for name, found in of.items()}
    assert {*within.values()} == {"yes", "no"}
    assert "Primary comparisons are those that the recipe names" in markdown


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("table", "1,,,updates,1440.0", "one,,,updates,1440.0", ":4: expected an integer as seed, found 'one'"),
        ("table", "updates,1440.0", "updates,1e999", ":4: expected a number as value, found '1e999'"),
        ("table", "small,stock,1,,,updates", "small,,1,,,updates", ":4: expected a value as system, found ''"),
        ("table", "seed,test", "seed,set", ":1: expected the column test, found"),
        ("table", "version:2.6.0", "version:2.7.0", ":17: expected one signature of BLEU, case:mixed|tok:13a|"),
        ("table", "small,stock,2", "small,stock,1", ":11: expected each row once, found valid_loss of stock"),
        ("table", "small,stock,1", "other,stock,1", ":3: expected one recipe, found small"),
        ("table", "small,slr,3", "small,slr,4", ":47: expected a system and a seed of the recipe, found slr, seed 4"),
        ("comparisons", "BLEU,2.0", "BLEU,2.5", ":2: expected a comparison of the texts that were scored, found"),
        ("comparisons", "ar:10000", "ar:99", ":5: expected one randomisation_signature of BLEU"),
        ("epochs", None, b"\xff", ": expected the results of a comparison, found: 'utf-8' codec"),
        ("epochs", None, None, ": expected the results of a comparison, found: "),
        ("sentences", None, lzma.compress(b"recipe\n")[:-20], ": expected the results of a comparison, found: Comp"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tables, tmp_path, file, old, new, expected):
    tables()
    path = tmp_path / f"{file}.csv{'.xz' * (file == 'sentences')}"
    if old is not None:
        text = path.read_text()
        assert old in text
        new = text.replace(old, new, 1).encode()
    path.unlink(missing_ok=True)
    if new is not None:
        path.write_bytes(new)
    with pytest.raises(InputError, match=re.escape(f"{path}{expected}")):
        Tables(read_results(tmp_path), SETTINGS)


def test_primary_comparisons_are_named_by_labels_that_stand_alone(tmp_path):
    asked = "{label: … flat trees, architecture: gated_syntax_transformer, control: flat}"
    primary = "{metric: BLEU, comparisons: {gated: [flat]}}"
    recipe = plan_of(tmp_path, f"systems: {{flat: {asked}}}\nprimary: {primary}").recipe
    pairs = [["gated", "flat", "gated − gated, flat trees"]]
    assert table_settings(recipe)["primary"] == {"metric": "BLEU", "pairs": pairs}
