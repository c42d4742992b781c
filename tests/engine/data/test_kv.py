"""The key-value store against whole arrays: any ids, any team, whoever is near."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.cache import StaticCache
from starling.engine.data.columns import Columns
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.places import Places
from starling.engine.data.tables import Kind
from starling.engine.hybrid.messages.calls import Calls
from starling.store.graph import CsrTable
from starling.store.parts import Parts, open_parts
from tests.support.parts import TYPES, Case, build
from tests.support.ranks import run_ranks

NODES = 37
WORKERS = (1, 2, 4)


@pytest.fixture(scope="module")
def case() -> Case:
    """Five parts: one empty, one of a single node."""
    draw = np.random.default_rng(2)
    owner = draw.choice([0, 2, 4], NODES)
    owner[5] = 3
    return Case(NODES, draw.integers(0, NODES, (120, 2)), 5, owner, types=draw.integers(0, 2, NODES).astype(np.int8))


@pytest.fixture(scope="module")
def parts(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return build(case, tmp_path_factory.mktemp("kv"))


def in_team(workers: int, near: bool, parts: Parts, work: Callable[[KeyValueStore, Calls], Any]) -> list[Any]:
    """Run `work` on every worker; `near`: workers 2i and 2i + 1 share a host, else nobody does."""

    def run(team: Team) -> Any:
        team.near = frozenset({team.rank ^ 1} & set(range(team.size))) if near else frozenset()
        return work(KeyValueStore(Places(open_parts(parts.path), team), resident=64), Calls(0, Channel.FETCH))

    return run_threads(workers, run)


def whole_table(case: Case, parts: Parts, name: str) -> np.ndarray:
    """A node table by global id."""
    values = case.tables()[name]
    if name == "words":
        values = CsrTable(values[0], values[1], values[2], (NODES, 5)).dense(slice(None))
    return np.asarray(values)[np.asarray(parts.position_of_global)]


@settings(max_examples=25)
@given(st.data())
def test_pulls_are_rows_of_the_whole_table(case: Case, parts: Parts, data: st.DataObject) -> None:
    workers, near = data.draw(st.sampled_from(WORKERS)), data.draw(st.booleans())
    name = data.draw(st.sampled_from(["x", "y", "train", "words"]))
    wanted = [np.array(data.draw(st.lists(st.integers(0, NODES - 1), max_size=60)), np.int64) for _ in range(workers)]
    whole = whole_table(case, parts, name)
    found = in_team(workers, near, parts, lambda store, calls: store.pull(name, wanted[store.places.team.rank], calls))
    for ids, rows in zip(wanted, found, strict=True):
        assert rows.dtype == whole.dtype
        np.testing.assert_array_equal(rows, whole[ids])


def test_pulls_in_flight_and_other_ids(case: Case, parts: Parts) -> None:
    """Several pulls are begun before the rows of the first are asked for; ids may be of any whole type."""
    whole = {name: whole_table(case, parts, name) for name in ("x", "y")}

    def work(store: KeyValueStore, calls: Calls) -> None:
        ids = [
            np.arange(NODES, dtype=np.int32)[:: store.places.team.rank + 1],
            np.array([3, 3, 9], np.uint16),
            np.empty(0, int),
        ]
        begun = [(name, some, store.begin_pull(name, some, calls)) for some in ids for name in whole]
        for name, some, pending in begun:
            np.testing.assert_array_equal(pending.rows(), whole[name][some])

    in_team(4, True, parts, work)


def test_served_pulls_are_read_in_any_order(case: Case, parts: Parts) -> None:
    """Once a worker has answered, nobody waits for it to read its own rows; what is read is not asked for again."""
    whole = {name: whole_table(case, parts, name) for name in ("x", "y")}

    def work(store: KeyValueStore, calls: Calls) -> None:
        team = store.places.team
        begun = [(name, store.begin_pull(name, np.arange(NODES), calls)) for name in whole]
        for _, pending in begun:
            pending.serve()
        if team.rank == 1:
            team.all_sum(1, torch.zeros(1))  # the others have read all rows when this returns
        for name, pending in begun[:: 1 if team.rank else -1]:
            np.testing.assert_array_equal(pending.rows(), whole[name])
        if team.rank != 1:
            team.all_sum(1, torch.zeros(1))

    in_team(4, False, parts, work)


def test_columns_are_rows_of_one_table(parts: Parts) -> None:
    """What no file has is pulled as any table: of own nodes, of this host's, and of others'."""
    nodes = np.random.default_rng(3).integers(0, NODES, 60)
    kinds = {"double": np.int64, "half": np.float32, "small": np.int8}  # rows of 13 bytes: no whole words

    def columns(part: int, factor: float, kind: Any) -> Any:
        return (np.arange(parts.offsets[part], parts.offsets[part + 1]) * factor).astype(kind)

    def work(store: KeyValueStore, calls: Calls) -> Any:
        factors = {"double": 2, "half": 0.5, "small": 1}
        of_part = {name: (partial(columns, factor=factor, kind=kinds[name]), kinds[name]) for name, factor in factors.items()}
        store.add("columns", Columns(of_part))
        return store.pull("columns", nodes, calls)

    for rows in in_team(4, True, parts, work):
        assert {name: rows[name].dtype for name in kinds} == {name: np.dtype(kind) for name, kind in kinds.items()}
        np.testing.assert_array_equal(rows["double"], nodes * 2)
        np.testing.assert_array_equal(rows["half"], nodes * np.float32(0.5))
        np.testing.assert_array_equal(rows["small"], nodes)


def test_edge_rows_are_with_their_destination(case: Case, parts: Parts) -> None:
    order = np.concatenate([np.asarray(parts.shard(part).incoming.edge) for part in range(5)])
    ids = np.random.default_rng(0).integers(0, len(order), 50)
    for name, values in case.edge_tables().items():
        for rows in in_team(2, False, parts, lambda store, calls, name=name: store.pull(name, ids, calls, kind="edge")):  # type: ignore[misc]
            np.testing.assert_array_equal(rows, values[order[ids]])


def test_tables_of_one_type_by_the_nodes_ids(case: Case, parts: Parts) -> None:
    assert case.types is not None
    types = case.types[np.asarray(parts.position_of_global)]
    for code, name in enumerate(TYPES):
        mine = np.random.default_rng(1).permutation(np.flatnonzero(types == code))
        found = in_team(2, False, parts, lambda store, calls, name=name, mine=mine: store.pull(f"x@{name}", mine, calls))  # type: ignore[misc]
        for rows in found:
            np.testing.assert_array_equal(rows[:, 0], np.asarray(parts.position_of_global)[mine] * 100.0)
    with pytest.raises(InputError, match="nodes of the type 'paper'"):
        in_team(1, False, parts, lambda store, calls: store.pull("x@paper", np.arange(NODES), calls))


class Sums:
    """A kept table that adds what is pushed."""

    dtype = np.dtype(np.float32)
    row_shape = (2,)

    def __init__(self, first: int, count: int) -> None:
        self.values = np.arange(first, first + count, dtype=np.float32)[:, None] * np.array([1, 100], np.float32)
        self.taken = 0

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self.values[index]

    def add(self, index: np.ndarray, values: np.ndarray) -> None:
        assert len(np.unique(index)) == len(index)
        self.values[index] += values
        self.taken += 1


@pytest.mark.parametrize("kind", ["node", "edge"])
@settings(max_examples=25)
@given(st.data())
def test_pushes_are_summed_at_the_owner(parts: Parts, kind: Kind, data: st.DataObject) -> None:
    """Rows of nodes, and rows of edges, which lie with the part that holds the entry."""
    count = NODES if kind == "node" else sum(record.edges for record in parts.manifest.shards)
    workers, near = data.draw(st.sampled_from(WORKERS)), data.draw(st.booleans())
    given = [np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=40)), np.int64) for _ in range(workers)]
    change = [np.random.default_rng(rank).integers(-9, 9, (len(ids), 2)).astype(np.float32) for rank, ids in enumerate(given)]
    wanted = np.arange(count, dtype=np.float32)[:, None] * np.array([1, 100], np.float32)
    for ids, values in zip(given, change, strict=True):
        np.add.at(wanted, ids, values)  # whole numbers: exact in any order

    def work(store: KeyValueStore, calls: Calls) -> tuple[np.ndarray, np.ndarray]:
        rank, own = store.places.team.rank, store.places.own
        offsets = parts.offsets if kind == "node" else store.places.first_entry
        first, last = int(offsets[own.start]), int(offsets[own.stop])
        store.keep("sums", Sums(first, last - first), kind=kind)
        before = store.begin_pull("sums", given[rank], calls, kind=kind)
        np.testing.assert_array_equal(before.rows()[:, 0], given[rank])
        before.push(change[rank], calls)  # answers to the same question
        store.push("sums", given[rank], change[rank], calls, kind=kind)
        store.push("sums", given[rank], -change[rank], calls, kind=kind)
        table = store._kept[kind, "sums"]
        assert isinstance(table, Sums)
        assert table.taken == 3, "an owner takes in sums once a push, also when there are none"
        return store.pull("sums", np.arange(count), calls, kind=kind), table.values

    found = in_team(workers, near, parts, work)
    for rows, _ in found:
        np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(np.concatenate([kept for _, kept in found]), wanted)


def test_nothing_is_sent_on_one_host_and_each_row_is_asked_for_once(parts: Parts) -> None:
    ids = np.repeat(np.arange(NODES), 3)

    def work(store: KeyValueStore, calls: Calls) -> Any:
        store.pull("x", ids, calls)
        return store.places.team.ledger.close(), store.places.worker_bounds

    for accounts, _ in in_team(2, True, parts, work):
        assert (accounts.bytes_to, accounts.fetched.near, accounts.fetched.far) == ((0, 0), 3 * NODES, 0)
        assert accounts.fetched.hit_rate is None
    for rank, (accounts, bounds) in enumerate(in_team(2, False, parts, work)):
        mine = int(bounds[rank + 1] - bounds[rank])
        assert (accounts.fetched.near, accounts.fetched.far) == (3 * mine, NODES - mine)
        assert accounts.fetched.far_bytes == 12 * (NODES - mine)
        assert accounts.bytes_to[1 - rank] == 8 * (NODES - mine) + 12 * mine  # ids that are asked for, rows that are sent


def test_a_cache_answers_for_others(case: Case, parts: Parts) -> None:
    whole = whole_table(case, parts, "x")
    cached = np.array([1, 2, 30, 36])

    def work(store: KeyValueStore, calls: Calls) -> Any:
        store.use_cache("x", StaticCache(cached, store.pull("x", cached, calls), NODES))
        store.places.team.ledger.close()
        np.testing.assert_array_equal(store.pull("x", np.arange(NODES)[::-1], calls), whole[::-1])
        return store.places.team.ledger.close().fetched, store.places.worker_bounds

    for rank, (fetched, bounds) in enumerate(in_team(2, False, parts, work)):
        theirs = int(np.sum((cached < bounds[rank]) | (cached >= bounds[rank + 1])))
        assert fetched.cached == theirs > 0
        assert fetched.far == NODES - fetched.near - theirs
        assert fetched.hit_rate == theirs / (NODES - fetched.near)


def pull_and_push(team: Team, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A worker of its own process."""
    store, calls = KeyValueStore(Places(open_parts(path), team)), Calls(0, Channel.FETCH)
    bounds = store.places.worker_bounds
    store.keep("sums", Sums(int(bounds[team.rank]), int(bounds[team.rank + 1] - bounds[team.rank])))
    x = store.pull("x", np.arange(NODES)[:: team.rank + 1], calls)
    pending = store.begin_pull("sums", np.arange(NODES), calls)
    pending.push(np.ones((NODES, 2), np.float32) - pending.rows(), calls)
    return x, store.pull("sums", np.arange(NODES), calls)


