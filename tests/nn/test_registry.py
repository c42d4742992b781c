"""Models by name: settings, options of the stack, errors a user can meet, initial weights, PyG's convolutions, users' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from starling.core.errors import InputError
from starling.nn.graph import graph_of_edges
from starling.nn.initial import initialise
from starling.nn.layers.gat import GAT
from starling.nn.model import LayeredModel
from starling.nn.registry import MODELS, ModelSpec, build_model, model_settings
from starling.nn.stack import Stack
from starling.nn.view import View
from tests.nn.graphs import make, rows

SMALL = {"hidden": 8, "layers": 2}


def spec(name: str, **settings: object) -> ModelSpec:
    return ModelSpec(name, 5, 3, 3, 4, SMALL | settings)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "options",
    [{}, {"norm": "batch", "residual": True, "jump": "cat"}, {"norm": "layer", "jump": "max", "inner": 1, "layers": 3}],
    ids=["plain", "batch", "deep"],
)
def test_every_model_runs_with_every_option(name: str, options: dict[str, object]) -> None:
    if name == "sgc":
        made = ModelSpec(name, 5, 3, settings={"layers": options.get("layers", 2)})
    else:
        made = spec(name, **options)
    model, graph = build_model(made), make()
    out = model(View(graph), rows(graph, 5))
    assert out.shape == (11, 3)
    out.sum().backward()
    used = [p for p in model.parameters() if p.grad is not None]
    assert len(used) > 0
    assert all(torch.isfinite(p.grad).all() for p in used)


@pytest.mark.parametrize("name", ["sage", "gat"])
def test_blocks_give_what_the_whole_graph_gives(name: str) -> None:
    """Two targets through blocks with all their neighbours: outermost first, destinations the first of the sources."""
    pairs = torch.tensor([[1, 0], [2, 0], [3, 1], [4, 2], [0, 3], [2, 4], [4, 0]])
    model = build_model(spec(name, jump="cat"))
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    whole = model(View(graph_of_edges(pairs, 5)), x)
    inner = graph_of_edges(pairs[pairs[:, 1] < 2], 5, 2)
    outer = graph_of_edges(pairs, 5)
    torch.testing.assert_close(model([View(outer), View(inner)], x), whole[:2])


def test_layer_by_layer_equals_all_at_once() -> None:
    model, graph = build_model(spec("sage", jump="max", norm="batch", layers=3)).eval(), make()
    assert isinstance(model, LayeredModel)
    h, outputs, view = rows(graph, 5), [], View(graph)
    for index in range(model.layer_count):
        h = model.layer(index, view, h)
        outputs.append(h)
    torch.testing.assert_close(model.finish(view, outputs), model(view, rows(graph, 5)))


def test_the_wrong_number_of_views_is_refused() -> None:
    view = View(make())
    with pytest.raises(InputError, match="each of 2 layers, got 3"):
        build_model(spec("gcn"))([view] * 3, rows(view.graph, 5))


def test_unknown_names_are_suggested() -> None:
    with pytest.raises(InputError, match="Did you mean 'sage'"):
        build_model(spec("sagee"))
    with pytest.raises(InputError, match=r"no setting 'droput'. Did you mean 'dropout'"):
        build_model(spec("gcn", droput=0.5))
    with pytest.raises(InputError, match="heads"):
        build_model(spec("gcn", heads=2))
    with pytest.raises(InputError, match=r"no setting 'nam'. Did you mean 'name'"):
        build_model(spec("gcn", nam="sage"))
    with pytest.raises(InputError, match=r"no model 'gnc'. Did you mean 'gcn'"):
        build_model(spec("gnc"))
    with pytest.raises(InputError, match=r"'sgc' has no setting 'hidden'"):
        build_model(spec("sgc"))
    with pytest.raises(InputError, match=r"'dropout' of the model 'gcn'.*got 1.5"):
        build_model(spec("gcn", dropout=1.5))
    with pytest.raises(InputError, match=r"divisible by 3 heads"):
        build_model(spec("gat", heads=3))


def test_settings_are_complete() -> None:
    settings = model_settings(spec("gat", heads=2))
    assert settings.model_dump()["activation"] == "elu"
    assert settings.model_dump()["heads"] == 2
    assert settings.model_dump()["hidden"] == 8


def test_weights_depend_on_the_seed_and_the_name_alone() -> None:
    two, three = (dict(build_model(spec("sage", layers=count), seed=1).named_parameters()) for count in (2, 3))
    assert torch.equal(two["graph_layers.0.own"], three["graph_layers.0.own"])
    assert not torch.equal(two["graph_layers.0.own"], two["graph_layers.0.neighbour"])
    other = dict(build_model(spec("sage"), seed=2).named_parameters())
    assert not torch.equal(two["graph_layers.0.own"], other["graph_layers.0.own"])


@pytest.mark.parametrize(("name", "settings"), [("gin", {"norm": "batch"}), ("sage", {"aggregate": "lstm"})])
def test_torchs_own_generator_is_left_alone(name: str, settings: dict[str, Any]) -> None:
    """Workers that are threads share it, so weights drawn from it would depend on who comes first."""
    before = torch.random.get_rng_state()
    model = build_model(spec(name, **settings), seed=1)
    first = [p.clone() for p in model.parameters()]
    initialise(model, 1)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(5)
    again = build_model(spec(name, **settings), seed=1)
    for ours in (model, again):
        assert all(torch.equal(a, b) for a, b in zip(first, ours.parameters(), strict=True))


def test_torchs_modules_start_within_torchs_bounds() -> None:
    """Uniform in ± 1 / √5, as five columns are read."""
    layer = build_model(spec("gin"), seed=1).get_submodule("graph_layers.0.first")
    assert isinstance(layer, nn.Linear)
    bound = layer.in_features**-0.5
    for weight in (layer.weight, layer.bias):
        assert 0.5 * bound < weight.abs().max() <= bound


def test_glorot_bound() -> None:
    layer = GAT(30, 40, heads=2)
    bound = (6 / 70) ** 0.5
    assert layer.weight.abs().max() <= bound
    assert layer.weight.abs().max() > 0.95 * bound
    assert not layer.bias.any()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_pyg_convolution_is_a_model() -> None:
    model, graph = build_model(spec("pyg:SAGEConv", options={"aggr": "max"})), make(True)
    assert isinstance(model, Stack)
    square = make()
    assert model(View(square), rows(square, 5)).shape == (11, 3)
    layer = model.graph_layers[0]
    h = rows(graph, 5)
    expected = layer.convolution((h, h[: graph.destinations]), torch.stack([graph.neighbours.long(), graph.edge_destination]))
    assert torch.equal(layer(View(graph), h), expected)
    again = build_model(spec("pyg:SAGEConv", options={"aggr": "max"}))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(InputError, match="Did you mean 'GATv2Conv'"):
        build_model(spec("pyg:GATv2"))
    with pytest.raises(InputError, match="cannot be made"):
        build_model(spec("pyg:SAGEConv", options={"nonsense": 1}))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "GCNConv",
            r"GCNConv does not take rows of sources and destinations as a pair.*such as pyg:SAGEConv, or --model gcn\.$",
        ),
        ("GINConv", r"GINConv does not take the widths of its input and output.*such as pyg:SAGEConv, or --model gin\.$"),
        ("APPNP", r"APPNP does not take the widths.*such as pyg:SAGEConv\.$"),
    ],
)
def test_pyg_convolutions_that_are_no_layer_of_a_stack(name: str, sentence: str) -> None:
    pytest.importorskip("torch_geometric")
    with pytest.raises(InputError, match=sentence):
        build_model(spec(f"pyg:{name}"))


def test_a_users_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "from starling.nn.layers.sage import SAGE\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, features, classes, width=4):\n"
        "        super().__init__()\n"
        "        self.one, self.two = SAGE(features, width), SAGE(width, classes)\n"
        "    def forward(self, view, x):\n"
        "        return self.two(view, self.one(view, x).relu())\n"
    )
    graph = make()
    model = build_model(ModelSpec(f"{file}:Net", 5, 3, settings={"width": 6}))
    assert model(View(graph), rows(graph, 5)).shape == (11, 3)
    with pytest.raises(InputError, match="Did you mean 'Net'"):
        build_model(ModelSpec(f"{file}:Nett", 5, 3))
    with pytest.raises(InputError, match="There is no file"):
        build_model(ModelSpec(f"{tmp_path}/other.py:Net", 5, 3))
    with pytest.raises(InputError, match=r"cannot make Net\(features, classes, depth\): TypeError"):
        build_model(ModelSpec(f"{file}:Net", 5, 3, settings={"depth": 1}))
    file.write_text("import torch\n1 / 0\n")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        build_model(ModelSpec(f"{file}:Net", 5, 3))
