"""The network between workers, as people write it: ``1Gbit``, ``25Gbit,20us``, ``100MB/s``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starling.core.errors import InputError

DEFAULT_LATENCY = 1e-4
"""Of a message between machines, where nobody says: an ordinary data-centre network with TCP."""
_MOST = 1e9
"""Of any unit: more is no network, and its square no number."""
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Network:
    """Every worker's link: bytes a second each way, seconds that a message is under way, and that it costs its sender."""

    bandwidth: float
    latency: float = DEFAULT_LATENCY
    message: float = 5e-6
    shared_memory: bool = False
    """Workers are on one machine and share its cores."""

    @property
    def words(self) -> str:
        """For people."""
        if self.shared_memory:
            return "shared memory of this machine"
        return f"{self.bandwidth * 8 / 1e9:.3g} Gbit/s, {self.latency * 1e6:.3g} µs"


def parse_network(text: str) -> Network:
    """A speed, and after a comma a latency. As usual a small b is a bit, a large one a byte."""
    speed, comma, latency = text.partition(",")
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGTkmgt])(bits?|b|B)(/s|ps)?\s*", speed)
    if match is None or not 0 < float(match[1]) < _MOST:
        raise InputError(f"Expected a network such as 1Gbit, 25Gbit,20us or 100MB/s, got '{text}'.")
    size = 1.0 if match[3] == "B" else 1 / 8
    bandwidth = float(match[1]) * _PREFIXES[match[2].upper()] * size
    return Network(bandwidth, _seconds(latency, text) if comma else DEFAULT_LATENCY)


def _seconds(text: str, whole: str) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zµ]+)\s*", text)
    if match is None or match[2] not in _TIMES:
        raise InputError(f"Expected the latency of a network such as 20us or 0.1ms after the comma, got '{whole}'.")
    return float(match[1]) * _TIMES[match[2]]
