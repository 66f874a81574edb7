"""What probes found, as Markdown tables, in percent; ρ as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def markdown(results: Mapping[str, Any]) -> str:
    """The table of all scores, and that of differences, of what :func:`~.experiment.probe` found.

    In brackets are the intervals of the test sentences; ± stands where repeats differ.
    """
    lines = [
        "| task | states | accuracy [95%] | control | selectivity | balanced [95%] | control | ρ [95%] |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task, found in results.items():
        rows = {"most frequent answer": found["majority"], "none: lengths and places": found["surface"]}
        rows.update({_layer(k): row for k, row in found["layers"].items()})
        rows.update({f"{_layer(k)}, random encoder": row for k, row in found.get("random_encoder", {}).items()})
        for name, row in rows.items():
            cells = [
                _score(row, "accuracy", interval=True),
                _score(row, "control"),
                _score(row, "selectivity"),
                _score(row, "balanced_accuracy", interval=True),
                _score(row, "balanced_control"),
                _score(row, "spearman", interval=True),
            ]
            lines.append(f"| {task} | {name} | {' | '.join(cells)} |")
    scores = ("accuracy", "balanced_accuracy", "spearman")
    differences = [
        f"| {task} | layer {k} − {name} | {' | '.join(_score(row, of, interval=True, sign='+') for of in scores)} |"
        for task, found in results.items()
        for k, others in found["differences"].items()
        for name, row in others.items()
    ]
    if differences:
        lines += ["", "| task | difference | accuracy [95%] | balanced [95%] | ρ [95%] |"]
        lines += ["| --- | --- | ---: | ---: | ---: |", *differences]
    return "\n".join(lines)


def _layer(number: str) -> str:
    return f"layer {number}{' (embeddings)' * (number == '0')}"


def _score(row: Mapping[str, Any], name: str, *, interval: bool = False, sign: str = "") -> str:
    if name not in row:
        return ""
    of, digits = (1, 3) if name == "spearman" else (100, 1)
    found = row[name]

    def number(value: float, sign: str = sign) -> str:
        return f"{of * value:{sign}.{digits}f}"

    said = number(found["mean"])
    if len(set(found["values"])) > 1:
        said += f" ± {number(found['sd'], '')}"
    return f"{said} [{', '.join(map(number, found['interval']))}]" if interval else said