@pytest.mark.parametrize("transport", ["auto", "gloo"])
def test_real_processes(case: Case, parts: Parts, transport: Any) -> None:
    """Over shared memory and over sockets; pushed twice, once by each worker."""
    before = np.arange(NODES, dtype=np.float32)[:, None] * np.array([1, 100], np.float32)
    for rank, (x, sums) in enumerate(run_ranks(2, pull_and_push, parts.path, transport=transport)):
        np.testing.assert_array_equal(x, whole_table(case, parts, "x")[:: rank + 1])
        np.testing.assert_array_equal(sums, 2 - before)


def test_what_cannot_be(parts: Parts, tmp_path: Path) -> None:
    def refuse(error: type[Exception], match: str, act: Callable[[KeyValueStore, Calls], Any]) -> None:
        with pytest.raises(error, match=match):
            in_team(1, False, parts, act)

    refuse(InputError, "no node table 'z'", lambda store, calls: store.pull("z", np.arange(2), calls))
    refuse(
        InputError, rf"ids in \[0, {NODES}\).*got {NODES}", lambda store, calls: store.pull("x", np.array([1, NODES]), calls)
    )
    refuse(InputError, "got -1", lambda store, calls: store.pull("x", np.array([-1]), calls))
    refuse(ValueError, "'x' is not one of", lambda store, calls: store.push("x", np.arange(1), np.zeros((1, 3)), calls))

    def cached(store: KeyValueStore, calls: Calls) -> None:
        store.keep("sums", Sums(0, NODES))
        store.use_cache("sums", StaticCache(np.arange(1), np.zeros((1, 2), np.float32), NODES))

    refuse(ValueError, "change", cached)
    with pytest.raises(ValueError, match="ascending"):
        StaticCache(np.array([2, 1]), np.zeros((2, 1)), NODES)
