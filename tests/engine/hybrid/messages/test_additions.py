"""Sums over workers, block by block: the same bits in whatever order they come, and blocks that are told when they are complete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.engine.hybrid.messages.additions import Additions


@dataclass(frozen=True)
class Case:
    """Rows that each worker adds to, the ends of blocks, and the order in which workers come."""

    rows: dict[int, NDArray[np.int64]]
    bounds: NDArray[np.int64]
    arrival: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 12))
    ends = sorted(draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
    workers = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True))
    chosen = st.lists(st.integers(0, count - 1), unique=True)  # in any order
    rows = {worker: np.array(draw(chosen), np.int64) for worker in workers}
    return Case(rows, np.array([0, *ends, count]), draw(st.permutations(workers)))


@given(cases(), st.booleans())
def test_the_order_of_arrival_changes_no_bit(case: Case, lasting: bool) -> None:
    count, draw = int(case.bounds[-1]), np.random.default_rng(len(case.arrival))
    given_rows = {w: (draw.standard_normal((len(rows), 3)) * 10.0**w).astype(np.float32) for w, rows in case.rows.items()}
    start = draw.standard_normal((count, 3)).astype(np.float32)
    expected = start.copy()
    for worker, rows in case.rows.items():  # one by one, in the mapping's order
        for place, row in enumerate(rows):
            expected[row] += given_rows[worker][place]
    into = torch.from_numpy(start.copy())
    additions = Additions(into, case.rows, case.bounds)

    def waits_for(block: int, come: list[int]) -> set[int]:
        inside = range(case.bounds[block], case.bounds[block + 1])
        return {w for w, rows in case.rows.items() if set(rows.tolist()) & set(inside)} - set(come)

    blocks = range(len(case.bounds) - 1)
    complete = additions.untouched().tolist()
    assert complete == [block for block in blocks if not waits_for(block, [])]
    assert additions.counters.tolist() == [len(waits_for(block, [])) for block in blocks]
    for number, worker in enumerate(case.arrival):
        message = torch.from_numpy(given_rows[worker].copy())
        told = additions.take(worker, message, lasting=lasting).tolist()
        if not lasting:
            message.fill_(torch.nan)  # its memory is somebody else's from here on
        before, now = case.arrival[:number], case.arrival[: number + 1]
        assert told == [block for block in blocks if not waits_for(block, now) and waits_for(block, before)]
        complete += told
        for block in told:
            inside = slice(case.bounds[block], case.bounds[block + 1])
            assert np.array_equal(into.numpy()[inside], expected[inside])
    assert sorted(complete) == list(blocks)
    assert not additions.counters.any()
    assert np.array_equal(into.numpy(), expected)


def test_counters_by_hand() -> None:
    """Blocks are rows 0 and 1, 2 and 3, 4 and 5. Worker 7 comes before worker 4, whose turn is first."""
    into = torch.zeros(6, 1)
    additions = Additions(into, {4: np.array([1, 2]), 7: np.array([3, 2])}, np.array([0, 2, 4, 6]))
    assert additions.counters.tolist() == [1, 2, 0]
    assert additions.untouched().tolist() == [2]
    assert additions.take(7, torch.tensor([[30.0], [20.0]])).tolist() == []
    assert additions.counters.tolist() == [1, 2, 0]  # it is kept until worker 4 was added
    assert not into.any()
    assert additions.take(4, torch.tensor([[1.0], [2.0]])).tolist() == [0, 1]
    assert into[:, 0].tolist() == [0, 1, 22, 30, 0, 0]


def test_halves_are_widened_and_strangers_add_nothing() -> None:
    into = torch.zeros(2, 1)
    additions = Additions(into, {1: np.array([1]), 2: np.array([], np.int64)})
    assert additions.take(2, torch.zeros(0, 1)).tolist() == []
    assert additions.take(5, torch.zeros(3, 1)).tolist() == []
    assert additions.take(1, torch.tensor([[0.5]], dtype=torch.bfloat16)).tolist() == [0]
    assert into[:, 0].tolist() == [0, 0.5]
