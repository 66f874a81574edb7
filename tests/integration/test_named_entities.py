"""Named entities of stanza and spaCy: from text to MISC, to a feature, and of new text by the recorded parser."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq.data import Dictionary

import binarizing
from fairseq_syntax.inference.reader import source_reader
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from syntax_data.commands import parse
from syntax_data.parsers import Line
from syntax_data.parsers.spacy import SpacyParser
from syntax_data.parsers.stanza import StanzaParser
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import NoParse

ENTITIES = {"Mary Ann Jones": "PERSON", "Bob": "PERSON", "New York": "GPE"}
LINES = ["Mary Ann Jones met Bob &amp; Bob in New York .", "", "a dog runs ."]
SUBWORDS = ["Mary Ann Jo@@ nes met Bob &amp; Bob in New Yo@@ rk .", "", "a dog runs ."]
LABELS = ["B-PERSON I-PERSON I-PERSON O B-PERSON O B-PERSON O B-GPE I-GPE O", "", "O O O O"]


class StanzasPipeline:
    """What the adapter uses of ``stanza.Pipeline``, with a dictionary for its models; each word depends on the last."""

    without: tuple[str, ...] = ()

    def __init__(self, lang: str, *, processors: str, **options: object):
        found = [name for name in processors.split(",") if name not in self.without]
        self.processors = {name: SimpleNamespace(config={}) for name in found}

    def bulk_process(self, documents: list[Any], processors: list[str]) -> list[SimpleNamespace]:
        assert list(self.processors)[1:] == processors  # after the tokenizer
        found = [
            [self._sentence([word.text for word in s.words]) for s in document.sentences] for document in documents
        ]
        return [SimpleNamespace(sentences=sentences) for sentences in found]

    def _sentence(self, words: list[str]) -> SimpleNamespace:
        nothing = dict.fromkeys(("lemma", "upos", "xpos", "feats"))
        made = [SimpleNamespace(id=i, head=i - 1, deprel="dep", **nothing) for i in range(1, len(words) + 1)]
        tokens = [SimpleNamespace(words=[word]) for word in made]
        if "ner" in self.processors:
            for token, tag in zip(tokens, self._tags(words), strict=True):
                token.ner = tag
        return SimpleNamespace(tokens=tokens, words=made)

    def _tags(self, words: list[str]) -> list[str]:
        tags = ["O"] * len(words)
        for name, kind in ENTITIES.items():
            size = len(name.split())
            places = ["S"] if size == 1 else ["B", *"I" * (size - 2), "E"]
            for start in (i for i in range(len(words)) if words[i : i + size] == name.split()):
                tags[start : start + size] = [f"{place}-{kind}" for place in places]
        return tags


def spacys_pipeline(folder: Path, *, ner: bool) -> str:
    """A pipeline of a parser that has learnt nothing, and of rules for entities."""
    spacy = pytest.importorskip("spacy")
    from spacy.training import Example

    spacy.util.fix_random_seed(1)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("parser")
    gold = {"heads": [0, 0], "deps": ["ROOT", "dep"]}
    pipeline.initialize(lambda: [Example.from_dict(pipeline.make_doc("a b"), gold)])
    if ner:
        patterns = [{"label": kind, "pattern": name} for name, kind in ENTITIES.items()]
        pipeline.add_pipe("entity_ruler").add_patterns(patterns)
    pipeline.to_disk(folder)
    return str(folder)


@pytest.fixture(params=["stanza", "spacy"])
def parser(request, tmp_path, monkeypatch) -> SimpleNamespace:
    """A parser: its options with a model of entities and without, and its models."""
    if request.param == "spacy":
        models = spacys_pipeline(tmp_path / "spacy", ner=True)
        options = ["--parser=spacy", "--pretokenized", "--model"]
        without = [*options, spacys_pipeline(tmp_path / "without", ner=False)]
        return SimpleNamespace(options=[*options, models], without=without, models=models)
    monkeypatch.setattr(pytest.importorskip("stanza"), "Pipeline", StanzasPipeline)
    options = ["--parser=stanza", "--lang=en", "--processors=depparse", "--pretokenized"]
    return SimpleNamespace(options=options, without=options, models=None)


def parsed(folder: Path, *options: str) -> tuple[list[str], dict]:
    """The labels of each line, and the record of the parser."""
    (folder / "raw").write_text("".join(f"{line}\n" for line in LINES))
    parse.main([f"--input={folder}/raw", f"--output-prefix={folder}/train.en", *options])
    trees = [tree for _, tree in CONLLU.read(f"{folder}/train.en.conllu")]
    labels = ["" if isinstance(tree, NoParse) else " ".join(tree.misc("NER")) for tree in trees]
    return labels, json.loads((folder / "train.en.parse.json").read_text())["parses"]["conllu"]["parser"]


def test_entities_are_features_also_of_new_text(tmp_path, parser, caplog):
    labels, record = parsed(tmp_path, *parser.options, "--ner")
    assert (labels, record["word_labels"]) == (LABELS, ["NER"])
    binarizing.write(tmp_path, text="".join(f"{line}\n" for line in SUBWORDS), trees=None, conllu=None)
    binarizing.run(tmp_path, "--word-labels=NER", "--features=word,head")
    long, _, short = binarizing.labels(tmp_path, "NER")
    assert long == "B-PERSON I-PERSON I-PERSON I-PERSON O B-PERSON O B-PERSON O B-GPE I-GPE I-GPE O"
    assert short == LABELS[2]
    models = {"parser_models": parser.models, "parser_device": "cpu"}
    new_text = SyntaxTranslationConfig(data=str(tmp_path / "bin"), source_lang="en", target_lang="de", **models)
    dictionary = Dictionary.load(str(tmp_path / "bin/dict.en.txt"))
    with caplog.at_level(logging.WARNING):
        batch = source_reader(new_text, ["NER"]).read(LINES, SUBWORDS, dictionary)
        assert [row.tolist() for row in batch.features["NER"]] == binarizing.rows(tmp_path, "NER")
        (plain,) = source_reader(new_text, ["head"]).source.parsers
    assert plain.parser.word_labels == []  # a model that reads no entities does not pay for them
    assert "differs" not in caplog.text


def test_entities_only_where_they_are_asked_for(tmp_path, parser):
    labels, record = parsed(tmp_path, *parser.options)
    assert set(" ".join(labels).split()) == {"_"}
    assert "word_labels" not in record
    assert not {"ner", "entity_ruler"} & {*record.get("processors", ()), *record.get("pipeline", ())}
    with pytest.raises(SystemExit, match=r"parser had no word_labels, now word_labels .*--overwrite"):
        parsed(tmp_path, *parser.options, "--ner")


def test_models_without_entities_are_an_error(tmp_path, parser, monkeypatch):
    monkeypatch.setattr(StanzasPipeline, "without", ("ner",))  # stanza logs it, and goes on
    expected = (
        r"stanza cannot start for depparse, ner of 'en': .*no model for ner.*--download|"
        "--ner: expected a component such as ner or entity_ruler in the spaCy pipeline .*, found parser"
    )
    with pytest.raises(SystemExit, match=expected):
        parsed(tmp_path, *parser.without, "--ner")
    assert not (tmp_path / "train.en.conllu").exists()


def test_entities_need_dependency_trees_and_types_without_bars(tmp_path, monkeypatch):
    expected = "--ner: expected dependency parses, whose CoNLL-U has the named entities, found none"
    with pytest.raises(ValueError, match=expected):
        StanzaParser(lang="en", processors=["constituency"], pipeline=SimpleNamespace(), ner=True)
    model = spacys_pipeline(tmp_path / "spacy", ner=True)
    with pytest.raises(ValueError, match=expected):
        SpacyParser(model=model, kinds=["trees"], ner=True)
    monkeypatch.setitem(ENTITIES, "Bob", "A|B")
    barred = SpacyParser(model=spacys_pipeline(tmp_path / "barred", ner=True), ner=True)
    with pytest.raises(RuntimeError, match=r"expected types of entities without \|, found spaCy's 'B-A\|B'"):
        barred.parse([Line(1, "Bob")])
