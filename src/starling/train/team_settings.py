"""Who computes: the settings of [team], and which of them go together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from starling.comm.heartbeat import DEADLINE
from starling.config.settings import Whole
from starling.core.errors import InputError
from starling.core.manifest import Record
from starling.core.memory import Size


class TeamSettings(Record):
    """Who computes."""

    workers: Whole = 1
    parallel: Literal["hybrid", "data"] = "hybrid"
    """`hybrid`: all workers compute each step together, each its own nodes; `data`: each worker computes batches of its own."""
    shuffle: Literal["local", "global"] | None = None
    """data: `local` (default): workers draw targets each from a range of its own; `global`: the batches of one process, shared."""
    local_only: bool = False
    """data: sample only within a part and its halo."""
    cache: Annotated[Size, Field(ge=0)] = 0
    """data: bytes for copies of the rows of other hosts that batches read most often; changes no result."""
    threads: Whole | None = None
    """Of each worker; cores / workers by default."""
    boundary: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Chance that a part hears of a neighbour in another part, drawn anew each epoch; 1 is exact, 0 isolates parts."""
    boundary_choice: Literal["even", "weighted"] = "even"
    """`even`: the same chance for every neighbour; `weighted`: as many neighbours on average, the heavier ones more often."""
    boundary_mean: Literal["unbiased", "ratio"] = "unbiased"
    """What a mean over neighbours that stay is divided by: `unbiased`: by how many there are in the whole graph; `ratio`: by how
    many those that stay stand for, which sways less."""
    overlap: bool = True
    """Compute on own rows while others' are on their way; changes no bit."""
    wire: Literal["float32", "bfloat16"] = "float32"
    """Numbers in messages between workers."""
    transport: Literal["auto", "gloo"] = "auto"
    """`auto`: shared memory between workers of one machine, sockets between machines; `gloo`: sockets only."""
    balance_workers: bool = False
    """hybrid, cohesive: each batch is shared out between workers by what its nodes cost, not by who owns them."""
    deadline: Annotated[float, Field(gt=0, le=1e7)] = DEADLINE
    """Seconds within which a run ends when a worker has stopped answering."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.parallel == "hybrid" and (self.shuffle or self.local_only):
            asked = f"--shuffle {self.shuffle}" if self.shuffle else "--local-only"
            raise InputError(
                f"{asked} is for --parallel data; workers of --parallel hybrid compute the batches of one process."
            )
        if self.parallel == "hybrid" and self.cache:
            raise InputError("--cache is for --parallel data; workers of --parallel hybrid pull no rows out of the store.")
        if self.parallel == "data" and (self.boundary < 1 or not self.overlap or self.wire != "float32"):
            asked = "--boundary" if self.boundary < 1 else "--overlap off" if not self.overlap else "--wire"
            raise InputError(f"{asked} is for --parallel hybrid; with --parallel data nothing of the kind is sent.")
        for asked, pointless in (("boundary_choice=weighted", (0, 1)), ("boundary_mean=ratio", (1,))):
            name, _, value = asked.partition("=")
            if getattr(self, name) == value and self.boundary in pointless:
                raise InputError(
                    f"{asked} is for a --boundary that leaves out some neighbours, and {self.boundary:g} leaves out "
                    f"{'none' if self.boundary else 'all'}. Pass another --boundary, or leave out team.{name}."
                )
        if self.local_only and self.shuffle == "global":
            raise InputError(
                "--local-only computes each part's own targets, got --shuffle global, which deals out everybody's. Leave one out."
            )
        return self

    @property
    def resolved(self) -> Self:
        """The same with what was left open filled in."""
        return self.model_copy(update={"shuffle": "local"}) if self.parallel == "data" and self.shuffle is None else self
