"""fairseq's self-attention, guided by syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.attention import Mixture, at_a_time, choose, fused, plain, scores, shared
from fairseq_syntax.modules.biases import POSITIONS, BatchBiases
from fairseq_syntax.modules.biases.table import BiasTable
from fairseq_syntax.modules.gate_norm import RunningStatistics
from fairseq_syntax.modules.gates import GLOBAL_COMBINATIONS, Gate, SyntaxGate, TokenGate, uniform_weights


class SyntaxAttention(MultiheadAttention):
    """Self-attention that mixes global attention with attention under syntax masks.

    How that is computed: :mod:`fairseq_syntax.modules.attention`.

    A sentence without the parse that a mask is made of has A_k = A_0 for it, whatever its gate, and no syntax dropout.

    Parameters have the names of fairseq's :class:`~fairseq.modules.MultiheadAttention`, plus those of the gate
    (``gate``), of masks that have some (``experts``) and of the bias by relative position (``position_bias``).

    Queries, keys and values come from one projection, which takes fewer operations; but not on a CPU, where the copy of
    the weights costs more than it saves, nor where quant-noise acts on them.

    Args:
        embed_dim: width of the model.
        options: of the encoder: masks, heads, combination, gates, syntax dropout, implementation, position bias.
        **kwargs: those of :class:`~fairseq.modules.MultiheadAttention`.
    """

    def __init__(self, embed_dim: int, options: SyntaxEncoderOptions, **kwargs: Any):
        super().__init__(embed_dim, options.encoder_heads, self_attention=True, **kwargs)
        masks = options.biases
        self.num_masks = len(masks)
        self.syntax_heads = self.num_heads if options.heads is None else options.heads
        self.combination = options.combination
        self.dropout_on = options.dropout_on
        self.implementation = options.implementation
        self.syntax_dropout_module = FairseqDropout(options.dropout, module_name=self.__class__.__name__)
        self.gate: Gate | None = None
        numbers = {"embed_dim": embed_dim, "num_heads": self.syntax_heads, "num_masks": len(masks)}
        if options.gated_by_head:
            self.gate = SyntaxGate(
                **numbers,
                hidden_dim=options.gate.hidden_dim or max(1, embed_dim // 8),
                batch_norm=options.gate.statistics if options.gate.batch_norm else None,
                batch_norm_eps=options.gate.eps,
                output_bias=options.gate.output_bias,
            )
        elif options.gated:
            self.gate = TokenGate(**numbers)
        sizes = {"heads": self.syntax_heads, "head_dim": self.head_dim, "embed_dim": embed_dim}
        own = {mask.name: mask.build_layer_module(**sizes) for mask in masks}
        self.bias_names = tuple(own)
        self.experts = nn.ModuleDict({name: module for name, module in own.items() if module is not None})
        self.position_bias = BiasTable(heads=self.num_heads, buckets=POSITIONS) if options.position_bias else None

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        syntax: BatchBiases,
        statistics: RunningStatistics | None = None,
        contents: Sequence[str] = (),
    ) -> tuple[Tensor | None, ...]:
        """Attends.

        Args:
            query: the input, ``(n, batch, embed_dim)``; `key` and `value` are the same tensor.
            key_padding_mask: true at padding, ``(batch, n)``.
            need_weights: whether to return A, averaged over heads; before attention dropout, unless that acts on
                experts apart.
            attn_mask: not supported; must be ``None``.
            syntax: the batch's masks.
            statistics: of the gates in this pass; ``None``: the gate moves its own.
            contents: what a :class:`~fairseq_syntax.modules.trace.SyntaxTrace` asks for.

        Returns:
            the output, ``(n, batch, embed_dim)``; A, ``(batch, n, n)``, or ``None``; then each of `contents`.
        """
        if attn_mask is not None:
            raise ValueError("SyntaxAttention takes syntax masks, not an attn_mask")
        n, batch, _ = query.shape
        of_layer = self._of_this_layer(syntax, query)
        masks = of_layer.product if self.combination == "product" and of_layer.biases else of_layer
        dropout = self._acting(self.dropout_module)
        ignore = self._acting(self.syntax_dropout_module) if masks.biases else None
        apart = self.dropout_on == "experts"
        single = len(masks.biases) + self._has_global_expert == 1  # then A is what that expert gives
        shown = need_weights or not {"attention", "scores"}.isdisjoint(contents)
        drops = dropout is not None or ignore is not None
        evaluates = not (self.training or drops or torch.is_grad_enabled())
        some_at_a_time = query.device.type == "cpu" and evaluates and not shown
        dropout_fuses = (dropout is None or apart or single) and (ignore is None or masks.all_parsed)
        way = choose(
            self.implementation,
            n=n,
            on_cuda=query.is_cuda,
            needs_matrix=shown or not dropout_fuses,
            drops=drops,
            some_at_a_time=some_at_a_time,
            masks=masks,
            own_parameters=len(self.experts) > 0,
            has_global_expert=self._has_global_expert,
        )
        q, k, v = self._project(query)
        if self.gate is not None:
            weights = self.gate(query, masks.hidden_keys(key_padding_mask, query.dtype), statistics)
        else:
            weights = uniform_weights(self.combination, masks=len(masks.biases), heads=self.syntax_heads, like=query)
        mixture = Mixture(
            masks=masks,
            weights=weights if weights.dim() == 4 else weights.unsqueeze(-1),
            padding=key_padding_mask,
            ignore=ignore,
            has_global_expert=self._has_global_expert,
            dropout=dropout if apart or way == "fused" else None,
        )
        position = None
        if self.position_bias is not None:
            assert syntax.position is not None
            position = self.position_bias(syntax.position).bias
        x = attention = None
        if way == "fused":
            q, k, v = (part.permute(1, 2, 0, 3) for part in (q, k, v))
            output = fused(q, k, v, mixture, position=position)
        else:

            def attend(mixture: Mixture, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
                x = scores(q, k, heads=self.num_heads, position=position)
                mixed = shared(x, mixture, evaluates=evaluates) if way == "shared" else plain(x, mixture)
                attention = mixed.type_as(v)
                dropped = attention if apart else self.dropout_module(attention)
                return torch.bmm(dropped.flatten(0, 1), v), attention, x

            parts = [part.flatten(1, 2).transpose(0, 1) for part in (q * self.scaling, k, v)]
            size = at_a_time(self.num_heads * n * n) if way == "shared" and some_at_a_time else batch
            if size < batch:
                groups = zip(mixture.split(size), *(part.split(size * self.num_heads) for part in parts), strict=True)
                output = torch.cat([attend(*group)[0] for group in groups])
            else:
                output, attention, x = attend(mixture, *parts)
            output = output.unflatten(0, (batch, self.num_heads))
        output = self.out_proj(output.permute(2, 0, 1, 3).contiguous().view(n, batch, self.embed_dim))
        seen = {
            "gates": self._of_sentences(weights, key_padding_mask),
            "attention": attention,
            "scores": x,
            "prediction": next((g.prediction for g in of_layer.biases if g.prediction is not None), None),
        }
        average = attention.mean(dim=1) if need_weights and attention is not None else None
        return output, average, *(seen[name] for name in contents)

    @property
    def tables(self) -> dict[str, BiasTable]:
        """The tables of learned biases, by the names of their masks; that of all heads is ``position_bias``."""
        found = {name: module for name, module in self.experts.items() if isinstance(module, BiasTable)}
        return found if self.position_bias is None else {**found, "position_bias": self.position_bias}

    def learned_biases(self, syntax: BatchBiases) -> dict[str, Tensor]:
        """What each of :attr:`tables` adds to scores, ``(batch, heads, n, n)``, 0 in heads that it does not enter.

        Args:
            syntax: the batch's masks, as :meth:`forward` gets them.
        """
        buckets = {**dict(zip(self.bias_names, syntax.biases, strict=True)), "position_bias": syntax.position}
        biases = {name: table(buckets[name]).bias for name, table in self.tables.items()}
        return {
            name: F.pad(bias, (0, 0, 0, 0, 0, self.num_heads - bias.shape[1])).expand(len(syntax.parsed), -1, -1, -1)
            for name, bias in biases.items()
        }

    def _of_sentences(self, weights: Tensor, padding: Tensor | None) -> Tensor | None:
        """Gates, ``(batch, masks, syntax_heads)``: a mean over real positions, where each query has its own."""
        if self.gate is None:
            return None
        weights = weights[:, 1:]  # without global attention's
        if weights.dim() == 3:
            return weights
        if padding is None:
            return weights.mean(dim=-1)
        real = (~padding.bool()).to(weights)[:, None, None]
        return (weights * real).sum(dim=-1) / real.sum(dim=-1)

    def _of_this_layer(self, syntax: BatchBiases, query: Tensor) -> BatchBiases:
        """The batch's masks, with the parameters that this layer has of them."""
        if not self.experts:
            return syntax
        biases = []
        for name, expert, known in zip(self.bias_names, syntax.biases, syntax.known, strict=True):
            if name in self.experts:
                expert = self.experts[name](expert, query)
                expert = expert if known is None else expert.where(known)
            biases.append(expert)
        return syntax.with_biases(biases)

    @property
    def _has_global_expert(self) -> bool:
        """Whether global attention has a weight in the heads that syntax enters."""
        return not self.bias_names or self.combination in GLOBAL_COMBINATIONS

    def _acting(self, dropout: FairseqDropout) -> FairseqDropout | None:
        """A dropout, if it acts."""
        return dropout if dropout.p > 0 and (self.training or dropout.apply_during_inference) else None

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of ``(n, batch, embed_dim)``, ``(n, batch, heads, d)`` each."""
        projections = self.q_proj, self.k_proj, self.v_proj
        n, batch, _ = x.shape
        x = x.contiguous()  # once; fairseq's first layer gets it transposed
        shape = self.num_heads, self.head_dim
        noisy = any(type(p) is not nn.Linear or p._forward_pre_hooks for p in projections)
        if noisy or not numerics.is_asynchronous(x.device):
            return tuple(p(x).view(n, batch, *shape) for p in projections)
        weight, bias = torch.cat([p.weight for p in projections]), torch.cat([p.bias for p in projections])
        return F.linear(x, weight, bias).view(n, batch, 3, *shape).unbind(dim=2)
