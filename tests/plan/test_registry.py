from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.plan.registry import STRATEGIES, make_strategy, read_settings
from tests.plan.sources import check_blocks, draw_graph

GRAPH = draw_graph(60, 500, 1)
SMALL: dict[str, dict[str, object]] = {
    "saint": {"count": 10},
    "cluster": {"clusters_per_step": 2},
    "mini": {"fanouts": "3,2"},
    "cohesive": {"clusters_per_batch": 2},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_the_contract(name: str) -> None:
    source, train = GRAPH.source, np.arange(0, 60, 3)
    clusters = np.arange(60) // 6
    strategy = make_strategy(name, SMALL.get(name, {}), source, train, 2, 1, clusters=clusters)
    plans = list(strategy.plans(0))
    assert len(plans) == strategy.steps_per_epoch
    for step, plan in enumerate(plans):
        check_blocks(plan, source)
        assert (plan.epoch, plan.step, len(plan.blocks)) == (0, step, 2)
        assert len(plan.targets) > 0
        assert set(plan.targets.tolist()) <= set(train.tolist())
    with pytest.raises(InputError, match="Expected a step from 0"):
        strategy.plan(0, len(plans))
    assert strategy.summary


@pytest.mark.parametrize("name", STRATEGIES)
def test_settings_survive_a_round_through_a_file(name: str) -> None:
    settings = read_settings(name, SMALL.get(name, {}))
    assert read_settings(name, settings.model_dump(mode="json", exclude_none=True)) == settings


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"There is no strategy 'clusters'\. Did you mean 'cluster'\?"):
        read_settings("clusters")
    with pytest.raises(InputError, match=r"The strategy global has no setting 'batch_size'\. It has no settings\."):
        read_settings("global", {"batch_size": 3})


@pytest.mark.parametrize(
    ("train", "layers", "sentence"),
    [
        ([], 2, "Expected training nodes, got none"),
        ([1, 1], 2, "Expected every training node once, got row 1 twice"),
        ([60], 2, r"Expected node numbers in \[0, 60\), got 60"),
        ([1], 0, "Expected at least one layer, got 0"),
    ],
)
def test_bad_tasks_are_refused(train: list[int], layers: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_strategy("mini", {}, GRAPH.source, np.array(train, np.int64), layers)
