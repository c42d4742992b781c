"""Bytes that a forecast promises are those that a team's ledger counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.nn.registry import MODELS, ModelSpec, build_model
from starling.plan.forecast.cut import cut_of_parts, whole
from starling.plan.forecast.facts import facts_of_graph, facts_of_numbers
from starling.plan.forecast.model import TENSORS, forecast_model
from starling.plan.forecast.sizes import global_sizes
from starling.plan.forecast.traffic import reduced_bytes, traffic
from starling.plan.forecast.ways import Way
from starling.store.parts_manifest import PartsManifest
from starling.train.config import RunConfig
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.trainable import trainable_graph


def trained_bytes(parts: Path, model: str, workers: int, tmp_path: Path, **team: object) -> int:
    """Bytes of an epoch of a real run, the median."""
    config = RunConfig.from_tables(
        {
            "data": {"path": str(parts)},
            "model": {"name": model, "layers": 3, "hidden": 40},
            "run": {"epochs": 3, "evaluate_every": 3},  # the first epoch sends features, once
            "team": {"workers": workers, **team},
        }
    )
    runs = run_threads(workers, lambda t: fit(config, tmp_path / "run" if t.rank == 0 else None, team=t))
    return runs[0].bytes_sent_per_epoch


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "gatv2", "gin", "rgcn", "rgat"])
def test_a_team_sends_what_was_promised(model: str, tmp_path: Path) -> None:
    types = np.random.default_rng(0).integers(0, 3, 1200).astype(np.int32)
    graph = trainable_graph(tmp_path / "graph", nodes=200, edges=1200, features=24, edge_tables={"type": types})
    parts = cut(graph, tmp_path / "cut", 3, np.random.default_rng(1).integers(0, 3, 200))
    facts, way = replace(facts_of_graph(graph), relations=3), Way("global", "hybrid", "gradient", 3, 3)
    shape, made = forecast_model(model, facts, layers=3, hidden=40), cut_of_parts(PartsManifest.read(parts), 3)
    promised = traffic(facts, shape, way, global_sizes(facts, 3).likely, made.likely)
    sent = trained_bytes(parts, model, 3, tmp_path)
    assert promised.epoch_bytes == pytest.approx(sent, rel=0.01)


def test_the_sum_of_gradients_by_hand() -> None:
    assert reduced_bytes(100, 3) == 4 * 100 * 3 * 2, "few numbers go whole to everybody"
    assert reduced_bytes(10_000, 4) == 4 * 10_000 * 2 * 3, "a slice to each for adding, and the sums back"


def test_one_process_sends_nothing() -> None:
    facts = facts_of_numbers(100, 500, 8, classes=2, train=50)
    model = forecast_model("sage", facts)
    way = Way("global", "hybrid", "gradient", 1, 1)
    assert traffic(facts, model, way, global_sizes(facts, 2).likely, whole(facts).likely).epoch_bytes == 0


def test_models_have_the_weights_of_real_ones() -> None:
    facts = facts_of_numbers(100, 500, 12, classes=3, train=50, edge_features=5, relations=4)
    assert set(TENSORS) <= set(MODELS)
    for name in TENSORS:
        settings = {"layers": 2} if name == "sgc" else {"layers": 2, "hidden": 16}
        real = build_model(ModelSpec(name, 12, 3, edge_features=5, relations=4, settings=settings))
        weights = [weight for weight in real.parameters() if weight.requires_grad]
        shape = forecast_model(name, facts, layers=2, hidden=16)
        assert shape.tensors == len(weights), name
        assert shape.weights == pytest.approx(sum(weight.numel() for weight in weights), rel=0.05), name


def test_models_of_parts_in_turn_are_averaged_in_float64() -> None:
    """8 bytes a weight, there and back; three runs that averaged nothing else sent this much. Moments are two numbers more."""
    for features, classes, model, workers, sent in (
        (602, 40, "sage", 2, 2_632_352),
        (32, 8, "sage", 4, 995_904),
        (128, 16, "gat", 2, 301_856),
    ):
        facts = facts_of_numbers(1000, 5000, features, classes=classes, train=500)
        shape = forecast_model(model, facts, hidden=256 if workers == 4 else 128)
        way = Way("mini", "data", "average", 4 * workers, workers, fanouts=(10, 10))
        promised = traffic(facts, shape, way, global_sizes(facts, 2).likely, whole(facts).likely)
        assert promised.epoch_bytes == pytest.approx(3 * sent, rel=0.001)
