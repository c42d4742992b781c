"""Invariant 4: with --shuffle global data-parallel training is that of one process, whoever samples what and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.plan.partitioning import PartitionRequest, partition_graph
from starling.store.graph import Graph
from starling.store.parts import open_parts
from starling.train import budget
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.data_work import DataWork
from starling.train.setup import set_up
from tests.engine.data.cases import data_config, learn_on_hosts, on_hosts, uneven_parts
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, cut, learn_together, small_graph

MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"hidden": 8, "dropout": 0.3, "residual": True},
    "gcn weighted": {"hidden": 8, "edge_weights": True, "input_dropout": 0.2},
    "gcn by relation": {"hidden": 8, "relational": True, "dropout": 0.2},
    "gcn weighted by relation": {"hidden": 8, "relational": True, "edge_weights": True},
    "sage": {"hidden": 8, "dropout": 0.2},
    "gat": {"hidden": 8, "heads": 2, "attention_dropout": 0.3},
    "rgcn": {"hidden": 8, "bases": 2},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "full": {"batch_size": 20},
    "sampled": {"batch_size": 20, "fanouts": [3, 2]},
    "weighted": {"batch_size": 16, "fanouts": [3, 2], "sampling": "weighted"},
    "by relation": {"batch_size": 20, "fanouts": "0:2,1;*:3,2"},
    "replaced": {"batch_size": 20, "fanouts": [4, "all"], "replace": True},
}
HOSTS = {"near": [0, 0], "far": [0, 1], "four far": [0, 1, 2, 3], "two hosts": [0, 0, 1, 1]}
CASES = [
    ("gcn", "full", "far"),
    ("gcn", "sampled", "four far"),
    ("gcn weighted", "weighted", "two hosts"),
    ("gcn by relation", "full", "two hosts"),
    ("gcn by relation", "sampled", "far"),
    ("gcn by relation", "by relation", "four far"),
    ("gcn weighted by relation", "sampled", "two hosts"),
    ("sage", "full", "two hosts"),
    ("sage", "sampled", "near"),
    ("sage", "replaced", "four far"),
    ("gat", "sampled", "far"),
    ("rgcn", "sampled", "far"),
    ("rgcn", "by relation", "two hosts"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uneven_parts(graph, tmp_path_factory.mktemp("parts") / "p")


def model_of(name: str) -> dict[str, Any]:
    return {"name": name.split()[0], **MODELS[name]}


@pytest.mark.parametrize(("model", "strategy", "hosts"), CASES)
def test_teams_learn_what_one_process_learns(
    graph: Graph, parts: Path, tmp_path: Path, model: str, strategy: str, hosts: str
) -> None:
    how = STRATEGIES[strategy]
    (alone,) = learn_together(config_of(graph.path, 1, model_of(model), {"name": "mini", **how}), tmp_path / "alone")
    where = HOSTS[hosts]
    config = data_config(parts, len(where), model_of(model), how, shuffle="global")
    for seen in learn_on_hosts(config, tmp_path / "team", where):
        assert_same(seen, alone)
        assert seen.test == pytest.approx(alone.test, abs=1.5 / 12)


def test_one_worker_is_one_process_and_sends_nothing(graph: Graph, parts: Path, tmp_path: Path) -> None:
    how = STRATEGIES["sampled"]
    (alone,) = learn_together(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how}), tmp_path / "alone")
    (seen,) = learn_on_hosts(data_config(parts, 1, model_of("sage"), how, shuffle="global"), tmp_path / "one", [0])
    assert_same(seen, alone)
    assert seen.bytes_sent == 0


def test_neither_hosts_nor_pipelines_change_a_bit(parts: Path, tmp_path: Path) -> None:
    """Whether rows are read or asked for, whether stages run ahead, non-stop or not at all: the same bits."""

    def learnt(hosts: list[int], name: str, **pipeline: Any) -> Learnt:
        config: RunConfig = data_config(parts, 2, model_of("gcn"), STRATEGIES["sampled"], pipeline=pipeline)
        return learn_on_hosts(config, tmp_path / name, hosts)[0]

    expected = learnt([0, 0], "near", mode="off")
    for number, (hosts, pipeline) in enumerate(
        [([0, 1], {"mode": "off"}), ([0, 1], {"mode": "epoch"}), ([0, 1], {}), ([0, 0], {"depths": [1, 1, 1, 1, 1]})]
    ):
        assert_identical(learnt(hosts, f"run-{number}", **pipeline), expected)


def test_local_shuffle_learns_too(graph: Graph, parts: Path, tmp_path: Path) -> None:
    """Other batches than those of one process, yet every training node once an epoch: a full-neighbour epoch of one step agrees."""
    how = {"batch_size": 37}  # all training nodes
    (alone,) = learn_together(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how}), tmp_path / "alone")
    assert int(np.count_nonzero(graph.node_table("train"))) == 37
    for seen in learn_on_hosts(data_config(parts, 4, model_of("sage"), how), tmp_path / "team", [0, 1, 1, 0]):
        assert_same(seen, alone)


def test_parts_alone_learn_the_same_whoever_has_them(parts: Path, tmp_path: Path) -> None:
    """--local-only: five unequal parts, several steps an epoch, by one, two and four workers."""
    how = {"batch_size": 5, "fanouts": [3, 2]}
    found = {}
    for hosts in ([0], [0, 1], [0, 0, 1, 2]):
        config = data_config(parts, len(hosts), model_of("sage"), how, local_only=True)
        found[len(hosts)] = learn_on_hosts(config, tmp_path / str(len(hosts)), hosts)
    for seen in (*found[2], *found[4]):
        assert_same(seen, found[1][0])


def test_batch_norm_is_shared(parts: Path, tmp_path: Path) -> None:
    """Statistics are over the rows that all workers compute, so every worker ends with the same ones."""
    model = {"name": "gcn", "hidden": 8, "norm": "batch"}
    first, *others = learn_on_hosts(data_config(parts, 4, model, STRATEGIES["sampled"]), tmp_path / "team", [0, 0, 1, 1])
    for other in others:
        assert_identical(other, first)


def test_more_workers_than_parts(graph: Graph, tmp_path: Path) -> None:
    """Workers that own no part read their neighbour's, compute as much as anybody, and take part in evaluation with nothing."""
    how = STRATEGIES["sampled"]
    two = cut(graph, tmp_path / "two", 2, np.random.default_rng(3).integers(0, 2, graph.nodes))
    (alone,) = learn_together(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how}), tmp_path / "alone")
    for seen in learn_on_hosts(data_config(two, 4, model_of("sage"), how, shuffle="global"), tmp_path / "team", [0, 0, 1, 1]):
        assert_same(seen, alone)


