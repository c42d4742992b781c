"""Directories that appear whole or not at all.

An artifact is built in a hidden sibling directory and renamed into place when its manifest is written. Whatever ends the
build early — an error, Ctrl-C, a full disk — leaves nothing behind; what a killed process left is swept by the next one.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from starling.core.errors import InputError, StarlingError

MANIFEST = "manifest.json"

_under_way: set[Path] = set()


def refuse_own_input(target: Path, *inputs: Path, what: str) -> None:
    """Refuse an output that would replace what it is made from: `inputs` that are `target`, or lie in it."""
    for path in inputs:
        if path.resolve().is_relative_to(target.resolve()):
            raise InputError(f"{target} is or holds {path}, which is read. Choose another place for the {what}.")


@contextmanager
def staged(target: Path, *, force: bool = False) -> Iterator[Path]:
    """A directory to build `target` in; renamed to it on leaving, removed on any failure."""
    target = Path(target).resolve()
    _sweep(target)
    _refuse_overwrite(target, force)
    if not target.parent.is_dir():
        raise InputError(f"Expected an existing folder to put '{target.name}' in, got {target.parent}. Create it first.")
    staging = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        staging.mkdir()
    except OSError as error:
        raise InputError(f"Cannot write to {target.parent}: {error.strerror}. Choose another output place.") from error
    _under_way.add(staging)
    try:
        yield staging
        _move_into_place(staging, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StarlingError(
                f"No space left on the device while writing {target}. Nothing was left behind; free some space or "
                "choose another output place."
            ) from error
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        _under_way.discard(staging)


def to_disk(*paths: Path) -> None:
    """Wait until files and directories are on the disk, where they outlast the machine's power."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _refuse_overwrite(target: Path, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise InputError(f"{target} exists already. Pass --force to replace it, or choose another name.")
    if not (target / MANIFEST).is_file():
        raise InputError(f"{target} is not something Starling wrote (it has no {MANIFEST}), so --force will not replace it.")


def _move_into_place(staging: Path, target: Path) -> None:
    if not target.exists():
        staging.rename(target)
        return
    old = target.with_name(f".{target.name}.replaced-{os.getpid()}")
    try:
        target.rename(old)
        staging.rename(target)
    except BaseException:
        if not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old)


def _sweep(target: Path) -> None:
    """Remove what killed processes left; one killed between the two renames of a replacement gets the old directory back."""
    for leftover in _leftovers(target, "replaced"):
        if target.exists():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.rename(target)
    for leftover in _leftovers(target, "partial"):
        shutil.rmtree(leftover, ignore_errors=True)


def _leftovers(target: Path, kind: str) -> Iterator[Path]:
    for path in sorted(target.parent.glob(f".{glob.escape(target.name)}.{kind}-*")):
        number = path.name.rpartition("-")[2]
        if number.isdecimal() and not _lives(int(number), target):
            yield path


def _lives(process: int, target: Path) -> bool:
    """Whether a process may still be building `target`; a container gives its processes the same few numbers each time."""
    if process == os.getpid():
        return target.with_name(f".{target.name}.partial-{process}") in _under_way
    return bool(psutil.pid_exists(process))
