"""Tables of settings laid over one another: a file's, a run's, those of flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starling.config.toml import Tables
from starling.train.config import CHOICES

_KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    **{name: ("name", {name: ("*",)}) for name in (*CHOICES, "sync", "schedule")},
    "optimizer": ("name", {"optimizer": ("momentum",)}),
    "task": ("name", {"task": ("metric", "class_weights"), "link": ("*",), "data": ("outputs", "classes")}),
    "team": (
        "parallel",
        {
            "team": (
                *("shuffle", "local_only", "cache", "boundary", "boundary_choice", "boundary_mean"),
                *("overlap", "wire", "balance_workers"),
            ),
            "pipeline": ("*",),
        },
    ),
}
"""Of a table, the key that says which kind of a thing is wanted, and what is of one kind only, `*` being a whole table."""


def merged(*layers: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Tables laid over one another, later ones on top; another kind of a thing drops the settings of the one below."""
    result: Tables = {}
    for tables in layers:
        for name in _KINDS.keys() & tables.keys():
            key, owned = _KINDS[name]
            below = result.get(name, {}).get(key)
            if below is not None and tables[name].get(key, below) != below:
                _drop(result, owned)
        for name, table in tables.items():
            result[name] = {**result.get(name, {}), **table}
    return result


def _drop(tables: Tables, owned: Mapping[str, tuple[str, ...]]) -> None:
    for name in owned.keys() & tables.keys():
        keys = owned[name]
        tables[name] = {key: value for key, value in tables[name].items() if "*" not in keys and key not in keys}
