"""Stale weights and batches in flight: equal to delayed updates written by hand, on any team, whatever the messages' delays."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from starling.comm.in_process import run_threads
from starling.comm.mailbox import Mailbox
from starling.comm.team import Team
from starling.core.assignment import Assignment
from starling.core.errors import InputError, StarlingError
from starling.engine.hybrid.computing import released
from starling.engine.hybrid.layers import row_groups
from starling.store.shards import build_parts
from starling.train.config import RunConfig
from starling.train.parameters import Parameters
from starling.train.results import TrainResult
from starling.train.sync import Updates
from starling.train.trainer import fit
from tests.support.graphs import write_assignment
from tests.support.ranks import run_ranks
from tests.support.trainable import trainable_graph

EPOCHS, STEPS = 2, 5


def rows_of(step: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(step)
    return torch.randn(8, 3, generator=draw), torch.randn(8, 1, generator=draw)


def small_model() -> nn.Module:
    """Drawn from a generator of its own: workers that are threads share torch's."""
    model, draw = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.Generator().manual_seed(1)
    for weight in model.parameters():
        nn.init.uniform_(weight, -0.5, 0.5, generator=draw)
    return model


def learn(team: Team, staleness: int, in_flight: int = 1) -> tuple[list[float], list[Tensor]]:
    """Losses and weights after two epochs of a little regression, each worker with its share of every step's rows."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    losses = []

    def loss(model: nn.Module, step: int) -> Tensor:
        x, y = rows_of(step)
        mine = slice(team.rank, None, team.size)
        return (model(x[mine]) - y[mine]).square().sum() / len(x)

    parameters = Parameters(model, optimizer, clip=1.0, kept=staleness)
    with Updates(parameters, team, staleness=staleness, in_flight=in_flight, threads=2) as updates:
        for epoch in range(EPOCHS):
            numbers = range(epoch * STEPS, (epoch + 1) * STEPS)
            losses += list(updates.run([lambda model, step=step: loss(model, step) for step in numbers]))  # type: ignore[misc]
    return losses, [weight.detach() for weight in model.parameters()]


def delayed_by_hand(staleness: int) -> tuple[list[float], list[Tensor]]:
    """The same in plain torch: the weights of each step are noted, and gradients taken at older ones; anew each epoch."""
    model = small_model()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5), []
    for epoch in range(EPOCHS):
        history = [{name: weight.clone() for name, weight in model.state_dict().items()}]
        for k in range(STEPS):
            x, y = rows_of(epoch * STEPS + k)
            old = {name: value.clone().requires_grad_() for name, value in history[max(0, k - staleness)].items()}
            loss = (torch.func.functional_call(model, old, x) - y).square().sum() / len(x)
            for weight, gradient in zip(model.parameters(), torch.autograd.grad(loss, list(old.values())), strict=True):
                weight.grad = gradient
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            history.append({name: weight.clone() for name, weight in model.state_dict().items()})
            losses.append(float(loss.detach()))
    return losses, [weight.detach() for weight in model.parameters()]


@pytest.mark.parametrize("staleness", [0, 1, 2, 7])
def test_equals_delayed_updates_by_hand(staleness: int) -> None:
    losses, weights = learn(Team(), staleness)
    expected, final = delayed_by_hand(staleness)
    assert losses == expected
    assert all(map(torch.equal, weights, final))


def test_staleness_changes_what_is_learnt() -> None:
    """So that the tests above could fail."""
    assert len({tuple(learn(Team(), staleness)[0]) for staleness in range(4)}) == 4


@pytest.mark.parametrize(("staleness", "in_flight"), [(0, 1), (1, 1), (1, 2), (3, 2), (3, 4)])
def test_teams_and_flights_learn_the_same(staleness: int, in_flight: int) -> None:
    expected, final = delayed_by_hand(staleness)
    for workers in (1, 2, 4):
        seen = run_threads(workers, lambda team: learn(team, staleness, in_flight))
        for losses, weights in seen:
            assert losses == seen[0][0]
            assert all(map(torch.equal, weights, seen[0][1]))
        assert seen[0][0] == pytest.approx(expected, rel=1e-5)
        for weight, other in zip(seen[0][1], final, strict=True):
            torch.testing.assert_close(weight, other)


def test_an_error_in_flight_comes_out_in_its_turn() -> None:
    model = small_model()

    def step(number: int) -> Any:
        def loss(model: nn.Module) -> Tensor:
            if number == 2:
                raise StarlingError("no")
            return torch.stack([weight.sum() for weight in model.parameters()]).sum()

        return loss

    seen = list[float]()
    parameters = Parameters(model, torch.optim.SGD(model.parameters(), lr=0.1), kept=3)
    with Updates(parameters, Team(), staleness=3, in_flight=3, threads=2) as updates, pytest.raises(StarlingError, match="no"):
        seen.extend(updates.run(map(step, range(6))))
    assert len(seen) == 2


def test_buffers_go_on_from_step_to_step_and_forbid_flights() -> None:
    """Batch norm's statistics after three stale steps are those of three steps in a row."""
    norm = nn.BatchNorm1d(3)
    parameters = Parameters(norm, torch.optim.SGD(norm.parameters(), lr=0.1), kept=1)
    expected = torch.zeros(3)
    with Updates(parameters, Team(), staleness=1, threads=1) as updates:
        for _ in updates.run([lambda model, step=step: model(rows_of(step)[0]).sum() for step in range(3)]):  # type: ignore[misc]
            pass
    for step in range(3):
        expected = 0.9 * expected + 0.1 * rows_of(step)[0].mean(0)
    assert norm.running_mean is not None
    torch.testing.assert_close(norm.running_mean, expected)
    with pytest.raises(InputError, match="buffer 'running_mean'"):
        Updates(parameters, Team(), staleness=1, in_flight=2)


