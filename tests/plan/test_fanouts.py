from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from starling.plan.fanouts import Fanouts, one_a_layer

READ = TypeAdapter(Fanouts)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("15,10,5", (15, 10, 5)),
        (" 15, 10 ", (15, 10)),
        ("all,5", ("all", 5)),
        ([25, 10], (25, 10)),
        ((25, -1, "all"), (25, "all", "all")),
        (7, (7,)),
        ("7", (7,)),
    ],
)
def test_ways_to_write_them(given: object, expected: tuple[object, ...]) -> None:
    assert READ.validate_python(given) == expected


@pytest.mark.parametrize("given", ["", "15,,5", "-2", "1.5", [True], "15;10", [0]])
def test_other_text_is_refused(given: object) -> None:
    with pytest.raises(ValidationError, match="expected numbers of at least 1, or 'all'"):
        READ.validate_python(given)


def test_more_than_a_node_can_have_is_refused() -> None:
    assert READ.validate_python("2147483647") == (2147483647,)
    with pytest.raises(ValidationError, match="at most 2,147,483,647, or 'all', got '99999999999999999999'"):
        READ.validate_python("99999999999999999999,5")


def test_none_means_all() -> None:
    assert one_a_layer(None, 3) == ("all", "all", "all")
