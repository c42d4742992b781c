"""Held-out edges that are in an earlier split too, as themselves or the other way round: those that training would give away.

Found in two passes over the edges: the names of all held-out ones, which everybody hears of, and the earliest split that each of
them is in anywhere. What is held are 16 bytes for each held-out edge, and nothing of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.core.keyed import draw, stream_key
from starling.plan.links.splits import LEFT_OUT, TEST, TRAIN

Everybodys = Callable[[NDArray[Any]], list[NDArray[Any]]]
"""The lists of whole numbers of all workers."""
NamedSplits = Callable[[], Iterable[tuple["EdgeNames", NDArray[np.uint8]]]]
"""One pass over the edges of this worker with their splits, in pieces."""


@dataclass(frozen=True, eq=False)
class EdgeNames:
    """What makes two edges the same for a leak: the pair, either way round; with `relation`, source, relation and destination."""

    source: NDArray[Any]
    destination: NDArray[Any]
    relation: NDArray[Any] | None = None

    @property
    def bits(self) -> NDArray[np.int64]:
        """64 bits for each edge, the same for the same edge, else different but by a chance of 2⁻⁶⁴."""
        out = np.empty(len(self.source), np.uint64)
        key = stream_key(0, "links/names")
        if self.relation is None:
            _name_pairs(self.source, self.destination, key, out)
        else:
            _name_triples(self.source, self.destination, self.relation, key, out)
        return out.view(np.int64)


@dataclass(frozen=True, eq=False)
class EarlierSplits:
    """The names of all held-out edges, ascending, and the earliest split of each."""

    known: NDArray[np.int64]
    earliest: NDArray[np.int64]

    def has(self, names: EdgeNames, split: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of some edges are held out although they are in an earlier split too."""
        late = np.zeros(len(split), np.bool_)
        held = np.flatnonzero((split > TRAIN) & (split < LEFT_OUT))
        some = EdgeNames(names.source[held], names.destination[held], None if names.relation is None else names.relation[held])
        late[held] = self.earliest[np.searchsorted(self.known, some.bits)] < split[held]
        return late


def find_earlier(edges: NamedSplits, everybodys: Everybodys) -> EarlierSplits:
    """Look for all held-out edges among all edges, here and with any worker."""
    mine = [names.bits[split > TRAIN] for names, split in edges()]
    known = np.unique(np.concatenate(everybodys(np.concatenate([np.empty(0, np.int64), *mine]))))
    earliest = np.full(len(known), TEST, np.int64)
    for names, split in edges() if len(known) else ():
        bits = names.bits
        place = np.minimum(np.searchsorted(known, bits), len(known) - 1)
        found = np.flatnonzero(known[place] == bits)
        np.minimum.at(earliest, place[found], split[found].astype(np.int64))
    return EarlierSplits(known, np.min(everybodys(earliest), axis=0))


@compiled
def _name_pairs(source: NDArray[Any], destination: NDArray[Any], key: np.uint64, out: NDArray[np.uint64]) -> None:
    for i in range(len(source)):
        out[i] = draw(key, min(source[i], destination[i]), max(source[i], destination[i]))


@compiled
def _name_triples(
    source: NDArray[Any], destination: NDArray[Any], relation: NDArray[Any], key: np.uint64, out: NDArray[np.uint64]
) -> None:
    for i in range(len(source)):
        out[i] = draw(draw(key, source[i], destination[i]), relation[i], 1)
