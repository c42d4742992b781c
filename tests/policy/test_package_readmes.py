"""The README of a package names every module that is there, and none that is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import PACKAGE, ROOT

READMES = sorted(PACKAGE.rglob("README.md"))


def named_files(text: str, here: Path) -> Iterator[tuple[str, Path | None]]:
    """The Python files that a README names in backquotes, with their places; None where there is no such file.

    Names count from the README's own folder, from ``src/starling`` or from the top of the repository. In a paragraph, list
    item or table row, names behind that of a folder may also count from there: `` `links/`: `setup.py`, `team.py` ``.
    """
    for block in re.split(r"\n\s*\n|\n(?=\||- )", text):
        folders = [here, PACKAGE, ROOT]
        for name in re.findall(r"`([\w./-]+(?:\.py|/))`", block):
            if name.endswith("/"):
                folders = [here / name, here, PACKAGE, ROOT]
            else:
                places = ((folder / name).resolve() for folder in folders)
                yield name, next((place for place in places if place.is_file()), None)


def readme_of(module: Path) -> Path | None:
    """The README of the nearest folder that has one."""
    return next((folder / "README.md" for folder in module.parents if folder / "README.md" in READMES), None)


def unnamed_modules(package: str) -> list[str]:
    """Modules of a package that the nearest README does not name."""
    missing = []
    for module in sorted((PACKAGE / package).rglob("*.py")):
        readme = readme_of(module)
        if module.name == "__init__.py" or readme is None:
            continue
        if module not in {place for _, place in named_files(readme.read_text(), readme.parent)}:
            missing.append(f"{readme.relative_to(ROOT)} does not name {module.relative_to(readme.parent)}")
    return missing


@pytest.mark.parametrize("readme", READMES, ids=lambda readme: str(readme.parent.relative_to(PACKAGE)))
def test_a_readme_names_files_that_exist(readme: Path) -> None:
    assert [name for name, place in named_files(readme.read_text(), readme.parent) if place is None] == []


@pytest.mark.parametrize("package", sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")}))
def test_every_module_is_named(package: str) -> None:
    assert unnamed_modules(package) == []


def test_the_test_can_tell() -> None:
    here = PACKAGE / "store"
    text = "`graph.py`, `nowhere.py` and `core/npy.py`\n\n| `foreign/` | `metis_file.py`, `parts.py` |\n| other | `metis_file.py` |"
    places = [place and place.relative_to(PACKAGE).as_posix() for _, place in named_files(text, here)]
    assert places == ["store/graph.py", None, "core/npy.py", "store/foreign/metis_file.py", "store/parts.py", None]
    assert readme_of(PACKAGE / "store" / "graph.py") == PACKAGE / "store" / "README.md"
    assert readme_of(PACKAGE / "__main__.py") is None
