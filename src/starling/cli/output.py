"""What a verb prints: one JSON object for scripts, or a small table for people."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from starling.core.memory import format_bytes


def print_json(result: Mapping[str, Any]) -> None:
    """Print exactly one JSON object."""
    print(json_module.dumps(result, indent=1))


def print_facts(title: str, facts: Iterable[tuple[str, object]]) -> None:
    """Print a titled list of names and values; None values are left out."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts:
        if value is not None:
            table.add_row(escape(name), escape(show(value)))
    print_table(title, table)


def print_table(title: str, table: Table) -> None:
    """Print a table under its title, which may hold a path: that is told as it is, on one line, however long."""
    console = Console(highlight=False)
    if title:
        console.print(title, style="bold", markup=False, emoji=False, soft_wrap=True)
    console.print(table)


def show(value: object) -> str:
    """A value as people read it: thousands separated, floats short, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def memory_line(peak: int) -> tuple[str, str]:
    """The line on peak memory that ends every report."""
    return "peak memory", format_bytes(peak)
