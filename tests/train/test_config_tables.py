"""Later layers of settings lie on top, and another kind of a thing drops what only the first has."""

from __future__ import annotations

from typing import Any

import pytest

from starling.train.config import RunConfig
from starling.train.config_tables import merged

TABLES: dict[str, dict[str, Any]] = {
    "model": {"name": "gat", "heads": 2, "norm": "batch"},
    "optimizer": {"lr": 1e-05},
}


def test_later_layers_lie_on_top() -> None:
    result = merged(TABLES, {"model": {"heads": 8}, "run": {"seed": 3}})
    assert result["model"] == {"name": "gat", "heads": 8, "norm": "batch"}
    assert result["run"] == {"seed": 3}


def test_another_model_drops_settings_but_another_optimizer_does_not() -> None:
    result = merged(TABLES, {"model": {"name": "gcn"}, "optimizer": {"name": "sgd"}})
    assert result["model"] == {"name": "gcn"}
    assert result["optimizer"] == {"name": "sgd", "lr": 1e-05}


@pytest.mark.parametrize(
    ("run", "flags"),
    [
        ({"team": {"parallel": "data", "shuffle": "local"}}, {"team": {"parallel": "hybrid"}}),
        ({"team": {"parallel": "hybrid", "boundary": 0.5, "wire": "bfloat16"}}, {"team": {"parallel": "data"}}),
        ({"team": {"parallel": "data"}, "pipeline": {"mode": "off"}}, {"team": {"parallel": "hybrid"}}),
        ({"sync": {"name": "average", "every": 2}, "team": {"parallel": "data"}}, {"sync": {"name": "gradient"}}),
        ({"sync": {"name": "stale", "staleness": 2}}, {"sync": {"name": "gradient"}}),
        ({"schedule": {"name": "step", "every": 3}}, {"schedule": {"name": "cosine"}}),
        ({"optimizer": {"name": "sgd", "momentum": 0.9}}, {"optimizer": {"name": "adam"}}),
        ({"task": {"name": "link", "metric": "mrr"}, "link": {"count": 3}}, {"task": {"name": "classification"}}),
    ],
)
def test_another_kind_of_a_thing_drops_what_only_the_first_has(run: dict[str, Any], flags: dict[str, Any]) -> None:
    """A flag wins over the config of an earlier run, which says everything that was in force there."""
    made = RunConfig.from_tables({"data": {"path": "g"}, **run})
    (name, table), *_ = flags.items()
    changed = RunConfig.from_tables(merged(made.to_tables(), flags))
    plain = RunConfig.from_tables(merged({"data": {"path": "g"}}, {"team": {"parallel": made.team.parallel}}, flags))
    assert getattr(changed, name) == getattr(plain, name)
    assert (changed.task.metric, changed.link, changed.pipeline) == (None, plain.link, plain.pipeline)
    same = RunConfig.from_tables(merged(made.to_tables(), {name: {key: getattr(getattr(made, name), key) for key in table}}))
    assert same == made, "the same kind again drops nothing"
