from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.core.keyed import draw
from starling.kernels.adjacency import Adjacency, adjacency
from starling.kernels.dropout import drop_features
from starling.kernels.pairs import pair_backward, pair_scores
from starling.kernels.scores import additive_backward, additive_scores, drop_edges
from starling.kernels.softmax import softmax
from tests.kernels.graphs import adjacencies, edge_rows, make


@settings(deadline=None, max_examples=50)
@given(edges=adjacencies, heads=st.sampled_from([1, 3]), own_rows=st.integers(0, 12), seed=st.integers(0, 1000))
def test_softmax_equals_its_slow_twin(edges: Adjacency, heads: int, own_rows: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    score = 30 * generator.standard_normal((len(edges.neighbours), heads))
    own = generator.standard_normal((min(own_rows, edges.rows), heads))
    weight, own_weight, log_sum = score.copy(), own.copy(), np.empty((edges.rows, heads))
    softmax(edges, weight, own_weight, log_sum)
    for row in range(edges.rows):
        span = slice(edges.offsets[row], edges.offsets[row + 1])
        for h in range(heads):
            parts = np.concatenate([score[span, h], own[row : row + 1, h]])
            got = np.concatenate([weight[span, h], own_weight[row : row + 1, h]])
            if len(parts) == 0:
                assert log_sum[row, h] == -np.inf
                continue
            whole = np.log(np.exp(parts - parts.max()).sum()) + parts.max()
            np.testing.assert_allclose(log_sum[row, h], whole, rtol=1e-10)
            np.testing.assert_allclose(got, np.exp(parts - whole), rtol=1e-8, atol=1e-14)


def test_softmax_by_hand() -> None:
    """Scores 0 and ln 3 share 1 : 3, and with an own score of ln 4 they share 1 : 3 : 4."""
    edges = adjacency(np.array([0, 2]), np.array([0, 0], np.int32), 1)
    score, log_sum = np.array([[0.0], [np.log(3)]]), np.empty((1, 1))
    softmax(edges, score, np.empty((0, 1)), log_sum)
    np.testing.assert_allclose(score[:, 0], [0.25, 0.75])
    score, own = np.array([[0.0], [np.log(3)]]), np.array([[np.log(4)]])
    softmax(edges, score, own, log_sum)
    np.testing.assert_allclose([*score[:, 0], own[0, 0]], [0.125, 0.375, 0.5])
    np.testing.assert_allclose(log_sum, np.log(8))


@settings(deadline=None, max_examples=30)
@given(edges=adjacencies, with_edges=st.booleans(), seed=st.integers(0, 1000))
def test_additive_scores_and_their_gradient(edges: Adjacency, with_edges: bool, seed: int) -> None:
    generator = np.random.default_rng(seed)
    source, row = generator.standard_normal((edges.columns, 2)), generator.standard_normal((edges.rows, 2))
    count, place = len(edges.neighbours), edge_rows(edges)
    edge = generator.standard_normal((count if with_edges else 0, 2))
    score = np.empty((count, 2))
    additive_scores(edges, source, row, edge, 0.2, score)
    before = source[edges.neighbours] + row[place] + (edge if with_edges else 0)
    np.testing.assert_allclose(score, np.where(before > 0, before, 0.2 * before))
    gradient = generator.standard_normal((count, 2))
    expected = gradient * np.where(before > 0, 1, 0.2)
    sums, slow = np.empty((edges.rows, 2)), np.zeros((edges.rows, 2))
    additive_backward(edges, source, row, edge, 0.2, gradient, sums)
    np.add.at(slow, place, expected)
    np.testing.assert_allclose(gradient, expected)
    np.testing.assert_allclose(sums, slow, atol=1e-8)


@settings(deadline=None, max_examples=30)
@given(edges=adjacencies, heads=st.sampled_from([1, 2]), seed=st.integers(0, 1000))
def test_pair_scores_and_their_gradient(edges: Adjacency, heads: int, seed: int) -> None:
    generator, width = np.random.default_rng(seed), 3
    z, t = (generator.standard_normal((n, heads * width)) for n in (edges.columns, edges.rows))
    vector, place = generator.standard_normal((heads, width)), edge_rows(edges)
    score = np.empty((len(place), heads))
    pair_scores(edges, z, t, vector, 0.2, score)
    both = z[edges.neighbours] + t[place]
    active = np.where(both > 0, both, 0.2 * both).reshape(-1, heads, width)
    np.testing.assert_allclose(score, (active * vector).sum(-1), atol=1e-9)
    g = generator.standard_normal((len(place), heads))
    slope = np.where(both > 0, 1, 0.2).reshape(-1, heads, width)
    an_edge = (g[..., None] * vector * slope).reshape(-1, heads * width)
    expected_t, expected_z = np.zeros_like(t), np.zeros_like(z)
    np.add.at(expected_t, place, an_edge)
    np.add.at(expected_z, edges.neighbours, an_edge)
    got_t, got_z = np.empty_like(t), np.empty_like(z)
    got_vector = pair_backward(edges, z, t, vector, 0.2, g, got_t)
    pair_backward(edges.transposed, t, z, vector, 0.2, g, got_z)
    np.testing.assert_allclose(got_t, expected_t, atol=1e-7)
    np.testing.assert_allclose(got_z, expected_z, atol=1e-7)
    np.testing.assert_allclose(got_vector, (g[..., None] * active).sum(0), atol=1e-7)


def test_pair_gradients_do_not_depend_on_threads() -> None:
    edges, generator = make(300, 200, 20_000, seed=5, hub=True), np.random.default_rng(0)
    z, t = (generator.standard_normal((n, 8)).astype(np.float32) for n in (200, 300))
    vector, g = generator.standard_normal((2, 4)).astype(np.float32), generator.standard_normal((len(edges.neighbours), 2))
    g = g.astype(np.float32)
    found = []
    for threads in (1, 2, 5):
        into = np.empty_like(t)
        found.append((pair_backward(edges, z, t, vector, 0.2, g, into, threads), into))
    for vector_gradient, into in found[1:]:
        assert np.array_equal(vector_gradient, found[0][0])
        assert np.array_equal(into, found[0][1])


def test_dropped_features_follow_their_node_not_their_row() -> None:
    x, key = np.ones((400, 13), np.float32), np.uint64(77)
    position = np.arange(1000, 1400)
    out, moved = np.empty_like(x), np.empty_like(x)
    drop_features(x, position, key, 0.3, out)
    order = np.random.default_rng(0).permutation(400)
    drop_features(x, position[order], key, 0.3, moved, threads=3)
    assert np.array_equal(moved, out[order])
    kept = out[out > 0]
    assert np.all(kept == kept[0])
    np.testing.assert_allclose(kept[0], 1 / 0.7, rtol=1e-4)
    assert abs(out.mean() - 1) < 0.05
    drop_features(x, position, np.uint64(78), 0.3, moved)
    assert not np.array_equal(moved, out)
    signed = np.where(np.arange(13) % 2, -x, x).astype(np.float32)
    drop_features(signed, position, key, 0.3, moved, positive=True)
    assert np.array_equal(moved, np.where(np.arange(13) % 2, 0, out))
    for row, f in ((0, 0), (3, 5), (399, 12)):  # feature f has the bits 16 (f mod 4) … of draw f // 4
        bits = int(draw(key, position[row], f // 4)) >> 16 * (f % 4) & 0xFFFF
        assert (out[row, f] > 0) == (bits >= round(0.3 * 65536))


def test_dropped_edges_follow_their_ends_not_their_number() -> None:
    edges, generator = make(30, 20, 500, seed=6), np.random.default_rng(1)
    positions, weight = generator.permutation(1000)[:30].astype(np.int64), np.ones((len(edges.neighbours), 5))
    out = np.empty_like(weight)
    drop_edges(edges, weight, positions, positions, np.uint64(5), 0.5, out)
    fate = {}
    for k, row in enumerate(edge_rows(edges)):
        pair = (positions[row], positions[edges.neighbours[k]])
        assert np.array_equal(fate.setdefault(pair, out[k]), out[k])
    assert set(np.unique(out)) == {0.0, 2.0}
    assert abs(out.mean() - 1) < 0.15
