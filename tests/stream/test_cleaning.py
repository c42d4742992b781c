from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.progress import SILENT
from starling.stream.cleaning import EdgeFiles, Findings, clean_edges
from starling.stream.edge_counter import Rules
from starling.stream.room import Room
from tests.support.slow_import import Edge, slow_clean

LARGE, TINY = Room(1 << 28), Room(3_000)
NODES = 9
edge_lists = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 1)), max_size=60)
all_rules = st.builds(Rules, drop_loops=st.booleans(), drop_repeats=st.booleans(), add_reverses=st.booleans())


def clean(
    directory: Path, edges: list[Edge], rules: Rules, room: Room, *, typed: bool = False, dtype: type = np.int32
) -> tuple[Findings, np.ndarray, np.ndarray]:
    """Clean edges whose weights are their numbers; returns the findings, the final edges and the final weights."""
    came = EdgeFiles(
        directory / "pairs.npy", {"weight": directory / "weight.npy"} | ({"type": directory / "type.npy"} if typed else {})
    )
    final = EdgeFiles(directory / "edges.npy", {role: directory / f"{role}.edge.npy" for role in came.tables})
    np.save(came.pairs, np.array([edge[:2] for edge in edges], dtype).reshape(-1, 2))
    np.save(came.tables["weight"], np.arange(len(edges), dtype=np.float32))
    if typed:
        np.save(came.tables["type"], np.array([kind for *_, kind in edges], np.uint8))
    findings = clean_edges(came, final, NODES, rules, room, directory / "scratch", SILENT)
    assert not came.pairs.exists()
    assert not [path for path in (directory / "scratch").rglob("*") if path.is_file()]
    pairs = np.load(final.pairs)
    assert pairs.dtype == dtype
    if typed:
        pairs = np.column_stack([pairs, np.load(final.tables["type"])])
    return findings, pairs, np.load(final.tables["weight"])


@given(edge_lists, all_rules, st.booleans(), st.sampled_from([LARGE, TINY]), st.sampled_from([np.int32, np.int64]))
def test_cleaning_is_that_of_the_slow_twin(edges: list[Edge], rules: Rules, typed: bool, room: Room, dtype: type) -> None:
    if not typed:
        edges = [(u, v, 0) for u, v, _ in edges]
    expected = slow_clean(edges, rules)
    with tempfile.TemporaryDirectory() as name:
        findings, pairs, weights = clean(Path(name), edges, rules, room, typed=typed, dtype=dtype)
    assert pairs.tolist() == [list(edge if typed else edge[:2]) for edge in expected.edges]
    assert weights.tolist() == expected.origin
    counts = findings.counts
    assert (counts.read, counts.self_loops, counts.duplicates) == (len(edges), expected.self_loops, expected.duplicates)
    assert counts.self_loops_dropped == expected.loops_dropped
    assert counts.duplicates_dropped == expected.duplicates_dropped
    assert counts.reverses_added == expected.reverses_added
    assert findings.edges == len(expected.edges)
    assert findings.symmetric == expected.symmetric
    assert findings.isolated == NODES - len(expected.touched)
    if rules.add_reverses:
        assert findings.symmetric


def test_by_hand(tmp_path: Path) -> None:
    edges = [(0, 1, 0), (2, 2, 0), (1, 0, 0), (0, 1, 0), (3, 4, 0)]
    findings, pairs, weights = clean(tmp_path, edges, Rules(drop_repeats=True, add_reverses=True), LARGE)
    assert pairs.tolist() == [[0, 1], [2, 2], [1, 0], [3, 4], [4, 3]]
    assert weights.tolist() == [0, 1, 2, 4, 4]
    assert findings.counts.model_dump() == {
        "read": 5, "self_loops": 1, "duplicates": 1, "self_loops_dropped": 0, "duplicates_dropped": 1, "reverses_added": 1,
    }  # fmt: skip
    assert (findings.edges, findings.symmetric, findings.isolated) == (5, True, 4)


def test_a_type_keeps_edges_apart(tmp_path: Path) -> None:
    """A copy has the same type, and so has an added reverse; whether the graph is symmetric is asked of the edges alone."""
    edges = [(0, 1, 0), (1, 0, 1), (0, 1, 0)]
    (tmp_path / "a").mkdir()
    findings, pairs, _ = clean(tmp_path / "a", edges, Rules(drop_repeats=True), LARGE, typed=True)
    assert pairs.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert findings.symmetric
    (tmp_path / "b").mkdir()
    _, pairs, _ = clean(tmp_path / "b", edges[:2], Rules(add_reverses=True), LARGE, typed=True)
    assert pairs.tolist() == [[0, 1, 0], [1, 0, 1]]  # each type is the reverse of the other
    (tmp_path / "c").mkdir()
    _, pairs, _ = clean(tmp_path / "c", [*edges[:2], (2, 3, 5)], Rules(add_reverses=True), LARGE, typed=True)
    assert pairs.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 1], [2, 3, 5], [3, 2, 5]]


@pytest.mark.parametrize("room", [LARGE, TINY])
def test_one_edge_a_thousand_times(tmp_path: Path, room: Room) -> None:
    findings, pairs, _ = clean(tmp_path, [(1, 0, 0)] * 1_000, Rules(drop_repeats=True), room)
    assert pairs.tolist() == [[1, 0]]
    assert findings.counts.duplicates == 999


def test_large_positions_are_matched_exactly(tmp_path: Path) -> None:
    far = 2**40
    came = EdgeFiles(tmp_path / "pairs.npy", {})
    np.save(came.pairs, np.array([[0, 1], [1, 0], [0, 2], [0, 1]]) + np.array([far, far]))
    # Pretend the nodes begin at 2⁴⁰, so that a bit for each of them need not be there.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starling.stream.cleaning.survey", lambda pairs, skip, touched: (0, np.uint64(1)))
        findings = clean_edges(
            came,
            EdgeFiles(tmp_path / "edges.npy", {}),
            3,
            Rules(drop_repeats=True, add_reverses=True),
            LARGE,
            tmp_path / "s",
            SILENT,
        )
    assert (np.load(tmp_path / "edges.npy") - far).tolist() == [[0, 1], [1, 0], [0, 2], [2, 0]]
    assert findings.counts.duplicates == 1
