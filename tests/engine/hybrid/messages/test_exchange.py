"""Rows between owners and mirrors: values by hand, gradients against finite differences, bytes to the last one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from starling.comm.in_process import run_threads
from starling.comm.tags import CALLS, Channel, describe_tag
from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.row_messages import Wire
from starling.engine.hybrid.messages.traffic import Traffic, make_traffic

EMPTY = np.empty(0, np.int64)

# Three workers own 2, 3 and 1 rows. Worker 0 mirrors rows 0 and 2 of worker 1; worker 1 mirrors row 1 of worker 0 and the row of
# worker 2; worker 2 mirrors row 1 of worker 0 and row 2 of worker 1.
TRAFFIC = [
    make_traffic(2, [EMPTY, np.array([1]), np.array([1])], [0, 2, 0]),
    make_traffic(3, [np.array([0, 2]), EMPTY, np.array([2])], [1, 0, 1]),
    make_traffic(1, [EMPTY, np.array([0]), EMPTY], [1, 1, 0]),
]
OWN = [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]
MIRRORED = [[(1, 0), (1, 2)], [(0, 1), (2, 0)], [(0, 1), (1, 2)]]
"""Whose row each mirror is: (worker, own row)."""


def exchange_of(team: Team, traffic: Traffic, wire: Wire = "float32", outputs: int | None = None) -> TeamExchange:
    return TeamExchange(team, traffic, Calls(0), spread=True, outputs=traffic.owned if outputs is None else outputs, wire=wire)


def column(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_pull_brings_mirrors_their_owners_rows() -> None:
    found = run_threads(3, lambda team: exchange_of(team, TRAFFIC[team.rank]).pull(column(OWN[team.rank]))[:, 0].tolist())
    assert found == [[1, 2, 3, 5], [3, 4, 5, 2, 6], [6, 2, 5]]


def test_pull_of_destinations_alone_leaves_the_others_zero() -> None:
    """Worker 1 computes its first two rows only; its third is mirrored by both others."""

    def work(team: Team) -> tuple[list[float], list[float]]:
        count = 2 if team.rank == 1 else len(OWN[team.rank])
        rows = column(OWN[team.rank][:count]).requires_grad_()
        pulled = exchange_of(team, TRAFFIC[team.rank]).pull(rows)
        pulled.sum().backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        return pulled[:, 0].tolist(), rows.grad[:, 0].tolist()

    pulled, gradient = zip(*run_threads(3, work), strict=True)
    assert pulled == ([1, 2, 3, 0], [3, 4, 0, 2, 6], [6, 2, 0])
    assert gradient == ([1, 3], [2, 1], [2])


def test_push_sum_brings_owners_their_mirrors_shares() -> None:
    """Shares are 1, 10 and 100 by worker: a row's sum tells who gave to it."""

    def work(team: Team) -> list[float]:
        traffic = TRAFFIC[team.rank]
        whole: list[float] = exchange_of(team, traffic).push_sum(torch.full((traffic.rows, 1), 10.0**team.rank))[:, 0].tolist()
        return whole

    assert run_threads(3, work) == [[1, 111], [11, 10, 111], [110]]


def test_push_max_and_who_gets_the_gradient_of_a_tie() -> None:
    """Row 1 of worker 0 has maxima 5 (own), 5 (worker 1), 4 (worker 2): the owner is first. Row 2 of worker 1 has 1, 7, 7."""
    partial = [[0.0, 5.0, -1.0, 7.0], [-2.0, 0.5, 1.0, 5.0, 3.0], [2.0, 4.0, 7.0]]

    def work(team: Team) -> tuple[list[float], list[float]]:
        rows = column(partial[team.rank]).requires_grad_()
        whole = exchange_of(team, TRAFFIC[team.rank]).push_max(rows)
        (gradient,) = torch.autograd.grad(whole, rows, torch.ones_like(whole))
        return whole[:, 0].tolist(), gradient[:, 0].tolist()

    whole, gradient = zip(*run_threads(3, work), strict=True)
    assert whole == ([0, 5], [-1, 0.5, 7], [3])
    assert gradient == ([1, 1, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0])


@pytest.mark.parametrize("wire", ["float32", "bfloat16"])
def test_push_softmax_weighs_by_the_exponents_of_log_sums(wire: Wire) -> None:
    """Row 1 of worker 0: 1 of weight 1 (its own), 5 of weight 2, 9 of weight 1. Row 0 of worker 1 has edges at worker 0 alone."""
    none, log2 = -float("inf"), float(np.log(2))
    partial = [[7.0, 1.0, 4.0, 8.0], [0.0, 3.0, 6.0, 5.0, 2.0], [0.0, 9.0, 0.0]]
    log_sums = [[0.0, 0.0, 3.0, 200.0], [none, 1.0, 200.0, log2, 0.0], [none, 0.0, none]]

    def work(team: Team) -> list[float]:
        exchange = exchange_of(team, TRAFFIC[team.rank], wire)
        rows, logs = (column(values[team.rank]).float() for values in (partial, log_sums))
        whole: list[float] = exchange.push_softmax(rows, logs, 1)[:, 0].tolist()
        return whole

    for found, expected in zip(run_threads(3, work), ([7, (1 + 5 * 2 + 9) / 4], [4, 3, 7], [2]), strict=True):
        assert found == pytest.approx(expected, rel=1e-5 if wire == "float32" else 2e-3)


