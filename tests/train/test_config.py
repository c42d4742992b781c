"""A whole run's settings: round trip, as many layers as fan-outs, and sentences for what is misspelt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from starling.core.errors import InputError
from starling.train.config import RunConfig

TABLES: dict[str, dict[str, Any]] = {
    "data": {"path": "a graph", "normalize": "rows"},
    "model": {"name": "gat", "heads": 2, "norm": "batch"},
    "strategy": {"name": "mini", "fanouts": [10, "all"]},
    "optimizer": {"lr": 1e-05},
    "task": {"class_weights": [1.0, 2.5]},
}


def test_round_trip(tmp_path: Path) -> None:
    config = RunConfig.from_tables(TABLES)
    (tmp_path / "c.toml").write_text(config.to_toml())
    again = RunConfig.read(tmp_path / "c.toml")
    assert again.data.path == tmp_path / "a graph", "paths start at the folder of the file"
    assert again.model_copy(update={"data": config.data}) == config
    assert config.model.settings == {"heads": 2, "norm": "batch", "layers": 2}
    assert config.optimizer.name == "adam"


@pytest.mark.parametrize(
    ("fanouts", "model", "layers"),
    [
        ("15,10,5", {}, 3),
        ([15], {"name": "pyg:SAGEConv"}, 1),
        ("15,10,5", {"layers": 2}, 2),
        ("cites:10,5;*:5,5", {}, None),
        ("15,10", {"name": "mine.py:Mine"}, None),
    ],
)
def test_as_many_layers_as_fan_outs(fanouts: Any, model: dict[str, Any], layers: int | None) -> None:
    tables = {"data": {"path": "g"}, "strategy": {"name": "mini", "fanouts": fanouts}, "model": model}
    assert RunConfig.from_tables(tables).model.settings.get("layers") == layers


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"modle": {}}, r"no table \[modle\]. Did you mean 'model'"),
        ({"run": {"epoch": 3}}, r"\[run\] has no setting 'epoch'. Did you mean 'epochs'"),
        ({"optimizer": {"lr": -1}}, r"'lr' of \[optimizer\].*got -1"),
        ({"optimizer": {"name": "adan"}}, r"'name' of \[optimizer\].*'adam'.*got 'adan'"),
        ({"run": {"epochs": "many"}}, r"'epochs' of \[run\]"),
        ({"optimizer": {"lr": float("inf")}}, r"'lr' of \[optimizer\].*finite.*got inf"),
        ({"data": {"path": "g", "before": float("nan")}}, r"'before' of \[data\].*finite.*got nan"),
        ({"team": {"deadline": float("inf")}}, r"'deadline' of \[team\].*got inf"),
        ({"run": {"seed": 10**30}}, r"'seed' of \[run\].*less than 9223372036854775808"),
        ({"data": {"normalize": "rows"}}, r"Expected a graph to train on, got none"),
        ({"model": {"name": 3}}, r"Expected a name in \[model\], got 3"),
        ({"data": {"path": "g"}, "task": {"class_weights": "fair"}}, r"class_weights"),
        ({"schedule": {"factor": 0.1}}, r"'factor' of \[schedule\] is for step or plateau, got the schedule constant"),
        ({"schedule": {"name": "step", "least": 0.1}}, r"'least' of \[schedule\] is for cosine or plateau"),
        ({"sync": {"moments": "reset"}}, r"'moments' of \[sync\] is for --sync average"),
        ({"task": {"name": "link"}, "link": {"margin": 2.0}}, r"'margin' of \[link\] is for the loss margin, got the loss bce"),
        (
            {"data": {"path": "g"}, "sync": {"name": "average"}, "team": {"parallel": "data", "cache": 1024}},
            "fetch no rows, got --cache",
        ),
        ({"data": {"path": "g"}, "task": {"name": "link", "class_weights": "balanced"}}, "no classes to weigh"),
        (
            {"data": {"path": "g"}, "task": {"name": "link"}, "strategy": {"name": "mini"}, "link": {"target_share": 0.5}},
            "is for --strategy global",
        ),
    ],
)
def test_refused(tables: dict[str, dict[str, Any]], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        RunConfig.from_tables(tables)


def test_a_graph_is_needed() -> None:
    with pytest.raises(InputError, match="Expected a graph to train on"):
        RunConfig.from_tables({"run": {}})
