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

    class made_once(cached_property):
        """A `cached_property` that one thread makes while others wait for it: two that make it take twice the memory."""

        def __init__(self, make: Callable[[Any], Any]) -> None:
            def make_alone(holder: Any) -> Any:
                kept = vars(holder)
                with lock_of(holder):
                    return kept[make.__name__] if make.__name__ in kept else kept.setdefault(make.__name__, make(holder))

            make_alone.__doc__ = make.__doc__
            super().__init__(make_alone)
