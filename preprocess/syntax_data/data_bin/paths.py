"""Paths of a data-bin's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass


def signature_path(data: str, pair: tuple[str, str], lang: str) -> str:
    """Path of the signature of all features of a pair's tokens in one language."""
    return os.path.join(data, f"syntax.{pair[0]}-{pair[1]}.{lang}.json")


@dataclass(frozen=True)
class TokenFiles:
    """A split's token files in a data-bin, and the feature files beside them.

    `split` is ``train``, ``valid1`` …; `pair`, the languages in the order of the files' names, of which `lang` is one.
    """

    data: str
    split: str
    pair: tuple[str, str]
    lang: str

    @classmethod
    def find(cls, data: str, split: str, lang: str, other_lang: str) -> TokenFiles | None:
        """The token files of a split in `lang`, of either direction; ``None``: none."""
        for pair in ((lang, other_lang), (other_lang, lang)):
            files = cls(data, split, pair, lang)
            if all(map(os.path.exists, files.tokens)):
                return files
        return None

    @property
    def prefix(self) -> str:
        """Path of the tokens, without ending."""
        return os.path.join(self.data, f"{self.split}.{self.pair[0]}-{self.pair[1]}.{self.lang}")

    @property
    def other_lang(self) -> str:
        """The other language of the pair."""
        return self.pair[1] if self.pair[0] == self.lang else self.pair[0]

    @property
    def dictionary(self) -> str:
        """Path of the dictionary of the tokens."""
        return os.path.join(self.data, f"dict.{self.lang}.txt")

    @property
    def signature(self) -> str:
        """Path of the signature, which has all splits of the pair."""
        return signature_path(self.data, self.pair, self.lang)

    @property
    def tokens(self) -> list[str]:
        """Paths of the token files."""
        return [f"{self.prefix}.{ending}" for ending in ("bin", "idx")]

    def feature(self, name: str) -> str:
        """Path of a feature, without ending."""
        return f"{self.prefix}.{name}"

    def features(self, names: Iterable[str]) -> list[str]:
        """Paths of the files of some features."""
        return [f"{self.feature(name)}.{ending}" for name in names for ending in ("bin", "idx")]
