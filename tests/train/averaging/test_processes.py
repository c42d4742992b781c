"""Model averaging by processes: the bits of threads, and a worker that is killed is missed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.failures import PeerLost
from starling.comm.team import Team
from starling.train.averaging.loop import AveragingLoop
from starling.train.averaging.model_average import ModelSum
from starling.train.config import RunConfig
from starling.train.trainer import fit
from tests.engine.data.cases import on_hosts
from tests.support.ranks import run_ranks, try_ranks
from tests.train.averaging.cases import Tables, fit_as, tables, train, weights


def test_processes_give_the_bits_of_threads(place: Path, tmp_path: Path) -> None:
    (alone,) = train(place / "five" / "parts", tmp_path / "1", 1)
    given = tables(place / "five" / "parts", {"team": {"workers": 2}})
    for flat, losses in run_ranks(2, learn_in_process, given, tmp_path / "2"):
        assert losses == alone.losses
        for name, value in weights(alone).items():
            np.testing.assert_array_equal(flat[name], value.numpy())


def test_four_processes(place: Path, tmp_path: Path) -> None:
    """Gradients over sockets, every worker as on a host of its own, and then models that are averaged: what threads learn."""
    path = place / "five" / "parts"
    four: Tables = {"team": {"workers": 4}}
    gradient = RunConfig.from_tables(tables(path, {"sync": {"name": "gradient"}}, four))
    expected = on_hosts([0, 1, 2, 3], partial(fit_as, gradient, tmp_path / "threads"))[0]
    (alone,) = train(path, tmp_path / "alone", 1)
    given = (gradient.to_tables(), tables(path, four), tmp_path)
    for by_gradient, by_average in run_ranks(4, learn_twice_in_process, *given, transport="gloo", deadline=240):
        flat, losses = by_gradient
        np.testing.assert_allclose(losses, expected.losses, rtol=1e-5)
        for name, value in weights(expected).items():
            np.testing.assert_allclose(flat[name], value.numpy(), rtol=1e-4, atol=1e-6)
        flat, losses = by_average
        assert losses == alone.losses
        for name, value in weights(alone).items():
            np.testing.assert_array_equal(flat[name], value.numpy())


def learn_twice_in_process(team: Any, first: Tables, second: Tables, folder: Path) -> tuple[Any, Any]:
    return learn_in_process(team, first, folder / "first"), learn_in_process(team, second, folder / "second")


def be_killed(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def learn_until_killed(team: Team, given: Tables, run: Path, unlucky: int, when: str) -> None:
    """One worker is killed some rounds into the run, with a part at work or where models are averaged."""
    owner, name = {"training": (AveragingLoop, "_train_part"), "averaging": (ModelSum, "mean")}[when]
    original, seen = getattr(owner, name), iter(range(10**9))

    def sooner_or_later(*args: Any) -> Any:
        return (be_killed if next(seen) == 3 else original)(*args)

    if team.rank == unlucky:
        setattr(owner, name, sooner_or_later)  # in this process, which ends with it
    fit(RunConfig.from_tables(given), run, team=team)


@pytest.mark.parametrize(("unlucky", "when"), [(0, "averaging"), (1, "training"), (1, "averaging")])
def test_a_killed_worker_is_missed_by_the_others(place: Path, tmp_path: Path, unlucky: int, when: str) -> None:
    given = tables(place / "five" / "parts", {"team": {"workers": 2}, "run": {"epochs": 8}})
    ended = try_ranks(2, learn_until_killed, given, tmp_path / "run", unlucky, when, deadline=120)
    killed, alive = ended[unlucky], ended[1 - unlucky]
    assert killed.exit_code == -signal.SIGKILL, ended
    assert isinstance(alive.error, PeerLost), ended
    assert f"Worker {unlucky} closed its connection" in str(alive.error)


def learn_in_process(team: Any, given: Tables, run: Path) -> tuple[dict[str, Any], tuple[float, ...]]:
    result = fit(RunConfig.from_tables(given), run, team=team)
    return {name: value.numpy() for name, value in result.model.state_dict().items()}, result.losses
