"""Teams whose messages come in an order drawn anew each time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.train.config import RunConfig
from tests.engine.hybrid.runs import Learnt, learn


def in_disorder(team: Team, seed: int) -> None:
    """Give what comes to a worker in an order drawn anew each time."""
    assert team.mailbox is not None
    real, draw = team.mailbox.receive_any, random.Random(f"{seed}/{team.rank}")

    def receive_any(tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        coming = real(tag, shapes, dtype)  # asked for now, waited for later

        def shuffled() -> Iterator[tuple[int, Tensor]]:
            come = [(peer, rows.clone()) for peer, rows in coming]
            draw.shuffle(come)
            yield from come

        return shuffled()

    team.mailbox.receive_any = receive_any  # type: ignore[method-assign]


def learn_in_disorder(config: RunConfig, run: Path, seed: int) -> list[Learnt]:
    def work(team: Team) -> Learnt:
        in_disorder(team, seed)
        return learn(team, config, run)

    return run_threads(config.team.workers, work)
