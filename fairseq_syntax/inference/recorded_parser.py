"""Parsers of new text: those of the training data, with the user's changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairseq_syntax.inference.parse_sources import ParserHandle
from syntax_data.errors import short_repr
from syntax_data.features import parse_kinds
from syntax_data.parsers import FILE_PARSERS, MAX_TOKENS, Parser, parser_class, parser_names
from syntax_data.trees.formats import CONLLU

logger = logging.getLogger(__name__)

#: Keys of a record that describe the parsed files, not the parser.
OF_FILES = ("text", "sha256", "file")


def start_parsers(
    recorded: Mapping[str, Mapping[str, Any]],
    features: Iterable[str],
    *,
    name: str | None,
    lang: str,
    models: str | None,
    device: str | None,
) -> list[ParserHandle]:
    """Starts a parser, or one for each kind, and logs differences from the record.

    Args:
        recorded: for each kind of parse the training data's record of its parser, perhaps an empty one.
        features: names of the wanted features, which say the kinds of parse, and the word labels to ask for.
        name: of a parser to use instead, with everything else that is recorded.
        lang: language of the text, where none is recorded.
        models, device: as :meth:`~syntax_data.parsers.Parser.from_description` takes them.

    Raises:
        ValueError: there is no such parser, or it cannot be started so.
    """
    groups: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {}  # by description, its kinds' records
    wanted = set(features)
    for kind in parse_kinds(wanted):
        record = {key: value for key, value in recorded.get(kind, {}).items() if key not in OF_FILES}
        description = {"lang": lang, **record, **({} if name is None else {"name": name})}
        groups.setdefault(json.dumps(description, sort_keys=True), (description, {}))[1][kind] = record
    running = []
    for description, records in groups.values():
        if "word_labels" in description:
            of_conllu = wanted if CONLLU.name in records else ()
            description["word_labels"] = [label for label in description["word_labels"] if label in of_conllu]
        found = _restartable(list(records), description.get("name"))
        parser = found.from_description(description, kinds=list(records), models=models, device=device)
        if missing := [kind for kind in records if kind not in parser.kinds]:
            raise ValueError(f"the parser {description['name']} makes no {', '.join(missing)}, which the model needs")
        for message in _differences(records, parser.describe()):
            logger.warning(message)
        settings = description.get("settings", {})
        limits = {key: settings[key] for key in ("max_tokens", "max_characters") if key in settings}
        running.append(ParserHandle(parser, list(records), {"max_tokens": MAX_TOKENS, **limits}))
    return running


def _restartable(kinds: Sequence[str], name: object) -> type[Parser]:
    """Return the parser of that name; no other is loaded."""
    installed = [other for other in parser_names() if other not in FILE_PARSERS]
    found = f"found {name!r}" if name else "found none"
    if name in installed:
        parser = parser_class(str(name))
        if parser.restartable:
            return parser
        installed.remove(str(name))
        found += ", which cannot be started from what is recorded of it (it is not `restartable`)"
    raise ValueError(
        f"{', '.join(kinds)}: expected a parser that can be run here ({', '.join(installed)}) as --parser, or in the "
        f"signature of the training data, {found}; --parser NAME runs one of these, with everything else that is "
        "recorded; --parser none leaves parses out; for translation, --input-parses PREFIX reads existing ones"
    )


def _differences(records: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]) -> list[str]:
    """Return messages about differences of records from the running parser."""
    messages = []
    if unknown := [kind for kind, record in records.items() if not record]:
        messages.append(f"nothing is recorded of the parser of the training data's {', '.join(unknown)}")
    for record in filter(None, records.values()):
        # Settings are used, and word labels only if a model needs them.
        for key in [key for key in {**record, **found} if key not in ("settings", "word_labels")]:
            if not (key in record and key in found and _agree(record[key], found[key])):
                old, new = (short_repr(table[key]) if key in table else "none" for table in (record, found))
                messages.append(f"the parser's {key} differs from the training data's: expected {old}, found {new}")
    return list(dict.fromkeys(messages))


def _agree(recorded: Any, found: Any) -> bool:
    """Compare two values; of tables and lists, what is in use of the models."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return all(recorded[key] == found[key] for key in recorded.keys() & found.keys())
    if isinstance(recorded, list) and isinstance(found, list | tuple):
        return set(map(str, found)) <= set(map(str, recorded))
    return bool(recorded == found)
