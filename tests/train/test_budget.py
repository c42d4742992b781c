"""What `--memory` leaves a worker of --parallel data, and what it cannot keep to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from starling.comm.team import Team
from starling.config.toml import parse_value
from starling.core.errors import InputError
from starling.train import budget
from starling.train.budget import data_memory, pipeline_memory, team_budget
from starling.train.config import RunConfig
from starling.train.data_work import DataWork
from starling.train.setup import check_choices, set_up
from tests.engine.data.cases import data_config, on_hosts, uneven_parts
from tests.engine.hybrid.runs import small_graph

MIB = 1 << 20


def config_of(path: Path = Path("parts"), **tables: Any) -> RunConfig:
    config = data_config(path, 2, {"name": "sage", "hidden": 4}, {"batch_size": 9, "fanouts": [3, 2]})
    given = config.to_tables()
    return RunConfig.from_tables({**given, **{name: {**given[name], **table} for name, table in tables.items()}})


def test_the_program_is_counted() -> None:
    """Two workers of 576 MiB and as much again for data each."""
    config = config_of(run={"memory": 2304 * MIB})
    assert data_memory(config, 2) == 576 * MIB
    assert pipeline_memory(config, 2) == 144 * MIB
    assert team_budget(config, 2) == 1152 * MIB
    assert team_budget(config_of(run={"memory": 5}, team={"parallel": "hybrid"}), 2) == 5, "features and evaluation only"
    assert pipeline_memory(config_of(), 2) == 1024 * MIB
    assert pipeline_memory(config_of(run={"memory": "4GiB"}, pipeline={"memory": "100MiB"}), 2) == 100 * MIB


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"run": {"memory": "10MiB"}}, "each of 2 workers needs 640.0 MiB at least; got 10.0 MiB. Pass a larger --memory"),
        ({"run": {"memory": "2GiB"}, "team": {"cache": "256MiB"}}, "leaves each of 2 workers 448.0 MiB .* got 256.0 MiB"),
        ({"run": {"memory": "2GiB"}, "pipeline": {"memory": "1GiB"}}, r"\[pipeline\] memory, got 1.0 GiB of these"),
    ],
)
def test_what_cannot_be_kept_is_refused(tables: dict[str, Any], message: str) -> None:
    """Before anything is read: there are no such parts."""
    with pytest.raises(InputError, match=message):
        check_choices(config_of(**tables))


def test_stages_keep_to_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = uneven_parts(small_graph(tmp_path / "g"), tmp_path / "parts")

    def bound(team: Team) -> int | None:
        work = set_up(config_of(parts, run={"memory": 80_000}), team).work
        assert isinstance(work, DataWork)
        return work.settings.memory

    for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
        monkeypatch.setattr(budget, name, 0)
    assert on_hosts([0, 0], bound) == [10_000, 10_000]


@pytest.mark.parametrize(
    "place", [("run", "memory"), ("team", "cache"), ("pipeline", "memory"), ("embedding", "memory")], ids=".".join
)
def test_sizes_as_people_write_them(place: tuple[str, str]) -> None:
    """In a file and after --set, as after the flags."""
    table, name = place
    for text in ("256MiB", "0.25GiB", str(256 * MIB), f'"{256 * MIB}"'):
        assert getattr(getattr(config_of(**{table: {name: parse_value(text)}}), table), name) == 256 * MIB
    with pytest.raises(InputError, match="size such as 512MiB or 2GiB, got 'much'"):
        config_of(**{table: {name: parse_value("much")}})
    with pytest.raises(InputError, match=f"Wrong setting '{name}'"):
        config_of(**{table: {name: -1}})
