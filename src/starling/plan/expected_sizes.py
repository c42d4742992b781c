"""How large a sampled batch will be before any is sampled: expected rows and edges of each layer.

A node with q = chance of being among a hop's rows takes min(degree, fan-out) in-edges, all m of a hop together; each edge leads to
v with probability out-degree(v) / E. So the chance of v among the next hop's rows is 1 − (1 − q)·(1 − out-degree / E)^m. That is
right where edges are shuffled among the nodes; in real graphs neighbours overlap more, so batches come out somewhat smaller: the
estimate is on the safe side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.plan.fanouts import Fanout
from starling.plan.model_work import LayerSize


@dataclass(frozen=True, eq=False)
class Degrees:
    """Kinds of nodes: `count` of each with so many in- and out-edges. A real graph has one of each, bare numbers one kind."""

    count: NDArray[np.float64]
    incoming: NDArray[np.float64]
    outgoing: NDArray[np.float64]

    @property
    def nodes(self) -> float:
        """How many nodes there are."""
        return float(self.count.sum())

    @property
    def edges(self) -> float:
        """How many edges there are."""
        return float((self.count * self.incoming).sum())


def degrees_of(incoming: NDArray[Any], outgoing: NDArray[Any]) -> Degrees:
    """Of a real graph, nodes of equal degrees together."""
    pairs, count = np.unique(np.stack([incoming, outgoing]), axis=1, return_counts=True)
    return Degrees(count.astype(np.float64), pairs[0].astype(np.float64), pairs[1].astype(np.float64))


def even_degrees(nodes: int, edges: int) -> Degrees:
    """Of a graph known by its numbers only: every node alike, which makes batches as large as can be."""
    if nodes < 1 or edges < 0:
        raise InputError(f"Expected at least one node and no negative number of edges, got {nodes} nodes and {edges} edges.")
    mean = np.array([edges / nodes])
    return Degrees(np.array([float(nodes)]), mean, mean)


def expected_sizes(degrees: Degrees, targets: float, fanouts: Sequence[Fanout]) -> tuple[LayerSize, ...]:
    """Expected layers, outermost first, of a batch of `targets` random targets; fan-outs begin with the targets' own."""
    if not 0 < targets <= degrees.nodes:
        raise InputError(f"Expected between 1 and {degrees.nodes:,.0f} targets, got {targets:,.0f}.")
    chance = np.full(len(degrees.count), targets / degrees.nodes)
    share = degrees.outgoing / max(degrees.edges, 1.0)
    sizes = []
    for fanout in fanouts:
        taken = degrees.incoming if fanout == "all" else np.minimum(degrees.incoming, fanout)
        edges = float((degrees.count * chance * taken).sum())
        rows = float((degrees.count * chance).sum())
        missed = np.exp(edges * np.log1p(-np.minimum(share, 1 - 1e-12)))
        chance = 1 - (1 - chance) * missed
        sizes.append(LayerSize(float((degrees.count * chance).sum()), rows, edges))
    return tuple(reversed(sizes))


def whole_sizes(nodes: float, edges: float, layers: int) -> tuple[LayerSize, ...]:
    """The layers of a step over the whole graph."""
    return (LayerSize(nodes, nodes, edges),) * layers
