"""Directories that appear whole or not at all.

An artifact is built in a hidden sibling directory and renamed into place when its manifest is written. Whatever ends the
build early — an error, Ctrl-C, a full disk — leaves nothing behind; what a killed process left is swept by the next one.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from starling.core.errors import InputError, StarlingError

MANIFEST = "manifest.json"


@contextmanager
def staged(target: Path, *, force: bool = False) -> Iterator[Path]:
    """A directory to build `target` in; renamed to it on leaving, removed on any failure."""
    target = Path(target).absolute()
    _refuse_overwrite(target, force)
    if not target.parent.is_dir():
        raise InputError(f"Expected an existing folder to put '{target.name}' in, got {target.parent}. Create it first.")
    _sweep(target)
    staging = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        staging.mkdir()
    except OSError as error:
        raise InputError(f"Cannot write to {target.parent}: {error.strerror}. Choose another output place.") from error
    try:
        yield staging
        _move_into_place(staging, target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StarlingError(
                f"No space left on the device while writing {target}. Nothing was left behind; free some space or "
                "choose another output place."
            ) from error
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
    target.rename(old)
    staging.rename(target)
    shutil.rmtree(old)


def _sweep(target: Path) -> None:
    """Remove staging directories of processes that no longer live."""
    for leftover in target.parent.glob(f".{target.name}.partial-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)
