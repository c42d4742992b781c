from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream import id_index
from starling.stream.id_index import IdIndex, IdTableWriter
from starling.stream.ids.texts import Texts
from starling.stream.room import Room


def write(directory: Path, ids: list[int] | list[str], block: int, room: Room) -> None:
    strings = bool(ids) and isinstance(ids[0], str)
    with IdTableWriter(directory, "string" if strings else "integer") as table:
        for start in range(0, len(ids), block):
            part = ids[start : start + block]
            table.append(Texts.from_arrow(pa.array(part, pa.string())) if strings else np.array(part, np.int64))
        table.index(room, directory)


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=40),
    st.lists(st.integers(-5, 5)),
    st.sampled_from([Room(1 << 20), Room(900)]),
)
def test_integers(stored: list[int], others: list[int], room: Room) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), stored, 7, room)
        index = IdIndex(Path(name), "integer", len(stored))
        position = {user: i for i, user in enumerate(stored)}
        asked = stored[::-1] + others
        assert index.positions(np.array(asked, np.int64)).tolist() == [position.get(user, -1) for user in asked]
        assert index.user_ids(0, len(stored)).tolist() == stored
        hashes = np.load(Path(name) / "ids.hash.npy")
        assert (np.diff(hashes.astype(object)) > 0).all()


@given(
    st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=40),
    st.lists(st.text("ab", max_size=2)),
    st.sampled_from([Room(1 << 20), Room(900)]),
    st.booleans(),
)
def test_texts_even_when_they_share_a_hash(stored: list[str], others: list[str], room: Room, same_hash: bool) -> None:
    hashes_of = (lambda block: np.full(len(block), 7, np.uint64)) if same_hash else id_index.hashes_of
    with tempfile.TemporaryDirectory() as name, patch.object(id_index, "hashes_of", hashes_of):
        write(Path(name), stored, 7, room)
        index = IdIndex(Path(name), "string", len(stored))
        position = {user: i for i, user in enumerate(stored)}
        asked = stored[::-1] + others
        assert index.positions(pa.array(asked, pa.string())).tolist() == [position.get(user, -1) for user in asked]
        middle = len(stored) // 2
        assert index.user_ids(middle, len(stored)).to_pylist() == stored[middle:]


def test_positions_are_their_own_ids(tmp_path: Path) -> None:
    index = IdIndex(tmp_path, "position", 3)
    assert index.positions(np.array([2, 0, 3, -1])).tolist() == [2, 0, -1, -1]
    assert index.user_ids(1, 3).tolist() == [1, 2]


def test_ids_of_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    write(tmp_path, ["a"], 1, Room(1 << 20))
    with pytest.raises(InputError, match="names, got numbers"):
        IdIndex(tmp_path, "string", 1).positions(np.array([1]))
    with pytest.raises(InputError, match="numbers, got names"):
        IdIndex(tmp_path, "position", 1).positions(pa.array(["a"]))
