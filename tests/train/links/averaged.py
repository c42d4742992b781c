"""Runs of link prediction that average models, by teams of threads, and graphs for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.results import TrainResult
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.train.links.link_graphs import grouped_pairs, link_graph

Tables = dict[str, dict[str, Any]]
NODES, EDGES, AGAIN, PARTS = 60, 138, 12, 5
"""The last pairs are the first ones again, with times of their own."""
EMPTY, LONELY = 1, 3
"""A part without nodes, and one whose nodes have no training edges where a split is given."""


def owners() -> NDArray[np.int64]:
    """Unequal parts, of which one is empty and one has three nodes."""
    owner = np.random.default_rng(5).choice([0, 2, 4], NODES, p=[0.5, 0.25, 0.25])
    owner[[7, 8, 9]] = LONELY
    return owner


def again(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values, values[:AGAIN]])


def edge_tables(*, directed: bool) -> dict[str, NDArray[Any]]:
    """Types, times of which many are the same, and a split in which edges at nodes of one part never train."""
    draw, pairs = np.random.default_rng(3), grouped_pairs(NODES, EDGES, 4)
    split = draw.choice([0, 1, 2], EDGES, p=[0.7, 0.15, 0.15])
    split[np.isin(owners()[pairs], [LONELY]).any(axis=1)] = 2
    tables = {"split": again(split.astype(np.uint8)), "time": draw.integers(0, 40, EDGES + AGAIN).astype(np.float64)}
    if directed:
        tables["type"] = again(draw.integers(0, 3, EDGES).astype(np.uint8))
        return tables
    tables["weight"] = again(draw.random(EDGES).astype(np.float32) + 0.5)
    return {name: np.repeat(values, 2) for name, values in tables.items()}


def link_places(folder: Path) -> dict[str, tuple[Graph, Path, Path]]:
    """An undirected graph and a directed one with types; each in five parts, and in one."""
    found = {}
    for name, directed in (("undirected", False), ("typed", True)):
        pairs = again(grouped_pairs(NODES, EDGES, 4))
        graph = link_graph(folder / name, directed=directed, pairs=pairs, edge_tables=edge_tables(directed=directed))
        five = cut(graph, folder / f"{name}-five", PARTS, owners(), halo_hops=2 if directed else 1)
        found[name] = graph, five, cut(graph, folder / f"{name}-one", 1, np.zeros(NODES, np.int64))
    return found


def config_of(path: Path, workers: int, *changes: Tables) -> RunConfig:
    base: Tables = {
        "data": {"path": str(path)},
        "model": {"name": "sage", "hidden": 8, "dropout": 0.25},
        "strategy": {"name": "mini", "batch_size": 20},
        "task": {"name": "link"},
        "link": {"split_edges": "80/10/10"},
        "optimizer": {"lr": 0.05},
        "run": {"epochs": 3, "seed": 3, "evaluate_every": 3},
        "team": {"workers": workers, "parallel": "data"},
        "sync": {"name": "average"},
    }
    return RunConfig.from_tables(merged(base, *changes))


def train(config: RunConfig, run: Path) -> list[TrainResult]:
    """What every worker of a team of threads learns."""
    return run_threads(config.team.workers, lambda team: fit(config, run, team=team))
