"""Where a run writes: names nobody else has, and nothing left of a run that never began."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from starling.core.errors import InputError
from starling.train.run_directory import RunDirectory


def test_names_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [RunDirectory.create(None, name).path for name in ("my graph", "my graph", "other")] == [
        Path("runs/my-graph-1"),
        Path("runs/my-graph-2"),
        Path("runs/other-1"),
    ]
    (tmp_path / "runs" / "my-graph-7").mkdir()
    assert RunDirectory.create(None, "my graph").path == Path("runs/my-graph-8")
    with pytest.raises(InputError, match="exists already, and a run is never overwritten"):
        RunDirectory.create(Path("runs/other-1"), "other")


def test_a_run_that_never_began_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directories above it that were there stay, and so do those that another run has come into."""
    monkeypatch.chdir(tmp_path)
    RunDirectory.create(None, "graph").remove()
    RunDirectory.create(Path("a/b/c"), "graph").remove()
    assert list(tmp_path.iterdir()) == []
    first, second = RunDirectory.create(Path("a/b/one"), "graph"), RunDirectory.create(Path("a/b/two"), "graph")
    first.remove()
    assert second.path.is_dir()
    second.remove()
    assert (tmp_path / "a" / "b").is_dir()  # it was there when the second came


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory.create(tmp_path / "run", "graph")
    run.write_summary({"epochs": 1})

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        run.write_summary({"epochs": 2})
    assert [path.name for path in run.path.iterdir()] == ["summary.json"]
    assert json.loads((run.path / "summary.json").read_text()) == {"epochs": 1}
