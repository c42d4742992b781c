"""RGAT: the fused softmax over all relations against a twin that goes edge by edge, and against PyG's layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from starling.nn.graph import LocalGraph, graph_of_edges
from starling.nn.layers.rgat import RGAT
from starling.nn.moment import Moment
from starling.nn.view import View
from tests.nn.graphs import edge_index, make, rows
from tests.nn.test_relational import shaken

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # PyG's own imports


def slow(layer: RGAT, graph: LocalGraph, h: Tensor) -> Tensor:
    """Row by row, edge by edge, head by head."""
    assert graph.edge_type is not None
    weight = layer.weight if layer.mix is None else torch.einsum("rb,bio->rio", layer.mix, layer.weight)
    out = []
    for row in range(graph.destinations):
        edges = range(int(graph.offsets[row]), int(graph.offsets[row + 1]))
        heads = []
        for head in range(layer.heads):
            part = slice(head * layer.width, (head + 1) * layer.width)
            scores, messages, kinds = [], [], []
            for edge in edges:
                kind, source = int(graph.edge_type[edge]), int(graph.neighbours[edge])
                z_u, z_v = (h[source] @ weight[kind])[part], (h[row] @ weight[kind])[part]
                score = layer.source[kind, head] @ z_u + layer.target[kind, head] @ z_v
                scores.append(torch.nn.functional.leaky_relu(score, layer.slope))
                messages.append(z_u)
                kinds.append(kind)
            total = torch.zeros(layer.width, dtype=h.dtype)
            groups = sorted(set(kinds)) if layer.within else [None]
            for group in groups if edges else []:
                mine = [k for k, kind in enumerate(kinds) if group is None or kind == group]
                share = torch.softmax(torch.stack([scores[k] for k in mine]), 0)
                total = total + sum(share[i] * messages[k] for i, k in enumerate(mine))
            heads.append(total)
        joined = torch.stack(heads).mean(0) if layer.average else torch.cat(heads)
        out.append(joined + layer.bias + h[row] @ layer.root)
    return torch.stack(out)


@pytest.mark.parametrize("softmax", ["across", "within"])
@pytest.mark.parametrize("bipartite", [False, True], ids=["square", "block"])
@pytest.mark.parametrize("settings", [{}, {"bases": 2}, {"average": True}], ids=["plain", "bases", "averaged"])
def test_like_the_slow_twin(softmax: str, bipartite: bool, settings: dict[str, object]) -> None:
    graph = make(bipartite)
    layer = shaken(RGAT(5, 6, 4, heads=2, softmax=softmax, **settings))  # type: ignore[arg-type]
    assert isinstance(layer, RGAT)
    h = rows(graph, 5)
    torch.testing.assert_close(layer(View(graph), h), slow(layer, graph, h), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("softmax", ["across", "within"])
def test_gradients(softmax: str) -> None:
    graph = make(True, nodes=8, count=14)
    layer = shaken(RGAT(3, 4, 4, heads=2, softmax=softmax, bases=2)).double()  # type: ignore[arg-type]
    names = [key for key, _ in layer.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in layer.parameters()]

    def run(h: Tensor, *parameters: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (View(graph), h))
        return result

    assert torch.autograd.gradcheck(run, (rows(graph, 3, torch.float64).requires_grad_(), *values))


@pytest.mark.parametrize("softmax", ["across", "within"])
def test_like_pygs(softmax: str) -> None:
    """PyG's attention vectors are the same for all relations and see all heads: ours repeated, theirs one head's at a time."""
    from torch_geometric.nn import RGATConv

    graph = make()
    assert graph.edge_type is not None
    layer = shaken(RGAT(5, 6, 4, heads=2, softmax=softmax))  # type: ignore[arg-type]
    assert isinstance(layer, RGAT)
    theirs = RGATConv(5, 3, 4, heads=2, attention_mechanism=f"{softmax}-relation")
    with torch.no_grad():
        torch.nn.init.zeros_(layer.root)
        layer.source.copy_(layer.source[:1].expand_as(layer.source))
        layer.target.copy_(layer.target[:1].expand_as(layer.target))
        theirs.weight.copy_(layer.weight)
        theirs.bias.copy_(layer.bias)
        for mine, other in ((layer.target, theirs.q), (layer.source, theirs.k)):
            other.zero_()
            for head in range(2):
                other[3 * head : 3 * head + 3, head] = mine[0, head]
    h = rows(graph, 5)
    expected = theirs(h, edge_index(graph), graph.edge_type)
    torch.testing.assert_close(layer(View(graph), h), expected, atol=1e-5, rtol=1e-5)


def test_dropout_is_drawn_for_each_relation() -> None:
    """Two edges between the same nodes by two relations: over many steps all four fates are seen."""
    graph = graph_of_edges(torch.tensor([[1, 0], [1, 0]]), 2, edge_type=torch.tensor([0, 1]))
    layer = RGAT(1, 1, 2, heads=1, attention_dropout=0.5)
    layer.name = "layer-0"
    with torch.no_grad():
        for parameter in (layer.source, layer.target, layer.root):
            parameter.zero_()
        layer.weight.copy_(torch.tensor([[[1.0]], [[10.0]]]))
    h = torch.tensor([[0.0], [1.0]])
    seen = {round(layer(View(graph, moment=Moment(step=step)), h)[0].item(), 3) for step in range(40)}
    assert seen == {0.0, 1.0, 10.0, 11.0}


def test_no_edges_leave_the_row_itself() -> None:
    graph = graph_of_edges(torch.empty(0, 2, dtype=torch.int64), 3, edge_type=torch.empty(0, dtype=torch.int64))
    layer, h = RGAT(2, 4, 2, heads=2), torch.randn(3, 2, requires_grad=True)
    out = layer(View(graph), h)
    torch.testing.assert_close(out, h @ layer.root)
    out.sum().backward()
    assert layer.weight.grad is not None
