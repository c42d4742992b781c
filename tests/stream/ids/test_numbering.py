from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.core.progress import SILENT
from starling.stream.id_index import IdIndex, IdTableWriter
from starling.stream.ids.numbering import Occurrences, number_ids, position_type
from starling.stream.ids.spool import IdSpool, new_spool
from starling.stream.raw import IdKind
from starling.stream.room import Room

LARGE, TINY = Room(1 << 28), Room(1_500)


def as_ids(kind: IdKind, users: list[int]) -> object:
    return np.array(users, np.int64) if kind == "integer" else pa.array([f"n{user}" for user in users], pa.string())


def spooled(kind: IdKind, path: Path, users: list[int], *, pairs: bool = False) -> IdSpool:
    spool = new_spool(kind, path, pairs=pairs)
    if pairs:
        spool.append(as_ids(kind, users[::2]), as_ids(kind, users[1::2]))
    else:
        spool.append(as_ids(kind, users))
    spool.close()
    return spool


def number(kind: IdKind, directory: Path, inputs: list[Occurrences], room: Room) -> int:
    with IdTableWriter(directory, kind) as table:
        nodes = number_ids(inputs, table, room, directory / "scratch", SILENT)
        table.index(room, directory / "scratch")
    return nodes


@pytest.mark.parametrize("kind", ["integer", "string"])
@given(st.lists(st.tuples(st.integers(-9, 30), st.integers(-9, 30)), max_size=60), st.sampled_from([LARGE, TINY]))
def test_first_appearance_decides(kind: IdKind, pairs: list[tuple[int, int]], room: Room) -> None:
    users = [user for pair in pairs for user in pair]
    first: dict[int, int] = {}
    expected = [first.setdefault(user, len(first)) for user in users]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        edges = spooled(kind, directory / "edges.npy", users, pairs=True)
        assert number(kind, directory, [Occurrences(edges, directory / "out.npy", "some")], room) == len(first)
        assert np.load(directory / "out.npy").reshape(-1).tolist() == expected
        index = IdIndex(directory, kind, len(first))
        assert index.positions(as_ids(kind, [*first, 1000])).tolist() == [*range(len(first)), -1]
        if first:
            ids = index.user_ids(0, len(first))
            assert (ids.to_pylist() if kind == "string" else ids.tolist()) == (
                [f"n{user}" for user in first] if kind == "string" else list(first)
            )


@pytest.mark.parametrize("kind", ["integer", "string"])
@pytest.mark.parametrize("room", [LARGE, TINY])
def test_a_node_table_numbers_first_by_hand(tmp_path: Path, kind: IdKind, room: Room) -> None:
    table = spooled(kind, tmp_path / "table.npy", [30, 10, 20])
    edges = spooled(kind, tmp_path / "edges.npy", [10, 20, 20, 30], pairs=True)
    features = spooled(kind, tmp_path / "features.npy", [20, 30, 10])
    inputs = [
        Occurrences(table, tmp_path / "0.npy", "all", lambda row, user: InputError(f"twice {row} {user}")),
        Occurrences(edges, tmp_path / "1.npy", "none", lambda row, user: InputError(f"missing {row} {user}")),
        Occurrences(features, tmp_path / "2.npy", "none", lambda row, user: InputError(f"unknown {row} {user}")),
    ]
    assert number(kind, tmp_path, inputs, room) == 3
    assert np.load(tmp_path / "0.npy").tolist() == [0, 1, 2]
    assert np.load(tmp_path / "1.npy").tolist() == [[1, 2], [2, 0]]
    assert np.load(tmp_path / "2.npy").tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("table", "edges", "features", "message"),
    [
        ([1, 2, 1], [1, 2], [1], "twice 2 1"),
        ([1, 2], [1, 2, 2, 3, 4, 1], [1], "missing 3 3"),
        ([1, 2], [1, 2], [2, 5], "unknown 1 5"),
    ],
)
@pytest.mark.parametrize("room", [LARGE, TINY])
def test_ids_where_they_may_not_be(
    tmp_path: Path, table: list[int], edges: list[int], features: list[int], message: str, room: Room
) -> None:
    inputs = [
        Occurrences(spooled("integer", tmp_path / "a.npy", table), tmp_path / "0.npy", "all",
                    lambda row, user: InputError(f"twice {row} {user}")),
        Occurrences(spooled("integer", tmp_path / "b.npy", edges, pairs=True), tmp_path / "1.npy", "none",
                    lambda row, user: InputError(f"missing {row} {user}")),
        Occurrences(spooled("integer", tmp_path / "c.npy", features), tmp_path / "2.npy", "none",
                    lambda row, user: InputError(f"unknown {row} {user}")),
    ]  # fmt: skip
    with pytest.raises(InputError, match=message):
        number("integer", tmp_path, inputs, room)


def test_position_types() -> None:
    assert position_type(2**31 - 1) is np.int32
    assert position_type(2**31) is np.int64
