"""The failures a user can meet, each with the exit status of the command line.

A message is one sentence or two: what was expected, what came, what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StarlingError(Exception):
    """Something went wrong that is nobody's typing mistake (exit status 1)."""

    exit_status = 1
    stage: str | None = None
    """The background stage it came up in; the message ends with its name."""

    def __str__(self) -> str:
        told = self.sentence()
        return told if self.stage is None else f"{told} This was in the background stage '{self.stage}'."

    def sentence(self) -> str:
        """What happened, wherever it was."""
        return super().__str__()


class InputError(StarlingError):
    """The user's input or flags are wrong (exit status 2)."""

    exit_status = 2


class MissingExtra(InputError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'starling-gnn[{extra}]'."
        )


def nearest(name: str, known: Iterable[str]) -> str:
    """A "Did you mean" hint for a misspelt name, or the list of what exists when nothing is close."""
    names = sorted(known)
    if not names:
        return "There are none."
    close = difflib.get_close_matches(name, names, n=len(names), cutoff=0.5)
    if close:
        likely = max(close, key=lambda other: _likeness(name, other))
        return f"Did you mean '{likely}'? Known: {', '.join(names)}."
    return f"Known: {', '.join(names)}."


def _likeness(name: str, other: str) -> tuple[float, bool, bool]:
    """How much of one is in the other; of those with equally much, swapped letters and then the same beginning are likelier."""
    shared = difflib.SequenceMatcher(None, other, name).ratio()
    return shared, sorted(name) == sorted(other), name[:1] == other[:1]
