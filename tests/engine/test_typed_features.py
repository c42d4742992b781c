"""Features of node types that differ in width: rows by hand, shards joined, scaling type by type."""

from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.engine.features import DenseFeatures
from starling.engine.typed_features import TypedFeatures, joined_features, rank_in_type

CODES = np.array([1, 0, 1, 2, 0], np.uint8)
WIDE = DenseFeatures(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
NARROW = DenseFeatures(np.array([[5.0], [7.0]], np.float32))


def features() -> TypedFeatures:
    return TypedFeatures(CODES, rank_in_type(CODES, 3), [WIDE, NARROW, None])


def test_rows_by_hand() -> None:
    """Columns of the type, zeros, the code."""
    made = features()
    assert (made.count, made.width, made.type_widths) == (5, 3, (2, 1, 0))
    assert made.all().tolist() == [[5, 0, 1], [1, 2, 0], [7, 0, 1], [0, 0, 2], [3, 4, 0]]
    assert made.rows(np.array([3, 0])).tolist() == [[0, 0, 2], [5, 0, 1]]
    assert made.bare.tolist() == [3]
    assert made.in_memory().all().tolist() == made.all().tolist()
    assert made.widened(4).rows(np.array([1])).tolist() == [[1, 2, 0, 0, 0]]


def test_shards_joined_are_the_whole() -> None:
    """Nodes 0 … 2 and 3 … 4 in two shards, laid end to end and put into another order."""
    first = TypedFeatures(CODES[:3], np.array([0, 0, 1]), [DenseFeatures(np.array([[1.0, 2.0]], np.float32)), NARROW, None])
    rest = DenseFeatures(np.empty((0, 1), np.float32))
    second = TypedFeatures(CODES[3:], np.array([0, 0]), [DenseFeatures(np.array([[3.0, 4.0]], np.float32)), rest, None])
    whole = features().all()
    assert joined_features([first, second]).all().tolist() == whole.tolist()
    order = np.array([4, 2, 0, 1, 3])
    assert joined_features([first, second], order).all().tolist() == whole[order].tolist()


def test_each_type_is_scaled_by_itself() -> None:
    """Rows: divided by their sums. Columns: type 0 by its one training node, type 1, which has none, by both its nodes."""
    made = features()
    assert made.scaled("rows", np.array([1]), lambda v: v).all()[1, :2].tolist() == pytest.approx([1 / 3, 2 / 3])
    scaled = made.scaled("standard", np.array([1]), lambda v: v).all()
    assert scaled[:, 0].tolist() == pytest.approx([-1, 0, 1, 0, 2])
    assert scaled[:, -1].tolist() == CODES.tolist()
    assert made.scaled("none", np.array([1]), lambda v: v) is made


def test_one_table_for_all_types_is_kept_once() -> None:
    every = DenseFeatures(np.arange(10, dtype=np.float32).reshape(5, 2))
    made = TypedFeatures(CODES, np.arange(5), [every] * 3).in_memory()
    assert made.tables[0] is made.tables[2]
    assert made.rows(np.array([2])).tolist() == [[4, 5, 1]]
    both = joined_features([made, made])
    assert isinstance(both, TypedFeatures)
    assert both.tables[0] is both.tables[1]
    assert both.rows(np.array([7])).tolist() == [[4, 5, 1]]


def test_no_features_to_mark() -> None:
    from starling.core.manifest import EdgeCounts, GraphManifest
    from starling.engine.typed_features import node_features

    manifest = GraphManifest(nodes=2, edges=0, directed=True, counts=EdgeCounts(read=0, self_loops=0))
    with pytest.raises(InputError, match="Inputs by type need features"):
        node_features(manifest, lambda name: np.empty(0), 2, by_type=True)
    assert node_features(manifest, lambda name: np.empty(0), 2, by_type=False).width == 0
