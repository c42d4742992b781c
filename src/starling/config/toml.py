"""TOML files of tables: read with the standard library, written with just what settings need."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starling.core.errors import InputError

Tables = dict[str, dict[str, Any]]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read_tables(path: Path) -> Tables:
    """The tables of a TOML file; keys outside a table are refused."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from error
    loose = [key for key, value in document.items() if not isinstance(value, dict)]
    if loose:
        raise InputError(f"{path} has the key '{loose[0]}' outside a table. Put it under a heading such as [model].")
    return document


def parse_value(text: str) -> Any:
    """A value as TOML writes it (``0.5``, ``true``, ``[15, 10]``); anything else is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def write_tables(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of a TOML file; values that are None are left out, which reads back as their default."""
    parts = []
    for name, table in tables.items():
        lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]
        parts.append("\n".join([f"[{_key(name)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        return _text(str(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())} }}"
    raise TypeError(f"a setting of type {type(value).__name__} cannot be written as TOML")
