"""restream: hand-worked rows, a slow twin, caps, and cuts no worse than its promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.kernels.partition.restream import COUNTS, MET, NOWHERE, PART, Rule, fade, note, restream_edges
from starling.partition.contract import PartitionTask
from starling.partition.quality import measure, measure_random
from starling.partition.restream import Restream
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import clique, streams, undirected

NO_WEIGHT = np.zeros(0, np.int64)


class SlowTwin:
    """The rule as written, over dictionaries."""

    def __init__(self, nodes: int, parts: int, cap: int, evenness: float) -> None:
        self.part: list[int | None] = [None] * nodes
        self.counts = [[0] * parts for _ in range(nodes)]
        self.load, self.cap, self.evenness = [0] * parts, cap, evenness

    def edge(self, u: int, v: int) -> None:
        for node, other in ((u, v), (v, u)):
            if self.part[node] is None:
                wanted = self.part[other]
                if wanted is None or self.load[wanted] >= self.cap:
                    wanted = self.load.index(min(self.load))
                self.part[node] = wanted
                self.load[wanted] += 1
        for node, other in ((u, v), (v, u)):
            a, b = self.part[node], self.part[other]
            assert a is not None
            assert b is not None
            self.counts[node][b] += 1
            met = sum(self.counts[node])
            better = (self.counts[node][b] - self.counts[node][a]) - self.evenness * (
                self.load[b] - self.load[a]
            ) / self.cap * met
            if a != b and self.load[b] < self.cap and better > 1e-12:
                self.part[node] = b
                self.load[a] -= 1
                self.load[b] += 1


@settings(deadline=None, max_examples=60)
@given(edges=streams(), parts=st.integers(2, 6), evenness=st.sampled_from([0.0, 0.5, 2.0]))
def test_one_pass_is_the_rule_as_written(edges: EdgesInMemory, parts: int, evenness: float) -> None:
    cap = -(-edges.nodes // parts) + 1
    pairs = np.array([(u, v) for block in edges.blocks() for u, v in block.pairs if u != v], np.int32).reshape(-1, 2)
    twin = SlowTwin(edges.nodes, parts, cap, evenness)
    for u, v in pairs.tolist():
        twin.edge(u, v)
    rows = np.zeros((edges.nodes, COUNTS + parts), np.uint16)
    rows[:, PART] = NOWHERE
    load = np.zeros(parts, np.int64)
    restream_edges(pairs, rows, NO_WEIGHT, load, Rule(cap, evenness, False))
    assert [None if part == NOWHERE else part for part in rows[:, PART].tolist()] == twin.part
    assert rows[:, COUNTS:].tolist() == twin.counts
    assert load.tolist() == twin.load


def test_a_sketch_row_by_hand() -> None:
    rows = np.zeros((1, COUNTS + 4), np.uint16)  # two parts remembered
    for part in (7, 7, 9, 7, 9):
        note(0, part, rows, True)
    assert rows[0].tolist() == [0, 5, 7, 3, 9, 2]
    assert note(0, 4, rows, True) == 1  # takes the place of the lightest
    assert rows[0].tolist() == [0, 6, 7, 3, 4, 1]
    fade(rows, 0, 1, True)
    assert rows[0].tolist() == [0, 3, 7, 1, 4, 0]


def test_a_full_counter_fades_instead_of_wrapping() -> None:
    rows = np.zeros((1, COUNTS + 2), np.uint16)
    rows[0, MET] = rows[0, COUNTS] = 65535
    assert note(0, 0, rows, False) == 32768
    assert rows[0, MET] == 32768


@pytest.mark.parametrize("parts", [4, 40])
def test_communities_are_found_in_any_order_of_edges(parts: int) -> None:
    pairs = [pair for k in range(2 * parts) for pair in clique(*range(k * 10, k * 10 + 10))]
    order = np.random.default_rng(0).permutation(len(pairs))
    edges = undirected([pairs[k] for k in order], 20 * parts)
    quality = measure(edges, Restream().assign(PartitionTask(edges, parts)))
    assert quality.node_balance <= 1.1
    assert quality.replication_factor < 0.6 * measure_random(edges, parts).replication_factor


@settings(deadline=None, max_examples=40)
@given(edges=streams(), parts=st.integers(1, 30))
def test_parts_keep_to_the_cap(edges: EdgesInMemory, parts: int) -> None:
    sizes = np.bincount(Restream().assign(PartitionTask(edges, parts)).owner, minlength=parts)
    assert sizes.max() <= -(-edges.nodes // parts)


def test_it_stops_when_nothing_moves() -> None:
    edges = undirected(clique(0, 1, 2, 3), 4)
    assignment = Restream(Restream.Settings(passes=50)).assign(PartitionTask(edges, 1))
    assert assignment.passes == 1
    assert assignment.notes["moves"] == 0


def test_loads_are_evened_in_place_of_nodes() -> None:
    pairs = [pair for k in range(6) for pair in clique(*range(k * 10, k * 10 + 10))]
    load = np.where(np.arange(60) < 10, 5, 1)
    edges = undirected(pairs, 60)
    owner = Restream().assign(PartitionTask(edges, 2, node_load=load)).owner
    assert np.bincount(owner, load).max() <= 1.03 * load.sum() / 2 + 5
