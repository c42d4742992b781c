"""Averaged models on node types with features of their own, and on the edges of a time.

One part is one process, whole halos are the gradient of all parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.parts_source import open_parts_source
from starling.engine.data.shelf import Shelf
from starling.engine.source import SourceRequest, open_source
from starling.launch.trainer import Trainer
from starling.store.graph import open_graph
from starling.store.parts import open_parts
from starling.train.averaging.correction import GlobalBatches
from starling.train.config import RunConfig
from starling.train.graph_preflight import check_before_workers
from starling.train.prediction import PredictRequest, predict
from tests.engine.hybrid.runs import cut
from tests.engine.hybrid.test_typed import NODES, build, check_tables
from tests.support.graphs import write_graph
from tests.train.averaging.cases import ONE_PROCESS, Tables, assert_identical, tables, train, weights

PARTS = 4
GRAPHS: dict[str, dict[str, int]] = {
    "typed": {"author": 3, "venue": 2},
    "alike": {"author": 5, "venue": 5},
    "bare": {"author": 3},
}
"""Papers have five columns: tables of three widths, one table of all types, and venues without features."""
CASES: dict[str, tuple[str, Tables]] = {
    "tables by type": ("typed", {"model": {"input_dropout": 0.2}}),
    "rgcn": ("typed", {"model": {"name": "rgcn", "bases": 2}, "data": {"normalize": "rows"}}),
    "gcn by relation": ("typed", {"model": {"name": "gcn", "relational": True}, "strategy": {"fanouts": "writes:2,1;*:3,2"}}),
    "one table": ("alike", {"model": {"by_type": True}}),
    "a learnt row": ("bare", {"embedding": {"dim": 0}}),
    "before": ("typed", {"data": {"before": 3}}),
    "before, weighted": ("typed", {"data": {"before": 3}, "model": {"name": "gcn", "edge_weights": True, "relational": True}}),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each graph whole, in one part, and in four of which one is empty, with halos of one hop and of two."""
    folder = tmp_path_factory.mktemp("typed")
    owner = np.random.default_rng(5).choice([0, 1, 3], NODES)
    for name, widths in GRAPHS.items():
        (folder / name).mkdir()
        graph = build(folder / name / "g", **widths)
        cut(graph, folder / name / "one", 1, np.zeros(NODES, np.int64))
        cut(graph, folder / name / "four", PARTS, owner)
        cut(graph, folder / name / "deep", PARTS, owner, halo_hops=2)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_one_part_equals_one_process_to_the_bit(place: Path, tmp_path: Path, case: str) -> None:
    name, changes = CASES[case]
    (found,) = train(place / name / "one" / "parts", tmp_path / "average", 1, changes)
    alone = Trainer(tables(place / name / "g", changes, ONE_PROCESS), run=tmp_path / "alone").fit()
    assert_identical(found, alone)
    assert "input.bias" in weights(found), "a matrix for each type"
    if "before" in case:
        later = Trainer(tables(place / name / "g", changes, ONE_PROCESS, {"data": {"before": 6}}), run=tmp_path / "later").fit()
        assert abs(later.losses[0] - alone.losses[0]) > 1e-4


@pytest.mark.parametrize("correct", [False, True], ids=["", "corrected"])
@pytest.mark.parametrize("case", ["tables by type", "one table", "a learnt row", "before, weighted"])
def test_any_number_of_workers_gives_the_same_bits(place: Path, tmp_path: Path, case: str, correct: bool) -> None:
    """Four parts by one worker, two and four, whatever they keep of parts in memory."""
    name, changes = CASES[case]
    path, sync = place / name / "four" / "parts", {"sync": {"correct": correct}, "data": {"normalize": "standard"}}
    (alone,) = train(path, tmp_path / "1", 1, changes, sync)
    for workers in (2, 4):
        for found in train(path, tmp_path / str(workers), workers, changes, sync):
            assert_identical(found, alone)
    for keeping in ("ahead", "one", "lists"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Shelf, "keeping", property(lambda _, keeping=keeping: keeping, lambda _, value: None), raising=False)
            for found in train(path, tmp_path / keeping, 2, changes, sync):
                assert_identical(found, alone)


