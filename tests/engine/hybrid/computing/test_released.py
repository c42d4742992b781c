"""Rows that go on block by block: the same numbers as with whole layers, in whatever order messages come."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Function

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.engine.hybrid.computing import released
from starling.engine.hybrid.computing.block_work import BlockWork
from starling.engine.hybrid.computing.team_sum import TeamSum
from starling.engine.hybrid.messages.exchange import TeamExchange
from starling.nn.gather import Copy
from starling.nn.row_work import Node, RowWork
from starling.store.graph import Graph
from starling.train.setup import set_up
from tests.engine.hybrid.disorder import learn_in_disorder
from tests.engine.hybrid.runs import assert_identical, assert_same, config_of, learn, learn_together, steps
from tests.support.ranks import run_ranks

AS_SHIPPED = released.LEAST_EARLY
MODELS: dict[str, dict[str, Any]] = {
    "gcn of three layers": {"name": "gcn", "layers": 3, "hidden": 8, "dropout": 0.3},
    "gcn that widens": {"name": "gcn", "layers": 3, "hidden": 24, "dropout": 0.0},
    "gcn with layer norm": {"name": "gcn", "layers": 3, "hidden": 8, "norm": "layer", "activation": "elu"},
    "weighted gcn": {"name": "gcn", "layers": 2, "hidden": 8, "edge_weights": True, "input_dropout": 0.2},
    "sage of three layers": {"name": "sage", "layers": 3, "hidden": 8, "dropout": 0.2},
    "sage that widens": {"name": "sage", "layers": 3, "hidden": 24},
    "gin": {"name": "gin", "layers": 3, "hidden": 8, "dropout": 0.1},
    "sage with a network inside": {"name": "sage", "layers": 3, "hidden": 8, "inner": 2},
    "gcn with residuals": {"name": "gcn", "layers": 3, "hidden": 24, "residual": True, "dropout": 0.2},
    "sage with residuals that jumps": {"name": "sage", "layers": 3, "hidden": 8, "residual": True, "jump": "cat"},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "global": {"name": "global"},
    "mini": {"name": "mini", "batch_size": 20},
    "sampled": {"name": "mini", "batch_size": 20, "fanouts": [3, 2, 2]},
    "cluster": {"name": "cluster", "clusters": 5, "clusters_per_step": 2, "boundary_hops": 1},
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Blocks of five rows, worth it or not; gives the numbers of blocks that were released."""
    counts: list[int] = []
    monkeypatch.setattr(released, "BLOCK_ROWS", 5)
    monkeypatch.setattr(released, "LEAST_ROWS", 5)
    monkeypatch.setattr(released, "LEAST_EARLY", 0.0)
    real = BlockWork.begin

    def begin(self: BlockWork, *given: Any, **more: Any) -> None:
        counts.append(self.count)
        real(self, *given, **more)

    monkeypatch.setattr(BlockWork, "begin", begin)
    return counts


def strategy_of(name: str, model: dict[str, Any]) -> dict[str, Any]:
    how = STRATEGIES[name]
    return {**how, "fanouts": how["fanouts"][: model["layers"]]} if "fanouts" in how else how


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", MODELS)
def test_blocks_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, few_rows: list[int], model: str, strategy: str, workers: int
) -> None:
    settings, how = MODELS[model], strategy_of(strategy, MODELS[model])
    (alone,) = learn_together(config_of(graph.path, 1, settings, how), tmp_path / "alone")
    assert not few_rows
    for seen in learn_together(config_of(parts["edge-cut"], workers, settings, how), tmp_path / "team"):
        assert_same(seen, alone)
    assert max(few_rows) > 1


