"""Where a run computes: the processor, one graphics card, or a card for each worker of a team."""

from __future__ import annotations

import torch

from starling.core.errors import InputError
from starling.train.config import RunConfig


def check_device(name: str) -> None:
    """Refuse a device that is not there."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"Expected a device such as cpu or cuda, got '{name}'.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"The device '{name}' is not there: torch sees {torch.cuda.device_count()} GPUs. Pass --device cpu.")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"Expected the device cpu or cuda, got '{name}'.")


def check_run_device(config: RunConfig, *, shared: bool) -> None:
    """Refuse a device that is not there, and graphics cards where a `shared` run's rows are exchanged in ordinary memory."""
    name, workers = config.run.device, config.team.workers
    check_device(name)
    device = torch.device(name)
    if device.type == "cpu":
        return
    if workers > 1 and device.index is not None:
        raise InputError(
            f"Each of {workers} workers takes a graphics card of its own, got --device {name}. Pass --device cuda."
        )
    asked = None
    if config.sync.staleness:
        asked = "--sync stale"  # it reduces in a thread of its own, and cards exchange in one order
    elif workers > 1 and config.sync.name == "average":
        asked = "--sync average with several workers"
    elif shared and config.task.name == "link":
        asked = "--task link on parts"
    if asked is not None:
        raise InputError(f"{asked} runs on processors so far, got --device {name}. Pass --device cpu.")


def check_cards(config: RunConfig) -> None:
    """Refuse more workers on this machine than it has graphics cards, where they compute on such."""
    workers, cards = config.team.workers, torch.cuda.device_count()
    if torch.device(config.run.device).type == "cuda" and workers > cards:
        raise InputError(
            f"Expected a graphics card for each of {workers} workers, got {cards}. Pass --workers {cards}, or --device cpu."
        )
