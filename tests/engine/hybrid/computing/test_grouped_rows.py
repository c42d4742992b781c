"""Rows computed group by group, each when its last message has come: the same numbers as with whole layers."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing import view
from starling.engine.hybrid.computing.grouped_rows import compute_by_groups
from starling.engine.hybrid.computing.view import TeamView
from starling.engine.hybrid.layers import row_groups
from starling.engine.hybrid.layers.plan import listed_layer
from starling.engine.hybrid.layers.row_groups import RowGroup
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.engine.hybrid.messages.traffic import make_traffic
from starling.kernels.adjacency import NO_NUMBERS
from starling.nn.excerpt import Excerpt
from starling.nn.gather import Copy, Gather, Messages, Reduce
from starling.nn.graph import local_graph
from starling.nn.row_work import Node, RowWork
from starling.plan.batch import Block
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.setup import set_up
from tests.comm.test_shared_memory import held, linked_pair
from tests.engine.hybrid.disorder import learn_in_disorder
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same, config_of, learn, learn_together, steps

MODELS: dict[str, dict[str, Any]] = {
    "gat": {"name": "gat", "hidden": 8, "heads": 2, "attention_dropout": 0.3, "dropout": 0.2, "layers": 3},
    "gatv2": {"name": "gatv2", "hidden": 8, "heads": 2, "attention_dropout": 0.3, "norm": "layer", "jump": "max"},
    "gate": {"name": "gate", "hidden": 8, "heads": 2, "residual": True},
    "rgcn": {"name": "rgcn", "hidden": 8, "bases": 2},
    "rgat": {"name": "rgat", "hidden": 8, "heads": 2, "attention_dropout": 0.3},
    "rgat within": {"name": "rgat", "hidden": 8, "heads": 2, "softmax": "within"},
    "sage max": {"name": "sage", "hidden": 8, "aggregate": "max", "dropout": 0.2, "inner": 1},
    "sage lstm": {"name": "sage", "hidden": 8, "aggregate": "lstm"},
    "sage by relation": {"name": "sage", "hidden": 8, "relational": True, "dropout": 0.2},
    "gcn by relation": {"name": "gcn", "hidden": 8, "relational": True},
    "weighted gcn by relation": {"name": "gcn", "hidden": 8, "relational": True, "edge_weights": True},
    "gat by relation": {"name": "gat", "hidden": 8, "heads": 2, "relational": True, "attention_dropout": 0.2},
    "pyg": {"name": "pyg:SAGEConv", "hidden": 8},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "global": {"name": "global"},
    "sampled": {"name": "mini", "batch_size": 20, "fanouts": [3, 2, 2]},
    "whole lists": {"name": "mini", "batch_size": 30},
    "cluster": {"name": "cluster", "clusters": 5, "clusters_per_step": 2, "boundary_hops": 1},
}
CASES = [
    (model, strategy, kind, workers)
    for model in MODELS
    for strategy in STRATEGIES
    for kind in ("edge-cut", "vertex-cut")
    for workers in ((2, 4) if strategy == "global" else (4,))
]


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Groups of any size, worth it or not; gives how many groups each layer was computed in."""
    counts: list[int] = []
    monkeypatch.setattr(row_groups, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 0)

    def counting(compute: Callable[..., Any]) -> Callable[..., Any]:
        def counted(exchange: TeamExchange, groups: tuple[RowGroup, ...], *given: Any, **more: Any) -> Any:
            counts.append(len(groups))
            return compute(exchange, groups, *given, **more)

        return counted

    monkeypatch.setattr(view, "compute_by_groups", counting(view.compute_by_groups))
    monkeypatch.setattr(view, "compute_and_push", counting(view.compute_and_push))
    return counts


def strategy_of(name: str, model: dict[str, Any]) -> dict[str, Any]:
    how = STRATEGIES[name]
    return {**how, "fanouts": how["fanouts"][: model.get("layers", 2)]} if "fanouts" in how else how


@pytest.fixture(scope="module")
def alone(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Learnt]:
    """What one process learns, once for each model and strategy."""

    @cache
    def learnt(model: str, strategy: str) -> Learnt:
        config = config_of(graph.path, 1, MODELS[model], strategy_of(strategy, MODELS[model]))
        return learn_together(config, tmp_path_factory.mktemp("alone") / "run")[0]

    return learnt


@pytest.mark.parametrize(("model", "strategy", "kind", "workers"), CASES)
def test_groups_learn_what_one_process_learns(
    alone: Callable[[str, str], Learnt],
    parts: dict[str, Path],
    tmp_path: Path,
    counted: list[int],
    model: str,
    strategy: str,
    kind: str,
    workers: int,
) -> None:
    if model == "pyg":
        pytest.importorskip("torch_geometric")
    expected = alone(model, strategy)
    assert not counted
    config = config_of(parts[kind], workers, MODELS[model], strategy_of(strategy, MODELS[model]))
    for seen in learn_together(config, tmp_path / "team"):
        assert_same(seen, expected)
    assert max(counted) > 1


