"""Who asks for whole neighbour lists, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from starling.comm.in_process import run_threads
from starling.store.graph import Graph
from starling.train.setup import set_up
from tests.engine.hybrid.runs import config_of, small_graph, unequal_parts


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, dict[str, Path]]:
    graph = small_graph(tmp_path_factory.mktemp("graph") / "g")
    return graph, unequal_parts(graph, tmp_path_factory.mktemp("parts"))


COHESIVE = {"name": "cohesive", "batches": 2}
ASKING: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    ({"name": "sage", "aggregate": "lstm"}, {"name": "global"}, {}, "LstmSAGE of the model sage needs whole ones"),
    ({"name": "rgat", "softmax": "within"}, {"name": "global"}, {}, "RGAT of the model rgat needs whole ones"),
    ({"name": "sage", "relational": True}, {"name": "global"}, {}, "Relational of the model sage needs whole ones"),
    ({"name": "gcn"}, {"name": "mini", "fanouts": [2, 2]}, {}, "fan-outs need whole ones"),
    ({"name": "rgcn"}, {"name": "mini", "fanouts": "*:2,1"}, {}, "fan-outs need whole ones"),
    ({"name": "gcn"}, {"name": "global"}, {"boundary": 0.5}, "--boundary needs whole ones"),
    ({"name": "gcn"}, COHESIVE, {"balance_workers": True}, "--balance-workers needs whole ones"),
]
CONTENT = [
    ({"name": "rgat"}, {"name": "global"}),
    ({"name": "gcn", "relational": True}, {"name": "cluster", "clusters": 3}),
    ({"name": "sage", "aggregate": "max"}, {"name": "mini", "fanouts": ["all", "all"]}),
    ({"name": "gat"}, COHESIVE),
]


def said(parts: Path, caplog: pytest.LogCaptureFixture, *run: dict[str, Any], **team: Any) -> list[str]:
    config = config_of(parts, 2, {"hidden": 8} | run[0], run[1], **team)
    run_threads(2, lambda team: set_up(config, team))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("model", "strategy", "team", "words"), ASKING)
def test_who_asks_is_told_once(
    made: tuple[Graph, dict[str, Path]],
    caplog: pytest.LogCaptureFixture,
    model: dict[str, Any],
    strategy: dict[str, Any],
    team: dict[str, Any],
    words: str,
) -> None:
    (line,) = said(made[1]["vertex-cut"], caplog, model, strategy, **team)
    assert words in line
    caplog.clear()
    assert said(made[1]["edge-cut"], caplog, model, strategy, **team) == []


@pytest.mark.parametrize(("model", "strategy"), CONTENT)
def test_pieces_are_enough_for_others(
    made: tuple[Graph, dict[str, Path]], caplog: pytest.LogCaptureFixture, model: dict[str, Any], strategy: dict[str, Any]
) -> None:
    assert said(made[1]["vertex-cut"], caplog, model, strategy) == []
