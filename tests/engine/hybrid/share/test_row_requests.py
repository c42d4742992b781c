"""Rows of any nodes reach whoever asks, and gradients their owners."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.share.row_requests import find_addresses, request_rows
from starling.engine.hybrid.share.worker_graph import open_worker_graph
from starling.store.parts import open_parts
from tests.engine.hybrid.runs import cut, small_graph

NODES = 40


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("all_own", [False, True])
def test_rows_and_gradients(workers: int, all_own: bool, tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g", nodes=NODES, edges=100)
    owner = np.random.default_rng(1).choice([0, 1, 3], NODES)  # part 2 is empty
    parts = cut(graph, tmp_path / "cut", 4, owner)
    rows = np.random.default_rng(2).normal(size=(NODES, 3)).astype(np.float32)  # by position

    def work(team: Team) -> tuple[np.ndarray, np.ndarray]:
        mine = open_worker_graph(open_parts(parts), team.rank, team.size)
        calls = Calls(0, Channel.SETUP)
        addresses = find_addresses(mine, team, calls.next_tag())
        np.testing.assert_array_equal(addresses.own_rows(mine.position[: mine.owned]), np.arange(mine.owned))
        wanted = np.random.default_rng(team.rank).integers(0, NODES, 25 if team.rank else 0)
        asked = request_rows(addresses, team, calls.next_tag(), wanted, all_own=mine.owned if all_own else None)
        own = mine.position[: mine.owned][asked.own]
        given = torch.from_numpy(rows[own]).requires_grad_()
        found = TeamExchange(team, asked.traffic, Calls(1)).pull(given)[torch.from_numpy(asked.place)]
        np.testing.assert_array_equal(found.detach().numpy(), rows[wanted])
        (found.sum() + 0 * given.sum()).backward()
        gradient = np.zeros((NODES, 3), np.float32)
        gradient[own] = given.grad
        return wanted, gradient

    everybodys = run_threads(workers, work)
    asked_for = np.bincount(np.concatenate([wanted for wanted, _ in everybodys]).astype(np.int64), minlength=NODES)
    np.testing.assert_array_equal(sum(gradient for _, gradient in everybodys), np.repeat(asked_for[:, None], 3, 1))
