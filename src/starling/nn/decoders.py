"""From the rows of two nodes to how likely an edge between them is: a score for each pair, or for a node against many.

| decoder | score of s → d by relation r |
|---|---|
| `dot` | s · d |
| `distmult` | s · (w_r ∘ d), a bilinear form with a diagonal matrix for each relation (Yang et al. 2015) |
| `mlp` | a network of one hidden layer over s ∘ w_r ∘ d |

Graphs without relations have one w. All three are symmetric in s and d: direction is for the encoder and the relations to tell.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from starling.nn.initial import Draws, initialise
from starling.nn.model import LayeredModel, Views
from starling.nn.ops.arrays import has_kernels
from starling.nn.ops.pairs import pair_products

DecoderName = Literal["dot", "distmult", "mlp"]

_CELLS = 1 << 22
"""Numbers of a (pair, column) block that the network is computed on at once."""


class Decoder(nn.Module, ABC):
    """Scores of pairs. `relation` [P] is None where the graph has none."""

    @abstractmethod
    def forward(self, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """The score of each pair [P] from rows [P, D] of its ends."""

    def pairs(self, rows: Tensor, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """The score of each pair [P], its ends being numbers of `rows` [N, D]."""
        score: Tensor = self(rows.index_select(0, source), rows.index_select(0, destination), relation)
        return score

    @abstractmethod
    def against(self, kept: Tensor, candidates: Tensor, relation: Tensor | None = None) -> Tensor:
        """Scores [B, C] of B nodes against C candidates for the other end; as a decoder is symmetric, whichever that is."""


class Dot(Decoder):
    """The product of both rows."""

    def forward(self, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """s · d."""
        return (source * destination).sum(-1)

    def pairs(self, rows: Tensor, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """By a kernel that makes no row for a pair, where there is one for the device."""
        if not has_kernels(rows):
            return super().pairs(rows, source, destination, relation)
        return pair_products(rows, rows.new_ones(1, rows.shape[1]), source, destination, torch.zeros_like(source))

    def against(self, kept: Tensor, candidates: Tensor, relation: Tensor | None = None) -> Tensor:
        """One matrix product."""
        return kept @ candidates.T


class DistMult(Decoder):
    """A product weighted by relation.

    The one weight of graphs without relations begins at about one: training begins with the dot product. Weights of several
    relations begin at either sign, with a variance of one. Were they positive, every node would fit itself best by every
    relation, which training would have to unlearn first.
    """

    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.empty(max(relations, 1), width))
        self.initialise(Draws(0, ""))

    def initialise(self, draws: Draws) -> None:
        """Noise of variance one; around one, and less of it, where there are no relations to tell apart."""
        if len(self.relation) > 1:
            draws.uniform("relation", self.relation, math.sqrt(3))
            return
        draws.uniform("relation", self.relation, 0.5)
        with torch.no_grad():
            self.relation.add_(1)

    def forward(self, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """s · (w_r ∘ d)."""
        return (source * self.weighted(destination, relation)).sum(-1)

    def pairs(self, rows: Tensor, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """By a kernel that makes no row for a pair, where there is one for the device."""
        if not has_kernels(rows):
            return super().pairs(rows, source, destination, relation)
        return pair_products(
            rows, self.relation, source, destination, torch.zeros_like(source) if relation is None else relation
        )

    def against(self, kept: Tensor, candidates: Tensor, relation: Tensor | None = None) -> Tensor:
        """One matrix product of weighted rows."""
        return self.weighted(kept, relation) @ candidates.T

    def weighted(self, rows: Tensor, relation: Tensor | None) -> Tensor:
        """Rows times the weights of their relations."""
        weight = self.relation if relation is None else self.relation.index_select(0, relation)
        return rows * weight


class Mlp(Decoder):
    """A small network over the weighted product of both rows."""

    def __init__(self, width: int, relations: int) -> None:
        super().__init__()
        self.product = DistMult(width, relations)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, source: Tensor, destination: Tensor, relation: Tensor | None = None) -> Tensor:
        """The network's one output."""
        return self._score(source * self.product.weighted(destination, relation))

    def against(self, kept: Tensor, candidates: Tensor, relation: Tensor | None = None) -> Tensor:
        """In blocks, as there is a product for every pair and column."""
        kept = self.product.weighted(kept, relation)
        rows = max(1, _CELLS // max(1, candidates.numel()))
        blocks = [self._score(block[:, None] * candidates) for block in torch.split(kept, rows)]
        return torch.cat(blocks) if blocks else kept.new_empty(0, len(candidates))

    def _score(self, product: Tensor) -> Tensor:
        score: Tensor = self.out(torch.relu(self.hidden(product)))
        return score[..., 0]


def make_decoder(name: DecoderName, width: int, relations: int, seed: int) -> Decoder:
    """The decoder of a name for rows of `width` columns; its weights depend on the seed alone."""
    made: dict[str, Decoder] = {"decoder": Dot()}
    if name != "dot":
        made["decoder"] = (DistMult if name == "distmult" else Mlp)(width, relations)
    initialise(nn.ModuleDict(made), seed)
    return made["decoder"]


class LinkModel(nn.Module):
    """An encoder, which gives a row for each node, and a decoder, which scores pairs of rows."""

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    @property
    def layer_count(self) -> int | None:
        """The encoder's layers, where it says how many."""
        layers = (
            self.encoder.layer_count if isinstance(self.encoder, LayeredModel) else getattr(self.encoder, "layer_count", None)
        )
        return layers if isinstance(layers, int) else None

    def forward(self, views: Views, x: Tensor) -> Tensor:
        """The encoder's rows of the last view's destinations."""
        rows: Tensor = self.encoder(views, x)
        return rows
