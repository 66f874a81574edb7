"""The parser spaCy, with benepar's component for constituents."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from syntax_data.parsers.live import LiveParser, RawText, SyntacticWord, Token, add_device, dependency_tree
from syntax_data.parsers.parser import Line, Parse
from syntax_data.parsers.record import file_hash
from syntax_data.text.folding import unescape_moses
from syntax_data.trees.brackets import parse_brackets
from syntax_data.trees.formats import CONLLU, TREES
from syntax_data.trees.tree import NoParse, Tree, merge_leaves

# They add nothing to a tree, and take time.
_ENTITIES = ("ner", "entity_ruler", "span_ruler")
_NOT_NEEDED = ("entity_linker", "spancat", "textcat", "textcat_multilabel")


class SpacyParser(LiveParser):
    """Parses by a spaCy pipeline (Honnibal et al. 2020).

    With benepar's component (Kitaev et al. 2019) in it, it also makes constituency trees. Nothing is downloaded: the
    pipeline is an installed package, or a folder.

    Args:
        model: the pipeline's name, or its folder.
        kinds: which parses are wanted; ``None``: all that the pipeline makes.
        device: ``cpu`` or ``cuda``; ``None``: a GPU if there is one.
        pipeline: a pipeline that is loaded already.
        settings: of :class:`LiveParser`.

    Raises:
        ValueError: the pipeline cannot be loaded, or does not parse, or finds no entities that are asked for.
    """

    finds_entities = True

    def __init__(
        self,
        *,
        model: str,
        kinds: Sequence[str] | None = None,
        device: str | None = None,
        pipeline: Any = None,
        **settings: Any,
    ):
        super().__init__(**settings)
        self.pipeline = _load(model, device, entities=bool(self.word_labels)) if pipeline is None else pipeline
        made = self._made()
        self.kinds = made if kinds is None else [kind for kind in made if kind in kinds]
        if not made:
            raise ValueError(f"the spaCy pipeline {model} parses neither dependencies nor (by benepar) constituents")
        self._check_labels()
        if self.word_labels and "doc.ents" not in self._assigned():
            found = ", ".join(self.pipeline.pipe_names)
            raise ValueError(
                f"--ner: expected a component such as ner or entity_ruler in the spaCy pipeline {model}, found {found}"
            )

    def _made(self) -> list[str]:
        """Return the kinds of parse that the pipeline makes."""
        constituents = any(meta == "benepar" for meta in self.pipeline.pipe_factories.values())
        return [CONLLU.name] * ("token.dep" in self._assigned()) + [TREES.name] * constituents

    def _assigned(self) -> set[str]:
        """Return the attributes that the pipeline's components set."""
        return {what for name in self.pipeline.pipe_names for what in self.pipeline.get_pipe_meta(name).assigns}

    @classmethod
    def add_arguments(cls, group: Any) -> None:
        group.add_argument("--model", required=True, metavar="NAME", help="a pipeline (en_core_web_sm), or its folder")
        super().add_arguments(group)
        add_device(group)

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> SpacyParser:
        return cls(model=args.model, device=args.device, **cls.given_settings(args))

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], *, kinds: Sequence[str], models: str | None, device: str | None
    ) -> SpacyParser:
        name = models or description.get("model", {}).get("name")
        if name is None:
            raise ValueError("the training data records no spaCy pipeline: --parser-models names one, or its folder")
        return cls(model=name, kinds=kinds, device=device, **cls.recorded_settings(description))

    def describe(self) -> dict[str, Any]:
        import spacy

        meta = self.pipeline.meta
        return {
            "name": "spacy",
            "version": spacy.__version__,
            "lang": self.pipeline.lang,
            "model": {"name": f"{meta['lang']}_{meta['name']}", "version": meta["version"]},
            "pipeline": list(self.pipeline.pipe_names),
            "models": self._models,
            **self._described_settings(),
        }

    @cached_property
    def _models(self) -> dict[str, str]:
        """Hashes of the pipeline's files; none if it was made in memory."""
        folder = self.pipeline.path
        files = () if folder is None else sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): file_hash(str(path)) for path in files}

    def parse(self, lines: Sequence[Line]) -> list[Parse | NoParse]:
        parses: list[Parse | NoParse] = [NoParse("empty")] * len(lines)
        documents, surfaces = {}, {}
        for i, line in enumerate(lines):
            document, surface = self._of_tokens(line) if self.pretokenized else self._of_text(line)
            if len(document) > self.max_tokens:
                parses[i] = NoParse("too_long")
            elif len(document):
                documents[i], surfaces[i] = document, surface
        for i, document in zip(documents, self.pipeline.pipe(documents.values()), strict=True):
            parses[i] = self._parse(document, surfaces[i])
        return parses

    def _of_text(self, line: Line) -> tuple[Any, list[str]]:
        """Return a line that spaCy splits into tokens, and the part of the line of each."""
        text = RawText.of(line.text, single_spaces=True)  # of two spaces the second would be a token
        document = self.pipeline.make_doc(text.text)
        return document, [text.surface(token.idx, token.idx + len(token)) for token in document]

    def _of_tokens(self, line: Line) -> tuple[Any, list[str]]:
        """Return a line of tokens, which is one sentence."""
        from spacy.tokens import Doc

        tokens = line.text.split()
        starts: Any = [i == 0 for i in range(len(tokens))]
        return Doc(self.pipeline.vocab, [unescape_moses(t)[0] for t in tokens], sent_starts=starts), tokens

    def _parse(self, document: Any, surfaces: Sequence[str]) -> Parse:
        sentences = list(document.sents)
        parse = Parse()
        if CONLLU.name in self.kinds:
            of_line = [[self._token(token, sentence, surfaces) for token in sentence] for sentence in sentences]
            parse.dependencies = dependency_tree(of_line, parser="spaCy")
        if TREES.name in self.kinds:
            parse.trees = [_tree(sentence, surfaces[sentence.start : sentence.end]) for sentence in sentences]
        return parse

    def _token(self, token: Any, sentence: Any, surfaces: Sequence[str]) -> Token:
        """Return spaCy's token in our form."""
        entity = f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O"
        return Token(surfaces[token.i], [_word(token, sentence)], entity if self.word_labels else None)


