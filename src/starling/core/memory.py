"""Memory as a budget: sizes as people write them, and the peak a process reached."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from starling.core.errors import InputError

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power, _letter: 1024**_power}

_MOST = 1 << 63

TRAINING_PROGRAM_BYTES = 576 << 20
"""What a training process holds beside its data: the interpreter, torch, compiled kernels, metrics."""

_LEAST_PROCESS = 256 << 20
_STATUS = Path("/proc/self/status")


def parse_bytes(text: str) -> int:
    """Bytes meant by ``1GiB``, ``500 MB``, ``2g`` or ``4096``."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        raise InputError(f"Expected a size such as 512MiB or 2GiB, got '{text}'.")
    size = float(match[1]) * _UNITS[match[2].upper()]
    if size >= _MOST:
        raise InputError(f"Expected a size such as 512MiB or 2GiB, got {text.strip()[:20]}…, more than any machine has.")
    return int(size)


def parse_budget(text: str) -> int:
    """Bytes to stay within, as `parse_bytes` reads them: of none nothing could be done."""
    size = parse_bytes(text)
    if size < 1:
        raise InputError(f"Expected a size of more than 0 bytes, such as 512MiB or 2GiB, got '{text}'.")
    return size


def check_program_fits(budget: int) -> None:
    """Refuse a budget for a whole process that the program itself, without torch and any data, takes most of."""
    if budget < _LEAST_PROCESS:
        raise InputError(
            f"Expected --memory of at least {format_bytes(_LEAST_PROCESS)}, most of which the program itself takes, got "
            f"{format_bytes(budget)}. Pass a larger one."
        )


def _read(value: object) -> object:
    return parse_bytes(value) if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_read)]
"""Bytes in a setting: a number, or a size as people write it."""


def format_bytes(count: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def rss_bytes() -> int:
    """Resident memory of this process now."""
    return _status_field("VmRSS") or peak_rss_bytes()


def peak_rss_bytes() -> int:
    """The most resident memory this process has held, file mappings included."""
    measured = _status_field("VmHWM")
    if measured is not None:
        return measured
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status_field(name: str) -> int | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None
