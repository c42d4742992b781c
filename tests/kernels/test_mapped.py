"""A graph's own lists read through a map of its rows: sums against a slow twin, all else against a copy of the same edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.kernels.adjacency import HUB_EDGES, Adjacency, adjacency
from starling.kernels.mapped import MappedLists, SeenFrom, entries_of, map_lists
from starling.kernels.rows import rows_of
from starling.kernels.spmm import Coefficients, weighted_sum
from starling.nn.ops import attend, sums
from starling.nn.ops.arrays import rows
from tests.kernels.graphs import adjacencies


def slow_sum(mapped: MappedLists, c: Coefficients, x: NDArray[Any]) -> NDArray[Any]:
    out = np.zeros((mapped.rows, x.shape[1]))
    for i, row in enumerate(mapped.chosen):
        for neighbour in mapped.lists.neighbours[mapped.lists.offsets[row] : mapped.lists.offsets[row + 1]]:
            at = mapped.place[neighbour]
            if 0 <= at < mapped.columns:
                out[i] += x[at] * (c.source[at] if len(c.source) else 1)
        if i < len(c.own):
            out[i] += c.own[i] * x[i] * (c.source[i] if len(c.source) else 1)
    return out * c.row[:, None] if len(c.row) else out


def some(generator: np.random.Generator, edges: Adjacency, columns: int) -> MappedLists:
    """Some rows in any order, and places for some nodes; a few of them beyond the columns."""
    chosen = generator.permutation(edges.rows)[: generator.integers(0, edges.rows + 1)]
    place = generator.integers(-1, columns + 2, edges.columns).astype(np.int32)
    return MappedLists(edges, chosen, place, columns)


@settings(deadline=None, max_examples=60)
@given(edges=adjacencies, seed=st.integers(0, 1000))
def test_neighbours_of_a_stretch_of_entries(edges: Adjacency, seed: int) -> None:
    """Stretches begin and end anywhere in a list."""
    generator = np.random.default_rng(seed)
    mapped = some(generator, edges, edges.columns)
    everyone = [
        int(mapped.place[neighbour])
        for row in mapped.chosen
        for neighbour in edges.neighbours[edges.offsets[row] : edges.offsets[row + 1]]
    ]
    first, last = np.sort(generator.integers(0, len(everyone) + 1, 2)).tolist()
    assert mapped.neighbours_at(slice(first, last)).tolist() == everyone[first:last]
    assert mapped.neighbours_at(slice(None)).tolist() == everyone
    numbers = generator.integers(0, len(everyone), 5) if everyone else np.empty(0, np.int64)
    assert mapped.neighbours_at(numbers).tolist() == [everyone[number] for number in numbers]


@settings(deadline=None, max_examples=60)
@given(
    edges=adjacencies,
    columns=st.integers(0, 9),
    width=st.sampled_from([1, 3, 8, 17]),
    present=st.tuples(*[st.booleans()] * 3),
    accumulate=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_sum_equals_its_slow_twin(
    edges: Adjacency, columns: int, width: int, present: tuple[bool, ...], accumulate: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    mapped = some(generator, edges, columns)
    sizes = (columns, mapped.rows, min(mapped.rows, columns))
    source, row, own = (generator.standard_normal(size if there else 0) for size, there in zip(sizes, present, strict=True))
    c = Coefficients(np.empty(0), source, row, own)
    x, out = generator.standard_normal((columns, width)), generator.standard_normal((mapped.rows, width))
    expected = slow_sum(mapped, c, x) + (out if accumulate else 0)
    weighted_sum(mapped, c, rows_of(x), rows_of(out), accumulate=accumulate)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    assert mapped.entries == sum(edges.offsets[row + 1] - edges.offsets[row] for row in mapped.chosen)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_hubs_and_threads(threads: int) -> None:
    """Row 1 has more neighbours than one thread gets, row 3 more than are looked up at once; every third node is not there."""
    generator = np.random.default_rng(3)
    lengths = np.array([5, 2 * HUB_EDGES + 7, 0, 5000, 40])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = generator.integers(0, 300, offsets[-1]).astype(np.int32)
    place = np.where(np.arange(300) % 3, np.arange(300) * 2 // 3, -1).astype(np.int32)
    mapped = MappedLists(adjacency(offsets, neighbours, 300), np.array([4, 1, 2, 3]), place, 200)
    source, row, own = (generator.standard_normal(size) for size in (200, 4, 4))
    c = Coefficients(np.empty(0), source, row, own)
    x, out, alone = generator.standard_normal((200, 12)), np.empty((4, 12)), np.empty((4, 12))
    weighted_sum(mapped, c, rows_of(x), rows_of(out), threads=threads)
    weighted_sum(mapped, c, rows_of(x), rows_of(alone), threads=1)
    np.testing.assert_allclose(out, slow_sum(mapped, c, x), rtol=1e-10)
    assert np.array_equal(out, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_other_types(dtype: torch.dtype) -> None:
    """As messages bring them: sums are made in float32 either way, with the bits that a copied list of the same edges gives."""
    generator = np.random.default_rng(5)
    lengths = np.array([40, 0, HUB_EDGES + 1, 3])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    neighbours = generator.integers(0, 60, offsets[-1]).astype(np.int32)
    place = generator.permutation(60).astype(np.int32)
    mapped = MappedLists(adjacency(offsets, neighbours, 60), np.arange(4), place, 60)
    c = Coefficients(np.empty(0, np.float32), *(generator.random(size).astype(np.float32) for size in (60, 4, 4)))
    x = torch.from_numpy(generator.standard_normal((60, 12))).to(dtype)
    out, copied = np.empty((4, 12), np.float32), np.empty((4, 12), np.float32)
    weighted_sum(mapped, c, rows(x), rows_of(out))
    weighted_sum(adjacency(offsets, place[neighbours], 60), c, rows(x), rows_of(copied))
    assert np.array_equal(out, copied)
    np.testing.assert_allclose(out, slow_sum(mapped, c, x.double().numpy()), rtol=1e-4, atol=1e-3)


def test_weights_of_edges_without_numbers_are_refused() -> None:
    mapped = MappedLists(adjacency(np.array([0, 1]), np.array([0], np.int32), 1), np.array([0]), np.array([0], np.int32), 1)
    weighted = Coefficients(np.ones(1), *[np.empty(0)] * 3)
    with pytest.raises(ValueError, match="without numbers"):
        weighted_sum(mapped, weighted, rows_of(np.ones((1, 2))), rows_of(np.ones((1, 2))))


def layer_of(edges: Adjacency, seed: int, *, ascending: bool = False) -> tuple[MappedLists, Adjacency]:
    """A layer of some rows of a graph, and a copy of it; edges of either are numbered list by list.

    Sources are the destinations, then all others that they hear from, and a few that they do not.
    """
    generator = np.random.default_rng(seed)
    size = max(edges.rows, edges.columns)
    chosen = generator.permutation(edges.rows)[: max(edges.rows - 1, 1)]
    chosen = np.sort(chosen) if ascending else chosen
    heard = np.concatenate([edges.neighbours[edges.offsets[row] : edges.offsets[row + 1]] for row in chosen])
    others = np.setdiff1d(np.union1d(heard, generator.integers(0, size, 3)), chosen)
    sources = np.concatenate([chosen, generator.permutation(others)])
    place = np.full(size, -1, np.int32)
    place[sources] = np.arange(len(sources))
    lengths = np.diff(edges.offsets)[chosen]
    copied = adjacency(np.concatenate([[0], np.cumsum(lengths)]), place[heard], len(sources))
    square = adjacency(np.pad(edges.offsets, (0, size - edges.rows), mode="edge"), edges.neighbours, size)
    assert np.array_equal(heard, square.neighbours[entries_of(square.offsets, chosen)])
    return map_lists(square, chosen, place, SeenFrom(sources, place)), copied


def everything(lists: MappedLists | Adjacency) -> list[torch.Tensor]:
    """What each operator gives over lists, forward and backward."""
    draw = torch.Generator().manual_seed(7)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw, requires_grad=True)

    found = []

    def keep(out: tuple[torch.Tensor, ...] | torch.Tensor, *inputs: torch.Tensor) -> None:
        outs = out if isinstance(out, tuple) else (out,)
        found.extend(outs)
        total = sum((each * torch.randn(each.shape, generator=draw)).nan_to_num(0, 0, 0).sum() for each in outs)
        found.extend(torch.autograd.grad(total, inputs))  # type: ignore[arg-type]

    columns, heads, width = lists.columns, 2, 3
    x = some(columns, heads * width)
    source, target, weight = some(columns, heads), some(lists.rows, heads), some(lists.entries)
    key = np.arange(columns, dtype=np.int64) * 7
    dropout = attend.EdgeDropout(0.4, np.uint64(5), key)
    keep(sums.max_neighbours(lists, x), x)
    keep(sums.sum_neighbours(lists, x, edge_weight=weight, own_weight=torch.ones(lists.rows)), x, weight)
    own, score, beside = some(lists.rows, heads), some(lists.entries, heads), some(lists.entries, 2)
    keep(
        attend.attend_additive(
            lists, x, source, target, 0.2, own_score=own, edge_score=score, edge_rows=beside, dropout=dropout
        ),
        x, source, target, own, score, beside,
    )  # fmt: skip
    at, vector = some(lists.rows, heads * width), some(heads, width)
    keep(attend.attend_pairs(lists, x, at, vector, 0.2, own_score=own, dropout=dropout), x, at, vector, own)
    keep(sums.sum_by_heads(lists, x, score, heads * width * heads), x, score)
    return found


@settings(deadline=None, max_examples=30)
@given(edges=adjacencies.filter(lambda edges: edges.hubs is None), seed=st.integers(0, 1000))
def test_every_operator_gives_what_a_copy_gives(edges: Adjacency, seed: int) -> None:
    """To the bit where rows lie in the graph's order; else gradients of sources are summed in another."""
    for ascending in (True, False):
        mapped, copied = layer_of(edges, seed, ascending=ascending)
        assert mapped.entries == copied.entries
        for ours, theirs in zip(everything(mapped), everything(copied), strict=True):
            if ascending:
                np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
            np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


