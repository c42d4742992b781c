"""A run's settings as tables of names and values: laid over one another, and named by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Tables = dict[str, dict[str, Any]]


def merge(*layers: Mapping[str, Mapping[str, Any]]) -> Tables:
    """Each layer's values in place of those of the same name before it."""
    result: Tables = {}
    for layer in layers:
        for name, table in layer.items():
            result[name] = {**result.get(name, {}), **table}
    return result


def digest(tables: Tables) -> str:
    """Eight letters for the settings of a run: they belong to its key, so changed settings are another run."""
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:8]
