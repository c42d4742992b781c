"""The keyed generator: a random number is a pure function of what it is for.

``draw(key, node, slot)`` with ``key = stream_key(seed, stream, epoch, step)`` gives the same 64 bits on every machine,
in every thread, in any order. That is why batches, samples and dropout masks do not depend on how many workers there are.

The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood 2014; Stafford's variant 13). Each argument is absorbed with a
multiplication by an odd constant and one round of mixing, so neighbouring nodes and slots give unrelated bits.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NODE = np.uint64(0xD1342543DE82EF95)
_SLOT = np.uint64(0xA0761D6478BD642F)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_U30, _U27, _U31, _U32, _U11 = (np.uint64(bits) for bits in (30, 27, 31, 32, 11))
_TO_UNIT = 2.0**-53


@compiled
def mix64(value: np.uint64) -> np.uint64:
    """Scramble 64 bits so that each output bit depends on every input bit; a bijection."""
    value = np.uint64(value)
    value = (value ^ (value >> _U30)) * _MIX1
    value = (value ^ (value >> _U27)) * _MIX2
    return value ^ (value >> _U31)


@compiled
def draw(key: np.uint64, node: int, slot: int) -> np.uint64:
    """64 random bits for this key, node and slot."""
    absorbed = mix64(np.uint64(key) + np.uint64(node) * _NODE + _GOLDEN)
    return mix64(absorbed ^ (np.uint64(slot) * _SLOT + _GOLDEN))


@compiled
def draw_unit(key: np.uint64, node: int, slot: int) -> float:
    """A float64 in [0, 1) for this key, node and slot."""
    return float(draw(key, node, slot) >> _U11) * _TO_UNIT


@compiled
def draw_below(key: np.uint64, node: int, slot: int, bound: int) -> int:
    """A whole number in [0, bound), bound < 2**32; biased by less than bound / 2**32."""
    # int64, since Numba makes a float of a variable that is now signed, now unsigned
    return int(np.int64(((draw(key, node, slot) >> _U32) * np.uint64(bound)) >> _U32))


@compiled
def _fill_units(key: np.uint64, first: int, slot: int, out: NDArray[np.float64]) -> None:
    for i in range(len(out)):
        out[i] = draw_unit(key, first + i, slot)


def units(key: np.uint64, first: int, count: int, slot: int = 0) -> NDArray[np.float64]:
    """``draw_unit`` for nodes first … first + count − 1."""
    out = np.empty(count)
    _fill_units(key, first, slot, out)
    return out


def stream_key(seed: int, stream: str, epoch: int = 0, step: int = 0) -> np.uint64:
    """The key of one stream of numbers at one step; two names never share a stream."""
    text = f"{seed}/{stream}/{epoch}/{step}".encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def permutation(key: np.uint64, count: int) -> NDArray[np.int64]:
    """A random order of 0 … count − 1, the same on every machine."""
    bits = np.empty(count, np.uint64)
    _fill_bits(key, bits)
    return np.argsort(bits, kind="stable")


@compiled
def _fill_bits(key: np.uint64, out: NDArray[np.uint64]) -> None:
    for i in range(len(out)):
        out[i] = draw(key, i, 0)
