"""Paths of a data-bin's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

#: The languages of a pair, in the order of the files' names; ``None``: those of ``fairseq-preprocess --only-source``,
#: which have none.
Pair = tuple[str, str] | None


def possible_pairs(lang: str | None, other_lang: str | None) -> list[Pair]:
    """The pairs whose files may have the tokens in `lang`; without languages, none."""
    return [(lang, other_lang), (other_lang, lang)] if lang and other_lang else [None]


def signature_path(data: str, pair: Pair = None, lang: str | None = None) -> str:
    """Path of the signature of the features of all splits, of a pair in one language."""
    return os.path.join(data, f"syntax{_languages(pair, lang)}.json")


def _languages(pair: Pair, lang: str | None) -> str:
    return f".{pair[0]}-{pair[1]}.{lang}" if pair else ""


@dataclass(frozen=True)
class TokenFiles:
    """A split's token files in a data-bin, and the feature files beside them.

    `split` is ``train``, ``valid1`` …; `lang`, one of the languages of `pair`; both are ``None`` in a data-bin of
    ``fairseq-preprocess --only-source``.
    """

    data: str
    split: str
    pair: Pair = None
    lang: str | None = None

    @classmethod
    def find(cls, data: str, split: str, lang: str | None = None, other_lang: str | None = None) -> TokenFiles | None:
        """The token files of a split, in `lang` of either direction; ``None``: none."""
        for pair in possible_pairs(lang, other_lang):
            files = cls(data, split, pair, lang)
            if all(map(os.path.exists, files.tokens)):
                return files
        return None

    @property
    def prefix(self) -> str:
        """Path of the tokens, without ending."""
        return os.path.join(self.data, f"{self.split}{_languages(self.pair, self.lang)}")

    @property
    def options(self) -> str:
        """The options of fairseq-syntax-binarize that choose these files' names."""
        if self.pair is None:
            return "--only-source"
        other_lang = self.pair[1] if self.pair[0] == self.lang else self.pair[0]
        return f"--source-lang {self.lang} --target-lang {other_lang}"

    @property
    def dictionary(self) -> str:
        """Path of the dictionary of the tokens."""
        return os.path.join(self.data, f"dict.{self.lang}.txt" if self.lang else "dict.txt")

    @property
    def signature(self) -> str:
        """Path of the signature, which has all splits."""
        return signature_path(self.data, self.pair, self.lang)

    @property
    def tokens(self) -> list[str]:
        """Paths of the token files."""
        return [f"{self.prefix}.{ending}" for ending in ("bin", "idx")]

    def of_words(self, folder: str) -> TokenFiles:
        """The files of the same split in the data-bin of the text's words, a path from this one; empty: these."""
        there = os.path.join(os.path.realpath(self.data), folder)
        return replace(self, data=os.path.normpath(there)) if folder else self

    def feature(self, name: str) -> str:
        """Path of a feature, without ending."""
        return f"{self.prefix}.{name}"

    def features(self, names: Iterable[str]) -> list[str]:
        """Paths of the files of some features."""
        return [f"{self.feature(name)}.{ending}" for name in names for ending in ("bin", "idx")]
