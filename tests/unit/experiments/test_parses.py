"""What fairseq-syntax-parse is asked for."""

from __future__ import annotations

import pytest
from steps_in import step_in

from syntax_experiments.steps import parses

STANZA = {"split": "train", "lang": "de", "kinds": ["conllu", "trees"], "parser": "stanza"}


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The commands that steps run, and are not run."""
    asked: list[list[str]] = []
    monkeypatch.setattr(parses, "run", lambda *command, **_: asked.append([str(word) for word in command]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text/train.de").write_text("das haus\n")
    return asked


def parse(tmp_path, settings, *, step=parses.parse, **places):
    step(step_in(tmp_path / "out", settings, inputs={"text": tmp_path / "text"}, places=places))


def option(command, name):
    return command[command.index(name) + 1]


@pytest.mark.parametrize(
    ("kinds", "processors"), [(["conllu", "trees"], "depparse,constituency"), (["trees"], "constituency")]
)
def test_stanza_makes_the_kinds_that_are_wanted(tmp_path, commands, kinds, processors):
    parse(tmp_path, {**STANZA, "kinds": kinds, "options": {"lang": "en", "pretokenized": True}})
    (command,) = commands
    assert option(command, "--processors") == processors
    assert option(command, "--lang") == "en", "the recipe says it, in the place of the source language"
    assert "--pretokenized" in command


def test_other_parsers_have_their_own_options_only(tmp_path, commands):
    parse(tmp_path, {**STANZA, "parser": "control", "options": {"control": "random"}})
    (command,) = commands
    assert not {"--processors", "--lang"} & set(command)
    assert option(command, "--control") == "random"


def test_it_reads_text_with_capitals_where_there_is_some(tmp_path, commands):
    parse(tmp_path, {**STANZA, "options": {}})
    (tmp_path / "text/train.de.cased").write_text("Das Haus\n")
    parse(tmp_path, {**STANZA, "options": {}})
    assert [option(command, "--input").rpartition("/")[2] for command in commands] == ["train.de", "train.de.cased"]
    assert {option(command, "--output-prefix").rpartition("/")[2] for command in commands} == {"train.de"}


def test_models_are_fetched_before_and_not_for_merging(tmp_path, commands):
    fetching = {"options": {"download": True, "stanza-dir": "/models"}}
    shard = {**STANZA, "options": {}, "shard": 1, "shards": 2}
    parse(tmp_path, shard, step=parses.parse_shard, parses="parses/0123", **fetching)
    fetch, command = commands
    assert "--download" in fetch
    assert "--download" not in command
    assert option(fetch, "--stanza-dir") == option(command, "--stanza-dir") == "/models"
    assert (option(command, "--num-shards"), option(command, "--shard-id")) == ("2", "1")
    assert option(command, "--output-prefix") == "parses/.0123/train.de"
    parse(tmp_path, {**STANZA, "options": {}}, shards=2, **fetching)
    assert len(commands) == 3
    assert "--merge" in commands[-1]
