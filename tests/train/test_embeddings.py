"""Runs with embeddings: teams learn the rows of one process, rows are saved and read again, files and caches change no bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.cli.main import run as starling
from starling.core.errors import InputError
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.embeddings import EMBEDDINGS, ROWS
from starling.train.prediction import PredictRequest, predict
from starling.train.trainer import fit
from tests.engine.data.cases import data_config, learn_on_hosts, uneven_owner, uneven_parts
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, cut, learn_together, small_graph

MODEL = {"name": "sage", "hidden": 8}
FULL = {"name": "mini", "batch_size": 20}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph without features."""
    return small_graph(tmp_path_factory.mktemp("graph") / "g", without_x=True)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("parts")
    edge_part = np.random.default_rng(5).choice([0, 2, 3, 4], graph.manifest.edges)
    return {
        "edge-cut": uneven_parts(graph, folder / "edge"),
        "vertex-cut": cut(graph, folder / "vertex", 5, uneven_owner(graph.nodes), edge_part),
    }


def with_table(config: RunConfig, **embedding: Any) -> RunConfig:
    return RunConfig.from_tables(config.to_tables() | {"embedding": {"dim": 6, "optimizer": "sgd", "lr": 2.0, **embedding}})


def rows_of(run: Path) -> np.ndarray:
    return np.load(run / EMBEDDINGS / ROWS)


def both(learnt: Learnt, run: Path) -> Learnt:
    """What was learnt, rows included."""
    return Learnt(learnt.losses, learnt.weights | {"rows": rows_of(run)}, learnt.test, learnt.bytes_sent)


def alone(graph: Graph, strategy: dict[str, Any], run: Path, **embedding: Any) -> Learnt:
    (learnt,) = learn_together(with_table(config_of(graph.path, 1, MODEL, strategy), **embedding), run)
    return both(learnt, run)


@pytest.mark.parametrize(
    ("kind", "workers", "strategy"),
    [
        ("edge-cut", 2, {"name": "global"}),
        ("vertex-cut", 4, {"name": "global"}),
        ("edge-cut", 4, FULL),
        ("vertex-cut", 2, FULL),
        ("edge-cut", 2, {**FULL, "fanouts": [3, 2]}),
        ("edge-cut", 2, {"name": "cluster", "clusters": 5, "clusters_per_step": 2}),
    ],
)
def test_teams_learn_the_rows_of_one_process(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, kind: str, workers: int, strategy: dict[str, Any]
) -> None:
    wanted = alone(graph, strategy, tmp_path / "alone")
    seen = learn_together(with_table(config_of(parts[kind], workers, MODEL, strategy)), tmp_path / "team")
    assert_same(both(seen[0], tmp_path / "team"), wanted)


@pytest.mark.parametrize("hosts", [[0, 1], [0, 0], [0, 0, 1, 1]])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_rows_over_the_key_value_store(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, hosts: list[int], optimizer: str
) -> None:
    table = {"optimizer": optimizer, "lr": 2.0 if optimizer == "sgd" else 0.1}
    wanted = alone(graph, FULL, tmp_path / "alone", **table)
    config = with_table(data_config(parts["edge-cut"], len(hosts), MODEL, {"batch_size": 20}, shuffle="global"), **table)
    seen = learn_on_hosts(config, tmp_path / "team", hosts)
    assert_same(both(seen[0], tmp_path / "team"), wanted)
    again = learn_on_hosts(config, tmp_path / "again", [0] * len(hosts))
    assert_identical(both(again[0], tmp_path / "again"), both(seen[0], tmp_path / "team"))


def test_adam_too(graph: Graph, parts: dict[str, Path], tmp_path: Path) -> None:
    """Adam divides by gradients' size, and so makes rounding of tiny ones count: losses agree, rows nearly."""
    table = {"optimizer": "adam", "lr": 0.01}
    wanted = alone(graph, FULL, tmp_path / "alone", **table)
    config = with_table(config_of(parts["edge-cut"], 2, MODEL, FULL), **table)
    seen = both(learn_together(config, tmp_path / "team")[0], tmp_path / "team")
    np.testing.assert_allclose(seen.losses, wanted.losses, rtol=1e-3)
    assert np.mean(np.abs(seen.weights["rows"] - wanted.weights["rows"]) < 1e-3) > 0.99


@pytest.mark.parametrize("parallel", ["alone", "hybrid", "data"])
def test_rows_in_a_file_change_no_bit(graph: Graph, parts: dict[str, Path], tmp_path: Path, parallel: str) -> None:
    configs = {
        "alone": config_of(graph.path, 1, MODEL, FULL),
        "hybrid": config_of(parts["edge-cut"], 2, MODEL, {"name": "global"}),
        "data": data_config(parts["edge-cut"], 2, MODEL, {"batch_size": 20, "fanouts": [3, 2]}),
    }
    for name, memory in (("memory", None), ("disk", 200)):
        config = with_table(configs[parallel], optimizer="adam", lr=0.01, **({"memory": memory} if memory else {}))
        seen = learn_on_hosts(config, tmp_path / name, list(range(config.team.workers)))
        if name == "memory":
            wanted = both(seen[0], tmp_path / name)
    assert_identical(both(seen[0], tmp_path / "disk"), wanted)


