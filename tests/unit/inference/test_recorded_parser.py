"""New text is parsed as the training data was, but for what the user changes."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import pytest

from fairseq_syntax.inference.reader import source_reader
from fairseq_syntax.inference.recorded_parser import start_parsers
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.features.aligned import Settings
from syntax_data.parsers import Parser

RECORDED = {
    "name": "stanza",
    "version": "1.10",
    "lang": "de",
    "processors": ["pos", "lemma", "depparse", "constituency"],
    "pretokenized": True,
    "models": {"pos": {"model": "4f"}, "lemma": {"model": "6b"}},
    "settings": {"max_tokens": 80, "max_characters": 500, "batch_size": 10},
    "text": {"path": "train.src", "lines": 3, "sha256": "0a"},
    "sha256": "1b",
}
FREE_TEXT = {**RECORDED, "name": "stanza 1.10"}


class StandIn(Parser):
    """Stand-in for stanza that describes itself as it is started."""

    restartable = True
    kinds = ("conllu", "trees")

    def __init__(self, given: dict[str, Any]):
        self.given = given

    @classmethod
    def from_arguments(cls, args):
        raise NotImplementedError

    @classmethod
    def from_description(cls, description, *, kinds, models, device):
        return cls(dict(description))

    def describe(self):
        found = {
            "version": "1.10",
            "processors": ["pos", "constituency"],  # as few as are wanted
            "pretokenized": False,
            "models": {"pos": {"model": "4f"}, "ner": {"model": "5a"}},
        }
        return {**found, **{key: self.given[key] for key in ("name", "lang", "pretokenized") if key in self.given}}

    def parse(self, lines):
        raise NotImplementedError


@pytest.fixture
def start(tmp_path, monkeypatch, caplog):
    """Start the parsers for new text that a signature describes; also the log."""
    monkeypatch.setattr("syntax_data.parsers.stanza.StanzaParser", StandIn)

    def start(
        recorded: dict[str, dict[str, Any]], *, control: str | None = None, **options: Any
    ) -> tuple[list[Any], list[str]]:
        settings = asdict(Settings(control=control))
        split = SplitSignature(features=[], parser=recorded, settings=settings, versions={}, counts={}, files={})
        Signature({"train": split}).write(str(tmp_path / "syntax.src-tgt.src.json"))
        cfg = SyntaxTranslationConfig(data=str(tmp_path), source_lang="src", target_lang="tgt", **options)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            reader = source_reader(cfg, ["distance", "head", "word"])
        return list(getattr(reader.source, "parsers", ())), [record.getMessage() for record in caplog.records]

    return start


def both(recorded: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The same for both kinds of parse."""
    return {"trees": recorded, "conllu": {**recorded, "sha256": "2c"}}


@pytest.mark.parametrize(
    ("recorded", "options", "given", "said"),
    [
        (both(RECORDED), {}, {}, []),
        (both(FREE_TEXT), {"parser": "stanza"}, {"name": "stanza"}, ["name: 'stanza 1.10', found 'stanza'"]),
        ({**both(RECORDED), "trees": {**RECORDED, "name": "berkeley"}},  # of two makers: one parser makes both
         {"parser": "stanza"}, {"name": "stanza"}, ["name: 'berkeley', found 'stanza'"]),
        (both({k: v for k, v in {**RECORDED, "version": "1.5", "treebank": "gsd"}.items() if k != "lang"}),
         {}, {"lang": "src", "version": "1.5", "treebank": "gsd"},
         ["lang: none, found 'src'", "treebank: 'gsd', found none", "version: '1.5', found '1.10'"]),
        (both({**RECORDED, "models": {"pos": {"model": "ff"}}}), {}, {"models": {"pos": {"model": "ff"}}},
         ["models: {'pos': {'model': 'ff'}}, found {'ner': {'model': '5a'}, 'pos': {'model': '4f'}}"]),
    ],
)  # fmt: skip
def test_what_is_recorded_holds_but_for_what_the_user_changes(start, recorded, options, given, said):
    ((parser, kinds, limits),), messages = start(recorded, **options)
    assert set(kinds) == {"trees", "conllu"}
    assert limits == {"max_tokens": 80, "max_characters": 500}
    expected = {key: value for key, value in {**RECORDED, **given}.items() if key not in ("text", "sha256")}
    assert parser.given == expected
    found = [m.replace(" differs from the training data's: expected", ":") for m in messages]
    assert sorted(found) == [f"the parser's {one}" for one in said]


LABELLED = {**RECORDED, "word_labels": ["NER", "topic"]}


@pytest.mark.parametrize(
    ("recorded", "features", "asked"),
    [
        (both(LABELLED), ["head", "distance", "NER"], [["NER"]]),
        (both(LABELLED), ["head", "distance"], [[]]),
        ({"trees": LABELLED, "conllu": {**RECORDED, "lang": "en"}}, ["distance", "NER"], [None, []]),
    ],
)
def test_word_labels_that_are_wanted_come_from_the_parser_of_dependencies(start, caplog, recorded, features, asked):
    caplog.clear()
    options = {"name": None, "lang": "de", "models": None, "device": None}
    handles = start_parsers(recorded, features, **options)
    assert [handle.parser.given.get("word_labels") for handle in handles] == asked
    assert not caplog.records


def test_where_nothing_is_recorded_nothing_can_differ_and_that_is_said_once(start):
    ((_, kinds, limits),), said = start({"trees": {"sha256": "1b"}, "conllu": {"sha256": "2c"}}, parser="stanza")
    assert (limits, set(kinds)) == ({"max_tokens": 250}, {"trees", "conllu"})
    assert len(said) == 1
    assert said[0].startswith("nothing is recorded of the parser of the training data's ")


def test_a_parser_that_cannot_be_started_is_an_error_that_says_what_to_do(start, monkeypatch):
    with pytest.raises(ValueError, match=r"found 'stanza 1\.10'; --parser NAME runs one of these, with everything"):
        start(both(FREE_TEXT))
    monkeypatch.setattr(StandIn, "restartable", False)
    with pytest.raises(ValueError, match=r"run here \((?:(?!stanza)[^)])*\).*, found 'stanza', .* `restartable`"):
        start(both(RECORDED))


def test_a_control_that_cannot_parse_new_text_is_an_error(start):
    with pytest.raises(ValueError, match="the parser control: expected one that is recorded of the training data"):
        start(both(RECORDED), parser="control")
    with pytest.raises(ValueError, match=r"--parser control: expected --control right-branching, .*, found noise:5"):
        start(both({"name": "control", "control": "noise:5"}))


def test_a_control_of_the_binarizer_holds_for_new_text(start):
    assert start(both(RECORDED), control="flat")[0]
    message = "--control shuffled@2.*binarize it as a test split .*fairseq-syntax-predict; --parser none"
    with pytest.raises(ValueError, match=message):
        start(both(RECORDED), control="shuffled@2")
    with pytest.raises(ValueError, match=message):
        start(both(RECORDED), control="shuffled@2", input_parses="x")
    parsers, said = start(both(RECORDED), control="shuffled@2", parser="none")
    assert (parsers, said) == ([], ["--parser none: the model gets no parses, and is a plain Transformer"])
    parsers, (warning,) = start(both(RECORDED), control="no-parse")
    assert parsers == []
    assert warning.startswith("--control no-parse of the training data: the model gets no parses")
