from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.artifact import staged
from starling.core.assignment import Assignment, AssignmentManifest, load_assignment, save_assignment
from starling.core.errors import InputError

OWNER = np.array([0, 2, 1, 0], np.int32)


def save(assignment: Assignment, directory: Path, edges: int = 5) -> AssignmentManifest:
    return save_assignment(assignment, directory, edges=edges, method="flock", seed=3, settings={"cap": 1.05, "passes": 2})


def test_an_edge_cut_goes_round(tmp_path: Path) -> None:
    locality = np.array([3, 0, 1, 2], np.int32)
    saved = save(Assignment("edge-cut", 3, OWNER, locality=locality, passes=4, notes={"clusters": 2}), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locality.npy", "manifest.json", "owner.npy"]
    assignment, manifest = load_assignment(tmp_path)
    assert manifest == saved
    assert (manifest.nodes, manifest.edges, manifest.method, manifest.seed) == (4, 5, "flock", 3)
    assert manifest.settings == {"cap": 1.05, "passes": 2}
    assert (assignment.kind, assignment.parts, assignment.passes, assignment.notes) == ("edge-cut", 3, 4, {"clusters": 2})
    np.testing.assert_array_equal(assignment.owner, OWNER)
    np.testing.assert_array_equal(assignment.locality, locality)
    assert (assignment.owner.dtype, assignment.edge_part) == (np.int32, None)


def test_a_vertex_cut_goes_round(tmp_path: Path) -> None:
    edge_part = np.array([0, 1, 2, 2, 1], np.uint16)
    save(Assignment("vertex-cut", 3, OWNER, edge_part), tmp_path)
    assignment, manifest = load_assignment(tmp_path)
    manifest.verify(tmp_path)
    assert assignment.edge_part is not None
    assert assignment.edge_part.dtype == np.uint16
    assert assignment.edge_part.tolist() == edge_part.tolist()
    assert assignment.locality is None


@given(st.lists(st.integers(0, 6), max_size=30))
def test_any_owners(owners: list[int]) -> None:
    with TemporaryDirectory() as place, staged(Path(place) / "parts") as directory:
        save(Assignment("edge-cut", 7, np.array(owners, np.int32)), directory)
        assert load_assignment(directory)[0].owner.tolist() == owners


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_owner_that_is_no_part(wrong: int, tmp_path: Path) -> None:
    save(Assignment("edge-cut", 3, np.array([0, wrong], np.int32)), tmp_path)
    with pytest.raises(InputError, match=r"names owners outside 0 … 2\. Partition again\."):
        load_assignment(tmp_path)


def test_owners_of_another_number_of_nodes(tmp_path: Path) -> None:
    manifest = save(Assignment("edge-cut", 3, OWNER), tmp_path)
    manifest.model_copy(update={"nodes": 5}).seal(tmp_path)
    with pytest.raises(InputError, match=r"has no owner for each of its 5 nodes\. Partition again\."):
        load_assignment(tmp_path)


def test_a_truncated_array(tmp_path: Path) -> None:
    save(Assignment("edge-cut", 3, OWNER), tmp_path)
    (tmp_path / "owner.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"owner\.npy has 0 bytes"):
        load_assignment(tmp_path)
