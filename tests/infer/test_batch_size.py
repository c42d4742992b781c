"""Batches of an evaluation grow while there is room, and shrink when one turns out to be hungry."""

from __future__ import annotations

from starling.infer.batch_size import BatchSize


def test_sizes_go_by_the_hungriest_batch() -> None:
    size = BatchSize(memory=4_000_000)
    assert size.now == 64
    size.saw(64, 64 * 100)  # 100 bytes a target: room for 10,000, but only four times as many are tried
    assert size.now == 256
    size.saw(256, 256 * 100)
    assert size.now == 1024
    size.saw(1024, 1024 * 10_000)
    assert size.now == 100
    size.saw(100, 100 * 100)  # an easy batch does not make the hungry ones forgotten
    assert size.now == 100
    size.saw(0, 0)
    size.saw(1, 10**9)
    assert size.now == 1
