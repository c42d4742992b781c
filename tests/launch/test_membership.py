"""The graphics card of each worker, by its number on its machine."""

from __future__ import annotations

import pytest
import torch

from starling.core.environment import Place
from starling.core.errors import InputError
from starling.launch.membership import _own_card


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Cards that were taken, on a machine that has two."""
    cards: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", cards.append)
    return cards


def test_a_worker_takes_the_card_of_its_number(taken: list[int]) -> None:
    place = Place(rank=3, size=4, local_rank=1, local_size=2)
    assert _own_card(place, "cuda") == torch.device("cuda", 1)
    assert _own_card(Place(0, 1, 0, 1), "cuda:1") == torch.device("cuda", 1)
    assert taken == [1, 1]


def test_a_device_that_is_none(taken: list[int]) -> None:
    with pytest.raises(InputError, match="Expected a device such as cpu or cuda, got 'abacus'"):
        _own_card(Place(0, 1, 0, 1), "abacus")
    assert taken == []


def test_more_workers_than_cards(taken: list[int]) -> None:
    with pytest.raises(InputError, match="Expected a graphics card for each of 3 workers of a machine, got 2"):
        _own_card(Place(rank=2, size=3, local_rank=2, local_size=3), "cuda")
    assert taken == []


def test_one_card_is_not_for_all(taken: list[int]) -> None:
    with pytest.raises(InputError, match="Every worker takes a graphics card of its own, got --device cuda:1"):
        _own_card(Place(rank=0, size=2, local_rank=0, local_size=2), "cuda:1")
    assert taken == []
