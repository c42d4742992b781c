"""Sums over vertex-cuts: what leaves before what is made, and the same bits in whatever order messages come."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing.pushed_sum import sum_and_push
from starling.engine.hybrid.computing.team_sum import TeamSum
from starling.engine.hybrid.layers.split_edges import split_edges
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.kernels.spmm import Coefficients
from tests.engine.hybrid.disorder import learn_in_disorder
from tests.engine.hybrid.runs import assert_identical, config_of, learn_together

MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"name": "gcn", "hidden": 8, "layers": 3, "dropout": 0.2},
    "weighted gcn": {"name": "gcn", "hidden": 8, "edge_weights": True},
    "sage": {"name": "sage", "hidden": 24},
}


@pytest.mark.parametrize("strategy", [{"name": "global"}, {"name": "mini", "batch_size": 20}])
@pytest.mark.parametrize("model", MODELS)
def test_neither_the_order_of_arrival_nor_overlap_changes_a_bit(
    parts: dict[str, Path], tmp_path: Path, model: str, strategy: dict[str, Any]
) -> None:
    configs = [config_of(parts["vertex-cut"], 4, MODELS[model], strategy, overlap=overlap) for overlap in (True, False)]
    found = [learn_together(config, tmp_path / str(number)) for number, config in enumerate(configs)]
    found += [learn_in_disorder(configs[0], tmp_path / f"disorder {seed}", seed) for seed in range(2)]
    for other in found[1:]:
        for seen, expected in zip(other, found[0], strict=True):
            assert_identical(seen, expected)


# Nodes 0 and 1 are worker 0's, 2 and 3 worker 1's; both mirror the other's. Each holds the same four edges, (source, destination).
EDGES = [(0, 1), (2, 1), (0, 2), (2, 3)]
MIRRORED = np.array([0, 1])


def share_of(team: Team) -> TeamSum:
    """Rows are own nodes, then mirrors."""
    row_of = [0, 1, 2, 3] if team.rank == 0 else [2, 3, 0, 1]
    pairs = sorted((row_of[destination], row_of[source]) for source, destination in EDGES)
    offsets = np.concatenate([[0], np.cumsum(np.bincount([row for row, _ in pairs], minlength=4))])
    nobody = np.empty(0, np.int64)
    traffic = make_traffic(
        2, [nobody, MIRRORED] if team.rank == 0 else [MIRRORED, nobody], [0, 2] if team.rank == 0 else [2, 0]
    )
    split = split_edges(offsets, np.array([source for _, source in pairs], np.int32), traffic, numbered=False)
    one = np.empty(0, np.float64)
    exchange = TeamExchange(team, traffic, Calls(0), spread=True, outputs=2)
    return TeamSum(exchange, split, Coefficients(one, one, np.full(4, 10.0**team.rank), one))


def test_sums_and_gradients_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are worth 1, 2, 3 and 4; worker 1's edges count ten times, so every sum is eleven times that over one set of edges."""
    events: dict[int, list[str]] = {0: [], 1: []}
    here = threading.local()
    push, take, own_gradient, send = TeamExchange.send_mirrors, TeamSum.take, TeamSum.own_gradient, TeamExchange.send_block

    def noted(real: Any, word: str) -> Any:
        def run(self: Any, *given: Any) -> Any:
            events[here.rank].append(f"{word} {self.split.inner.rows}" if isinstance(self, TeamSum) else word)
            return real(self, *given)

        return run

    monkeypatch.setattr(TeamExchange, "send_mirrors", noted(push, "push"))
    monkeypatch.setattr(TeamSum, "take", noted(take, "take"))
    monkeypatch.setattr(TeamSum, "own_gradient", noted(own_gradient, "back"))
    monkeypatch.setattr(TeamExchange, "send_block", noted(send, "send"))

    def work(team: Team) -> tuple[list[float], list[float]]:
        here.rank = team.rank
        rows = torch.tensor([[1.0], [2.0]] if team.rank == 0 else [[3.0], [4.0]], dtype=torch.float64, requires_grad=True)
        out = sum_and_push(share_of(team), rows)
        (out * torch.tensor([[1.0], [2.0]] if team.rank == 0 else [[3.0], [4.0]])).sum().backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        return out[:, 0].tolist(), rows.grad[:, 0].tolist()

    sums, gradients = zip(*run_threads(2, work), strict=True)
    assert sums == ([0, 11 * (1 + 3)], [11 * 1, 11 * 3])
    assert gradients == ([11 * (2 + 3), 0], [11 * (2 + 4), 0])  # node 0 is read by 1 and 2, node 2 by 1 and 3
    # mirrors' sums leave before what came is added to own ones; others' rows' gradients before own rows' are complete
    for rank in range(2):
        assert events[rank] == ["take 2", "push", "send", "take 2", "back 2", "send", "back 2"]