@pytest.mark.parametrize("case", ["tables by type", "one table", "before", "before, weighted"])
def test_a_round_for_every_step_with_whole_halos_is_the_gradient_of_all_parts(place: Path, tmp_path: Path, case: str) -> None:
    """With `sgd`, halos as deep as the model and one step a round, means of models are means of gradients: a slow twin."""
    name, changes = CASES[case]
    path = place / name / "deep" / "parts"
    sizes = [int(np.asarray(open_parts(path).shard(part).node_table("train")).sum()) for part in range(PARTS)]
    full: Tables = {
        "strategy": {"name": "mini", "fanouts": "all,all", "batch_size": max(sizes)},
        "optimizer": {"name": "sgd", "lr": 0.3},
        "run": {"epochs": 3, "evaluate_every": 3},
        "model": {"dropout": 0.0, "input_dropout": 0.0},
    }
    (found,) = train(path, tmp_path / "average", 1, changes, full)
    whole: Tables = {"strategy": {"batch_size": sum(sizes)}}  # all targets a step, once an epoch
    alone = Trainer(tables(place / name / "g", changes, full, whole, ONE_PROCESS), run=tmp_path / "alone").fit()
    for key, value in weights(alone).items():
        torch.testing.assert_close(weights(found)[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("normalize", ["none", "rows", "standard"])
@pytest.mark.parametrize("where", ["shards", "laid out, kept", "laid out, read by row"])
@pytest.mark.parametrize("name", ["typed", "alike"])
def test_a_part_holds_what_the_graph_does(place: Path, tmp_path: Path, name: str, where: str, normalize: Any) -> None:
    """The rows of own nodes and halo, with their types, are those of the imported graph."""
    request = SourceRequest(normalize, by_type=True)
    whole = open_source(place / name / "g", request).features
    source = open_parts_source(place / name / "four" / "parts", Team(), request)
    assert source.features.type_widths == whole.type_widths
    if where != "shards":
        source.part_features.lay_out(source.mine, tmp_path)
    for number in source.mine:
        part = source.read(number, keep="row" not in where, halo=None if where == "shards" else tmp_path)
        position = part.position_of(np.arange(part.nodes))
        np.testing.assert_allclose(part.features.all(), whole.rows(position), rtol=1e-5, atol=1e-6)


def test_a_part_is_what_it_was_at_a_time(tmp_path: Path) -> None:
    """Lists, degrees, their weights and self-loops of own nodes and halo are those of the graph without later edges."""
    draw = np.random.default_rng(2)
    pairs = np.concatenate([draw.integers(0, 20, (80, 2)), np.repeat(np.arange(6), 2).reshape(6, 2)])
    columns = {"weight": draw.random(86).astype(np.float32), "attr": draw.random((86, 2)).astype(np.float32)}
    columns["time"] = draw.integers(0, 7, 86)
    graph = write_graph(tmp_path / "g", pairs, 20, node_tables={"x": np.eye(20, dtype=np.float32)}, edge_tables=columns)
    request = SourceRequest(edge_tables=("attr", "weight"), before=3)
    whole = open_source(graph.path, request)
    source = open_parts_source(cut(graph, tmp_path / "cut", 3, np.arange(20) % 3, halo_hops=2), Team(), request)
    left = 0
    for number in source.mine:
        part = source.read(number)
        position = part.position_of(np.arange(part.nodes))
        np.testing.assert_array_equal(part.degree, whole.degree[position])
        np.testing.assert_allclose(part.weighted_degree, whole.weighted_degree[position], rtol=1e-6)  # type: ignore[index, arg-type]
        assert 0 < int(whole.looped.sum()) < int((pairs[:, 0] == pairs[:, 1]).sum()), "some have loops, others lost theirs"
        np.testing.assert_array_equal(part.looped, whole.looped[position])
        for row in range(part.nodes):
            mine = slice(*part.incoming.offsets[row : row + 2])
            theirs = slice(*whole.incoming.offsets[position[row] : position[row] + 2])
            if row < part.owned or mine.start < mine.stop:
                np.testing.assert_array_equal(position[part.incoming.neighbours[mine]], whole.incoming.neighbours[theirs])
                np.testing.assert_array_equal(part.edge_tables["attr"][mine], whole.edge_tables["attr"][theirs])
        left += int(part.incoming.offsets[part.owned])
    assert left == len(whole.incoming.neighbours) < graph.manifest.edges


def test_corrections_see_the_types_and_the_time(place: Path) -> None:
    """Batches over all parts have the rows, edges and degrees of the graph as it was."""
    request = SourceRequest("standard", ("attr", "type", "weight"), by_type=True, before=3)
    whole = open_source(place / "typed" / "g", request)
    source = open_parts_source(place / "typed" / "four" / "parts", Team(), request)
    batch = GlobalBatches(source, 2, 0, None).batch(1, 0)
    outer = batch.views[0].graph
    np.testing.assert_allclose(batch.x, whole.features.rows(outer.row_position.numpy()), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outer.degree, whole.degree[outer.row_position])
    np.testing.assert_array_equal(outer.weighted_degree, whole.weighted_degree[outer.row_position])  # type: ignore[index]
    for view in batch.views:
        assert check_tables(view.graph, latest=3) == int(whole.degree[view.graph.row_position[: view.graph.destinations]].sum())


def test_a_trained_run_predicts(place: Path, tmp_path: Path) -> None:
    (found, _) = train(place / "typed" / "four" / "parts", tmp_path / "run", 2)
    given = predict(PredictRequest(tmp_path / "run", tmp_path / "out.csv"))
    assert given.scores.test == found.scores.test


def test_rows_of_types_without_features_are_not_corrected(place: Path, tmp_path: Path) -> None:
    """Said before a graph is cut, which takes minutes where it is large, and where parts are read."""
    words, correct = r"--correct moves .*, and nodes of .* learn rows", {"sync": {"correct": True}}
    with pytest.raises(InputError, match=words):
        train(place / "bare" / "four" / "parts", tmp_path / "run", 1, correct)
    graph = open_graph(place / "bare" / "g")
    config = RunConfig.from_tables(tables(graph.path, {"team": {"workers": 2}}, correct))
    with pytest.raises(InputError, match=words):
        check_before_workers(config, graph.manifest)
    check_before_workers(
        config.model_copy(update={"embedding": config.embedding.model_copy(update={"dim": 0})}), graph.manifest
    )
