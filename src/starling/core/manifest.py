"""What ``manifest.json`` says: the typed records behind every directory Starling writes.

A manifest lists each file with its size and SHA-256, so a directory can be checked, and nothing outside it is ever opened:
file names are plain names. Unknown keys and newer format versions are refused, never guessed at.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from starling.core.artifact import MANIFEST
from starling.core.errors import InputError

_HASH_BLOCK = 1 << 20
_RUN_CONFIG = "config.toml"
"""What a run directory has in place of a manifest."""


def _plain_name(name: str) -> str:
    """Accept ``shard-0/x.npy``; refuse anything that could lead out of the directory."""
    parts = name.split("/")
    if not name or name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"the file name '{name}' points outside the directory")
    return name


FileName = Annotated[str, AfterValidator(_plain_name)]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """A strict, immutable piece of a manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def changed(self) -> set[str]:
        """Fields whose values are not their defaults: a file that was written with all of them asks for no more than these."""
        return {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}


class FileEntry(Record):
    """Size and checksum of one file."""

    bytes: Count
    sha256: str


class Table(Record):
    """Values with one row per node or per edge.

    `dense` is one array file. `csr` is three: row offsets, column numbers, values. A table of one node type (`of_type`) has
    a row for each node of that type, in node order.
    """

    layout: Literal["dense", "csr"]
    dtype: str
    shape: tuple[Count, ...]
    files: tuple[FileName, ...]
    of_type: str | None = None


class Labels(Record):
    """What the labels `y` are: one class a node, several (`multi`), or a real number to predict."""

    kind: Literal["single", "multi", "real"]
    classes: Count
    labelled: Count
    names: tuple[str, ...] = ()


class Manifest(Record):
    """What every kind of directory has in common."""

    readable_version: ClassVar[int] = 1

    format: str
    version: int
    files: dict[FileName, FileEntry] = {}

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The checked manifest of a directory."""
        return cls._parse(read_json(directory), directory)

    @classmethod
    def _parse(cls, document: dict[str, object], directory: Path) -> Self:
        expected = cls.model_fields["format"].default
        if document.get("format") != expected:
            raise InputError(f"Expected a {expected} directory, got {document.get('format')!r} in {directory / MANIFEST}.")
        version = document.get("version")
        if not isinstance(version, int) or not 1 <= version <= cls.readable_version:
            raise InputError(
                f"{directory} has format version {version}; this Starling reads up to {cls.readable_version}. "
                "Upgrade with: pip install --upgrade starling-gnn."
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(step) for step in first["loc"]) or "the document"
            raise InputError(
                f"{directory / MANIFEST} is damaged at {place}: {first['msg']}. Create the directory again."
            ) from error

    def seal(self, directory: Path) -> Self:
        """Write the manifest, with the size and checksum of every other file in the directory."""
        names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
        names = [name for name in names if name != MANIFEST]
        with ThreadPoolExecutor(2) as pool:  # hashing releases the GIL
            entries = pool.map(lambda name: file_entry(directory / name), names)
        sealed = self.model_copy(update={"files": dict(zip(names, entries, strict=True))})
        (directory / MANIFEST).write_text(sealed.model_dump_json(indent=1) + "\n")
        return sealed

    def check_sizes(self, directory: Path) -> None:
        """Refuse a directory with a missing or truncated file; costs one stat a file."""
        for name, entry in self.files.items():
            path = directory / name
            actual = path.stat().st_size if path.is_file() else None
            if actual != entry.bytes:
                found = "is missing" if actual is None else f"has {actual:,} bytes"
                raise InputError(f"{path} {found}, its manifest says {entry.bytes:,} bytes. Create the directory again.")

    def verify(self, directory: Path) -> None:
        """Read every file and compare its checksum."""
        self.check_sizes(directory)
        for name, entry in self.files.items():
            if file_entry(directory / name).sha256 != entry.sha256:
                raise InputError(f"{directory / name} does not match its checksum: it is corrupt. Create the directory again.")


class EdgeCounts(Record):
    """What was found and done while the edges came in."""

    read: Count
    self_loops: Count
    duplicates: Count | None = None
    self_loops_dropped: Count = 0
    duplicates_dropped: Count = 0
    reverses_added: Count = 0


class GraphManifest(Manifest):
    """A whole graph on disk (docs/formats.md)."""

    format: Literal["starling-graph"] = "starling-graph"
    version: int = 1
    nodes: Count
    edges: Count
    directed: bool
    ids: Literal["position", "integer", "string"] = "position"
    node_types: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    node_tables: dict[str, Table] = {}
    edge_tables: dict[str, Table] = {}
    labels: Labels | None = None
    splits: dict[str, Count] = {}
    isolated: Count = 0
    counts: EdgeCounts
    origin: dict[str, str | int | float | bool | None] = {}


def file_entry(path: Path) -> FileEntry:
    """Size and SHA-256 of a file, read in blocks."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
            size += len(block)
    return FileEntry(bytes=size, sha256=digest.hexdigest())


def read_json(directory: Path) -> dict[str, object]:
    """The manifest of a directory as it stands, for telling what kind of directory it is."""
    directory = Path(directory)
    path = directory / MANIFEST
    if not directory.exists():
        raise InputError(f"{directory} does not exist. Make a graph with: starling import FILE -o {directory.name}.")
    if directory.is_file():
        raise InputError(
            f"Expected a directory made by Starling, got the file {directory}. Import it first: "
            f"starling import {shlex.quote(str(directory))} -o {shlex.quote(directory.stem)}."
        )
    if (directory / _RUN_CONFIG).is_file() and not path.is_file():
        raise InputError(
            f"Expected a graph or parts, got the run {directory}. Its settings are in {_RUN_CONFIG}, its results in summary.json."
        )
    if not path.is_file():
        raise InputError(f"Expected a directory made by Starling, got {directory}, which has no {MANIFEST}.")
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}). Create the directory again.") from error
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a JSON object. Create the directory again.")
    return document
