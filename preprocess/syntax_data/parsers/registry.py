"""The installed parsers: ours, and the entry points of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from syntax_data.errors import short_repr
from syntax_data.parsers.parser import Parser

#: The group of entry points whose names are parsers and whose values are subclasses of :class:`Parser`.
ENTRY_POINTS = "fairseq_syntax.parsers"

#: Parsers that read parses from a file.
FILE_PARSERS = {
    "conllu": "syntax_data.parsers.files:ConlluParser",
    "conllup": "syntax_data.parsers.files:ConllupParser",
    "conll09": "syntax_data.parsers.files:Conll09Parser",
    "trees": "syntax_data.parsers.files:TreesParser",
    "corenlp": "syntax_data.parsers.corenlp:CorenlpParser",
}
_OURS = {
    "stanza": "syntax_data.parsers.stanza:StanzaParser",
    "spacy": "syntax_data.parsers.spacy:SpacyParser",
    "udpipe": "syntax_data.parsers.udpipe:UdpipeParser",
    **FILE_PARSERS,
    "control": "syntax_data.parsers.control_trees:ControlParser",
}


def parser_names() -> list[str]:
    """Return the names of the installed parsers."""
    return sorted(_entries())


def parser_class(name: str) -> type[Parser]:
    """Load the parser of that name. Raises :class:`ValueError` if that fails."""
    entry = _entries()[name]
    try:
        found: type[Parser] = entry.load()
    except Exception as error:  # anything that a module does when it is imported
        raise ValueError(f"the parser {name} ({entry.value}) cannot be loaded: {short_repr(error)}") from error
    return found


def _entries() -> dict[str, EntryPoint]:
    ours = [EntryPoint(name, value, ENTRY_POINTS) for name, value in _OURS.items()]
    return {entry.name: entry for entry in [*ours, *entry_points(group=ENTRY_POINTS)]}
