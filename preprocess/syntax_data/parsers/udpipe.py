"""The parser UDPipe."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

from syntax_data.parsers.live import LiveParser, RawText, SyntacticWord, Token, dependency_tree
from syntax_data.parsers.parser import Line, Parse
from syntax_data.parsers.record import file_hash
from syntax_data.text.folding import unescape_moses
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import NoParse


class UdpipeParser(LiveParser):
    """Dependency parses by UDPipe 1 (Straka and Straková 2017), from ufal.udpipe.

    A multi-word token has its head from its word nearest to the root. With `multiword`, a given token is one if the
    model's tokenizer finds exactly this token in the line, and several words in it.

    Args:
        model: file of the model.
        settings: of :class:`LiveParser`.

    Raises:
        ValueError: ufal.udpipe or the model cannot be loaded, or the model has no tokenizer, which `multiword` needs.
    """

    splits_tokens = True
    kinds = (CONLLU.name,)

    def __init__(self, *, model: str, **settings: Any):
        super().__init__(**settings)
        try:
            from ufal import udpipe
        except ImportError as error:
            raise ValueError(f"--parser udpipe: {error}; pip install 'fairseq-syntax[udpipe]' installs it") from error
        self._udpipe = udpipe
        self._path = model
        if not os.path.isfile(model):
            raise ValueError(f"--model {model}: expected a file with a model of UDPipe, found none")
        self._model = udpipe.Model.load(model)
        if self._model is None:
            raise ValueError(f"--model {model}: expected a model of UDPipe 1, found a file that it cannot load")
        if self.multiword and self._model.newTokenizer("") is None:
            raise ValueError(f"--multiword: expected a model with a tokenizer, found none in {model}")

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--model", required=True, metavar="FILE", help="a model of UDPipe 1")
        super().add_arguments(group)

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> UdpipeParser:
        return cls(model=args.model, **cls.given_settings(args))

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> UdpipeParser:
        file = description.get("model", {}).get("file", "")
        model = models if models is None or os.path.isfile(models) else os.path.join(models, file)
        if model is None or not os.path.isfile(model):
            raise ValueError(f"--parser-models: expected UDPipe's model {file!r} or its folder, found {models!r}")
        return cls(model=model, **cls.recorded_settings(description))

    def describe(self) -> dict[str, Any]:
        version = self._udpipe.Version.current()
        return {
            "name": "udpipe",
            "version": f"{version.major}.{version.minor}.{version.patch}",
            "model": {"file": os.path.basename(self._path), "sha256": file_hash(self._path)},
            **self._described_settings(),
        }

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        return [self._parse(line) for line in lines]

    def _parse(self, line: Line) -> Parse | NoParse:
        sentences, forms = self._of_tokens(line.text) if self.pretokenized else self._of_text(line.text)
        if not sentences:
            if line.text.strip():
                raise RuntimeError("UDPipe found no sentence")
            return NoParse("empty")
        if sum(map(len, forms)) > self.max_tokens:
            return NoParse("too_long")
        error = self._udpipe.ProcessingError()
        for sentence in sentences:
            for work in (self._model.tag, self._model.parse):
                if not work(sentence, self._udpipe.Model.DEFAULT, error):
                    raise RuntimeError(f"UDPipe: {error.message}")
        of_line = [
            [Token(form, words) for form, words in zip(surfaces, _words_of_tokens(sentence), strict=True)]
            for sentence, surfaces in zip(sentences, forms, strict=True)
        ]
        multiword = sum(len(token.words) > 1 for tokens in of_line for token in tokens)
        return Parse(dependencies=dependency_tree(of_line, parser="UDPipe"), multiword=multiword)

    def _of_text(self, line: str) -> tuple[list[Any], list[list[str]]]:
        """Return UDPipe's sentences of a line, and their tokens as in the line."""
        text = RawText.of(line)
        tokenizer = self._model.newTokenizer("ranges")
        if tokenizer is None:
            raise RuntimeError("the model of UDPipe has no tokenizer: --pretokenized")
        sentences = self._tokenize(text, tokenizer)
        return sentences, [[text.surface(*_place(token)) for token, _, _ in _spans(s)] for s in sentences]

    def _tokenize(self, text: RawText, tokenizer: Any) -> list[Any]:
        tokenizer.setText(text.text)
        error = self._udpipe.ProcessingError()
        sentences = []
        while tokenizer.nextSentence(sentence := self._udpipe.Sentence(), error):
            sentences.append(sentence)
        if error.occurred():
            raise RuntimeError(f"UDPipe: {error.message}")
        return sentences

    def _of_tokens(self, line: str) -> tuple[list[Any], list[list[str]]]:
        """Return a line of tokens, which is one sentence."""
        tokens = line.split()
        if not tokens:
            return [], []
        sentence = self._udpipe.Sentence()
        of_tokens = self._words(RawText.of(line)) if self.multiword else [None] * len(tokens)
        for token, words in zip(tokens, of_tokens, strict=True):
            first = len(sentence.words)  # word 0 is the root
            for word in words or [unescape_moses(token)[0]]:
                sentence.addWord(word)
            if words:
                sentence.multiwordTokens.append(self._udpipe.MultiwordToken(first, first + len(words) - 1, token))
        return [sentence], [tokens]

    def _words(self, text: RawText) -> list[list[str] | None]:
        """Return the words of each token of a line that is a multi-word token to the tokenizer, too."""
        sentences = self._tokenize(text, self._model.newTokenizer("ranges"))
        return text.at_tokens(
            {
                _place(token): [word.form for word in sentence.words[token.idFirst : token.idLast + 1]]
                for sentence in sentences
                for token in sentence.multiwordTokens
            }
        )


def _place(token: Any) -> tuple[int, int]:
    return token.getTokenRangeStart(), token.getTokenRangeEnd()


def _spans(sentence: Any) -> list[tuple[Any, int, int]]:
    """Return each token of a sentence, and the numbers of its first and last word."""
    first_of = {token.idFirst: token for token in sentence.multiwordTokens}
    found, number = [], 1
    while number < len(sentence.words):  # word 0 is the root
        token = first_of.get(number)
        last = number if token is None else token.idLast
        found.append((sentence.words[number] if token is None else token, number, last))
        number = last + 1
    return found


def _words_of_tokens(sentence: Any) -> list[list[SyntacticWord]]:
    words = [SyntacticWord(w.head, w.deprel, w.lemma, w.upostag, w.xpostag, w.feats) for w in sentence.words]
    return [words[first : last + 1] for _, first, last in _spans(sentence)]
