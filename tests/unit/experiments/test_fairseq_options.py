"""Options that fairseq does not know are refused before anything is made, at their place in the recipe."""

from __future__ import annotations

import re

import pytest
from small_recipe import plan_of

from syntax_data.errors import InputError
from syntax_experiments.fairseq_options import errors_of, refuse_unknown


@pytest.mark.parametrize(
    ("above", "place", "said"),
    [
        ("train:\n  lerning-rate: 1", "above.yaml:3: train.lerning-rate", "fairseq-train knows no --lerning-rate"),
        ("generate: {bean: 5}", "above.yaml:2: generate.bean", "fairseq-generate knows no --bean"),
        (
            "train: {max-update: ten}",
            "above.yaml:2: train.max-update",
            "argument --max-update: invalid int value: 'ten'",
        ),
        (
            "systems: {gated: {options: {user-dir: nowhere}}}",
            "above.yaml:2: systems.gated.options.user-dir",
            "--user-dir: FileNotFoundError: {here}/nowhere",
        ),
        (
            "systems: {stock: {architecture: transformr}}",
            "above.yaml:2: systems.stock.architecture",
            "argument --arch/-a: invalid choice: 'transformr'",
        ),
    ],
)
def test_refused_with_its_place(tmp_path, monkeypatch, above, place, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"{re.escape(place)}: {re.escape(said.format(here=tmp_path))}"):
        refuse_unknown(plan_of(tmp_path, above), ask=errors_of)


def test_what_fairseq_knows_is_taken_and_what_is_trained_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse_unknown(plan_of(tmp_path, "generate: {beam: 5}"), ask=errors_of)
    there = plan_of(tmp_path, "train: {lerning-rate: 1}")
    for run in there.runs.values():
        model = tmp_path / run.inputs["model"].path
        model.mkdir(parents=True)
        (model / "metadata.json").write_text("{}")
    refuse_unknown(there, ask=errors_of)
