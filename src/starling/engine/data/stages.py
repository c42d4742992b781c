"""The five stages of a data-parallel worker, each replaceable: schedule → sample → fetch → compact → copy.

Any callable from a `Scheduled` to a `Sampled` may stand in for the sampler, and so on: ``replace(stages, sample=mine)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from starling.core.manifest import Record
from starling.core.memory import Size
from starling.engine.data.fetch import FetchedStep
from starling.engine.data.pipeline import Stage
from starling.engine.data.sample import Sampled
from starling.engine.data.schedule import Scheduled
from starling.engine.fill import FilledBatch

Depth = Annotated[int, Field(ge=1)]


class PipelineSettings(Record):
    """How far each stage may run ahead of the next: further at the beginning, where a step is small, less at the end."""

    mode: Literal["non-stop", "epoch", "off"] = "non-stop"
    """`non-stop`: the next epoch's steps are begun in this one; `epoch`: each epoch begins with nothing; `off`: no threads."""
    depths: tuple[Depth, Depth, Depth, Depth, Depth] = (8, 3, 2, 1, 1)
    """Results of schedule, sample, fetch, compact and copy that may wait for the next stage."""
    memory: Annotated[Size, Field(ge=1)] | None = None
    """Bytes of prepared steps beyond which no new one is begun; by default a quarter of a worker's share of --memory, or 1 GiB."""


@dataclass(frozen=True)
class Stages:
    """What each stage does; a stage gets what the one before it gives, the first the number of a step."""

    schedule: Callable[[int], Scheduled]
    sample: Callable[[Scheduled], Sampled]
    fetch: Callable[[Sampled], FetchedStep]
    compact: Callable[[FetchedStep], FilledBatch]
    copy: Callable[[FilledBatch], FilledBatch]

    def from_step(self, first: int) -> Stages:
        """The same stages, for which the step of that number is the first."""
        return replace(self, schedule=lambda number: self.schedule(first + number)) if first else self

    def in_threads(self, settings: PipelineSettings) -> list[Stage]:
        """Stages of a pipeline, with their depths."""
        return [Stage(f.name, getattr(self, f.name), depth) for f, depth in zip(fields(self), settings.depths, strict=True)]

    def one_by_one(self, count: int) -> Iterator[FilledBatch]:
        """Steps made when they are asked for, in the caller's thread."""
        for number in range(count):
            item: Any = number
            for stage in fields(self):
                item = getattr(self, stage.name)(item)
            yield item
