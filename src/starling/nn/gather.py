"""What travels along an edge, declared as a small value so that a fused kernel can run it.

A layer says *what* it gathers; *how* (in one process, over mirrors, overlapped with messages) is the view's business. Any
Python function over edges works too (`Messages`), in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

Reduce = Literal["sum", "mean", "max", "softmax"]


@dataclass(frozen=True, eq=False)
class Copy:
    """The source's row, times factors: row_v · Σ (edge_e · source_u · x_u), plus own_v · source_v · x_v for a self-loop.

    `edge_weight` [E], `source_scale` [S], `row_scale` [D]; `self_loop` adds each destination's own row once, unless the graph
    has that loop. Factors that are None are one. With `max` no factor may be given.
    """

    edge_weight: Tensor | None = None
    source_scale: Tensor | None = None
    row_scale: Tensor | None = None
    self_loop: bool = False


@dataclass(frozen=True, eq=False)
class Attention:
    """GAT: rows of H heads, weighted by the softmax of LeakyReLU(⟨source_h, x_u⟩ + ⟨target_h, x_v⟩ + edge_score_e,h).

    `source_vector`, `target_vector` [H, F]. `edge_score` [E, H] lets edge attributes into the attention; `edge_rows` [E, A]
    lets them into the message: then each head's weighted sum of edge rows follows the node columns, [D, H·F + H·A].
    """

    source_vector: Tensor
    target_vector: Tensor
    slope: float = 0.2
    self_loop: bool = True
    edge_score: Tensor | None = None
    edge_rows: Tensor | None = None
    dropout: float = 0.0
    name: str = ""
    """Names the layer's stream of dropout masks."""


@dataclass(frozen=True, eq=False)
class PairAttention:
    """GATv2: rows of H heads, weighted by the softmax of ⟨vector_h, LeakyReLU(x_u + target_v)⟩.

    `vector` [H, F]; `target` [outputs, H·F] are the destinations' own transformed rows.
    """

    vector: Tensor
    target: Tensor
    slope: float = 0.2
    self_loop: bool = True
    dropout: float = 0.0
    name: str = ""


@dataclass(frozen=True, eq=False)
class ByRelation:
    """RGCN: the row times the matrix of the edge's relation; `weight` [R, F, F'], or [R, B, F/B, F'/B] for diagonal blocks.

    With `mix` [R, B] the matrices are combinations of B bases: W_r = Σ_b mix[r, b] weight[b], with `weight` [B, F, F'].
    Factors are those of `Copy`: `edge_weight` [E], `source_scale` [S], `row_scale` [D].
    """

    weight: Tensor
    mix: Tensor | None = None
    edge_weight: Tensor | None = None
    source_scale: Tensor | None = None
    row_scale: Tensor | None = None

    @property
    def relations(self) -> int:
        """R."""
        return len(self.weight if self.mix is None else self.mix)

    @property
    def matrices(self) -> Tensor:
        """The matrix of each relation."""
        return self.weight if self.mix is None else torch.einsum("rb,bio->rio", self.mix, self.weight)


@dataclass(frozen=True, eq=False)
class RelationAttention:
    """RGAT: z^r = x W_r, weighted by the softmax of LeakyReLU(⟨source_r, z_u^r⟩ + ⟨target_r, z_v^r⟩).

    `weight` [R, F, H·F'], `source_vector`, `target_vector` [R, H, F']. The softmax is over all in-edges of a row, or with `within`
    over those of each relation.
    """

    weight: Tensor
    source_vector: Tensor
    target_vector: Tensor
    slope: float = 0.2
    within: bool = False
    dropout: float = 0.0
    name: str = ""


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Some edges, as a Python gather sees them; absent tables are None."""

    weight: Tensor | None
    attr: Tensor | None
    type: Tensor | None


MessageFunction: TypeAlias = "Callable[[Tensor, EdgeBlock, Tensor], Tensor | tuple[Tensor, Tensor]]"


@dataclass(frozen=True, eq=False)
class Messages:
    """Any function of (source rows [B, F], edges, destination rows [B, F]) → messages [B, F'].

    With the reduction `softmax` it returns (scores [B, H], messages [B, H·F']). It runs on blocks of edges, and again in the
    backward pass, so it must be a pure function. Parameters it uses must be named, or it must be a module.
    """

    function: MessageFunction | nn.Module
    parameters: tuple[Tensor, ...] = ()


Gather: TypeAlias = Copy | Attention | PairAttention | ByRelation | RelationAttention | Messages
