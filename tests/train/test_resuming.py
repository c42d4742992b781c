"""A run that was stopped and goes on is the run that was not: losses, scores, weights and rows, to the bit, of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.embeddings import EMBEDDINGS, ROWS
from starling.train.results import EpochRecord, Nobody, TrainResult
from starling.train.run_directory import METRICS, MODEL, SUMMARY
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.trainable import trainable_graph
from tests.train.links.link_graphs import link_graph

Tables = dict[str, dict[str, Any]]
EPOCHS = 5

MINI: Tables = {"strategy": {"name": "mini", "batch_size": 8, "fanouts": "3,2"}}
DATA: Tables = MINI | {"team": {"parallel": "data"}}
AVERAGE: Tables = DATA | {"sync": {"name": "average", "every": 2}}
ADAM: Tables = {"optimizer": {"name": "adam", "lr": 0.05}}
ROWS_OF_ALL: Tables = {"embedding": {"dim": 4, "optimizer": "adam"}}

ONE: dict[str, Tables] = {
    "global, batch norm": {"model": {"norm": "batch"}, "schedule": {"name": "plateau", "patience": 1}},
    "mini, cosine": MINI | ADAM | {"schedule": {"name": "cosine"}},
    "step, weight decay of the first layer": {"schedule": {"name": "step", "every": 2}, "optimizer": {"decay_on": "first"}},
    "cluster": {"strategy": {"name": "cluster", "clusters": 6, "clusters_per_step": 2}} | ADAM,
    "saint": {"strategy": {"name": "saint", "draws": "walk", "count": 8}} | ADAM,
    "cohesive": {"strategy": {"name": "cohesive", "batches": 3}} | ADAM,
    "stale": MINI | ADAM | {"sync": {"name": "stale", "staleness": 2, "in_flight": 2}},
    "stale, batch norm": MINI | {"sync": {"name": "stale", "staleness": 1}, "model": {"norm": "batch"}},
    "embeddings": MINI | ROWS_OF_ALL,
    "embeddings in a file": MINI | {"embedding": {"dim": 4, "optimizer": "adagrad", "memory": 256}},
    "evaluated now and then": MINI | {"run": {"evaluate_every": 3}},
}
TEAMS: dict[str, Tables] = {
    "global": {"model": {"norm": "batch"}} | ADAM,
    "boundary": {"team": {"boundary": 0.5}} | ADAM,
    "mini": MINI | ADAM,
    "balanced": {"strategy": {"name": "cohesive", "batches": 3}, "team": {"balance_workers": True}} | ADAM,
    "stale": MINI | ADAM | {"sync": {"name": "stale", "staleness": 2, "in_flight": 3}},
    "data": DATA | ADAM,
    "data, a pipeline an epoch": DATA | ADAM | {"pipeline": {"mode": "epoch"}},
    "data, no pipeline": DATA | ADAM | {"pipeline": {"mode": "off"}},
    "data, global shuffle": merged(DATA, {"team": {"shuffle": "global"}}) | ADAM,
    "data, embeddings": DATA | ADAM | ROWS_OF_ALL,
    "average": AVERAGE | ADAM,
    "average, corrected": merged(AVERAGE, {"sync": {"correct": True}}) | ADAM,
    "average, local moments": merged(AVERAGE, {"sync": {"moments": "local", "correct": True}}) | ADAM,
    "average, moments forgotten": merged(AVERAGE, {"sync": {"moments": "reset"}}) | ADAM,
    "average, rounds of an epoch": merged(AVERAGE, {"sync": {"every": 1, "rounds": 2, "correct": True}}) | ADAM,
}


class Stopped(Exception):
    """Somebody pulled the plug."""


class StopAt(Nobody):
    """Ends a run when an epoch's numbers are told, before anything else is done about it."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def epoch(self, record: EpochRecord) -> None:
        if record.epoch >= self._epoch:
            raise Stopped


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, its parts, and a graph for link prediction."""
    folder = tmp_path_factory.mktemp("resuming")
    graph = trainable_graph(folder / "g")
    owner = np.random.default_rng(3).choice([0, 1, 2, 4], graph.nodes)
    cut(graph, folder / "five", 5, owner)
    return folder


def tables_of(path: Path, workers: int, *changes: Tables) -> Tables:
    base: Tables = {
        "data": {"path": str(path)},
        "model": {"name": "sage", "hidden": 8, "dropout": 0.25},
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
        "run": {"epochs": EPOCHS, "seed": 3, "checkpoint_every": 1},
        "team": {"workers": workers},
    }
    return merged(base, *changes)


def config_of(path: Path, workers: int, *changes: Tables) -> RunConfig:
    return RunConfig.from_tables(tables_of(path, workers, *changes))


def train(config: RunConfig, run: Path, **how: Any) -> TrainResult:
    """Train as a team of threads."""
    return run_threads(config.team.workers, lambda team: fit(config, run, team=team, scratch=run, **how))[0]


def stop_and_go_on(config: RunConfig, run: Path, stop: int) -> TrainResult:
    with pytest.raises(Stopped):
        train(config, run, watch=StopAt(stop))
    assert not (run / SUMMARY).exists()
    return train(config, run, resume=True)


def assert_same_run(run: Path, result: TrainResult, other: Path, expected: TrainResult) -> None:
    assert result.losses == expected.losses
    assert (result.scores, result.best_epoch, result.epochs) == (expected.scores, expected.best_epoch, expected.epochs)
    for name, value in expected.model.state_dict().items():
        assert torch.equal(result.model.state_dict()[name], value), name
    mine, theirs = (torch.load(folder / MODEL, weights_only=True) for folder in (run, other))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    keys = ("epoch", "loss", "rate", "train", "val", "test")
    lines = [[json.loads(line) for line in (folder / METRICS).read_text().splitlines()] for folder in (run, other)]
    assert [[line.get(key) for key in keys] for line in lines[0]] == [[line.get(key) for key in keys] for line in lines[1]]
    assert (run / EMBEDDINGS).exists() == (other / EMBEDDINGS).exists()
    if (other / EMBEDDINGS).exists():
        assert np.array_equal(np.load(run / EMBEDDINGS / ROWS), np.load(other / EMBEDDINGS / ROWS))


@pytest.mark.parametrize("kind", ONE)
def test_alone(place: Path, tmp_path: Path, kind: str) -> None:
    config = config_of(place / "g", 1, ONE[kind])
    expected = train(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)


@pytest.mark.parametrize(
    ("kind", "workers"), [*((kind, workers) for kind in TEAMS for workers in (2, 4)), ("data", 1), ("average, corrected", 1)]
)
def test_teams(place: Path, tmp_path: Path, kind: str, workers: int) -> None:
    config = config_of(place / "five" / "parts", workers, TEAMS[kind])
    expected = train(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)


@pytest.mark.parametrize(("stop", "every"), [(1, 1), (1, 2), (2, 2), (4, 3), (5, 1)])
def test_wherever_it_was_stopped(place: Path, tmp_path: Path, stop: int, every: int) -> None:
    """Before the first checkpoint, right before one, epochs after one, and in the last epoch."""
    config = config_of(place / "g", 1, MINI, ADAM, {"run": {"checkpoint_every": every}})
    expected = train(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", stop)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)


def test_stopped_again_and_again(place: Path, tmp_path: Path) -> None:
    config = config_of(place / "five" / "parts", 2, DATA, ADAM, ROWS_OF_ALL)
    expected = train(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", watch=StopAt(2))
    for stop in (3, 4):
        with pytest.raises(Stopped):
            train(config, tmp_path / "run", watch=StopAt(stop), resume=True)
    assert_same_run(tmp_path / "run", train(config, tmp_path / "run", resume=True), tmp_path / "whole", expected)


def test_out_of_patience_between_a_checkpoint_and_the_summary(place: Path, tmp_path: Path) -> None:
    """The epoch in which patience ran out is the last one, also for a run that was stopped right after it."""
    patience: Tables = {"run": {"epochs": 60, "patience": 3}, "optimizer": {"lr": 1e-9, "momentum": 0.0}}
    config = config_of(place / "g", 1, patience)
    expected = train(config, tmp_path / "run")
    assert expected.epochs < 60
    (tmp_path / "run" / SUMMARY).unlink()
    assert train(config, tmp_path / "run", resume=True).losses == expected.losses


def test_link_prediction(tmp_path: Path) -> None:
    graph = link_graph(tmp_path / "g")
    links: Tables = {"task": {"name": "link"}, "strategy": {"name": "mini", "batch_size": 32}, "link": {"decoder": "mlp"}}
    config = config_of(graph.path, 1, links, ADAM)
    expected = train(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)


OWN_MODEL = """
import torch

class Noisy(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.weight = torch.nn.Linear(features, classes)

    def forward(self, view, x):
        return torch.nn.functional.dropout(self.weight(x), 0.5, self.training)
"""


def test_what_a_model_draws_itself(place: Path, tmp_path: Path) -> None:
    """Torch's own generator goes on where it was."""
    (tmp_path / "noisy.py").write_text(OWN_MODEL)
    config = RunConfig.from_tables(
        {
            "data": {"path": str(place / "g")},
            "model": {"name": f"{tmp_path / 'noisy.py'}:Noisy"},
            "run": {"epochs": EPOCHS, "checkpoint_every": 1},
        }
    )
    torch.manual_seed(5)
    expected = train(config, tmp_path / "whole")
    torch.manual_seed(5)
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", watch=StopAt(4))
    torch.manual_seed(6)
    assert train(config, tmp_path / "run", resume=True).losses == expected.losses
