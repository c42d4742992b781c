"""Which edges train and which are held out, as a rule that whoever sees an edge can apply to it.

A table says it, a draw for the edge's pair, or its time. What a rule needs to know of all edges, cuts by time and which held-out
edges stand in an earlier split too, is found in passes over them (`AllEdges`), so nobody need hold them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.plan.links.by_time import cuts_by_time, time_split
from starling.plan.links.earlier import EarlierSplits, EdgeNames, find_earlier
from starling.plan.links.splits import CODES, LEFT_OUT, TRAIN, given_split, random_split
from starling.train.links.data import AllEdges, HeldEdges
from starling.train.links.settings import LinkSettings


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """The split of every edge of a graph."""

    where: str
    settings: LinkSettings
    seed: int
    given: bool
    """Whether the edge table 'split' says it."""
    turned: bool
    """Whether an edge and its reverse, of one type, have one name: so it is where every edge has one."""
    cuts: NDArray[np.uint64] | None = None
    """The last times of training and validation."""
    earlier: EarlierSplits | None = None
    """Of a split by time: edges whose pair was there in an earlier split are left out, as they tell nothing about new ones."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Edges of each split over all workers."""
    training: tuple[int, ...] = ()
    """Training edges of each piece of this worker."""
    held_out: int = 0
    """Validation and test edges of this worker."""

    def of(self, held: HeldEdges) -> NDArray[np.uint8]:
        """The split of every entry."""
        if self.given:
            return given_split(held.column("split"), self.where)
        if self.cuts is None:
            return random_split(held.source, held.destination, self.settings.shares, self.seed)
        split = time_split(held.column("time"), self.cuts)
        if self.earlier is not None:
            split[self.earlier.has(self.names(held), split)] = LEFT_OUT
        return split

    def trains(self, held: HeldEdges) -> NDArray[np.bool_]:
        """Which entries are training edges."""
        found: NDArray[np.bool_] = self.of(held) == TRAIN
        return found

    def names(self, held: HeldEdges) -> EdgeNames:
        """What makes two edges the same: their pair, or where edges have types source, type and destination.

        Where every edge has a reverse of its own type, one name stands for both; reverses of another type are edges of their own.
        """
        source, destination = held.source, held.destination
        if held.relation is None or not self.turned:
            return EdgeNames(source, destination, held.relation)
        return EdgeNames(np.minimum(source, destination), np.maximum(source, destination), held.relation)


def find_split(edges: AllEdges, settings: LinkSettings, seed: int) -> EdgeSplit:
    """The split that the settings ask for; refuses one that leaks or has no training or test edges."""
    given = settings.split in ("auto", "given") and settings.split_edges is None and "split" in edges.tables
    if settings.split == "given" and not given:
        raise InputError(
            f"{edges.path} has no edge table 'split'. Import one, or pass --split-edges 90/5/5 for a random split."
        )
    by_time = settings.split == "time"
    if by_time and "time" not in edges.tables:
        raise InputError(
            f"A split by time needs the edge table 'time', and {edges.path} has none. Import one, or split at random."
        )
    turned = (given or by_time) and edges.typed and _reverses_are_the_same(edges)
    rule = EdgeSplit(f"the edge table 'split' of {edges.path}", settings, seed, given, turned)
    if by_time:
        cuts = cuts_by_time(lambda: (held.column("time") for held in edges.pieces()), settings.shares.ends, edges.total)
        rule = replace(rule, cuts=cuts)
    if given or by_time:
        earlier = find_earlier(lambda: ((rule.names(held), rule.of(held)) for held in edges.pieces()), edges.everybodys)
        if by_time:
            rule = replace(rule, earlier=earlier)
        else:
            _refuse_leaks(edges, rule, earlier)
    return _counted(edges, rule)


def _reverses_are_the_same(edges: AllEdges) -> bool:
    """Whether every edge has a reverse of its own type: then sums over names are the same either way round."""
    difference = np.zeros(1, np.int64)
    for held in edges.pieces():
        source, destination = held.source, held.destination
        names, turned = (EdgeNames(*ends, held.relation) for ends in ((source, destination), (destination, source)))
        difference += names.bits.sum(keepdims=True) - turned.bits.sum(keepdims=True)  # of whole numbers that wrap around
    return not int(edges.total(difference)[0])


def _refuse_leaks(edges: AllEdges, rule: EdgeSplit, earlier: EarlierSplits) -> None:
    count, example = 0, ""
    for held, late in _late(edges, rule, earlier):
        if len(late) and not example:
            example = f", such as edge number {int(held.edges(late[:1]).number[0]):,}"
        count += len(late)
    count = int(edges.total(np.array([count]))[0])
    if not count:
        return
    again = "stand" if edges.typed else "stand, one way or the other,"
    raise InputError(
        f"Of the validation and test edges of {edges.path}, {count:,} {again} in an earlier split too{example}: training would "
        "give them away. Take them out of the table 'split', or pass --split-edges 90/5/5 for a random split."
    )


def _late(edges: AllEdges, rule: EdgeSplit, earlier: EarlierSplits) -> Iterator[tuple[HeldEdges, NDArray[np.int64]]]:
    """Each piece with its entries that are in an earlier split too."""
    for held in edges.pieces():
        yield held, np.flatnonzero(earlier.has(rule.names(held), rule.of(held)))


def _counted(edges: AllEdges, rule: EdgeSplit) -> EdgeSplit:
    """The rule with how many edges it puts into each split."""
    counts = [np.bincount(rule.of(held), minlength=LEFT_OUT + 1)[:LEFT_OUT] for held in edges.pieces()]
    mine = np.array(counts, np.int64).reshape(-1, LEFT_OUT)
    sizes = dict(zip(CODES, edges.total(mine.sum(axis=0)).tolist(), strict=True))
    for name in ("train", "test"):
        if not sizes[name]:
            raise InputError(
                f"No edge of {edges.path} is left for the {name} split (train, val, test: "
                f"{', '.join(map(str, sizes.values()))}). Give other shares with --split-edges, or other edges."
            )
    held_out = int(mine[:, TRAIN + 1 :].sum())
    return replace(rule, sizes=sizes, training=tuple(mine[:, TRAIN].tolist()), held_out=held_out)
