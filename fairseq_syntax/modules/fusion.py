"""Fusion of an encoder's output and that of one more layer on top of it (SG-Net, Zhang et al.)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_syntax.modules.numerics import at_least_float32, padding_bias
from fairseq_syntax.options import option

#: Weighted sum; the layer's output alone; concatenation; bidirectional attention.
FUSIONS = ("sum", "top", "concatenate", "bi-attention")


@dataclass(frozen=True)
class FusionOptions:
    """Options of the fusion."""

    kind: str = option(
        "sum",
        name="fusion",
        choices=FUSIONS,
        help="how the output of the layer top joins the encoder's: in a weighted sum (SG-Net eq. 9), or as in its "
        "Table 6 (top: the layer's alone)",
    )
    weight: float = option(
        0.5,
        name="fusion_weight",
        at_least=0,
        at_most=1,
        help="weight of the encoder's own output in that sum (α of SG-Net eq. 9)",
    )
    learned: bool = option(False, name="fusion_weight_learned", help="learn that weight")

    def __post_init__(self) -> None:
        if self.learned and not 0 < self.weight < 1:
            raise ValueError(f"--fusion-weight: expected one between 0 and 1, to be learned, found {self.weight}")


class Fusion(nn.Module):
    """Fusion H̄ of the encoder's output H and that of the layer on top, H'.

    ``sum``: H̄ = α·H + (1 - α)·H' (SG-Net, eq. 9); learned, α = σ(a). ``top``: H'. The others of Table 6 are not
    defined for translation; here they are ``concatenate``: W·[H; H']; ``bi-attention``: W·[H; C; H∘C; H∘b], where
    S_ij = w·[h_i; h'_j; h_i∘h'_j], c_i = Σ_j softmax_j(S_ij)·h'_j, and b = Σ_i softmax_i(max_j S_ij)·h_i (Seo et al.
    2017). A sentence without a parse has H̄ = H.

    Args:
        embed_dim: width of H and H'.
        options: options of the fusion.
    """

    def __init__(self, embed_dim: int, options: FusionOptions):
        super().__init__()
        self.options = options
        widths = {"concatenate": 2, "bi-attention": 4}
        if options.kind in widths:
            self.project = nn.Linear(widths[options.kind] * embed_dim, embed_dim, bias=False)
        if options.kind == "bi-attention":
            self.similarity = nn.Linear(3 * embed_dim, 1, bias=False)
        if options.kind == "sum" and options.learned:
            self.logit = nn.Parameter(torch.tensor([math.log(options.weight / (1 - options.weight))]))

    def forward(self, own: Tensor, top: Tensor, *, has_parse: Tensor, padding: Tensor | None) -> Tensor:
        """Fuse the outputs.

        Args:
            own, top: H and H', ``(n, batch, embed_dim)``.
            has_parse: true for a sentence with a parse, ``(batch,)``.
            padding: true at padding, ``(batch, n)``; ``None`` where there is none.

        Returns:
            H̄, ``(n, batch, embed_dim)``.
        """
        if self.options.kind == "sum":
            weight = self.logit.sigmoid().to(own.dtype) if self.options.learned else self.options.weight
            joined = weight * own + (1 - weight) * top
        elif self.options.kind == "top":
            joined = top
        elif self.options.kind == "concatenate":
            joined = self.project(torch.cat([own, top], dim=2))
        else:
            joined = self._bi_attention(own, top, padding)
        return torch.where(has_parse[None, :, None], joined, own)

    def _bi_attention(self, own: Tensor, top: Tensor, padding: Tensor | None) -> Tensor:
        h, other = own.transpose(0, 1), top.transpose(0, 1)
        of_own, of_other, of_both = self.similarity.weight.view(3, -1)
        scores = (h * of_both) @ other.transpose(1, 2) + (h @ of_own).unsqueeze(2) + (other @ of_other).unsqueeze(1)
        scores = at_least_float32(scores)
        if padding is not None:
            scores = scores + padding_bias(padding, scores.dtype).unsqueeze(1)
        best = scores.max(dim=2).values
        if padding is not None:
            best = best + padding_bias(padding, best.dtype)
        context = scores.softmax(dim=2).to(other.dtype) @ other
        summary = best.softmax(dim=1).to(h.dtype).unsqueeze(1) @ h
        return self.project(torch.cat([h, context, h * context, h * summary], dim=2)).transpose(0, 1)
