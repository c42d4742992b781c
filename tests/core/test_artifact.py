from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from starling.core import artifact
from starling.core.artifact import MANIFEST, staged
from starling.core.errors import InputError, StarlingError


def build(target: Path, content: str = "new", *, force: bool = False, then: Callable[[], object] = lambda: None) -> None:
    with staged(target, force=force) as directory:
        (directory / MANIFEST).write_text(content)
        (directory / "inner").mkdir()
        (directory / "inner" / "x").write_text(content)
        then()


def fail(error: BaseException) -> Callable[[], object]:
    def raise_it() -> None:
        raise error

    return raise_it


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def dead_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_nothing_is_seen_before_the_end_and_all_of_it_after(tmp_path: Path) -> None:
    target = tmp_path / "g"
    with staged(target) as directory:
        (directory / "x").write_text("1")
        assert not target.exists()
        assert directory.parent == tmp_path  # a sibling, so that renaming never copies
        assert directory.name.startswith(".")
    assert names(tmp_path) == ["g"]
    assert (target / "x").read_text() == "1"


@pytest.mark.parametrize(
    "error", [LookupError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__
)
def test_any_failure_passes_through_and_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        build(tmp_path / "g", then=fail(error))
    assert caught.value is error
    assert names(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_left_is_one_sentence(number: int, tmp_path: Path) -> None:
    with pytest.raises(StarlingError, match=rf"^No space left on the device while writing {tmp_path / 'g'}\.") as caught:
        build(tmp_path / "g", then=fail(OSError(number, os.strerror(number))))
    assert caught.value.exit_status == 1
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    def write() -> None:
        with staged(tmp_path / "g") as directory:
            (directory / "x").symlink_to("/dev/full")
            (directory / "x").write_text("one byte is enough")

    with pytest.raises(StarlingError, match="No space left on the device"):
        write()
    assert names(tmp_path) == []


def test_other_errors_of_the_system_stay_themselves(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build(tmp_path / "g", then=lambda: (tmp_path / "absent").read_text())
    assert names(tmp_path) == []


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    build(tmp_path / "g", "old")
    with pytest.raises(InputError, match=r"g exists already\. Pass --force to replace it, or choose another name\."):
        build(tmp_path / "g")
    assert (tmp_path / "g" / MANIFEST).read_text() == "old"


def test_force_replaces_what_starling_wrote(tmp_path: Path) -> None:
    build(tmp_path / "g", "old")
    (tmp_path / "g" / "only in the old one").touch()
    build(tmp_path / "g", "new", force=True)
    assert names(tmp_path) == ["g"]
    assert names(tmp_path / "g") == ["inner", MANIFEST]
    assert (tmp_path / "g" / "inner" / "x").read_text() == "new"


def test_force_keeps_the_old_one_when_the_new_one_fails(tmp_path: Path) -> None:
    build(tmp_path / "g", "old")
    with pytest.raises(LookupError):
        build(tmp_path / "g", force=True, then=fail(LookupError()))
    assert names(tmp_path) == ["g"]
    assert (tmp_path / "g" / MANIFEST).read_text() == "old"


def test_force_brings_the_old_one_back_when_the_last_rename_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "g", "old")
    real_rename = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if ".partial-" in self.name:
            raise KeyboardInterrupt
        return real_rename(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "g", force=True)
    assert names(tmp_path) == ["g"]
    assert (tmp_path / "g" / MANIFEST).read_text() == "old"


@pytest.mark.parametrize("kind", ["file", "empty directory", "directory"])
def test_force_does_not_replace_what_is_not_starlings(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "thesis"
    if kind == "file":
        target.write_text("years of work")
    else:
        target.mkdir()
    if kind == "directory":
        (target / "chapter").write_text("years of work")
    with pytest.raises(InputError, match=rf"is not something Starling wrote \(it has no {MANIFEST}\)"):
        build(target, force=True)
    assert target.exists()
    assert names(tmp_path) == ["thesis"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    build(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    build(tmp_path / "link", "new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / MANIFEST).read_text() == "new"
    assert names(tmp_path) == ["link", "real"]


def test_the_folder_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected an existing folder to put 'g' in, got .*absent\. Create it first\."):
        build(tmp_path / "absent" / "g")


def test_a_folder_nobody_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdir(self: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(InputError, match=rf"Cannot write to {tmp_path}: Permission denied\. Choose another output place\."):
        build(tmp_path / "g")


def test_a_relative_target_is_where_the_build_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    build(Path("g"), then=lambda: os.chdir("elsewhere"))
    assert (tmp_path / "g" / MANIFEST).exists()


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom starling.core.artifact import staged\n"
        "with staged(Path(sys.argv[1])) as directory:\n"
        "    (directory / 'x').write_text('half')\n    print('building', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "g")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        while_alive = names(tmp_path)
        build(tmp_path / "other")
        process.send_signal(signal.SIGKILL)
    assert while_alive == [f".g.partial-{process.pid}"]
    assert names(tmp_path) == [while_alive[0], "other"]
    build(tmp_path / "g")
    assert names(tmp_path) == ["g", "other"]


def test_what_a_living_process_builds_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / f".g.partial-{os.getppid()}"
    theirs.mkdir()
    build(tmp_path / "g")
    assert names(tmp_path) == [theirs.name, "g"]


def test_a_leftover_under_our_own_number_is_swept(tmp_path: Path) -> None:
    # In a container the same few process numbers come back at every start.
    leftover = tmp_path / f".g.partial-{os.getpid()}"
    leftover.mkdir()
    (leftover / "x").touch()
    build(tmp_path / "g")
    assert names(tmp_path) == ["g"]
    assert not (tmp_path / "g" / "x").exists()


def test_only_leftovers_of_the_very_same_name_are_swept(tmp_path: Path) -> None:
    others = [f".graph.partial-{dead_process()}", ".g.partial-notes", ".g.partial-"]
    for name in others:
        (tmp_path / name).mkdir()
    build(tmp_path / "g*")
    build(tmp_path / "g")
    assert names(tmp_path) == sorted([*others, "g", "g*"])


@pytest.mark.parametrize("force", [False, True])
def test_a_process_killed_while_replacing_loses_nothing(force: bool, tmp_path: Path) -> None:
    # Killed between its two renames, it leaves the old directory under a hidden name and none in its place.
    build(tmp_path / "g", "old")
    (tmp_path / "g").rename(tmp_path / f".g.replaced-{dead_process()}")
    if force:
        build(tmp_path / "g", "new", force=True)
    else:
        with pytest.raises(InputError, match="exists already"):
            build(tmp_path / "g", "new")
    assert names(tmp_path) == ["g"]
    assert (tmp_path / "g" / MANIFEST).read_text() == ("new" if force else "old")


def test_a_process_killed_after_replacing_leaves_the_new_one(tmp_path: Path) -> None:
    build(tmp_path / "g", "new")
    (tmp_path / f".g.replaced-{dead_process()}").mkdir()
    with pytest.raises(InputError, match="exists already"):
        build(tmp_path / "g")
    assert names(tmp_path) == ["g"]
    assert (tmp_path / "g" / MANIFEST).read_text() == "new"


def test_two_builds_of_different_names_at_once(tmp_path: Path) -> None:
    with staged(tmp_path / "a") as first, staged(tmp_path / "b") as second:
        (first / "x").touch()
        (second / "y").touch()
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == (["x"], ["y"])
    assert not artifact._under_way


def test_a_second_build_of_the_same_name_in_one_process_is_refused(tmp_path: Path) -> None:
    def again() -> None:
        with pytest.raises(InputError, match="Cannot write to"):
            build(tmp_path / "g", "second")

    build(tmp_path / "g", "first", then=again)
    assert (tmp_path / "g" / MANIFEST).read_text() == "first"
