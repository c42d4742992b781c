"""Standard normal numbers out of keyed bits, one from each 32, by the inverse of the normal distribution."""

from __future__ import annotations

import math

import numpy as np

from starling.core.compile import compiled

_TO_UNIT = 2.0**-32


@compiled
def normal(bits: np.uint64) -> float:
    """The normal quantile of (bits + ½) / 2³²: between −6.3 and 6.3, right to seven digits; bits < 2³².

    Wichura's algorithm AS 241 (Applied Statistics 37, 1988), the PPND7 form without its far tail, which 32 bits never
    reach. Rising in `bits`; a logarithm is needed for three numbers in twenty only.
    """
    p = (float(bits) + 0.5) * _TO_UNIT
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179
        below = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0
        return q * above / below
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p)) - 1.6
    above = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
    below = (0.12021132975 * r + 0.73700164250) * r + 1.0
    return -above / below if q < 0.0 else above / below
