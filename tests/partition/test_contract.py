"""The contract refuses impossible tasks before they start and broken methods before they do harm."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from starling.core.assignment import Assignment
from starling.core.errors import InputError, StarlingError
from starling.partition.contract import MOST_NODES, Partitioner, PartitionTask
from starling.partition.uniform import Random
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import TINY

GOOD = Assignment("edge-cut", 2, np.array([0, 1, 0, 1, 0, 1, 0, 1], np.int32))
EDGES = TINY["two cliques"]


class Given(Partitioner):
    """Gives the assignment it was told to."""

    name = "given"

    def __init__(self, assignment: Assignment) -> None:
        super().__init__()
        self.assignment = assignment

    def _assign(self, task: PartitionTask) -> Assignment:
        return self.assignment


def test_a_good_assignment_passes() -> None:
    assert Given(GOOD).assign(PartitionTask(EDGES, 2)) is GOOD


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"parts": 3}, "edge-cut, 3 parts, instead of edge-cut, 2 parts"),
        ({"kind": "vertex-cut"}, "vertex-cut, 2 parts, instead of edge-cut, 2 parts"),
        ({"owner": np.zeros(7, np.int32)}, r"owners of shape \(7,\)"),
        ({"owner": np.zeros(8, np.int64)}, r"owners of shape \(8,\) and type int64"),
        ({"owner": np.full(8, 2, np.int32)}, r"owners from 2 to 2, outside 0 … 1"),
        ({"owner": np.full(8, -1, np.int32)}, "owners from -1"),
        ({"edge_part": np.zeros(24, np.uint16)}, "an edge-cut that places edges"),
        ({"locality": np.zeros(3, np.int32)}, r"a locality of shape \(3,\)"),
    ],
)
def test_a_broken_edge_cut_is_named(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(StarlingError, match=f"The method given is broken: it made ({fault})"):
        Given(dataclasses.replace(GOOD, **change)).assign(PartitionTask(EDGES, 2))


@pytest.mark.parametrize("edge_part", [None, np.zeros(23, np.uint16), np.zeros(24, np.int32), np.full(24, 2, np.uint16)])
def test_a_broken_vertex_cut_is_named(edge_part: Any) -> None:
    method = Given(dataclasses.replace(GOOD, kind="vertex-cut", edge_part=edge_part))
    method.kind = "vertex-cut"
    with pytest.raises(StarlingError, match=r"one uint16 part for each of 24 edges|edges in parts outside 0 … 1"):
        method.assign(PartitionTask(EDGES, 2))


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="at most 2,147,483,647 nodes"):
        Random().assign(PartitionTask(EdgesInMemory(np.empty((0, 2)), MOST_NODES + 1, directed=True), 2))


def test_a_streaming_method_says_what_memory_it_needs() -> None:
    edges = EdgesInMemory(np.empty((0, 2)), 1_000_000, directed=True)
    with pytest.raises(InputError, match=r"random needs about .* --memory leaves it 1.0 MiB. Raise --memory"):
        Random().assign(PartitionTask(edges, 2, memory=1 << 20))


def test_loads_are_refused_by_methods_that_cannot_weigh() -> None:
    with pytest.raises(InputError, match=r"random cannot weigh nodes.*--balance"):
        Random().assign(PartitionTask(EDGES, 2, node_load=np.ones(8, np.int64)))


@pytest.mark.parametrize("load", [np.ones(7, np.int64), np.full(8, -1), np.ones(8)])
def test_loads_that_make_no_sense_are_refused(load: Any) -> None:
    method = Given(GOOD)
    type(method).uses_load = True
    try:
        with pytest.raises(InputError, match="a whole number of at least 0 as the load of each of 8 nodes"):
            method.assign(PartitionTask(EDGES, 2, node_load=load))
    finally:
        type(method).uses_load = False


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        Random.Settings(speed=3)  # type: ignore[call-arg]
