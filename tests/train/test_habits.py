"""What models are seen to do with their graph, for every model there is and for a user's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from starling.engine.hybrid.share.source import WorkerSource
from starling.nn.gather import Copy
from starling.nn.registry import MODELS, ModelSpec, build_model
from starling.nn.view import Size, View
from starling.train.habits import Habits, Means, habits_of

SOURCE = SimpleNamespace(
    features=SimpleNamespace(width=6),
    device=torch.device("cpu"),
    size=Size(100, 100, 900),
    edge_tables={"weight": torch.ones(3), "attr": torch.ones(3, 2), "type": torch.zeros(3, dtype=torch.int64)},
)


def habits(model: nn.Module) -> Habits:
    return habits_of(model, cast(WorkerSource, SOURCE))


def make(name: str, **settings: Any) -> nn.Module:
    return build_model(ModelSpec(name, 6, 3, edge_features=2, relations=1, settings=settings), 0)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_model_asks_for_a_list_of_edges(name: str) -> None:
    assert not habits(make(name)).lists_edges


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sage", {"aggregate": "max"}),
        ("sage", {"aggregate": "lstm"}),
        ("rgcn", {"bases": 1}),
        ("gcn", {"edge_weights": True}),
        ("sage", {"norm": "batch", "dropout": 0.5, "residual": True}),
        ("sage", {"relational": True}),
    ],
)
def test_a_look_leaves_a_model_as_it_was(name: str, settings: dict[str, Any]) -> None:
    model = make(name, **settings)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert not habits(model).lists_edges
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("training", [True, False])
def test_a_model_trains_afterwards_if_it_did_before(training: bool) -> None:
    model = make("sage").train(training)
    habits(model)
    assert all(module.training is training for module in model.modules())


@pytest.mark.parametrize(("dropout", "raw"), [(0.0, True), (0.5, False)])
def test_input_that_is_summed_as_it_is(dropout: float, raw: bool) -> None:
    """A hidden layer wider than the features: summing first is cheaper, unless dropout comes before."""
    assert habits(make("gcn", hidden=64, input_dropout=dropout)).sums_raw_input is raw


class Peeks(nn.Module):
    """Sums, and then looks at the edges themselves."""

    def forward(self, view: View, x: Tensor) -> Tensor:
        return view.aggregate(Copy(), "sum", x) * len(view.graph.neighbours)


def test_a_users_model_that_looks_at_edges() -> None:
    assert habits(Peeks()) == Habits(sums_raw_input=True, lists_edges=True, means=Means(of_raw_input=False, of_others=False))


@pytest.mark.parametrize(
    ("name", "settings", "means"),
    [
        ("sage", {}, True),
        ("sage", {"edge_weights": True}, True),
        ("rgcn", {}, False),
        ("sage", {"relational": True}, False),
        ("sage", {"aggregate": "max"}, False),
        ("gcn", {"edge_weights": True}, False),
        ("gin", {}, False),
        ("gat", {}, False),
    ],
)
def test_who_takes_means(name: str, settings: dict[str, Any], means: bool) -> None:
    found = habits(make(name, **settings)).means
    assert (found.of_raw_input or found.of_others) is means


def test_convolutions_of_pyg_are_given_edges() -> None:
    pytest.importorskip("torch_geometric")
    found = habits(build_model(ModelSpec("pyg:SAGEConv", 6, 3), 0))
    assert found == Habits(sums_raw_input=False, lists_edges=False, means=Means(of_raw_input=False, of_others=False))
