"""Embedding tables: first numbers, torch's sparse optimisers, rows in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.engine.embeddings import table as table_module
from starling.engine.embeddings.features import EmbeddedFeatures, OwnRows
from starling.engine.embeddings.optimizers import SparseName
from starling.engine.embeddings.table import EmbeddingTable, TableSpec
from starling.engine.features import DenseFeatures, NoFeatures
from starling.nn.inputs import input_rows

NODES, WIDTH = 40, 6


def steps(seed: int = 0, count: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and gradients of some steps; one touches nothing."""
    draw = np.random.default_rng(seed)
    sizes = [0 if number == 5 else int(draw.integers(1, NODES)) for number in range(count)]
    return [(draw.permutation(NODES)[:size], draw.normal(size=(size, WIDTH)).astype(np.float32)) for size in sizes]


def trained(optimizer: SparseName, memory: int | None = None, folder: Path | None = None) -> EmbeddingTable:
    table = EmbeddingTable(np.arange(NODES), TableSpec(WIDTH, optimizer, 1, memory)).begin(folder)
    table.rate = 0.05
    for index, gradient in steps():
        table.add(index, gradient)
    return table


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sgd", lambda w: torch.optim.SGD([w], lr=0.05)),
        ("adagrad", lambda w: torch.optim.Adagrad([w], lr=0.05)),
        ("adam", lambda w: torch.optim.SparseAdam([w], lr=0.05)),
    ],
)
def test_optimisers_are_torchs_for_sparse_gradients(name: SparseName, make: Any) -> None:
    weight = torch.nn.Parameter(
        torch.from_numpy(EmbeddingTable(np.arange(NODES), TableSpec(WIDTH, seed=1)).begin().all().copy())
    )
    optimizer = make(weight)
    with torch.sparse.check_sparse_tensor_invariants():
        for index, gradient in steps():
            weight.grad = torch.sparse_coo_tensor(index[None], gradient, (NODES, WIDTH)).coalesce()
            optimizer.step()
    np.testing.assert_allclose(trained(name).all(), weight.detach().numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam"])
def test_rows_in_a_file_are_the_same_to_the_bit(name: SparseName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_BLOCK_BYTES", 7 * 4 * WIDTH)  # seven rows at a time
    memory, disk = trained(name), trained(name, 10 * 4 * WIDTH, tmp_path)  # ten rows at a time, of three arrays three
    assert not memory.on_disk
    assert disk.on_disk
    assert not trained(name, 3 * 4 * WIDTH * NODES).on_disk
    np.testing.assert_array_equal(disk.all(), memory.all())
    for state, values in memory.state.items():
        np.testing.assert_array_equal(disk.state[state], values)
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    blocks = list(disk.blocks())
    assert [start for start, _ in blocks] == list(range(0, NODES, 7))
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in blocks]), memory.all())


def test_first_numbers_follow_positions() -> None:
    whole = EmbeddingTable(np.arange(NODES), TableSpec(WIDTH, seed=4)).begin().all()
    piece = EmbeddingTable(np.array([9, 3, 31]), TableSpec(WIDTH, seed=4)).begin().all()
    np.testing.assert_array_equal(piece, whole[[9, 3, 31]])
    other = EmbeddingTable(np.arange(NODES), TableSpec(WIDTH, seed=5)).begin().all()
    assert (other != whole).all()
    assert np.abs(whole).max() <= np.sqrt(3 / WIDTH)
    assert EmbeddingTable(np.arange(0), TableSpec(WIDTH)).begin().all().shape == (0, WIDTH)


def test_a_step_reads_rows_and_moves_them() -> None:
    """x = features beside rows; the gradient of Σ c · x is c, so sgd moves every row by −rate · c."""
    table = EmbeddingTable(np.arange(4), TableSpec(2, "sgd", 0)).begin()
    before = table.all().copy()
    fixed = np.arange(8, dtype=np.float32).reshape(4, 2)
    features = EmbeddedFeatures(DenseFeatures(fixed), table)
    assert (features.count, features.width, features.learnt) == (4, 4, True)
    index = np.array([2, 0])
    x, learnt = features.step_rows(index)
    rows = input_rows(torch.from_numpy(x), learnt)
    np.testing.assert_array_equal(rows.detach(), np.concatenate([fixed[index], before[index]], 1))
    np.testing.assert_array_equal(features.rows(index), rows.detach())
    (rows * torch.tensor([1.0, 1.0, 2.0, 3.0])).sum().backward()  # type: ignore[no-untyped-call]
    table.step(0.5)
    np.testing.assert_allclose(table.all()[index], before[index] - [1.0, 1.5])
    np.testing.assert_array_equal(table.all()[[1, 3]], before[[1, 3]])
    np.testing.assert_array_equal(features.rows(index)[:, 2:], table.all()[index])


def test_all_rows_in_place() -> None:
    table = EmbeddingTable(np.arange(3), TableSpec(2, "sgd")).begin()
    before = table.all().copy()
    x, learnt = EmbeddedFeatures(NoFeatures(3), table).step_rows(None)
    rows = input_rows(torch.from_numpy(x), learnt)
    rows.sum().backward()  # type: ignore[no-untyped-call]
    table.step(1.0)
    np.testing.assert_array_equal(table.all(), before - 1)
    assert isinstance(learnt, OwnRows)
    learnt.read()
    table.step(1.0)  # no backward pass: gradients of zero
    np.testing.assert_array_equal(table.all(), before - 1)
    assert table.steps == 2


def test_learnt_rows_stand_in_for_missing_features() -> None:
    table = EmbeddingTable(np.array([1, 3]), TableSpec(2, "sgd")).begin()
    fixed = np.array([[1, 2, 3], [0, 0, 0], [4, 5, 6], [0, 0, 0]], np.float32)
    features = EmbeddedFeatures(DenseFeatures(fixed), table, np.array([-1, 0, -1, 1]))
    assert features.width == 3
    index = np.array([3, 0, 1])
    x, learnt = features.step_rows(index)
    rows = input_rows(torch.from_numpy(x), learnt)
    wanted = fixed[index].copy()
    wanted[[2, 0], :2] = table.all()
    np.testing.assert_array_equal(rows.detach(), wanted)
    np.testing.assert_array_equal(features.rows(index), wanted)
    np.testing.assert_array_equal(features.all()[index], wanted)
    before = table.all().copy()
    rows[0].sum().backward()  # type: ignore[no-untyped-call]
    table.step(1.0)
    np.testing.assert_array_equal(table.all(), before - np.array([[0, 0], [1, 1]], np.float32))
    with pytest.raises(ValueError, match="do not fit"):
        EmbeddedFeatures(NoFeatures(4), table, np.array([-1, 0, -1, 1]))
