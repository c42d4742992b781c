"""Every layer: gradients against finite differences, values against PyG's layer with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn.graph import LocalGraph
from starling.nn.layer import Layer
from starling.nn.layers.dense import NGNN, Dense
from starling.nn.layers.gat import GAT, GATE, GATv2
from starling.nn.layers.gcn import GCN
from starling.nn.layers.gin import GIN
from starling.nn.layers.relational_gcn import RelationalGCN
from starling.nn.layers.rgcn import RGCN
from starling.nn.layers.sage import SAGE, LstmSAGE
from starling.nn.layers.sgc import SGC
from starling.nn.stack import Stack, StackSettings
from starling.nn.view import View
from tests.nn.graphs import edge_index, make, rows

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # PyG's own imports

LAYERS = {
    "gcn narrow": lambda: GCN(5, 2),
    "gcn wide": lambda: GCN(2, 5),
    "gcn weighted": lambda: GCN(5, 2, edge_weights=True),
    "sage narrow": lambda: SAGE(5, 2),
    "sage wide": lambda: SAGE(2, 5),
    "sage weighted": lambda: SAGE(5, 2, edge_weights=True),
    "sage max": lambda: SAGE(3, 4, aggregate="max"),
    "sage lstm": lambda: LstmSAGE(3, 4),
    "gat": lambda: GAT(3, 4, heads=2),
    "gat averaged": lambda: GAT(3, 2, heads=3, average=True, self_loop=False),
    "gat dropped": lambda: GAT(3, 4, heads=2, attention_dropout=0.4),
    "gatv2": lambda: GATv2(3, 4, heads=2),
    "gatv2 dropped": lambda: GATv2(3, 4, heads=2, self_loop=False, attention_dropout=0.4),
    "gate": lambda: GATE(3, 4, 3, heads=2),
    "gate attention only": lambda: GATE(3, 4, 3, heads=2, edge_message=False, self_loop=False),
    "rgcn": lambda: RGCN(4, 2, 4),
    "rgcn bases": lambda: RGCN(4, 2, 4, bases=2),
    "rgcn blocks": lambda: RGCN(4, 6, 4, blocks=2),
    "rgcn narrow": lambda: RGCN(4, 1, 4),
    "rgcn narrow blocks": lambda: RGCN(4, 2, 4, blocks=2),
    "rgcn by basis": lambda: RGCN(4, 4, 4, bases=1),
    "rgcn of gcn": lambda: RelationalGCN(4, 2, 4, edge_weights=True),
    "gin": lambda: GIN(3, 4),
    "ngnn": lambda: NGNN(SAGE(3, 4), 4, 2),
    "dense": lambda: Dense(3, 4),
}


@pytest.mark.parametrize("bipartite", [False, True], ids=["square", "block"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str, bipartite: bool) -> None:
    layer, graph = shake(LAYERS[name]()).double(), make(bipartite, nodes=8, count=14)
    if graph.edge_attr is not None:
        graph.edge_attr.data = graph.edge_attr.double()
    width = 4 if name.startswith("rgcn") else layer.fan_in if hasattr(layer, "fan_in") else 3
    h = rows(graph, width, torch.float64).requires_grad_()
    names = [key for key, _ in layer.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in layer.parameters()]

    def run(h: Tensor, *parameters: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (View(graph), h))
        return result

    assert torch.autograd.gradcheck(run, (h, *values))


def test_gradients_of_sgc() -> None:
    """A model of its own, of several hops, so the graph is whole."""
    model, graph = shake(SGC(3, 2, 2)).double(), make(nodes=8, count=14)
    assert torch.autograd.gradcheck(lambda h: model(View(graph), h), rows(graph, 3, torch.float64).requires_grad_())


def both(ours: nn.Module, theirs: nn.Module, graph: LocalGraph, width: int, pair: bool, *extra: Tensor) -> None:
    h = rows(graph, width)
    expected = theirs((h, h[: graph.destinations]) if pair else h, edge_index(graph), *extra)
    torch.testing.assert_close(ours(View(graph), h), expected[: graph.destinations], atol=1e-5, rtol=1e-5)


def copy(pairs: dict[str, tuple[nn.Module, str]], theirs: nn.Module, layer: nn.Module) -> None:
    """Fill our parameters (by name) from theirs: a matrix is transposed where `T:` stands before its name."""
    for mine, (module, name) in pairs.items():
        transposed = name.startswith("T:")
        value: Tensor = dict(module.named_parameters())[name.removeprefix("T:")]
        target = dict(layer.named_parameters())[mine]
        with torch.no_grad():
            target.copy_((value.T if transposed else value).reshape(target.shape))
    del theirs


def shake(module: nn.Module) -> nn.Module:
    """Random values everywhere, biases too."""
    generator = torch.Generator().manual_seed(9)
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


@pytest.mark.parametrize(("fan_in", "fan_out"), [(6, 3), (3, 6)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_gcn_is_pygs(fan_in: int, fan_out: int, weighted: bool, loops: bool) -> None:
    from torch_geometric.nn import GCNConv

    graph, layer = make(loops=loops), GCN(fan_in, fan_out, edge_weights=weighted)
    theirs = shake(GCNConv(fan_in, fan_out))
    copy({"weight": (theirs, "T:lin.weight"), "bias": (theirs, "bias")}, theirs, layer)
    assert graph.edge_weight is not None
    both(layer, theirs, graph, fan_in, False, *([graph.edge_weight] if weighted else []))


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("aggregate", ["mean", "max"])
@pytest.mark.parametrize(("fan_in", "fan_out"), [(6, 3), (3, 6)])
def test_sage_is_pygs(aggregate: str, fan_in: int, fan_out: int, bipartite: bool) -> None:
    from torch_geometric.nn import SAGEConv

    graph, layer = make(bipartite), SAGE(fan_in, fan_out, aggregate=aggregate)  # type: ignore[arg-type]
    theirs = shake(SAGEConv((fan_in, fan_in), fan_out, aggr=aggregate))
    names = {"own": "T:lin_r.weight", "neighbour": "T:lin_l.weight", "bias": "lin_l.bias"}
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    both(layer, theirs, graph, fan_in, True)


def test_lstm_sage_is_pygs_where_degrees_are_equal() -> None:
    from torch_geometric.nn import SAGEConv

    from starling.nn.graph import graph_of_edges

    graph = graph_of_edges(torch.tensor([[s % 7, d] for d in range(7) for s in (d + 1, d * 3, d + 4)]), 7)
    layer, theirs = LstmSAGE(3, 4), shake(SAGEConv((3, 3), 4, aggr="lstm"))
    names = {"own": "T:lin_r.weight", "neighbour": "T:lin_l.weight", "bias": "lin_l.bias"}
    for part in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        names[f"lstm.{part}"] = f"aggr_module.lstm.{part}"
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    both(layer, theirs, graph, 3, True)


def test_lstm_reads_each_row_by_itself() -> None:
    graph, layer = make(), LstmSAGE(3, 4)
    h = rows(graph, 3)
    out = layer(View(graph), h)
    for node in range(graph.destinations):
        neighbours = graph.neighbours[graph.offsets[node] : graph.offsets[node + 1]].long()
        state = layer.lstm(h[neighbours][None])[0][0, -1] if len(neighbours) else torch.zeros(3)
        expected = h[node] @ layer.own + state @ layer.neighbour + layer.bias
        torch.testing.assert_close(out[node], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("heads", "average"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_gat_is_pygs(heads: int, average: bool, bipartite: bool, loops: bool) -> None:
    from torch_geometric.nn import GATConv

    width, graph = 4, make(bipartite, loops=loops)
    fan_out = width if average else width * heads
    layer = GAT(5, fan_out, heads=heads, average=average)
    theirs = shake(GATConv(5, width, heads, concat=not average))
    names = {"weight": "T:lin.weight", "source": "att_src", "target": "att_dst", "bias": "bias"}
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    h = rows(graph, 5)
    # PyG adds self-loops to square graphs only; a block becomes square when its outer rows are destinations without edges.
    expected = theirs(h, edge_index(graph))[: graph.destinations]
    torch.testing.assert_close(layer(View(graph), h), expected, atol=1e-5, rtol=1e-5)


def test_gate_attention_is_pygs() -> None:
    from torch_geometric.nn import GATConv

    graph, layer = make(), GATE(5, 8, 3, heads=2, self_loop=False, edge_message=False)
    theirs = shake(GATConv(5, 4, 2, edge_dim=3, add_self_loops=False))
    names = {"weight": "T:lin.weight", "source": "att_src", "target": "att_dst", "bias": "bias"}
    names |= {"edge_weight": "T:lin_edge.weight", "edge": "att_edge"}
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    assert graph.edge_attr is not None
    both(layer, theirs, graph, 5, False, graph.edge_attr)


def test_gate_message_is_the_formula() -> None:
    graph, layer = make(True), GATE(3, 4, 3, heads=2, self_loop=False)
    h = rows(graph, 3)
    z, attr = (h @ layer.weight).view(-1, 2, 2), graph.edge_attr
    assert attr is not None
    assert layer.message is not None
    u, v = edge_index(graph)
    edge = (attr @ layer.edge_weight).view(-1, 2, 2)
    score = (z[u] * layer.source).sum(-1) + (z[v] * layer.target).sum(-1) + (edge * layer.edge).sum(-1)
    score = nn.functional.leaky_relu(score, 0.2).exp()
    weight = score / torch.zeros(graph.destinations, 2).index_add(0, v, score)[v]
    message = z[u] + torch.einsum("ea,haf->ehf", attr, layer.message)
    expected = torch.zeros(graph.destinations, 2, 2).index_add(0, v, message * weight[..., None]).flatten(1) + layer.bias
    torch.testing.assert_close(layer(View(graph), h), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("loops", [False, True])
def test_gatv2_is_pygs(heads: int, loops: bool) -> None:
    from torch_geometric.nn import GATv2Conv

    graph, layer = make(loops=loops), GATv2(5, 4 * heads, heads=heads)
    theirs = shake(GATv2Conv(5, 4, heads))
    names = {"source": "T:lin_l.weight", "target": "T:lin_r.weight", "vector": "att", "bias": "bias"}
    names |= {"source_bias": "lin_l.bias", "target_bias": "lin_r.bias"}
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    both(layer, theirs, graph, 5, False)


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("kind", [{}, {"bases": 2}, {"blocks": 2}])
def test_rgcn_is_pygs(kind: dict[str, int], bipartite: bool) -> None:
    from torch_geometric.nn import RGCNConv

    graph, layer = make(bipartite), RGCN(4, 6, 4, **kind)
    theirs = shake(RGCNConv((4, 4), 6, 4, num_bases=kind.get("bases"), num_blocks=kind.get("blocks")))
    names = {"weight": "weight", "root": "root", "bias": "bias"} | ({"mix": "comp"} if "bases" in kind else {})
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    assert graph.edge_type is not None
    both(layer, theirs, graph, 4, True, graph.edge_type)


def test_gin_is_pygs() -> None:
    from torch_geometric.nn import GINConv

    graph, layer = make(True), GIN(4, 6)
    theirs = shake(GINConv(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6)), train_eps=True))
    names = {"epsilon": "eps"}
    for mine, place in (("first", 0), ("second", 2)):
        names |= {f"{mine}.{part}": f"nn.{place}.{part}" for part in ("weight", "bias")}
    copy({mine: (theirs, name) for mine, name in names.items()}, theirs, layer)
    both(layer, theirs, graph, 4, True)


@pytest.mark.parametrize("loops", [False, True])
def test_sgc_is_pygs(loops: bool) -> None:
    from torch_geometric.nn import SGConv

    graph, model = make(loops=loops), SGC(5, 3, hops=3)
    theirs = shake(SGConv(5, 3, K=3))
    copy({"linear.weight": (theirs, "T:lin.weight"), "linear.bias": (theirs, "lin.bias")}, theirs, model)
    both(model, theirs, graph, 5, False)


def test_gcn_by_hand() -> None:
    """Two nodes, one edge 1 → 0: degrees with loops 2 and 1; out_0 = x_0 / 2 + x_1 / √2, out_1 = x_1."""
    from starling.nn.graph import graph_of_edges

    layer = GCN(1, 1)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    out = layer(View(graph_of_edges(torch.tensor([[1, 0]]), 2)), torch.tensor([[2.0], [4.0]]))
    torch.testing.assert_close(out, torch.tensor([[1.0 + 4.0 / 2**0.5], [4.0]]))


def test_impossible_layers_say_so() -> None:
    with pytest.raises(InputError, match="divisible by 3 heads"):
        GAT(4, 8, heads=3)
    with pytest.raises(InputError, match="edge attributes"):
        GATE(4, 8, 0)
    with pytest.raises(InputError, match="edge types"):
        RGCN(4, 8, 0)
    with pytest.raises(InputError, match="bases or blocks"):
        RGCN(4, 8, 3, bases=1, blocks=2)
    graph = make(True)
    bare = LocalGraph(graph.offsets, graph.neighbours, graph.sources, graph.outputs)
    with pytest.raises(InputError, match="pass the whole graph's degrees"):
        GCN(3, 2)(View(bare), rows(graph, 3))
    with pytest.raises(InputError, match="got 5"):
        SAGE(3, 2)(View(bare), rows(graph, 3)[:5])


class Gated(GIN):
    """A layer of one's own whose bias counts for a part of a row, and only for some rows."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__(fan_in, fan_out)
        self.bias = nn.Parameter(torch.zeros(fan_out))


@pytest.mark.parametrize(
    ("layer", "still"),
    [
        (GCN(3, 4), "bias"),
        (SAGE(3, 4), "bias"),
        (GATv2(3, 4), "bias"),
        (GIN(3, 4), "second.bias"),
        (Gated(3, 4), "second.bias"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_only_what_is_added_to_every_row_stands_still_before_a_batch_norm(layer: Layer, still: str) -> None:
    """`bias` by name alone says nothing of where a layer adds it."""
    stack = Stack(3, 2, StackSettings(hidden=4, layers=2, norm="batch"), lambda _in, _out, last: GCN(4, 2) if last else layer)
    fixed = {name for name, weight in stack.graph_layers[0].named_parameters() if not weight.requires_grad}
    assert fixed == {still}
    assert all(weight.requires_grad for weight in stack.graph_layers[1].parameters())
