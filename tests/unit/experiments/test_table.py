"""The table of a small experiment, as Markdown, CSV and LaTeX; what is missing in it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scipy")

from harness.run_record import Run
from harness.table import System, make_table

STOCK, SLR = System(name="stock", label="stock"), System(name="slr", label="`slr`, τ = 10", group="masks")
SDOI = System(name="sdoi", label="sdoi", group="masks", paper={"BLEU": 28.25})
BLEU = {"stock": [28.0, 27.0, 29.0], "slr": [30.0, 31.0, 29.5]}
SETTINGS = "case:mixed|tok:13a|version:2.6.0"


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
        "seeds": list(seeds),
        "test": "flickr",
    } | other


MARKDOWN = """\
### flickr

| system        |       BLEU ↑ | BLEU (paper) |      chrF2 ↑ |        TER ↓ | valid. loss (bits) ↓ | Δ BLEU to stock |     p |  seeds | parameters | words/s | hours |
| ------------- | -----------: | -----------: | -----------: | -----------: | -------------------: | --------------: | ----: | -----: | ---------: | ------: | ----: |
| stock         | 28.00 ± 1.00 |              | 48.00 ± 1.00 | 62.00 ± 1.00 |        4.440 ± 0.020 |                 |       |      3 |     1.23 M |   7,000 |  0.25 |
| **masks**     |              |              |              |              |                      |                 |       |        |            |         |       |
| `slr`, τ = 10 | 30.17 ± 0.76 |              | 50.17 ± 0.76 | 59.83 ± 0.76 |        4.397 ± 0.015 |           +2.17 | 0.044 |      3 |     1.23 M |   7,000 |  0.25 |
| sdoi          |              |        28.25 |              |              |                      |                 |       | 0 of 3 |            |         |       |

### flickr, against stock

| system        |        Δ BLEU [95%] |     p |      bs |      ar |            Δ loss [95%] |     p |
| ------------- | ------------------: | ----: | ------: | ------: | ----------------------: | ----: |
| **masks**     |                     |       |         |         |                         |       |
| `slr`, τ = 10 | +2.17 [+0.10, +4.23] | 0.044 | +1 of 3 | +2 of 3 | −0.043 [−0.085, −0.002] | 0.044 |
| sdoi          |                     |       |         |         |                         |       |

- ±: standard deviation over seeds (n − 1).
"""  # noqa: E501


def test_markdown():
    print(make_table(**experiment()).markdown())
    assert make_table(**experiment()).markdown() == MARKDOWN
