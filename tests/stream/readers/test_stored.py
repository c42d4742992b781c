"""Stored arrays: any shape, order, byte order and packing, read in blocks, is the array that was saved."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.errors import InputError
from starling.stream.readers.npy import open_npy
from starling.stream.readers.npz import Archive
from starling.stream.readers.stored import StoredArray

WAYS = ("npy", "stored npz", "deflated npz")


def saved(array: np.ndarray, place: Path, way: str) -> StoredArray:
    if way == "npy":
        np.save(place / "a.npy", array)
        return open_npy(str(place / "a.npy"))
    (np.savez if way.startswith("stored") else np.savez_compressed)(place / "a.npz", values=array)
    return Archive(str(place / "a.npz")).array("values")


def in_blocks(array: StoredArray, size: int) -> np.ndarray:
    with array.open() as read:
        parts = [read(start, min(start + size, array.rows)) for start in range(0, array.rows, size)]
    return np.concatenate(parts) if parts else np.empty(array.shape)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.one_of(st.tuples(st.integers(0, 30)), st.tuples(st.integers(0, 30), st.integers(1, 20))),
    dtype=st.sampled_from(["<i4", ">i8", "u1", "f4", ">f8", "?", "U3"]),
    fortran=st.booleans(),
    transpose=st.booleans(),
    way=st.sampled_from(WAYS),
    size=st.integers(1, 40),
)
def test_blocks_are_the_array(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, ...],
    dtype: str,
    fortran: bool,
    transpose: bool,
    way: str,
    size: int,
) -> None:
    values = np.random.default_rng(len(shape)).integers(0, 100, shape).astype(dtype)
    values = np.asfortranarray(values) if fortran else values
    stored = saved(values, tmp_path_factory.mktemp("a"), way)
    expected = values.T if transpose else values
    got = in_blocks(stored.transposed() if transpose else stored, size)
    assert got.dtype.isnative
    np.testing.assert_array_equal(got.reshape(expected.shape), expected)


@pytest.mark.parametrize("way", WAYS)
def test_rows_may_be_read_in_any_order(way: str, tmp_path: Path) -> None:
    stored = saved(np.arange(20).reshape(10, 2), tmp_path, way)
    with stored.open() as read:
        assert read(6, 8).tolist() == [[12, 13], [14, 15]]
        assert read(0, 1).tolist() == [[0, 1]]


def test_an_array_larger_than_small_is_not_read_whole(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="to be small"):
        saved(np.zeros(1 << 22), tmp_path, "deflated npz").whole()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (np.array([object()]), "pickled"),
        (np.zeros(3, "c16"), "plain numbers or text"),
        (np.zeros(3, "i4,f4"), "plain numbers or text"),
        (np.zeros(3, "M8[s]"), "plain numbers or text"),
        (np.asfortranarray(np.zeros((2, 3, 4))), "C order"),
    ],
)
def test_types_that_are_refused(content: np.ndarray, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", content, allow_pickle=True)
    np.savez(tmp_path / "a.npz", values=content)
    with pytest.raises(InputError, match=sentence):
        open_npy(str(tmp_path / "a.npy"))
    with pytest.raises(InputError, match=sentence):
        Archive(str(tmp_path / "a.npz")).array("values")


def test_the_size_must_be_what_the_header_promises(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(10))
    whole = path.read_bytes()
    for content in (whole[:-1], whole + b"\0", whole[:100], whole[:5]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"truncated|not a readable"):
            open_npy(str(path))


def test_a_negative_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((10, 2)))
    path.write_bytes(path.read_bytes().replace(b"(10, 2), }", b"(-1, 2), }"))
    with pytest.raises(InputError, match=r"truncated|not a readable"):
        open_npy(str(path))


def test_a_flipped_bit_in_an_archive_is_found(tmp_path: Path) -> None:
    stored = saved(np.arange(1000).reshape(2, 500), tmp_path, "stored npz").transposed()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        begin = archive.infolist()[0].header_offset + 200
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[begin] ^= 1
    (tmp_path / "a.npz").write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"values in .*a\.npz is truncated or damaged .*CRC"):
        in_blocks(stored, 64)
