from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import NpyReader, NpyWriter, map_array, save_array

FULL = Path("/dev/full")

plain_types = st.sampled_from(["int8", "int32", "int64", "uint16", "float32", "float64", "bool", "<U5", "datetime64[s]"])
plain_arrays = plain_types.flatmap(lambda name: arrays(name, array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7)))


@given(plain_arrays, st.integers(1, 4))
def test_written_in_blocks_and_read_by_numpy(array: NDArray[Any], size: int) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.npy"
        with NpyWriter(path, array.dtype, array.shape[1:]) as writer:
            for start in range(0, len(array), size):
                writer.append(array[start : start + size])
        assert writer.rows == len(array)
        back = np.load(path, allow_pickle=False)
        assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@given(plain_arrays, st.integers(1, 4), st.data())
def test_written_by_numpy_and_read_in_blocks(array: NDArray[Any], size: int, data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.npy"
        np.save(path, np.ascontiguousarray(array))
        reader = NpyReader(path)
        assert (reader.rows, reader.shape, reader.dtype) == (len(array), array.shape, array.dtype)
        blocks = list(reader.blocks(size))
        assert all(0 < len(block) <= size for block in blocks)
        assert b"".join(block.tobytes() for block in blocks) == array.tobytes()
        start = data.draw(st.integers(0, len(array)))
        stop = data.draw(st.integers(start, len(array)))
        assert reader.read(start, stop).tobytes() == array[start:stop].tobytes()
        assert map_array(path).tobytes() == array.tobytes()


def test_saved_bytes_are_those_of_numpy(tmp_path: Path) -> None:
    for array in (np.arange(6, dtype=np.int32).reshape(3, 2), np.zeros((0, 4)), np.arange(5)[::2]):
        save_array(tmp_path / "ours.npy", array)
        np.save(tmp_path / "theirs.npy", array)
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def test_blocks_take_the_type_of_the_file_and_must_have_its_shape(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "a.npy", np.float32, (2,)) as writer:
        writer.append(np.array([[1, 2]], np.int64)[:, ::-1])
        with pytest.raises(ValueError, match=r"rows of shape \(3,\) appended .* of shape \(2,\)"):
            writer.append(np.zeros((1, 3)))
    assert np.load(tmp_path / "a.npy").tolist() == [[2.0, 1.0]]


def test_a_file_left_by_an_error_does_not_pass_for_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"

    def fail() -> None:
        with NpyWriter(path, np.int64) as writer:
            writer.append(np.arange(100))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert NpyReader(path).rows == 0  # the header never got its rows


def test_closing_twice_is_once(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "a.npy", np.int64)
    writer.append(np.arange(3))
    writer.close()
    writer.close()
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2]


def test_mapped_arrays_are_read_only(tmp_path: Path) -> None:
    save_array(tmp_path / "a.npy", np.arange(3))
    mapped = map_array(tmp_path / "a.npy")
    assert isinstance(mapped, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1


@pytest.mark.parametrize("missing", [1, 8, 800])
def test_truncated(missing: int, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100))
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(InputError, match=rf"a.npy is truncated: its header promises 928 bytes, it has {928 - missing}\."):
        NpyReader(path)
    with pytest.raises(InputError, match="truncated"):
        map_array(path)


@given(st.integers(0, 127))
def test_truncated_in_the_header(size: int) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.npy"
        np.save(path, np.arange(100))
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(InputError, match=r"not a readable \.npy file"):
            NpyReader(path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="pickled Python objects, which Starling never loads"):
        NpyReader(tmp_path / "a.npy")
    with pytest.raises(InputError, match="pickled"):
        map_array(tmp_path / "a.npy")


def test_fortran_order_is_not_read_as_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(6).reshape(3, 2)))
    reader = NpyReader(tmp_path / "a.npy")
    assert reader.fortran
    with pytest.raises(InputError, match=r"a.npy is stored column by column\. Save it again"):
        reader.read(0, 1)
    assert map_array(tmp_path / "a.npy").tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_single_value_has_no_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.int64(3))
    with pytest.raises(InputError, match=r"Expected rows of values in .*a\.npy, got a single value"):
        _ = NpyReader(tmp_path / "a.npy").rows


@pytest.mark.parametrize("shape", ["(-1, 2)", "(1 << 62,)", "(4611686018427387904, 4)", "(1.5,)", "'x'", "(((((("])
def test_impossible_shapes(shape: str, tmp_path: Path) -> None:
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(InputError, match=r"a\.npy is (truncated|not a readable \.npy file)"):
        NpyReader(tmp_path / "a.npy")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's, about old names of types
@given(st.integers(0, 127), st.integers(0, 255))
def test_any_damaged_header_byte_is_refused_or_harmless(place_of_damage: int, value: int) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.npy"
        np.save(path, np.arange(12, dtype=np.int32).reshape(6, 2))
        content = bytearray(path.read_bytes())
        content[place_of_damage] = value
        path.write_bytes(content)
        with suppress(InputError):  # any other exception fails
            assert sum(block.nbytes for block in NpyReader(path).blocks(4)) <= 48


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_a_full_disk_is_noticed_however_little_is_written(count: int, tmp_path: Path) -> None:
    (tmp_path / "a.npy").symlink_to(FULL)
    with pytest.raises(OSError, match="No space left") as caught:
        save_array(tmp_path / "a.npy", np.arange(count))
    assert caught.value.errno == errno.ENOSPC
