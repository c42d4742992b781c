"""Where a run computes: models on a device with memory of its own, and one sentence for devices that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.core.errors import InputError
from starling.store.graph import Graph
from starling.train import devices
from starling.train.config import RunConfig
from starling.train.setup import check_choices
from tests.engine.hybrid.runs import config_of, learn_together, small_graph, steps
from tests.engine.hybrid.test_equal import MODELS, STRATEGIES, settings_of
from tests.support.card import CARD, a_card

REFUSED: list[tuple[dict[str, dict[str, Any]], str]] = [
    (
        {"sync": {"name": "stale", "staleness": 1}},
        "--sync stale runs on processors so far, got --device cuda. Pass --device cpu.",
    ),
    (
        {"sync": {"name": "average"}, "team": {"parallel": "data"}},
        "--sync average with several workers runs on processors so far, got --device cuda.",
    ),
    ({"task": {"name": "link"}}, "--task link on parts runs on processors so far, got --device cuda."),
    (
        {"run": {"device": "cuda:1"}},
        "Each of 2 workers takes a graphics card of its own, got --device cuda:1. Pass --device cuda.",
    ),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return small_graph(tmp_path_factory.mktemp("graph") / "g")


def on(device: str, config: RunConfig) -> RunConfig:
    return config.model_copy(update={"run": config.run.model_copy(update={"device": device})})


@pytest.mark.parametrize("model", MODELS)
def test_one_process_on_a_card(graph: Graph, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(graph.path, 1, settings_of(model), STRATEGIES["mini"])
    expected = steps(config)
    monkeypatch.setattr(devices, "check_device", lambda _name: None)
    with a_card():
        found = steps(on(CARD.type, config))
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-6)


def test_evaluation_on_a_card(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(graph.path, 1, settings_of("gcn"))
    (expected,) = learn_together(config, tmp_path / "here")
    monkeypatch.setattr(devices, "check_device", lambda _name: None)
    with a_card():
        (found,) = learn_together(on(CARD.type, config), tmp_path / "there")
    np.testing.assert_allclose(found.losses, expected.losses, rtol=2e-4)
    assert found.test == expected.test


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_what_graphics_cards_do_not_do(
    graph: Graph, changes: dict[str, dict[str, Any]], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    tables = config_of(graph.path, 2, settings_of("gcn"), STRATEGIES["mini"]).to_tables()
    asked = {"run": {"device": "cuda"}} | changes
    tables |= {name: {**tables.get(name, {}), **values} for name, values in asked.items()}
    with pytest.raises(InputError) as caught:
        check_choices(RunConfig.from_tables(tables))
    assert sentence in str(caught.value)


def test_the_pretended_card_refuses_what_a_card_refuses() -> None:
    """Else the tests on it would show nothing."""
    here = torch.ones(3, 2)
    with a_card():
        there = here.to(CARD)
        assert there.device == CARD
        assert torch.equal((there + 1).cpu(), here + 1)
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
        for mixed in (lambda: there + here, lambda: there[torch.arange(2)], lambda: torch.cat([there, torch.zeros(1, 2)])):
            with pytest.raises(RuntimeError, match="expected all tensors on one device"):
                mixed()
        weight = there.clone().requires_grad_()
        (weight * there).sum().backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        assert weight.grad.device == CARD
