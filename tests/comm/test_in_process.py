"""The team of threads is strict: what is wrong over sockets is an error here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import StarlingError


def test_a_message_nobody_takes_is_an_error() -> None:
    def talk(team: Team) -> None:
        team.links.send_list(1 - team.rank, team.rank, np.arange(2))

    with pytest.raises(StarlingError, match="2 messages were sent and never received"):
        run_threads(2, talk)


def test_one_error_ends_all() -> None:
    def talk(team: Team) -> None:
        if team.rank == 1:
            raise KeyError("broken")
        team.links.receive_list(1, 0)

    with pytest.raises(KeyError, match="broken"):
        run_threads(2, talk)


def test_another_shape_or_type_is_an_error() -> None:
    def talk(team: Team) -> None:
        team.links.send_copy(1 - team.rank, 0, torch.ones(4))
        with team.links.receive(1 - team.rank, 0, (2, 2), torch.float32):
            pass

    with pytest.raises(StarlingError, match=r"Expected \(2, 2\) of torch.float32 from worker"):
        run_threads(2, talk)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_rows_of_any_numbers_are_swapped_as_they_are(kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Worker w gives worker v so many rows as v, all of which say who gave them; among floats a NaN and a zero with a sign."""

    def rows(giver: int, count: int) -> np.ndarray:
        made = np.full((count, *shape), giver).astype(kind)
        if made.size and issubclass(kind, np.floating):
            made.reshape(-1)[:2] = np.array([np.nan, -0.0])[: made.size].astype(kind)
        return made

    def swap(team: Team) -> list[np.ndarray]:
        return team.swap_rows(0, [rows(team.rank, peer) for peer in range(team.size)])

    for rank, got in enumerate(run_threads(3, swap)):
        for giver, came in enumerate(got):
            assert came.dtype == kind
            assert came.shape == (rank, *shape)
            assert came.tobytes() == rows(giver, rank).tobytes()
