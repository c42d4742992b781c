"""Graphs without negatives and splits that leak are refused by every worker of a team alike, however many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.train.config import RunConfig
from starling.train.links.settings import AVERAGED_NEGATIVES
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.train.links.link_graphs import link_graph
from tests.train.links.test_training import config_of, learn_together

COMPLETE = np.array([(u, v) for u in range(12) for v in range(u)])
LINKS = np.array([(0, 1), (2, 3), (4, 5), (6, 7)])
GRAPHS: dict[str, dict[str, Any]] = {
    "complete": {"pairs": COMPLETE},
    "all but complete": {"nodes": 40, "pairs": np.array([(u, v) for u in range(40) for v in range(u)][1:])},
    "leak": {"pairs": LINKS, "edge_tables": {"split": np.array([0, 2, 0, 0, 1, 1, 2, 2], np.uint8)}},
    "leak into validation": {"pairs": LINKS, "edge_tables": {"split": np.array([0, 0, 1, 2, 1, 1, 2, 2], np.uint8)}},
    "leak by relation": {
        "pairs": np.array([(0, 1), (0, 1), (0, 1), (2, 3)]),
        "directed": True,
        "edge_tables": {"split": np.array([0, 2, 2, 2], np.uint8), "type": np.array([0, 1, 0, 0], np.uint8)},
    },
    "sound": {"pairs": LINKS, "edge_tables": {"split": np.array([0, 0, 0, 0, 1, 1, 2, 2], np.uint8)}},
}
"""A leak is an edge from a node of one worker to one of another, and its reverse; by relation a repeat of the same relation."""
SENTENCES = {
    "complete": "Every pair of the 12 nodes is an edge already, so no pair is left to tell edges from",
    "all but complete": "Nearly every pair of the 40 nodes is an edge",
    "leak": "1 stand, one way or the other, in an earlier split too",
    "leak into validation": "1 stand, one way or the other, in an earlier split too",
    "leak by relation": "1 stand in an earlier split too",
}
PARALLEL = ("hybrid", "data", "average")
NEGATIVES = ("uniform", "degree", "batch", "local", "pairs", "shared")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Each graph, and in four parts in which neighbouring numbers have different owners."""
    folder, found = tmp_path_factory.mktemp("links"), {}
    for name, given in GRAPHS.items():
        graph = link_graph(folder / name / "g", **{"nodes": 12, **given})
        owner: NDArray[Any] = np.arange(graph.nodes) % 4
        found[name] = graph.path, cut(graph, folder / name / "cut", 4, owner)
    return found


def config_for(place: tuple[Path, Path], case: str, workers: int, parallel: str, **link: Any) -> RunConfig:
    path = place[0] if workers == 1 and parallel == "hybrid" else place[1]
    shares = {} if "split" in GRAPHS[case].get("edge_tables", {}) else {"split_edges": "80/10/10"}
    average = parallel == "average"
    config = config_of(path, workers, epochs=1, team={"parallel": "data" if average else parallel}).to_tables()
    sync = {"sync": {"name": "average"}} if average else {}
    return RunConfig.from_tables({**config, **sync, "link": {**shares, **link}})


def sentences(config: RunConfig, run: Path) -> list[str]:
    """What each worker says; one that is not refused fails, and one that waits for others would never end."""

    def refused(team: Team) -> str:
        with pytest.raises(InputError) as error:
            fit(config, run, team=team)
        return str(error.value)

    return run_threads(config.team.workers, refused)


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("case", SENTENCES)
def test_every_worker_refuses(
    places: dict[str, tuple[Path, Path]], tmp_path: Path, case: str, workers: int, parallel: str
) -> None:
    link = {"negatives": "batch"} if parallel == "average" else {}  # with local ones, parts that are complete are named first
    for said in sentences(config_for(places[case], case, workers, parallel, **link), tmp_path / "run"):
        assert SENTENCES[case] in said
    if case != "all but complete":  # which only the draws of an evaluation tell
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("negatives", "parallel"),
    [
        *((kind, parallel) for kind in NEGATIVES for parallel in ("hybrid", "data")),
        *((kind, "average") for kind in AVERAGED_NEGATIVES),
    ],
)
def test_no_kind_of_negatives_is_possible(
    places: dict[str, tuple[Path, Path]], tmp_path: Path, negatives: str, parallel: str
) -> None:
    config = config_for(places["complete"], "complete", 2, parallel, negatives=negatives)
    for said in sentences(config, tmp_path / "run"):
        assert SENTENCES["complete"] in said


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("workers", [1, 4])
def test_without_a_leak_the_same_links_train(
    places: dict[str, tuple[Path, Path]], tmp_path: Path, workers: int, parallel: str
) -> None:
    for found in learn_together(config_for(places["sound"], "sound", workers, parallel), tmp_path / "run"):
        assert np.isfinite(found.losses).all()
