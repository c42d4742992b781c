from __future__ import annotations

import json
from pathlib import Path

import pytest

from starling.cli.main import run
from starling.launch import calibrate
from starling.plan.calibration import Calibration, read_calibration
from tests.support.rates import calibration


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "calibrate", lambda *, quick, progress: calibration(quick=quick))


def test_the_users_own_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"] == str(tmp_path / "cache" / "starling" / "calibration.json")
    assert Calibration.model_validate({key: told[key] for key in Calibration.model_fields}) == read_calibration()
    assert read_calibration().quick


def test_any_file_and_a_table_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "-o", str(tmp_path / "c.json"), "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "α add, γ activate" in out
    assert "link by shared-memory" in out
    assert read_calibration(tmp_path / "c.json") == calibration()


def test_a_directory_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "-o", str(tmp_path), "--quiet"]) == 2
    assert capsys.readouterr().err == f"starling: Expected a file for the calibration, got the directory {tmp_path}.\n"


def test_a_place_that_cannot_be_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "calibrate", lambda *, quick, progress: pytest.fail("measured"))
    (tmp_path / "file").write_text("")
    assert run(["calibrate", "-o", str(tmp_path / "file" / "c.json"), "--quiet"]) == 2
    printed = capsys.readouterr().err
    assert f"Cannot write the calibration to {tmp_path / 'file' / 'c.json'}: " in printed
    assert printed.count("\n") == 1
    assert run(["calibrate", "-o", str(tmp_path), "--quiet"]) == 2


def test_a_busy_machine_is_pointed_out_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "calibrate", lambda *, quick, progress: calibration(quick=quick, others=0.4))
    assert run(["calibrate", "-o", str(tmp_path / "c.json"), "--quiet"]) == 0
    assert "Other programs had 40% of the processors" in capsys.readouterr().err
    assert read_calibration(tmp_path / "c.json").others == 0.4


def test_a_machine_that_is_left_alone_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
