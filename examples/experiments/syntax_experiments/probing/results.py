"""The results of a task: what the probes of each layer found, and how layers differ, as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from syntax_experiments.probing.probes import Outcome
from syntax_experiments.probing.resampling import Drawings, Measured


class Row:
    """What the probes of some states found in all repeats.

    Args:
        outcomes: of each repeat.
        controls: of the control task in each repeat; none where nothing was learned from states.
    """

    def __init__(self, outcomes: Sequence[Outcome], drawings: Drawings, controls: Sequence[Outcome] = ()):
        self._not_converged = sum(not of.converged for of in [*outcomes, *controls])
        self._scores = _measured(outcomes, drawings)
        self._beside: dict[str, Measured] = {}
        if controls:
            control = _measured(controls, drawings)
            self._scores["selectivity"] = self._scores["accuracy"] - control["accuracy"]
            self._beside["control"] = control["accuracy"]
            if "balanced_accuracy" in control:
                self._beside["balanced_control"] = control["balanced_accuracy"]

    def result(self) -> dict[str, Any]:
        """Of each score the summary (:meth:`Measured.summary`), and how many optimisers did not come to an end."""
        found = {name: of.summary() for name, of in {**self._scores, **self._beside}.items()}
        return {**found, "not_converged": self._not_converged}

    def minus(self, other: Row) -> dict[str, Any]:
        """Of each score the summary of its difference to that of `other`, on the same drawings of sentences."""
        return {name: (of - other._scores[name]).summary() for name, of in self._scores.items()}


def _measured(outcomes: Sequence[Outcome], drawings: Drawings) -> dict[str, Measured]:
    scores = {
        "accuracy": [of.accuracy for of in outcomes],
        "balanced_accuracy": [of.balanced for of in outcomes if of.balanced],
        "spearman": [of.spearman for of in outcomes if of.spearman],
    }
    return {name: Measured.of(of, drawings) for name, of in scores.items() if of}


def differences(layers: Mapping[int, Row], random_encoder: Mapping[int, Row]) -> dict[str, dict[str, Any]]:
    """Of each layer that to layer 0, and that to the same layer of the random encoder, as far as these are there."""
    found: dict[str, dict[str, Any]] = {str(k): {} for k in layers}
    for k, row in layers.items():
        if k and 0 in layers:
            found[str(k)]["layer 0"] = row.minus(layers[0])
        if k in random_encoder:
            found[str(k)]["random encoder"] = row.minus(random_encoder[k])
    return found
