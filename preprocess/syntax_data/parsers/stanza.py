"""The parser stanza (Qi et al. 2020)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

from syntax_data.parsers.live import LiveParser, RawText, SyntacticWord, Token, add_device, dependency_tree
from syntax_data.parsers.parser import Line, Parse
from syntax_data.parsers.record import file_hash
from syntax_data.text.folding import unescape_moses
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import NoParse, Tree, merge_leaves

_KINDS = {"depparse": CONLLU.name, "constituency": TREES.name}
_NEEDS = {"depparse": ("pos", "lemma"), "constituency": ("pos",)}
# stanza's tags are B, I and E in an entity of several tokens, S for one token.
_BIO = {"E": "I", "S": "B"}
# stanza's tokenizer replaces longer words by <UNK>, as all words of a batch are padded to the longest; so do we.
_LONGEST_WORD = 1000
_REMEDY = "fairseq-syntax-parse --download fetches models, --stanza-dir (or --parser-models) names their folder"
#: stanza's processor that splits multi-word tokens; languages without such tokens have none.
_MULTIWORD = "mwt"


class StanzaParser(LiveParser):
    """Dependency and constituency parses by stanza's pipelines.

    A multi-word token counts as one. Its head is from its word nearest to the root, and its place in the constituency
    tree that word's; without dependency parses, its first word's. With `multiword`, a given token is one if stanza's
    tokenizer finds exactly this token in the line, and several words in it. The network is used only for `download`.

    Args:
        lang: stanza's code of the language.
        processors: ``depparse``, ``constituency`` or both.
        device: ``cpu`` or ``cuda``; ``None``: a GPU if there is one.
        stanza_dir: folder of stanza's models; ``None``: stanza's own.
        download: whether missing models may be downloaded.
        pipeline: a ``stanza.Pipeline`` of these settings, or an equivalent; ``None``: a new one.
        settings: of :class:`LiveParser`.

    Raises:
        ValueError: stanza cannot start.
    """

    finds_entities = True
    splits_tokens = True

    def __init__(
        self,
        *,
        lang: str,
        processors: Sequence[str] = ("depparse", "constituency"),
        device: str | None = None,
        stanza_dir: str | None = None,
        download: bool = False,
        pipeline: Any = None,
        **settings: Any,
    ):
        super().__init__(**settings)
        for processor in processors:
            if processor not in _KINDS:
                raise ValueError(f"expected the processors {' or '.join(_KINDS)}, found {processor!r}")
        self.lang = lang
        self.kinds = [kind for processor, kind in _KINDS.items() if processor in processors]
        self._stages = [stage for stage in ("pos", "lemma") if any(stage in _NEEDS[p] for p in processors)]
        self._stages += [*processors, *(["ner"] if self.word_labels else [])]
        self._check_labels()
        if pipeline is None:
            pipeline = self._make_pipeline(device=device, stanza_dir=stanza_dir, download=download)
        self.pipeline = pipeline

    def _make_pipeline(self, *, device: str | None, stanza_dir: str | None, download: bool) -> Any:
        try:
            import stanza
        except ImportError as error:
            raise ValueError(f"--parser stanza: {error}; pip install 'fairseq-syntax[stanza]' installs it") from error
        try:
            with nullcontext() if download else _offline():
                pipeline = stanza.Pipeline(
                    self.lang,
                    processors=",".join(["tokenize", *self._stages]),
                    tokenize_pretokenized=self.pretokenized and not self.multiword,
                    download_method=stanza.DownloadMethod.REUSE_RESOURCES if download else None,
                    verbose=False,
                    **({"dir": stanza_dir} if stanza_dir else {}),
                    **({"device": device} if device else {}),
                )
            if self.word_labels and "ner" not in pipeline.processors:
                raise FileNotFoundError("no model for ner")  # of which stanza only warns
        except Exception as error:  # files that are missing or damaged, languages it has not, no GPU
            # A device that is not there cannot be downloaded.
            known = download or isinstance(error, (RuntimeError, AssertionError))
            hint = "" if known else f"; {_REMEDY}"
            wanted = ", ".join(stage for stage in self._stages if stage in (*_KINDS, "ner"))
            raise ValueError(f"stanza cannot start for {wanted} of {self.lang!r}: {error!r}{hint}") from error
        if self.multiword and _MULTIWORD not in pipeline.processors:
            raise ValueError(f"--multiword: expected a language with multi-word tokens to stanza, found {self.lang!r}")
        return pipeline

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--lang", required=True, metavar="LANG", help="stanza's code of the language")
        group.add_argument(
            "--processors",
            default="depparse,constituency",
            metavar="LIST",
            help="depparse for CoNLL-U, constituency for trees, or both (default: both)",
        )
        super().add_arguments(group)
        group.add_argument("--stanza-dir", metavar="DIR", help="folder of stanza's models (default: stanza's own)")
        group.add_argument("--download", action="store_true", help="download missing models (default: no network)")
        add_device(group)

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> StanzaParser:
        return cls(
            lang=args.lang,
            processors=args.processors.split(","),
            device=args.device,
            stanza_dir=args.stanza_dir,
            download=args.download,
            **cls.given_settings(args),
        )

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> StanzaParser:
        settings = cls.recorded_settings(description)
        wanted = [processor for processor, kind in _KINDS.items() if kind in kinds]
        recorded = [stage for stage in description.get("processors", ()) if stage in _KINDS]
        multiword = settings["multiword"] or not settings["pretokenized"]
        return cls(
            lang=description["lang"],
            # The place of a multi-word token in a tree depends on whether dependencies are parsed, too.
            processors=recorded if recorded and multiword else wanted,
            device=device,
            stanza_dir=models,
            **settings,
        )

    def describe(self) -> dict[str, Any]:
        import stanza

        return {
            "name": "stanza",
            "version": stanza.__version__,
            "lang": self.lang,
            "processors": self._stages,
            "models": self._models,
            **self._described_settings(),
        }

    @cached_property
    def _models(self) -> dict[str, dict[str, str]]:
        """Hashes of each processor's files."""
        models: dict[str, dict[str, str]] = {}
        for name, processor in self.pipeline.processors.items():
            paths = _model_paths(processor.config)
            models[name] = {key: file_hash(path) for key, path in paths.items() if path and os.path.isfile(path)}
        return models

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        parses: list[Parse | NoParse] = [NoParse("empty")] * len(lines)
        work = self._tokens(lines) if self.pretokenized else self._raw(lines)
        for i, parse in work:
            parses[i] = parse
        return parses

    def _tokens(self, lines: Sequence[Line]) -> Iterable[tuple[int, Parse | NoParse]]:
        tokens = {i: found for i, line in enumerate(lines) if (found := line.text.split())}
        words: dict[int, list[list[str] | None]] = {i: [None] * len(found) for i, found in tokens.items()}
        if self.multiword:
            words = dict(zip(tokens, self._words([lines[i].text for i in tokens]), strict=True))
        kept = sorted(tokens, key=lambda i: len(tokens[i]))  # stanza's tagger does not batch by length
        if not kept:
            return
        given = _document([_rows(tokens[i], words[i]) for i in kept])
        (document,) = self.pipeline.bulk_process([given], processors=self._stages)
        for i, sentence in zip(kept, document.sentences, strict=True):
            yield i, self._parse([sentence], [tokens[i]])

    def _words(self, lines: Sequence[str]) -> Iterable[list[list[str] | None]]:
        """Yield for each line the words of each token that is a multi-word token to stanza's tokenizer, too."""
        texts = [RawText.of(line) for line in lines]
        for text, document in zip(texts, self._tokenize([text.text for text in texts]), strict=True):
            tokens = [token for sentence in document.sentences for token in sentence.tokens]
            words = {(t.start_char, t.end_char): [word.text for word in t.words] for t in tokens if len(t.words) > 1}
            yield text.at_tokens(words)

    def _tokenize(self, texts: Sequence[str]) -> list[Any]:
        return self.pipeline.bulk_process(texts, processors=f"tokenize,{_MULTIWORD}")

    def _raw(self, lines: Sequence[Line]) -> Iterable[tuple[int, Parse | NoParse]]:
        texts = {i: RawText.of(line.text) for i, line in enumerate(lines) if line.text.strip()}
        kept: dict[int, Any] = {}
        lengths = {}
        for i, document in zip(texts, self._tokenize([text.text for text in texts.values()]), strict=True):
            lengths[i] = sum(len(sentence.tokens) for sentence in document.sentences)
            if lengths[i] > self.max_tokens:
                yield i, NoParse("too_long")
            elif lengths[i]:
                kept[i] = document
        kept = {i: kept[i] for i in sorted(kept, key=lengths.__getitem__)}
        for i, document in zip(kept, self.pipeline.bulk_process(kept.values(), processors=self._stages), strict=True):
            surface = texts[i].surface
            tokens = [[surface(t.start_char, t.end_char) for t in sentence.tokens] for sentence in document.sentences]
            yield i, self._parse(document.sentences, tokens)

    def _parse(self, sentences: Sequence[Any], tokens: Sequence[Sequence[str]]) -> Parse:
        """Return the parse of stanza's sentences of a line, with the line's own tokens."""
        parse = Parse(multiword=sum(len(token.words) > 1 for s in sentences for token in s.tokens))
        if CONLLU.name in self.kinds:
            parse.dependencies = dependency_tree(
                [list(map(self._token, s.tokens, forms)) for s, forms in zip(sentences, tokens, strict=True)],
                parser="stanza",
            )
        if TREES.name in self.kinds:
            parse.trees = []
            first_token = first_word = 0
            for sentence, surface in zip(sentences, tokens, strict=True):
                if parse.dependencies and parse.dependencies.head_words:
                    heads = parse.dependencies.head_words[first_token : first_token + len(surface)]
                    leaves = [head - first_word for head in heads]
                else:
                    leaves = [token.words[0].id - 1 for token in sentence.tokens]
                leaf_of = {leaf: i for i, leaf in enumerate(leaves)}
                parse.trees.append(merge_leaves(_tree(sentence.constituency), surface, leaf_of))
                first_token += len(surface)
                first_word += len(sentence.words)
        return parse

    def _token(self, token: Any, form: str) -> Token:
        """Return stanza's token in our form."""
        words = [SyntacticWord(w.head, w.deprel, w.lemma, w.upos, w.xpos, w.feats) for w in token.words]
        return Token(form, words, _bio(token.ner) if self.word_labels else None)


