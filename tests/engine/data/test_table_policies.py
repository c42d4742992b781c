"""Rows by node type and by edge type out of the key-value store, at 1, 2 and 4 workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.engine.data.features import TablesByType, TypeTable
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.tables import Kind
from starling.engine.hybrid.messages.calls import Calls
from starling.store.graph import CsrTable
from starling.store.parts import Parts
from starling.store.policies import edge_policy, node_policy
from tests.engine.data.test_kv import NODES, WORKERS, Sums, case, in_team
from tests.support.parts import EDGE_TYPES, TYPES, Case, build

__all__ = ["case"]  # the fixture: five parts, one empty, one of a single node


@pytest.fixture(scope="module", params=[1, 3], ids=["whole parts", "sub-parts"])
def parts(case: Case, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return build(replace(case, sub_parts=request.param), tmp_path_factory.mktemp("policies"))


def nodes_of(case: Case, parts: Parts, name: str) -> np.ndarray:
    """Global ids of the nodes of a type, ascending."""
    assert case.types is not None
    return np.flatnonzero(case.types[np.asarray(parts.position_of_global)] == TYPES.index(name))


def edges_of(parts: Parts) -> np.ndarray:
    """The edge of every entry of all parts."""
    return np.concatenate([np.asarray(parts.shard(part).incoming.edge) for part in range(len(parts))])


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", TYPES)
def test_rows_of_one_node_type(case: Case, parts: Parts, workers: int, near: bool, name: str) -> None:
    """Of a table of the type, dense and sparse, and of tables of all nodes."""
    assert case.types is not None
    ids = np.random.default_rng(workers).choice(nodes_of(case, parts, name), 50)
    position, members = np.asarray(parts.position_of_global)[ids], np.flatnonzero(case.types == TYPES.index(name))
    words = CsrTable(*case.tables()[f"words@{name}"][:3], (len(members), 5)).dense(np.searchsorted(members, position))

    def work(store: KeyValueStore, calls: Calls) -> None:
        mine = slice(store.places.team.rank, None, 2)
        np.testing.assert_array_equal(store.pull(f"x@{name}", ids[mine], calls)[:, 0], position[mine] * 100.0)
        np.testing.assert_array_equal(store.pull(f"words@{name}", ids[mine], calls, of_type=name), words[mine])
        np.testing.assert_array_equal(store.pull("y", ids[mine], calls, of_type=name), position[mine] * 7)

    in_team(workers, near, parts, work)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", EDGE_TYPES[:-1])
def test_rows_of_one_edge_type(case: Case, parts: Parts, workers: int, name: str) -> None:
    edges, values = edges_of(parts), case.edge_tables()
    of_type = np.flatnonzero(values["type"][edges] == EDGE_TYPES.index(name))
    ids = np.random.default_rng(workers).choice(of_type, 30)

    def work(store: KeyValueStore, calls: Calls) -> None:
        mine = ids[store.places.team.rank :]
        for table in ("attr", "weight"):
            found = store.pull(table, mine, calls, kind="edge", of_type=name)
            np.testing.assert_array_equal(found, values[table][edges[mine]])

    in_team(workers, False, parts, work)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(("kind", "name"), [("node", "paper"), ("edge", "paper__to__author")])
def test_kept_rows_of_one_type(case: Case, parts: Parts, kind: Kind, name: str, workers: int) -> None:
    """A worker keeps the rows of its own ids of the type and no others, numbered in their order; everybody adds to all of them."""
    policy = (node_policy if kind == "node" else edge_policy)(parts.manifest, name, alone=True)
    ids = np.concatenate([np.arange(low, high) for low, high in zip(policy.first, policy.last, strict=True)])
    ends = case.pairs[edges_of(parts), 1] if kind == "edge" else np.asarray(parts.position_of_global)
    assert case.types is not None
    assert np.array_equal(ids, np.flatnonzero(case.types[ends] == TYPES.index(name.rpartition("__")[2])))

    def work(store: KeyValueStore, calls: Calls) -> tuple[np.ndarray, np.ndarray]:
        own, rank = store.places.own, store.places.team.rank
        first, last = int(policy.rows_before[own.start]), int(policy.rows_before[own.stop])
        table = Sums(first, last - first)
        store.keep("sums", table, kind=kind, of_type=name)
        np.testing.assert_array_equal(store.pull("sums", ids[::-1], calls, kind=kind)[:, 0], np.arange(len(ids))[::-1])
        store.push("sums", ids, np.full((len(ids), 2), rank + 1, np.float32), calls, kind=kind, of_type=name)
        return store.pull("sums", ids, calls, kind=kind), table.values

    found = in_team(workers, False, parts, work)
    wanted = np.arange(len(ids))[:, None] * np.array([1, 100]) + workers * (workers + 1) / 2
    for rows, _ in found:
        np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(np.concatenate([kept for _, kept in found]), wanted)


def test_types_of_nodes_need_no_message(case: Case, parts: Parts) -> None:
    """Nodes far away are asked for by type at once: two questions and two answers, no more."""
    assert case.types is not None
    position = np.asarray(parts.position_of_global)

    def work(store: KeyValueStore, calls: Calls) -> tuple[np.ndarray, int]:
        features = TablesByType(store, [TypeTable(f"x@{name}") for name in TYPES], 2)
        return features.begin(np.arange(NODES), calls).rows(), sum(store.places.team.ledger.close().bytes_to)

    found = in_team(2, False, parts, work)
    bounds = parts.offsets[[0, 2, 5]]
    for rank, (rows, sent) in enumerate(found):
        np.testing.assert_array_equal(rows, np.stack([position * 100.0, case.types[position]], 1))
        own = int(bounds[rank + 1] - bounds[rank])
        assert sent == 8 * (NODES - own) + 8 * own  # ids that are asked for, rows of one float64 that are sent


def test_ids_outside_of_a_type_are_refused(case: Case, parts: Parts, tmp_path: Path) -> None:
    def refuse(match: str, act: Callable[[KeyValueStore, Calls], Any]) -> None:
        with pytest.raises(InputError, match=match):
            in_team(1, False, parts, act)

    paper, author = nodes_of(case, parts, "paper"), nodes_of(case, parts, "author")
    edges = edges_of(parts)
    to_paper = np.flatnonzero(case.edge_tables()["type"][edges] % 2 == 1)
    sentence = rf"ids of nodes of the type 'paper' for the node table 'y', got {author[0]}\.$"
    refuse(sentence, lambda store, calls: store.pull("y", author, calls, of_type="paper"))
    refuse(
        rf"^Expected ids of edges of the type 'paper__to__author'.* for the edge table 'attr', got {to_paper[0]}\.$",
        lambda store, calls: store.pull("attr", to_paper, calls, kind="edge", of_type="paper__to__author"),
    )
    refuse("no edge type 'paper'", lambda store, calls: store.pull("attr", to_paper, calls, kind="edge", of_type="paper"))
    refuse(
        r"^Expected a wish for rows of the type 'paper', the only one that the node table 'x@paper' has, got 'author'\.$",
        lambda store, calls: store.pull("x@paper", author, calls, of_type="author"),
    )

    def kept(store: KeyValueStore, calls: Calls) -> None:
        store.keep("sums", Sums(0, len(paper)), of_type="paper")
        store.push("sums", author, np.zeros((len(author), 2)), calls)

    refuse("nodes of the type 'paper' for the node table 'sums'", kept)
