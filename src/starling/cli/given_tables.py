"""What a user gives ``starling train``, as layers of settings: a file, flags, and --set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starling.config.toml import parse_value
from starling.core.errors import InputError


def given_tables(config: Path | None, flags: dict[str, dict[str, Any]], settings: list[str]) -> list[dict[str, dict[str, Any]]]:
    """The layers of settings, lowest first: the file, the flags that were given, and --set."""
    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in flags.items()}
    asked: dict[str, dict[str, Any]] = {}
    for text in settings:
        place, equals, value = text.partition("=")
        table, dot, key = place.partition(".")
        if not (equals and dot and table and key):
            raise InputError(f"Expected --set as table.name=value, such as model.norm=batch, got '{text}'.")
        asked.setdefault(table, {})[key] = parse_value(value)
    from starling.train.config import read_config

    return [{} if config is None else read_config(config), {name: table for name, table in given.items() if table}, asked]
