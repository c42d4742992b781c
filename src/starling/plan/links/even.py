"""As many target edges for every worker, most of them where they end (Zheng et al. 2022, §5.6.1: DistDGLv2 splits edges so).

A step's targets lie with the worker that owns their destination, which looks at its lists to draw what stands against them; a part
with more edges has more of them. Then those that a worker has too many of move to others, with what stands against them: as few as
can, so that the rest stays with its part. Which ones a step trains on is not changed, so neither is what is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.plan.links.pairs import Contrast, SharedContrast, StepPairs, TargetEdges

Swap = Callable[[Sequence[NDArray[Any]]], Sequence[NDArray[np.int64]]]
"""Gives every worker a list of whole numbers, by rank, and gets theirs."""


def even_moves(counts: NDArray[Any]) -> NDArray[np.int64]:
    """How many edges each worker gives to each [W, W], given how many it has [W]: afterwards counts differ by one at most.

    The larger shares go to those that have most already, ties to the lower rank, so no plan moves fewer.
    """
    workers, total = len(counts), int(np.sum(counts))
    share = np.full(workers, total // workers)
    share[np.argsort(-np.asarray(counts), kind="stable")[: total % workers]] += 1
    given, taken = (np.concatenate([[0], np.cumsum(np.maximum(gap, 0))]) for gap in (counts - share, share - counts))
    first, last = (np.maximum.outer(given[:-1], taken[:-1]), np.minimum.outer(given[1:], taken[1:]))
    moves: NDArray[np.int64] = np.maximum(last - first, 0).astype(np.int64)
    return moves


def even_pairs(drawn: StepPairs, counts: NDArray[Any], rank: int, swap: Swap) -> StepPairs:
    """What a worker computes of a step, given what it has and how many edges each worker has; all workers ask together.

    A moved edge takes 24 to 40 bytes, and 16 or 24 for every pair of its own against it.
    """
    moves = even_moves(counts)
    if not moves.any():
        return drawn
    numbers = _numbers(drawn)
    stays = len(numbers) - int(moves[rank].sum())
    ends = stays + np.cumsum(moves[rank])
    given = [numbers[end - count : end] for end, count in zip(ends, moves[rank], strict=True)]
    got = [taken.reshape(-1, numbers.shape[1]) for taken in swap([rows.reshape(-1) for rows in given])]
    return _pairs(np.concatenate([numbers[:stays], *(rows for peer, rows in enumerate(got) if peer != rank)]), drawn)


def _numbers(drawn: StepPairs) -> NDArray[np.int64]:
    """A row of whole numbers for each edge, with everything that belongs to it."""
    edges, contrast = drawn.edges, drawn.contrast
    columns = [edges.number, edges.source, edges.destination]
    columns += [] if edges.relation is None else [edges.relation]
    columns += [] if contrast.shared is None else [contrast.shared.at_source]
    blocks = [contrast.node, contrast.at_source] + ([] if contrast.other is None else [contrast.other])
    return np.concatenate([np.stack(columns, 1), *blocks], 1).astype(np.int64)


def _pairs(numbers: NDArray[np.int64], like: StepPairs) -> StepPairs:
    """What `_numbers` was given; rows of destinations are no rows of this worker any more."""
    columns = iter(numbers.T)
    number, source, destination = (np.ascontiguousarray(next(columns)) for _ in range(3))
    relation = None if like.edges.relation is None else np.ascontiguousarray(next(columns))
    shared = like.contrast.shared
    if shared is not None:
        shared = SharedContrast(shared.node, next(columns).astype(np.bool_))
    blocks = 2 if like.contrast.other is None else 3
    slots = like.contrast.node.shape[1]
    node, at_source, *other = np.split(numbers[:, numbers.shape[1] - slots * blocks :], blocks, axis=1)
    edges = TargetEdges(number, source, destination, np.full(len(number), -1), relation)
    return StepPairs(edges, Contrast(node, at_source.astype(np.bool_), other[0] if other else None, shared))
