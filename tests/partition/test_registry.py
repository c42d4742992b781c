"""Methods are found by name, or loaded from a user's file, or refused with one clear sentence."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.partition.contract import PartitionTask
from starling.partition.registry import METHODS, find_method, make_method
from starling.partition.spring import Spring
from tests.support.tiny import TINY

MINE = '''
import numpy as np
from pydantic import Field

from starling.core.assignment import Assignment
from starling.partition.contract import Partitioner


class EveryOther(Partitioner):
    """Node i goes to part (i + shift) mod p."""

    class Settings(Partitioner.Settings):
        shift: int = Field(0, description="where to begin")

    def _assign(self, task):
        owner = (np.arange(task.edges.nodes, dtype=np.int32) + self.settings.shift) % task.parts
        return Assignment("edge-cut", task.parts, owner.astype(np.int32))


class Unfinished(Partitioner):
    """Has no _assign."""


class Stumbles(Partitioner):
    def _assign(self, task):
        return {"a": 1}["b"]


class Forgets(Partitioner):
    def _assign(self, task):
        pass


class Lists(Partitioner):
    def _assign(self, task):
        return Assignment("edge-cut", task.parts, [0] * task.edges.nodes)


class Forecasts(Partitioner):
    def memory_needed(self, task):
        return 1 // 0

    def _assign(self, task):
        return None


class Shy(Partitioner):
    def __init__(self):
        super().__init__()

    def _assign(self, task):
        return None


class Loose(Partitioner):
    Settings = dict

    def _assign(self, task):
        return None


NUMBER = 3
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_methods_are_found_by_name() -> None:
    assert find_method("spring") is Spring
    assert {"random", "hash", "grid", "dbh", "greedy", "hdrf", "2ps-l", "spring", "metis"} <= METHODS.keys()
    assert {"kaminpar", "mtkahypar", "louvain", "leiden"} <= METHODS.keys()


def test_an_unknown_method_names_the_nearest_and_all() -> None:
    with pytest.raises(InputError, match=r"no method 'sprnig'. Did you mean 'spring'\? Known: 2ps-l, .*spring"):
        find_method("sprnig")


def test_settings_are_read_from_text() -> None:
    spring = make_method("spring", {"tau": "0.5"})
    assert isinstance(spring, Spring)
    assert spring.settings == Spring.Settings(tau=0.5)
    assert make_method("spring").settings == Spring.Settings()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"betta": 1.2}, r"spring has no setting 'betta'. Did you mean 'beta'\? Known: beta, tau"),
        ({"tau": -1}, "setting 'tau' of spring is wrong: .*greater than 0; got -1"),
        ({"beta": "wide"}, "setting 'beta' of spring is wrong: .*; got 'wide'"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_method("spring", settings)


@pytest.mark.parametrize("value", ["1e300", "inf", "1e7"])
def test_settings_that_no_kernel_can_take_are_refused(value: str) -> None:
    with pytest.raises(InputError, match="setting 'tau' of spring is wrong: expected at most 1,000,000, got"):
        make_method("spring", {"tau": value})


@pytest.mark.parametrize(
    ("name", "setting"), [("spring", "tau"), ("spring", "beta"), ("restream", "imbalance"), ("flock", "flock")]
)
def test_the_largest_settings_work(name: str, setting: str) -> None:
    assignment = make_method(name, {setting: 1_000_000}).assign(PartitionTask(TINY["two cliques"], 2))
    assert set(assignment.owner.tolist()) <= {0, 1}


def test_a_method_without_settings_says_so() -> None:
    with pytest.raises(InputError, match=r"random has no setting 'tau'. It has no settings"):
        make_method("random", {"tau": 1})


def test_a_users_method_works_as_any_other(mine: Path) -> None:
    method = make_method(f"{mine}:EveryOther", {"shift": "1"})
    assignment = method.assign(PartitionTask(TINY["path"], 3))
    assert assignment.owner.tolist() == [1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    assert method.name == "EveryOther"
    assert np.issubdtype(assignment.owner.dtype, np.int32)


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        ("EveryOthr", r"mine.py has no class EveryOthr. Did you mean 'EveryOther'\?"),
        ("NUMBER", "NUMBER in .*mine.py must be a subclass of .*Partitioner with _assign"),
        ("Unfinished", "Unfinished in .* must be a subclass of .*Partitioner with _assign"),
    ],
)
def test_a_users_class_that_is_no_method_is_refused(mine: Path, class_name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_method(f"{mine}:{class_name}")


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        ("Stumbles", r"The method Stumbles failed: KeyError: 'b' \(mine.py, line \d+\)\."),
        ("Forgets", r"The method Forgets is broken: it made no Assignment, but a NoneType\."),
        ("Lists", r"The method Lists is broken: it made owner a list, not a NumPy array\."),
        ("Forecasts", r"memory_needed of the method Forecasts failed: ZeroDivisionError: .* \(mine.py, line \d+\)\."),
        (
            "Shy",
            r"The method .*:Shy cannot be made: TypeError: .*Give it an __init__ that takes the settings, or none at all\.",
        ),
        ("Loose", r"Expected a subclass of Partitioner.Settings as the Settings of .*:Loose, got <class 'dict'>\."),
    ],
)
def test_a_users_method_that_fails_is_named_in_one_sentence(mine: Path, class_name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_method(f"{mine}:{class_name}").assign(PartitionTask(TINY["path"], 3))
    assert re.fullmatch(message, str(caught.value))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*nowhere.py to load the method Mine from"):
        find_method(f"{tmp_path / 'nowhere.py'}:Mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [("import no_such_package", "ModuleNotFoundError"), ("def f(:", "SyntaxError"), ("1 / 0", "ZeroDivision")],
)
def test_a_file_that_does_not_import_says_why(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"broken.py cannot be imported: {message}"):
        find_method(f"{path}:Mine")


def test_a_file_without_methods_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(InputError, match=r"has no class Mine. It has no Partitioner"):
        find_method(f"{path}:Mine")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(MINE)
    with pytest.raises(InputError, match="Expected a Python file"):
        find_method(f"{path}:EveryOther")
