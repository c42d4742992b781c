"""Layer-wise sampling: one sample of nodes for all rows of a layer together (LADIES, Zou et al. 2019).

Candidates are the in-neighbours of the rows; node u is likely as the squared norm of its column in those rows of the normalised
adjacency with self-loops, q_u = Σ over rows v with u → v of 1 / (degree(v) + 1)². Every row's edges to the nodes drawn are taken.

Two things are better than in the paper, and cost nothing. Nodes that are rows of the layer are there anyway, so edges from
them are always taken, with scale 1. And without replacement the sample is a race (see kernels/weighted_sampling.py), whose
scales are exactly unbiased, where 1 / (n p) is not; with replacement the scale is the paper's, (times drawn) / (n p).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.kernels.frontier import FrontierPool
from starling.kernels.keyed_order import keyed_bits
from starling.kernels.sampling import Taken, take_all
from starling.plan.hops import HopSampler, Moment
from starling.plan.source import NeighbourSource


class LayerWise(HopSampler):
    """`nodes` nodes for all rows together, beside the rows themselves."""

    def __init__(self, graph: NeighbourSource, nodes: int, replace: bool = False, threads: int | None = None) -> None:
        self.graph, self.nodes, self.replace, self.threads = graph, nodes, replace, threads
        self._frontiers = FrontierPool(graph.rows)

    def take(self, rows: NDArray[Any], moment: Moment) -> Taken:
        """Edges from the rows themselves and from the nodes drawn, with a scale for each edge."""
        every = take_all(self.graph.incoming, rows, self.threads)
        degree = np.diff(every.offsets)
        with self._frontiers.frontier(rows) as frontier:
            place = frontier.extend(every.neighbours)
            squares = np.bincount(place, np.repeat((degree + 1.0) ** -2, degree), minlength=len(frontier)).astype(np.float64)
            candidates = self.graph.positions_of(frontier.rows[len(rows) :])
        scale = np.ones(len(rows) + len(candidates))
        scale[len(rows) :] = self._scales(candidates, squares[len(rows) :], moment.key)
        edge_scale = scale[place]
        taken = np.flatnonzero(edge_scale)
        before = np.concatenate([[0], np.cumsum(edge_scale > 0)])
        return Taken(
            before[every.offsets],
            every.neighbours[taken],
            every.entry[taken],
            edge_scale=edge_scale[taken].astype(np.float32),
        )

    def _scales(self, positions: NDArray[Any], chance: NDArray[np.float64], key: np.uint64) -> NDArray[np.float64]:
        """The scale of every candidate, 0 for those not drawn."""
        if self.replace:
            return self._with_replacement(positions, chance, key)
        if len(positions) <= self.nodes:
            return np.ones(len(positions))
        arrival = -np.log(_units(keyed_bits(key, positions))) / chance
        end = np.partition(arrival, self.nodes)[self.nodes]
        return np.where(arrival < end, -1.0 / np.expm1(-chance * end), 0.0)

    def _with_replacement(self, positions: NDArray[Any], chance: NDArray[np.float64], key: np.uint64) -> NDArray[np.float64]:
        if not len(positions):
            return np.zeros(0)
        order = np.argsort(positions, kind="stable")  # chances are laid out by position, so that numbering changes nothing
        running = np.cumsum(chance[order])
        marks = _units(keyed_bits(key, np.arange(self.nodes))) * running[-1]
        drawn = np.minimum(np.searchsorted(running, marks, side="right"), len(positions) - 1)
        times = np.zeros(len(positions))
        times[order] = np.bincount(drawn, minlength=len(positions))
        scale: NDArray[np.float64] = times * running[-1] / (self.nodes * chance)
        return scale


def _units(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Random bits as numbers strictly between 0 and 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
