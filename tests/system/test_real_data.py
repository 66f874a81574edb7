"""Real text and treebanks, from the folder that FAIRSEQ_SYNTAX_DATA names."""

from __future__ import annotations

import dataclasses
import gzip
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

import commands
import live_parsers
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.commands import binarize, parse
from syntax_data.parsers import Line
from syntax_data.parsers.stanza import StanzaParser
from syntax_data.trees.formats import FORMATS
from syntax_data.trees.tree import NoParse
from syntax_experiments.make import Step
from syntax_experiments.recipe import read_recipe
from syntax_experiments.steps import text as tokenising
from tiers import others_nightly

DATA = os.environ.get("FAIRSEQ_SYNTAX_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="FAIRSEQ_SYNTAX_DATA is not set: no real data to read")


def unpack(name: str, to: Path) -> Path:
    with gzip.open(Path(DATA or "") / name, "rb") as packed, open(to, "wb") as file:
        shutil.copyfileobj(packed, file)
    return to


def test_raw_multi30k_becomes_the_authors_words(tmp_path):
    """By sacremoses as the recipe says it, what the authors' script made by Moses: but for one quotation mark."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "out").mkdir()
    for lang in ("en", "de"):
        unpack(f"multi30k/raw/val.{lang}.gz", tmp_path / f"raw/valid.{lang}")
    (tmp_path / "raw/counts.json").write_text('{"valid": 1014}')
    asked = read_recipe("multi30k_en_de_raw").text
    settings = {"source": "en", "target": "de", "text": dataclasses.asdict(asked), "chosen": {}}
    tokenising.tokenize(Step(settings, {"corpus": tmp_path / "raw"}, {}, 1, tmp_path / "out"))
    others = {}
    for lang in ("en", "de"):
        theirs = unpack(f"multi30k/tok/val.lc.norm.tok.{lang}.gz", tmp_path / f"tok.{lang}").read_text().split("\n")
        ours = (tmp_path / f"out/valid.{lang}").read_text().split("\n")
        assert len(ours) == len(theirs) == 1015
        others[lang] = sum(a.split() != b.split() for a, b in zip(ours, theirs, strict=True))
    assert others == {"en": 0, "de": 1}


def binarized(text: Path, parses: Path, size: int) -> str:
    """The subwords of a text, after fairseq-preprocess and fairseq-syntax-binarize with its parses."""
    folder, lang = text.parent, text.suffix[1:]
    codes, bpe = folder / "codes", folder / f"bpe.{lang}"
    subprocess.run(["subword-nmt", "learn-bpe", "-s", str(size), "-i", text, "-o", codes], check=True)
    subprocess.run(["subword-nmt", "apply-bpe", "-c", codes, "-i", text, "-o", bpe], check=True)
    common = ["-s", lang, "-t", "xx", "--destdir", f"{folder}/data-bin", f"--testpref={folder}/bpe"]
    commands.preprocess_tokens(*common, f"--trainpref={folder}/bpe", "--only-source")
    binarize.main([*common, f"--testparse={parses.with_suffix('')}", "--workers", "2"])
    return bpe.read_text()


@pytest.mark.parametrize("treebank", others_nightly(["de_gsd", "fr_gsd", "en_ewt"], {"de_gsd"}))
def test_subwords_of_moses_tokens_are_aligned_to_treebank_tokens(tmp_path, capsys, treebank):
    """Raw text as translation models read it, against the gold parse of the same text: all of it is aligned."""
    path = unpack(f"ud/{treebank}-ud-test.conllu.gz", tmp_path / "gold.conllu")
    lang = treebank[:2]
    texts = [line[9:] for line in path.read_text().split("\n") if line.startswith("# text = ")]
    raw = tmp_path / f"raw.{lang}"
    raw.write_text("".join(f"{' '.join(text.split())}\n" for text in texts))
    moses = MosesTokenizer(lang)
    words = [moses.tokenize(text, aggressive_dash_splits=True, return_str=True) for text in texts]
    tokenised = tmp_path / f"tok.{lang}"
    tokenised.write_text("".join(f"{line.lower()}\n" for line in words))
    parse.main(["--input", str(raw), "--parser", "conllu", "--parse-file", str(path), "--max-tokens", "1000"])
    assert f"{len(texts)} lines: {len(texts)} parsed (100.00%), without a parse: 0" in capsys.readouterr().out
    subwords = binarized(tokenised, raw, 8000)
    report = capsys.readouterr().out
    assert len(texts) > 400
    assert f"{len(subwords.split())} subwords" in report
    assert f"conllu: {len(texts)} parsed (100.00%), without a parse: 0" in report


def refuse(*args, **kwargs):
    raise AssertionError("the network was touched")


#: Multi30k's text, and how it is parsed.
TEXTS = {"pretokenized": ("tok/val.lc.norm.tok.en.gz", ["--pretokenized"]), "raw": ("raw/val.en.gz", [])}


def read(text: Path) -> tuple[list, list]:
    """The parses of a text: dependencies and trees."""
    conllu, trees = ([entry for _, entry in FORMATS[kind].read(f"{text}.{kind}")] for kind in ("conllu", "trees"))
    return conllu, trees


STANZA = ["--lang", "en", "--stanza-dir", f"{DATA}/stanza_resources", "--device", "cpu", "--batch-size", "200"]


@pytest.mark.parametrize("kind", others_nightly(TEXTS, {"pretokenized"}))
def test_stanza_parses_multi30k(tmp_path, monkeypatch, kind):
    name, options = TEXTS[kind]
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    lines = unpack(f"multi30k/{name}", tmp_path / "all.en").read_text().splitlines()[:300]
    text = tmp_path / "val.en"
    text.write_text("".join(f"{line}\n" for line in lines))
    parse.main(["--input", str(text), *STANZA, *options])
    conllu, trees = read(text)
    assert len(conllu) == len(trees) == len(lines)
    for line, tree, constituents in zip(lines, conllu, trees, strict=True):
        assert [leaf for sentence in constituents for leaf in sentence.leaves()] == tree.tokens
        assert len(constituents) == tree.sentences == tree.heads.count(0)
        if options:
            assert tree.tokens == line.split()
        else:
            assert "".join(tree.tokens) == "".join(line.split())


def test_stanza_in_raw_mode(tmp_path):
    """Multi-word tokens, lines of several sentences, escapes, brackets, and what is no text at all."""
    text = tmp_path / "x.en"
    lines = [
        "I don't know. The man's dog isn't here!",
        "",
        "AT&amp;T said &quot;no&quot; ( see below ) .",
        " \t\u2028 ",
        "word " * 300,
        "Two\u00a0men  sit.\u200b",
    ]
    text.write_text("\n".join(lines))
    parse.main(["--input", str(text), *STANZA])
    units, constituents = read(text)
    assert units[1] == units[3] == constituents[1] == constituents[3] == NoParse("empty")
    assert units[4] == constituents[4] == NoParse("too_long")
    first, third = units[0], units[2]
    assert first.tokens == ["I", "don't", "know", ".", "The", "man's", "dog", "isn't", "here", "!"]
    assert first.sentences == first.heads.count(0) == 2
    for sentence in (range(1, 5), range(5, 11)):  # heads stay in their sentence
        assert all(first.heads[i - 1] in (0, *sentence) for i in sentence)
    assert [tree.leaves() for tree in constituents[0]] == [first.tokens[:4], first.tokens[4:]]
    assert "".join(third.tokens) == "".join(lines[2].split())  # the escapes are back
    assert "(" in third.tokens


def test_stanzas_entities(tmp_path):
    models = live_parsers.train_stanza_ner(Path(f"{DATA}/stanza_resources"), tmp_path / "models")
    parser = StanzaParser(lang="en", stanza_dir=str(models), device="cpu", ner=True)
    lines = [Line(1, "Mary Jones didn't run. Bob met Mary Jones in Paris."), Line(2, "Two dogs run.")]
    long, short = parser.parse(lines)
    assert long.tokens[2] == "didn't"  # of two words
    person, place = ["B-PERSON", "I-PERSON"], "B-GPE"
    assert long.dependencies.misc("NER") == [*person, "O", "O", "O", "B-PERSON", "O", *person, "O", place, "O"]
    assert short.dependencies.misc("NER") == ["O"] * 4
    described = parser.describe()
    assert set(described["models"]["ner"]) == {"model", "pretrain"}
    again = StanzaParser.from_description(described, kinds=["conllu"], models=str(models), device="cpu")
    assert again.describe() == described
    assert again.parse(lines) == [long, short]


def test_stanza_finds_multiword_tokens_among_those_that_are_given(tmp_path, capsys):
    """They are parsed as in raw text."""
    lines = ["I don't know .", "The man 's dog is n't here !", "Nothing &amp; everything , as we can't know ."]
    parsed = []
    for options in (["--pretokenized", "--multiword"], []):
        text = tmp_path / f"x{len(options)}.en"
        text.write_text("\n".join(lines))
        parse.main(["--input", str(text), *STANZA, *options])
        assert "21 tokens (2 of several words)" in capsys.readouterr().out
        parsed.append(read(text))
    assert [tree.tokens for tree in parsed[0][0]] == [line.split() for line in lines]
    assert parsed[0] == parsed[1]


def test_multi30k_with_its_parses(tmp_path, capsys):
    text = unpack("multi30k/tok/val.lc.norm.tok.en.gz", tmp_path / "val.en")
    for kind in ("trees", "conllu"):
        unpack(f"multi30k/parsed/val.en.{kind}.gz", tmp_path / f"val.en.{kind}")
    subwords = binarized(text, text, 500)
    report = capsys.readouterr().out
    words = len(text.read_text().split())
    assert f"1014 sentences; {words} words; {len(subwords.split())} subwords" in report
    for kind in ("trees", "conllu"):
        assert f"{kind}: 1014 parsed (100.00%), without a parse: 0" in report


@pytest.mark.nightly
@pytest.mark.parametrize("kind", TEXTS)
def test_new_text_is_parsed_and_translated_as_the_data_bin_is(tmp_path, kind):
    """fairseq-generate, fairseq-interactive with and without the parser, and translate agree."""
    _, options = TEXTS[kind]
    raw = unpack("multi30k/raw/val.en.gz", tmp_path / "all.en").read_text().splitlines()[:60]
    german = unpack("multi30k/raw/val.de.gz", tmp_path / "all.de").read_text().splitlines()[:60]
    moses = MosesTokenizer("en")
    (tmp_path / "bpe").mkdir()
    for side, lines in (("en", raw), ("de", german)):
        tokens = [moses.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in lines]
        (tmp_path / f"tok.{side}").write_text("".join(f"{line}\n" for line in tokens))
    (tmp_path / "raw.en").write_text("".join(f"{line}\n" for line in raw))
    codes = tmp_path / "codes"
    subprocess.run(["subword-nmt", "learn-bpe", "-s", "500", "-i", tmp_path / "tok.en", "-o", codes], check=True)
    for side in ("en", "de"):
        command = ["subword-nmt", "apply-bpe", "-c", codes, "-i", tmp_path / f"tok.{side}"]
        subprocess.run([*command, "-o", tmp_path / f"bpe/x.{side}"], check=True)
    text = tmp_path / ("tok.en" if options else "raw.en")
    parse.main(["--input", str(text), *STANZA, *options])
    data = tmp_path / "data-bin"
    prefixes = [f"--{name}pref={tmp_path}/bpe/x" for name in ("train", "valid", "test")]
    commands.preprocess_tokens("-s", "en", "-t", "de", *prefixes, "--destdir", str(data))
    parses = [f"--{name}parse={text.with_suffix('')}" for name in ("train", "valid", "test")]
    binarize.main(["-s", "en", "-t", "de", *prefixes, *parses, "--destdir", str(data)])
    commands.train(data, tmp_path / "run", "--max-update=30", "--syntax-masks=slr,sdoi")
    checkpoint = tmp_path / "run/checkpoint_last.pt"

    expected = commands.generate_scored(data, checkpoint)
    assert len(expected) == 60
    models = f"{DATA}/stanza_resources"
    encode = "--tokenizer=moses", "--bpe=subword_nmt", f"--bpe-codes={codes}", "--remove-bpe", "-s=en", "-t=de"
    buffers = "--buffer-size=25", "--batch-size=16"
    live = f"--parser-models={models}", "--parser-device=cpu"
    for more in (live, (f"--input-parses={text}",)):
        read, log = commands.interactive(raw, data, checkpoint, folder=tmp_path, more=(*encode, *buffers, *more))
        commands.assert_same(commands.scored(log, "H"), expected)
        assert "no parse" not in log, more
        assert "differs from the training data" not in log
    _, plain = commands.interactive(raw, data, checkpoint, folder=tmp_path, more=(*encode, *buffers, "--parser=none"))
    without = commands.scored(plain, "H")
    assert max(abs(without[n][0] - expected[n][0]) for n in expected) > 1e-4
    model = SyntaxTransformerModel.from_pretrained(
        str(checkpoint.parent), checkpoint.name, str(data), tokenizer="moses",
        bpe="subword_nmt", bpe_codes=str(codes), parser_models=models, parser_device="cpu",
    )  # fmt: skip
    translations = model.translate(raw, beam=2, max_len_b=20)
    assert translations == [read[n][1] for n in range(60)]
