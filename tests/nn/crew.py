"""Several workers in one process, as threads: an exchange good enough to show that layers need not know about ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from starling.nn.graph import LocalGraph, graph_of_edges


class Crew:
    """A meeting place: everyone brings a value, everyone leaves with all of them."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._barrier = threading.Barrier(workers, timeout=60)
        self._values: list[Any] = [None] * workers

    def meet(self, worker: int, value: Any) -> list[Any]:
        self._values[worker] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * self.workers
        errors: list[BaseException] = []

        def body(worker: int) -> None:
            try:
                results[worker] = work(worker)
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=body, args=(worker,)) for worker in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results


@dataclass(eq=False)
class CrewExchange:
    """`owned` and `local` are the global node numbers of a worker's own rows and of all its rows."""

    crew: Crew
    worker: int
    owned: list[Tensor]
    local: list[Tensor]
    nodes: int
    spread: bool

    @property
    def workers(self) -> int:
        return self.crew.workers

    def pull(self, rows: Tensor) -> Tensor:
        return _Pull.apply(rows, self)

    def push_sum(self, partial: Tensor) -> Tensor:
        return _PushSum.apply(partial, self) if self.spread else partial

    def push_max(self, partial: Tensor) -> Tensor:
        return _PushMax.apply(partial, self)

    def push_softmax(self, partial: Tensor, log_sum: Tensor, node_columns: int) -> Tensor:
        """Numerators and denominators by the largest score of all: another way than the engine's."""
        with torch.no_grad():
            top = self.pull(self.push_max(log_sum))
            top = torch.where(top.isinf(), 0.0, top)
        share, heads = (log_sum - top).exp(), log_sum.shape[1]

        def of_heads(values: Tensor) -> Tensor:
            widths = (node_columns, partial.shape[1] - node_columns)
            return torch.cat([values.repeat_interleave(width // heads, 1) for width in widths], 1)

        whole = self.push_sum(torch.cat([partial * of_heads(share), share], 1))
        total = whole[:, -heads:]
        return whole[:, :-heads] / of_heads(torch.where(total == 0, 1.0, total))

    def all_sum(self, values: Tensor) -> Tensor:
        return _AllSum.apply(values, self)

    def table(self, places: list[Tensor], parts: list[Tensor]) -> Tensor:
        """Everybody's rows added into one global table."""
        whole = parts[0].new_zeros(self.nodes, *parts[0].shape[1:])
        for place, part in zip(places, parts, strict=True):
            whole.index_add_(0, place[: len(part)], part)
        return whole


class _Pull(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: CrewExchange) -> Tensor:
        ctx.exchange = exchange
        parts = exchange.crew.meet(exchange.worker, rows.detach().clone())
        return exchange.table(exchange.owned, parts)[exchange.local[exchange.worker]]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange = ctx.exchange
        parts = exchange.crew.meet(exchange.worker, gradient.clone())
        return exchange.table(exchange.local, parts)[exchange.owned[exchange.worker]], None


class _PushSum(Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor, exchange: CrewExchange) -> Tensor:
        ctx.exchange = exchange
        parts = exchange.crew.meet(exchange.worker, partial.detach().clone())
        return exchange.table(exchange.local, parts)[exchange.owned[exchange.worker]]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange = ctx.exchange
        parts = exchange.crew.meet(exchange.worker, gradient.clone())
        return exchange.table(exchange.owned, parts)[exchange.local[exchange.worker]], None


class _PushMax(Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor, exchange: CrewExchange) -> Tensor:
        parts = exchange.crew.meet(exchange.worker, partial.detach().clone())
        whole = partial.new_full((exchange.nodes, partial.shape[1]), -torch.inf)
        winner = torch.full(whole.shape, -1)
        for worker, (place, part) in enumerate(zip(exchange.local, parts, strict=True)):
            better = part > whole[place]
            whole[place] = torch.where(better, part, whole[place])
            winner[place] = torch.where(better, worker, winner[place])
        ctx.exchange, ctx.mine = exchange, winner[exchange.local[exchange.worker]] == exchange.worker
        return whole[exchange.owned[exchange.worker]]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        exchange = ctx.exchange
        parts = exchange.crew.meet(exchange.worker, gradient.clone())
        return exchange.table(exchange.owned, parts)[exchange.local[exchange.worker]] * ctx.mine, None


class _AllSum(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: CrewExchange) -> Tensor:
        ctx.exchange = exchange
        return torch.stack(exchange.crew.meet(exchange.worker, values.detach().clone())).sum(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return torch.stack(ctx.exchange.crew.meet(ctx.exchange.worker, gradient.clone())).sum(0), None


def cut(
    pairs: Tensor, nodes: int, owner: Tensor, edge_owner: Tensor | None, tables: dict[str, Tensor], relations: int
) -> tuple[list[LocalGraph], list[CrewExchange]]:
    """Give each worker its rows and edges: by destination (edge-cut), or as `edge_owner` says (vertex-cut)."""
    workers = int(owner.max()) + 1
    spread = edge_owner is not None
    place = owner[pairs[:, 1]] if edge_owner is None else edge_owner
    degree = torch.bincount(pairs[:, 1], minlength=nodes)
    weighted = torch.zeros(nodes).index_add(0, pairs[:, 1], tables["edge_weight"])
    looped = torch.zeros(nodes, dtype=torch.bool)
    looped[pairs[pairs[:, 0] == pairs[:, 1], 0]] = True
    by_relation = torch.zeros(nodes, relations).index_put(
        (pairs[:, 1], tables["edge_type"]), torch.ones(len(pairs)), accumulate=True
    )
    owned = [torch.nonzero(owner == worker)[:, 0] for worker in range(workers)]
    local = [torch.cat([owned[worker], torch.nonzero(owner != worker)[:, 0]]) for worker in range(workers)]
    crew, graphs, exchanges = Crew(workers), [], []
    for worker in range(workers):
        number = torch.empty(nodes, dtype=torch.int64)
        number[local[worker]] = torch.arange(nodes)
        mine = place == worker
        destinations = nodes if spread else len(owned[worker])
        graph = graph_of_edges(
            number[pairs[mine]], nodes, destinations, degree=degree[local[worker]], weighted_degree=weighted[local[worker]],
            relation_degree=by_relation[local[worker]][:destinations], position=local[worker], looped=looped[local[worker]],
            **{name: table[mine] for name, table in tables.items()},
        )  # fmt: skip
        changed = {f.name: getattr(graph, f.name) for f in fields(graph)} | {"outputs": len(owned[worker])}
        graphs.append(LocalGraph(**changed))
        exchanges.append(CrewExchange(crew, worker, owned, local, nodes, spread))
    return graphs, exchanges
