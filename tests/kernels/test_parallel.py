from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels import parallel
from starling.kernels.parallel import cut_ranges, parallel_for, worthwhile_threads


def ranges_of(n: int, threads: int, offsets: np.ndarray | None = None) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    parallel_for(n, lambda start, stop: ranges.append((start, stop)), threads, offsets=offsets)
    return sorted(ranges)


def assert_tiles(ranges: list[tuple[int, int]], n: int) -> None:
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(n))
    assert all(start < stop for start, stop in ranges)


@given(st.integers(0, 500), st.integers(1, 8))
def test_ranges_tile_the_rows(n: int, threads: int) -> None:
    assert_tiles(ranges_of(n, threads), n)


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 8), st.integers(0, 9))
def test_ranges_are_equal_in_edges_but_for_one_row(degrees: list[int], threads: int, base: int) -> None:
    offsets = base + np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)])
    ranges = ranges_of(len(degrees), threads, offsets)
    assert_tiles(ranges, len(degrees))
    weights = np.array(degrees) + 1
    if len(ranges) > 1:
        wanted = min(threads * 4, len(degrees))
        for start, stop in ranges:
            assert weights[start:stop].sum() <= weights.sum() / wanted + weights[start:stop].max() + 1


def test_a_hub_gets_a_range_of_its_own() -> None:
    degrees = np.ones(1000, np.int64)
    degrees[500] = 1_000_000
    ranges = ranges_of(1000, 2, np.concatenate([[0], np.cumsum(degrees)]))
    assert_tiles(ranges, 1000)
    hub = next(span for span in ranges if span[0] <= 500 < span[1])
    assert hub == (0, 501)  # everything before it weighs less than a range should
    assert (501, 1000) in ranges


def test_one_thread_is_one_call_in_the_callers_thread() -> None:
    seen: list[tuple[int, int, int]] = []
    parallel_for(100, lambda start, stop: seen.append((start, stop, threading.get_ident())), 1)
    assert seen == [(0, 100, threading.get_ident())]


def test_no_rows_no_call() -> None:
    parallel_for(0, lambda start, stop: pytest.fail("called"), 4)
    parallel_for(0, lambda start, stop: pytest.fail("called"), 4, offsets=np.zeros(1, np.int64))


def test_several_threads_take_part() -> None:
    # Each range waits until another thread has begun one, so a single thread would never get through.
    meeting = threading.Barrier(2, timeout=30)
    met: set[int] = set()

    def meet(start: int, stop: int) -> None:
        if len(met) < 2:
            meeting.wait()
            met.add(threading.get_ident())

    parallel_for(2, meet, 2)
    assert len(met) == 2


def test_from_eight_threads_at_once() -> None:
    def add_up(size: int) -> int:
        out = np.zeros(size, np.int64)

        def fill(start: int, stop: int) -> None:
            out[start:stop] += np.arange(start, stop)

        for _ in range(20):
            parallel_for(size, fill, 4)
        return int(out.sum())

    sizes = [1_000 + k for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(add_up, sizes)) == [20 * size * (size - 1) // 2 for size in sizes]


def test_inside_one_another() -> None:
    table = np.zeros((40, 50), np.int64)

    def fill_rows(first: int, last: int) -> None:
        for row in range(first, last):

            def fill(start: int, stop: int, row: int = row) -> None:
                table[row, start:stop] += 1

            parallel_for(50, fill, 4)

    parallel_for(40, fill_rows, 4)
    assert (table == 1).all()


@pytest.mark.parametrize("bad", range(0, 16, 3))
def test_an_error_surfaces_and_the_next_call_works(bad: int) -> None:
    def fail(start: int, stop: int) -> None:
        if start <= bad < stop:
            raise LookupError(f"row {bad}")
        time.sleep(0.001)

    with pytest.raises(LookupError, match=f"^'?row {bad}'?$"):
        parallel_for(16, fail, 4)
    assert_tiles(ranges_of(16, 4), 16)


def test_after_an_error_no_range_is_begun_and_those_under_way_end() -> None:
    ended: list[int] = []
    begun = threading.Event()

    def fail_first(start: int, stop: int) -> None:
        if start == 0:
            begun.wait(30)
            raise LookupError("the first range")
        begun.set()
        time.sleep(0.05)
        ended.append(start)

    with pytest.raises(LookupError):
        parallel_for(8, fail_first, 2)
    after = list(ended)
    time.sleep(0.1)
    assert ended == after
    assert 1 <= len(after) < 7


def test_an_interruption_passes_through() -> None:
    def interrupt(start: int, stop: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel_for(8, interrupt, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gets_threads_of_its_own() -> None:
    parallel_for(100, lambda start, stop: None, 4)
    assert parallel._pool is not None
    child = os.fork()
    if child == 0:
        fresh = parallel._pool is None
        meeting = threading.Barrier(2, timeout=20)
        try:
            parallel_for(2, lambda start, stop: meeting.wait(), 2)
        except threading.BrokenBarrierError:
            fresh = False
        os._exit(0 if fresh else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_few_items_are_not_worth_waking_a_thread() -> None:
    assert worthwhile_threads(0, 4) == 1
    assert worthwhile_threads(1_000, 4) == 1
    assert worthwhile_threads(10**9, 4) == 4
    assert worthwhile_threads(40_000, 4) == 2


def test_the_number_of_threads_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STARLING_THREADS", "1")
    calls: list[tuple[int, int]] = []
    parallel_for(100, lambda start, stop: calls.append((start, stop)))
    assert calls == [(0, 100)]


def test_cut_ranges_by_hand() -> None:
    assert cut_ranges(10, 2).tolist() == [0, 5, 10]
    assert cut_ranges(3, 8).tolist() == [0, 1, 2, 3]
    # Weights 1, 6, 1, 1, 1 of 10: the second range begins where 5 stand before it, after the heavy row.
    assert cut_ranges(5, 2, np.array([0, 0, 5, 5, 5, 5])).tolist() == [0, 2, 5]
