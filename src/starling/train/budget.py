"""How much memory a run may take for features and evaluation."""

from __future__ import annotations

import psutil

from starling.train.config import RunConfig


def budget(config: RunConfig) -> int:
    """Bytes for all workers together: what was asked for, or half of what is free."""
    return config.run.memory or int(psutil.virtual_memory().available) // 2