@pytest.mark.parametrize("boundary", [1.0, 0.5])
@pytest.mark.parametrize("strategy", ["global", "mini"])
@pytest.mark.parametrize("model", ["gcn of three layers", "sage that widens", "gin"])
def test_neither_the_order_of_arrival_nor_overlap_changes_a_bit(
    parts: dict[str, Path], tmp_path: Path, model: str, strategy: str, boundary: float
) -> None:
    settings, how = MODELS[model], strategy_of(strategy, MODELS[model])
    configs = [config_of(parts["edge-cut"], 4, settings, how, boundary=boundary, overlap=overlap) for overlap in (True, False)]
    found = [learn_together(config, tmp_path / str(number)) for number, config in enumerate(configs)]
    found += [learn_in_disorder(configs[0], tmp_path / f"disorder {seed}", seed) for seed in range(3)]
    for other in found[1:]:
        for seen, expected in zip(other, found[0], strict=True):
            assert_identical(seen, expected)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("model", ["gcn of three layers", "sage of three layers", "gin"])
def test_blocks_have_the_gradients_of_whole_layers(
    parts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, few_rows: list[int], model: str, workers: int
) -> None:
    config = config_of(parts["edge-cut"], workers, MODELS[model])
    in_blocks = steps(config)
    assert few_rows
    monkeypatch.setattr(released, "LEAST_EARLY", 2.0)
    few_rows.clear()
    np.testing.assert_allclose(in_blocks, steps(config), rtol=1e-4, atol=1e-6)
    assert not few_rows


def learn_in_a_process(team: Team, path: str, run: str, overlap: bool) -> list[float]:
    released.BLOCK_ROWS, released.LEAST_ROWS, released.LEAST_EARLY = 5, 5, 0.0
    config = config_of(Path(path), team.size, MODELS["sage of three layers"], overlap=overlap)
    return list(learn(team, config, Path(run)).losses)


def test_processes_learn_the_same_bits_over_every_transport(parts: dict[str, Path], tmp_path: Path) -> None:
    config = config_of(parts["edge-cut"], 3, MODELS["sage of three layers"])
    expected = list(learn_together(config, tmp_path / "threads")[0].losses)
    for number, (transport, overlap) in enumerate([("auto", True), ("gloo", True), ("gloo", False)]):
        run = str(tmp_path / f"processes {number}")
        for losses in run_ranks(3, learn_in_a_process, str(parts["edge-cut"]), run, overlap, transport=transport):  # type: ignore[arg-type]
            assert losses == expected


# ---- a band of nodes in three parts: what goes on and leaves when, by hand ----


