"""What the ``meta`` of a whole-graph ``.npz`` says: where the graph comes from, and the names behind its numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from starling.core.errors import InputError
from starling.stream.readers.npz import Archive

_ORIGIN = ("name", "source", "licence")


@dataclass(frozen=True)
class Meta:
    """The part of a meta text that an import keeps."""

    origin: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    node_types: tuple[str, ...] = ()
    edge_types: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    directed: bool | None = None


def read_meta(archive: Archive) -> Meta:
    """The meta of an archive; an empty one where there is none. Names are kept only for numbers that are there too."""
    if "meta" not in archive:
        return Meta()
    array = archive.array("meta")
    if array.dtype.kind not in "US" or array.rows != 1:
        raise InputError(f"Expected a JSON text in {array.name}, got {array.dtype}.")
    try:
        document = json.loads(str(array.whole().reshape(-1).astype(str)[0]))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{array.name} is not valid JSON ({error}).") from error
    if not isinstance(document, dict):
        raise InputError(f"Expected a JSON object in {array.name}, got {type(document).__name__}.")
    return Meta(
        {key: document[key] for key in _ORIGIN if isinstance(document.get(key), str)},
        _names(document.get("node_types"), "node_types", array.name) if "node_type" in archive else (),
        _edge_names(document, array.name) if "edge_type" in archive else (),
        _names(document.get("label_names"), "label_names", array.name),
        directed if isinstance(directed := document.get("directed"), bool) else None,
    )


def _edge_names(document: dict[str, object], where: str) -> tuple[str, ...]:
    return _names(document.get("edge_types"), "edge_types", where) or _names(document.get("relations"), "relations", where)


def _names(value: object, key: str, where: str) -> tuple[str, ...]:
    """Names given as a list, or as an object from "0", "1", … to each."""
    if value is None:
        return ()
    if isinstance(value, dict) and set(value) == {str(number) for number in range(len(value))}:
        value = [value[str(number)] for number in range(len(value))]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InputError(f"Expected '{key}' of {where} to be a list of names, or names by number from 0.")
    return tuple(value)
