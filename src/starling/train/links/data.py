"""The edges of a run by their split: those that train, and those that are held out and never carry a message.

What one process holds are all edges, what a worker holds are the in-edges of its nodes; both look alike from here, and what
concerns all edges is added up over the team.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.kernels.csr import Csr
from starling.plan.links.deal import destinations_of
from starling.plan.links.pairs import TargetEdges
from starling.plan.links.splits import (
    CODES,
    LEFT_OUT,
    TRAIN,
    EdgeNames,
    Everybodys,
    Total,
    earlier_elsewhere,
    given_split,
    random_split,
    time_split,
)
from starling.train.links.settings import LinkSettings

EdgeColumn = Callable[[str], NDArray[Any] | None]
"""An edge table by name, a value for each entry of the lists; None where there is no such table."""


@dataclass(frozen=True, eq=False)
class HeldEdges:
    """The edges that this process holds, as in-neighbour lists of rows, and how it hears of others'.

    `position` [rows] is where each row stood in the imported graph; `relation` has the type of each entry, where edges have types.
    """

    path: Path
    lists: Csr
    position: NDArray[Any]
    relation: NDArray[np.int64] | None
    nodes: int
    directed: bool
    column: EdgeColumn
    total: Total
    everybodys: Everybodys

    def edges(self, entries: NDArray[np.int64]) -> TargetEdges:
        """Some of the edges."""
        row = destinations_of(self.lists, entries)
        relation = None if self.relation is None else self.relation[entries]
        source = self.position[self.lists.neighbours[entries]]
        return TargetEdges(self.lists.edge[entries], source, self.position[row], row, relation)


def split_edges(held: HeldEdges, settings: LinkSettings, seed: int) -> NDArray[np.uint8]:
    """The split of every entry; refuses a split that leaks or has no training or test edges."""
    table = held.column("split") if settings.split in ("auto", "given") and settings.split_edges is None else None
    if settings.split == "given" and table is None:
        raise InputError(f"{held.path} has no edge table 'split'. Import one, or pass --split-edges 90/5/5 for a random split.")
    destination = np.repeat(held.position[: held.lists.rows], np.diff(held.lists.offsets))
    source = held.position[held.lists.neighbours]
    if table is not None:
        split = given_split(table, f"the edge table 'split' of {held.path}")
    elif settings.split == "time":
        split = _by_time(held, settings)
    else:
        split = random_split(source, destination, settings.shares, seed)
        return _checked(held, split)
    late = earlier_elsewhere(_names(held, source, destination), split, held.everybodys)
    if settings.split == "time":  # a link that training has seen already tells nothing about new ones
        split[late] = LEFT_OUT
    else:
        _refuse_leaks(held, split, late)
    return _checked(held, split)


def training_lists(held: HeldEdges, split: NDArray[np.uint8]) -> tuple[Csr, NDArray[np.bool_]]:
    """The lists without edges that are held out, and which entries stay."""
    stays = split == TRAIN
    before = np.concatenate([[0], np.cumsum(stays)])
    lists = held.lists
    return Csr(before[lists.offsets], lists.neighbours[stays], lists.edge[stays]), stays


def split_sizes(held: HeldEdges, split: NDArray[np.uint8]) -> dict[str, int]:
    """Edges of each split over all workers."""
    counts = held.total(np.bincount(split, minlength=LEFT_OUT + 1)[:LEFT_OUT]).tolist()
    return dict(zip(CODES, counts, strict=True))


def _names(held: HeldEdges, source: NDArray[Any], destination: NDArray[Any]) -> EdgeNames:
    """What makes two edges the same: their pair, or where edges have types source, type and destination.

    Where every edge has a reverse of its own type, one name stands for both; reverses of another type are edges of their own.
    """
    names, turned = (EdgeNames(*ends, held.relation) for ends in ((source, destination), (destination, source)))
    if held.relation is None:
        return names
    difference = names.bits.sum(keepdims=True) - turned.bits.sum(keepdims=True)  # of whole numbers that wrap around
    if int(held.total(difference)[0]):  # it is 0 where reverses are the same edges
        return names
    return EdgeNames(np.minimum(source, destination), np.maximum(source, destination), held.relation)


def _by_time(held: HeldEdges, settings: LinkSettings) -> NDArray[np.uint8]:
    time = held.column("time")
    if time is None:
        raise InputError(
            f"A split by time needs the edge table 'time', and {held.path} has none. Import one, or split at random."
        )
    return time_split(time, settings.shares, held.total)


def _refuse_leaks(held: HeldEdges, split: NDArray[np.uint8], late: NDArray[np.bool_]) -> None:
    count = int(held.total(np.array([late.sum()]))[0])
    if not count:
        return
    example = ""
    if late.any():
        edge = held.edges(np.flatnonzero(late)[:1])
        example = f", such as edge number {int(edge.number[0]):,}"
    again = "stand" if held.relation is not None else "stand, one way or the other,"
    raise InputError(
        f"Of the validation and test edges of {held.path}, {count:,} {again} in an earlier split too{example}: training would give "
        "them away. Take them out of the table 'split', or pass --split-edges 90/5/5 for a random split."
    )


def _checked(held: HeldEdges, split: NDArray[np.uint8]) -> NDArray[np.uint8]:
    sizes = split_sizes(held, split)
    for name in ("train", "test"):
        if not sizes[name]:
            raise InputError(
                f"No edge of {held.path} is left for the {name} split (train, val, test: {', '.join(map(str, sizes.values()))}). "
                "Give other shares with --split-edges, or other edges."
            )
    return split