def _load(model: str, device: str | None, *, entities: bool) -> Any:
    try:
        import spacy

        if device is None:
            spacy.prefer_gpu()
        else:
            {"cpu": spacy.require_cpu, "cuda": spacy.require_gpu}[device]()
        with suppress(ImportError):  # its component can be loaded once it is imported
            import benepar  # noqa: F401
        folder = Path(model)  # as a string, the name of a package comes first, such as spacy's own
        exclude = _NOT_NEEDED if entities else (*_ENTITIES, *_NOT_NEEDED)
        return spacy.load(folder if (folder / "config.cfg").is_file() else model, exclude=exclude)
    except ImportError as error:
        raise ValueError(f"--parser spacy: {error}; pip install 'fairseq-syntax[spacy]' installs spaCy") from error
    except Exception as error:  # files that are missing or damaged, components that are not installed, no GPU
        hint = ""
        if isinstance(error, OSError):
            hint = f"; python -m spacy download {model} installs some; a folder (new text: --parser-models) will do"
        raise ValueError(f"spaCy cannot load the pipeline {model!r}: {error}{hint}") from error


def _word(token: Any, sentence: Any) -> SyntacticWord:
    if not sentence.start <= token.head.i < sentence.end:
        raise RuntimeError(f"spaCy's head of {token.text!r} is in another sentence")
    head = 0 if token.head.i == token.i else token.head.i - sentence.start + 1
    deprel = "root" if not head else token.dep_
    return SyntacticWord(head, deprel, token.lemma_, token.pos_, token.tag_, str(token.morph))


def _tree(sentence: Any, surfaces: Sequence[str]) -> Tree:
    """Return benepar's tree of a sentence."""
    trees: Iterable[Tree] | NoParse = parse_brackets(sentence._.parse_string, path="benepar", line=1)
    if isinstance(trees, NoParse):
        raise RuntimeError("benepar's parse is empty")
    (tree,) = trees
    return merge_leaves(tree, surfaces, {i: i for i in range(len(surfaces))})