def test_rows_beside_features(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    folder = uneven_parts(graph, tmp_path / "p")
    wanted = alone(graph, FULL, tmp_path / "alone")
    for number, config in enumerate(
        (config_of(folder, 2, MODEL, FULL), data_config(folder, 2, MODEL, {"batch_size": 20}, shuffle="global"))
    ):
        seen = learn_on_hosts(with_table(config), tmp_path / f"team-{number}", [0, 1])
        assert_same(both(seen[0], tmp_path / f"team-{number}"), wanted)
    assert RunConfig.read(tmp_path / "alone" / "config.toml").data.features == 8 + 6


def test_a_cache_changes_no_bit(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    folder = uneven_parts(graph, tmp_path / "p")
    strategy = {"batch_size": 8, "fanouts": [3, 2]}
    rates, asked_for = {}, set[int]()
    for size in (0, 100, 400, 10**6):
        config = data_config(folder, 2, MODEL, strategy, cache=size)
        seen = learn_on_hosts(config, tmp_path / f"cache-{size}", [0, 1])[0]
        if not size:
            wanted = seen
        assert_identical(seen, wanted)
        lines = (tmp_path / f"cache-{size}" / "metrics.jsonl").read_text().splitlines()
        workers = [worker["fetched"] for line in lines for worker in json.loads(line)["workers"]]
        asked = sum(worker["cached"] + worker["far"] for worker in workers)
        rates[size] = sum(worker["cached"] for worker in workers) / asked
        assert sum(worker["far_bytes"] for worker in workers) == 32 * sum(worker["far"] for worker in workers)
        assert json.loads((tmp_path / f"cache-{size}" / "summary.json").read_text())["cache_hit_rate"] == rates[size]
        asked_for.add(asked)
    assert 0 == rates[0] < rates[100] < rates[400] < rates[10**6] == 1
    assert len(asked_for) == 1, "rows are the same, wherever they come from"


def test_a_graph_without_features_trains_and_predicts(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = [str(graph.path), "--epochs", "30", "--run", str(run), "--hidden", "8", "--lr", "0.05", "--quiet"]
    assert starling(["train", *arguments, "--embedding-dim", "5", "--embedding-memory", "1KiB"]) == 0
    assert "5 learnt numbers a node" in capsys.readouterr().out
    config = RunConfig.read(run / "config.toml")
    assert (config.embedding.dim, config.data.features) == (5, 5)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["embeddings"] == 5
    assert summary["train"] > 0.9, "rows of their own tell training nodes apart"
    predicted = predict(PredictRequest(run, tmp_path / "predictions.csv"))
    assert (predicted.scores.train, predicted.scores.test) == (summary["train"], summary["test"])
    assert predict(PredictRequest(run, tmp_path / "parts.csv", parts["edge-cut"])).scores == predicted.scores
    small_graph(tmp_path / "other", edges=240, without_x=True)
    with pytest.raises(InputError, match="belong to the nodes of the graph it was trained on"):
        predict(PredictRequest(run, tmp_path / "other.csv", tmp_path / "other"))


def test_by_default_nodes_without_features_have_rows_and_others_none(graph: Graph, tmp_path: Path) -> None:
    fit(config_of(graph.path, 1, MODEL), tmp_path / "run")
    assert rows_of(tmp_path / "run").shape == (graph.nodes, 64)
    small_graph(tmp_path / "g")
    fit(config_of(tmp_path / "g", 1, MODEL), tmp_path / "other")
    assert not (tmp_path / "other" / EMBEDDINGS).exists()


def test_refused(graph: Graph, parts: dict[str, Path], tmp_path: Path) -> None:
    tables = config_of(graph.path, 1, MODEL, FULL).to_tables()
    stale = {"name": "stale", "staleness": 1}
    for changed, match in (
        ({"embedding": {"dim": 0}}, "no embeddings are to be learnt"),
        ({"data": {"path": graph.path, "normalize": "rows"}}, "--normalize rows scales features"),
        ({"sync": stale}, "got --sync stale"),
        ({"embedding": {"dim": 4}, "sync": stale}, "got --sync stale"),
        ({"team": {"workers": 1, "cache": 100}}, "--cache is for --parallel data"),
    ):
        with pytest.raises(InputError, match=match):
            fit(RunConfig.from_tables(tables | changed), tmp_path / "run")
