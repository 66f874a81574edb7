"""Columns of CoNLL-U, and of the formats whose rows are read as its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from syntax_data.errors import short_repr

_CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_NEEDED = ("ID", "FORM", "HEAD", "DEPREL")
_CONLL09 = ("ID", "FORM", "LEMMA", "PLEMMA", "POS", "PPOS", "FEAT", "PFEAT", "HEAD", "PHEAD", "DEPREL", "PDEPREL")


@dataclass(frozen=True)
class Columns:
    """The columns of a format with a row for each word.

    Attributes:
        format: the format's name, for messages.
        names: of the columns, from the left.
        sources: of columns of CoNLL-U, the names of those that are read instead; others have the same name, or are
            not there.
        more: whether rows may have more columns than `names`.
    """

    format: str
    names: tuple[str, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    more: bool = False

    @classmethod
    def of_conllu_plus(cls, line: str) -> Columns:
        """The columns that the first line of a CoNLL-U Plus file names; :class:`ValueError` if it does not."""
        key, _, value = line.partition("=")
        names = tuple(value.split())
        if not line.startswith("#") or key[1:].strip() != "global.columns":
            raise ValueError(f"expected '# global.columns = ID FORM …', found {short_repr(line)}")
        if missing := [name for name in _NEEDED if name not in names]:
            raise ValueError(f"expected a column {missing[0]}, found {short_repr(value.strip())}")
        if names[0] != "ID" or len(set(names)) < len(names):
            raise ValueError(f"expected different columns, the first of them ID, found {short_repr(value.strip())}")
        return cls("CoNLL-U Plus", names)

    def source(self, name: str) -> str:
        """The column that is read for one of CoNLL-U's."""
        return self.sources.get(name, name)

    @cached_property
    def _places(self) -> list[int]:
        """The place of each of CoNLL-U's columns; -1: not there."""
        sources = map(self.source, _CONLLU)
        return [self.names.index(name) if name in self.names else -1 for name in sources]

    def read(self, row: str) -> list[str]:
        """CoNLL-U's ten columns of a row; ``_`` where the format has none.

        An empty column may follow the last. Columns of CoNLL-U Plus that CoNLL-U has not are in MISC, ``MY:NER`` as
        ``MY_NER=…``. Raises :class:`ValueError` for another number of columns, or a ``|`` in such a column.
        """
        due = len(self.names)
        columns = row.split("\t", due)
        if len(columns) < due or (len(columns) > due and not self.more and columns[due].strip()):
            least = "at least " if self.more else ""
            raise ValueError(f"expected {least}{due} tab-separated columns, found {self._other_columns(row)}")
        if self.names == _CONLLU:
            return columns[:due]
        found = [columns[place] if place >= 0 else "_" for place in self._places]
        if self.format == "CoNLL-U Plus":
            found[-1] = self._with_other_columns(found[-1], columns)
        return found

    def _with_other_columns(self, misc: str, columns: list[str]) -> str:
        """MISC, and the columns that CoNLL-U has not, as far as they have a value."""
        others = [(name, value) for name, value in zip(self.names, columns, strict=False) if name not in _CONLLU]
        if wrong := [name for name, value in others if "|" in value]:
            raise ValueError(f"expected no | in the column {wrong[0]}, which MISC is to have, found one")
        found = [f"{name.replace(':', '_')}={value}" for name, value in others if value not in ("", "_")]
        return "|".join([*([] if misc == "_" else [misc]), *found]) or "_"

    def words(self, row: str) -> tuple[str, str]:
        """ID and FORM of a row, perhaps broken; empty where it has none."""
        form = self._places[1]
        columns = row.split("\t", form + 1)
        return columns[0], columns[form] if len(columns) > form else ""

    def _other_columns(self, row: str) -> str:
        """The number of a row's columns, the format that it may be, and advice."""
        found = row.count("\t") + 1
        if found < len(self.names) <= len(row.split()):
            return f"{found}, and spaces where tabs are expected: put one tab between columns"
        if self is CONLLU_COLUMNS and found >= 14:
            return f"{found}, as CoNLL-09 and CoNLL-U Plus have: --parser conll09 and conllup read them"
        if row.lstrip().startswith("("):
            return f"{found}: these may be bracketed trees (--parser trees, .trees)"
        return f"{found}: {self.format} has {' '.join(self.names)}{' …' * self.more}"


CONLLU_COLUMNS = Columns("CoNLL-U", _CONLLU)

#: CoNLL-09's gold columns, and those that a parser predicted. Its parts of speech are the treebank's: ``XPOS``.
GOLD_COLUMNS = Columns("CoNLL-09", (*_CONLL09, "FILLPRED", "PRED"), {"XPOS": "POS", "FEATS": "FEAT"}, more=True)
PREDICTED_COLUMNS = Columns(
    "CoNLL-09",
    GOLD_COLUMNS.names,
    {"LEMMA": "PLEMMA", "XPOS": "PPOS", "FEATS": "PFEAT", "HEAD": "PHEAD", "DEPREL": "PDEPREL"},
    more=True,
)
