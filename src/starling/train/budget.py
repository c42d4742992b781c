"""How much memory a run may take for features and evaluation, and a worker of --parallel data for everything."""

from __future__ import annotations

import psutil

from starling.core.errors import InputError
from starling.core.memory import TRAINING_PROGRAM_BYTES, format_bytes
from starling.train.config import RunConfig

_LEAST = 64 << 20
_PIPELINE_SHARE = 4
"""One part in so many of a worker's data may be steps that are being prepared, unless the user says otherwise."""
_PIPELINE = 1 << 30
"""What they may take where nothing is bounded."""


def budget(config: RunConfig) -> int:
    """Bytes for all workers together: what was asked for, or half of what is free."""
    return config.run.memory or int(psutil.virtual_memory().available) // 2


def data_memory(config: RunConfig, workers: int) -> int:
    """Bytes of data that a worker may hold: its share of `--memory`, the program's own not counted, or of what is free.

    A share that the program, the cache and the steps being prepared do not fit into is refused.
    """
    if config.run.memory is None:
        return budget(config) // workers
    left, given = config.run.memory // workers - TRAINING_PROGRAM_BYTES, format_bytes(config.run.memory)
    if left < _LEAST:
        least = format_bytes(TRAINING_PROGRAM_BYTES + _LEAST)
        raise InputError(
            f"--memory bounds all that a run holds, and each of {workers} worker{'' if workers == 1 else 's'} needs {least} at "
            f"least; got {given}. Pass a larger --memory."
        )
    held = config.team.cache + (config.pipeline.memory or 0)
    if held > left // 2:
        raise InputError(
            f"--memory {given} leaves each of {workers} worker{'' if workers == 1 else 's'} {format_bytes(left)} beside the "
            f"program, at most half of it for --cache and [pipeline] memory, got {format_bytes(held)} of these. Pass a larger "
            "--memory, or less of them."
        )
    return left


def team_budget(config: RunConfig, workers: int) -> int:
    """Bytes for features and evaluation of all workers of a run; with --parallel data what the programs leave."""
    return data_memory(config, workers) * workers if config.team.parallel == "data" else budget(config)


def pipeline_memory(config: RunConfig, workers: int) -> int:
    """Bytes of steps that a worker prepares ahead: what was asked for, or a share of its data."""
    if config.pipeline.memory is not None:
        return config.pipeline.memory
    return _PIPELINE if config.run.memory is None else data_memory(config, workers) // _PIPELINE_SHARE
