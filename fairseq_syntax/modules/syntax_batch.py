"""Features of a batch's source tokens, on the way from the collater to the attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fairseq_syntax.modules.dependency import is_eos
from fairseq_syntax.modules.numerics import UNKNOWN

#: What batches of composed examples have beside features: 1 at special tokens (``<s>``, separators, ``</s>``), else 0.
SPECIAL = "special"


class SyntaxBatch(dict[str, Tensor]):
    """Features of a batch's source tokens, by their names in :data:`syntax_data.features.FEATURES`.

    Each is an integer tensor ``(batch, n)``, one value a position of ``src_tokens``; :data:`UNKNOWN` at padding and
    where a sentence lacks the feature. Examples of several segments also have :data:`SPECIAL`.

    It is a dict because all that moves a batch (fairseq's ``utils.apply_to_sample``, pinned memory, data parallel
    training) goes through dicts and leaves other objects behind. Some of that returns a plain dict, which :meth:`of`
    makes a ``SyntaxBatch`` again where a batch enters an encoder. Features may also be predicted, with a gradient.
    """

    @classmethod
    def of(cls, features: Mapping[str, Tensor] | None) -> SyntaxBatch:
        """Return these features as a ``SyntaxBatch``, without a copy if they are one."""
        return features if isinstance(features, cls) else cls(features or {})

    @classmethod
    def collate(cls, sentences: Sequence[Mapping[str, Tensor]], real: Tensor) -> SyntaxBatch:
        """Place features of sentences over the real positions of a batch.

        Args:
            sentences: the same features of each sentence, ``(length,)`` each, or ``(0,)`` if the sentence lacks it.
            real: false at padding, ``(batch, n)``.

        Raises:
            ValueError: a sentence has another number of values than of real positions.
        """
        lengths = real.sum(dim=1).tolist()
        batch = cls()
        for name in sentences[0]:
            rows = [sentence[name] for sentence in sentences]
            rows = [row if len(row) else torch.full((n,), UNKNOWN) for row, n in zip(rows, lengths, strict=True)]
            if (found := [len(row) for row in rows]) != lengths:
                raise ValueError(f"expected {lengths} values a sentence, as there are tokens, found {found}")
            batch[name] = torch.full(real.shape, UNKNOWN)
            batch[name][real] = torch.cat(rows)
        return batch

    def to(self, device: torch.device) -> SyntaxBatch:
        """Return the features on a device."""
        return SyntaxBatch({name: feature.to(device) for name, feature in self.items()})

    def require(self, names: Sequence[str], *, part: str) -> None:
        """Raises :class:`ValueError` if features are missing that `part` of a model needs.

        A model never runs without them as if no sentence had a parse.
        """
        if missing := [name for name in names if name not in self]:
            raise ValueError(
                f"{part} needs net_input['src_syntax'] to hold {', '.join(names)}; missing: {', '.join(missing)}. Does "
                "the data come from a task that reads them, such as --task syntax_translation?"
            )

    @property
    def special(self) -> Tensor:
        """True at special tokens, ``(batch, n)``: at ``</s>``, unless the batch says where they are."""
        return self[SPECIAL] == 1 if SPECIAL in self else is_eos(self["word"])

    def known(self, *names: str) -> Tensor:
        """Return where a position has all these features, ``(batch, n)``."""
        found = self[names[0]] != UNKNOWN
        for name in names[1:]:
            found = found & (self[name] != UNKNOWN)
        return found