@pytest.mark.parametrize(("boundary", "kind"), [(1.0, "edge-cut"), (0.5, "edge-cut"), (1.0, "vertex-cut")])
@pytest.mark.parametrize("model", ["gat", "gatv2", "sage max", "rgcn"])
def test_neither_the_order_of_arrival_nor_overlap_changes_a_bit(
    parts: dict[str, Path], tmp_path: Path, counted: list[int], model: str, kind: str, boundary: float
) -> None:
    configs = [config_of(parts[kind], 4, MODELS[model], boundary=boundary, overlap=overlap) for overlap in (True, False)]
    found = [learn_together(config, tmp_path / str(number)) for number, config in enumerate(configs)]
    found += [learn_in_disorder(configs[0], tmp_path / f"disorder {seed}", seed) for seed in range(2)]
    for other in found[1:]:
        for seen, expected in zip(other, found[0], strict=True):
            assert_identical(seen, expected)
    assert max(counted) > 1


@pytest.mark.parametrize("model", ["gat", "gate", "sage lstm", "sage by relation"])
def test_groups_have_the_gradients_of_whole_layers(
    parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, counted: list[int], model: str
) -> None:
    config = config_of(parts["edge-cut"], 4, MODELS[model])
    by_groups = steps(config)
    assert counted
    monkeypatch.setattr(row_groups, "LEAST_EARLY", 2.0)
    counted.clear()
    np.testing.assert_allclose(by_groups, steps(config), rtol=1e-4, atol=1e-6)
    assert not counted


@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
@pytest.mark.parametrize("model", ["gat", "gatv2", "sage max"])
def test_some_workers_compute_by_groups_and_some_do_not(
    alone: Callable[[str, str], Learnt],
    parts: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    counted: list[int],
    model: str,
    kind: str,
) -> None:
    """What pays is decided by each worker for itself."""
    real = view.TeamView.groups

    def of_even_ranks(self: view.TeamView, rows: Tensor) -> tuple[RowGroup, ...]:
        assert isinstance(self.exchange, TeamExchange)
        return () if self.exchange.team.rank % 2 else real(self, rows)

    monkeypatch.setattr(view.TeamView, "groups", of_even_ranks)
    for seen in learn_together(config_of(parts[kind], 4, MODELS[model]), tmp_path / "team"):
        assert_same(seen, alone(model, "global"))
    assert counted


# Two workers of three rows, each mirroring the other's first: rows 0 and 1 hear own rows alone, row 2 hears row 2 and the mirror.
LISTS = np.array([0, 2, 4, 6]), np.array([0, 1, 0, 1, 2, 3], np.int32)


def view_of(team: Team) -> TeamView:
    nobody, first = np.empty(0, np.int64), np.array([0])
    traffic = make_traffic(3, [nobody, first] if team.rank == 0 else [first, nobody], [0, 1] if team.rank == 0 else [1, 0])
    layer = listed_layer(Block(*LISTS, NO_NUMBERS, 4), np.arange(4), 3, traffic)
    graph = local_graph(torch.from_numpy(LISTS[0]), torch.from_numpy(LISTS[1]), 4)
    return TeamView(graph, TeamExchange(team, traffic, Calls(0)), layer=layer)


