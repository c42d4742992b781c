"""Aggregation through a view: fused and Python gathers agree, plain twins agree, and cutting the graph changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, leaky_relu

from starling.core.errors import InputError
from starling.nn.blockwise import aggregate_messages
from starling.nn.dropout import dropout
from starling.nn.gather import Attention, ByRelation, Copy, EdgeBlock, Gather, Messages, PairAttention, Reduce
from starling.nn.gathering import Gathering
from starling.nn.graph import LocalGraph, graph_of_edges, local_graph
from starling.nn.moment import Moment
from starling.nn.ops import plain
from starling.nn.registry import MODELS, ModelSpec, build_model
from starling.nn.reuse import Constants
from starling.nn.view import Size, View
from tests.nn.crew import cut
from tests.nn.graphs import edges, make, rows


def graphs() -> list[LocalGraph]:
    return [make(), make(True)]


def message(source: Tensor, edge: EdgeBlock, target: Tensor) -> Tensor:
    assert edge.weight is not None
    return source * edge.weight[:, None]


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("graph", graphs(), ids=["square", "block"])
def test_python_gather_equals_the_fused_one(graph: LocalGraph, reduce: str) -> None:
    h = rows(graph, 4).requires_grad_()
    fused = View(graph).aggregate(Copy(graph.edge_weight), reduce, h)  # type: ignore[arg-type]
    python = View(graph).aggregate(Messages(message), reduce, h)  # type: ignore[arg-type]
    torch.testing.assert_close(python, fused)
    g = torch.randn(fused.shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(*(torch.autograd.grad(out, h, g)[0] for out in (python, fused)))


@pytest.mark.parametrize("block", [1, 3, 7, 1000])
@pytest.mark.parametrize("reduce", ["sum", "max", "softmax"])
def test_the_block_size_of_a_python_gather_does_not_matter(reduce: str, block: int) -> None:
    graph, layer = make(True), nn.Linear(3, 4).double()
    score = nn.Linear(3, 2).double()

    class Gather(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.score = layer, score

        def forward(self, source: Tensor, edge: EdgeBlock, target: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            out: Tensor = self.layer(source - target).tanh()
            return (self.score(source * target), out) if reduce == "softmax" else out

    gather = Messages(Gather())
    h = rows(graph, 3, torch.float64).requires_grad_()

    def run(size: int) -> list[Tensor]:
        out, log_sum = aggregate_messages(graph, gather, reduce, h, h[: graph.destinations], size)  # type: ignore[arg-type]
        assert (log_sum is None) == (reduce != "softmax")
        wanted = [h, *layer.parameters()] + ([*score.parameters()] if reduce == "softmax" else [])
        loss = out.square().sum() if log_sum is None else out.square().sum() + log_sum[:-1].sum()
        return [out, *torch.autograd.grad(loss, wanted)]

    for got, expected in zip(run(block), run(10**6), strict=True):
        torch.testing.assert_close(got, expected)


def test_python_attention_equals_the_fused_one() -> None:
    graph, h = make(), rows(make(), 6).requires_grad_()
    source, target = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)), torch.ones(2, 3)

    def attention(near: Tensor, edge: EdgeBlock, own: Tensor) -> tuple[Tensor, Tensor]:
        score = (near.view(-1, 2, 3) * source).sum(-1) + (own.view(-1, 2, 3) * target).sum(-1)
        return leaky_relu(score, 0.2), near

    fused = View(graph).aggregate(Attention(source, target, self_loop=False), "softmax", h)
    torch.testing.assert_close(View(graph).aggregate(Messages(attention), "softmax", h), fused)


def test_a_python_gather_with_an_unnamed_parameter_is_refused() -> None:
    graph, layer = make(), nn.Linear(4, 4)
    h = rows(graph, 4).requires_grad_()
    with pytest.raises(InputError, match=r"that was not named"):
        View(graph).aggregate(Messages(lambda source, edge, target: layer(source)), "sum", h)
    named = Messages(lambda source, edge, target: layer(source), parameters=tuple(layer.parameters()))
    View(graph).aggregate(named, "sum", h).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("graph", graphs(), ids=["square", "block"])
def test_plain_twins_agree(graph: LocalGraph) -> None:
    """What runs on other devices gives what the kernels give."""
    h, view = rows(graph, 6), View(graph)
    looped = torch.zeros(graph.outputs, dtype=torch.bool)
    looped[graph.edge_destination[graph.neighbours == graph.edge_destination]] = True
    own = 1 - looped.float()
    expected = view.aggregate(Copy(graph.edge_weight, graph.gcn_scale, graph.gcn_scale[: graph.destinations], True), "sum", h)
    factors = {"source_scale": graph.gcn_scale, "row_scale": graph.gcn_scale[: graph.destinations], "own_weight": own}
    torch.testing.assert_close(plain.sum_neighbours(graph, h, edge_weight=graph.edge_weight, **factors), expected)
    torch.testing.assert_close(plain.max_neighbours(graph, h), view.aggregate(Copy(), "max", h))
    source, target = (torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    by_head = [(h.view(-1, 2, 3) * vector).sum(-1) for vector in (source, target)]
    loops = leaky_relu(by_head[0] + by_head[1], 0.2)[: graph.outputs].masked_fill(looped[:, None], -1e30)
    gather = Attention(source, target, edge_rows=graph.edge_attr, dropout=0.4)
    score = plain.additive_score(graph, by_head[0], by_head[1], 0.2)
    masks = Gathering(graph, view.moment)._attention_masks(gather, score)
    out, _ = plain.attend(graph, h, score, own_score=loops, edge_rows=graph.edge_attr, **masks)
    torch.testing.assert_close(out, view.aggregate(gather, "softmax", h))
    score = plain.pair_score(graph, h, h[: graph.destinations], source, 0.2)
    out, _ = plain.attend(graph, h, score)
    pairs = PairAttention(source, h[: graph.destinations], self_loop=False)
    torch.testing.assert_close(out, view.aggregate(pairs, "softmax", h))


def test_a_loop_of_the_graph_counts_once_however_it_was_sampled() -> None:
    """Node 0 has a loop and in-edges from 1 and 2, all rows one: with its own row a sum of 3, whether the loop was taken or not."""
    h, degree = torch.ones(3, 1), torch.tensor([3, 1, 1])
    looped, own = torch.tensor([True, False, False]), Copy(self_loop=True)
    whole = local_graph(torch.tensor([0, 3]), torch.tensor([1, 0, 2]), 3, degree=degree, looped=looped)
    assert View(whole).aggregate(own, "sum", h).item() == 3
    for taken, expected in (([1, 0], 1 + 1.5), ([1, 2], 1 + 3)):  # 2 of 3 edges: each counts 1.5 times, but the loop once
        some = local_graph(
            torch.tensor([0, 2]), torch.tensor(taken), 3, degree=degree, looped=looped, row_scale=torch.tensor([1.5])
        )
        assert View(some).aggregate(own, "sum", h).item() == expected
    by_edge = replace(whole, edge_scale=torch.tensor([2.0, 5.0, 1.0]))
    assert View(by_edge).aggregate(own, "sum", h).item() == 2 + 1 + 1
    assert whole.gcn_scale.tolist() == pytest.approx([3**-0.5, 2**-0.5, 2**-0.5])


def test_sampling_scales_make_sums_and_means_those_of_all_edges() -> None:
    """A node of 4 in-edges of which 2 were kept, all rows equal: sum and mean come out as if all 4 were there."""
    h = torch.ones(3, 1)
    graph = local_graph(
        torch.tensor([0, 2]), torch.tensor([1, 2]), 3, degree=torch.tensor([4, 1, 1]), row_scale=torch.tensor([2.0])
    )
    assert View(graph).aggregate(Copy(), "sum", h).item() == 4
    assert View(graph).aggregate(Copy(), "mean", h).item() == 1
    assert View(graph).aggregate(Copy(self_loop=True), "sum", h).item() == 5
    by_edge = replace(graph, row_scale=None, edge_scale=torch.tensor([3.0, 1.0]))
    assert View(by_edge).aggregate(Copy(), "sum", h).item() == 4
    assert View(by_edge).aggregate(Copy(), "mean", h).item() == 1
    as_python = Messages(lambda source, edges, destination: source)
    assert View(by_edge).aggregate(as_python, "sum", h).item() == 4
    assert View(by_edge).aggregate(as_python, "mean", h).item() == 1
    assert View(graph).aggregate(as_python, "mean", h).item() == 1
    assert View(local_graph(graph.offsets, graph.neighbours, 3)).aggregate(Copy(), "mean", h).item() == 1


def test_bfloat16_features_are_summed_in_float32() -> None:
    graph = make()
    h = rows(graph, 5).bfloat16()
    out = View(graph).aggregate(Copy(), "mean", h)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, View(graph).aggregate(Copy(), "mean", h.float()), rtol=0, atol=0)
    vector, messages = torch.full((1, 5), 0.3), Messages(lambda source, edges, destination: 2 * source + destination)
    others: list[tuple[Gather, Reduce]] = [
        (Copy(), "sum"),
        (Copy(), "max"),
        (Attention(vector, -vector), "softmax"),
        (PairAttention(vector, torch.ones(graph.outputs, 5)), "softmax"),
        (ByRelation(torch.ones(4, 5, 2)), "mean"),
        (messages, "sum"),
        (messages, "mean"),
        (messages, "max"),
        (Messages(lambda source, edges, destination: (source[:, :1], source)), "softmax"),
    ]
    for gather, reduce in others:
        out = View(graph).aggregate(gather, reduce, h)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, View(graph).aggregate(gather, reduce, h.float()), rtol=0, atol=0)


@pytest.mark.parametrize("name", [*MODELS, "sage lstm", "pyg:SAGEConv"])
def test_every_model_takes_bfloat16_features(name: str) -> None:
    graph, own = make(), {"sage lstm": {"aggregate": "lstm"}, "sgc": {}}
    h, (kind, *_) = rows(graph, 5).bfloat16(), name.split()
    settings = own.get(name, {}) | ({} if name == "sgc" else {"hidden": 8})
    model = build_model(ModelSpec(kind, 5, 4, edge_features=3, relations=4, settings=settings))
    torch.testing.assert_close(model(View(graph), h), model(View(graph), h.float()))


@pytest.mark.parametrize("name", ["gcn", "sage", "sgc"])
def test_aggregates_of_constant_features_are_computed_once_and_equal(name: str) -> None:
    graph, h = make(), rows(make(), 3)
    model = build_model(ModelSpec(name, 3, 4, settings={} if name == "sgc" else {"hidden": 8}))
    calls: list[str] = []

    class Counting(View):
        def sum_copies(self, *arguments: object) -> Tensor:
            calls.append("")
            return View.sum_copies(self, *arguments)  # type: ignore[arg-type]

    plain_view, kept = Counting(graph, constants=Constants(h, keep=False)), Counting(graph, constants=Constants(h))
    expected = model(plain_view, h)
    without, calls[:] = len(calls), []
    for _ in range(3):
        assert torch.equal(model(kept, h), expected)
    assert len(calls) < 3 * without
    assert kept.is_constant(h)
    h[0] += 1  # no longer what was promised
    assert not kept.is_constant(h)
    torch.testing.assert_close(model(kept, h), model(plain_view, h))


def test_dropout_follows_the_node() -> None:
    graph, h = make(), torch.ones(11, 6)
    order = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 10])
    view, moved = View(graph), View(replace(graph, position=order))
    out = dropout(view, h, 0.5, "a")
    assert torch.equal(dropout(moved, h, 0.5, "a"), out[order])
    assert not torch.equal(dropout(view, h, 0.5, "b"), out)
    assert not torch.equal(dropout(View(graph, moment=Moment(epoch=1)), h, 0.5, "a"), out)
    x = rows(graph, 6).requires_grad_()
    both = dropout(view, x, 0.5, "a", relu=True)
    assert torch.equal(both, dropout(view, x.relu(), 0.5, "a"))
    gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (both, dropout(view, x.relu(), 0.5, "a"))]
    assert torch.equal(*gradients)
    assert gradients[0].count_nonzero() < x.numel()


MODELS = {
    "gcn": {"edge_weights": True, "norm": "batch", "dropout": 0.3, "residual": True},
    "sage": {"norm": "batch", "jump": "cat", "dropout": 0.2, "input_dropout": 0.2},
    "sage max": {"aggregate": "max", "norm": "layer"},
    "sage lstm": {"aggregate": "lstm"},
    "gat": {"heads": 2, "attention_dropout": 0.3, "jump": "max"},
    "gatv2": {"heads": 2, "attention_dropout": 0.3},
    "gate": {"heads": 2},
    "rgcn": {"bases": 2},
    "rgat": {"heads": 2, "attention_dropout": 0.3},
    "rgat within": {"heads": 2, "softmax": "within"},
    "sage weighted": {"edge_weights": True},
    "gcn by relation": {"relational": True, "dropout": 0.2},
    "gcn weighted by relation": {"relational": True, "edge_weights": True},
    "sage by relation": {"relational": True, "edge_weights": True},
    "gate by relation": {"relational": True, "heads": 2, "attention_dropout": 0.3},
    "gatv2 by relation": {"relational": True, "heads": 2},
    "gin": {"inner": 1, "norm": "batch"},
    "sgc": {},
    "mlp": {"norm": "batch"},
}


@pytest.mark.parametrize("kind", ["edge-cut", "vertex-cut"])
@pytest.mark.parametrize("name", MODELS)
def test_many_workers_compute_what_one_computes(name: str, kind: str) -> None:
    """Loss and gradients of three workers, one of them without nodes, are those of one process, and no layer knows."""
    nodes, features, classes = 13, 5, 3
    pairs = edges(nodes, nodes, 40, seed=2)
    generator = torch.Generator().manual_seed(3)
    tables = {
        "edge_weight": torch.rand(len(pairs), generator=generator) + 0.5,
        "edge_attr": torch.rand(len(pairs), 2, generator=generator),
        "edge_type": torch.randint(3, (len(pairs),), generator=generator),
    }
    x = torch.randn(nodes, features, generator=generator)
    y = torch.randint(classes, (nodes,), generator=generator)
    spec = ModelSpec(name.split()[0], features, classes, 2, 3, MODELS[name] | ({} if name == "sgc" else {"hidden": 8}))
    moment = Moment(seed=1, epoch=2, step=3)
    model = build_model(spec, seed=4)
    whole = graph_of_edges(pairs, nodes, **tables)
    loss = cross_entropy(model(View(whole, moment=moment), x), y, reduction="sum")
    loss.backward()

    owner = torch.tensor([0, 2] * nodes)[torch.randperm(nodes, generator=generator)]
    edge_owner = torch.randint(3, (len(pairs),), generator=generator) if kind == "vertex-cut" else None
    parts, exchanges = cut(pairs, nodes, owner, edge_owner, tables, 3)
    size, models = Size(nodes, nodes, len(pairs)), [build_model(spec, seed=4) for _ in parts]

    class Part(View):
        @property
        def size(self) -> Size:
            return size

    def work(worker: int) -> tuple[Tensor, list[Tensor]]:
        exchange, mine = exchanges[worker], models[worker]
        own = exchange.owned[worker]
        out = mine(Part(parts[worker], exchange, moment), x[own])
        part = cross_entropy(out, y[own], reduction="sum")
        part.backward()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in mine.parameters()]
        return part.detach(), gradients

    if kind == "vertex-cut" and any(getattr(layer, "whole_lists", False) for layer in model.modules()):
        with pytest.raises(InputError, match="got a vertex-cut"):
            exchanges[0].crew.run(work)
        return
    results = exchanges[0].crew.run(work)
    torch.testing.assert_close(sum(part for part, _ in results), loss.detach(), rtol=1e-5, atol=1e-5)
    for number, (key, parameter) in enumerate(model.named_parameters()):
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        got = sum(gradients[number] for _, gradients in results)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}")
