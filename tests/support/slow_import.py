"""What an import should give, worked out with dictionaries: the slow twin of stream/cleaning.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from starling.stream.edge_counter import Rules

Edge = tuple[int, int, int]
"""Source, destination, type."""


@dataclass(frozen=True)
class Cleaned:
    """Edges that remain, each with the number of the edge it came from, and the counts of the manifest."""

    edges: list[Edge]
    origin: list[int]
    self_loops: int
    duplicates: int
    loops_dropped: int
    duplicates_dropped: int
    reverses_added: int

    @property
    def symmetric(self) -> bool:
        """Whether every edge stands there as often as its reverse, types aside."""
        return _symmetric(self.edges)

    @property
    def touched(self) -> set[int]:
        """Nodes that have an edge."""
        return {node for edge in self.edges for node in edge[:2]}


def slow_clean(came: list[Edge], rules: Rules) -> Cleaned:
    """Drop and add edges one by one."""
    copies, passed = Counter(came), Counter[Edge]()
    add_reverses = rules.add_reverses and not _symmetric(came)
    edges: list[Edge] = []
    origin: list[int] = []
    loops_dropped = duplicates_dropped = reverses_added = 0
    for number, (u, v, kind) in enumerate(came):
        earlier = passed[u, v, kind]
        passed[u, v, kind] += 1
        if rules.drop_loops and u == v:
            loops_dropped += 1
            continue
        if rules.drop_repeats and earlier:
            duplicates_dropped += 1
            continue
        edges.append((u, v, kind))
        origin.append(number)
        if add_reverses and u != v and earlier >= copies[v, u, kind]:
            edges.append((v, u, kind))
            origin.append(number)
            reverses_added += 1
    return Cleaned(
        edges,
        origin,
        self_loops=sum(u == v for u, v, _ in came),
        duplicates=len(came) - len(copies),
        loops_dropped=loops_dropped,
        duplicates_dropped=duplicates_dropped,
        reverses_added=reverses_added,
    )


def _symmetric(edges: list[Edge]) -> bool:
    return Counter((u, v) for u, v, _ in edges) == Counter((v, u) for u, v, _ in edges)
