"""What a run wants of types, weights and times against what the graph has: one sentence each, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.cli.main import run
from starling.train.config import RunConfig
from starling.train.prediction import PredictRequest, predict
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.trainable import trainable_graph

NODES, EDGES = 40, 160
AVERAGED = ["--parallel", "data", "--sync", "average"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose edges have signed weights, three types of which one has no edge, and times; nodes have times too."""
    draw = np.random.default_rng(0)
    tables = {
        "weight": draw.normal(size=EDGES).astype(np.float32),
        "type": draw.choice([0, 2], EDGES).astype(np.uint8),
        "time": draw.integers(0, 50, EDGES),
    }
    times = draw.integers(20, 50, NODES)
    return trainable_graph(
        tmp_path_factory.mktemp("graph") / "g", nodes=NODES, edges=EDGES, edge_tables=tables, time=times
    ).path


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "sage", "--set", "model.edge_weights=true"], "at least 0 to average by"),
        (["--model", "rgcn"], "got none of '1'"),
        (["--model", "rgcn", *AVERAGED], "got none of '1'"),
        (["--model", "rgcn", "--workers", "2", *AVERAGED], "got none of '1'"),
        (["--model", "gat", "--set", "model.relational=true"], "got none of '1'"),
        (["--strategy", "mini", "--fanouts", "0:1,1"], "fan-outs of every relation, got none of '1'"),
        (["--strategy", "mini", "--fanouts", "0:1,1;7:1,1"], "no relation '7'"),
        (["--model", "gate"], "The model gate reads the edge table 'attr', and"),
        (["--set", "model.by_type=true"], "need named node types"),
        (["--set", "model.relational=maybe"], "relational"),
    ],
)
def test_one_sentence_and_status_two(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert run(["train", str(graph), "--epochs", "1", "--run", str(tmp_path / "run"), *flags]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


TYPED = "reads the edge table 'type', and {path} has none. Import the edges with one, or "
WITHOUT_TABLES: dict[str, tuple[list[str], str]] = {
    "fan-outs": (
        ["--strategy", "mini", "--fanouts", "cites:5,5"],
        f"A fan-out by relation {TYPED}give plain numbers, such as --fanouts 15,10.",
    ),
    "a model": (["--model", "rgcn"], f"The model rgcn {TYPED}choose another model."),
    "relational": (["--model", "gcn", "--set", "model.relational=true"], f"A model with model.relational {TYPED}leave it out."),
    "weights": (["--set", "model.edge_weights=true"], "A model with model.edge_weights reads the edge table 'weight'"),
    "weighted": (
        ["--strategy", "mini", "--fanouts", "2,2", "--set", "strategy.sampling=weighted"],
        "strategy.sampling=uniform",
    ),
    "before": (["--before", "3"], "--before reads the edge table 'time', and {path} has none"),
    "past": (["--strategy", "mini", "--set", "strategy.past=true"], "strategy.past reads the edge table 'time'"),
}


@pytest.mark.parametrize("team", [[], ["--workers", "2"], ["--workers", "2", "--parallel", "data"], AVERAGED], ids=" ".join)
@pytest.mark.parametrize("case", WITHOUT_TABLES)
def test_a_graph_without_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, team: list[str]) -> None:
    """What to do is in the sentence, and workers are not started for it."""
    graph = trainable_graph(tmp_path / "g", nodes=NODES, edges=EDGES)
    flags, sentence = WITHOUT_TABLES[case]
    assert run(["train", str(graph.path), "--epochs", "1", "--run", str(tmp_path / "run"), *flags, *team]) == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert sentence.format(path=graph.path) in " ".join(said.split())
    assert not (tmp_path / "run").exists()


def test_signed_weights_where_models_are_averaged(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--parallel", "data", "--sync", "average", "--set", "model.edge_weights=true"]
    assert run(["train", str(graph), "--epochs", "1", "--run", str(tmp_path / "run"), *words]) == 2
    assert "at least 0 to average by" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_runs_that_look_into_the_past_are_scored_and_predicted_so(graph: Path, tmp_path: Path) -> None:
    """Evaluation, inference and a run with every edge's time moved beyond its target agree with what the past holds."""

    def trained(path: Path, name: str, **data: float) -> tuple[float, ...]:
        config = RunConfig.from_tables(
            {
                "data": {"path": path, **data},
                "model": {"name": "sage", "hidden": 8},
                "strategy": {"name": "mini", "past": True, "fanouts": [3, 3], "batch_size": 10},
                "run": {"epochs": 2, "seed": 1},
            }
        )
        result = fit(config, tmp_path / name)
        found = predict(PredictRequest(tmp_path / name, tmp_path / f"{name}.csv"))
        assert found.scores == result.scores
        return result.losses

    losses = trained(graph, "past")
    assert losses == trained(graph, "again")
    assert losses == trained(graph, "future cut off", before=49)
    assert losses != trained(graph, "less of it", before=15)


def test_features_that_workers_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Evaluation by all workers together holds each one's features: 20 of 40 nodes with 64 numbers are 5,120 bytes."""
    graph = trainable_graph(tmp_path / "g", nodes=NODES, edges=EDGES, features=64)
    parts = cut(graph, tmp_path / "cut", 2, np.arange(NODES) % 2)
    words = ["train", str(parts), "--workers", "2", "--epochs", "1", "--run", str(tmp_path / "run"), "--strategy", "global"]
    assert run([*words, "--memory", "10000"]) == 2
    assert "5,120 bytes for the largest of 2, more than its share of --memory" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
