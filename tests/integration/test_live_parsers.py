"""spaCy and UDPipe behind fairseq-syntax-parse, with small models that are trained here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import live_parsers
from syntax_data.commands import parse
from syntax_data.parsers import Line, Parse, Parser
from syntax_data.parsers.spacy import SpacyParser
from syntax_data.parsers.udpipe import UdpipeParser
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import NoParse

#: Lines, and why they have no parse.
ODD = {
    "": "empty",
    "Die  Stadt\tliegt &quot;hier&quot; ( am Meer ) .": "",
    "Er wohnt im Haus. Ich sehe den Mann.": "",
    "\u3000 \u00a0": "empty",
    "x" * 300: "too_long",
    "¼ ½ 🙂": "",
}


@pytest.fixture(scope="module")
def grammar(tmp_path_factory):
    return live_parsers.quickstart_parses(tmp_path_factory.mktemp("grammar"), 200)


@pytest.fixture(scope="module")
def models(tmp_path_factory, grammar):
    """By parser, the value of its --model."""
    pytest.importorskip("spacy")
    pytest.importorskip("ufal.udpipe")
    folder = tmp_path_factory.mktemp("models")
    return {
        "spacy": live_parsers.train_spacy(grammar[:170], folder / "spacy"),
        "udpipe": live_parsers.train_udpipe(folder / "german.udpipe"),
    }


def made(name: str, model: Path, **options: Any) -> Parser:
    return {"spacy": SpacyParser, "udpipe": UdpipeParser}[name](model=str(model), **options)


def run(text: Path, name: str, model: Path, *more: str) -> list:
    """The dependency trees that the command makes."""
    parse.main(["--input", str(text), "--parser", name, "--model", str(model), "--batch-size", "2", *more])
    return [tree for _, tree in CONLLU.read(f"{text}.conllu")]


BOTH = pytest.mark.parametrize("name", ["spacy", "udpipe"])


@BOTH
def test_each_line_has_an_entry(tmp_path, models, name, capsys):
    text = tmp_path / "x.de"
    text.write_text("".join(f"{line}\n" for line in ODD), encoding="utf-8")
    trees = run(text, name, models[name], "--max-tokens", "40", "--max-characters", "250")
    assert [tree.reason if isinstance(tree, NoParse) else "" for tree in trees] == list(ODD.values())
    for line, tree in zip(ODD, trees, strict=True):
        if not isinstance(tree, NoParse):
            assert "".join(tree.tokens) == "".join(line.split())
    assert "3 parsed" in capsys.readouterr().out
    record = json.loads((tmp_path / "x.de.parse.json").read_text())
    assert record["parses"]["conllu"]["parser"]["name"] == name
    written = Path(f"{text}.conllu").read_bytes()
    Path(f"{text}.conllu").unlink()
    run(text, name, models[name], "--max-tokens", "40", "--max-characters", "250", "--workers", "2")
    assert Path(f"{text}.conllu").read_bytes() == written


@BOTH
def test_tokens_that_are_given_are_kept_and_new_text_is_parsed_as_the_training_data_was(models, name):
    lines = [Line(1, "Er wohnt im Haus . &apos;s ist gut .")]
    parser = made(name, models[name], pretokenized=True, max_tokens=30)
    (found,) = parser.parse(lines)
    assert isinstance(found, Parse)
    assert (found.tokens, found.sentences) == (lines[0].text.split(), 1)
    assert made(name, models[name], max_tokens=3).parse(lines) == [NoParse("too_long")]
    description = {**parser.describe(), "settings": {"max_tokens": 30}}
    folder = models[name] if name == "spacy" else models[name].parent
    again = type(parser).from_description(description, kinds=["conllu"], models=str(folder), device="cpu")
    assert again.describe() == parser.describe()
    assert again.parse(lines) == [found]


def test_spacys_heads_are_those_that_it_says(models, grammar):
    parser = SpacyParser(model=str(models["spacy"]))
    held_out = grammar[170:]
    parses = parser.parse([Line(n, " ".join(tree.tokens)) for n, tree in enumerate(held_out, start=1)])
    right = total = 0
    for tree, found in zip(held_out, parses, strict=True):
        parser.check(Line(1, " ".join(tree.tokens)), found)
        sure = [i for i, label in enumerate(tree.deprel) if label in ("det", "nsubj", "obj", "case", "root")]
        right += sum(found.dependencies.heads[i] == tree.heads[i] for i in sure)
        total += len(sure)
        assert found.dependencies.upos == tree.upos
    assert right > 0.97 * total


def test_udpipes_words_of_one_token_have_one_head(models):
    line = Line(1, "Die Stadt liegt am Meer. Der Hund wohnt im Haus.")
    parser = UdpipeParser(model=str(models["udpipe"]))
    (found,) = parser.parse([line])
    parser.check(line, found)
    assert " ".join(found.dependencies.tokens) == "Die Stadt liegt am Meer . Der Hund wohnt im Haus ."
    assert found.dependencies.heads == [2, 3, 0, 5, 3, 3, 8, 9, 0, 11, 9, 9]
    assert (found.multiword, found.sentences) == (2, 2)


def test_tokens_that_udpipe_reads_as_several_words(models):
    line = Line(1, "Er wohnt im Haus . &apos;s ist Im am-Meer am")
    model = str(models["udpipe"])
    given, raw = UdpipeParser(model=model, pretokenized=True, multiword=True), UdpipeParser(model=model)
    (found,) = given.parse([line])
    given.check(line, found)
    assert (found.dependencies.tokens, found.multiword, found.sentences) == (line.text.split(), 3, 1)
    # the same sentence as raw text has the same parse
    same = [parser.parse([Line(1, "Die Stadt liegt am Meer .")]) for parser in (given, raw)]
    assert same[0] == same[1]
    assert same[0][0].multiword == 1
    again = UdpipeParser.from_description(given.describe(), kinds=["conllu"], models=model, device=None)
    assert again.parse([line]) == [found]
    (unasked,) = UdpipeParser(model=model, pretokenized=True).parse([line])
    assert (unasked.dependencies.tokens, unasked.multiword) == (line.text.split(), 0)
    with pytest.raises(ValueError, match="--multiword: expected --pretokenized"):
        UdpipeParser(model=model, multiword=True)


def test_tokens_that_are_given_to_a_model_without_a_tokenizer(models, tmp_path):
    model = live_parsers.train_udpipe(tmp_path / "german.udpipe", tokenizer="none")
    line = Line(1, "Er wohnt im Haus .")
    (found,) = UdpipeParser(model=str(model), pretokenized=True).parse([line])
    assert (found.dependencies.tokens, found.multiword) == (line.text.split(), 0)
    with pytest.raises(ValueError, match="--multiword: expected a model with a tokenizer, found none in"):
        UdpipeParser(model=str(model), pretokenized=True, multiword=True)
    with pytest.raises(RuntimeError, match="the model of UDPipe has no tokenizer: --pretokenized"):
        UdpipeParser(model=str(model)).parse([line])


BENEPAR = """
from spacy.language import Language
from spacy.tokens import Span


