"""CM-GCN's Algorithms 1 and 2 as written: recursive bisection with pendent pairs. For graphs of dozens of nodes.

Splitting a batch in two at the least C(U) + C(B ∖ U) is exact. With d(A, B) = C(A) + C(B) − C(A ∪ B), which a submodular C makes
monotone and consistent, the order that adds the node of least C(W ∪ {v}) − C({v}) is a maximum-adjacency order: its last two nodes
t, u are a pendent pair, that is {u} is the cheapest set that separates u from t (Queyranne 1998, Rizzi 2000). So either {u} is
split off, or t and u stay together and become one. M batches by repeated splits cost at most 2 − 2/M times the least.

Nothing here asks for batches of equal size, and the cheapest split is often one node against the rest: that is why training uses
`refine.py`, which has limits. O(M |V|³) costs of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from starling.core.errors import InputError
from starling.core.keyed import draw_below, stream_key
from starling.plan.cost import BatchCosts

Nodes = frozenset[int]
CostOf = Callable[[Nodes], float]


def cohesive_batches(costs: BatchCosts, targets: Sequence[int], batches: int, seed: int = 0) -> list[Nodes]:
    """Algorithm 1: from one batch of all targets, split whichever batch lowers J(P) most, until there are `batches`."""
    if not 1 <= batches <= len(targets):
        raise InputError(f"Expected between 1 and {len(targets):,} batches, one target in each at least, got {batches:,}.")
    cost = cost_of_sets(costs)
    parts = [frozenset(targets)]
    while len(parts) < batches:
        # J of P with one batch split differs by what that split adds
        splits = [
            split_in_two(cost, part, seed + 1000 * len(parts) + j) if len(part) > 1 else None for j, part in enumerate(parts)
        ]
        added = [
            np.inf if split is None else cost(split[0]) + cost(split[1]) - cost(part)
            for split, part in zip(splits, parts, strict=True)
        ]
        chosen = int(np.argmin(added))
        split = splits[chosen]
        assert split is not None, "there are more targets than batches, so some batch has two"
        parts[chosen : chosen + 1] = split
    return parts


def split_in_two(cost: CostOf, batch: Nodes, seed: int = 0) -> tuple[Nodes, Nodes]:
    """Algorithm 2: the split (B ∖ U, U) of least C(U) + C(B ∖ U)."""
    if len(batch) < 2:
        raise InputError(f"Expected at least two nodes to split, got {len(batch)}.")
    groups: list[Nodes] = [frozenset([node]) for node in sorted(batch)]
    key = stream_key(seed, "pendent pairs")
    best: tuple[float, Nodes] | None = None
    while len(groups) > 1:
        before, last = _pendent_pair(cost, groups, draw_below(key, len(groups), 0, len(groups)))
        total = cost(batch - last) + cost(last)
        if best is None or total < best[0]:
            best = (total, last)
        groups = [group for group in groups if group not in (before, last)] + [before | last]
    assert best is not None
    return batch - best[1], best[1]


def _pendent_pair(cost: CostOf, groups: Sequence[Nodes], first: int) -> tuple[Nodes, Nodes]:
    """The last two of the order that begins with `first` and always adds the group of least C(W ∪ {v}) − C({v})."""
    together, left = groups[first], [group for group in groups if group is not groups[first]]
    last, before = together, together
    while left:
        following = min(left, key=lambda group: cost(together | group) - cost(group))
        left.remove(following)
        together, before, last = together | following, last, following
    return before, last


def cost_of_sets(costs: BatchCosts) -> CostOf:
    """C as a function of sets, each worked out once."""

    @cache
    def cost(nodes: Nodes) -> float:
        return costs.of_batch(np.array(sorted(nodes), np.int64)) if nodes else 0.0

    return cost
