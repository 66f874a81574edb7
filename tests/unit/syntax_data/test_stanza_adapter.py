"""Parses from stanza's documents, with a pipeline of plain objects instead of stanza's."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from syntax_data.parsers import Line, Parse, parse_lines
from syntax_data.parsers.record import file_hash
from syntax_data.parsers.stanza import StanzaParser
from syntax_data.trees.brackets import format_brackets
from syntax_data.trees.tree import NoParse


@dataclass
class Node:
    label: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Sentence:
    tokens: list[SimpleNamespace]
    constituency: Node | None

    @property
    def words(self) -> list[SimpleNamespace]:
        return [word for token in self.tokens for word in token.words]


def tree(text: str) -> Node:
    """``(S (X a) (X b))`` as stanza holds it: words are nodes, too."""
    stack = [Node("top")]
    for opened, closed, word in re.findall(r"\((\S+)|(\))|([^\s()]+)", text):
        if opened:
            stack.append(Node(opened))
            stack[-2].children.append(stack[-1])
        elif closed:
            stack.pop()
        else:
            stack[-1].children.append(Node(word))
    return stack[0].children[0]


def sentence(text: str, tokens: str, heads: Sequence[int | None], brackets: str | None, first: int = 0) -> Sentence:
    """A sentence of a text from character `first` on. `tokens` are as in the text, of several words if marked ``*N``;
    `heads` are of the words."""
    made: list[SimpleNamespace] = []
    words = 0
    for token in tokens.split():
        surface, _, several = token.partition("*")
        first = text.index(surface, first)
        ids = range(words + 1, words + 1 + int(several or 1))
        labels = {"lemma": None, "upos": "X", "xpos": None, "feats": None}
        of_token = [SimpleNamespace(id=i, head=heads[i - 1], deprel=f"d{i}", **labels) for i in ids]
        made.append(SimpleNamespace(words=of_token, start_char=first, end_char=first + len(surface)))
        first += len(surface)
        words += len(ids)
    return Sentence(made, brackets and tree(brackets))


class Pipeline:
    """Returns its documents, by text; of stanza's own, sentences in which each word depends on the one before."""

    def __init__(self, documents: dict[str, list[Sentence]] | None = None):
        self.documents = {text: SimpleNamespace(sentences=sentences) for text, sentences in (documents or {}).items()}
        self.processors: dict[str, Any] = {}
        self.calls: list[tuple[str, list[Any]]] = []

    def bulk_process(self, documents: Iterable[Any], processors: str | Sequence[str]) -> list[Any]:
        given = list(documents)
        self.calls.append((processors if isinstance(processors, str) else ",".join(processors), given))
        return [self._parsed(document) for document in given]

    def _parsed(self, document: Any) -> Any:
        if isinstance(document, str):
            return self.documents[document]
        if not isinstance(document, SimpleNamespace):
            for made in document.sentences:
                for word in made.words:
                    word.head, word.deprel = word.id - 1, f"d{word.id}"
                made.constituency = Node("S", [Node(word.text) for word in made.words])
        return document


def given_words(pipeline: Pipeline) -> list[list[str]]:
    """The words of the sentences of the last call, which has one document."""
    (document,) = pipeline.calls[-1][1]
    return [[word.text for word in made.words] for made in document.sentences]


def parser(pipeline: Pipeline, **options: Any) -> StanzaParser:
    return StanzaParser(lang="xx", pipeline=pipeline, **options)


def lines(*texts: str) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, start=1)]


def parsed(found: Parse | NoParse) -> tuple[list[str], list[int], str]:
    """Tokens, heads, trees."""
    assert isinstance(found, Parse)
    assert found.dependencies is not None
    assert found.trees is not None
    return found.dependencies.tokens, found.dependencies.heads, format_brackets(found.trees).rstrip("\n")


