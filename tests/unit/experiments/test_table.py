"""The table of a small experiment, as Markdown, CSV and LaTeX; what is missing in it, and what is refused."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("scipy")

import scipy

from syntax_experiments.families import adjust_together
from syntax_experiments.grid import Grid, latex
from syntax_experiments.results import TOKENISED
from syntax_experiments.run_record import Run
from syntax_experiments.significance import adjust, over_seeds
from syntax_experiments.table import System, Table, long_csv, summary_csv
from syntax_experiments.table import make_table as make_one

STOCK, SLR = System(name="stock", label="stock"), System(name="slr", label="`slr`, τ = 10", group="masks")
SDOI = System(name="sdoi", label="sdoi", group="masks", paper={"BLEU": 28.25})
BLEU = {"stock": [28.0, 27.0, 29.0], "slr": [30.0, 31.0, 29.5]}
SETTINGS = "case:mixed|tok:13a|version:2.6.0"


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values, start=1))


def run(system: str, seed: int) -> Run:
    return Run(
        system=system,
        seed=seed,
        parameters=1_234_567,
        updates=1440,
        words_per_second=5000.0 + 1000 * seed,
        hours=0.25,
        device="2 cores",
        versions={"fairseq-syntax": "1.0", "torch": "2.7.0"},
        valid_loss=5 - BLEU[system][seed - 1] / 50,
        epochs=[],
        tests=["flickr"],
    )


def scored(system: str, seed: int, **other: Any) -> dict[str, Any]:
    bleu = BLEU[system][seed - 1]
    values = {"BLEU": bleu, "chrF2": bleu + 20, "TER": 90 - bleu}
    metrics = {metric: {"score": value, "signature": SETTINGS} for metric, value in values.items()}
    return {"metrics": metrics, "system": system, "seed": seed, "test": "flickr", "subset": None} | other


def compared(system: str, baseline: str, seed: int, *, p: float, **other: Any) -> dict[str, Any]:
    metrics = {}
    for metric, of in scored(system, seed)["metrics"].items():
        base = scored(baseline, seed)["metrics"][metric]["score"]
        tests = {
            name: {"p": value, "signature": f"{kind}|seed:12345|{SETTINGS}"}
            for name, kind, value in (("bootstrap", "bs:1000", p), ("randomisation", "ar:10000", p / 2))
        }
        metrics[metric] = {"system": of["score"], "baseline": base, "difference": of["score"] - base, **tests}
    place = {"system": system, "baseline": baseline, "seed": seed, "test": "flickr", "subset": None}
    return {"metrics": metrics, **place} | other


def experiment(*, seeds: tuple[int, ...] = (1, 2, 3), **other: Any) -> dict[str, Any]:
    """Arguments of make_table: stock and slr ran, sdoi did not."""
    done = [(system, seed) for system in BLEU for seed in seeds]
    return {
        "runs": [run(*place) for place in done],
        "comparisons": [compared("slr", "stock", seed, p=0.04 * seed) for seed in seeds],
        "scores": [scored(*place) for place in done],
        "systems": [STOCK, SLR, SDOI],
        "baselines": ["stock"],
        "seeds": {name: list(seeds) for name in ("stock", "slr", "sdoi")},
        "test": "flickr",
    } | other


def make_table(**arguments: Any) -> Table:
    """A table that stands alone."""
    [table] = adjust_together([make_one(**arguments)])
    return table


MARKDOWN = """\
### flickr

| system        |       BLEU ↑ | BLEU (paper) |      chrF2 ↑ |        TER ↓ | valid. loss (bits) ↓ | Δ BLEU to stock |     p |  seeds | parameters | words/s | hours |
| ------------- | -----------: | -----------: | -----------: | -----------: | -------------------: | --------------: | ----: | -----: | ---------: | ------: | ----: |
| stock         | 28.00 ± 1.00 |              | 48.00 ± 1.00 | 62.00 ± 1.00 |        4.440 ± 0.020 |                 |       |      3 |     1.23 M |   7,000 |  0.25 |
| **masks**     |              |              |              |              |                      |                 |       |        |            |         |       |
| `slr`, τ = 10 | 30.17 ± 0.76 |              | 50.17 ± 0.76 | 59.83 ± 0.76 |        4.397 ± 0.015 |           +2.17 | 0.166 |      3 |     1.23 M |   7,000 |  0.25 |
| sdoi          |              |        28.25 |              |              |                      |                 |       | 0 of 3 |            |         |       |

