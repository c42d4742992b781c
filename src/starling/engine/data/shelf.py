"""Hands out a worker's parts, one after the other, within a budget: kept where all of them fit, else read anew each time.

Where two fit, the next part is read while this one is at work. Where not even one fits with its features, its lists are held and
features are read by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from starling.core.errors import InputError
from starling.core.memory import format_bytes
from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import PartsSource
from starling.plan.background import Background

Keeping = Literal["all", "ahead", "one", "lists"]
"""What is in memory: every part, one and the next, one, or one without its features."""


class Shelf:
    """The parts of one worker and at most `memory` bytes of them at a time."""

    def __init__(self, source: PartsSource, memory: int) -> None:
        self._source, self._kept = source, dict[int, PartSource]()
        self._halo: Path | None = None
        lists = [source.list_bytes(part) for part in source.mine]
        sizes = [held + source.feature_bytes(part) for part, held in zip(source.mine, lists, strict=True)]
        largest = sorted(sizes, reverse=True)[:2]
        self.keeping: Keeping = (
            "all" if sum(sizes) <= memory
            else "ahead" if sum(largest) <= memory
            else "one" if max(sizes, default=0) <= memory
            else "lists"
        )  # fmt: skip
        if max(lists, default=0) > memory:
            part = source.mine[lists.index(max(lists))]
            raise InputError(
                f"The neighbour lists of part {part} take {format_bytes(max(lists))}, and a worker may hold {format_bytes(memory)} "
                "of parts. Pass a larger --memory, or partition into more parts."
            )

    @property
    def comes_and_goes(self) -> bool:
        """Whether parts leave memory to make room for others."""
        return self.keeping != "all"

    def prepare(self, folder: Path) -> None:
        """Lay out the halo's features in a scratch folder, where parts will be read again and again."""
        if self.comes_and_goes and not self._source.part_features.sparse:
            self._source.part_features.lay_out(self._source.mine, folder)
            self._halo = folder

    @contextmanager
    def turns(self, parts: Sequence[int], *, features: bool = True) -> Iterator[Iterator[PartSource]]:
        """Some parts in order; the caller lets go of each before it asks for the next."""
        if self.keeping == "ahead" and len(parts) > 1:
            with Background((self._read(part, features) for part in parts), stage="reading parts", depth=1) as ahead:
                yield ahead
        else:
            yield (self._read(part, features) for part in parts)

    def _read(self, part: int, features: bool) -> PartSource:
        if part in self._kept:
            return self._kept[part]
        found = self._source.read(part, keep=features and self.keeping != "lists", halo=self._halo)
        if not self.comes_and_goes:
            self._kept[part] = found
        return found