TWO = "Sie geht zum Haus. Im Garten."
SENTENCES = [
    # zum = zu dem: both depend on Haus
    sentence(TWO, "Sie geht zum*2 Haus .", [2, 0, 5, 5, 2, 2], "(S Sie (V geht) (P (A zu) (N (D dem) (N Haus))) .)"),
    # Im = In dem: dem depends on Garten, In on dem, so that dem is nearest to the root
    sentence(TWO, "Im*2 Garten .", [2, 3, 0, 3], "(P (A In) (N (D dem) (N Garten)) .)", first=19),
]  # fmt: skip
SENTENCES[0].words[0].__dict__.update(lemma="x", upos=None, xpos="Y", feats="A=b")


def test_two_sentences_with_multiword_tokens_are_one_entry():
    pipeline = Pipeline({TWO: SENTENCES})
    (found,) = parser(pipeline).parse(lines(TWO))
    tokens, heads, trees = parsed(found)
    assert tokens == ["Sie", "geht", "zum", "Haus", ".", "Im", "Garten", "."]
    assert heads == [2, 0, 4, 2, 2, 7, 0, 7]
    # zum takes the place of zu, the first of two words that are as near to the root; Im that of dem
    assert trees == "(S Sie (V geht) (P (A zum) (N (N Haus))) .) (P (N (D Im) (N Garten)) .)"
    assert found.sentences == 2
    assert found.multiword == 2
    assert [columns[7] for columns in found.dependencies.columns] == ["d1", "d2", "d3", "d5", "d6", "d2", "d3", "d4"]
    assert found.dependencies.columns[0][2:8] == ["x", "_", "Y", "A=b", "2", "d1"]
    assert [name for name, _ in pipeline.calls] == ["tokenize,mwt", "pos,lemma,depparse,constituency"]
    parser(pipeline).check(Line(1, TWO), found)


def test_one_kind_alone():
    (found,) = parser(Pipeline({TWO: SENTENCES}), processors=["depparse"]).parse(lines(TWO))
    assert found.trees is None
    assert found.dependencies.heads == [2, 0, 4, 2, 2, 7, 0, 7]
    pipeline = Pipeline({TWO: SENTENCES})
    (found,) = parser(pipeline, processors=["constituency"]).parse(lines(TWO))
    assert found.dependencies is None
    # without dependencies a multi-word token takes the place of its first word
    assert format_brackets(found.trees[1:]) == "(P (A Im) (N (N Garten)) .)\n"
    assert pipeline.calls[-1][0] == "pos,constituency"
    with pytest.raises(ValueError, match="expected the processors depparse or constituency, found 'ner'"):
        parser(Pipeline(), processors=["ner"])


def test_lines_keep_their_order_and_empty_ones_are_not_parsed():
    texts = {text: [sentence(text, text, range(len(text.split())), f"(S {text})")] for text in ("a b c", "d", "e f")}
    pipeline = Pipeline({**texts, "\u200b": []})
    found = parser(pipeline).parse(lines("a b c", "", "d", " \t\u2028 ", "\u200b", "e f"))
    assert [parse if isinstance(parse, NoParse) else parse.tokens for parse in found] == [
        ["a", "b", "c"], NoParse("empty"), ["d"], NoParse("empty"), NoParse("empty"), ["e", "f"],
    ]  # fmt: skip
    (_, split), (_, stages) = pipeline.calls
    assert split == ["a b c", "d", "\u200b", "e f"]
    assert [len(document.sentences[0].tokens) for document in stages] == [1, 2, 3]  # like lengths together
    assert parser(Pipeline()).parse(lines("", " ")) == [NoParse("empty")] * 2
    found = parser(pipeline, max_tokens=2).parse(lines("a b c", "d"))
    assert [found[0], type(found[1])] == [NoParse("too_long"), Parse]
    assert len(pipeline.calls[-1][1]) == 1  # the long one is found before it is parsed


def test_stanza_reads_plain_text_and_the_parse_has_the_lines_own():
    """Moses' escapes are undone, white space is a space; tokens are cut from the line as it is."""
    line = "AT&amp;T\u00a0said &quot;1\u2009000&quot;"
    read = 'AT&T said "1 000"'
    made = sentence(read, 'AT&T said " 1 000', range(5), None)
    made.tokens[3].end_char = 16  # a token with a space in it
    made.tokens[4].start_char, made.tokens[4].end_char = 16, 17
    (found,) = parser(Pipeline({read: [made]}), processors=["depparse"]).parse(lines(line))
    assert found.dependencies.tokens == ["AT&amp;T", "said", "&quot;", "1 000", "&quot;"]


