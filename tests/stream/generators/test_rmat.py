"""R-MAT against a slow twin, edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from starling.core.keyed import draw, stream_key
from starling.stream.generators import GENERATORS, contract
from starling.stream.generators.bijection import shuffled
from starling.stream.generators.rmat import RmatSettings, rmat
from tests.support.generated import drawn_columns, drawn_edges


def slow_edge(settings: RmatSettings, number: int) -> list[int]:
    """One edge in plain Python: two bits a level from 32 random bits, again until both ends are nodes."""
    levels, slot = (settings.nodes - 1).bit_length(), 0
    key = stream_key(settings.seed, "rmat/edge")
    while True:
        words: list[int] = []
        for _ in range((levels + 1) // 2):
            bits = int(draw(key, number, slot))
            words += [bits % 2**32, bits // 2**32]
            slot += 1
        row = column = 0
        for word in words[:levels]:
            part = word / 2**32
            quadrant = sum(part >= bound for bound in np.cumsum([settings.a, settings.b, settings.c]))
            row, column = 2 * row + quadrant // 2, 2 * column + quadrant % 2
        if max(row, column) < settings.nodes:
            shuffle = stream_key(settings.seed, "rmat/shuffle")
            return [shuffled(shuffle, row, settings.nodes), shuffled(shuffle, column, settings.nodes)]


@pytest.mark.parametrize("nodes", [1, 2, 3, 64, 100, 1000])
def test_agrees_with_the_slow_twin(nodes: int) -> None:
    settings = RmatSettings(nodes=nodes, edges=600, seed=nodes)
    assert drawn_edges(rmat(settings)).tolist() == [slow_edge(settings, number) for number in range(300)]


def test_recorded_edges() -> None:
    assert drawn_edges(rmat(RmatSettings(nodes=1000, edges=10, seed=3))).tolist() == [
        [200, 317],
        [79, 947],
        [169, 776],
        [712, 160],
        [585, 146],
    ]


def test_quadrants_come_as_often_as_asked() -> None:
    edges = drawn_edges(rmat(RmatSettings(nodes=2, edges=200_000, a=0.5, b=0.3, c=0.15)))
    first = shuffled(stream_key(0, "rmat/shuffle"), 0, 2)
    share = np.bincount(2 * (edges[:, 0] ^ first) + (edges[:, 1] ^ first)) / len(edges)
    np.testing.assert_allclose(share, [0.5, 0.3, 0.15, 0.05], atol=0.005)


def test_threads_and_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RmatSettings(nodes=5000, edges=40_000)
    edges = drawn_edges(rmat(settings))
    monkeypatch.setattr(contract, "BLOCK_EDGES", 777)
    for threads in ("1", "3"):
        monkeypatch.setenv("STARLING_THREADS", threads)
        np.testing.assert_array_equal(drawn_edges(rmat(settings)), edges)


def test_skewed_and_scrambled() -> None:
    degree = np.bincount(drawn_edges(rmat(RmatSettings(nodes=30_000, edges=600_000))).ravel(), minlength=30_000)
    assert degree.max() > 40 * degree.mean()
    heavy = np.argsort(degree)[-100:]
    assert 0.35 < heavy.mean() / 30_000 < 0.65  # the heavy nodes stand anywhere


def test_labels_only_when_asked() -> None:
    assert rmat(RmatSettings()).tables == ()
    columns = drawn_columns(rmat(RmatSettings(nodes=500, classes=3, features=4)))
    assert columns["x"].shape == (500, 4)
    assert set(columns["y"]) == {0, 1, 2}


@pytest.mark.parametrize("wrong", [{"a": 0.9}, {"features": 4}, {"a": 0.0}, {"scale": 20}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        RmatSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_registry(name: str) -> None:
    generator = GENERATORS[name]
    raw = generator.make(generator.settings(nodes=300, edges=1000))
    assert raw.origin["generator"] == name
    assert raw.nodes == 300
    assert drawn_edges(raw).shape == (500, 2)
    assert all(field.description for field in generator.settings.model_fields.values())
