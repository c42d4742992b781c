"""Parts read one at a time are what the whole graph holds of them, wherever their features lie, and memory is kept to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.halo_rows import halo_file
from starling.engine.data.parts_source import PartsSource, open_parts_source
from starling.engine.data.sequential import read_rows, row_blocks_of
from starling.engine.data.shelf import Shelf
from starling.engine.source import GraphSource, SourceRequest, open_source
from starling.store.graph import Graph
from tests.engine.hybrid.runs import cut, small_graph
from tests.support.graphs import write_graph

NODES = 61


def uneven_owner() -> NDArray[Any]:
    """Owners out of five parts: one is empty, one has a single node."""
    owner = np.random.default_rng(5).choice([0, 2, 4], NODES, p=[0.6, 0.2, 0.2])
    owner[7] = 3
    return owner


@pytest.fixture(scope="module", params=[1, 2], ids=["one hop", "two hops"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Path]:
    folder = tmp_path_factory.mktemp("parts")
    graph = small_graph(folder / "g")
    return graph, cut(graph, folder / "cut", 5, uneven_owner(), halo_hops=request.param)


def opened(path: Path, **request: Any) -> PartsSource:
    return open_parts_source(path, Team(), SourceRequest(**request))


@pytest.mark.parametrize("normalize", ["none", "rows", "standard"])
@pytest.mark.parametrize("where", ["shards", "laid out, kept", "laid out, read by row"])
def test_a_part_holds_what_the_graph_does(place: tuple[Graph, Path], tmp_path: Path, normalize: Any, where: str) -> None:
    graph, path = place
    whole: GraphSource = open_source(graph.path, SourceRequest(normalize, ("attr", "weight")))
    source = opened(path, normalize=normalize, edge_tables=("attr", "weight"))
    if where != "shards":
        source.part_features.lay_out(source.mine, tmp_path)
    seen = []
    for number in source.mine:
        part = source.read(number, keep="row" not in where, halo=None if where == "shards" else tmp_path)
        position = part.position_of(np.arange(part.nodes))
        np.testing.assert_allclose(part.features.all(), whole.features.rows(position), rtol=1e-6)
        np.testing.assert_array_equal(part.degree.numpy(), whole.degree.numpy()[position])
        assert part.weighted_degree is not None
        assert whole.weighted_degree is not None
        np.testing.assert_allclose(part.weighted_degree.numpy(), whole.weighted_degree.numpy()[position], rtol=1e-6)
        assert part.y is not None
        assert whole.y is not None
        np.testing.assert_array_equal(part.y, whole.y[position[: part.owned]])
        for name, rows in part.splits.items():
            assert set(position[rows]) == set(whole.splits[name]) & set(position[: part.owned])
        for row in range(part.nodes):
            mine = slice(*part.incoming.offsets[row : row + 2])
            theirs = slice(*whole.incoming.offsets[position[row] : position[row] + 2])
            if row < part.owned or mine.start < mine.stop:
                found = position[part.incoming.neighbours[mine]]
                np.testing.assert_array_equal(found, whole.incoming.neighbours[theirs])
                np.testing.assert_array_equal(part.edge_tables["attr"][mine], whole.edge_tables["attr"][theirs])
        np.testing.assert_array_equal(source.parts.position_of_global[part.ids_of_rows], position)
        seen.append(position[: part.owned])
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(NODES))


def test_what_is_known_without_reading(place: tuple[Graph, Path]) -> None:
    graph, path = place
    source = opened(path, edge_tables=("type",))
    train = np.asarray(graph.node_table("train"))
    assert source.split_sizes == {name: int(np.asarray(graph.node_table(name)).sum()) if name != "val" else 0 for name in
                                  ("train", "val", "test")}  # fmt: skip
    assert source.train_sizes == tuple(int((train & (uneven_owner() == part)).sum()) for part in range(5))
    assert source.relations == 3
    assert source.y is not None
    assert sorted(source.y[source.splits["train"]]) == sorted(np.asarray(graph.node_table("y"))[train])
    assert source.total(np.array([2, 3])).tolist() == [2, 3]


def test_sparse_features_come_from_the_shards(tmp_path: Path) -> None:
    """They are never laid out: rows of them have no fixed length."""
    draw = np.random.default_rng(1)
    dense = (draw.random((20, 6)) < 0.3) * draw.random((20, 6)).astype(np.float32)
    rows, columns = np.nonzero(dense)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=20))])
    sparse = (offsets, columns.astype(np.int32), dense[rows, columns].astype(np.float32), 6)
    graph = write_graph(tmp_path / "g", draw.integers(0, 20, (60, 2)), 20, node_tables={"x": sparse})
    source = opened(cut(graph, tmp_path / "cut", 3, np.arange(20) % 3))
    shelf = Shelf(source, source.list_bytes(0) + source.feature_bytes(0) + 500)
    shelf.prepare(tmp_path)
    assert shelf.comes_and_goes
    assert not halo_file(tmp_path, 0).exists()
    with shelf.turns(source.mine) as parts:
        for part in parts:
            np.testing.assert_array_equal(part.features.all(), dense[part.position].astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16])
@pytest.mark.parametrize("drop", [False, True])
def test_rows_in_order(tmp_path: Path, dtype: Any, drop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starling.engine.data.sequential._BLOCK_BYTES", 100)
    rows = np.random.default_rng(0).integers(-9, 9, (37, 5)).astype(dtype)
    np.save(tmp_path / "x.npy", rows)
    out = np.empty((37, 5), np.float32)
    read_rows(tmp_path / "x.npy", out, drop=drop)
    np.testing.assert_array_equal(out, rows.astype(np.float32))
    blocks = [block.copy() for block in row_blocks_of(tmp_path / "x.npy", 5, drop=drop)]
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate(blocks), rows)


def test_how_much_is_kept(place: tuple[Graph, Path], tmp_path: Path) -> None:
    """All parts where they fit, two where two do, one, or the lists of one."""
    source = opened(place[1])
    lists = [source.list_bytes(part) for part in source.mine]
    sizes = sorted((source.list_bytes(part) + source.feature_bytes(part) for part in source.mine), reverse=True)
    for memory, keeping in ((sum(sizes), "all"), (sum(sizes[:2]), "ahead"), (sizes[0], "one"), (max(lists), "lists")):
        shelf = Shelf(source, memory)
        assert shelf.keeping == keeping
        folder = tmp_path / keeping
        folder.mkdir()
        shelf.prepare(folder)
        assert any(folder.iterdir()) == (keeping != "all")
        for _ in range(2):
            with shelf.turns(source.mine) as parts:
                assert [part.part for part in parts] == list(source.mine)
        with shelf.turns([0, 0]) as parts:
            first, second = parts
        assert (first is second) == (keeping == "all")
    with pytest.raises(InputError, match=r"neighbour lists of part 0 take .* Pass a larger --memory"):
        Shelf(source, max(lists) - 1)
