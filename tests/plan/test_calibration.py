from __future__ import annotations

import json
from pathlib import Path

import pytest

from starling.core.errors import InputError
from starling.plan.calibration import Machine, Point, default_path, interpolated, read_calibration, save_calibration
from tests.support.rates import calibration, rates


def test_a_calibration_comes_back_from_its_file(tmp_path: Path) -> None:
    made = calibration()
    path = save_calibration(made, tmp_path / "new" / "c.json")
    assert read_calibration(path) == made
    assert [file.name for file in path.parent.iterdir()] == ["c.json"], "no half-written file is left"


def test_the_users_own_file_is_in_their_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path() == tmp_path / "starling" / "calibration.json"
    with pytest.raises(InputError, match=r"There is no calibration in .*calibration\.json\. Run: starling calibrate"):
        read_calibration()
    save_calibration(calibration())
    assert read_calibration() == calibration()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_path() == tmp_path / "home" / ".cache" / "starling" / "calibration.json", (
        "as the standard says of such a path"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rates": []}, "wrong rates"),
        ({"format": "else"}, "wrong format"),
        ({"unknown": 1}, "wrong unknown"),
        ({"machine": {"processor": "x", "cores": 0, "memory_bytes": 1, "system": "Linux"}}, "wrong machine.cores"),
    ],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, change: dict[str, object], sentence: str) -> None:
    document = json.loads(calibration().model_dump_json()) | change
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"is no calibration: {sentence}"):
        read_calibration(path)


@pytest.mark.parametrize("number", [-1.0, 0.0, 1e9, float("nan"), float("inf"), "fast"])
def test_nonsense_numbers_are_refused(tmp_path: Path, number: object) -> None:
    document = json.loads(calibration().model_dump_json())
    document["rates"][0]["alpha"] = number
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"is no calibration: wrong rates\.0\.alpha: "):
        read_calibration(path)


def test_points_must_ascend_and_text_must_be_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected ascending sizes in beta"):
        rates().model_validate(rates().model_dump() | {"beta": (Point(at=5, seconds=1e-9), Point(at=4, seconds=1e-9))})
    path = tmp_path / "c.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is no calibration: Expecting property name"):
        read_calibration(path)
    with pytest.raises(InputError, match="Expected a file for the calibration, got the directory"):
        save_calibration(calibration(), tmp_path)


def test_another_machine_is_noticed() -> None:
    here = Machine.here()
    assert calibration().warning() is None
    other = here.model_copy(update={"cores": here.cores + 1})
    assert calibration(other).warning() == (
        f"The calibration of 2026-01-02 is from another machine (number of cores {here.cores + 1}, not {here.cores}), so "
        "predictions are for that one. Run: starling calibrate."
    )
    assert "processor Abacus" in (calibration(here.model_copy(update={"processor": "Abacus"})).warning() or "")
    larger = here.model_copy(update={"memory_bytes": 2 * here.memory_bytes})
    assert "memory of" in (calibration(larger).warning() or "")
    assert calibration(here.model_copy(update={"memory_bytes": here.memory_bytes + 1})).warning() is None


def test_rates_between_points_by_hand() -> None:
    points = (Point(at=10, seconds=1e-9), Point(at=1000, seconds=1e-11))
    assert [interpolated(points, at) for at in (1, 10, 100, 1000, 9999)] == pytest.approx([1e-9, 1e-9, 1e-10, 1e-11, 1e-11])
    assert interpolated(points[:1], 500) == 1e-9


def test_threads_and_links_are_found() -> None:
    made = calibration()
    assert [made.with_threads(threads).threads for threads in (1, 2, 8)] == [1, 2, 2]
    assert made.link("gloo").latency == 5e-5
    with pytest.raises(InputError, match="has no link 'pigeon'"):
        made.link("pigeon")
