from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.core.errors import InputError
from starling.engine.same_parts import check_same_parts
from starling.launch import preflight
from starling.launch.preflight import check_parts, check_team_size
from starling.store.parts import Parts
from tests.support.parts import Case, build

PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 0]], np.int32)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return build(Case(4, PAIRS, 2, np.array([0, 0, 1, 1], np.int32)), tmp_path_factory.mktemp("built"))


@pytest.fixture
def parts(built: Parts, tmp_path: Path) -> Parts:
    """A copy to damage."""
    shutil.copytree(built.path, tmp_path / "parts")
    return Parts(tmp_path / "parts", built.manifest)


def test_what_fits_is_accepted(built: Parts) -> None:
    for workers in (1, 2):
        check_parts(built.path, built.manifest, workers=workers)


def test_more_workers_than_parts(built: Parts) -> None:
    with pytest.raises(
        InputError, match=r"got 3 workers for 2 parts in .*Pass --workers 2, or .*starling partition GRAPH -p 3"
    ):
        check_parts(built.path, built.manifest, workers=3)


def test_more_workers_than_nodes_or_than_a_machine_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "core_count", lambda: 2)
    check_team_size(128, 128, Path("g"))
    with pytest.raises(InputError, match="at most as many workers as nodes, got 3000 workers for 2,000 nodes in g"):
        check_team_size(3000, 2000, Path("g"))
    with pytest.raises(InputError, match=r"at most 128 workers on 2 cores \(64 a core\), got 129"):
        check_team_size(129, 2000, Path("g"))


def test_one_part(built: Parts) -> None:
    with pytest.raises(InputError, match="2 workers for 1 part in"):
        check_parts(built.path, built.manifest.model_copy(update={"parts": 1}), workers=2)


def test_parts_of_another_graph(built: Parts, tmp_path: Path) -> None:
    other = build(Case(4, PAIRS[:3], 2, np.array([0, 0, 1, 1], np.int32)), tmp_path)
    run_threads(2, lambda team: check_same_parts(built.path, built.manifest, team))
    with pytest.raises(InputError, match=r"Worker 1 has other parts than worker 0: 4 nodes and 3 edges there, 4 and 4 here"):
        run_threads(2, lambda team: check_same_parts(built.path, (built if team.rank == 0 else other).manifest, team))


def test_a_missing_shard(parts: Parts) -> None:
    shutil.rmtree(parts.path / "part-00001")
    with pytest.raises(InputError, match=r"part-00001 is missing"):
        check_parts(parts.path, parts.manifest, workers=2)
    check_parts(parts.path, parts.manifest, workers=2, parts=[0])  # a machine that has only its own


def test_a_shard_of_another_graph_with_files_of_the_same_sizes(parts: Parts, tmp_path: Path) -> None:
    star = np.array([[0, 1], [2, 0], [3, 0], [3, 0]], np.int32)  # as many nodes and edges, one halo node more in part 0
    other = build(Case(4, star, 2, np.array([0, 0, 1, 1], np.int32)), tmp_path / "other")
    shutil.rmtree(parts.path / "part-00000")
    shutil.copytree(other.path / "part-00000", parts.path / "part-00000")
    with pytest.raises(
        InputError, match=r"part-00000 is not the one that .*manifest.json describes, but of another graph or cut"
    ):
        check_parts(parts.path, parts.manifest, workers=2)
    check_parts(parts.path, parts.manifest, workers=2, parts=[1])


def test_a_damaged_shard(parts: Parts) -> None:
    with (parts.path / "part-00001" / "in.neighbours.npy").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=r"in.neighbours.npy has .* bytes, its manifest says"):
        check_parts(parts.path, parts.manifest, workers=1)
    check_parts(parts.path, parts.manifest, workers=1, parts=[0])
