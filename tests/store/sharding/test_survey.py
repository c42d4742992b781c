"""Degrees and the sample of a stream."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from starling.store.sharding import survey
from starling.store.sharding.survey import survey_edges
from starling.stream import edges
from starling.stream.edges import EdgesInMemory


def test_degrees_are_counted() -> None:
    found = survey_edges(EdgesInMemory(np.array([[0, 1], [2, 1], [1, 1]], np.int32), 4, directed=True))
    assert found.in_degree.tolist() == [0, 3, 0, 0]
    assert found.out_degree.tolist() == [1, 1, 1, 0]
    assert found.in_degree.dtype == np.int32


@pytest.mark.parametrize("block", [1, 3, 7, 100])
def test_the_sample_is_every_so_manieth_edge_whatever_the_blocks(block: int) -> None:
    pairs = np.arange(80, dtype=np.int32).reshape(-1, 2)
    blocks = EdgesInMemory.blocks
    with (
        patch.object(survey, "_SAMPLE", 8),
        patch.object(EdgesInMemory, "blocks", lambda self, size=edges.BLOCK_EDGES: blocks(self, block)),
    ):
        found = survey_edges(EdgesInMemory(pairs, 80, directed=True))
    assert found.stride == 5
    assert found.sample.tolist() == pairs[::5].tolist()
