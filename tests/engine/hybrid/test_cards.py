"""Teams that compute on devices with memory of their own learn what one process learns on its processor.

There is no graphics card here. The device is a pretended one (tests/support/card.py), on which every CPU assumption is an error,
and what is for NCCL runs over Gloo, in processes. All cases of one cut and size share a team, since starting processes costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from starling.comm.ordered import OrderedMailbox
from starling.comm.team import Team
from starling.store.graph import Graph
from starling.train.config import RunConfig
from starling.train.setup import set_up
from tests.engine.hybrid.runs import (
    Learnt,
    assert_same,
    config_of,
    learn,
    learn_together,
    steps,
    steps_of,
)
from tests.engine.hybrid.test_equal import CUTS, MODELS, STRATEGIES, settings_of
from tests.support.card import CARD, a_card_for
from tests.support.ranks import run_ranks

SIZES = (2, 4)
COHESIVE = {"name": "cohesive", "batches": 4, "passes": 3, "clusters_per_batch": 2}


@dataclass(frozen=True)
class Case:
    """A run; what a whole process cannot be asked for (`team`) is compared with the same team on processors."""

    model: str
    strategy: dict[str, Any] = field(default_factory=lambda: STRATEGIES["global"])
    team: dict[str, Any] = field(default_factory=dict)
    learnt: int = 0
    """Columns of a row that is learnt for every node, beside its features."""

    def config(self, path: Path, workers: int) -> RunConfig:
        config = config_of(path, workers, settings_of(self.model), self.strategy, **self.team)
        embedding = config.embedding.model_copy(update={"dim": self.learnt, "optimizer": "sgd"})
        return config.model_copy(update={"embedding": embedding}) if self.learnt else config


def _cases(kind: str, size: int) -> list[Case]:
    """Every model meets every cut once; strategies and further settings meet whatever they can."""
    turn = SIZES.index(size) + CUTS.index(kind)
    models = [name for k, name in enumerate(MODELS) if (k + turn) % 2 == 0]
    found = [Case(name) for name in models]
    found += [Case("gcn", STRATEGIES["mini"]), Case("gat", STRATEGIES["cluster with a hop"])]
    if kind == "edge-cut":
        found += [
            Case("sage", STRATEGIES["sampled"]),
            Case("gatv2", STRATEGIES["cluster"]),
            Case("gcn", COHESIVE),
            Case("gcn", COHESIVE, {"balance_workers": True}),
            Case("gcn", team={"boundary": 0.5}),
            Case("gcn", STRATEGIES["mini"], learnt=3),
            Case("sage", team={"wire": "bfloat16"}),
            Case("gcn", STRATEGIES["sampled"], {"parallel": "data"}),
        ]
    return found


def on_cards(config: RunConfig) -> RunConfig:
    return config.model_copy(update={"run": config.run.model_copy(update={"device": "cuda"})})


def learn_on_cards(team: Team, configs: list[RunConfig], folder: Path) -> list[Learnt]:
    """Train each as one worker of a team of cards."""
    found = []
    with a_card_for(team) as carded:
        for number, config in enumerate(configs):
            try:
                found.append(learn(carded, on_cards(config), folder / f"{number}"))
            except BaseException as error:
                error.add_note(f"in {config.model} {config.strategy} {config.team}")
                raise
    return found


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("size", SIZES)
def test_cards_learn_what_one_process_learns(
    graph: Graph, parts: dict[str, Path], tmp_path: Path, kind: str, size: int
) -> None:
    cases = _cases(kind, size)
    configs = [case.config(parts[kind], size) for case in cases]
    everybody = run_ranks(size, learn_on_cards, configs, tmp_path, deadline=300.0)
    for number, (case, config) in enumerate(zip(cases, configs, strict=True)):
        whole = case.config(graph.path, 1) if not case.team else config
        expected = learn_together(whole, tmp_path / f"expected-{number}")[0]
        for worker in everybody:
            assert_same(worker[number], expected)


def gradients_on_cards(team: Team, configs: list[RunConfig]) -> list[NDArray[np.float32]]:
    with a_card_for(team) as carded:
        return [steps_of(carded, on_cards(config)) for config in configs]


@pytest.mark.parametrize(("kind", "size"), [("edge-cut", 4), ("vertex-cut", 2)])
def test_gradients_of_every_step(graph: Graph, parts: dict[str, Path], kind: str, size: int) -> None:
    cases = [Case("gcn", STRATEGIES["mini"]), Case("gat", STRATEGIES["cluster"]), Case("sage max")]
    everybody = run_ranks(size, gradients_on_cards, [case.config(parts[kind], size) for case in cases], deadline=120.0)
    for number, case in enumerate(cases):
        expected = steps(case.config(graph.path, 1))
        for worker in everybody:
            np.testing.assert_array_equal(worker[number], everybody[0][number])
            np.testing.assert_allclose(worker[number], expected, rtol=2e-4, atol=2e-6)


def where_rows_travel(team: Team, config: RunConfig) -> tuple[str, str, int, int]:
    """What the steps of a run put on each way: the device of the model, the way of its rows, exchanges there, lists here."""
    with a_card_for(team) as carded:
        assert isinstance(carded.device_mailbox, OrderedMailbox)
        counts, departs = {"rows": 0, "lists": 0}, carded.device_mailbox.depart
        lists = carded.links.send_list

        def depart() -> None:
            counts["rows"] += 1
            departs()

        def send_list(*given: Any) -> None:
            counts["lists"] += 1
            lists(*given)

        carded.device_mailbox.depart, carded.links.send_list = depart, send_list  # type: ignore[method-assign]
        setup = set_up(on_cards(config), carded)
        device = next(setup.model.parameters()).device
        steps_of(carded, on_cards(config))
        return device.type, type(carded.links).__name__, counts["rows"], counts["lists"]


def test_rows_go_in_order_and_whole_numbers_the_ordinary_way(parts: dict[str, Path]) -> None:
    config = config_of(parts["edge-cut"], 2, settings_of("gcn"), STRATEGIES["mini"])
    for device, links, exchanges, lists in run_ranks(2, where_rows_travel, config):
        assert (device, links) == (CARD.type, "SharedMemoryMailbox")
        assert exchanges > 0
        assert lists > 0
