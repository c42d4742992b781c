"""Aggregate constant input features once.

Where the first layer is linear before its first weight and its input has no dropout, its aggregate is the same in every step:
it is computed by the ordinary kernel the first time and kept. Aggregates of constants are constant too (SGC's hops).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from torch import Tensor

from starling.nn.gather import Copy, Reduce
from starling.nn.graph import LocalGraph


@dataclass(frozen=True, eq=False)
class _Entry:
    graph: LocalGraph
    gather: Copy
    reduce: Reduce
    rows: Tensor
    version: int
    aggregate: Tensor


class Constants:
    """Rows that do not change while this object lives, and their aggregates. One object serves all steps on the same graph.

    Without `keep` every step makes its aggregates anew, but layers still know that rows are constant and aggregate before they
    multiply, as they do where aggregates are kept: keeping them changes no bit.
    """

    def __init__(self, features: Tensor, *, keep: bool = True) -> None:
        self.keep = keep
        self._rows = [(features, features._version)]
        self._entries: list[_Entry] = []

    def holds(self, rows: Tensor) -> bool:
        """Whether these very rows are known to be constant (and were not written to since)."""
        return not rows.requires_grad and any(known is rows and rows._version == version for known, version in self._rows)

    def kept(self, graph: LocalGraph) -> int:
        """How many aggregates over this graph are kept: as many layers of a model read no row any more (SGC: all)."""
        return sum(entry.graph is graph for entry in self._entries)

    def once(self, graph: LocalGraph, gather: Copy, reduce: Reduce, rows: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """The kept aggregate, computed the first time."""
        if not self.keep:
            return compute()
        for entry in self._entries:
            if entry.graph is graph and entry.rows is rows and entry.reduce == reduce and _same(entry.gather, gather):
                return entry.aggregate
        result = compute()
        self._entries.append(_Entry(graph, gather, reduce, rows, rows._version, result))
        self._rows.append((result, result._version))
        return result


def _same(a: Copy, b: Copy) -> bool:
    return all(getattr(a, f.name) is getattr(b, f.name) for f in fields(Copy))
