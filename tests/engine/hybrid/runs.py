"""Trainings of a few nodes by teams of threads, and what they came to: losses, weights, gradients."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.artifact import MANIFEST
from starling.core.assignment import Assignment
from starling.engine.hybrid.share.worker_graph import parts_of_worker
from starling.store.graph import Graph
from starling.store.parts_manifest import PartsManifest
from starling.store.shard_layout import shard_name
from starling.store.shards import build_parts
from starling.train.config import RunConfig
from starling.train.outputs import outputs_of
from starling.train.setup import set_up
from starling.train.trainer import fit
from tests.support.graphs import write_assignment
from tests.support.trainable import trainable_graph

Table = dict[str, Any]


@dataclass(frozen=True)
class Learnt:
    """What one worker knows at the end. The graphs here have no validation nodes, so that the last weights are kept."""

    losses: NDArray[np.float64]
    weights: dict[str, NDArray[Any]]
    test: float
    bytes_sent: int


def small_graph(
    path: Path, *, nodes: int = 61, edges: int = 260, without_x: bool = False, times: bool = False, **tables: NDArray[Any]
) -> Graph:
    """A graph with every table that a model may read, or all but features; edges of seven `times`, if asked for."""
    draw = np.random.default_rng(4)
    edge_tables = {
        "weight": draw.random(edges).astype(np.float32) + 0.5,
        "attr": draw.random((edges, 2)).astype(np.float32),
        "type": draw.integers(0, 3, edges).astype(np.uint8),  # as imports store it
    }
    if times:
        edge_tables["time"] = np.arange(edges) % 7
    without = ("val", "x") if without_x else ("val",)
    return trainable_graph(path, nodes=nodes, edges=edges, edge_tables=edge_tables, without=without, **tables)


def cut(
    graph: Graph,
    folder: Path,
    parts: int,
    owner: NDArray[Any],
    edge_part: NDArray[Any] | None = None,
    halo_hops: int = 1,
    locality: NDArray[Any] | None = None,
) -> Path:
    """A parts directory out of given owners; a vertex-cut if edges have parts too."""
    kind: Any = "edge-cut" if edge_part is None else "vertex-cut"
    spread = None if edge_part is None else edge_part.astype(np.uint16)
    assignment = Assignment(kind, parts, owner.astype(np.int32), spread, locality)
    (folder / "parts").mkdir(parents=True)
    assigned = write_assignment(folder / "assignment", assignment, graph.manifest.edges)
    build_parts(graph, assigned, folder / "parts", halo_hops=halo_hops)
    return folder / "parts"


def own_copy(parts: Path, machine: Path, here: Iterable[int], workers: int) -> Path:
    """What one machine has: the manifest and the shards of its own workers."""
    machine.mkdir(parents=True)
    shutil.copy(parts / MANIFEST, machine)
    for worker in here:
        for part in parts_of_worker(worker, workers, PartsManifest.read(parts).parts):
            shutil.copytree(parts / shard_name(part), machine / shard_name(part))
    return machine


def unequal_parts(graph: Graph, folder: Path) -> dict[str, Path]:
    """Five unequal parts: one empty, one of a single node; as an edge-cut and as a vertex-cut."""
    draw = np.random.default_rng(5)
    owner = draw.choice([0, 2, 4], graph.nodes, p=[0.6, 0.2, 0.2])
    owner[7] = 3
    edge_part = draw.choice([0, 2, 3, 4], graph.manifest.edges)
    return {
        "edge-cut": cut(graph, folder / "edge", 5, owner),
        "vertex-cut": cut(graph, folder / "vertex", 5, owner, edge_part),
    }


def config_of(
    path: Path, workers: int, model: Table, strategy: Table | None = None, *, epochs: int = 2, **team: Any
) -> RunConfig:
    """A short run. Plain gradient descent, since Adam would blow up the rounding of gradients that are zero."""
    return RunConfig.from_tables(
        {
            "data": {"path": path},
            "model": model,
            "strategy": strategy or {"name": "global"},
            "optimizer": {"name": "sgd", "lr": 0.2},
            "run": {"epochs": epochs, "seed": 3, "evaluate_every": epochs, "reuse": team.pop("reuse", True)},
            "team": {"workers": workers, **team},
        }
    )


def learn(team: Team, config: RunConfig, run: Path) -> Learnt:
    """Train as one worker."""
    result = fit(config, run, team=team)
    weights = {name: value.cpu().numpy() for name, value in result.model.state_dict().items()}
    return Learnt(np.array(result.losses), weights, result.scores.test or 0.0, result.bytes_sent_per_epoch)


def learn_together(config: RunConfig, run: Path) -> list[Learnt]:
    """Train as a team of threads; what every worker saw."""
    return run_threads(config.team.workers, lambda team: learn(team, config, run))


def steps_of(team: Team, config: RunConfig) -> NDArray[np.float32]:
    """Loss and gradients of each step of the first epoch, weights unmoved: [steps, 1 + weights], the team's sums."""
    setup = set_up(config, team)
    found = []
    for number, batch in enumerate(setup.work.batches(1)):
        setup.model.zero_grad()
        loss = setup.task.loss(outputs_of(setup.model, batch)[batch.outputs], batch.y, batch.weight)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in setup.model.parameters()]
        flat = torch.cat([loss.detach().reshape(1), *(gradient.reshape(-1) for gradient in gradients)])
        found.append(team.all_sum(make_tag(Channel.GRADIENTS, number, 0), flat).cpu().numpy())
    return np.stack(found)


def steps(config: RunConfig) -> NDArray[np.float32]:
    """`steps_of` a team of threads."""
    everywhere = run_threads(config.team.workers, lambda team: steps_of(team, config))
    for seen in everywhere:
        np.testing.assert_array_equal(seen, everywhere[0])
    return everywhere[0]


def assert_same(found: Learnt, expected: Learnt) -> None:
    """Equal to float32 rounding."""
    np.testing.assert_allclose(found.losses, expected.losses, rtol=2e-4, atol=2e-5)
    assert found.weights.keys() == expected.weights.keys()
    for name, value in expected.weights.items():
        np.testing.assert_allclose(found.weights[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def assert_identical(found: Learnt, expected: Learnt) -> None:
    """Equal bit for bit."""
    np.testing.assert_array_equal(found.losses, expected.losses)
    for name, value in expected.weights.items():
        np.testing.assert_array_equal(found.weights[name], value, err_msg=name)
