"""Classes of a user's file: found by their place, and one clear sentence where they are not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import pytest

from starling.core.errors import InputError
from starling.core.user_class import ClassPlace


class Bird(ABC):
    """What the user's class must be."""

    @abstractmethod
    def sing(self) -> str: ...


MINE = """
from tests.core.test_user_class import Bird
class Lark(Bird):
    def sing(self):
        return "tirili"
class Egg(Bird):
    pass
STONE = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_what_is_a_place() -> None:
    assert ClassPlace.parse("a/mine.py:Net") == ClassPlace(Path("a/mine.py"), "Net")
    assert str(ClassPlace(Path("a/mine.py"), "Net")) == "a/mine.py:Net"
    assert ClassPlace.parse("C:/a/mine.py:Net") == ClassPlace(Path("C:/a/mine.py"), "Net")
    assert [ClassPlace.parse(name) for name in ("gcn", "pyg:SAGEConv", "", ":")] == [None] * 4


def test_a_class_is_loaded(mine: Path) -> None:
    lark = ClassPlace(mine, "Lark").load(Bird, "bird")  # type: ignore[type-abstract]
    assert lark().sing() == "tirili"


@pytest.mark.parametrize(
    ("file", "name", "sentence"),
    [
        ("mine.py", "", r"Expected a class after the colon, as in .*mine.py:Bird, got none\."),
        ("none.py", "Lark", r"There is no file .*none.py to load the bird Lark from\."),
        ("mine.py", "Larc", r"mine.py has no class Larc\. Did you mean 'Lark'\? Known: Lark\."),
        ("mine.py", "Egg", r"Egg in .*mine.py must be a subclass of .*\.Bird with sing\."),
        ("mine.py", "STONE", r"STONE in .*mine.py must be a subclass of .*\.Bird with sing\."),
        ("empty.py", "Lark", r"empty.py has no class Lark\. It has no Bird\."),
        ("broken.py", "Lark", r"broken.py cannot be imported: ZeroDivisionError"),
        ("mine.txt", "Lark", r"Expected a Python file such as mine.py with the bird Lark, got .*mine.txt\."),
    ],
)
def test_refused(mine: Path, file: str, name: str, sentence: str) -> None:
    (mine.parent / "empty.py").write_text("")
    (mine.parent / "broken.py").write_text("1 / 0")
    (mine.parent / "mine.txt").write_text(MINE)
    with pytest.raises(InputError, match=sentence):
        ClassPlace(mine.parent / file, name).load(Bird, "bird")  # type: ignore[type-abstract]
