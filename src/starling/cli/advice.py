"""What is said of a run when it is done, beside its results: on standard error, a sentence or nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starling.train.results import TrainResult


def advise(result: TrainResult) -> None:
    """Say what might have been better."""
    if result.sync == "average":
        from starling.train.averaging.advice import shallow_halo_advice
        from starling.train.config import CONFIG, RunConfig

        if advice := shallow_halo_advice(RunConfig.read(result.run / CONFIG)):
            print(f"starling: {advice}", file=sys.stderr)
