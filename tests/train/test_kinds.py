"""Kinds of runs: a config finds its own, and a new one needs a line in the table and nothing else."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from starling.core.errors import InputError
from starling.store.graph import create_graph
from starling.stream.generators import GENERATORS
from starling.stream.ingest import ImportOptions
from starling.train.averaging.loop import AveragingLoop
from starling.train.config import RunConfig
from starling.train.epochs import EpochLoop
from starling.train.journal import Journal
from starling.train.kinds import KINDS, Loop, RunKind, kind_of
from starling.train.learning import Learning
from starling.train.trainer import fit


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = GENERATORS["dcsbm"]
    settings = generator.settings(nodes=40, edges=120, classes=2, features=4, split=(50, 25, 25), seed=0)
    path = tmp_path_factory.mktemp("kinds") / "graph"
    create_graph(generator.make(settings), path, ImportOptions(direction="undirected", self_loops="drop"))
    return path


def config(path: Path, **tables: Any) -> RunConfig:
    return RunConfig.from_tables({"data": {"path": path}, "run": {"epochs": 3}, **tables})


def test_a_config_finds_its_kind() -> None:
    path = Path("graph")
    assert kind_of(config(path)) is KINDS["ordinary"]
    assert kind_of(config(path, sync={"name": "stale", "staleness": 1})) is KINDS["ordinary"]
    averaged = config(path, sync={"name": "average"}, team={"parallel": "data"})
    assert kind_of(averaged) is KINDS["averaging"]
    assert kind_of(averaged).loop is AveragingLoop
    assert kind_of(config(path, task={"name": "link"})) is KINDS["link prediction"]


class Twice:
    """A loop that is another one, and counts."""

    runs = 0

    def __init__(self, journal: Journal, learning: Learning) -> None:
        self._inner: Loop = EpochLoop(journal, learning)

    def epochs(self, after: int = 0) -> Generator[int]:
        Twice.runs += 1
        return self._inner.epochs(after)

    def state(self) -> Mapping[str, Any]:
        return self._inner.state()

    def own_state(self) -> Mapping[str, Any]:
        return self._inner.own_state()

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self._inner.restore(state, own)


def test_a_new_kind_is_a_line_in_the_table(graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fit` runs whatever kind the table has first, and the result is that of its loop."""
    expected = fit(config(graph), tmp_path / "ordinary")
    new = {"new": replace(KINDS["ordinary"], loop=Twice), **KINDS}
    monkeypatch.setattr("starling.train.kinds.KINDS", new)
    found = fit(config(graph), tmp_path / "new")
    assert Twice.runs == 1
    assert found.losses == expected.losses
    assert found.scores == expected.scores


def test_what_is_refused_leaves_no_directory(graph: Path, tmp_path: Path) -> None:
    """A loop is begun, and its directory made, only when everything that may be refused has been looked at."""
    stale = config(graph, sync={"name": "stale", "staleness": 1}, strategy={"name": "global"})
    with pytest.raises(InputError, match="an epoch is one step"):
        fit(stale, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_table_ends_with_a_kind_that_takes_all() -> None:
    """So that every config has one; kinds before it are asked first."""
    last: RunKind = list(KINDS.values())[-1]
    assert last.asked(config(Path("graph"), task={"name": "link"}))
    assert last.asked(config(Path("graph"), sync={"name": "average"}, team={"parallel": "data"}))