# ---- whole runs on a graph ----


class LateMailbox(Mailbox):
    """Every message takes a while to leave and a while to come, drawn anew each time."""

    def __init__(self, inner: Mailbox, team: Team, seed: int) -> None:
        self.rank, self.size, self.ledger = inner.rank, inner.size, team.ledger
        self._inner, self._team, self._draw = inner, team, random.Random(f"{seed}/{inner.rank}")

    def _dawdle(self) -> None:
        if self._draw.random() < 0.5:
            time.sleep(self._draw.random() * 0.004)

    def parcel(self, peer: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self._inner.parcel(peer, shape, dtype)

    def send(self, peer: int, tag: int, parcel: Tensor) -> None:
        self._dawdle()
        self._inner.send(peer, tag, parcel)

    @contextmanager
    def receive(self, peer: int, tag: int, shape: Sequence[int], dtype: torch.dtype) -> Iterator[Tensor]:
        with self._team.ledger.time("waiting"):
            self._dawdle()
        coming: AbstractContextManager[Tensor] = self._inner.receive(peer, tag, shape, dtype)
        with coming as rows:
            yield rows

    def send_list(self, peer: int, tag: int, values: NDArray[np.int64]) -> None:
        self._dawdle()
        self._inner.send_list(peer, tag, values)

    def receive_list(self, peer: int, tag: int) -> NDArray[np.int64]:
        with self._team.ledger.time("waiting"):
            self._dawdle()
        return self._inner.receive_list(peer, tag)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The graph itself, and four unequal parts of it as an edge-cut and as a vertex-cut."""
    folder = tmp_path_factory.mktemp("graph")
    graph = trainable_graph(folder / "g", nodes=60, edges=240)
    draw, found = np.random.default_rng(5), {"graph": graph.path}
    owner = draw.choice(4, 60, p=[0.5, 0.3, 0.1, 0.1]).astype(np.int32)
    for kind in ("edge-cut", "vertex-cut"):
        edge_part = draw.choice(4, graph.manifest.edges).astype(np.uint16) if kind == "vertex-cut" else None
        found[kind] = folder / kind
        found[kind].mkdir()
        assigned = write_assignment(
            folder / f"{kind}-assigned",
            Assignment(kind, 4, owner, edge_part),  # type: ignore[arg-type]
            graph.manifest.edges,
        )
        build_parts(graph, assigned, found[kind])
    return found


def a_config(path: Path, workers: int, sync: dict[str, Any], model: str = "gcn", epochs: int = 2) -> RunConfig:
    tables: dict[str, dict[str, Any]] = {
        "data": {"path": path},
        "model": {"name": model, "hidden": 8, "dropout": 0.2},
        "strategy": {"name": "mini", "batch_size": 3},
        "optimizer": {"lr": 0.02},
        "run": {"epochs": epochs, "seed": 3, "evaluate_every": epochs},
        "team": {"workers": workers, "threads": 2},
        "sync": sync,
    }
    return RunConfig.from_tables(tables)


def train(
    path: Path, run: Path, workers: int, sync: dict[str, Any], *, late: int | None = None, model: str = "gcn", epochs: int = 2
) -> TrainResult:
    """A run of twelve steps an epoch; all workers must end with the same losses and weights."""
    config = a_config(path, workers, sync, model, epochs)

    def work(team: Team) -> TrainResult:
        if late is not None and team.mailbox is not None:
            team.mailbox = LateMailbox(team.mailbox, team, late)
        return fit(config, run, team=team)

    results = run_threads(workers, work)
    for other in results[1:]:
        assert_same(other, results[0])
    return results[0]


def assert_same(one: TrainResult, other: TrainResult) -> None:
    assert one.losses == other.losses
    assert one.model is not None
    assert other.model is not None
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def stale(staleness: int, in_flight: int = 1) -> dict[str, Any]:
    return {"name": "stale", "staleness": staleness, "in_flight": in_flight}


@pytest.mark.parametrize("workers", [1, 2])
def test_no_staleness_is_gradient_sync_to_the_bit(parts: dict[str, Path], tmp_path: Path, workers: int) -> None:
    path = parts["graph" if workers == 1 else "edge-cut"]
    plain = train(path, tmp_path / "plain", workers, {"name": "gradient"})
    assert_same(train(path, tmp_path / "stale", workers, stale(0)), plain)
    assert train(path, tmp_path / "one", workers, stale(1)).losses != plain.losses


@pytest.mark.parametrize(("staleness", "in_flight"), [(1, 2), (3, 2)])
def test_runs_of_one_two_and_four_workers_agree(parts: dict[str, Path], tmp_path: Path, staleness: int, in_flight: int) -> None:
    alone = train(parts["graph"], tmp_path / "alone", 1, stale(staleness))
    assert_same(train(parts["graph"], tmp_path / "flights", 1, stale(staleness, in_flight)), alone)
    for workers in (2, 4):
        team = train(parts["edge-cut"], tmp_path / f"{workers}", workers, stale(staleness, in_flight))
        np.testing.assert_allclose(team.losses, alone.losses, rtol=2e-4)


@pytest.fixture(params=["as shipped", "blocks and groups of few rows"])
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and groups that go on by themselves are for thousands of rows; here they are for three."""
    if request.param == "as shipped":
        return
    monkeypatch.setattr(released, "BLOCK_ROWS", 3)
    for module in (released, row_groups):
        monkeypatch.setattr(module, "LEAST_ROWS", 3)
        monkeypatch.setattr(module, "LEAST_EARLY", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(row_groups, "LEAST_EDGES", 0)


@pytest.mark.usefixtures("rows_at_once")
@pytest.mark.parametrize(
    ("workers", "staleness", "in_flight", "kind", "model"),
    [
        (2, 1, 2, "edge-cut", "gcn"),
        (2, 3, 4, "vertex-cut", "gat"),
        (2, 3, 1, "edge-cut", "gcn"),
        (4, 2, 3, "edge-cut", "sage"),
        (4, 2, 3, "edge-cut", "gat"),
        (4, 3, 4, "vertex-cut", "gcn"),
    ],
)
def test_late_messages_change_no_bit(
    parts: dict[str, Path], tmp_path: Path, workers: int, staleness: int, in_flight: int, kind: str, model: str
) -> None:
    """The stress test: random delays at every message, more batches than slots; it ends, and with the very same numbers."""
    plain = train(parts[kind], tmp_path / "plain", workers, stale(staleness), model=model, epochs=1)
    for seed in range(2):
        late = train(parts[kind], tmp_path / f"{seed}", workers, stale(staleness, in_flight), late=seed, model=model, epochs=1)
        assert_same(late, plain)


def losses_of_rank(team: Team, path: Path, run: Path, sync: dict[str, Any]) -> tuple[float, ...]:
    return fit(a_config(path, team.size, sync), run, team=team).losses


def test_processes_learn_what_threads_learn(parts: dict[str, Path], tmp_path: Path) -> None:
    """Over shared memory, three batches in flight."""
    threads = train(parts["edge-cut"], tmp_path / "threads", 2, stale(2))
    path, run = parts["edge-cut"], tmp_path / "processes"
    seen = run_ranks(2, losses_of_rank, path, run, stale(2, 3))
    assert seen == [threads.losses] * 2


@pytest.mark.parametrize(
    ("sync", "message"),
    [
        ({"name": "gradient", "staleness": 1}, "every step waits for the one before, got staleness 1"),
        ({"name": "gradient", "in_flight": 2}, "got 2 batches in flight. Pass --sync stale"),
        ({"name": "stale", "staleness": 1, "in_flight": 3}, "--in-flight of at most 2.* got 3. Pass --staleness 2"),
    ],
)
def test_settings_that_contradict_each_other(sync: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RunConfig.from_tables({"data": {"path": "g"}, "sync": sync})


def test_an_epoch_of_one_step_has_nothing_to_overlap(parts: dict[str, Path], tmp_path: Path) -> None:
    config = RunConfig.from_tables({"data": {"path": parts["graph"]}, "sync": stale(1)})
    with pytest.raises(InputError, match="an epoch is one step"):
        fit(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
