"""A worker that fails, is killed or is stopped in any stage ends the others, with the cause."""

from __future__ import annotations

import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from starling.comm.failures import PeerLost, WaitedInVain
from starling.comm.heartbeat import Heartbeat
from starling.comm.phase import Phase
from starling.comm.signs_of_life import Lost
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import InputError, StarlingError
from starling.engine.data.stages import Stages
from starling.launch.reports import Report
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.data_work import DataWork
from starling.train.setup import set_up
from tests.engine.data.cases import data_config, on_hosts, uneven_parts
from tests.engine.hybrid.runs import small_graph
from tests.support.ranks import meeting, try_ranks

STAGES = ("schedule", "sample", "fetch", "compact", "copy")
GAVE_UP = 7
"""The exit status of a worker that missed another's signs of life."""
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


def take_all_steps(team: Team, config: RunConfig, stage: str, what: Any, unlucky: int = 1) -> int:
    """Prepare all batches and share a number after each, as training does; an accident happens to one worker."""
    work = set_up(config, team).work
    assert isinstance(work, DataWork)
    if team.rank == unlucky:
        work.stages = with_accident(work.stages, stage, what)
    steps = 0
    with work.prepared(4) as batches:
        for _ in batches:
            team.all_sum(make_tag(Channel.GRADIENTS, steps, 0), torch.ones(1))
            steps += 1
    return steps


def fail() -> None:
    raise ValueError("a stone in the gears")


def mistake() -> None:
    raise InputError("Expected a gear, got a stone.")


def lose() -> None:
    raise PeerLost(0, make_tag(Channel.SAMPLE, 3, 0))


def wait_in_vain() -> None:
    raise WaitedInVain(2, make_tag(Channel.FETCH, 3, 0), 30.0)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def said_by_the_unlucky(parts: Path, stage: str, what: Any) -> StarlingError:
    """The error of the one worker of three that has the accident; the run ends with some error."""

    def work(team: Team) -> str:
        try:
            take_all_steps(team, config_for(parts, 3), stage, what)
        except StarlingError as error:
            if team.rank == 1:
                said.append(error)
            raise
        return "done"

    said: list[StarlingError] = []
    with pytest.raises(StarlingError):
        on_hosts([0, 1, 2], work)
    (error,) = said
    return error


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_in_a_stage_is_the_runs_error(parts: Path, stage: str) -> None:
    """Whoever is told first of it; the worker it happened to says where."""
    error = said_by_the_unlucky(parts, stage, fail)
    assert str(error) == f"The background stage '{stage}' failed: ValueError: a stone in the gears"


@pytest.mark.parametrize(
    ("stage", "what", "kind", "status", "sentence"),
    [
        *((stage, mistake, InputError, 2, "Expected a gear, got a stone.") for stage in STAGES),
        ("sample", lose, PeerLost, 1, "Worker 0 closed its connection before"),
        ("fetch", wait_in_vain, WaitedInVain, 1, "Waited 30 s in vain for"),
    ],
)
def test_errors_of_our_own_say_in_which_stage(
    parts: Path, stage: str, what: Any, kind: type[StarlingError], status: int, sentence: str
) -> None:
    """Their type, sentence and exit status stay, also in the report that goes to the launcher and from process to process."""
    error = said_by_the_unlucky(parts, stage, what)
    assert type(error) is kind
    assert error.exit_status == status
    assert str(error).startswith(sentence)
    assert str(error).endswith(f" This was in the background stage '{stage}'.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    told = Report.of(error, 1, Phase()).error(3)
    assert told.exit_status == status
    assert str(told).endswith(f"This was in the background stage '{stage}'.")


def take_all_steps_alive(team: Team, config: RunConfig, stage: str, what: Any, said: Path) -> int:
    """The same with signs of life: worker 0 leaves when it misses those of worker 1, and says why."""

    def leave(lost: Lost) -> None:
        said.write_text(str(lost))
        lost.kill()
        os._exit(GAVE_UP)

    store = meeting(team)  # it is served for as long as it is held
    with Heartbeat(store, team.rank, team.size, team.phase, deadline=1.0, on_lost=leave):
        return take_all_steps(team, config, stage, what)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("number", "stage"), list(enumerate(STAGES)))
def test_a_worker_killed_in_a_stage_is_missed_by_the_others(parts: Path, number: int, stage: str, workers: int) -> None:
    """All others end; of several, some may first miss one that has ended for the same reason."""
    transport: Any = "gloo" if stage in ("sample", "fetch") else "auto"
    unlucky = number % workers
    accident = (config_for(parts, workers), stage, be_killed, unlucky)
    ended = try_ranks(workers, take_all_steps, *accident, transport=transport, deadline=120)
    killed, alive = ended[unlucky], [end for rank, end in enumerate(ended) if rank != unlucky]
    assert killed.exit_code == -signal.SIGKILL, ended
    assert all(isinstance(end.error, PeerLost) for end in alive), ended
    assert any(f"Worker {unlucky} closed its connection" in str(end.error) for end in alive), ended


@pytest.mark.parametrize(("stage", "transport"), [("sample", "gloo"), ("compact", "auto")])
def test_a_worker_stopped_in_a_stage_is_given_up(parts: Path, tmp_path: Path, stage: str, transport: Any) -> None:
    accident = (config_for(parts, 2), stage, be_stopped, tmp_path / "said")
    alive, stopped = try_ranks(2, take_all_steps_alive, *accident, transport=transport, deadline=120)
    assert stopped.exit_code == -signal.SIGKILL, (alive, stopped)  # else it would stay for ever
    assert alive.exit_code == GAVE_UP, alive
    assert (tmp_path / "said").read_text().startswith("Worker 1 is stopped (SIGSTOP, or a debugger)")
