from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from starling.launch.folders import own_folder, sweep

HOLD = """
import sys, time
from pathlib import Path
from starling.launch.folders import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def open_files() -> int:
    return psutil.Process().num_fds()


def test_a_folder_is_there_and_then_gone(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("x")
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_an_error_takes_it_away_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), own_folder(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_two_runs_keep_apart_and_files_close(tmp_path: Path) -> None:
    before = open_files()
    with own_folder(tmp_path) as one, own_folder(tmp_path) as two:
        assert one != two
        assert one.exists()
    assert open_files() == before


def test_what_a_killed_run_left_is_swept_but_not_while_it_lives(tmp_path: Path) -> None:
    (tmp_path / "other-people's").mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        sweep(tmp_path)
        assert (folder / "file").exists()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert (folder / "file").exists()
    with own_folder(tmp_path):
        assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["other-people's"]