def test_tokens_are_kept():
    pytest.importorskip("stanza")
    pipeline = Pipeline()
    texts = ["a b&apos;s ( c", "", f"{'x' * 1001} d", "e"]
    found = parser(pipeline, pretokenized=True).parse(lines(*texts))
    assert [parse if isinstance(parse, NoParse) else parsed(parse)[0] for parse in found] == [
        text.split() if text else NoParse("empty") for text in texts
    ]
    # one call, like lengths together, no escapes, no word so long that all are padded to it
    assert [stages for stages, _ in pipeline.calls] == ["pos,lemma,depparse,constituency"]
    assert given_words(pipeline) == [["e"], ["<UNK>", "d"], ["a", "b's", "(", "c"]]
    assert parser(pipeline, pretokenized=True).parse(lines("", " ")) == [NoParse("empty")] * 2


@pytest.mark.parametrize(
    ("line", "tokenized", "words"),
    [
        ("a zum b", "a zum*2 b", [["a"], ["zu", "dem"], ["b"]]),
        ("zum  zum", "zum*2 zum*2", [["zu", "dem"], ["zu", "dem"]]),
        ("zum a&apos;s", "zum*2 a's*3", [["zu", "dem"], ["a's1", "a's2", "a's3"]]),
        ("a zu m", "a zu*2 m", [["a"], ["zu1", "zu2"], ["m"]]),
        ("a zum", "a zu m", [["a"], ["zum"]]),  # no multi-word token
        ("xzumx zumx", "x zum*2 x zum*2 x", [["xzumx"], ["zumx"]]),  # parts of tokens
        ("do n't", "do n't", [["do"], ["n't"]]),
        ("\u200b", "", [["\u200b"]]),
    ],
)
def test_tokens_that_stanza_reads_as_several_words(line, tokenized, words):
    """The tokens stay those of the line; the parser gets the words."""
    pytest.importorskip("stanza")
    read = " ".join(line.replace("&apos;", "'").split(" "))
    made = sentence(read, tokenized, [0] * 9, None)
    for token in made.tokens:
        text = read[token.start_char : token.end_char]
        split = {"zum": ["zu", "dem"]}.get(text, [f"{text}{word.id - token.words[0].id + 1}" for word in token.words])
        for word, form in zip(token.words, split, strict=False):
            word.text = form
    pipeline = Pipeline({read: [made] if made.tokens else []})
    with_words = parser(pipeline, pretokenized=True, multiword=True)
    (found,) = with_words.parse(lines(line))
    tokens, heads, trees = parsed(found)
    assert given_words(pipeline) == [[word for of_token in words for word in of_token]]
    assert (tokens, found.multiword) == (line.split(), sum(len(of_token) > 1 for of_token in words))
    assert heads == list(range(len(words)))
    assert trees == f"(S {' '.join(tokens)})"
    assert [stages for stages, _ in pipeline.calls] == ["tokenize,mwt", "pos,lemma,depparse,constituency"]
    with_words.check(Line(1, line), found)


@pytest.mark.parametrize(
    ("settings", "recorded", "started"),
    [
        ({"pretokenized": True}, "pos,lemma,depparse,constituency", "pos,constituency"),
        ({"pretokenized": True, "multiword": True}, "pos,lemma,depparse,constituency", None),
        ({"pretokenized": False}, "pos,lemma,depparse,constituency", None),
        ({"pretokenized": False}, "", "pos,constituency"),
    ],
)
def test_trees_of_new_text_are_made_beside_the_dependencies_they_depend_on(monkeypatch, settings, recorded, started):
    monkeypatch.setattr(StanzaParser, "_make_pipeline", lambda *_, **__: Pipeline())
    description = {"lang": "xx", **settings, "processors": recorded.split(",")}
    again = StanzaParser.from_description(description, kinds=["trees"], models=None, device=None)
    described = again.describe()
    assert described["processors"] == (started or recorded).split(",")
    assert {name: described[name] for name in settings} == settings


