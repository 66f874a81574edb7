"""Syntactic local range: constituency trees (Hou 2024)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_syntax.modules.biases.registry import SyntaxBias, register_syntax_bias
from fairseq_syntax.options import option
from syntax_data.features import INFINITE


@register_syntax_bias("slr")
class SyntacticLocalRange(SyntaxBias):
    """A word sees its constituent and what that borders on: syntactic local range (Hou 2024, §3.2 and eq. 1-3).

    Of syntactic distances d, those of the boundaries b between positions b and b+1:

    - hard: position i sees j > i when no boundary t in [i+1, j-1] rises above boundary i, and j < i when none in
      [j, i-2] rises above boundary i-1; itself and its two neighbours always. Ties are inside (d_t <= d_r): only so is
      the mask equal to the paper's tree definition, in which the range of a word reaches from its parent's leftmost to
      its rightmost child (§3.2), on n-ary trees.
    - strict: ties hide. That is the paper's eq. (1), which contradicts its tree definition on ties. Its eq. (2) as
      printed also swaps α's arguments, includes t = r, and is off by one on the right.
    - soft (eq. 3): the product over the same boundaries t of α_t = (tanh((d_r - d_t) / τ) + 1) / 2, where r is the
      boundary beside i, and τ > 0 is in units of distance. A tie gives 1/2, also between two infinite distances.
      Computed as Σ log σ(2·(d_r - d_t)/τ), the same number, by cumulative sums: O(n²) a sentence.
    """

    features = ("distance",)

    form: str = option(
        "soft",
        name="slr",
        choices=("soft", "hard", "strict"),
        help="soft range (Hou 2024 eq. 3), hard range (its §3.2: ties are inside), or its eq. 1 to the letter (strict: "
        "ties are outside)",
    )
    temperature: float = option(10.0, above=0, help="temperature of the soft range (Hou 2024 §5.3)")

    def log_mask(self, *features: Tensor) -> Tensor:
        (distance,) = features
        if self.form == "soft":
            scale = -2.0 / self.temperature
            scaled = F.threshold(distance * scale, (INFINITE - 0.5) * scale, -torch.inf)  # -∞ where it is INFINITE
            difference = _one_before(scaled) - scaled.unsqueeze(2)
            difference.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # ∞ - ∞ is a tie
            return _accumulate(F.logsigmoid(difference))
        here, there = distance.unsqueeze(2), _one_before(distance)
        inside = there < here if self.form == "strict" else there <= here
        return _accumulate(torch.where(inside, 0.0, -torch.inf))

    def effective_options(self) -> dict[str, object]:
        found = super().effective_options()
        return found if self.form == "soft" else {"slr": self.form}


def _one_before(of_boundaries: Tensor) -> Tensor:
    """Values of boundaries, moved one to the right, ``(batch, 1, n)``."""
    return F.pad(of_boundaries, (1, -1)).unsqueeze(1)


def _accumulate(log_alpha: Tensor) -> Tensor:
    """Sum log α over the boundaries between two positions.

    Args:
        log_alpha: ``(batch, n, n)``; [r, t + 1] compares boundary t with the boundary r beside the query.

    Returns:
        ``(batch, n, n)``: [i, j] = Σ over i < t < j of log α_t, where r = i, or Σ over j <= t < i-1, where r = i-1.
    """
    log_mask = log_alpha.triu(2).cumsum_(-1)  # to the right: [r, j]: sum over r < t < j
    to_the_left = log_alpha.tril().flip(-1).cumsum_(-1).flip(-1)  # [r, j + 1]: sum over j <= t < r
    log_mask[:, 1:, :-1].add_(to_the_left[:, :-1, 1:])
    return log_mask
