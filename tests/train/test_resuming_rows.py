"""Learnt rows of runs that were stopped go on to the bit, with the optimiser's memory of them: in memory, in files, of any team."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.store.graph import Graph
from starling.train.checkpoint_directory import Checkpoint
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.embeddings import EMBEDDINGS
from tests.engine.hybrid.runs import small_graph, unequal_parts
from tests.engine.hybrid.test_typed import build, cuts
from tests.train.links.link_graphs import link_graph
from tests.train.test_resuming import ADAM, EPOCHS, StopAt, Stopped, Tables, assert_same_run, stop_and_go_on, tables_of, train

MINI: Tables = {"strategy": {"name": "mini", "batch_size": 8}}
TASKS: dict[str, Tables] = {
    "nodes": MINI,
    "links": {"task": {"name": "link"}, "strategy": {"name": "mini", "batch_size": 90}, "link": {"split_edges": "80/10/10"}},
    "typed": merged(MINI, {"model": {"name": "rgcn"}}),
}
TEAMS = [("alone", 1), ("hybrid", 2), ("hybrid", 4), ("data", 1), ("data", 2), ("data", 4)]
IN_MEMORY: Tables = {"embedding": {"dim": 4, "optimizer": "adam"}}
IN_FILES: Tables = {"embedding": {"dim": 4, "optimizer": "adagrad", "memory": 48}}
"""Fewer bytes than a row of any worker's table and its state take, but for those who own a single node."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """Graphs of each task, whole (False) and in parts (True); venues of the typed one have no features, other nodes have."""
    folder = tmp_path_factory.mktemp("rows")
    typed = build(folder / "typed", author=3)
    found: dict[tuple[str, bool], Path] = {("typed", False): typed.path, ("typed", True): cuts(typed, folder / "t")["edge-cut"]}
    graphs: dict[str, Graph] = {
        "nodes": small_graph(folder / "nodes", without_x=True),
        "links": link_graph(folder / "links", features=0),
    }
    for name, graph in graphs.items():
        found |= {(name, False): graph.path, (name, True): unequal_parts(graph, folder / f"{name}-parts")["edge-cut"]}
    return found


def config_for(places: dict[tuple[str, bool], Path], task: str, parallel: str, workers: int, *changes: Tables) -> RunConfig:
    team: Tables = {} if parallel == "alone" else {"team": {"parallel": parallel}}
    return RunConfig.from_tables(tables_of(places[task, parallel != "alone"], workers, ADAM, TASKS[task], team, *changes))


def last_arrays(run: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Rows and the optimiser's arrays after the last epoch, as its checkpoint has them."""
    found = Checkpoint.latest(run)
    assert found is not None
    assert found.manifest.epoch == EPOCHS
    return {file.stem: np.load(file) for file in (found.path / EMBEDDINGS).iterdir()}


def assert_same_rows(run: Path, other: Path, names: set[str]) -> None:
    mine, theirs = last_arrays(run), last_arrays(other)
    assert mine.keys() == theirs.keys() == names
    for name, array in theirs.items():
        assert np.count_nonzero(array) > array.size / 20, f"{name} says something"
        np.testing.assert_array_equal(mine[name], array, err_msg=name)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("parallel", "workers"), TEAMS)
@pytest.mark.parametrize(
    ("table", "arrays"), [(IN_MEMORY, {"rows", "mean", "square"}), (IN_FILES, {"rows", "squares"})], ids=["memory", "files"]
)
def test_rows_and_moments_go_on(
    places: dict[tuple[str, bool], Path],
    tmp_path: Path,
    task: str,
    parallel: str,
    workers: int,
    table: Tables,
    arrays: set[str],
) -> None:
    config = config_for(places, task, parallel, workers, table)
    expected = train(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)
    assert_same_rows(tmp_path / "run", tmp_path / "whole", arrays)


@pytest.mark.parametrize(("first", "then"), [(None, 48), (48, None)])
def test_out_of_memory_into_a_file_and_back(
    places: dict[tuple[str, bool], Path], tmp_path: Path, first: int | None, then: int | None
) -> None:
    """--embedding-memory may be another one when a run goes on."""
    before, after = (
        config_for(places, "links", "data", 2, IN_MEMORY, {"embedding": {"memory": memory}}) for memory in (first, then)
    )
    expected = train(before, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(before, tmp_path / "run", watch=StopAt(3))
    result = train(after, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)
    assert_same_rows(tmp_path / "run", tmp_path / "whole", {"rows", "mean", "square"})
