"""What a generator is: strict settings, one line of summary, and a function from settings to a graph.

A generated graph is never held: its readers compute each block when it is asked for. Every value is a pure function of the
settings and of the number of the edge or node, so blocks, threads and machines make no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from starling.kernels.parallel import parallel_for
from starling.stream.edges import BLOCK_EDGES
from starling.stream.raw import EdgeReader, RawEdges, RawGraph

MOST_NODES = 2**31 - 1


def _percentages(split: object) -> object:
    """Let a split be written ``60/20/20``, as on the command line."""
    return tuple(split.split("/")) if isinstance(split, str) else split


def _at_most_whole(split: tuple[int, int, int]) -> tuple[int, int, int]:
    if sum(split) > 100:
        raise ValueError(f"expected a split of 100 % at most, got {sum(split)} %")
    return split


Percent = Annotated[int, Field(ge=0, le=100)]
Split = Annotated[
    tuple[Percent, Percent, Percent],
    BeforeValidator(_percentages),
    AfterValidator(_at_most_whole),
    PlainSerializer(lambda split: "/".join(map(str, split)), return_type=str),
]
"""Percentages of train, val and test nodes; what is left of 100 is in no split."""


class GeneratorSettings(BaseModel):
    """What every generator can be told; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: int = Field(50_000, ge=1, le=MOST_NODES, description="Nodes of the graph.")
    edges: int = Field(
        1_000_000, ge=2, description="Directed edges to draw, both directions counted; duplicates and loops are then dropped."
    )
    seed: int = Field(0, description="Every choice depends on this number alone.")


S = TypeVar("S", bound=GeneratorSettings)


@dataclass(frozen=True)
class Generator(Generic[S]):
    """One entry of the registry."""

    summary: str
    settings: type[S]
    make: Callable[[S], RawGraph]


Fill = Callable[[int, NDArray[np.int64], NDArray[np.int64], int, int], object]
"""``fill(first, source, destination, start, stop)`` writes draws first + start … into rows start … stop − 1."""


class DrawnEdges(EdgeReader):
    """`draws` edges computed a block at a time on all threads."""

    id_kind = "integer"

    def __init__(self, draws: int, fill: Fill) -> None:
        self.expected = self._draws = draws
        self._fill = fill

    def blocks(self) -> Iterator[RawEdges]:
        """The edges, in the order of their numbers."""
        for first in range(0, self._draws, BLOCK_EDGES):
            count = min(BLOCK_EDGES, self._draws - first)
            source, destination = np.empty((2, count), np.int64)
            parallel_for(count, partial(self._fill, first, source, destination))
            yield RawEdges(source, destination)
