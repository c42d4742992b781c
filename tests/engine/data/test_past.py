"""Workers whose targets look only into their past learn and score what one process does, whoever holds the lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from tests.engine.data.cases import data_config, learn_on_hosts, stage_threads, uneven_parts
from tests.engine.hybrid.runs import assert_identical, assert_same, config_of, cut, learn_together
from tests.support.trainable import trainable_graph

NODES, EDGES = 61, 260
LATE = 1_700_000_000_000_000_000 // 1024 * 1024
"""Nanoseconds: neighbouring times are the same number as float64, unless they lie 1,024 apart."""
MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"name": "gcn", "hidden": 8, "dropout": 0.3},
    "sage": {"name": "sage", "hidden": 8},
    "gate": {"name": "gate", "hidden": 8, "heads": 2},
    "rgcn": {"name": "rgcn", "hidden": 8, "bases": 2},
}
CASES = [
    ("gcn", {"batch_size": 20}, [0, 1]),
    ("gcn", {"batch_size": 20, "fanouts": [3, 2]}, [0, 0]),
    ("sage", {"batch_size": 9, "fanouts": [2, 2]}, [0, 1, 2, 3]),
    ("gate", {"batch_size": 20, "fanouts": [3, "all"], "replace": True}, [0, 0, 1, 1]),
    ("rgcn", {"batch_size": 20, "fanouts": "0:2,1;*:1,2"}, [0, 1]),
    ("sage", {"batch_size": 20, "fanouts": [2, 2]}, [0]),
]


def timed_graph(path: Path, step: int = 1, **without: Any) -> Graph:
    draw = np.random.default_rng(4)
    tables = {
        "attr": draw.random((EDGES, 2)).astype(np.float32),
        "type": draw.integers(0, 3, EDGES).astype(np.int32),
        "time": LATE + step * draw.integers(0, 50, EDGES),
    }
    times = LATE + step * draw.integers(15, 50, NODES)
    return trainable_graph(path, nodes=NODES, edges=EDGES, edge_tables=tables, time=times, **{"without": ("val",), **without})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return timed_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uneven_parts(graph, tmp_path_factory.mktemp("parts") / "p")


@pytest.mark.parametrize(("model", "strategy", "hosts"), CASES)
def test_teams_learn_what_one_process_learns(
    graph: Graph, parts: Path, tmp_path: Path, model: str, strategy: dict[str, Any], hosts: list[int]
) -> None:
    how = {"past": True, **strategy}
    (alone,) = learn_together(config_of(graph.path, 1, MODELS[model], {"name": "mini", **how}), tmp_path / "alone")
    (blind,) = learn_together(config_of(graph.path, 1, MODELS[model], {"name": "mini", **strategy}), tmp_path / "blind")
    assert abs(alone.losses[0] - blind.losses[0]) > 1e-4, "the past is not all there is"
    for seen in learn_on_hosts(data_config(parts, len(hosts), MODELS[model], how, shuffle="global"), tmp_path / "team", hosts):
        assert_same(seen, alone)
        assert seen.test == pytest.approx(alone.test, abs=1e-6)
    assert stage_threads() == []


def test_hosts_change_no_bit_and_before_goes_further_back(tmp_path: Path) -> None:
    """Evaluated after every epoch, while stages prepare the next one's batches."""
    graph = timed_graph(tmp_path / "g", step=1024)
    parts = uneven_parts(graph, tmp_path / "p")

    def config(path: Path, workers: int, before: float | None, **team: Any) -> RunConfig:
        strategy = {"name": "mini", "past": True, "batch_size": 12, "fanouts": [3, 2]}
        made = config_of(path, workers, MODELS["sage"], strategy, epochs=4, **team)
        more = {"run": {"evaluate_every": 1}, "data": {} if before is None else {"before": before}}
        return RunConfig.from_tables(merged(made.to_tables(), more))

    def team(before: float | None, hosts: list[int], name: str) -> Any:
        asked = config(parts, len(hosts), before, parallel="data", shuffle="global")
        return learn_on_hosts(asked, tmp_path / name, hosts)[0]

    seen = team(None, [0, 1, 1], "far")
    assert_identical(team(None, [0, 0, 0], "near"), seen)
    long_ago = float(LATE + 1024 * 20)
    (alone,) = learn_together(config(graph.path, 1, long_ago), tmp_path / "alone")
    assert_same(team(long_ago, [0, 1], "long ago"), alone)
    assert abs(alone.losses[0] - seen.losses[0]) > 1e-4


