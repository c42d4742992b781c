"""Tags of messages: who speaks (a channel), in which step, the how-manyth time. 31 bits, so that any transport can carry them."""

from __future__ import annotations

from enum import IntEnum

_STEP_BITS, _CALL_BITS = 14, 13
CALLS = 1 << _CALL_BITS
"""Messages of one step and channel that have tags of their own."""


class Channel(IntEnum):
    """The parts of the program that talk, each with tags of its own, so that they may talk at the same time."""

    FORWARD = 0
    BACKWARD = 1
    SUMS = 2
    PLAN = 3
    SETUP = 4
    EVALUATE = 5
    GRADIENTS = 6
    STORE = 7
    SAMPLE = 8
    FETCH = 9
    EMBEDDINGS = 10
    PAST = 11
    CHECKPOINT = 12


BACKGROUND = frozenset({Channel.PLAN, Channel.SAMPLE, Channel.FETCH})
"""What batches are made over, ahead of training and beside it."""


def make_tag(channel: Channel, step: int, call: int) -> int:
    """The tag of one message; steps wrap around after 16,384, long after their messages are gone."""
    if not 0 <= call < CALLS:
        raise ValueError(f"at most {CALLS} messages a step and channel, got number {call}")
    return channel << (_STEP_BITS + _CALL_BITS) | (step & ((1 << _STEP_BITS) - 1)) << _CALL_BITS | call


def channel_of(tag: int) -> int:
    """Who speaks."""
    return tag >> (_STEP_BITS + _CALL_BITS)


def describe_tag(tag: int) -> str:
    """A tag in words, for messages of errors."""
    rest, call = divmod(tag, 1 << _CALL_BITS)
    channel, step = divmod(rest, 1 << _STEP_BITS)
    name = Channel(channel).name.lower() if channel in {*Channel} else f"channel {channel}"
    return f"message {call} of step {step} ({name})"
