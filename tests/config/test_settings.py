"""Settings: checked strictly, complained about by name."""

from __future__ import annotations

import pytest

from starling.config.settings import Choice, checked
from starling.core.errors import InputError
from starling.core.manifest import Record


class Bird(Record):
    wings: int = 2
    colour: str = "black"


def test_defaults_are_filled_in() -> None:
    assert checked(Bird, {"colour": "green"}, "[bird]") == Bird(wings=2, colour="green")


def test_an_unknown_key_suggests_the_right_one() -> None:
    with pytest.raises(InputError, match=r"\[bird\] has no setting 'color'. Did you mean 'colour'"):
        checked(Bird, {"color": "green"}, "[bird]")


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(InputError, match=r"'wings' of \[bird\].*got 'many'"):
        checked(Bird, {"wings": "many"}, "[bird]")


def test_a_choice_is_a_flat_table() -> None:
    table = {"name": "gcn", "layers": 3}
    choice = Choice.from_table(table, "model")
    assert (choice.name, choice.settings) == ("gcn", {"layers": 3})
    assert choice.to_table() == table
    with pytest.raises(InputError, match=r"Expected a name in \[model\], got None"):
        Choice.from_table({"layers": 3}, "model")
