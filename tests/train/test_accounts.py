"""Where an epoch's time went: the parts add up to the epoch, and what is planned behind training is none of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.engine.hybrid.layers.plan import WorkerPlan
from starling.engine.hybrid.planning.steps import TeamStrategy
from starling.train.trainer import fit
from tests.engine.hybrid.runs import Table, config_of, cut, small_graph

GCN = {"name": "gcn", "hidden": 8}
MINI = {"name": "mini", "batch_size": 8}
STRATEGIES: list[Table] = [{"name": "global"}, MINI, {"name": "cluster", "clusters": 5, "clusters_per_step": 2}]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accounts")
    return cut(small_graph(folder / "g"), folder / "cut", 2, np.arange(61) % 2)


def epochs_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy["name"])
def test_the_parts_add_up_to_the_epoch(parts: Path, tmp_path: Path, strategy: Table) -> None:
    config = config_of(parts, 2, GCN, strategy, epochs=3)
    run_threads(2, lambda team: fit(config, tmp_path / "run", team=team))
    for epoch in epochs_of(tmp_path / "run"):
        first = epoch["workers"][0]  # the record's seconds are its own
        kinds = [first[kind] for kind in ("compute", "communication", "waiting", "reducing")]
        assert min(kinds) >= 0
        assert first["compute"] > 0
        assert sum(kinds) <= epoch["seconds"] + 1e-9


def test_what_is_planned_behind_training_is_not_counted(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker waits for nobody, but for what this planning pretends."""
    plan = TeamStrategy.plan

    def slow(self: TeamStrategy, epoch: int, step: int) -> WorkerPlan:
        with self.team.ledger.time("waiting"):
            time.sleep(0.001)
        return plan(self, epoch, step)

    monkeypatch.setattr(TeamStrategy, "plan", slow)
    fit(config_of(parts, 1, GCN, MINI, boundary=0.5), tmp_path / "run")
    assert [epoch["workers"][0]["waiting"] for epoch in epochs_of(tmp_path / "run")] == [0.0, 0.0]
