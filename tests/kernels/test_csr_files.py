from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.npy import save_array
from starling.kernels import csr_files
from starling.kernels.csr import csr_from_pairs
from starling.kernels.csr_files import CSR_FILES, csr_out_of_core, map_csr
from starling.kernels.degrees import Side
from tests.support.pairs import Edges, edge_lists, tiny_thresholds

PLENTY = 1 << 30


@pytest.fixture(autouse=True, scope="module")
def _small_inputs_take_every_path() -> Iterator[None]:
    with tiny_thresholds():
        yield


def in_blocks(pairs: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    return (pairs[start : start + size] for start in range(0, len(pairs), size))


def assert_same_bytes(pairs: NDArray[Any], nodes: int, memory: int, size: int, by: Side = "destination") -> None:
    csr = csr_from_pairs(pairs, nodes, by)
    with TemporaryDirectory() as place:
        directory = Path(place)
        csr_out_of_core(in_blocks(pairs, size), nodes, len(pairs), directory, memory, by=by)
        assert sorted(path.name for path in directory.iterdir()) == sorted(f"{name}.npy" for name in CSR_FILES)
        for name in CSR_FILES:
            written = (directory / f"{name}.npy").read_bytes()
            save_array(directory / "twin.npy", getattr(csr, name))
            assert written == (directory / "twin.npy").read_bytes(), name


@given(edge_lists(), st.integers(1, 50), st.sampled_from([1, 300, 3_000, PLENTY]), st.sampled_from(["source", "destination"]))
def test_the_bytes_are_those_of_the_csr_in_memory(edges: Edges, size: int, memory: int, by: Side) -> None:
    assert_same_bytes(edges.pairs, edges.nodes, memory, size, by)


@pytest.mark.parametrize("kind", ["even", "hub"])
def test_ranges_too_large_for_the_memory_are_divided_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, 2_000, (60_000, 2), dtype=np.int32)
    if kind == "hub":
        pairs[rng.random(60_000) < 0.9, 1] = 1_234
    sorted_at_once = []
    real_sort = csr_files._sort_in_memory

    def remember(records: Any, count: int, *rest: Any) -> None:
        sorted_at_once.append(count)
        real_sort(records, count, *rest)

    monkeypatch.setattr(csr_files, "_sort_in_memory", remember)
    memory = 20_000
    assert_same_bytes(pairs, 2_000, memory, 5_000)
    assert 0 < max(sorted_at_once) <= memory // 48
    if kind == "hub":
        assert sum(sorted_at_once) < 10_000  # the hub's own edges pass through unsorted


def test_many_more_rows_than_memory() -> None:
    assert_same_bytes(np.array([[99_999, 5], [5, 99_999], [0, 50_000]]), 100_000, 10_000, 2)


def test_nothing_at_all(tmp_path: Path) -> None:
    csr_out_of_core([], 0, 0, tmp_path, 1)
    csr = map_csr(tmp_path)
    assert (csr.offsets.tolist(), csr.neighbours.tolist(), csr.edge.tolist()) == ([0], [], [])


def test_mapped_back(tmp_path: Path) -> None:
    csr_out_of_core([np.array([[1, 0], [2, 0]]), np.array([[0, 2]])], 3, 3, tmp_path, PLENTY)
    csr = map_csr(tmp_path)
    assert (csr.offsets.tolist(), csr.neighbours.tolist(), csr.edge.tolist()) == ([0, 2, 2, 3], [1, 2, 0], [0, 1, 2])


@pytest.mark.parametrize(("announced", "memory"), [(2, PLENTY), (4, PLENTY), (2, 1), (4, 1)])
def test_another_number_of_edges_than_announced(announced: int, memory: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="announced"):
        csr_out_of_core([np.array([[0, 1], [1, 0], [1, 1]])], 2, announced, tmp_path, memory)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    blocks = [np.array([[0, 1]] * 10), np.array([[0, 1], [2, 0]])]
    with pytest.raises(InputError, match=r"\[0, 2\), got 2 at position 11"):
        csr_out_of_core(blocks, 2, 12, tmp_path, PLENTY)
