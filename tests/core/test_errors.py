from __future__ import annotations

import pytest

from starling.core.errors import InputError, MissingExtra, StarlingError, nearest


def test_a_close_name_is_suggested_first() -> None:
    assert nearest("metsi", ["flock", "metis", "spring"]) == "Did you mean 'metis'? Known: flock, metis, spring."


def test_nothing_close_lists_what_there_is() -> None:
    assert nearest("zzz", ["flock", "metis"]) == "Known: flock, metis."


def test_names_are_listed_in_order_whatever_order_they_came_in() -> None:
    assert nearest("zzz", {"b", "c", "a"}) == "Known: a, b, c."


@pytest.mark.parametrize(("kind", "status"), [(StarlingError, 1), (InputError, 2), (MissingExtra, 2)])
def test_exit_statuses(kind: type[StarlingError], status: int) -> None:
    assert kind.exit_status == status
    assert issubclass(kind, StarlingError)


def test_a_missing_extra_says_how_to_get_it() -> None:
    assert str(MissingExtra("networkx", "networkx", "Reading a NetworkX graph")) == (
        "Reading a NetworkX graph needs the package 'networkx', which is not installed. "
        "Install it with: pip install 'starling-gnn[networkx]'."
    )


def test_among_equally_close_names_the_one_with_the_same_beginning() -> None:
    assert "Did you mean 'gcn'" in nearest("gnc", ["sgc", "gcn", "gat"])
    assert nearest("x", []) == "There are none."
