"""How every kernel is compiled: Numba, without the GIL, cached on disk, types kept for the checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a hot loop. It holds no GIL, so several threads may run it at once; it must not call back into Python."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))


def compiled_multiply_add(function: Function) -> Function:
    """Compile a loop of a·b + c as one rounded operation (FMA). Sums keep their written order, so results stay exact twins."""
    return cast(Function, numba.njit(nogil=True, cache=True, fastmath={"contract"})(function))


def compiled_dots(function: Function) -> Function:
    """Compile dot products over several lanes at once. The order of a sum depends on its length alone, never on threads."""
    return cast(Function, numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})(function))
