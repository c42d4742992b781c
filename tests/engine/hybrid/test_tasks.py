"""Weighted losses and metrics of a team: those of one process, for every kind of labels, however these are spread."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.train.config import RunConfig
from starling.train.metrics import METRICS
from starling.train.results import Scores
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.trainable import Kind, trainable_graph

KINDS: dict[str, Kind] = {"classification": "single", "multilabel": "multi", "regression": "real"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((task, {"metric": metric}) for task, known in METRICS.items() for metric in known),
    ("classification", {"metric": "macro-f1", "class_weights": "balanced"}),
    ("classification", {"metric": "accuracy", "class_weights": (0.5, 2.0, 1.0)}),
]


def learnt(team: Team, config: RunConfig, run: Path) -> tuple[tuple[float, ...], Scores]:
    result = fit(config, run, team=team)
    return result.losses, result.scores


def config_for(path: Path, workers: int, task: dict[str, Any], strategy: dict[str, Any]) -> RunConfig:
    return RunConfig.from_tables(
        {
            "data": {"path": path},
            "model": {"name": "sage", "hidden": 8},
            "strategy": strategy,
            "task": task,
            "optimizer": {"name": "sgd", "lr": 0.1},
            "run": {"epochs": 3, "seed": 2, "evaluate_every": 1},
            "team": {"workers": workers},
        }
    )


@pytest.mark.parametrize("strategy", [{"name": "global"}, {"name": "mini", "batch_size": 16}], ids=["global", "mini"])
@pytest.mark.parametrize(("task", "settings"), CASES, ids=str)
def test_as_in_one_process(tmp_path: Path, task: str, settings: dict[str, Any], strategy: dict[str, Any]) -> None:
    """Part 1 has no training nodes, part 2 nothing but, part 3 no nodes at all; labels of class 2 lie with one part alone."""
    graph = trainable_graph(tmp_path / "g", kind=KINDS[task], classes=3)
    train, y = np.asarray(graph.node_table("train")), np.asarray(graph.node_table("y"))
    owner = np.where(train, np.where(np.arange(60) % 3 > 0, 2, 0), 1)
    if task == "classification":
        owner[(y == 2) & train] = 2
    parts = cut(graph, tmp_path / "cut", 4, owner)
    (losses, scores), *_ = run_threads(
        1, partial(learnt, config=config_for(graph.path, 1, settings, strategy), run=tmp_path / "1")
    )
    assert scores.test is not None
    for workers in (2, 4):
        config = config_for(parts, workers, settings, strategy)
        for told, found in run_threads(workers, partial(learnt, config=config, run=tmp_path / f"{workers}")):
            np.testing.assert_allclose(told, losses, rtol=1e-4)
            for name in ("train", "val", "test"):
                assert getattr(found, name) == pytest.approx(getattr(scores, name), rel=1e-4)