@pytest.mark.parametrize("size", [1.0, 50.0, 1000.0, 70000.0])
def test_shares_of_a_softmax_add_up_to_one_over_a_narrow_wire(size: float) -> None:
    """The gradients of both workers' sums are their shares: a rounded log-sum would not give the same at both ends."""
    nodes, nobody = 200, np.empty(0, np.int64)

    def work(team: Team) -> Tensor:
        traffic = (
            make_traffic(nodes, [nobody, np.arange(nodes)], [0, 0])
            if team.rank == 0
            else make_traffic(0, [nobody] * 2, [nodes, 0])
        )
        draw = torch.Generator().manual_seed(team.rank)
        rows, log_sums = torch.ones(nodes, 1, requires_grad=True), size + torch.rand(nodes, 1, generator=draw)
        exchange_of(team, traffic, "bfloat16").push_softmax(rows, log_sums, 1).sum().backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        return rows.grad[:, 0]

    shares = run_threads(2, work)
    assert (shares[1] > 0.2).all()
    torch.testing.assert_close(sum(shares), torch.ones(nodes), rtol=1e-7 * size + 1e-6, atol=0)


Operation = Callable[[TeamExchange, Tensor], Tensor]
OPERATIONS: dict[str, Operation] = {
    "pull": lambda exchange, rows: exchange.pull(rows[: exchange.traffic.owned]),
    "push_sum": lambda exchange, rows: exchange.push_sum(rows),
    "push_max": lambda exchange, rows: exchange.push_max(rows),
    "push_softmax": lambda exchange, rows: exchange.push_softmax(rows[:, :1], rows[:, 1:], 1),
    "push_softmax of nodes and edges": lambda exchange, rows: exchange.push_softmax(rows, rows[:, :1] * 2, 1),
    "all_sum": lambda exchange, rows: exchange.all_sum(rows[:1]) * (exchange.team.rank + 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients_are_finite_differences(name: str) -> None:
    """Over all workers together: each number of each worker is moved, and the sum of everybody's weighted outputs watched."""
    draw = torch.Generator().manual_seed(5)
    given = [torch.randn(traffic.rows, 2, dtype=torch.float64, generator=draw) for traffic in TRAFFIC]

    def outcome(team: Team, rows: Tensor) -> Tensor:
        # one destination fewer than own rows at worker 1, as in a batch
        outputs = 2 if team.rank == 1 else None
        out = OPERATIONS[name](exchange_of(team, TRAFFIC[team.rank], outputs=outputs), rows)
        return (out * torch.arange(1.0, out.numel() + 1, dtype=torch.float64).view_as(out).sin()).sum()

    def gradient(team: Team) -> Tensor:
        rows = given[team.rank].clone().requires_grad_()
        outcome(team, rows).backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        return rows.grad

    def total(inputs: list[Tensor]) -> float:
        return sum(run_threads(3, lambda team: float(outcome(team, inputs[team.rank]))))

    step = 1e-6
    for worker, found in enumerate(run_threads(3, gradient)):
        for row in range(len(found)):
            for feature in range(2):
                ends = []
                for move in (step, -step):
                    inputs = [rows.clone() for rows in given]
                    inputs[worker][row, feature] += move
                    ends.append(total(inputs))
                assert float(found[row, feature]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


@pytest.mark.parametrize(("wire", "size"), [("float32", 4), ("bfloat16", 2)])
def test_only_rows_are_sent(wire: Wire, size: int) -> None:
    """rows · width · bytes of a number, in both directions, and not a byte more; the ledger has rows that came, by layer."""
    width = 3

    def work(team: Team) -> tuple[tuple[int, ...], tuple[int, ...], Tensor]:
        traffic = TRAFFIC[team.rank]
        rows = torch.full((traffic.owned, width), 1.0 + team.rank / 4, requires_grad=True)
        pulled = exchange_of(team, traffic, wire).pull(rows)
        forward = team.ledger.close()
        pulled.sum().backward()  # type: ignore[no-untyped-call]
        backward = team.ledger.close()
        assert backward.bytes_to == tuple(traffic.mirror_count(peer) * width * size for peer in range(3))
        return forward.bytes_to, forward.rows_by_layer, pulled.detach()

    for rank, (sent, came, pulled) in enumerate(run_threads(3, work)):
        assert sent == tuple(len(rows) * width * size for rows in TRAFFIC[rank].send)
        assert came == (TRAFFIC[rank].mirrors,)
        for place, (worker, _) in enumerate(MIRRORED[rank]):
            assert pulled[TRAFFIC[rank].owned + place].tolist() == [1.0 + worker / 4] * width  # exact in eight bits too


def test_there_is_no_end_to_what_a_run_may_ask_for_as_it_begins() -> None:
    setup, step = Calls(0, Channel.SETUP, 100), Calls(3)
    tags = [setup.next_tag() for _ in range(3 * CALLS)]
    assert len(set(tags)) == len(tags)
    assert {describe_tag(tag).rpartition(" ")[2] for tag in tags} == {"(setup)"}
    for _ in range(CALLS - 1):
        step.next_tag()
    with pytest.raises(ValueError, match="messages a step"):
        step.next_tag()


def test_only_messages_of_the_forward_pass_are_answered() -> None:
    """The tags of other channels with one bit more are those of yet others."""
    asked = Calls(5).next_tag()
    assert describe_tag(Calls.answer_to(asked)) == "message 1 of step 5 (backward)"
    with pytest.raises(ValueError, match=r"message 1 of step 0 \(setup\)"):
        Calls.answer_to(Calls(0, Channel.SETUP).next_tag())
