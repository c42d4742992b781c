"""Tags: no two messages share one, any transport can carry them, and errors can name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starling.comm.tags import Channel, describe_tag, make_tag


@given(st.sampled_from(Channel), st.integers(0, 16_383), st.integers(0, 8_191))
def test_a_tag_tells_its_message(channel: Channel, step: int, call: int) -> None:
    tag = make_tag(channel, step, call)
    assert 0 <= tag < 1 << 31
    assert describe_tag(tag) == f"message {call} of step {step} ({channel.name.lower()})"


def test_by_hand() -> None:
    assert make_tag(Channel.SUMS, 3, 5) == (2 << 27) + (3 << 13) + 5
    assert make_tag(Channel.FORWARD, 16_384, 1) == make_tag(Channel.FORWARD, 0, 1)
    assert describe_tag(15 << 27) == "message 0 of step 0 (channel 15)"


def test_too_many_messages() -> None:
    with pytest.raises(ValueError, match="8192"):
        make_tag(Channel.PLAN, 0, 8192)
