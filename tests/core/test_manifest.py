from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.core.artifact import MANIFEST
from starling.core.errors import InputError
from starling.core.manifest import EdgeCounts, FileEntry, GraphManifest, Manifest, Table, file_entry, read_json


class Nest(Manifest):
    """A manifest with little in it."""

    format: Literal["starling-nest"] = "starling-nest"
    version: int = 1
    eggs: int


@pytest.fixture
def nest(tmp_path: Path) -> Path:
    (tmp_path / "twig.npy").write_bytes(b"twigs")
    (tmp_path / "shard-0").mkdir()
    (tmp_path / "shard-0" / "down.npy").write_bytes(b"soft down")
    Nest(eggs=3).seal(tmp_path)
    return tmp_path


def rewrite(directory: Path, **changes: Any) -> None:
    document = json.loads((directory / MANIFEST).read_text())
    (directory / MANIFEST).write_text(json.dumps(document | changes))


def test_sealed_and_read_back(nest: Path) -> None:
    manifest = Nest.read(nest)
    assert manifest.eggs == 3
    assert manifest.files == {
        "shard-0/down.npy": FileEntry(bytes=9, sha256=hashlib.sha256(b"soft down").hexdigest()),
        "twig.npy": FileEntry(bytes=5, sha256=hashlib.sha256(b"twigs").hexdigest()),
    }
    manifest.verify(nest)


def test_sealing_again_is_the_same(nest: Path) -> None:
    before = (nest / MANIFEST).read_bytes()
    Nest.read(nest).seal(nest)
    assert (nest / MANIFEST).read_bytes() == before
    Nest.read(nest).verify(nest)


def test_a_manifest_is_deterministic_and_readable(nest: Path) -> None:
    document = json.loads((nest / MANIFEST).read_text())
    assert list(document)[:2] == ["format", "version"]
    assert list(document["files"]) == sorted(document["files"])
    assert read_json(nest) == document


@pytest.mark.parametrize("place", range(9))
def test_one_flipped_bit_is_found(place: int, nest: Path) -> None:
    path = nest / "shard-0" / "down.npy"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    Nest.read(nest).check_sizes(nest)  # the size alone does not tell
    with pytest.raises(InputError, match=rf"{path} does not match its checksum: it is corrupt\. Create the directory again\."):
        Nest.read(nest).verify(nest)


@pytest.mark.parametrize("content", [b"", b"twig", b"twigs and more"])
def test_another_size_is_found_without_reading(content: bytes, nest: Path) -> None:
    (nest / "twig.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"twig\.npy has {len(content)} bytes, its manifest says 5 bytes\."):
        Nest.read(nest).check_sizes(nest)


def test_a_missing_file(nest: Path) -> None:
    (nest / "twig.npy").unlink()
    with pytest.raises(InputError, match=r"twig\.npy is missing, its manifest says 5 bytes\. Create the directory again\."):
        Nest.read(nest).verify(nest)


@pytest.mark.parametrize("version", [2, 99, 0, -1, None, "1", 1.5])
def test_a_version_it_does_not_know(version: object, nest: Path) -> None:
    rewrite(nest, version=version)
    with pytest.raises(InputError, match=rf"has format version {version}; this Starling reads up to 1\. Upgrade with"):
        Nest.read(nest)


@pytest.mark.parametrize(
    "name", ["../egg.npy", "/etc/passwd", "a/../../b", "a//b", "./a", "a/.", "", "..", "a\\b", "..\\b", "/", "a/"]
)
def test_names_leading_outside(name: str, nest: Path) -> None:
    rewrite(nest, files={name: {"bytes": 1, "sha256": "0"}})
    with pytest.raises(InputError, match=r"is damaged at files.*points outside the directory"):
        Nest.read(nest)
    with pytest.raises(ValueError, match="points outside the directory"):
        Table(layout="dense", dtype="int64", shape=(1,), files=(name,))


@given(st.text(max_size=12))
def test_an_accepted_name_stays_inside(name: str) -> None:
    try:
        Table(layout="dense", dtype="int64", shape=(1,), files=(name,))
    except ValueError:
        return
    assert os.path.normpath(f"/somewhere/graph/{name}") == f"/somewhere/graph/{name}"
    assert not Path(name).is_absolute()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"egs": 4}, "egs"),
        ({"eggs": "three"}, "eggs"),
        ({"eggs": None}, "eggs"),
        ({"files": {"a": {"bytes": -1}}}, r"files\.a"),
    ],
)
def test_unknown_keys_and_wrong_values(change: dict[str, Any], place: str, nest: Path) -> None:
    rewrite(nest, **change)
    with pytest.raises(InputError, match=rf"{MANIFEST} is damaged at {place}.*: .*\. Create the directory again\."):
        Nest.read(nest)


def test_a_missing_key(nest: Path) -> None:
    (nest / MANIFEST).write_text('{"format": "starling-nest", "version": 1}')
    with pytest.raises(InputError, match="is damaged at eggs: Field required"):
        Nest.read(nest)


def test_another_kind_of_directory(nest: Path) -> None:
    with pytest.raises(InputError, match="Expected a starling-graph directory, got 'starling-nest' in"):
        GraphManifest.read(nest)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"format": nest}'])
def test_not_json(content: bytes, nest: Path) -> None:
    (nest / MANIFEST).write_bytes(content)
    with pytest.raises(InputError, match=rf"{MANIFEST} is not valid JSON .*Create the directory again"):
        Nest.read(nest)


@pytest.mark.parametrize("content", ["[]", "3", "null", '"text"'])
def test_json_but_not_an_object(content: str, nest: Path) -> None:
    (nest / MANIFEST).write_text(content)
    with pytest.raises(InputError, match="is not a JSON object"):
        Nest.read(nest)


def test_no_directory_and_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent does not exist\. Make a graph with: starling import FILE -o absent\."):
        Nest.read(tmp_path / "absent")
    with pytest.raises(InputError, match=rf"Expected a directory made by Starling, got .* which has no {MANIFEST}"):
        Nest.read(tmp_path)


def test_manifests_do_not_change(nest: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        Nest.read(nest).eggs = 4


def test_a_graph_manifest_goes_round(tmp_path: Path) -> None:
    manifest = GraphManifest(nodes=2, edges=1, directed=True, counts=EdgeCounts(read=1, self_loops=0), origin={"seed": 1})
    assert GraphManifest.read(_sealed(manifest, tmp_path)) == manifest


def _sealed(manifest: Manifest, directory: Path) -> Path:
    manifest.seal(directory)
    return directory


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_checksums_over_several_blocks(size: int, tmp_path: Path) -> None:
    content = (b"starling" * (size // 8 + 1))[:size]
    (tmp_path / "x").write_bytes(content)
    assert file_entry(tmp_path / "x") == FileEntry(bytes=size, sha256=hashlib.sha256(content).hexdigest())
