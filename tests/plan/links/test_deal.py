"""Which edges are targets of a step: each pair once an epoch, reverses with it, whatever rows are called."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starling.core.keyed import draw_unit
from starling.kernels.csr import csr_from_pairs
from starling.plan.hops import AllNeighbours, Moment, UniformNeighbours
from starling.plan.links.deal import Deal, DealtEdges, destinations_of
from starling.plan.links.exclude import WithoutTargets
from starling.plan.source import NeighbourSource
from tests.plan.sources import Drawn, graphs


def dealt(deal: Deal, source: NeighbourSource, epoch: int = 1) -> list[set[tuple[int, int, int]]]:
    """Edges (number, source position, destination position) of each step."""
    lists, position = source.incoming, source.positions_of(np.arange(source.rows))
    edges = DealtEdges(deal, lists, position)
    found = []
    for step in range(deal.steps):
        entries = edges.entries(epoch, step)
        ends = zip(
            lists.edge[entries], position[lists.neighbours[entries]], position[destinations_of(lists, entries)], strict=True
        )
        found.append({(int(e), int(s), int(d)) for e, s, d in ends})
    np.testing.assert_array_equal(edges.sizes(epoch), [len(step) for step in found])
    return found


def slow_step(deal: Deal, epoch: int, one: int, other: int) -> int | None:
    """The step of a pair by its definition."""
    at = draw_unit(deal.key(epoch), min(one, other), max(one, other)) / deal.share
    return int(at * deal.steps) if at < 1 else None


@given(graphs, st.integers(1, 7), st.sampled_from([1.0, 0.3]), st.integers(0, 9))
def test_every_pair_is_a_target_of_the_step_it_draws(drawn: Drawn, steps: int, share: float, seed: int) -> None:
    deal = Deal(seed, steps, share)
    found = dealt(deal, drawn.source)
    for number, (source, destination) in enumerate(drawn.pairs.tolist()):
        step = slow_step(deal, 1, source, destination)
        holding = [k for k, edges in enumerate(found) if (number, source, destination) in edges]
        assert holding == ([] if step is None else [step])


@given(graphs, st.integers(0, 99))
def test_other_row_numbers_deal_alike(drawn: Drawn, seed: int) -> None:
    deal = Deal(3, 4)
    assert dealt(deal, drawn.renumbered(seed)[0]) == dealt(deal, drawn.source)


def test_reverses_are_dealt_together_and_epochs_differ() -> None:
    half = np.random.default_rng(0).integers(0, 50, (400, 2))
    pairs = np.concatenate([half, half[:, ::-1]]).astype(np.int32)
    source, deal = NeighbourSource(csr_from_pairs(pairs, 50), 50), Deal(0, 5)
    first, second = dealt(deal, source), dealt(deal, source, epoch=2)
    for edges in first:
        ends = {(s, d) for _, s, d in edges}
        assert ends == {(d, s) for s, d in ends}
    assert first != second
    assert sum(map(len, first)) == len(pairs)
    assert max(map(len, first)) < 2 * min(map(len, first))  # 160 on average


@given(graphs, st.integers(1, 5), st.booleans())
def test_messages_of_a_step_are_all_edges_but_its_targets(drawn: Drawn, steps: int, sampled: bool) -> None:
    source, deal = drawn.source, Deal(1, steps)
    inner = UniformNeighbours(source, 3) if sampled else AllNeighbours(source)
    rows, moment = np.arange(drawn.nodes, dtype=np.int32), Moment(1, 2, steps - 1, 0)
    before, after = inner.take(rows, moment), WithoutTargets(inner, source, deal).take(rows, moment)
    assert after.row_scale is not None
    for row in range(drawn.nodes):
        taken = slice(before.offsets[row], before.offsets[row + 1])
        kept = [
            (int(node), int(entry))
            for node, entry in zip(before.neighbours[taken], before.entry[taken], strict=True)
            if slow_step(deal, 2, int(node), row) != steps - 1
        ]
        left = slice(after.offsets[row], after.offsets[row + 1])
        assert list(zip(after.neighbours[left].tolist(), after.entry[left].tolist(), strict=True)) == kept
        scale = 1.0 if before.row_scale is None else float(before.row_scale[row])
        expected = scale * (taken.stop - taken.start) / len(kept) if kept else scale
        np.testing.assert_allclose(after.row_scale[row], expected, rtol=1e-6)
