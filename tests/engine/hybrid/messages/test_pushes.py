"""Results over a vertex-cut fly to their owners while own rows are computed, and what gradients need flies back likewise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing.view import TeamView
from starling.engine.hybrid.layers import row_groups
from starling.engine.hybrid.layers.plan import listed_layer
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.kernels.adjacency import NO_NUMBERS
from starling.nn.excerpt import Excerpt
from starling.nn.gather import Copy, Gather, Messages, Reduce
from starling.nn.graph import local_graph
from starling.plan.batch import Block


@pytest.fixture(autouse=True)
def groups_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 0)


KINDS: dict[str, tuple[Callable[[], Gather], Reduce]] = {
    "sum": (lambda: Messages(lambda source, _edges, target: source + target), "sum"),
    "max": (Copy, "max"),
    "softmax": (lambda: Messages(lambda source, _edges, target: (source * target, source)), "softmax"),
}


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_push_flies_while_own_rows_are_computed(monkeypatch: pytest.MonkeyPatch, kind: str, overlap: bool) -> None:
    """Two workers own three rows each and mirror the other's last, to which both have in-edges: by hand, who does what when.

    Forward: own rows that read own ones; mirrors, which leave; own rows that read mirrors. Backward the same from the end: what
    mirrors need leaves before own rows' gradients are made, and is waited for after them.
    """
    make, reduce = KINDS[kind]
    offsets, neighbours = torch.tensor([0, 1, 2, 4, 6]), torch.tensor([1, 0, 3, 2, 0, 1])
    events: list[list[str]] = [[], []]

    def layer_of(team: Team) -> TeamView:
        nobody, last, peer = np.empty(0, np.int64), np.array([2]), 1 - team.rank
        traffic = make_traffic(3, [last if other == peer else nobody for other in range(2)], [int(w == peer) for w in range(2)])
        graph = local_graph(offsets, neighbours, 4, outputs=3)
        exchange = TeamExchange(team, traffic, Calls(0), spread=True, outputs=3)
        layer = listed_layer(
            Block(offsets.numpy(), neighbours.numpy().astype(np.int32), NO_NUMBERS, 4), np.arange(4), 3, traffic
        )
        return TeamView(graph, exchange, layer=layer, overlap=overlap)

    send = TeamExchange.send_block

    def send_block(self: TeamExchange, peer: int, block: Tensor, tag: int) -> None:
        events[self.team.rank].append("send")
        send(self, peer, block, tag)

    monkeypatch.setattr(TeamExchange, "send_block", send_block)

    def work(team: Team) -> Tensor:
        mine, told = layer_of(team), events[team.rank]
        rows = (torch.tensor([[1.0], [-2.0], [0.5]]) * (1 + team.rank)).requires_grad_()
        real = mine.reduction(make(), reduce)

        def noted(piece: Excerpt, given: Tensor) -> tuple[Tensor, ...]:
            assert isinstance(piece.rows, slice)
            first = piece.rows.start
            told.append(f"rows {first}:{piece.rows.stop}")
            results = real(piece, given)
            results[0].register_hook(lambda _: told.append(f"back {first}"))  # type: ignore[no-untyped-call]
            return results

        monkeypatch.setattr(mine, "reduction", lambda *_: noted)
        out = mine.aggregate(make(), reduce, rows)
        told.append("done")
        (out * torch.tensor([[1.0], [2.0], [3.0]])).sum().backward()  # type: ignore[no-untyped-call]
        return out.detach()

    found = run_threads(2, work)
    forward = ["rows 0:2", "rows 3:4", "send", "rows 2:3"] if overlap else ["rows 0:2", "rows 3:4", "rows 2:3", "send"]
    for told in events:
        assert told[: told.index("done")] == forward
        assert [event for event in told[told.index("done") :] if event.startswith("back")] == ["back 2", "back 3", "back 0"]
    # row 2 of either hears from here: the mirror and itself; from there, where it is a mirror: rows 0 and 1
    x = [torch.tensor([[1.0], [-2.0], [0.5]]), torch.tensor([[2.0], [-4.0], [1.0]])]
    for rank, out in enumerate(found):
        own, other = x[rank], x[1 - rank]
        sources = torch.cat([other[2:], own[2:], other[:2]])
        if kind == "sum":
            expected = (sources + own[2]).sum()
        elif kind == "max":
            expected = sources.max()
        else:
            expected = ((sources * own[2]).softmax(0) * sources).sum()
        torch.testing.assert_close(out[2, 0], expected)
