from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.kernels.edge_records import DROP, KEEP, KEEP_WITH_REVERSE, NARROW, make_records
from starling.stream.edge_counter import EdgeCounter, Rules
from tests.support.slow_import import slow_clean

RULES = Rules(drop_repeats=True, add_reverses=True)


def records_of(pairs: list[tuple[int, int]]) -> np.ndarray:
    bucket, records = np.empty(len(pairs), np.uint8), np.empty((len(pairs), NARROW), np.uint64)
    make_records(np.array(pairs, np.int32).reshape(-1, 2), np.empty(0, np.uint8), 1, bucket, records)
    return records


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=120), st.integers(1, 50))
def test_blocks_of_any_size_and_a_growing_table(pairs: list[tuple[int, int]], block: int) -> None:
    counter = EdgeCounter(NARROW, 1)
    blocks = [records_of(pairs[start : start + block]) for start in range(0, len(pairs), block)]
    repeats = sum(counter.count(records) for records in blocks)
    expected = slow_clean([(u, v, 0) for u, v in pairs], RULES)
    assert repeats == expected.duplicates
    verdicts = [counter.judge(records, RULES) for records in blocks]
    assert sum(verdict.added for verdict in verdicts) == expected.reverses_added
    assert sum(verdict.dropped for verdict in verdicts) == expected.duplicates_dropped
    kept = [expected.origin.count(number) for number in range(len(pairs))]
    assert [int(value) for verdict in verdicts for value in verdict.verdict] == kept  # DROP, KEEP, KEEP_WITH_REVERSE


def test_rules_that_change_nothing() -> None:
    assert not Rules().change_anything
    assert Rules(drop_loops=True).change_anything
    assert (DROP, KEEP, KEEP_WITH_REVERSE) == (0, 1, 2)
