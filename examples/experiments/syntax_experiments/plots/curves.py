"""Validation loss over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syntax_experiments.plots.history import History
from syntax_experiments.plots.table import SPREAD, Table, spread


def learning_curves(histories: Mapping[str, Sequence[History]]) -> Table:
    """Each system's validation loss after its k-th validation, over its seeds.

    A system's curve ends where the first of its seeds does; a note says how many validations of others come later.

    Args:
        histories: one or several a system.
    """
    rows = []
    notes = []
    for system, seeds in histories.items():
        if later := longer(seeds):
            notes.append(f"{system}: {later} later validations of seeds that trained longer than another are left out.")
        for k, of_seeds in enumerate(zip(*seeds, strict=False), start=1):
            epoch = max(v.epoch for v in of_seeds)
            updates = round(sum(v.updates for v in of_seeds) / len(of_seeds))
            rows.append((system, k, epoch, updates, *spread([v.loss for v in of_seeds])))
    return Table(("system", "validation", "epoch", "updates", *SPREAD), rows, tuple(notes))


def longer(seeds: Sequence[History]) -> int:
    """How many validations come after the shortest run's last one."""
    return sum(map(len, seeds)) - len(seeds) * min(map(len, seeds))
