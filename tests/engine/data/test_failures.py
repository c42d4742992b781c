"""A worker that fails or is killed in any stage ends the others, with the cause."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from starling.comm.failures import PeerLost
from starling.comm.team import Team
from starling.core.errors import StarlingError
from starling.engine.data.stages import Stages
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.data_work import DataWork
from starling.train.setup import set_up
from tests.engine.data.cases import data_config, on_hosts, uneven_parts
from tests.engine.hybrid.runs import small_graph
from tests.support.ranks import try_ranks

STAGES = ("schedule", "sample", "fetch", "compact", "copy")
SAGE: dict[str, Any] = {"name": "sage", "hidden": 4}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return uneven_parts(graph, tmp_path_factory.mktemp("parts") / "p")


def config_for(parts: Path, workers: int) -> RunConfig:
    return data_config(parts, workers, SAGE, {"batch_size": 5, "fanouts": [3, 2]}, epochs=4)


def with_accident(stages: Stages, stage: str, what: Any) -> Stages:
    """At its sixth item the stage does `what`."""
    work, seen = getattr(stages, stage), iter(range(10**9))

    def sooner_or_later(item: Any) -> Any:
        if next(seen) == 5:
            what()
        return work(item)

    return replace(stages, **{stage: sooner_or_later})


def take_all_steps(team: Team, config: RunConfig, stage: str, what: Any) -> int:
    """Prepare all batches; an accident happens to worker 1."""
    work = set_up(config, team).work
    assert isinstance(work, DataWork)
    if team.rank == 1:
        work.stages = with_accident(work.stages, stage, what)
    with work.prepared(4) as batches:
        return sum(1 for _ in batches)


def fail() -> None:
    raise ValueError("a stone in the gears")


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_in_a_stage_is_the_runs_error(parts: Path, stage: str) -> None:
    """Whoever is told first of it; the worker it happened to says where."""

    def work(team: Team) -> str:
        try:
            take_all_steps(team, config_for(parts, 3), stage, fail)
        except StarlingError as error:
            said.append(str(error))
            raise
        return "done"

    said: list[str] = []
    with pytest.raises(StarlingError):
        on_hosts([0, 1, 2], work)
    assert f"The background stage '{stage}' failed: ValueError: a stone in the gears" in said


def test_a_worker_killed_in_a_stage_is_missed_by_the_others(parts: Path) -> None:
    alive, killed = try_ranks(2, take_all_steps, config_for(parts, 2), "fetch", be_killed, transport="gloo", deadline=120)
    assert killed.exit_code == -signal.SIGKILL
    assert isinstance(alive.error, PeerLost), alive
    assert "Worker 1 closed its connection" in str(alive.error)
