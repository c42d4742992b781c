"""Layers made typed by relation: what each relation's own graph gives, added up; the blocks they run on; inputs by node type."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from starling.core.errors import InputError
from starling.nn import relations
from starling.nn.graph import LocalGraph, graph_of_edges
from starling.nn.layers.gat import GAT, GATE, GATv2
from starling.nn.layers.gcn import GCN
from starling.nn.layers.gin import GIN
from starling.nn.layers.relational import Relational
from starling.nn.layers.relational_gcn import RelationalGCN
from starling.nn.layers.sage import SAGE, LstmSAGE
from starling.nn.registry import MODELS, ModelSpec, build_model
from starling.nn.relation_blocks import relation_blocks
from starling.nn.typed_input import TypedInput
from starling.nn.view import View
from tests.nn.graphs import edge_index, make, rows

LAYERS = {
    "sage": lambda: SAGE(5, 4),
    "sage wide": lambda: SAGE(5, 9),
    "sage max": lambda: SAGE(5, 4, aggregate="max"),
    "sage weighted": lambda: SAGE(5, 4, edge_weights=True),
    "sage lstm": lambda: LstmSAGE(5, 4),
    "gat": lambda: GAT(5, 4, heads=2, self_loop=False),
    "gat with itself": lambda: GAT(5, 4, heads=2),
    "gatv2": lambda: GATv2(5, 4, heads=2),
    "gate": lambda: GATE(5, 4, 3, heads=2),
    "gin": lambda: GIN(5, 4),
}


def one_relation(graph: LocalGraph, relation: int) -> LocalGraph:
    """The graph with the edges of one relation alone, all rows kept."""
    assert graph.edge_type is not None
    assert graph.edge_weight is not None
    assert graph.edge_attr is not None
    mine = graph.edge_type == relation
    pairs = edge_index(graph).T[mine]
    degree = torch.bincount(pairs[:, 1], minlength=graph.sources)
    weight = torch.zeros(graph.sources).index_add(0, pairs[:, 1], graph.edge_weight[mine])
    return graph_of_edges(
        pairs,
        graph.sources,
        graph.destinations,
        edge_weight=graph.edge_weight[mine],
        edge_attr=graph.edge_attr[mine],
        degree=degree,
        weighted_degree=weight,
    )


def shaken(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


@pytest.mark.parametrize("bipartite", [False, True], ids=["square", "block"])
@pytest.mark.parametrize("name", LAYERS)
def test_each_relation_computes_its_own_rows(name: str, bipartite: bool) -> None:
    graph = make(bipartite)
    fan_out = 9 if name == "sage wide" else 4
    typed = Relational(5, fan_out, 4, LAYERS[name])
    shaken(typed)
    h = rows(graph, 5)
    expected = typed.root(View(graph), h)
    for relation, layer in enumerate(typed.relations):
        alone = one_relation(graph, relation)
        expected = expected + layer(View(alone), h) * (alone.local_degree > 0)[:, None]
    torch.testing.assert_close(typed(View(graph), h), expected, atol=1e-5, rtol=1e-5)


def dense_gcn(layer: RelationalGCN, graph: LocalGraph, h: Tensor, *, weighted: bool, scale: Tensor) -> Tensor:
    """h W_root + b + Σ_r Σ_{u in N_r(v)} h_u W_r / √(d(u) d(v)), by a matrix for each relation; `scale` [E] is of sampled edges."""
    assert graph.edge_type is not None
    source, target = edge_index(graph)
    each = graph.edge_weight if weighted and graph.edge_weight is not None else torch.ones(graph.edges)
    degree = torch.zeros(graph.sources).index_add(0, target, each)
    if graph.degree is not None and graph.weighted_degree is not None:
        degree = graph.weighted_degree if weighted else graph.degree.float()
    has_loop = torch.zeros(graph.sources)
    has_loop[source[source == target]] = 1
    degree = degree + 1 - has_loop
    out = h[: graph.destinations] @ layer.root + layer.bias
    for relation, matrix in enumerate(layer.weight):
        mine = graph.edge_type == relation
        dense = torch.zeros(graph.destinations, graph.sources)
        dense.index_put_((target[mine], source[mine]), (each * scale)[mine], accumulate=True)
        out = out + dense / (degree[: graph.destinations, None] * degree).sqrt() @ h @ matrix
    return out


@pytest.mark.parametrize("plain", [False, True], ids=["kernels", "plain"])
@pytest.mark.parametrize("fan_out", [2, 9], ids=["product first", "sum first"])
@pytest.mark.parametrize("sampled", [None, "rows", "edges"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bipartite", [False, True], ids=["square", "block"])
def test_gcn_has_the_degrees_of_the_whole_graph(
    bipartite: bool, weighted: bool, sampled: str | None, fan_out: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients of all weights and rows; edges that stand for others count so many times, degrees do not change."""
    graph = make(bipartite)
    generator = torch.Generator().manual_seed(8)
    by_row, by_edge = (torch.rand(count, generator=generator) + 0.5 for count in (graph.destinations, graph.edges))
    scale = {None: torch.ones(graph.edges), "rows": by_row[graph.edge_destination], "edges": by_edge}[sampled]
    if sampled is not None:
        graph = replace(graph, **({"row_scale": by_row} if sampled == "rows" else {"edge_scale": by_edge}))
    layer = RelationalGCN(5, fan_out, 4, edge_weights=weighted)
    shaken(layer)
    monkeypatch.setattr(relations, "_product_first", lambda *_: fan_out == 2)
    if plain:
        monkeypatch.setattr(relations, "has_kernels", lambda _: False)
    h = rows(graph, 5).requires_grad_()
    found, expected = layer(View(graph), h), dense_gcn(layer, graph, h, weighted=weighted, scale=scale)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    wanted = (h, *layer.parameters())
    for mine, theirs in zip(*(torch.autograd.grad(out.square().sum(), wanted) for out in (found, expected)), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)


