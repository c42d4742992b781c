"""An input that is open, its ids still to be read as whole numbers or as text: all inputs of a graph must agree on that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from starling.stream.raw import IdKind

Reader = TypeVar("Reader", covariant=True)


@dataclass(frozen=True)
class Settings:
    """How the user wants files read: `block` is the bytes to hold of one at a time."""

    block: int
    header: bool | None = None
    delimiter: str | None = None


@dataclass(frozen=True)
class Prepared(Generic[Reader]):
    """What its ids look like (None: it has none), and how to get the reader once that is settled."""

    looks: IdKind | None
    make: Callable[[IdKind], Reader]


def agreed_kind(inputs: Iterable[Prepared[object]], asked: Literal["auto", "integer", "string"]) -> IdKind:
    """The kind of ids of a graph: as asked, else whole numbers where all inputs have such, else text."""
    if asked != "auto":
        return asked
    return "string" if any(prepared.looks == "string" for prepared in inputs) else "integer"
