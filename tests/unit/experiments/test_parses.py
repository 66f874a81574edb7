"""The command lines of fairseq-syntax-parse."""

from __future__ import annotations

import pytest
from steps_in import step_in

from syntax_experiments.steps import parses

STANZA = {"split": "train", "lang": "de", "kinds": ["conllu", "trees"], "parser": "stanza", "options": {}}


@pytest.fixture
def parse(monkeypatch, tmp_path):
    """Return the commands that the step runs, as mappings of options."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").mkdir()
    (tmp_path / "text/train.de").write_text("das haus\n")

    def commands(settings, **local):
        found = []
        monkeypatch.setattr(parses, "run", lambda *words, **_: found.append([str(word) for word in words]))
        step = step_in(
            tmp_path / "out", settings, inputs={"text": tmp_path / "text"}, local={"options": local}, threads=3
        )
        parses.parse(step)
        return [dict(zip(words, [*words[1:], None], strict=True)) for words in found]

    return commands


def test_stanza_makes_the_kinds_of_the_recipe(parse):
    (command,) = parse({**STANZA, "options": {"lang": "en", "pretokenized": True}})
    assert command["--processors"] == "depparse,constituency"
    assert command["--lang"] == "en", "the recipe's, instead of the source language"
    assert command["--workers"] == "3"
    assert "--pretokenized" in command
    assert parse({**STANZA, "kinds": ["trees"]})[0]["--processors"] == "constituency"


def test_other_parsers_have_their_own_options_only(parse):
    (command,) = parse({**STANZA, "parser": "control", "options": {"control": "random"}})
    assert not {"--processors", "--lang"} & command.keys()
    assert command["--control"] == "random"


def test_text_with_capitals_is_read_and_models_are_downloaded_before(parse, tmp_path):
    (lower,) = parse(STANZA)
    (tmp_path / "text/train.de.cased").write_text("Das Haus\n")
    download, cased = parse(STANZA, **{"download": True, "stanza-dir": "/models"})
    assert [one["--input"].rpartition("/")[2] for one in (lower, cased)] == ["train.de", "train.de.cased"]
    assert {one["--output-prefix"].rpartition("/")[2] for one in (lower, cased)} == {"train.de"}
    assert "--download" in download
    assert "--download" not in cased
    assert download["--stanza-dir"] == cased["--stanza-dir"] == "/models"
