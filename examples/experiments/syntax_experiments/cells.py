"""Numbers as they are read in a table."""

from __future__ import annotations

from syntax_experiments.results import EXACT_MATCH, LOSS, TOKENISED, Difference
from syntax_experiments.significance import OverSeeds

_HEADINGS = {
    "BLEU": "BLEU ↑",
    "chrF2": "chrF2 ↑",
    "TER": "TER ↓",
    TOKENISED: f"{TOKENISED} ↑",
    EXACT_MATCH: "exact match (%) ↑",
    LOSS: "valid. loss (bits) ↓",
    "parameters": "parameters",
    "words_per_second": "words/s",
    "hours": "hours",
}


def short_name(metric: str) -> str:
    return "loss" if metric == LOSS else metric


def heading(metric: str) -> str:
    return _HEADINGS.get(metric, metric)


def number(value: float | None, metric: str, *, scale: float | None = None) -> str:
    """A number as it is read; of metrics that are not ours 2 places from 10 on (`scale`, or the value itself), or 4."""
    if value is None:
        return ""
    if metric == "parameters":
        return f"{value / 1e6:.2f} M"
    if metric == "words_per_second":
        return f"{value:,.0f}"
    if metric == LOSS:
        return f"{value:.3f}"
    if metric in _HEADINGS or abs(value if scale is None else scale) >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}"


def signed(value: float, metric: str) -> str:
    text = number(abs(value), metric)
    return text if not text.strip("0.") else ("+" if value > 0 else "−") + text


def interval(over: OverSeeds | None, metric: str) -> str:
    if over is None:
        return ""
    text = signed(over.difference, metric)
    if over.low is None or over.high is None:
        return text
    return f"{text} [{signed(over.low, metric)}, {signed(over.high, metric)}]"


def p_value(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def within(difference: Difference, test: str) -> str:
    found = difference.within
    if not found:
        return ""
    if len(found) == 1:
        return p_value(next(iter(found.values()))[test]["p"])
    better, worse = difference.significant(test)
    signs = " ".join(f"{sign}{count}" for sign, count in (("+", better), ("−", worse)) if count)
    return f"{signs or 0} of {len(found)}"
