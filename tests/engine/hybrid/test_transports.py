"""Invariant 3: neither overlap nor the transport changes a bit; half as wide messages change little. Real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.outputs import outputs_of
from starling.train.setup import set_up
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, cut, learn, learn_together, small_graph
from tests.support.ranks import Transport, run_ranks

GCN: dict[str, Any] = {"name": "gcn", "hidden": 6, "norm": "batch", "dropout": 0.3}
GAT: dict[str, Any] = {"name": "gat", "hidden": 6, "heads": 2}
SAGE: dict[str, Any] = {"name": "sage", "hidden": 6}
MINI: dict[str, Any] = {"name": "mini", "batch_size": 15}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    draw, folder = np.random.default_rng(9), tmp_path_factory.mktemp("cut")
    owner, edge_part = draw.integers(0, 4, graph.manifest.nodes), draw.integers(0, 4, graph.manifest.edges)
    return {
        "edge-cut": cut(graph, folder / "edge", 4, owner),
        "vertex-cut": cut(graph, folder / "vertex", 4, owner, edge_part),
    }


OVERLAP: list[tuple[dict[str, Any], dict[str, Any] | None, float, str]] = [
    (GCN, None, 1.0, "edge-cut"),
    (SAGE, MINI, 1.0, "edge-cut"),
    (GCN, None, 0.5, "edge-cut"),
    (GCN, None, 1.0, "vertex-cut"),
    (SAGE, MINI, 1.0, "vertex-cut"),
]


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("model", "strategy", "boundary", "kind"), OVERLAP)
def test_overlap_changes_no_bit(
    parts: dict[str, Path],
    tmp_path: Path,
    model: dict[str, Any],
    strategy: dict[str, Any] | None,
    boundary: float,
    kind: str,
    workers: int,
) -> None:
    found = [
        learn_together(
            config_of(parts[kind], workers, model, strategy, boundary=boundary, overlap=overlap), tmp_path / f"{overlap}"
        )
        for overlap in (True, False)
    ]
    for with_overlap, without in zip(*found, strict=True):
        assert_identical(with_overlap, without)


@pytest.mark.parametrize(("model", "log_sums"), [(SAGE, 0), (GAT, 2 + 1)])
def test_half_as_wide_messages(parts: dict[str, Path], tmp_path: Path, model: dict[str, Any], log_sums: int) -> None:
    """Half the bytes forwards and backwards, and a loss that is near but not the same.

    Log-sums of attention, one a head and layer, keep their 4 bytes: each mirror sends them, and gets them back.
    """
    wide, narrow = (config_of(parts["vertex-cut"], 4, model, wire=wire, reuse=False) for wire in ("float32", "bfloat16"))
    (whole, mirrors), (half, _) = (
        np.sum(run_threads(4, lambda team, config=config: bytes_of_a_step(team, config)), axis=0) for config in (wide, narrow)
    )
    assert 2 * half == whole + 2 * 4 * mirrors * log_sums
    exact, near = (learn_together(config, tmp_path / config.team.wire)[0].losses for config in (wide, narrow))
    assert not np.array_equal(exact, near)
    np.testing.assert_allclose(near, exact, rtol=0.02)


def bytes_of_a_step(team: Team, config: RunConfig) -> tuple[int, int]:
    """Bytes sent, and the rows of others that are mirrored here."""
    setup = set_up(config, team)
    (batch,) = setup.work.batches(1)
    team.ledger.close()
    outputs_of(setup.model, batch).sum().backward()  # type: ignore[no-untyped-call]
    exchange = batch.views[0].exchange
    assert isinstance(exchange, TeamExchange)
    return sum(team.ledger.close().bytes_to), exchange.traffic.mirrors


@pytest.mark.parametrize(("ranks", "kind", "model", "strategy"), [(2, "edge-cut", GCN, MINI), (4, "vertex-cut", GAT, None)])
def test_every_transport_gives_the_same_bits(
    graph: Graph,
    parts: dict[str, Path],
    tmp_path: Path,
    ranks: int,
    kind: str,
    model: dict[str, Any],
    strategy: dict[str, Any] | None,
) -> None:
    config = config_of(parts[kind], ranks, model, strategy)
    ways: tuple[Transport, ...] = ("auto", "gloo")
    found: dict[str, list[Learnt]] = {
        way: run_ranks(ranks, learn, config, tmp_path / way, transport=way, deadline=120.0) for way in ways
    }
    for way in ways:
        for rank in range(ranks):
            assert_identical(found[way][rank], found["auto"][0])
    (alone,) = learn_together(config_of(graph.path, 1, model, strategy), tmp_path / "alone")
    assert_same(found["auto"][0], alone)