### flickr, against stock

| system        |         Δ BLEU [95%] |     p |      bs |      ar |            Δ loss [95%] |     p |
| ------------- | -------------------: | ----: | ------: | ------: | ----------------------: | ----: |
| **masks**     |                      |       |         |         |                         |       |
| `slr`, τ = 10 | +2.17 [−2.20, +6.53] | 0.166 | +1 of 3 | +2 of 3 | −0.043 [−0.131, +0.044] | 0.166 |
| sdoi          |                      |       |         |         |                         |       |

- ±: standard deviation over seeds (n − 1).
- Δ: mean difference over the seeds that both have, with its 95% confidence interval (not adjusted); p: paired t-test over seeds (SciPy VERSION), adjusted by Benjamini-Hochberg for all differences in a metric that these tables have on this test set (1 in BLEU).
- (paper): as published; papers tokenise and score in their own ways, so take no difference to ours.
- No runs: sdoi.
- BLEU: `case:mixed|tok:13a|version:2.6.0`
- chrF2: `case:mixed|tok:13a|version:2.6.0`
- TER: `case:mixed|tok:13a|version:2.6.0`
- Within a seed: bs, paired bootstrap resampling (`bs:1000|seed:12345`), and ar, approximate randomisation (`ar:10000|seed:12345`), both sacreBLEU's. In how many of the seeds compared p < 0.05, + with a greater score than the baseline's, − with a smaller; p itself of one seed. Of the two, go by ar: bs looks at one side only, and so calls 10% of equal systems different.
- Software: fairseq-syntax 1.0, torch 2.7.0.
- Words/s (target words, in a training's fastest epoch) and hours of training on: 2 cores. Hours depend on what else the machine did.
"""  # noqa: E501

LATEX = r"""\begin{table}
\centering
\begin{tabular}{lrrrrrr}
\toprule
system & $\Delta$ BLEU [95\%] & p & bs & ar & $\Delta$ loss [95\%] & p \\
\midrule
\multicolumn{7}{l}{\textbf{masks}} \\
\texttt{slr}, $\tau$ = 10 & +2.17 [$-$2.20, +6.53] & 0.166 & +1 of 3 & +2 of 3 & $-$0.043 [$-$0.131, +0.044] & 0.166 \\
sdoi &  &  &  &  &  &  \\
\bottomrule
\end{tabular}
\caption{flickr, against stock.}
\end{table}
"""

LONG = """\
system,seed,test,subset,metric,value
stock,1,flickr,,BLEU,28.0
stock,1,flickr,,chrF2,48.0
stock,1,flickr,,TER,62.0
stock,1,,,valid_loss,4.5
stock,1,,,parameters,1234567
stock,1,,,updates,1440
stock,1,,,words_per_second,6000.0
stock,1,,,hours,0.25
"""

SUMMARY = """\
system,label,group,test,subset,metric,mean,sd,n,seeds,paper,baseline,difference,low,high,p,p_adjusted,not_tested,\
bootstrap_n,bootstrap_greater,bootstrap_smaller,bootstrap_p_by_seed,\
randomisation_n,randomisation_greater,randomisation_smaller,randomisation_p_by_seed
slr,"`slr`, τ = 10",masks,flickr,,BLEU,30.0,,1,1,,,,,,,,,,,,,,,,
slr,"`slr`, τ = 10",masks,flickr,,BLEU,30.0,,1,1,,stock,2.0,,,,,"1 seed in common, 2 are needed",\
1,1,0,1:0.04,1,1,0,1:0.02
slr,"`slr`, τ = 10",masks,flickr,,chrF2,50.0,,1,1,,,,,,,,,,,,,,,,
"""


def cells(markdown: str, label: str) -> list[str]:
    """The cells of the first row with this label."""
    row = next(line for line in markdown.splitlines() if line.startswith(f"| {label} "))
    return [cell.strip() for cell in row.strip("|").split("|")]


def summary(table: Table) -> dict[tuple[str, str, str], dict[str, str]]:
    """Rows of the summary by system, metric and baseline."""
    rows = csv.DictReader(io.StringIO(table.summary_csv()))
    return {(row["system"], row["metric"], row["baseline"]): row for row in rows}


def test_markdown():
    assert make_table(**experiment()).markdown() == MARKDOWN.replace("VERSION", scipy.__version__)


def test_what_is_said_elsewhere_is_left_out():
    table = make_table(**experiment())
    assert table.markdown(said=table.caption) + "\n" == MARKDOWN[: MARKDOWN.index("- ±")]


def test_latex():
    main, against = make_table(**experiment()).latex().split("\n\n")
    assert against == LATEX
    assert "\nstock & 28.00 $\\pm$ 1.00 &  & 48.00 $\\pm$ 1.00 & " in main
    assert "BLEU: \\texttt{case:mixed\\textbar{}\\allowbreak{}tok:13a\\textbar{}" in main
    assert "adjusted by Benjamini-Hochberg" in main


def test_csv():
    table = make_table(**experiment(seeds=(1,), systems=[replace(STOCK, label="x"), SLR]))
    slr = "".join(f"{line}\n" for line in LONG.splitlines()[1:] if "loss" not in line).replace("stock", "slr")
    slr = slr.replace("28.0", "30.0").replace("48.0", "50.0").replace("62.0", "60.0")
    loss = "slr,1,,,valid_loss,4.4\n"
    found = table.csv().replace("4.4399999999999995", "4.5")
    assert sorted(found.splitlines()) == sorted((LONG + slr + loss).splitlines())
    lines = table.summary_csv().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("slr"))
    assert "".join(f"{line}\n" for line in [lines[0], *lines[begin : begin + 3]]) == SUMMARY


def test_the_csv_of_several_tables_has_each_row_once():
    whole = make_table(**experiment())
    deep = {"test": "flickr", "subset": "deep"}
    arguments = experiment(scores=[scored(system, 1, **deep) for system in BLEU], comparisons=[], subset="deep")
    part = make_table(**arguments)
    assert part.title == "flickr, deep"
    for rows in (long_csv([whole, part]).splitlines(), summary_csv([whole, part]).splitlines()):
        assert len(rows) == len(set(rows))
    assert "stock,1,flickr,deep,BLEU,28.0" in long_csv([whole, part]).splitlines()
    assert len(long_csv([whole, part]).splitlines()) == len(whole.csv().splitlines()) + 2 * 3


def test_numbers_are_those_of_the_statistics():
    loss = {system: [5 - value / 50 for value in values] for system, values in BLEU.items()}
    found = summary(make_table(**experiment()))
    for metric, values in (("BLEU", BLEU), ("valid_loss", loss)):
        expected = over_seeds(by_seed(values["slr"]), by_seed(values["stock"]))
        row = found["slr", metric, "stock"]
        names = ("difference", "low", "high", "p")
        assert [float(row[name]) for name in names] == pytest.approx([getattr(expected, name) for name in names])
    ter = found["slr", "TER", "stock"]
    assert (ter["bootstrap_greater"], ter["bootstrap_smaller"], ter["bootstrap_p_by_seed"]) == (
        "0",
        "1",
        "1:0.04 2:0.08 3:0.12",
    )


def test_p_is_adjusted_for_all_differences_of_all_tables(monkeypatch):
    monkeypatch.setitem(BLEU, "sdoi", [28.5, 27.9, 29.1])
    places = [(system, seed) for system in BLEU for seed in (1, 2, 3)]
    ran = {"runs": [run(*place) for place in places], "scores": [scored(*place) for place in places]}
    tables = [make_one(**experiment(**ran, baselines=[baseline])) for baseline in ("stock", "slr", "stock")]
    part = make_one(**experiment(**ran | {"scores": []}, comparisons=[], subset="deep"))
    first, second, again, of_part = adjust_together([*tables, part])
    p = {
        (name, baseline): over_seeds(by_seed(BLEU[name]), by_seed(BLEU[baseline])).p
        for baseline in ("stock", "slr")
        for name in BLEU
        if name != baseline
    }
    expected = adjust(p)  # what two tables have counts once
    assert expected != pytest.approx(p)
    for table, baseline in ((first, "stock"), (second, "slr"), (again, "stock")):
        found = summary(table)
        of_baseline = {at: float(found[at[0], "BLEU", baseline]["p_adjusted"]) for at in p if at[1] == baseline}
        assert of_baseline == pytest.approx({at: value for at, value in expected.items() if at[1] == baseline})
        assert any("these tables have on this test set (4 in BLEU)" in line for line in table.caption)
    assert "BLEU" not in of_part.family
    assert any("look for a pattern" in line for line in of_part.caption)
    assert "Missing comparisons within a seed: sdoi to stock (seed 1, 2, 3)." in first.caption
    assert cells(second.markdown(), "stock")[5:8] == ["4.440 ± 0.020", "−2.17", f"{expected['stock', 'slr']:.3f}"]


def test_a_system_may_have_seeds_of_its_own():
    arguments = experiment(comparisons=[])
    done = {("stock", 1), ("slr", 1), ("slr", 2)}
    arguments["runs"] = [one for one in arguments["runs"] if (one.system, one.seed) in done]
    arguments["scores"] = [one for one in arguments["scores"] if (one["system"], one["seed"]) in done]
    arguments["seeds"] = {"stock": [1], "slr": [1, 2, 3], "sdoi": [1]}
    table = make_table(**arguments)
    assert cells(table.markdown(), "stock")[8] == "1"
    assert cells(table.markdown(), "`slr`, τ = 10")[8] == "2 of 3"
    assert "Missing runs: `slr`, τ = 10 (seed 3)." in table.caption


def test_whether_trainings_were_long_enough_is_told():
    epochs = [{"epoch": 1, "valid_loss": 5.0}, {"epoch": 2, "valid_loss": 4.0}]
    arguments = experiment()
    arguments["runs"][0] = replace(arguments["runs"][0], epochs=epochs)
    arguments["runs"][1] = replace(arguments["runs"][1], epochs=epochs[::-1])
    assert any("The best epoch was the last one in 1 of 2 runs." in line for line in make_table(**arguments).caption)


def test_gates_that_were_never_trained_are_told():
    arguments = experiment()
    arguments["runs"] = [replace(r, gates_never_trained=r.system == "slr" and r.seed > 1) for r in arguments["runs"]]
    table = make_table(**arguments)
    assert (cells(table.markdown(), "stock")[8], cells(table.markdown(), "`slr`, τ = 10")[8]) == ("3", "3 †")
    (line,) = (line for line in table.caption if "†" in line)
    assert line.startswith("†: gates never trained")
    assert line.endswith("`--gate-warmup-epochs`: `slr`, τ = 10 (seed 2, 3).")
    assert " & 3 $\\dagger$ & " in table.latex()


def test_missing_runs_and_scores_are_shown():
    arguments = experiment()
    del arguments["runs"][-1], arguments["scores"][-2:], arguments["comparisons"][-2:]
    table = make_table(**arguments)
    row = cells(table.markdown(), "`slr`, τ = 10")
    assert (row[1], row[5], row[8]) == ("30.00 (1 of 2)", "4.390 ± 0.014", "2 of 3")
    assert "Missing runs: `slr`, τ = 10 (seed 3)." in table.caption
    assert "Not tested over seeds (1 seed in common, 2 are needed): `slr`, τ = 10 to stock." in table.caption
    row = cells(table.markdown().partition("against stock")[2], "`slr`, τ = 10")
    assert row[1:5] == ["+2.00", "", "0.040", "0.020"]
    arguments["scores"].append(scored("slr", 2))
    caption = make_table(**arguments).caption
    assert "Missing comparisons within a seed: `slr`, τ = 10 to stock (seed 2)." in caption


def test_a_recipe_that_has_not_run_has_the_papers_numbers():
    table = make_table(**experiment(runs=[], scores=[], comparisons=[]))
    row = cells(table.markdown(), "sdoi")
    assert row == ["sdoi", "", "28.25", *[""] * 5, "0 of 3", "", "", ""]
    assert "No runs: stock; `slr`, τ = 10; sdoi." in table.caption


def test_bounds_are_rows_whose_numbers_stand_under_the_metric():
    table = make_table(**experiment(), bounds={"best possible": {"BLEU": 40.0}})
    markdown = table.markdown()
    row = dict(zip(cells(markdown, "system"), cells(markdown, "best possible"), strict=True))
    assert {name: cell for name, cell in row.items() if cell} == {"system": "best possible", "BLEU ↑": "40.00"}
    assert markdown.count("best possible") == 1, "and in no table of differences"
    (found,) = (row for row in csv.DictReader(io.StringIO(table.summary_csv())) if row["group"] == "bound")
    assert (found["metric"], found["mean"], found["n"]) == ("BLEU", "40.0", "")
    with pytest.raises(ValueError, match=r"expected a bound of one of .*, found 'BELU' of 'best possible'"):
        make_table(**experiment(), bounds={"best possible": {"BELU": 40.0}})


def test_published_numbers_are_rows_without_runs():
    label = "A (a paper, Table 1)"
    published = System(name=label, label=label, paper={"BLEU": 31.5, "METEOR": 50.0})
    table = make_table(**experiment(), published=[published])
    markdown = table.markdown()
    row = dict(zip(cells(markdown, "system"), cells(markdown, label), strict=True))
    shown = {name: cell for name, cell in row.items() if cell}
    assert shown == {"system": label, "BLEU (paper)": "31.50", "METEOR (paper)": "50.00"}
    assert markdown.index("**published**") > markdown.index("| sdoi")
    assert markdown.count(label) == 1, "and in no table of differences"
    rows = [row for row in csv.DictReader(io.StringIO(table.summary_csv())) if row["group"] == "published"]
    told = [(row["metric"], row["paper"], row["mean"]) for row in rows]
    assert told == [("BLEU", "31.5", ""), ("METEOR", "50.0", "")]
    assert label not in table.csv()
    assert f"{label} &" in table.latex()


def test_kinds_of_bleu_stand_side_by_side_each_with_what_papers_report_of_it():
    arguments = experiment()
    for one in arguments["scores"]:
        one["metrics"][TOKENISED] = {"score": 33.0, "signature": "case:lc|tok:none"}
    paper = System(name="paper", label="a paper", paper={TOKENISED: 34.58, "BLEU, cased": 27.4})
    table = make_table(**{**arguments, "systems": [STOCK, SLR], "published": [paper]})
    headings, stock, published = (cells(table.markdown(), row) for row in ("system", "stock", "a paper"))
    kinds = ["BLEU ↑", "tokenised BLEU ↑", "tokenised BLEU (paper)", "BLEU, cased (paper)", "chrF2 ↑"]
    assert headings[1:6] == kinds
    assert stock[1:5] == ["28.00 ± 1.00", "33.00 ± 0.00", "", ""]
    assert published[1:5] == ["", "", "34.58", "27.40"]
    assert "tokenised BLEU: `case:lc|tok:none`" in table.caption
    arguments["scores"][0]["metrics"][TOKENISED]["signature"] = "case:mixed|tok:none"
    with pytest.raises(ValueError, match="expected one signature of tokenised BLEU, found case:mixed"):
        make_table(**arguments)


def test_own_metrics_have_columns():
    arguments = experiment()
    for one in arguments["scores"]:
        one["metrics"]["comet"] = {"score": 0.8 + one["seed"] / 100, "signature": "comet-score {hypotheses} | tail -1"}
    arguments["compared"] = ["comet", "BLEU"]
    table = make_table(**arguments)
    markdown = table.markdown()
    assert cells(markdown, "stock")[5] == "0.8200 ± 0.0100"
    assert "Δ comet to stock" in markdown
    assert "- comet: `comet-score {hypotheses} | tail -1`" in markdown


def measured(system: str, seed: int, command: str = "measure {model}", **values: float) -> dict[str, Any]:
    return {"system": system, "seed": seed, "values": values or {"gap": seed / 10, "size": 20}, "command": command}


def test_what_is_measured_of_models_has_columns():
    measurements = [measured(system, seed) for system in BLEU for seed in (1, 2, 3)]
    table = make_table(**experiment(measurements=measurements))
    row = cells(table.markdown(), "stock")
    assert row[5:7] == ["0.2000 ± 0.1000", "20.00 ± 0.00"]
    assert "gap; size: `measure {model}`" in table.caption
    assert "stock,2,,,gap,0.2" in table.csv().splitlines()
    assert summary(table)["slr", "gap", "stock"]["difference"] == "0.0"
    assert "Δ gap [95%]" in make_table(**experiment(measurements=measurements, compared=["BLEU", "gap"])).markdown()
    part = {"subset": "long", "scores": [], "comparisons": []}
    assert "gap" not in make_table(**experiment(measurements=measurements, **part)).markdown().partition("\n- ")[0]


@pytest.mark.parametrize(
    "more", [measured("stock", 1), measured("stock", 1, BLEU=1.0), measured("slr", 1, valid_loss=1.0)]
)
def test_what_is_measured_twice_is_refused(more):
    with pytest.raises(ValueError, match=r"measurements: expected another name than '.*', which is measured already"):
        make_table(**experiment(measurements=[measured("stock", 1), more]))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"systems": [STOCK, STOCK, SLR]}, "each system once, found stock again"),
        ({"systems": [STOCK]}, "runs of the systems and seeds given, found slr, seed 1"),
        ({"runs": [replace(run("stock", 1), seed=4)]}, "runs of the systems and seeds given, found stock, seed 4"),
        ({"baselines": ["transformer"]}, "a baseline among the systems stock, slr, sdoi, found 'transformer'"),
        ({"systems": [SLR, STOCK]}, "systems without a group first, found stock after slr"),
        ({"compared": ["bleu"]}, "found 'bleu'"),
        ({"compared": []}, "expected a metric to compare, found none"),
        ({"runs": [run("stock", 1), run("stock", 1)]}, "each run once, found ('stock', 1) again"),
        ({"runs": [run("stock", 1)]}, "scores of runs, found those of slr, seed 1, and no run of it"),
        ({"scores": [scored("slr", 1), scored("slr", 1)]}, "each score once, found ('slr', 1) again"),
        ({"comparisons": [compared("slr", "stock", 1, p=1)] * 2}, "each comparison once, found ('slr', 'stock', 1)"),
        (
            {"comparisons": [compared("slr", "stock", 1, p=1) | {"system": "sdo"}]},
            "comparisons of the systems given, found 'sdo'",
        ),
        (
            {"comparisons": [compared("slr", "stock", 1, p=1) | {"seed": 2}]},
            "texts that were scored, found BLEU 30.0",
        ),
        (
            {"scores": [scored("slr", 1)]},
            "texts that were scored, found BLEU 28.0 there and None of stock",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(change, expected):
    with pytest.raises(ValueError, match=re.escape(expected)):
        make_table(**experiment(**change))


def test_other_signatures_and_sizes_are_refused():
    arguments = experiment()
    arguments["scores"][0]["metrics"]["TER"]["signature"] = "case:lc"
    with pytest.raises(ValueError, match="expected one signature of TER, found case:lc and case:mixed"):
        make_table(**arguments)
    arguments = experiment()
    arguments["runs"][0] = replace(arguments["runs"][0], parameters=7)
    with pytest.raises(ValueError, match=r"as many parameters in all runs of stock, found \[7, 1234567\]"):
        make_table(**arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "50% & $5 #1 a_b {x} ~ ^ \\",
            r"50\% \& \$5 \#1 a\_b \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}",
        ),
        ("`tree_path`, τ ≥ 1", r"\texttt{tree\_path}, $\tau$ $\geq$ 1"),
        ("a < b | c → Ä", r"a \textless{} b \textbar{}\allowbreak{} c $\rightarrow$ Ä"),
        ("one ` alone", "one ` alone"),
    ],
)
def test_what_means_something_to_latex_is_escaped(text, expected):
    assert latex(text) == expected


def test_cells_that_would_break_a_table():
    grid = Grid(headings=["system", "n"], rows=["a|b", ["[x] `c|d`", "1"], ["two\nlines", "2"]], title="t")
    assert grid.markdown().splitlines() == [
        "| system     |   n |",
        "| ---------- | --: |",
        r"| **a\|b**   |     |",
        r"| [x] `c\|d` |   1 |",
        "| two lines  |   2 |",
    ]
    rows = grid.latex().splitlines()
    assert r"{[}x] \texttt{c\textbar{}\allowbreak{}d} & 1 \\" in rows
    assert r"two lines & 2 \\" in rows
