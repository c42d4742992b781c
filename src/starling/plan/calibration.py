"""How fast a machine is: the constants behind every prediction, measured once, dated, and read again by who needs them.

`starling calibrate` makes the record (launch/calibrate.py); `plan/cost.py` and `plan/price.py` read it. All rates are seconds a
number or an edge, so that work times rate is time.
"""

from __future__ import annotations

import bisect
import json
import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

import psutil
from pydantic import Field, ValidationError, model_validator

from starling.core.environment import cache_folder, core_count
from starling.core.errors import InputError
from starling.core.manifest import Record

_CPU_INFO = Path("/proc/cpuinfo")
_PARTS_OF_MEMORY = 0.1
"""Machines whose memory differs by less are the same: kernels keep some for themselves."""

_QUIET = 0.1
"""Other programs' share of the processors up to which a machine counts as left alone."""

Seconds = Annotated[float, Field(gt=0, lt=1e3, allow_inf_nan=False)]
PerSecond = Annotated[float, Field(gt=0, lt=1e18, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1)]


class Point(Record):
    """One measured rate: `seconds` a number at a size of `at`."""

    at: Whole
    seconds: Seconds


class Rates(Record):
    """What one process does in a second with so many threads. Greek letters are those of CM-GCN, Table I."""

    threads: Whole
    alpha: Seconds
    """Adding a number of one row to another's."""
    beta: tuple[Point, ...] = Field(min_length=1)
    """A multiply-add of a dense product, by the numbers in its matrix: small matrices are slower."""
    narrow: tuple[Point, ...] = Field(min_length=1)
    """The same of a product with few columns, by their number: of up to 15 columns processors fill no register."""
    gamma: Seconds
    """An activation of one number."""
    eta: Seconds
    """Multiplying one number of a matrix by a scalar."""
    lam: Seconds
    """The gradient of a loss towards one output."""
    spmm: tuple[Point, ...] = Field(min_length=1)
    """Adding a number of a neighbour's row in a sparse product, by reach: bytes of rows that neighbours are spread over."""
    edge: Seconds
    """An edge of a sparse product, however few its columns."""
    row: Seconds
    """A row of a sparse product, however few its edges."""
    softmax: Seconds
    """An edge and head of attention: score, softmax and their gradients, sums left out."""
    transpose: Seconds
    """Turning round one edge of a block, for the backward pass."""
    plan: Seconds
    """Taking one edge into a batch: drawing it, numbering its source, and what a batch holds of either."""
    read: Seconds
    """Copying one number of a row of features, that lies anywhere, into a batch."""
    memory_bandwidth: PerSecond
    """Bytes read and written in one copy."""
    layer: Seconds
    """A layer of a step, forward and backward, however small."""
    attention: Seconds
    """A layer of attention, however small: it is made of more operations."""
    step: Seconds
    """The rest of a step, however small: batch, loss, optimiser."""
    overall: Annotated[float, Field(gt=0, lt=1e3, allow_inf_nan=False)] = 1.0
    """How much longer real training takes than its operations one by one: cold caches, fresh memory, threads that wake up."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("beta", "narrow", "spmm"):
            sizes = [point.at for point in getattr(self, name)]
            if sizes != sorted(set(sizes)):
                raise ValueError(f"expected ascending sizes in {name}, got {sizes}")
        return self

    def beta_of(self, fan_in: int, fan_out: int) -> float:
        """Seconds of a multiply-add in a product with a fan_in × fan_out matrix."""
        wide = interpolated(self.beta, fan_in * fan_out)
        return wide if fan_out > self.narrow[-1].at else max(wide, interpolated(self.narrow, fan_out))

    def spmm_of(self, reach: float) -> float:
        """Seconds for a number of a neighbour's row, with neighbours spread over `reach` bytes."""
        return interpolated(self.spmm, reach)


class Link(Record):
    """Messages between two workers of this machine."""

    transport: Literal["shared-memory", "gloo"]
    latency: Seconds
    """Of an empty message, one way."""
    bandwidth: PerSecond
    """Bytes a second of large messages, one way."""


