"""The tables of a comparison: of each test set, and of each subset of it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from syntax_experiments.families import adjust_together
from syntax_experiments.make import Step
from syntax_experiments.recipe import TableOf
from syntax_experiments.resampled import Sentences, read_sentences, section
from syntax_experiments.results import LOSS, SACREBLEU
from syntax_experiments.run_record import Run, load_run
from syntax_experiments.table import COMPARED, System, Table, long_csv, make_table, summary_csv


def write(step: Step) -> None:
    """Writes ``table.md``, ``table.tex``, ``table.csv`` (all numbers), ``summary.csv`` (means and differences)."""
    settings = step.settings
    runs: list[Run] = []
    scores: list[dict[str, Any]] = []
    measurements: list[dict[str, Any]] = []
    comparisons: list[dict[str, Any]] = []
    sentences: Sentences = {}
    for name, path in step.inputs.items():
        kind, *of = name.split(" ")
        if kind == "run":
            runs.append(dataclasses.replace(load_run(path), system=of[0], seed=int(of[1])))
        elif kind == "scores":
            scores += _named(path / "scores.json", system=of[0], seed=int(of[1]))
        elif kind == "measurement":
            found = json.loads((path / "measured.json").read_text())
            values = found if isinstance(found, dict) else {name.split(" ", 3)[3]: found}
            command = json.loads((path / "made.json").read_text())["settings"]["command"]
            measurements.append({"system": of[0], "seed": int(of[1]), "values": values, "command": command})
            for column, lines in read_sentences(path / "output").items():
                sentences.setdefault(column, {}).setdefault(of[0], {})[int(of[1])] = lines
        elif kind == "comparison":
            comparisons += _named(path / "comparison.json", system=of[0], baseline=of[1], seed=int(of[2]))
    systems = [
        System(name=name, label=of["label"], group=of["group"] or None, paper=of["published"])
        for name, of in settings["systems"].items()
    ]
    published = [System(name=label, label=label, paper=of) for label, of in settings["published"].items()]
    first = next(iter(settings["tables"])), settings["tests"][0], None
    sections: dict[str, list[Table]] = {}
    for title, told in settings["tables"].items():
        one = TableOf(**told)
        names = one.systems or [system.name for system in systems]
        sections[title] = [
            make_table(
                [run for run in runs if run.system in names],
                [c for c in comparisons if c["system"] in names and c["baseline"] in one.baselines],
                scores=[found for found in scores if found["system"] in names],
                measurements=[found for found in measurements if found["system"] in names],
                # Papers' numbers are of the first test set.
                systems=[
                    s if (test, subset) == first[1:] else dataclasses.replace(s, paper={})
                    for s in systems
                    if s.name in names
                ],
                baselines=one.baselines,
                seeds=settings["seeds"],
                test=test,
                subset=subset,
                compared=_there(settings.get("compared", COMPARED), names, scores, measurements),
                published=published if (title, test, subset) == first else (),
                bounds=settings.get("bounds", {}) if (title, test, subset) == first else {},
            )
            for test in settings["tests"]
            for subset in (None, *settings["subsets"])
        ]
    tables = adjust_together([table for some in sections.values() for table in some])
    adjusted = iter(tables)
    parts = [_heading(settings)]
    for title, some in sections.items():
        parts += _section(title, settings["tables"][title].get("about", ""), list(islice(adjusted, len(some))))
        parts += section(sentences, some[0].systems, some[0].baselines)
    written = {
        "table.md": "\n".join(parts),
        "table.tex": "\n".join(table.latex() for table in tables),
        "table.csv": long_csv(tables),
        "summary.csv": summary_csv(tables),
    }
    for name, text in written.items():
        Path(step.folder, name).write_text(text, encoding="utf-8")


def _section(title: str, about: str, tables: Sequence[Table]) -> list[str]:
    """Paragraphs and tables. What is said of several tables, of a test set and of each part of it, is said once."""
    parts = [f"## {title}\n"] if title else []
    parts += [f"{_paragraph(about)}\n"] if about else []
    captions = [table.caption for table in tables]
    common = [line for line in captions[0] if all(line in caption for caption in captions)] if len(captions) > 1 else []
    parts += [table.markdown(said=common) for table in tables]
    return parts + (["### Notes\n\n" + "".join(f"- {line}\n" for line in common)] if common else [])


def _there(
    asked: Sequence[str], names: Sequence[str], scores: list[dict[str, Any]], measurements: list[dict[str, Any]]
) -> list[str]:
    """The metrics asked for, but for what was measured of none of these systems yet."""
    scored = {*SACREBLEU, LOSS, *(metric for one in scores for metric in one["metrics"])}
    measured = {column for one in measurements if one["system"] in names for column in one["values"]}
    return [metric for metric in asked if metric in scored | measured]


def _named(path: Path, **names: Any) -> list[dict[str, Any]]:
    return [{**found, **names} for found in json.loads(path.read_text())]


def _heading(settings: dict[str, Any]) -> str:
    about = _paragraph(settings["about"])
    return f"# {settings['title']}\n" + (f"\n{about}\n" if about else "")


def _paragraph(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())
