"""Edges taken by type and time: against a slow twin, by hand, and by chance."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from starling.core.keyed import draw_below, draw_unit, stream_key
from starling.kernels.csr import Csr, csr_from_pairs
from starling.kernels.sampling import Taken
from starling.kernels.typed_sampling import ALL, EdgeRules, count_past, take_by_rules

KEY = stream_key(1, "test")


def slow(
    lists: Csr, rules: EdgeRules, rows: np.ndarray, position: np.ndarray, limits: np.ndarray | None, *, replace: bool
) -> tuple[list[int], list[int], list[float]]:
    """Row by row with lists: offsets, entries and scales."""
    offsets, entries, scales = [0], [], []
    for i, row in enumerate(rows):
        first = int(lists.offsets[row])
        allowed: dict[int, list[int]] = {t: [] for t in range(len(rules.fanouts))}
        for j in range(first, int(lists.offsets[row + 1])):
            if limits is None or rules.times is None or rules.times[j] <= limits[i]:
                allowed[0 if rules.types is None else int(rules.types[j])].append(j)
        if replace:
            slot = 0
            for t, fanout in enumerate(rules.fanouts.tolist()):
                found = allowed[t]
                drawn = len(found) if fanout < 0 else fanout if found else 0
                for k in range(drawn):
                    entries.append(found[k if fanout < 0 else draw_below(KEY, int(position[i]), slot + k, len(found))])
                    scales.append(1.0 if fanout < 0 else len(found) / fanout)
                slot += drawn
        else:
            chosen = []
            number = {j: k for k, j in enumerate(sorted(j for found in allowed.values() for j in found))}
            for t, fanout in enumerate(rules.fanouts.tolist()):
                found = allowed[t]
                if fanout < 0 or len(found) <= fanout:
                    chosen += [(j, 1.0) for j in found]
                    continue
                left, wanted = len(found), fanout
                for j in found:
                    if wanted and (wanted == left or draw_unit(KEY, int(position[i]), number[j]) * left < wanted):
                        chosen.append((j, len(found) / fanout))
                        wanted -= 1
                    left -= 1
            for j, scale in sorted(chosen):
                entries.append(j)
                scales.append(scale)
        offsets.append(len(entries))
    return offsets, entries, scales


@pytest.mark.parametrize("replace", [False, True])
def test_a_sample_of_the_past_is_that_of_a_graph_without_younger_edges(replace: bool) -> None:
    draw = np.random.default_rng(5)
    pairs, times, kinds = draw.integers(0, 6, (120, 2)).astype(np.int32), draw.integers(0, 10, 120), draw.integers(0, 2, 120)
    rows, fanouts = np.arange(6, dtype=np.int32), np.array([2, 3])

    def taken(kept: np.ndarray, limit: int) -> tuple[list[int], list[int]]:
        lists = csr_from_pairs(pairs[kept], 6)
        rules = EdgeRules(fanouts, kinds[kept][lists.edge], times[kept][lists.edge])
        found = take_by_rules(lists, rules, rows, rows.astype(np.int64), np.full(6, limit), KEY, replace=replace)
        return found.offsets.tolist(), found.neighbours.tolist()

    assert taken(np.arange(120), 4) == taken(np.flatnonzero(times <= 4), 9)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Csr, EdgeRules, np.ndarray, np.ndarray, np.ndarray | None]:
    nodes, count = draw(st.integers(1, 8)), draw(st.integers(0, 40))
    seed = np.random.default_rng(draw(st.integers(0, 1000)))
    lists = csr_from_pairs(seed.integers(0, nodes, (count, 2)).astype(np.int32), nodes)
    relations = draw(st.integers(1, 4))
    fanouts = np.array(draw(st.lists(st.sampled_from([ALL, 0, 1, 2, 5]), min_size=relations, max_size=relations)), np.int64)
    types = seed.integers(0, relations, count).astype(np.uint8) if relations > 1 or draw(st.booleans()) else None
    timed = draw(st.booleans())
    rules = EdgeRules(fanouts, types, seed.integers(0, 6, count) if timed else None)
    rows = seed.permutation(nodes)[: draw(st.integers(0, nodes))].astype(np.int32)
    limits = seed.integers(0, 6, len(rows)) if timed else None
    return lists, rules, rows, rows.astype(np.int64) * 10, limits


@given(case=cases(), replace=st.booleans())
@settings(max_examples=150, deadline=None)
def test_like_the_slow_twin(case: tuple[Csr, EdgeRules, np.ndarray, np.ndarray, np.ndarray | None], replace: bool) -> None:
    lists, rules, rows, position, limits = case
    taken = take_by_rules(lists, rules, rows, position, limits, KEY, replace=replace)
    offsets, entries, scales = slow(lists, rules, rows, position, limits, replace=replace)
    assert taken.offsets.tolist() == offsets
    assert taken.entry.tolist() == entries
    np.testing.assert_allclose(taken.edge_scale, np.array(scales, np.float32))
    assert np.array_equal(taken.neighbours, lists.neighbours[taken.entry])
    if rules.times is not None and limits is not None:
        past = [
            int((rules.times[lists.offsets[row] : lists.offsets[row + 1]] <= limit).sum())
            for row, limit in zip(rows, limits, strict=True)
        ]
        assert count_past(lists, rules.times, rows, limits).tolist() == past


def star(edges: int) -> Csr:
    """One row that hears from everybody."""
    return Csr(np.array([0, edges]), np.arange(edges, dtype=np.int32), np.arange(edges, dtype=np.int32))


def draw_many(rules: EdgeRules, edges: int, times: int, limits: np.ndarray | None = None, **how: bool) -> list[Taken]:
    rows = np.zeros(1, np.int32)
    return [
        take_by_rules(star(edges), rules, rows, rows.astype(np.int64), limits, stream_key(0, "many", epoch), **how)
        for epoch in range(times)
    ]


def test_every_subset_of_a_relation_is_as_likely() -> None:
    """Two of the five edges of type 1, which stand among three of type 0: ten pairs, 4,000 draws."""
    types = np.array([1, 0, 1, 1, 0, 1, 1, 0], np.uint8)
    drawn = Counter(
        tuple(entry for entry in taken.entry.tolist() if types[entry] == 1)
        for taken in draw_many(EdgeRules(np.array([1, 2]), types), 8, 4000)
    )
    assert len(drawn) == 10
    assert all(len(pair) == 2 for pair in drawn)
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_draws_of_two_relations_have_nothing_to_do_with_each_other() -> None:
    types = np.array([0, 1] * 3, np.uint8)
    drawn = Counter(tuple(taken.entry.tolist()) for taken in draw_many(EdgeRules(np.array([1, 1]), types), 6, 3600))
    assert len(drawn) == 9
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_with_replacement_each_edge_is_as_likely() -> None:
    types = np.array([0, 1, 1, 1, 0], np.uint8)
    drawn = Counter(
        entry
        for taken in draw_many(EdgeRules(np.array([1, 4]), types), 5, 1500, replace=True)
        for entry in taken.entry.tolist()
        if types[entry] == 1
    )
    assert sum(drawn.values()) == 6000
    assert chisquare([drawn[1], drawn[2], drawn[3]]).pvalue > 0.001


def test_sums_are_unbiased() -> None:
    """Edge j carries j: over draws the scaled sum of each type is the whole one, 0 + 2 + 4 + 6 and 1 + 3 + 5 + 7."""
    types = np.array([0, 1] * 4, np.uint8)
    drawn = draw_many(EdgeRules(np.array([1, 3]), types), 8, 6000)
    for kind, whole in ((0, 12), (1, 16)):
        sums = []
        for taken in drawn:
            assert taken.edge_scale is not None
            sums.append(float((taken.edge_scale * taken.entry)[types[taken.entry] == kind].sum()))
        assert np.mean(sums) == pytest.approx(whole, abs=4 * np.std(sums) / np.sqrt(len(sums)))


def test_the_past_by_hand() -> None:
    """Edges of times 5, 1, 3, 3, 9 seen at time 3: the second, third and fourth; a time of exactly 3 counts."""
    rules = EdgeRules(np.array([ALL]), None, np.array([5, 1, 3, 3, 9]))
    (taken,) = draw_many(rules, 5, 1, np.array([3]))
    assert taken.entry.tolist() == [1, 2, 3]
    (none,) = draw_many(rules, 5, 1, np.array([0]))
    assert none.entry.tolist() == []


def test_threads_change_nothing() -> None:
    draw = np.random.default_rng(0)
    lists = csr_from_pairs(draw.integers(0, 300, (60000, 2)).astype(np.int32), 300)
    rules = EdgeRules(np.array([2, ALL, 3]), draw.integers(0, 3, 60000).astype(np.uint8), draw.random(60000))
    rows = np.arange(300, dtype=np.int32)
    one, two = (
        take_by_rules(lists, rules, rows, rows.astype(np.int64), draw.random(300) * 0 + 0.7, KEY, threads=threads)
        for threads in (1, 2)
    )
    assert np.array_equal(one.entry, two.entry)
    assert np.array_equal(one.edge_scale, two.edge_scale)
