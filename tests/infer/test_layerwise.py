"""Layer by layer in blocks equals the whole graph at once, for every model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from starling.engine.source import GraphSource, SourceRequest, open_source
from starling.infer.layerwise import Inference, row_blocks
from starling.nn.registry import MODELS, ModelSpec, build_model
from starling.nn.view import View
from tests.support.trainable import trainable_graph

SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {} for name in MODELS},
    "gcn+": {"norm": "batch", "residual": True, "jump": "cat", "dropout": 0.5, "layers": 3, "edge_weights": True},
    "sage+": {"aggregate": "lstm", "norm": "layer", "jump": "max", "inner": 1},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> GraphSource:
    draw = np.random.default_rng(0)
    tables = {"weight": draw.random(300), "attr": draw.random((300, 2)), "type": draw.integers(0, 3, 300)}
    stored = {name: table.astype(np.uint8 if name == "type" else np.float32) for name, table in tables.items()}
    path = tmp_path_factory.mktemp("infer") / "g"
    trainable_graph(path, edge_tables=stored)
    return open_source(path, SourceRequest(edge_tables=("weight", "attr", "type")))


def model_of(name: str, source: GraphSource) -> torch.nn.Module:
    spec = ModelSpec(
        name.rstrip("+"),
        source.features.width,
        3,
        edge_features=2,
        relations=source.relations,
        settings={**({} if name == "sgc" else {"hidden": 8}), **SETTINGS[name]},
    )
    return build_model(spec, 1)


@pytest.mark.parametrize("name", SETTINGS)
def test_blocks_equal_the_whole(name: str, source: GraphSource) -> None:
    model = model_of(name, source).eval()
    with torch.no_grad():
        expected = model(View(source.whole), source.x).numpy()
    inference = Inference(source, memory=1 << 13)
    assert len(list(row_blocks(source, source.nodes, 256, 0, inference.memory // 4))) > 5
    table = inference.outputs(model)
    assert not inference._fits(model)
    np.testing.assert_allclose(table.read(0, 60), expected, rtol=1e-5, atol=1e-5)
    at_once = Inference(source, memory=1 << 30).outputs(model)
    np.testing.assert_allclose(at_once.read(0, 60), expected, rtol=1e-5, atol=1e-5)


def test_rows_on_disk_and_the_mode_is_restored(source: GraphSource) -> None:
    model = model_of("gcn+", source).train()
    table = Inference(source, memory=256).outputs(model)
    assert table.on_disk
    assert model.training
    with torch.no_grad():
        expected = model.eval()(View(source.whole), source.x).numpy()
    np.testing.assert_allclose(table.read(0, 60), expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_is_not_layered(source: GraphSource) -> None:
    class Mean(torch.nn.Module):
        def forward(self, view: View, x: torch.Tensor) -> torch.Tensor:
            return x.mean(1, keepdim=True)

    table = Inference(source, memory=256).outputs(Mean())
    np.testing.assert_allclose(table.read(0, 60), source.x.mean(1, keepdim=True))
