from __future__ import annotations

from pathlib import Path

import pytest

from starling.plan.calibration import Machine, save_calibration
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.cost import PAPER
from starling.plan.mini import Mini
from starling.train.config import RunConfig
from starling.train.grouping import constants_for, make_grouping
from tests.support.rates import calibration


def test_the_papers_constants_ask_for_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert constants_for(Cohesive.Settings()) is PAPER


def test_a_calibration_from_another_machine_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = Cohesive.Settings(costs="measured")
    save_calibration(calibration())
    constants_for(measured)
    assert caplog.messages == []
    save_calibration(calibration(Machine.here().model_copy(update={"processor": "Abacus"})))
    assert constants_for(measured).alpha in (1e-9, 5e-10)
    assert ["is from another machine (processor Abacus" in message for message in caplog.messages] == [True]


def test_widths_are_those_of_the_model() -> None:
    def widths(model: dict[str, object]) -> tuple[int, ...]:
        config = RunConfig.from_tables({"data": {"path": "g"}, "model": model})
        return make_grouping(config, Cohesive.Settings(), 50, 7, 3).widths

    assert widths({"name": "gcn", "hidden": 16}) == (50, 16, 16, 7)
    assert widths({"name": "mine.py:Model"}) == (50, 128, 128, 7), "assumed of a model that does not say"
    config = RunConfig.from_tables({"data": {"path": "g"}})
    assert make_grouping(config, Cohesive.Settings(), 5, 2, 1).wanted
    assert not make_grouping(config, Mini.Settings(), 5, 2, 1).wanted
