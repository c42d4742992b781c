"""Tags of the messages of one step, and of those with which a run is set up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from starling.comm.tags import CALLS, Channel, channel_of, describe_tag, make_tag


class Planning(IntEnum):
    """Numbers of messages in a step's planning; the search from targets outwards counts from one."""

    SIZES = 1 << 12
    TABLES = 6000
    """The first of several."""
    POOL = 7000
    ENDS = 7001
    COUNTS = 7002
    MOVED = 7003


@dataclass(eq=False)
class Calls:
    """Numbers the messages of one step, in the order of the calls, which is the same on every worker."""

    step: int
    channel: Channel = Channel.FORWARD
    _next: int = 0

    def next_tag(self) -> int:
        """The tag of the next message."""
        self._next += 1
        if self.channel == Channel.SETUP:  # it has no steps, and there is no end to what a run may ask for as it begins
            further, call = divmod(self._next, CALLS)
            return make_tag(self.channel, self.step + further, call)
        return make_tag(self.channel, self.step, self._next)

    @staticmethod
    def answer_to(tag: int) -> int:
        """The tag of the message that answers one of the forward pass in the backward pass."""
        if channel_of(tag) != Channel.FORWARD:
            raise ValueError(f"only messages of the forward pass are answered, got {describe_tag(tag)}")
        return tag | make_tag(Channel.BACKWARD, 0, 0)
