"""The vertex-cut methods against their formulas written down with sets, and placements worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_below, stream_key
from starling.partition.contract import Partitioner, PartitionTask
from starling.partition.dbh import Dbh
from starling.partition.greedy import Greedy
from starling.partition.grid import Grid, grid_shape
from starling.partition.hashed import Hash
from starling.partition.hdrf import Hdrf
from starling.partition.two_phase import TwoPhase
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import connections, degrees, directed, stored, streams, undirected

PARTS = st.integers(1, 6)


def placed(method: Partitioner, edges: EdgesInMemory, parts: int, seed: int = 0) -> list[int]:
    assignment = method.assign(PartitionTask(edges, parts, seed))
    assert assignment.edge_part is not None
    return assignment.edge_part.tolist()


@given(streams(), PARTS)
def test_hash_by_source(edges: EdgesInMemory, parts: int) -> None:
    assignment = Hash(Hash.Settings(by="source")).assign(PartitionTask(edges, parts, 3))
    key = stream_key(3, "partition/hash")
    assert assignment.owner.tolist() == [draw_below(key, v, 0, parts) for v in range(edges.nodes)]
    assert assignment.edge_part is not None
    assert assignment.edge_part.tolist() == [assignment.owner[u] for u, _ in stored(edges)]


@given(streams(), PARTS)
def test_hash_by_destination_is_the_same_owners_as_an_edge_cut(edges: EdgesInMemory, parts: int) -> None:
    by_source = Hash(Hash.Settings(by="source")).assign(PartitionTask(edges, parts, 3))
    by_destination = Hash().assign(PartitionTask(edges, parts, 3))
    assert by_destination.kind == "edge-cut"
    assert by_destination.owner.tolist() == by_source.owner.tolist()


@given(streams(), PARTS)
def test_grid_keeps_a_node_in_one_row_and_one_column(edges: EdgesInMemory, parts: int) -> None:
    rows, columns = grid_shape(parts)
    row_of, column_of = {}, {}
    for (u, v), part in zip(stored(edges), placed(Grid(), edges, parts), strict=True):
        row, column = divmod(part, columns)
        assert row_of.setdefault(u, row) == row < rows
        assert column_of.setdefault(v, column) == column


@pytest.mark.parametrize(
    ("parts", "shape"), [(1, (1, 1)), (4, (2, 2)), (8, (2, 4)), (12, (3, 4)), (7, (1, 7)), (65535, (255, 257))]
)
def test_grids_are_as_square_as_they_can_be(parts: int, shape: tuple[int, int]) -> None:
    assert grid_shape(parts) == shape


@given(streams(), PARTS)
def test_dbh_hashes_the_end_of_lower_degree(edges: EdgesInMemory, parts: int) -> None:
    d, key = degrees(edges), stream_key(1, "partition/dbh")
    expected = [draw_below(key, min((d[u], u), (d[v], v))[1], 0, parts) for u, v in stored(edges)]
    assert placed(Dbh(), edges, parts, seed=1) == expected


def greedy_twin(edges: EdgesInMemory, parts: int, slack: float) -> list[int]:
    to_come = Counter(end for edge in stored(edges) for end in edge)
    at: dict[int, set[int]] = {v: set() for v in range(edges.nodes)}
    load, chosen = [0] * parts, []
    room = math.ceil((1 + slack) * edges.edges / parts)
    for u, v in stored(edges):
        open_u, open_v = ({q for q in at[end] if load[q] < room} for end in (u, v))
        if open_u & open_v:
            candidates = open_u & open_v
        elif open_u and open_v:
            candidates = open_u if to_come[u] >= to_come[v] else open_v
        else:
            candidates = open_u or open_v or set(range(parts))
        part = min(candidates, key=lambda q: (load[q], q))
        chosen.append(part)
        load[part] += 1
        for end in (u, v):
            at[end].add(part)
            to_come[end] -= 1
    return chosen


@given(streams(), PARTS, st.sampled_from([0.0, 0.05, 1.0, 100.0]))
def test_greedy_follows_the_four_rules(edges: EdgesInMemory, parts: int, slack: float) -> None:
    assert placed(Greedy(Greedy.Settings(slack=slack)), edges, parts) == greedy_twin(edges, parts, slack)


def test_greedy_by_hand() -> None:
    """Edges (0,1) (2,3) (0,2) (1,3) (4,5) (0,1), two parts, no limit.

    (0,1) → 0 by rule 4; (2,3) → 1 by rule 4; (0,2): 0 is in part 0 with two more edges to come, itself included, 2 in part 1
    with one: rule 2, part 0. (1,3): 1 has two to come, 3 one: part 0. (4,5) → 1, rule 4. (0,1) → 0, rule 1.
    """
    edges = directed([(0, 1), (2, 3), (0, 2), (1, 3), (4, 5), (0, 1)], 6)
    assert placed(Greedy(Greedy.Settings(slack=10)), edges, 2) == [0, 1, 0, 0, 1, 0]


def hdrf_twin(edges: EdgesInMemory, parts: int, weight: float) -> list[int]:
    seen: Counter[int] = Counter()
    at: dict[int, set[int]] = {v: set() for v in range(edges.nodes)}
    load, chosen = [0] * parts, []
    for u, v in stored(edges):
        seen.update((u, v))
        theta = seen[u] / (seen[u] + seen[v])
        scale = weight / (1 + max(load) - min(load))

        def score(q: int, u: int = u, v: int = v, theta: float = theta, scale: float = scale) -> float:
            total = scale * (max(load) - load[q])
            total += (2 - theta) if q in at[u] else 0
            return total + ((1 + theta) if q in at[v] else 0)

        part = max(range(parts), key=lambda q: (score(q), -q))
        chosen.append(part)
        load[part] += 1
        at[u].add(part)
        at[v].add(part)
    return chosen


@given(streams(), PARTS, st.sampled_from([0.0, 1.0, 1.1, 5.0]))
def test_hdrf_follows_its_formula(edges: EdgesInMemory, parts: int, weight: float) -> None:
    assert placed(Hdrf(Hdrf.Settings(balance=weight)), edges, parts) == hdrf_twin(edges, parts, weight)


def test_hdrf_by_hand() -> None:
    """Edges (0,1) (2,3) (0,2) (0,3), two parts, λ = 1.

    (0,1): all scores 0, part 0. (2,3): part 0 is full by one, C_bal = 1/2 for part 1. (0,2): d_0 = 2, d_2 = 2, θ = 1/2; both
    parts score 1.5: the lower, 0. (0,3): d_0 = 3, d_3 = 2, θ_0 = 0.6: part 0 scores 1.4, part 1 scores 1.6 + 1/2: part 1.
    """
    edges = directed([(0, 1), (2, 3), (0, 2), (0, 3)], 4)
    assert placed(Hdrf(Hdrf.Settings(balance=1)), edges, 2) == [0, 1, 0, 1]


def two_phase_twin(edges: EdgesInMemory, parts: int, alpha: float, share: float) -> list[int]:
    d = degrees(edges)
    cap = int(share * sum(d) / parts)
    cluster, volume = list(range(edges.nodes)), list(d)
    for u, v in connections(edges):
        a, b = cluster[u], cluster[v]
        if a != b and max(volume[a], volume[b]) <= cap:
            mover, here, there = (u, a, b) if volume[a] <= volume[b] else (v, b, a)
            volume[here] -= d[mover]
            volume[there] += d[mover]
            cluster[mover] = there
    packed, part_of = [0] * parts, [0] * edges.nodes
    for c in sorted((c for c in range(edges.nodes) if volume[c]), key=lambda c: (-volume[c], c)):
        part_of[c] = packed.index(min(packed))
        packed[part_of[c]] += volume[c]
    at: dict[int, set[int]] = {v: set() for v in range(edges.nodes)}
    load, room = [0] * parts, math.ceil(alpha * edges.edges / parts)
    key = stream_key(0, "partition/2ps-l")

    def put(u: int, v: int, part: int) -> int:
        if load[part] >= room:
            part = int(draw_below(key, u if d[u] >= d[v] else v, 0, parts))
        if load[part] >= room:
            part = load.index(min(load))
        load[part] += 1
        at[u].add(part)
        at[v].add(part)
        return part

    chosen: dict[int, int] = {}
    for i, (u, v) in enumerate(stored(edges)):
        if part_of[cluster[u]] == part_of[cluster[v]]:
            chosen[i] = put(u, v, part_of[cluster[u]])
    for i, (u, v) in enumerate(stored(edges)):
        if i not in chosen:
            volumes, theta = volume[cluster[u]] + volume[cluster[v]], d[u] / (d[u] + d[v])
            scores = {}
            for end in (v, u):
                q = part_of[cluster[end]]
                kept = volume[cluster[end]] / volumes
                kept += (2 - theta) if q in at[u] else 0
                scores[end] = kept + ((1 + theta) if q in at[v] else 0)
            chosen[i] = put(u, v, part_of[cluster[u if scores[u] >= scores[v] else v]])
    return [chosen[i] for i in range(edges.edges)]


@given(streams(), PARTS, st.sampled_from([1.0, 1.05, 3.0]), st.sampled_from([0.1, 1.0, 3.0]))
def test_two_phase_follows_its_description(edges: EdgesInMemory, parts: int, alpha: float, share: float) -> None:
    method = TwoPhase(TwoPhase.Settings(alpha=alpha, cluster_share=share))
    assert placed(method, edges, parts) == two_phase_twin(edges, parts, alpha, share)


def test_two_phase_by_hand() -> None:
    """Two triangles joined by (2, 3), two parts; as in SPRING's example the clusters become {0, 1} and {2, 3, 4, 5}.

    Volumes 4 and 10: the larger goes to part 0, the other to part 1. A part takes ⌈1.5 × 14 / 2⌉ = 11 of the 14 stored edges.
    Inside: (0, 1) both ways in part 1; (3, 4), (4, 5), (3, 5), (2, 3) both ways in part 0. Left: (1, 2) and (0, 2). Part 0 has
    2, part 1 has 1 and 0. For (1, 2), θ_1 = 2 / 5: part 1 scores 4/14 + 1.6, part 0 scores 10/14 + 1.4: part 0.
    Then 1 is in both parts, so (2, 1) scores 1.6 + 4/14 in part 1 and 3 + 10/14 in part 0; and so on for 0: all in part 0,
    until its eleven are full: that happens at the last of them, (2, 0), the twelfth.
    """
    edges = undirected([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)], 6)
    method = TwoPhase(TwoPhase.Settings(alpha=1.5))
    *first, last = [placed(method, edges, 2)[i] for i in (0, 1, 2, 3, 4, 6, 8, 10, 12, 5)]
    assert first == [1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert last == 1


@given(streams(), st.integers(1, 4))
def test_parts_keep_to_their_room(edges: EdgesInMemory, parts: int) -> None:
    for method, room in ((Greedy(), 1.05), (TwoPhase(), 1.05)):
        load = np.bincount(np.array(placed(method, edges, parts), np.int64), minlength=parts)
        assert load.max() <= math.ceil(room * edges.edges / parts)
