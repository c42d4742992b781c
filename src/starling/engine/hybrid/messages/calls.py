"""Tags of the messages of one step."""

from __future__ import annotations

from dataclasses import dataclass

from starling.comm.tags import CALLS, Channel, make_tag


@dataclass(eq=False)
class Calls:
    """Numbers the messages of one step, in the order of the calls, which is the same on every worker."""

    step: int
    channel: Channel = Channel.FORWARD
    _next: int = 0

    def forward(self) -> int:
        """The tag of the next forward message."""
        self._next += 1
        if self.channel == Channel.SETUP:  # it has no steps, and there is no end to what a run may ask for as it begins
            further, call = divmod(self._next, CALLS)
            return make_tag(self.channel, self.step + further, call)
        return make_tag(self.channel, self.step, self._next)

    @staticmethod
    def backward(tag: int) -> int:
        """The tag of the message that answers a forward one in the backward pass."""
        return tag | make_tag(Channel.BACKWARD, 0, 0)