class Machine(Record):
    """What tells machines apart."""

    processor: str
    cores: Whole
    memory_bytes: Whole
    system: str

    @classmethod
    def here(cls) -> Self:
        """This one."""
        memory = int(psutil.virtual_memory().total)
        return cls(processor=_processor(), cores=core_count(), memory_bytes=memory, system=platform.system())

    def difference(self, other: Machine) -> str | None:
        """How another machine differs, in words; None where they are alike."""
        for name, mine, theirs in (
            ("system", self.system, other.system),
            ("processor", self.processor, other.processor),
            ("number of cores", self.cores, other.cores),
        ):
            if mine != theirs:
                return f"{name} {theirs}, not {mine}"
        if abs(self.memory_bytes - other.memory_bytes) > _PARTS_OF_MEMORY * self.memory_bytes:
            return f"memory of {other.memory_bytes / 2**30:.1f} GiB, not {self.memory_bytes / 2**30:.1f} GiB"
        return None


class Calibration(Record):
    """A machine's measured rates, for one thread and for all of them, and the links between its workers."""

    format: Literal["starling-calibration"] = "starling-calibration"
    version: Literal[3] = 3
    measured: datetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    machine: Machine
    quick: bool = False
    """Measured in a hurry: fewer repetitions."""
    others: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the processors that other programs had meanwhile."""
    rates: tuple[Rates, ...] = Field(min_length=1)
    links: tuple[Link, ...] = ()

    def with_threads(self, threads: int) -> Rates:
        """The rates of a process with so many threads: those measured with the nearest number."""
        return min(self.rates, key=lambda rates: (abs(math.log(rates.threads / max(threads, 1))), rates.threads))

    def link(self, transport: str) -> Link:
        """The measured link of a transport."""
        for link in self.links:
            if link.transport == transport:
                return link
        raise InputError(f"The calibration of {self.measured:%Y-%m-%d} has no link '{transport}'. Run: starling calibrate.")

    def busy_warning(self) -> str | None:
        """A sentence for the user where other programs took processor time while this was measured."""
        if self.others <= _QUIET:
            return None
        return (
            f"Other programs had {self.others:.0%} of the processors while this machine was measured, so that it looks slower "
            "than it is. Run starling calibrate when it has nothing else to do."
        )

    def warning(self, machine: Machine | None = None) -> str | None:
        """A sentence for the user where this was measured on another machine than `machine`, by default the one at hand."""
        differs = (machine or Machine.here()).difference(self.machine)
        if differs is None:
            return None
        return (
            f"The calibration of {self.measured:%Y-%m-%d} is from another machine ({differs}), so predictions are for that one. "
            "Run: starling calibrate."
        )


def interpolated(points: Sequence[Point], at: float) -> float:
    """A rate between measured sizes, straight in the logarithms of both; at the ends the last one goes on."""
    sizes = [point.at for point in points]
    place = bisect.bisect_right(sizes, at)
    if place == 0 or place == len(points):
        return points[min(place, len(points) - 1)].seconds
    low, high = points[place - 1], points[place]
    share = math.log(at / low.at) / math.log(high.at / low.at)
    return math.exp((1 - share) * math.log(low.seconds) + share * math.log(high.seconds))


def default_path() -> Path:
    """Where a user's calibration is kept."""
    return cache_folder() / "calibration.json"


def calibration_place(path: Path | None = None) -> Path:
    """Where a record is to be written, its folder made: told before anything is measured for it."""
    path = default_path() if path is None else path
    if path.is_dir():
        raise InputError(f"Expected a file for the calibration, got the directory {path}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write the calibration to {path}: {error.strerror}. Choose another place.") from error
    return path


def save_calibration(calibration: Calibration, path: Path | None = None) -> Path:
    """Write the record whole or not at all; returns where."""
    path = calibration_place(path)
    staged = path.with_name(f".{path.name}.partial")
    staged.write_text(calibration.model_dump_json(indent=1) + "\n")
    staged.replace(path)
    return path


def read_calibration(path: Path | None = None) -> Calibration:
    """The saved record, checked; by default the user's own."""
    path = default_path() if path is None else path
    if not path.is_file():
        raise InputError(f"There is no calibration in {path}. Run: starling calibrate.")
    try:
        document = json.loads(path.read_text())
        return Calibration.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"]) or "the document"
        raise InputError(f"{path} is no calibration: wrong {place}: {first['msg']}. Run: starling calibrate.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is no calibration: {error}. Run: starling calibrate.") from error


def _processor() -> str:
    """The processor's name as its maker writes it."""
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
