"""The gates' weights: over training, and at its end (Hou 2024, Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syntax_experiments.plots.dumps import Dump
from syntax_experiments.plots.history import History
from syntax_experiments.plots.table import SPREAD, Table, spread


def gates_over_training(histories: Mapping[str, Sequence[History]]) -> Table:
    """The mean gate of each mask and layer at each validation, over seeds; systems without gates are not in it."""
    rows = []
    for system, seeds in histories.items():
        for k, of_seeds in enumerate(zip(*seeds, strict=False), start=1):
            updates = round(sum(v.updates for v in of_seeds) / len(of_seeds))
            epoch = max(v.epoch for v in of_seeds)
            common = set.intersection(*(set(v.gates) for v in of_seeds))
            for mask, layer, head in (key for key in of_seeds[0].gates if key in common):
                if not head:
                    values = [v.gates[mask, layer, 0] for v in of_seeds]
                    rows.append((system, mask, layer, k, epoch, updates, *spread(values)))
    return Table(("system", "mask", "layer", "validation", "epoch", "updates", *SPREAD), rows)


def gates_of_heads(seeds: Sequence[History]) -> Table:
    """The gate of each mask, layer and head at each validation of a run; the head 0 is their mean.

    A head has no counterpart in another seed's run: of several, it is the first whose log or record has heads.

    Args:
        seeds: the runs of a system.
    """
    columns = ("mask", "layer", "head", "validation", "epoch", "updates", "gate")
    known = [any(head for validation in run for *_, head in validation.gates) for run in seeds]
    if not any(known):
        return Table(columns, [])
    first = known.index(True)
    rows = [
        (mask, layer, head, k, v.epoch, v.updates, gate)
        for k, v in enumerate(seeds[first], start=1)
        for (mask, layer, head), gate in v.gates.items()
    ]
    return Table(columns, rows, (f"Of run {first + 1} of {len(seeds)}.",) if len(seeds) > 1 else ())


def gates_at_end(histories: Mapping[str, Sequence[History]], dumps: Mapping[str, Sequence[Dump]]) -> Table:
    """The gate of each mask, layer and head: of a system's dumps the mean over sentences, else the last validation's.

    The head is 0 where only the mean over heads is known, as from a log.
    """
    rows: list[tuple[object, ...]] = []
    for system in dict.fromkeys([*dumps, *histories]):
        runs: list[Mapping[tuple[str, int, int], float]] = [dump.mean_gates() for dump in dumps.get(system, ())]
        runs = [gates for gates in runs if gates] or [history[-1].gates for history in histories.get(system, ())]
        if not runs:
            continue
        common = [key for key in runs[0] if all(key in gates for gates in runs)]
        heads = any(head for _, _, head in common)
        rows += [(system, *key, *spread([g[key] for g in runs])) for key in common if bool(key[2]) == heads]
    return Table(("system", "mask", "layer", "head", *SPREAD), rows)
