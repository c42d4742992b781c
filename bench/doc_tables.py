"""Tables in documents: each stands between two marks, and is written there by its script."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_table(page: str, name: str, text: str) -> None:
    """Put `text` between the marks of the table `name` in docs/`page`."""
    write_between(page, f"<!-- {name}: begin -->", f"<!-- {name}: end -->", text)


def write_between(page: str, begin: str, end: str, text: str) -> None:
    """Put `text` between two marks in docs/`page`."""
    path = DOCS / page
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")
