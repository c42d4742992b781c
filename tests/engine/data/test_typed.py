"""Node types over the key-value store: each type's own features, embeddings for types without, caches of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.embeddings import EMBEDDINGS, ROWS
from tests.engine.data.cases import learn_on_hosts
from tests.engine.hybrid.runs import Learnt, assert_identical, assert_same
from tests.engine.hybrid.test_typed import build, cuts, typed

CASE = "rgat, all neighbours"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return build(tmp_path_factory.mktemp("typed") / "graph", author=3)


@pytest.fixture(scope="module")
def parts(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuts(graph, tmp_path_factory.mktemp("typed-parts"))["edge-cut"]


def learnt(config: RunConfig, run: Path, hosts: list[int]) -> Learnt:
    seen = learn_on_hosts(config, run, hosts)[0]
    return Learnt(seen.losses, seen.weights | {"rows": np.load(run / EMBEDDINGS / ROWS)}, seen.test, seen.bytes_sent)


def test_a_worker_without_a_part_is_refused(parts: Path, tmp_path: Path) -> None:
    """It would not know how wide rows are."""
    with pytest.raises(InputError, match="need a part for every worker, got 4"):
        learn_on_hosts(typed(parts, 5, CASE, team={"parallel": "data"}), tmp_path / "run", [0] * 5)


@pytest.mark.parametrize("normalize", ["none", "standard"])
def test_data_parallel_teams_learn_what_one_process_learns(graph: Graph, parts: Path, tmp_path: Path, normalize: str) -> None:
    """Venues have no features: their rows are learnt at their owners."""
    data: dict[str, Any] = {"data": {"normalize": normalize}}
    alone = learnt(typed(graph.path, 1, CASE, **data), tmp_path / "alone", [0])
    team = {"parallel": "data", "shuffle": "global"}
    seen = learnt(typed(parts, 2, CASE, team=team, **data), tmp_path / "team", [0, 1])
    assert_same(seen, alone)
    assert_same(learnt(typed(parts, 4, CASE, team=team, **data), tmp_path / "four", [0, 1, 2, 3]), alone)
    near = learnt(typed(parts, 2, CASE, team={**team, "cache": 400}, **data), tmp_path / "near", [0, 0])
    assert_identical(near, seen)
    cached = learnt(typed(parts, 2, CASE, team={**team, "cache": 200}, **data), tmp_path / "cached", [0, 1])
    assert_identical(cached, seen)
    assert cached.bytes_sent < seen.bytes_sent


def test_a_cache_by_relation_changes_no_bit(parts: Path, tmp_path: Path) -> None:
    """What is read most often goes by each relation's own fan-outs."""
    plain, cached = (
        learnt(typed(parts, 2, "rgat, by relation", team={"parallel": "data", "cache": cache}), tmp_path / str(cache), [0, 1])
        for cache in (0, 200)
    )
    assert_identical(cached, plain)
    assert cached.bytes_sent < plain.bytes_sent


@pytest.mark.parametrize("case", ["rgat, all neighbours", "rgat, by relation", "weighted sage"])
def test_workers_see_the_graph_as_it_was(graph: Graph, parts: Path, tmp_path: Path, case: str) -> None:
    """Edges after time 3 are left out of samples and degrees, whoever holds their lists; attributes stay with their edges."""
    then: dict[str, Any] = {"data": {"before": 3}}
    alone = learnt(typed(graph.path, 1, case, **then), tmp_path / "alone", [0])
    team = {"parallel": "data", "shuffle": "global"}
    seen = learnt(typed(parts, 2, case, team=team, **then), tmp_path / "team", [0, 1])
    assert_same(seen, alone)
    assert_same(learnt(typed(parts, 4, case, team=team, **then), tmp_path / "four", [0, 1, 2, 3]), alone)
    later = learnt(typed(graph.path, 1, case), tmp_path / "later", [0])
    assert abs(alone.losses[0] - later.losses[0]) > 1e-4