GATHERS: dict[str, tuple[Callable[[], Gather], Reduce]] = {
    "learnt weights": (lambda: Copy(torch.arange(1.0, 7.0).requires_grad_()), "sum"),
    "maxima": (Copy, "max"),
    "messages": (lambda: Messages(lambda source, _edges, target: source * target), "sum"),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", GATHERS)
def test_what_goes_on_is_what_is_aggregated(name: str, dtype: torch.dtype) -> None:
    make, reduce = GATHERS[name]

    def work(team: Team) -> tuple[Tensor, Tensor]:
        mine, rows = view_of(team), torch.tensor([[1.0], [2.0], [3.0]], dtype=dtype) * (1 + team.rank)
        nothing = RowWork(lambda _first, _node, aggregate: Node(aggregate, aggregate), ())
        return mine.aggregate(make(), reduce, rows), mine.aggregate_then(make(), reduce, Node(rows, rows), nothing).rows

    for whole, going_on in run_threads(2, work):
        torch.testing.assert_close(going_on, whole)


def test_messages_are_let_go_of_when_they_are_read() -> None:
    """Two workers over shared memory, four layers: what a sender's arenas hold does not grow with the layers."""
    boxes, together, rows = linked_pair(), threading.Barrier(2, timeout=60), 1000
    most: list[int] = []

    def work(rank: int) -> None:
        team, nobody = Team(rank, 2, boxes[rank], boxes[rank].ledger), np.empty(0, np.int64)
        sent = [np.arange(rows // 2) if peer != rank else nobody for peer in range(2)]
        traffic = make_traffic(rows, sent, [0, rows // 2] if rank == 0 else [rows // 2, 0])
        neighbours = torch.cat([torch.arange(rows // 2), torch.arange(rows, rows + rows // 2)])
        graph, calls = local_graph(torch.arange(rows + 1), neighbours, rows + rows // 2), Calls(0)
        x = h = torch.ones(rows, 100, requires_grad=True)
        for _ in range(4):
            exchange = TeamExchange(team, traffic, calls)
            groups = row_groups.row_groups(graph, traffic, exchange.senders)
            assert len(groups) == 2
            (h,) = compute_by_groups(exchange, groups, h, lambda piece, x: (x[piece.graph.neighbours.long()],), overlap=True)
        together.wait()
        most.append(held(boxes[rank]))
        h.sum().backward()  # type: ignore[no-untyped-call]
        together.wait()
        most.append(held(boxes[rank]))
        together.wait()
        assert x.grad is not None

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for box in boxes:
        box.close()
    assert len(most) == 4
    assert max(most) < 3 * (rows // 2) * 100 * 4


def test_layers_go_when_their_step_is_over(graph: Graph, parts: dict[str, Path]) -> None:
    """A layer keeps groups of its graph's rows, and is not kept by that graph: nothing is left to the collector of cycles."""

    def work(team: Team, config: RunConfig) -> int:
        setup, layers = set_up(config, team).work, []
        for epoch in range(1, 4):
            for batch in setup.batches(epoch):
                for each in batch.views:
                    assert isinstance(each, TeamView)
                    assert each.layer is not None
                    assert each.groups(torch.empty(0)) is not None
                    layers.append(weakref.ref(each.layer))
                    del each
                del batch
        return len({id(layer()) for layer in layers} - {id(None)})

    gc.collect()
    gc.disable()
    try:
        for strategy, boundary in (({"name": "mini", "batch_size": 30}, 1.0), ({"name": "global"}, 0.5)):
            config = config_of(parts["edge-cut"], 2, MODELS["gat"], strategy, boundary=boundary)
            alive = run_threads(2, lambda team, config=config: work(team, config))
            assert max(alive) <= 4  # of the last step
    finally:
        gc.enable()


# ---- by hand ----


def test_gradients_of_rows_that_nobody_reads_are_sent() -> None:
    """Worker 1 mirrors a row of worker 0 that none of its own reads: its owner waits for a gradient all the same."""
    sends = ([np.empty(0, np.int64), np.array([0])], [np.empty(0, np.int64)] * 2)
    traffics = [make_traffic(2, sends[0], [0, 0]), make_traffic(2, sends[1], [1, 0])]

    def work(team: Team) -> list[float]:
        graph = local_graph(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 3 - (team.rank == 0))
        exchange = TeamExchange(team, traffics[team.rank], Calls(0))
        rows = torch.tensor([[1.0], [2.0]], requires_grad=True)
        piece = row_groups.excerpt(graph, np.arange(2), np.arange(2))
        own = row_groups.Stretch(row_groups.OWN, slice(0, 2), np.arange(2))
        group = RowGroup(np.arange(2), piece, tuple(exchange.senders), (own,))  # the last one waits for all

        def double(piece: Excerpt, x: Tensor) -> tuple[Tensor]:
            return (2 * x[piece.graph.neighbours.long()],)

        (out,) = compute_by_groups(exchange, [group], rows, double, overlap=True)
        out.sum().backward()  # type: ignore[no-untyped-call]
        assert rows.grad is not None
        return [*out[:, 0].tolist(), *rows.grad[:, 0].tolist()]

    assert run_threads(2, work) == [[4, 2, 2, 2]] * 2


def test_groups_go_on_when_their_last_message_has_come(band: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten rows of a part, the five next to each other part wait for it; the middle one has no others."""
    events: dict[int, list[str]] = {rank: [] for rank in range(3)}
    here = threading.local()
    real_run, real_back = view.then_by_groups, TeamExchange.send_block

    def then(node: Any, rows: Tensor, work: Any, reduction: Any, on_lists: Any) -> Any:
        def noted(piece: Excerpt, rows: Tensor) -> tuple[Tensor, ...]:
            assert isinstance(piece.rows, slice)
            events[here.rank].append(f"rows {piece.rows.start}:{piece.rows.stop}")
            return reduction(piece, rows)  # type: ignore[no-any-return]

        return real_run(node, rows, work, noted, on_lists)

    def send_block(self: TeamExchange, peer: int, block: Tensor, tag: int) -> None:
        events[here.rank].append(f"back to {peer}")
        real_back(self, peer, block, tag)

    monkeypatch.setattr(view, "then_by_groups", then)
    monkeypatch.setattr(TeamExchange, "send_block", send_block)

    def work(team: Team) -> None:
        here.rank = team.rank
        assert team.mailbox is not None
        real = team.mailbox.receive_any

        def receive_any(tag: int, shapes: Any, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
            coming = real(tag, shapes, dtype)

            def told() -> Iterator[tuple[int, Tensor]]:
                for peer, rows in coming:
                    events[here.rank].append("comes")
                    yield peer, rows

            return told()

        team.mailbox.receive_any = receive_any  # type: ignore[method-assign]
        learn(team, config_of(band, 3, {"name": "gat", "layers": 2, "hidden": 4, "heads": 1}, epochs=1), tmp_path / "run")

    run_threads(3, work)
    forward, backward = ["rows 0:5", "comes", "rows 5:10"], ["back to 1", "comes"]
    assert events[0][:10] == [*forward * 2, *backward * 2]
    assert events[2][:6] == forward * 2