def test_learnt_rows_have_pasts_too(tmp_path: Path) -> None:
    """Nodes without features: a row that two moments see is read by both, and moved once."""
    graph = timed_graph(tmp_path / "g", without=("val", "x"))
    parts = uneven_parts(graph, tmp_path / "p")
    how = {"past": True, "batch_size": 20, "fanouts": [3, 2]}
    (alone,) = learn_together(config_of(graph.path, 1, MODELS["sage"], {"name": "mini", **how}), tmp_path / "alone")
    config = data_config(parts, 3, MODELS["sage"], how, shuffle="global")
    for seen in learn_on_hosts(config, tmp_path / "team", [0, 1, 1]):
        assert_same(seen, alone)
        assert seen.test == pytest.approx(alone.test, abs=1e-6)


def test_caches_more_workers_than_parts_and_what_is_counted(graph: Graph, parts: Path, tmp_path: Path) -> None:
    """A cache changes no bit; rows that evaluations read, however often, are not among those of training."""
    how = {"past": True, "batch_size": 12, "fanouts": [3, 2]}

    def run(name: str, path: Path, hosts: list[int], every: int, **team: Any) -> tuple[Any, list[Any]]:
        config = data_config(path, len(hosts), MODELS["sage"], how, shuffle="global", epochs=3, **team)
        config = RunConfig.from_tables(merged(config.to_tables(), {"run": {"evaluate_every": every}}))
        seen = learn_on_hosts(config, tmp_path / name, hosts)[0]
        lines = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        counts = [
            [sum(line["workers"][rank]["fetched"][key] for line in lines) for key in ("near", "far", "cached")]
            for rank in (0, 1)
        ]
        return seen, counts

    seen, counts = run("plain", parts, [0, 1], 3)
    often, same = run("often", parts, [0, 1], 1)
    np.testing.assert_array_equal(often.losses, seen.losses)
    assert counts[0][1] > 0
    assert same == counts
    cached, fewer = run("cached", parts, [0, 1], 3, cache=400)
    assert_identical(cached, seen)
    assert fewer[0][2] > 0
    two = cut(graph, tmp_path / "two", 2, np.arange(NODES) % 2)
    crowd, _ = run("crowd", two, [0, 0, 1, 1], 3)
    assert_same(crowd, seen)


def test_whole_numbers_at_nodes_and_fractions_at_edges(tmp_path: Path) -> None:
    """An edge at 3.2 is there before 3.5, though nodes' times are whole."""
    draw = np.random.default_rng(4)
    tables = {"time": draw.choice([1.0, 3.2, 3.7], EDGES)}
    graph = trainable_graph(
        tmp_path / "g", nodes=NODES, edges=EDGES, edge_tables=tables, time=draw.integers(2, 9, NODES), without=("val",)
    )
    parts = uneven_parts(graph, tmp_path / "p")
    how = {"name": "mini", "past": True, "batch_size": 20, "fanouts": [3, 2]}

    def config(path: Path, workers: int, **team: Any) -> RunConfig:
        made = config_of(path, workers, MODELS["sage"], how, **team)
        return RunConfig.from_tables(merged(made.to_tables(), {"data": {"before": 3.5}}))

    (alone,) = learn_together(config(graph.path, 1), tmp_path / "alone")
    team = learn_on_hosts(config(parts, 2, parallel="data", shuffle="global"), tmp_path / "team", [0, 1])
    assert_same(team[0], alone)


@pytest.mark.parametrize(
    ("sync", "team", "words"),
    [
        ("average", {}, "are trained without strategy.past"),
        ("gradient", {"local_only": True}, "Leave out --local-only, or past"),
    ],
)
def test_what_has_no_past(parts: Path, tmp_path: Path, sync: str, team: dict[str, Any], words: str) -> None:
    config = data_config(parts, 2, MODELS["sage"], {"past": True, "fanouts": [3, 2]}, **team)
    config = config.model_copy(update={"sync": config.sync.model_copy(update={"name": sync})})
    with pytest.raises(InputError, match=words):
        learn_on_hosts(config, tmp_path / "run", [0, 1])


@pytest.mark.parametrize("missing", ["edge", "node"])
def test_graphs_without_times(tmp_path: Path, missing: str) -> None:
    draw = np.random.default_rng(0)
    edges = {} if missing == "edge" else {"time": draw.integers(0, 9, EDGES)}
    nodes = {} if missing == "node" else {"time": draw.integers(0, 9, NODES)}
    parts = uneven_parts(trainable_graph(tmp_path / "g", nodes=NODES, edges=EDGES, edge_tables=edges, **nodes), tmp_path / "p")
    words = {
        "edge": "strategy.past reads the edge table 'time', and .* has none",
        "node": "needs a time for every node, and the graph has none",
    }
    with pytest.raises(InputError, match=words[missing]):
        learn_on_hosts(data_config(parts, 2, MODELS["sage"], {"past": True}), tmp_path / "run", [0, 1])