@Language.factory("benepar")
class Benepar:
    def __init__(self, nlp, name):
        pass

    def __call__(self, document):
        return document

    def to_disk(self, path, exclude=()):
        pass

    def from_disk(self, path, exclude=()):
        pass


def parse_string(sentence):
    words = [f"(X {token.text.replace('(', '-LRB-').replace(')', '-RRB-')})" for token in sentence]
    return f"(S {words[0]} (VP {' '.join(words[1:])}))" if len(words) > 1 else f"(S {words[0]})"


Span.set_extension("parse_string", getter=parse_string, force=True)
"""


@pytest.mark.nightly
def test_constituents_by_benepars_component(tmp_path, models):
    """benepar's own models cannot be had offline: a module of its name stands in, which sets what benepar sets."""
    (tmp_path / "benepar.py").write_text(BENEPAR)
    save = f"import spacy, benepar; n = spacy.load({str(models['spacy'])!r}); n.add_pipe('benepar'); n.to_disk('both')"
    program = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(tmp_path)}, "check": True}
    subprocess.run([sys.executable, "-c", save], **program)
    (tmp_path / "x").write_text("the pilot saw ( the &quot;farmer )\n\nthe pilot\n")
    subprocess.run(["fairseq-syntax-parse", "--input", "x", "--parser", "spacy", "--model", "both"], **program)
    trees, conllu = ([p for _, p in kind.read(kind.path(str(tmp_path / "x")))] for kind in (TREES, CONLLU))
    assert trees[1] == NoParse("empty")
    for of_line, tree in zip(trees[::2], conllu[::2], strict=True):
        assert [word for part in of_line for word in part.leaves()] == tree.tokens
        assert len(of_line) == tree.sentences
    assert conllu[0].tokens[3:6] == ["(", "the", "&quot;"]


