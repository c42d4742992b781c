"""How weights agree: the settings of [sync], and which of them go together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from starling.config.settings import Whole
from starling.core.errors import InputError
from starling.core.manifest import Record


class SyncSettings(Record):
    """How weights agree."""

    name: Literal["gradient", "stale", "average"] = "gradient"
    """`gradient`: summed after each step, before the next; `stale`: while the next steps compute, with older weights; `average`:
    parts train models of their own, which are averaged now and then."""
    staleness: Annotated[int, Field(ge=0)] = 0
    """stale: step t reads the weights after t − staleness updates; 0 is `gradient`, bit for bit."""
    in_flight: Whole = 1
    """stale: batches each worker computes at once, at most staleness + 1; changes no bit."""
    every: Whole | None = None
    """average: epochs that parts train alone before their models are averaged; 1 by default."""
    rounds: Whole = 1
    """average: averagings an epoch, where `every` is 1; between two of them a part computes its share of an epoch's steps."""
    correct: bool = False
    """average: move each mean by some steps on global batches, which see the edges between parts."""
    correct_steps: Whole = 4
    """average: how many, with `correct`."""
    moments: Literal["average", "local", "reset"] = "average"
    """average: what an optimiser remembers (momentum, Adam's means) is averaged as weights are, stays with its part, or is
    forgotten at each averaging."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.name != "average" and (self.every or self.correct):
            asked = f"--every {self.every}" if self.every else "--correct"
            raise InputError(f"{asked} is for --sync average; with --sync {self.name} no models are averaged. Leave it out.")
        if self.name != "average" and (unused := {"correct_steps", "moments", "rounds"} & self.changed):
            raise InputError(f"'{min(unused)}' of [sync] is for --sync average, got --sync {self.name}. Leave it out.")
        if self.rounds > 1 and (self.every or 1) > 1:
            raise InputError(
                f"Expected one of --every and 'rounds' of [sync], got an averaging every {self.every} epochs and {self.rounds} of "
                "them an epoch. Leave one out."
            )
        if "correct_steps" in self.changed and not self.correct:
            raise InputError("'correct_steps' of [sync] is for --correct, which is off. Pass --correct, or leave it out.")
        if self.name == "average" and (self.staleness or self.in_flight > 1):
            raise InputError("--staleness and --in-flight are for --sync stale; with --sync average parts train alone.")
        if self.name == "gradient" and (self.staleness or self.in_flight > 1):
            asked = f"staleness {self.staleness}" if self.staleness else f"{self.in_flight} batches in flight"
            raise InputError(f"With --sync gradient every step waits for the one before, got {asked}. Pass --sync stale.")
        if self.in_flight > self.staleness + 1:
            raise InputError(
                f"Expected --in-flight of at most {self.staleness + 1}, as a batch in flight reads weights that lack the updates "
                f"of those before it, got {self.in_flight}. Pass --staleness {self.in_flight - 1} or more."
            )
        return self

    @property
    def resolved(self) -> Self:
        """The same with what averaging leaves open filled in."""
        return self.model_copy(update={"every": self.every or 1})
