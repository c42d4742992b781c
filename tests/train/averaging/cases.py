"""Runs that average models, by teams of threads, and when two of them are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from starling.comm.in_process import run_threads
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.results import TrainResult
from starling.train.trainer import fit

Tables = dict[str, dict[str, Any]]
PARTS = 5
ONE_PROCESS: Tables = {"team": {"parallel": "hybrid"}, "sync": {"name": "gradient"}}


def tables(path: Path, *changes: Tables) -> Tables:
    base: Tables = {
        "data": {"path": str(path)},
        "model": {"name": "sage", "hidden": 8, "dropout": 0.25},
        "strategy": {"name": "mini", "batch_size": 8, "fanouts": "3,2"},
        "optimizer": {"lr": 0.05},
        "run": {"epochs": 4, "seed": 3, "evaluate_every": 4},
        "team": {"parallel": "data"},
        "sync": {"name": "average"},
    }
    return merged(base, *changes)


def train(path: Path, run: Path, workers: int, *changes: Tables) -> list[TrainResult]:
    """What every worker of a team of threads learns."""
    config = RunConfig.from_tables(tables(path, *changes, {"team": {"workers": workers}}))
    return run_threads(workers, lambda team: fit(config, run, team=team))


def weights(result: TrainResult) -> dict[str, torch.Tensor]:
    return result.model.state_dict()


def assert_identical(found: TrainResult, expected: TrainResult) -> None:
    assert found.losses == expected.losses
    assert found.scores == expected.scores
    for name, value in weights(expected).items():
        assert torch.equal(weights(found)[name], value), name


def fit_as(config: RunConfig, run: Path, team: Any) -> TrainResult:
    return fit(config, run, team=team)
