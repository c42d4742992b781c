"""Partitioned graphs of a few nodes, and teams that train on them by data parallelism."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.data.stages import Stages
from starling.store.graph import Graph
from starling.train.config import RunConfig
from tests.engine.hybrid.runs import Learnt, config_of, cut, learn, own_copy

Result = TypeVar("Result")


def uneven_owner(nodes: int, seed: int = 5) -> NDArray[Any]:
    """Owners out of five parts: one is empty, one has a single node."""
    owner = np.random.default_rng(seed).choice([0, 2, 4], nodes, p=[0.6, 0.2, 0.2])
    owner[7] = 3
    return owner


def uneven_parts(graph: Graph, folder: Path) -> Path:
    """Five unequal parts."""
    return cut(graph, folder, 5, uneven_owner(graph.nodes))


def data_config(path: Path, workers: int, model: dict[str, Any], strategy: dict[str, Any], **team: Any) -> RunConfig:
    """A short data-parallel run; `pipeline` are settings of its pipeline."""
    pipeline = team.pop("pipeline", {})
    config = config_of(path, workers, model, {"name": "mini", **strategy}, parallel="data", **team)
    return RunConfig.from_tables({**config.to_tables(), "pipeline": {**config.to_tables()["pipeline"], **pipeline}})


def on_hosts(hosts: list[int], work: Callable[[Team], Result]) -> list[Result]:
    """Run a team of threads whose workers sit on these hosts: those of one host read one another's shards."""

    def placed(team: Team) -> Result:
        same = {worker for worker, host in enumerate(hosts) if host == hosts[team.rank]}
        team.near = frozenset(same - {team.rank})
        return work(team)

    return run_threads(len(hosts), placed)


def machines(parts: Path, folder: Path, hosts: list[int]) -> list[Path]:
    """For each rank what its machine has: a directory a host, with the shards of that host's ranks and nothing else."""
    ranks = {host: [rank for rank, at in enumerate(hosts) if at == host] for host in hosts}
    copies = {host: own_copy(parts, folder / f"host-{host}", here, len(hosts)) for host, here in ranks.items()}
    return [copies[host] for host in hosts]


def learn_on_hosts(config: RunConfig, run: Path, hosts: list[int]) -> list[Learnt]:
    """What every worker of a team has learnt."""
    return on_hosts(hosts, lambda team: learn(team, config, run))


def stage_threads() -> list[str]:
    """Threads of pipelines that are alive."""
    names = {f"starling-{stage.name}" for stage in fields(Stages)}
    return [thread.name for thread in threading.enumerate() if thread.name in names]