def heads(*values: int | None) -> Any:
    def change(made: Sentence) -> None:
        for word, head in zip(made.words, values, strict=True):
            word.head = head

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda made: setattr(made, "constituency", None), "AttributeError"),
        (lambda made: setattr(made, "constituency", tree("(S a b)")), ""),
        (heads(2, 1, 2), "stanza's parse is not a tree: .*found a cycle"),
        (heads(0, 9, 1), "stanza's parse is not a tree: .*out of range"),
        (heads(0, None, 1), "stanza's parse is not a tree"),
        (lambda made: made.tokens.pop(), "expected the tokens of 'a b c'|found"),
        (lambda made: setattr(made.tokens[1], "words", []), ""),
    ],
    ids=["no tree", "a leaf too few", "cycle", "no such head", "no head", "a token too few", "a token of no words"],
)
def test_documents_with_pieces_missing_cost_one_line(damage, said):
    texts = {text: [sentence(text, text, range(3), f"(S {text})")] for text in ("a b c", "d e f")}
    damage(texts["a b c"][0])
    errors = {}
    given = lines("a b c", "d e f")
    made = parser(Pipeline(texts))
    found = parse_lines(made, given, max_tokens=9, failed=lambda line, error: errors.update({line.number: error}))
    assert found[0] == NoParse("failed")
    assert parsed(found[1])[0] == ["d", "e", "f"]
    assert list(errors) == [1]
    assert re.search(said, repr(errors[1]))


def test_the_record_names_the_models(tmp_path):
    stanza = pytest.importorskip("stanza")
    (tmp_path / "model.pt").write_bytes(b"weights")
    pipeline = Pipeline()
    config = {"model_path": str(tmp_path / "model.pt"), "pretrain_path": None, "forward_charlm_path": "no/such", "x": 1}
    several = {"model_path": [config["model_path"]] * 2, "dependencies": [{}, {"pretrain_path": config["model_path"]}]}
    pipeline.processors = {"pos": SimpleNamespace(config=config), "ner": SimpleNamespace(config=several)}
    found = file_hash(config["model_path"])
    assert parser(pipeline, pretokenized=True).describe() == {
        "name": "stanza", "version": stanza.__version__, "lang": "xx", "pretokenized": True,
        "processors": ["pos", "lemma", "depparse", "constituency"],
        "models": {"pos": {"model": found}, "ner": {"model": found, "model1": found, "pretrain1": found}},
    }  # fmt: skip


def test_only_downloads_use_the_network(monkeypatch):
    stanza = pytest.importorskip("stanza")
    constants = pytest.importorskip("huggingface_hub").constants
    seen = []

    def make(lang: str, **options: Any) -> None:
        seen.append((constants.HF_HUB_OFFLINE, options["download_method"]))
        raise FileNotFoundError("no models")

    monkeypatch.setattr(stanza, "Pipeline", make)
    for before in (False, True):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", before)
        with pytest.raises(ValueError, match=r"stanza cannot start .*no models.*--download fetches models"):
            StanzaParser(lang="xx")
        assert constants.HF_HUB_OFFLINE is before
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(ValueError, match=r"no models'\)$"):
        StanzaParser(lang="xx", download=True)
    assert seen == [(True, None), (True, None), (False, stanza.DownloadMethod.REUSE_RESOURCES)]


def test_a_language_without_multiword_tokens(monkeypatch):
    stanza = pytest.importorskip("stanza")
    monkeypatch.setattr(stanza, "Pipeline", lambda *_, **__: Pipeline())
    with pytest.raises(ValueError, match=r"--multiword: expected a language with multi-word tokens .*found 'xx'"):
        StanzaParser(lang="xx", pretokenized=True, multiword=True)


def test_stanza_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", None)
    with pytest.raises(ValueError, match=r"--parser stanza: .*; pip install 'fairseq-syntax\[stanza\]' installs it$"):
        StanzaParser(lang="xx", processors=["depparse"])