def test_gcn_by_hand() -> None:
    """Row 0 hears 1 by relation 0 and 2 by relation 1, row 1 hears 2 by relation 1; degrees with the loop are 3, 2 and 1."""
    graph = graph_of_edges(torch.tensor([[1, 0], [2, 0], [2, 1]]), 3, edge_type=torch.tensor([0, 1, 1]))
    layer = RelationalGCN(1, 1, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([10.0, 100.0]).reshape(2, 1, 1))
        layer.root.fill_(1.0)
    out = layer(View(graph), torch.tensor([[1.0], [2.0], [4.0]]))
    assert out[:, 0].tolist() == pytest.approx([1 + 20 / 6**0.5 + 400 / 3**0.5, 2 + 400 / 2**0.5, 4])


def test_gcn_of_one_relation_is_gcn_but_for_the_loop() -> None:
    """With W_root h / d(v) for the loop that the relation does not have, one relation is plain GCN."""
    graph = make(loops=False)
    one = replace(graph, edge_type=torch.zeros(graph.edges, dtype=torch.int64))
    typed, layer = RelationalGCN(5, 4, 1), GCN(5, 4)
    shaken(typed)
    with torch.no_grad():
        layer.weight.copy_(typed.weight[0])
        layer.bias.copy_(typed.bias)
        typed.root.zero_()
    h = rows(graph, 5)
    loop = h / (graph.local_degree + 1)[:, None] @ layer.weight
    torch.testing.assert_close(typed(View(one), h) + loop, layer(View(graph), h), atol=1e-5, rtol=1e-5)


def test_gradients() -> None:
    graph = make(True, nodes=8, count=14)
    layer = shaken(Relational(3, 4, 4, lambda: GATv2(3, 4, heads=2))).double()
    names = [key for key, _ in layer.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in layer.parameters()]

    def run(h: Tensor, *parameters: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (View(graph), h))
        return result

    assert torch.autograd.gradcheck(run, (rows(graph, 3, torch.float64).requires_grad_(), *values))


def test_a_block_by_hand() -> None:
    """Rows 0 and 2 hear by relation 1: 0 from 3 and 2, 2 from 3. So sources are rows 0, 2, then 3, and edges 2, 1, 2."""
    pairs = torch.tensor([[3, 0], [1, 0], [2, 0], [3, 2], [0, 1]])
    graph = graph_of_edges(pairs, 4, edge_type=torch.tensor([1, 0, 1, 1, 0]), edge_weight=torch.arange(5.0))
    block = relation_blocks(graph, 2)[1]
    assert block.rows.tolist() == [0, 2]
    assert block.sources.tolist() == [0, 2, 3]
    assert block.graph.neighbours.tolist() == [2, 1, 2]
    assert block.graph.offsets.tolist() == [0, 2, 3]
    assert block.graph.edge_weight is not None
    assert block.graph.edge_weight.tolist() == [0, 2, 3]
    assert block.graph.row_position.tolist() == [0, 2, 3]


def test_sampled_edges_make_a_mean_of_those_here() -> None:
    """Row 0 hears 1 and 3 by one relation, the second edge standing for three: (1 + 3 · 3) / 4 = 2.5."""
    graph = graph_of_edges(
        torch.tensor([[0, 0], [1, 0]]), 2, 1, edge_type=torch.zeros(2, dtype=torch.int64), edge_scale=torch.tensor([1.0, 3.0])
    )
    typed = Relational(1, 1, 1, lambda: SAGE(1, 1))
    for parameter in typed.parameters():
        nn.init.zeros_(parameter)
    nn.init.ones_(typed.relations[0].neighbour)  # type: ignore[arg-type]
    assert typed(View(graph), torch.tensor([[1.0], [3.0]])).tolist() == [[2.5]]


