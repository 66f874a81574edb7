"""Where the files of a data-bin lie."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from syntax_data.data_bin.tokens import tokens_exist


def signature_path(data: str, pair: tuple[str, str], lang: str) -> str:
    """Path of the signature of all features of a pair's tokens in one language."""
    return os.path.join(data, f"syntax.{pair[0]}-{pair[1]}.{lang}.json")


@dataclass(frozen=True)
class TokenFiles:
    """A split's tokens in one language, and what lies beside them.

    Attributes:
        data: the data-bin.
        split: ``train``, ``valid1`` …
        pair: the languages as the names of the files have them.
        lang: that of the tokens.
    """

    data: str
    split: str
    pair: tuple[str, str]
    lang: str

    @classmethod
    def find(
        cls, data: str, split: str, lang: str, other_lang: str, *, dataset_impl: str | None = None
    ) -> TokenFiles | None:
        """The tokens of a split in `lang`, whichever language fairseq-preprocess called the source.

        ``None`` if there are none in the format `dataset_impl`; see
        :func:`~syntax_data.data_bin.tokens.tokens_exist`.
        """
        for pair in ((lang, other_lang), (other_lang, lang)):
            files = cls(data, split, pair, lang)
            if tokens_exist(files.prefix, dataset_impl):
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
        """Path of the dictionary that numbers the tokens."""
        return os.path.join(self.data, f"dict.{self.lang}.txt")

    @property
    def signature(self) -> str:
        """Path of the signature, which has all splits of the pair."""
        return signature_path(self.data, self.pair, self.lang)

    @property
    def text_hashes(self) -> str:
        """Path of the hashes of the text that was parsed."""
        return f"{self.prefix}.text_hashes.bin"

    def feature(self, name: str) -> str:
        """Path of a feature, without ending."""
        return f"{self.prefix}.{name}"

    def of_features(self, names: Iterable[str]) -> list[str]:
        """Paths of all files of some features, and of the text's hashes."""
        return [*(f"{self.feature(name)}.{ending}" for name in names for ending in ("bin", "idx")), self.text_hashes]

    def inside(self, folder: str) -> TokenFiles:
        """The same names in another folder."""
        return replace(self, data=folder)