def test_a_head_in_another_sentence_is_no_root(models):
    """A component after the parser may cut its sentences."""
    spacy = pytest.importorskip("spacy")
    pipeline = spacy.load(models["spacy"])
    pipeline.add_pipe("sentencizer", config={"punct_chars": ["saw"], "overwrite": True})
    with pytest.raises(RuntimeError, match="is in another sentence"):
        SpacyParser(model="in memory", pipeline=pipeline).parse([Line(1, "the pilot saw the farmer with the lantern")])


@pytest.mark.parametrize("pretokenized", [True, False])
@BOTH
def test_no_character_is_lost(models, name, pretokenized):
    parser = made(name, models[name], pretokenized=pretokenized)
    for odd in "\x00\x01\x1b\x7f\x80\x9f\u200b\ufeff\ufffd\uffff":
        texts = ["*Er wohnt.", "Er wo*hnt.", "Er * wohnt.", "Er wohnt.*", "*", "Er. ** Er."]
        lines = [Line(n, text.replace("*", odd)) for n, text in enumerate(texts, start=1)]
        for line, found in zip(lines, parser.parse(lines), strict=True):
            parser.check(line, found)
            assert "".join(found.tokens) == "".join(line.text.split())


def test_udpipes_model_of_new_text(models):
    model = models["udpipe"]
    record = {"model": {"file": model.name}}
    for description in (record, {}):  # whose file is given itself
        found = UdpipeParser.from_description(description, kinds=["conllu"], models=str(model), device=None)
        assert found.describe()["model"]["file"] == model.name
    for description, place in (({}, str(model.parent)), (record, None)):
        with pytest.raises(ValueError, match="--parser-models: expected UDPipe's model"):
            UdpipeParser.from_description(description, kinds=["conllu"], models=place, device=None)


def test_what_is_a_model_and_what_is_not(tmp_path, models, monkeypatch):
    spacy = pytest.importorskip("spacy")
    monkeypatch.chdir(models["spacy"].parent)  # where a folder is called as a package is
    assert SpacyParser(model="spacy").describe() == SpacyParser(model=str(models["spacy"])).describe()
    with pytest.raises(ValueError, match="parses neither dependencies nor"):
        SpacyParser(model="blank", pipeline=spacy.blank("en"))
    with pytest.raises(ValueError, match=r"cannot load the pipeline 'xx_none': .* python -m spacy download xx_none"):
        SpacyParser(model="xx_none")
    with pytest.raises(ValueError, match="expected a file with a model of UDPipe, found none"):
        UdpipeParser(model=str(tmp_path / "none"))
    (tmp_path / "broken").write_text("no model")
    with pytest.raises(ValueError, match="expected a model of UDPipe 1"):
        UdpipeParser(model=str(tmp_path / "broken"))
    for package, parser, model in (("spacy", SpacyParser, "en"), ("ufal", UdpipeParser, str(models["udpipe"]))):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ValueError, match=r"pip install 'fairseq-syntax\[(spacy|udpipe)\]'"):
            parser(model=model)