def test_no_edges_at_all_leave_the_row_itself() -> None:
    graph = graph_of_edges(torch.empty(0, 2, dtype=torch.int64), 3, edge_type=torch.empty(0, dtype=torch.int64))
    typed = Relational(2, 2, 2, lambda: SAGE(2, 2))
    h = torch.randn(3, 2, requires_grad=True)
    out = typed(View(graph), h)
    torch.testing.assert_close(out, typed.root(View(graph), h))
    out.sum().backward()


def test_dropout_differs_between_relations() -> None:
    typed = Relational(2, 2, 3, lambda: GAT(2, 2, heads=1))
    typed.name = "layer-0"
    assert [layer.name for layer in typed.relations] == ["layer-0/relation-0", "layer-0/relation-1", "layer-0/relation-2"]
    assert typed.name == "layer-0"


def test_models_by_relation_need_relations() -> None:
    assert build_model(ModelSpec("gat", 5, 3, 0, 4, {"hidden": 8, "relational": True}))
    with pytest.raises(InputError, match="edge types for a relational model"):
        build_model(ModelSpec("gat", 5, 3, 0, 0, {"hidden": 8, "relational": True}))
    with pytest.raises(InputError, match="edge types for RGAT"):
        build_model(ModelSpec("rgat", 5, 3, 0, 0, {"hidden": 8}))
    with pytest.raises(InputError, match="edge types for a relational model"):
        build_model(ModelSpec("gcn", 5, 3, 0, 0, {"hidden": 8, "relational": True}))


def test_every_other_model_says_why_it_is_not_relational() -> None:
    """One sentence each for those of the table that cannot be had by relation; all others are made."""
    said = {
        "rgcn": "it has a matrix for each relation as it is. Leave relational out.",
        "rgat": "it has weights for each relation as it is. Leave relational out.",
        "sgc": "it has one matrix after all its hops",
        "mlp": "it does not look at edges",
    }
    for name in MODELS:
        spec = ModelSpec(name, 5, 3, 2, 4, {"relational": True})
        if name not in said:
            assert build_model(spec)
            continue
        with pytest.raises(InputError, match=f"The model '{name}' has no form by relation: {said[name]}"):
            build_model(spec)


def test_a_weighted_mean_by_hand() -> None:
    """Row 0 hears 1 with weight 1 and 4 with weight 2: (1 + 8) / 3 = 3; row 1 hears 2 with weight 5: 2; row 2 nobody."""
    graph = graph_of_edges(torch.tensor([[0, 0], [2, 0], [1, 1]]), 3, edge_weight=torch.tensor([1.0, 2.0, 5.0]))
    layer = SAGE(1, 1, edge_weights=True)
    nn.init.zeros_(layer.own)
    nn.init.ones_(layer.neighbour)
    assert layer(View(graph), torch.tensor([[1.0], [2.0], [4.0]])).tolist() == [[3.0], [2.0], [0.0]]
    with pytest.raises(InputError, match="without edge weights"):
        layer(View(graph_of_edges(torch.tensor([[0, 0]]), 1)), torch.ones(1, 1))
    with pytest.raises(InputError, match="for a mean over neighbours, got max"):
        SAGE(1, 1, aggregate="max", edge_weights=True)


def test_inputs_by_type_by_hand() -> None:
    """Type 0 has two columns, type 1 none, type 2 one; the last column is the type."""
    layer = TypedInput((2, 0, 1), 1)
    with torch.no_grad():
        layer.weights[0].copy_(torch.tensor([[1.0], [10.0]]))
        layer.weights[2].copy_(torch.tensor([[100.0]]))
        layer.bias.copy_(torch.tensor([[0.5], [7.0], [0.0]]))
    x = torch.tensor([[3.0, 4.0, 0.0], [9.0, 9.0, 2.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    view = View(graph_of_edges(torch.empty(0, 2, dtype=torch.int64), 4))
    assert layer(view, x).tolist() == [[43.5], [900.0], [7.0], [1.5]]


def test_dropout_of_typed_inputs_leaves_the_type_alone() -> None:
    model = build_model(ModelSpec("sage", 4, 2, type_widths=(3, 2), settings={"hidden": 8, "input_dropout": 0.9}))
    graph = graph_of_edges(torch.tensor([[0, 1]]), 2)
    x = torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    for _ in range(3):
        model.train()(View(graph), x)  # a code that were dropped or scaled would name no type
    model.eval()(View(graph), x).sum().backward()
    assert all(weight.grad is not None for weight in model.get_submodule("input").parameters())