@contextmanager
def _offline() -> Iterator[None]:
    """Keep huggingface_hub from using the network.

    Some of stanza's models are built on its. It reads its constant HF_HUB_OFFLINE, which this restores. stanza itself
    has ``download_method``.
    """
    try:
        from huggingface_hub import constants
    except ImportError:  # nor can stanza have it then
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _document(sentences: list[list[dict[str, Any]]]) -> Any:
    """Return stanza's document of sentences of :func:`_rows`."""
    from stanza.models.common.doc import Document

    return Document(sentences)


def _rows(tokens: Sequence[str], multiword: Sequence[list[str] | None]) -> list[dict[str, Any]]:
    """Return the tokens of a sentence, some of several words, as stanza's document takes them."""
    rows: list[dict[str, Any]] = []
    first = 1
    for token, words in zip(map(_readable, tokens), multiword, strict=True):
        words = words or [token]
        numbers = range(first, first := first + len(words))
        if len(words) > 1:
            rows.append({"id": (numbers[0], numbers[-1]), "text": token})
        rows += [{"id": (number,), "text": word} for number, word in zip(numbers, words, strict=True)]
    return rows


def _readable(token: str) -> str:
    return unescape_moses(token)[0] if len(token) <= _LONGEST_WORD else "<UNK>"


def _bio(tag: str) -> str:
    prefix, mark, kind = tag.partition("-")
    return _BIO.get(prefix, prefix) + mark + kind


def _model_paths(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of a processor's models; ner may have several, each with models that it needs."""
    paths: dict[str, str] = {}
    for key, value in config.items():
        several = value if isinstance(value, list) else [value]
        for number, one in enumerate(several):
            if key == "dependencies":
                paths |= {f"{name}{number or ''}": path for name, path in _model_paths(one).items()}
            elif "_path" in key:
                paths[f"{key.removesuffix('_path')}{number or ''}"] = one
    return paths


def _tree(node: Any) -> Tree:
    """Return stanza's tree in our form."""
    root = Tree(node.label, [])
    stack = [(root, node)]
    while stack:
        tree, node = stack.pop()
        for child in node.children:
            if child.children:
                below = Tree(child.label, [])
                tree.children.append(below)
                stack.append((below, child))
            else:
                tree.children.append(child.label)
    return root