def test_the_workers_of_a_part_are_at_home_in_its_sub_parts(graph: Graph, tmp_path: Path) -> None:
    """Two machines of two workers: `starling partition -p 2 --sub-parts 2`; each worker's targets are of its own sub-part."""
    request = PartitionRequest(parts=2, sub_parts=2, method="random", seed=1)
    partition_graph(graph, tmp_path / "parts", request)
    opened, how = open_parts(tmp_path / "parts"), STRATEGIES["sampled"]
    (alone,) = learn_together(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how}), tmp_path / "alone")
    config = data_config(opened.path, 4, model_of("sage"), how, shuffle="global")
    for seen in learn_on_hosts(config, tmp_path / "team", [0, 0, 1, 1]):
        assert_same(seen, alone)

    def own_targets(team: Team) -> list[NDArray[Any]]:
        work = set_up(data_config(opened.path, 4, model_of("sage"), how), team).work
        assert isinstance(work, DataWork)
        return [work.stages.schedule(number).targets for number in range(work.steps_per_epoch)]

    homes = np.concatenate([np.array(shard.sub_offsets[:-1]) for shard in opened.manifest.shards])
    for rank, targets in enumerate(on_hosts([0, 0, 1, 1], own_targets)):
        found = np.searchsorted(homes, np.concatenate(targets), side="right") - 1
        assert np.bincount(found, minlength=4).argmax() == rank, "most of a worker's targets lie where it is at home"


@pytest.mark.parametrize("changes", [{"data": {"normalize": "standard"}}, {"run": {"memory": 96_000}}], ids=["scaled", "tight"])
def test_more_workers_than_parts_scale_features_and_evaluate_part_by_part(
    tmp_path: Path, changes: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that own no part have no rows to go by; `tight` is less than twice the features."""
    for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
        monkeypatch.setattr(budget, name, 0)  # as if the program took nothing
    graph = small_graph(tmp_path / "g", x=np.random.default_rng(1).normal(size=(61, 200)).astype(np.float32))
    two = cut(graph, tmp_path / "two", 2, np.random.default_rng(3).integers(0, 2, graph.nodes))
    how = {"batch_size": 20, "fanouts": [3, 2]}

    def of(config: RunConfig) -> RunConfig:
        return RunConfig.from_tables(merged(config.to_tables(), changes))

    (alone,) = learn_together(of(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how})), tmp_path / "alone")
    config = of(data_config(two, 4, model_of("sage"), how, shuffle="global"))
    for seen in learn_on_hosts(config, tmp_path / "team", [0, 0, 0, 0]):
        assert_same(seen, alone)


def test_stale_weights_are_those_of_one_process(graph: Graph, parts: Path, tmp_path: Path) -> None:
    """--sync stale with batches in flight, on batches that a pipeline prepares."""
    how, stale = STRATEGIES["sampled"], {"name": "stale", "staleness": 2, "in_flight": 2}

    def of(config: RunConfig) -> RunConfig:
        return RunConfig.from_tables({**config.to_tables(), "sync": stale})

    (alone,) = learn_together(of(config_of(graph.path, 1, model_of("sage"), {"name": "mini", **how})), tmp_path / "alone")
    config = of(data_config(parts, 2, model_of("sage"), how, shuffle="global"))
    for seen in learn_on_hosts(config, tmp_path / "team", [0, 1]):
        assert_same(seen, alone)
