"""What freed arrays add to a step: those below the allocator's threshold are kept (core/allocator.py), and new ones leave holes.

Arrays above the threshold go back to the system when they are freed, so a step of such arrays peaks where the list of its arrays
does. Below it the heap grows by an array now and then, over about ten epochs, and levels off. The same run (sage 2 × 256, 50,000
rows a worker, arrays of 49 MiB) peaked at 768 MiB with every freed array given back, at up to 1,046 MiB with them kept, and at
1,096 MiB where every epoch was evaluated.
"""

from __future__ import annotations

from starling.core.allocator import KEPT_ARRAY_BYTES
from starling.plan.forecast.activations import FLOAT, step_bytes
from starling.plan.forecast.model import ATTENTION, ForecastModel
from starling.plan.forecast.sizes import StepSize

KEPT_TIMES = 3.25
"""A step of small arrays over their sum: 1.5 to 2.8 was measured, and a sixth more (tests/plan/forecast/test_holes.py)."""
_LARGER = 1.5
"""Sizes on the safe side may be so much larger than real ones; an array is large only if it is so in any case."""


def held_step_bytes(model: ForecastModel, step: StepSize, *, kept_sums: bool, exact: bool = False) -> float:
    """The peak of a step (activations.py) with the holes of its small arrays; `exact`: its sizes are those of the graph."""
    share = small_share(model, step, KEPT_ARRAY_BYTES * (1.0 if exact else _LARGER))
    return step_bytes(model, step, kept_sums=kept_sums) * (1 + (KEPT_TIMES - 1) * share)


def small_share(model: ForecastModel, step: StepSize, threshold: float) -> float:
    """Bytes in arrays up to a threshold over those of all: rows in and out of each layer, and scores of its edges."""
    small = every = 0.0
    for index, (layer, size) in enumerate(zip(model.layers, step.layers, strict=True)):
        arrays = [size.destinations * layer.fan_out]
        arrays += [size.sources * layer.fan_in] if index else []  # features are there already
        arrays += [size.sources * layer.width, size.edges * layer.heads] if layer.kind in ATTENTION else []
        for numbers in arrays:
            every += FLOAT * numbers
            small += FLOAT * numbers if FLOAT * numbers <= threshold else 0.0
    return small / every if every else 1.0
