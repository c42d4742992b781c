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