def a_graph_with_hubs() -> Adjacency:
    """A row with more neighbours than one thread gets, and a node that more rows hear from."""
    generator = np.random.default_rng(3)
    lengths = np.array([5, HUB_EDGES + 900, 0, 5000, *[2] * (HUB_EDGES + 100)])
    neighbours = generator.integers(0, 300, lengths.sum()).astype(np.int32)
    neighbours[-2 * (HUB_EDGES + 100) :: 2] = 17
    return adjacency(np.concatenate([[0], np.cumsum(lengths)]), neighbours, len(lengths))


def test_every_operator_on_hubs() -> None:
    """Pieces of hubs are cut elsewhere where skipped entries count, so sums of sources may round in another order."""
    mapped, copied = layer_of(a_graph_with_hubs(), 4)
    assert mapped.hubs is not None
    assert mapped.transposed.hubs is not None
    for ours, theirs in zip(everything(mapped), everything(copied), strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=2e-3, atol=2e-3)


def test_excerpts_of_excerpts() -> None:
    """Some rows of a layer, and some of those, hear what a copy of their edges tells."""
    mapped, copied = layer_of(a_graph_with_hubs(), 5)
    rows = np.arange(3, mapped.rows, 2)
    for _ in range(2):
        entries = entries_of(copied.offsets, rows)
        heard = copied.neighbours[entries]
        sources = np.concatenate([rows, np.setdiff1d(heard, rows)])
        number = np.full(copied.columns, -1, np.int32)
        number[sources] = np.arange(len(sources))
        ends = np.concatenate([[0], np.cumsum(np.diff(copied.offsets)[rows])])
        mapped, copied = mapped.excerpt(rows, sources), adjacency(ends, number[heard], len(sources))
        x = np.random.default_rng(0).standard_normal((len(sources), 3))
        ours, theirs = np.empty((len(rows), 3)), np.empty((len(rows), 3))
        edge = np.random.default_rng(1).standard_normal(len(entries))
        c = Coefficients(edge, *[np.empty(0)] * 3)
        weighted_sum(mapped, c, rows_of(x), rows_of(ours))
        weighted_sum(copied, c, rows_of(x), rows_of(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
        back, expected = np.empty((len(sources), 3)), np.empty((len(sources), 3))
        weighted_sum(mapped.turned_for(edge), c.transposed(), rows_of(ours), rows_of(back))
        weighted_sum(copied.turned_for(edge), c.transposed(), rows_of(ours), rows_of(expected))
        np.testing.assert_allclose(back, expected, rtol=1e-10, atol=1e-8)
        rows = np.arange(0, len(rows), 3)
