"""A layer's rows come back as they were written, to every part and its halo, wherever they are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.comm.team import Team
from starling.engine.data.parts_source import open_parts_source
from starling.engine.source import SourceRequest
from starling.infer.layer_rows import LayerRows
from tests.engine.hybrid.runs import cut, small_graph

NODES, WIDTH = 61, 3


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("block", [1, 4, 100])
def test_rows_of_own_nodes_and_halo(tmp_path: Path, hops: int, block: int) -> None:
    """Five parts, one empty and one of a single node; rows are the nodes' global ids."""
    owner = np.random.default_rng(5).choice([0, 2, 4], NODES, p=[0.6, 0.2, 0.2])
    owner[7] = 3
    source = open_parts_source(
        cut(small_graph(tmp_path / "g"), tmp_path / "p", 5, owner, halo_hops=hops), Team(), SourceRequest()
    )
    kept = LayerRows(source.parts, WIDTH)
    writer, reader = (LayerRows(source.parts, WIDTH, tmp_path / "layer-0") for _ in range(2))  # as two workers share files
    for part in source.mine:
        first, owned = source.parts.manifest.offsets[part], source.parts.shard(part).owned
        rows = np.repeat(np.arange(first, first + owned, dtype=np.float32)[:, None], WIDTH, 1)
        for start in range(0, owned, block):
            kept.write(part, start, rows[start : start + block])
            writer.write(part, start, rows[start : start + block])
    for number in source.mine:
        part = source.read(number)
        near = part.owned + source.parts.shard(number).halo_offsets[0, -1]
        rows = np.random.default_rng(number).integers(0, near, 80 if near else 0)  # only the first hop is ever read
        for layer, memory in ((kept, 0), (reader, 0), (reader, 1 << 20)):
            np.testing.assert_array_equal(layer.of(part, memory)(rows), np.repeat(part.ids_of_rows[rows][:, None], WIDTH, 1))
            np.testing.assert_array_equal(layer.own(number, 0, part.owned)[:, 0], part.ids_of_rows[: part.owned])
    assert sorted(path.name for path in tmp_path.glob("layer*")) == ["layer-0.halo", "layer-0.rows"]
