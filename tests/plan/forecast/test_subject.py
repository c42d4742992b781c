"""What a forecast is about: a graph and its parts give the numbers that training will have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from starling.cli.main import run
from starling.core.errors import InputError
from starling.plan.forecast import subject as module
from starling.plan.forecast.facts import facts_of_numbers
from starling.plan.forecast.sizes import mini_sizes, saint_sizes
from starling.plan.forecast.subject import Numbers, Subject, open_subject
from starling.plan.forecast.ways import Way
from starling.store.graph import open_graph
from starling.store.parts_manifest import PartsManifest
from tests.support.trainable import trainable_graph

MINI = Way("mini", "hybrid", "gradient", 1, 1, batch_size=64, fanouts=(4, 3))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A graph and four parts of it."""
    folder = tmp_path_factory.mktemp("subjects")
    graph, parts = folder / "graph", folder / "parts"
    size = ["--nodes", "1500", "--edges", "9000", "--classes", "4", "--features", "8"]
    assert run(["generate", "dcsbm", *size, "-o", str(graph), "--quiet"]) == 0
    assert run(["partition", str(graph), "-p", "4", "-o", str(parts), "--quiet"]) == 0
    return graph, parts


def test_parts_are_taken_as_they_are(places: tuple[Path, Path]) -> None:
    manifest, subject = PartsManifest.read(places[1]), open_subject(places[1])
    four, two = subject.cut(4).safe, subject.cut(2).safe
    assert four.copies == sum(record.halo[0] for record in manifest.shards)
    assert four.nodes == max(record.nodes for record in manifest.shards)
    first = manifest.shards[0].nodes + manifest.shards[1].nodes
    assert two.nodes == max(first, manifest.nodes - first)
    assert subject.facts.train == manifest.splits["train"]
    assert subject.parts == 4


def test_a_trial_cut_is_the_cut_that_training_makes(places: tuple[Path, Path]) -> None:
    graph, parts = (open_subject(place).cut(4).likely for place in places)
    assert graph == parts


def test_a_graph_is_known_exactly(places: tuple[Path, Path]) -> None:
    graph, subject = open_graph(places[0]), open_subject(places[0])
    assert (subject.facts.nodes, subject.facts.edges) == (1500, graph.manifest.edges)
    assert subject.facts.degrees.edges == graph.manifest.edges
    assert subject.facts.train == int(np.asarray(graph.node_table("train")).sum())
    assert not subject.notes


def test_drawn_batches_are_within_reckoned_ones(places: tuple[Path, Path]) -> None:
    subject = open_subject(places[0])
    drawn, reckoned = subject.sizes(MINI, 2), mini_sizes(subject.facts, (4, 3), 64)
    assert drawn.likely.steps == reckoned.likely.steps
    assert drawn.likely.inputs <= 1.05 * reckoned.likely.inputs
    assert drawn.likely.inputs >= 0.5 * reckoned.likely.inputs
    assert drawn.safe.inputs >= drawn.likely.inputs


def test_workers_of_data_share_a_step(places: tuple[Path, Path]) -> None:
    subject = open_subject(places[0])
    shared = subject.sizes(Way("mini", "data", "gradient", 4, 4, batch_size=64, fanouts=(4, 3)), 2)
    whole = subject.sizes(MINI, 2)
    assert shared.likely.steps == whole.likely.steps
    assert shared.likely.targets <= whole.likely.targets / 3


def test_large_graphs_are_neither_cut_nor_sampled(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EDGES_TO_CUT", 100)
    monkeypatch.setattr(module, "MOST_EDGES_TO_DRAW", 100)
    subject = open_subject(places[0])
    assert not subject.cut(4).likely.exact
    assert subject.sizes(MINI, 2).likely == mini_sizes(subject.facts, (4, 3), 64).likely
    assert len(subject.notes) == 2


@pytest.mark.parametrize("strategy", ["global", "mini", "cluster", "cohesive", "saint"])
def test_every_strategy_has_sizes(strategy: str) -> None:
    subject: Subject = Numbers(facts_of_numbers(5000, 40_000, 8, classes=3, train=1000))
    sizes = subject.sizes(Way(strategy, "hybrid", "gradient", 1, 1, batches=4), 3)
    assert len(sizes.likely.layers) == len(sizes.safe.layers) == 3
    for likely, safe in zip(sizes.likely.layers, sizes.safe.layers, strict=True):
        assert 0 < likely.destinations <= likely.sources <= 5000
        assert safe.sources >= likely.sources
        assert safe.edges >= likely.edges


def test_drawn_sub_graphs_are_within_reckoned_ones(places: tuple[Path, Path]) -> None:
    """Sub-graphs that `saint` draws have at most the nodes and edges that memory reckons with, and about the expected nodes."""
    way, subject = Way("saint", "hybrid", "gradient", 1, 1), open_subject(places[0])
    drawn, reckoned = subject.sizes(way, 2), saint_sizes(subject.facts, 2)
    assert drawn.likely.inputs == pytest.approx(reckoned.likely.inputs, rel=0.15)
    assert drawn.safe.layers[0].edges <= reckoned.safe.layers[0].edges
    assert drawn.likely.steps == pytest.approx(reckoned.likely.steps, abs=1)
    assert drawn.likely.layers[0] == drawn.likely.layers[1], "all layers share a sub-graph"


def test_edges_may_be_evened_out() -> None:
    facts = facts_of_numbers(100_000, 1_000_000, 8, classes=3, train=1000)
    assert Numbers(facts, edge_balance=1.05).cut(64).safe.edges < Numbers(facts).cut(64).safe.edges / 2


def test_a_graph_without_labels_is_refused(tmp_path: Path) -> None:
    graph = trainable_graph(tmp_path / "graph", without=("y",))
    with pytest.raises(InputError, match="no labels"):
        open_subject(graph.path)
