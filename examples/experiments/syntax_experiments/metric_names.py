"""Names of metrics that tables know, and how their numbers are printed."""

from __future__ import annotations

import math

#: The validation loss.
LOSS = "valid_loss"
#: Costs of a run.
COSTS = ("parameters", "updates", "words_per_second", "hours")
#: 1 of a run whose gates pre-warmup has kept as they were initialised.
NEVER_TRAINED = "gates_never_trained"
#: sacreBLEU's metrics, by which every translation is scored.
SACREBLEU = ("BLEU", "chrF2", "TER")
#: BLEU of tokens as the recipe's text has them, against tokens: that of multi-bleu.perl and fairseq-generate.
TOKENISED = "tokenised BLEU"
#: In percent, of translations that equal the reference.
EXACT_MATCH = "exact match"
#: Scores of predicted labels, and of predicted numbers; 100 times those of the literature.
OF_LABELS = ("accuracy", "MCC", "F1", "macro F1", "micro F1", "Pearson", "Spearman", "precision", "recall")
#: Metrics whose differences are shown, unless a recipe names others.
COMPARED = ("BLEU", *OF_LABELS[:-2], LOSS)

_HEADINGS = {
    "BLEU": "BLEU ↑",
    "chrF2": "chrF2 ↑",
    "TER": "TER ↓",
    TOKENISED: f"{TOKENISED} ↑",
    EXACT_MATCH: "exact match (%) ↑",
    **{name: f"{name} (%) ↑" if name == "accuracy" else f"{name} ↑" for name in OF_LABELS},
    LOSS: "valid. loss (bits) ↓",
    "words_per_second": "words/s",
}


def short_name(metric: str) -> str:
    """Return the name of a metric in a heading of differences."""
    return "loss" if metric == LOSS else metric


def heading(metric: str) -> str:
    """Return the heading of a column."""
    return _HEADINGS.get(metric, metric)


def number(value: float | None, metric: str, *, scale: float | None = None) -> str:
    """Format a number; of a recipe's metrics with 2 decimals if it or `scale` ≥ 10."""
    if value is None or math.isnan(value):
        return ""
    if metric == "parameters":
        return f"{value / 1e6:.2f} M"
    if metric == "words_per_second":
        return f"{value:,.0f}"
    if metric == LOSS:
        return f"{value:.3f}"
    if metric in (*_HEADINGS, "hours") or abs(value if scale is None else scale) >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}"


def signed(value: float | None, metric: str) -> str:
    """Format a difference."""
    if value is None or math.isnan(value):
        return ""
    text = number(abs(value), metric)
    return text if not text.strip("0.") else ("+" if value > 0 else "−") + text


def p_value(value: float | None) -> str:
    """Format a p-value."""
    if value is None or math.isnan(value):
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"