def test_blocks_go_on_when_their_last_message_was_added(band: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The middle worker's blocks wait for one neighbour each. The outer ones' first blocks in the order are inner ones."""
    monkeypatch.setattr(released, "LEAST_EARLY", AS_SHIPPED)
    events: dict[int, list[str]] = {rank: [] for rank in range(3)}
    here = threading.local()

    def noted(owner: type, name: str, word: str) -> None:
        real = getattr(owner, name)

        def run(self: Any, number: int, *more: Any) -> None:
            events[here.rank].append(f"{word} {number}")
            real(self, number, *more)

        monkeypatch.setattr(owner, name, run)

    noted(BlockWork, "run", "run")
    noted(BlockWork, "run_backward", "back")
    noted(TeamExchange, "send_own_to", "to")
    noted(TeamSum, "send_back", "back to")

    def work(team: Team) -> None:
        here.rank = team.rank
        assert team.mailbox is not None
        real = team.mailbox.receive_any

        def receive_any(tag: int, shapes: Mapping[int, Sequence[int]], dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
            coming = real(tag, shapes, dtype)

            def from_the_last() -> Iterator[tuple[int, Tensor]]:
                come = {peer: rows.clone() for peer, rows in coming}
                for peer in sorted(come, reverse=True):
                    events[here.rank].append(f"from {peer}")
                    yield peer, come[peer]

            return from_the_last()

        team.mailbox.receive_any = receive_any  # type: ignore[method-assign]
        learn(team, config_of(band, 3, {"name": "gcn", "layers": 3, "hidden": 4}, epochs=1), tmp_path / "run")

    run_threads(3, work)
    # layer 0's sums are kept (messages of its features come first), layers 1 and 2 exchange
    assert _of_the_epoch(events[0]) == [
        *("run 1", "to 1", "run 0"),  # what others wait for is made and sent first
        *("run 0", "from 1", "run 1", "to 1"),
        *("run 0", "from 1", "run 1"),
        *("back 1", "back to 1", "back 0"),
        *("back 0", "from 1", "back 1", "back to 1"),
        *("back 0", "from 1", "back 1"),
    ]
    assert _of_the_epoch(events[1]) == [
        *("run 0", "to 0", "run 1", "to 2"),
        *("from 2", "run 1", "to 2", "from 0", "run 0", "to 0"),
        *("from 2", "run 1", "from 0", "run 0"),
        *("back 0", "back to 0", "back 1", "back to 2"),
        *("from 2", "back 1", "back to 2", "from 0", "back 0", "back to 0"),
        *("from 2", "back 1", "from 0", "back 0"),
    ]


def _of_the_epoch(events: list[str]) -> list[str]:
    """From the first block forward to the last one backward: without what is fetched before, and the evaluation after."""
    forward = [number for number, event in enumerate(events) if event.startswith("run")]
    backward = [number for number, event in enumerate(events) if event.startswith("back")]
    return events[forward[0] : backward[-1] + 1]


@pytest.mark.parametrize(
    ("rows", "early"),
    [
        ({1: [0, 5], 2: [9, 1]}, 0.0),  # both blocks wait for both
        ({1: [0, 5], 2: [9]}, 0.5),
        ({1: [0]}, 0.6),
        ({1: [0, 9]}, 0.0),
        ({1: [0], 2: [9]}, 1.0),
        ({}, 0.0),  # nobody has anything to add: all go on at once
    ],
)
def test_the_share_of_rows_that_need_not_wait_for_all(rows: dict[int, list[int]], early: float) -> None:
    edges = {peer: SimpleNamespace(rows=np.array(mine)) for peer, mine in rows.items()}
    together: Any = SimpleNamespace(split=SimpleNamespace(peers=edges))
    bounds = np.array([0, 4, 10]) if early == 0.6 else np.array([0, 5, 10])
    assert TeamSum.early_share(together, bounds) == early


@pytest.mark.parametrize(("early", "worth"), [(0.1, True), (0.09, False)])
def test_blocks_are_for_layers_with_early_rows(monkeypatch: pytest.MonkeyPatch, early: float, worth: bool) -> None:
    monkeypatch.setattr(released, "LEAST_EARLY", AS_SHIPPED)
    together: Any = SimpleNamespace(waits=lambda: np.arange(20) > 5, early_share=lambda bounds: early)
    assert released.worth_releasing(together) is worth
    for name in ("BLOCK_ROWS", "LEAST_ROWS"):  # all rows are one block
        monkeypatch.setattr(released, name, 20)
    assert not released.worth_releasing(together)


class _Given(Function):
    """Rows that lie in an array, as something that was computed."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, boxed: list[Any]) -> Tensor:
        return torch.from_numpy(boxed.pop())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise AssertionError("nobody asks")


def test_summed_rows_are_not_kept_for_the_backward_pass(parts: dict[str, Path], few_rows: list[int]) -> None:
    """A sum needs none of its rows again, nor does row work that only adds to it."""
    bias = nn.Linear(1, 4)

    def work(team: Team) -> bool:
        setup = set_up(config_of(parts["edge-cut"], 2, MODELS["gcn of three layers"]), team)
        view = next(iter(setup.work.batches(1))).views[1]
        assert isinstance(view.exchange, TeamExchange)
        array = np.ones((view.exchange.traffic.owned, 4), np.float32)
        boxed, gone = [array], weakref.ref(array)
        del array
        rows = _Given.apply(torch.zeros(1, requires_grad=True), boxed)  # type: ignore[no-untyped-call]
        node = Node(rows, rows, multiplied=True)
        del rows
        add = RowWork(lambda _first, _node, aggregate: Node(aggregate + bias.bias, aggregate), (bias,))
        node = view.aggregate_then(Copy(), "sum", node, add)
        assert node.rows.requires_grad
        return gone() is None

    assert run_threads(2, work) == [True, True]
    assert few_rows
