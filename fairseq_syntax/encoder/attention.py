"""fairseq's self-attention with syntax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions
from fairseq_syntax.modules import numerics
from fairseq_syntax.modules.attention import ExpertMixture, choose
from fairseq_syntax.modules.biases import BatchBiases, BiasTable, RelativePosition, columns_of_sums, sum_of_tables
from fairseq_syntax.modules.gate_norm import RunningStatistics
from fairseq_syntax.modules.gates import GLOBAL_COMBINATIONS, Gate, SyntaxGate, TokenGate, uniform_weights

#: How many columns a table may have that joins several: those of two of ours.
_MOST_COLUMNS = 4096


class SyntaxAttention(MultiheadAttention):
    """Self-attention that mixes global attention with attention under syntactic biases.

    :mod:`fairseq_syntax.modules.attention` defines and computes it. A sentence without the parse that a bias needs has
    A_k = A_0 for it, with any gate, and no syntax dropout.

    Parameters have the names of fairseq's :class:`~fairseq.modules.MultiheadAttention`, plus those of the gate
    (``gate``), of biases that have some (``experts``) and of the bias by relative position (``position_bias``).

    Args:
        embed_dim: width of the model.
        options: of the encoder: masks, heads, combination, gates, syntax dropout, implementation, position bias and
            the scale of learned tables.
        **kwargs: arguments of :class:`~fairseq.modules.MultiheadAttention`.
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
        self._joined = _names_to_join(self.experts) if self.combination == "product" else ()
        self.position_bias: BiasTable | None = None
        if options.position_bias:
            self.position_bias = RelativePosition().build_layer_module(**{**sizes, "heads": self.num_heads})
        for table in self.tables.values():
            table.scale = options.bias_table_scale
        self.shares_tables = False

    def forward(
        self,
        x: Tensor,
        syntax: BatchBiases,
        *,
        statistics: RunningStatistics | None = None,
        contents: Sequence[str] = (),
    ) -> tuple[Tensor | None, ...]:
        """Attend.

        Args:
            x: the input, ``(n, batch, embed_dim)``.
            syntax: the batch's attention biases and padding.
            statistics: of the gates in this pass; ``None``: the gate moves its own.
            contents: of a :class:`~fairseq_syntax.modules.trace.SyntaxTrace`.

        Returns:
            the output, ``(n, batch, embed_dim)``; then each of `contents`.
        """
        n, batch, _ = x.shape
        own = self._layer_biases(syntax, x)
        biases = own.product if self.combination == "product" and own.biases else own
        q, k, v = self._project(x)
        if self.gate is not None:
            weights = self.gate(x, biases.padding_bias(x.dtype), statistics)
        else:
            weights = uniform_weights(self.combination, masks=len(biases.biases), heads=self.syntax_heads, like=x)
        mixture = self._mixture(biases, weights, needs_weights=not {"attention", "scores"}.isdisjoint(contents))
        if (table := self.position_bias) is not None:
            by_position = self._once(syntax, "position bias", lambda: table(syntax.position))
            mixture = replace(mixture, position=by_position.bias)
        implementation = choose(self.implementation, mixture, length=n, device=x.device)
        output, attention, scores = implementation.attend(q, k, v, mixture)
        output = self.out_proj(output.permute(2, 0, 1, 3).contiguous().view(n, batch, self.embed_dim))
        seen = {
            "gates": self._gates_of_sentences(weights, syntax.padding),
            "attention": attention,
            "scores": scores,
            "prediction": next((bias.prediction for bias in own.biases if bias.prediction is not None), None),
        }
        return output, *(seen[name] for name in contents)

    @property
    def tables(self) -> dict[str, BiasTable]:
        """The tables of learned biases, by name; that of all heads is ``position_bias``."""
        found = {name: module for name, module in self.experts.items() if isinstance(module, BiasTable)}
        return found if self.position_bias is None else {**found, "position_bias": self.position_bias}

    def share_tables(self, other: SyntaxAttention) -> None:
        """Use another layer's tables instead of these; both layers have the same options."""
        self.experts.update({name: table for name, table in other.tables.items() if name in self.experts})
        self.position_bias = other.position_bias
        self.shares_tables = other.shares_tables = True

    def learned_biases(self, syntax: BatchBiases) -> dict[str, Tensor]:
        """The bias of each of :attr:`tables`, ``(batch, heads, n, n)``, 0 in heads that it does not enter.

        Args:
            syntax: the batch's attention biases, as of :meth:`forward`.
        """
        buckets = {**dict(zip(self.bias_names, syntax.biases, strict=True)), "position_bias": syntax.position}
        biases = {name: table(buckets[name]).bias for name, table in self.tables.items()}
        return {
            name: F.pad(bias, (0, 0, 0, 0, 0, self.num_heads - bias.shape[1])).expand(len(syntax.has_parse), -1, -1, -1)
            for name, bias in biases.items()
        }

    def _layer_biases(self, syntax: BatchBiases, x: Tensor) -> BatchBiases:
        """The batch's biases, with this layer's parameters."""
        if not self.experts:
            return syntax
        if all(isinstance(module, BiasTable) for module in self.experts.values()):
            return self._once(syntax, "layer's biases", lambda: self._with_parameters(syntax, x))
        return self._with_parameters(syntax, x)

    def _with_parameters(self, syntax: BatchBiases, x: Tensor) -> BatchBiases:
        shared = dict(zip(self.bias_names, syntax.biases, strict=True))
        joined: list[Any] = []
        if self._joined:
            tables: Any = [self.experts[name] for name in self._joined]
            buckets = [shared.pop(name) for name in self._joined]
            columns = syntax.once(self._joined, lambda: columns_of_sums(tables, buckets))
            joined = [sum_of_tables(tables, columns)]
        own = [self.experts[name](b, x) if name in self.experts else b for name, b in shared.items()]
        return syntax.with_biases([*joined, *own])

    def _once(self, syntax: BatchBiases, name: str, compute: Callable[[], Any]) -> Any:
        """The result of `compute`; layers that share tables compute it once a batch in evaluation."""
        return syntax.once(name, compute) if self.shares_tables and self._evaluates else compute()

    @property
    def _evaluates(self) -> bool:
        return not (self.training or torch.is_grad_enabled())

    def _mixture(self, biases: BatchBiases, weights: Tensor, *, needs_weights: bool) -> ExpertMixture:
        dropout = self._active(self.dropout_module)
        syntax_dropout = self._active(self.syntax_dropout_module) if biases.biases else None
        drops = dropout is not None or syntax_dropout is not None
        return ExpertMixture(
            biases=biases,
            weights=weights if weights.dim() == 4 else weights.unsqueeze(-1),
            has_global_expert=not self.bias_names or self.combination in GLOBAL_COMBINATIONS,
            syntax_dropout=syntax_dropout,
            dropout=dropout,
            dropout_on=self.dropout_on,
            learned=len(self.experts) > 0,
            needs_weights=needs_weights,
            evaluates=self._evaluates and not drops,
        )

    def _gates_of_sentences(self, weights: Tensor, padding: Tensor | None) -> Tensor | None:
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

    def _active(self, dropout: FairseqDropout) -> FairseqDropout | None:
        """A dropout, if it acts."""
        return dropout if dropout.p > 0 and (self.training or dropout.apply_during_inference) else None

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values of ``(n, batch, embed_dim)``, ``(batch, heads, n, d)`` each.

        One projection takes fewer operations, but on a CPU the copy of the weights costs more than it saves.
        """
        projections = self.q_proj, self.k_proj, self.v_proj
        n, batch, _ = x.shape
        x = x.contiguous()  # once; the first layer gets it transposed
        shape = self.num_heads, self.head_dim
        noisy = any(type(p) is not nn.Linear or p._forward_pre_hooks for p in projections)
        if noisy or not numerics.is_asynchronous(x.device):
            parts = tuple(p(x).view(n, batch, *shape) for p in projections)
        else:
            weight, bias = torch.cat([p.weight for p in projections]), torch.cat([p.bias for p in projections])
            parts = F.linear(x, weight, bias).view(n, batch, 3, *shape).unbind(dim=2)
        return tuple(part.permute(1, 2, 0, 3) for part in parts)


def _names_to_join(modules: nn.ModuleDict) -> tuple[str, ...]:
    """Names of the tables, the smallest first, whose sum one table has that is not too large; none, if of one."""
    tables = [(module.weight.shape[1] + 1, name) for name, module in modules.items() if type(module) is BiasTable]
    names: list[str] = []
    columns = 1
    for of_table, name in sorted(tables):
        columns *= of_table
        if columns <= _MOST_COLUMNS:
            names.append(name)
    return tuple(names) if len(names) > 1 else ()
