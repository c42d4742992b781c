"""What is made once for an object, however many threads ask for it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any


def lock_of(holder: object) -> threading.RLock:
    """The lock of an object, under which whatever is kept with it is made."""
    lock: threading.RLock = vars(holder).setdefault("_lock", threading.RLock())  # one step: all threads find the same
    return lock


if TYPE_CHECKING:
    made_once = cached_property
else:

    class made_once:
        """A `cached_property` that one thread makes while others wait for it: two that make it take twice the memory.

        Python 3.11's own has a lock for all objects of a class; here each object has one for all that is made for it.
        """

        def __init__(self, make: Callable[[Any], Any]) -> None:
            self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

        def __get__(self, holder: Any, owner: type | None = None) -> Any:
            if holder is None:
                return self
            kept = vars(holder)
            if self._name not in kept:
                with lock_of(holder):
                    if self._name not in kept:
                        kept[self._name] = self._make(holder)
            return kept[self._name]
