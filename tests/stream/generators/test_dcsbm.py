"""The block model: what was asked is what comes, whatever the threads and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from starling.core.keyed import draw_unit, stream_key
from starling.stream.generators import contract, nodes
from starling.stream.generators.dcsbm import DcsbmSettings, dcsbm
from tests.support.generated import drawn_columns, drawn_edges

SMALL: dict[str, Any] = {"nodes": 3000, "edges": 60_000, "classes": 6, "features": 9, "seed": 5}


def test_recorded_values() -> None:
    raw = dcsbm(DcsbmSettings(**SMALL))
    edges, columns = drawn_edges(raw), drawn_columns(raw)
    assert edges.shape == (30_000, 2)
    assert raw.edges.expected == 30_000
    assert edges[:4].tolist() == [[2557, 990], [668, 2363], [196, 1800], [212, 2504]]
    assert int((edges[:, 0] * 3001 + edges[:, 1]).sum()) == 131_194_258_023
    assert columns["y"][:10].tolist() == [0, 3, 1, 2, 5, 2, 3, 2, 2, 0]
    assert np.flatnonzero(columns["val"])[:6].tolist() == [12, 16, 20, 35, 36, 38]
    np.testing.assert_allclose(columns["x"][7, :4], [-1.572387, 1.134154, 0.963927, -1.246385], atol=1e-6)


@pytest.mark.parametrize("order", ["random", "community"])
def test_threads_and_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    settings = DcsbmSettings(**SMALL, order=order)
    edges, columns = drawn_edges(dcsbm(settings)), drawn_columns(dcsbm(settings))
    for threads, block in ((1, 997), (3, 10_001)):
        monkeypatch.setenv("STARLING_THREADS", str(threads))
        monkeypatch.setattr(contract, "BLOCK_EDGES", block)
        monkeypatch.setattr(nodes, "_BLOCK_ROWS", block)
        again = dcsbm(settings)
        np.testing.assert_array_equal(drawn_edges(again), edges)
        for name, column in drawn_columns(again).items():
            np.testing.assert_array_equal(column, columns[name])


def test_another_seed_is_another_graph() -> None:
    one, other = (dcsbm(DcsbmSettings(**SMALL | {"seed": seed})) for seed in (0, 1))
    assert (drawn_edges(one) == drawn_edges(other)).mean() < 0.01
    assert (drawn_columns(one)["y"] == drawn_columns(other)["y"]).mean() < 0.25


@pytest.mark.parametrize("mix", [0.0, 0.2, 1.0])
def test_share_of_edges_inside_a_class(mix: float) -> None:
    raw = dcsbm(DcsbmSettings(**SMALL | {"mix": mix, "nodes": 20_000, "edges": 400_000}))
    edges, y = drawn_edges(raw), drawn_columns(raw)["y"]
    weight = np.bincount(y[edges[:, 0]], minlength=6) / len(edges)
    expected = 1 - mix + mix * (weight**2).sum()  # a mixed draw may fall into the same class by accident
    assert (y[edges] @ [1, -1] == 0).mean() == pytest.approx(expected, abs=0.005)


def test_degrees_follow_the_weights() -> None:
    settings = DcsbmSettings(nodes=2000, edges=4_000_000, classes=3, features=0, seed=2)
    degree = np.bincount(drawn_edges(dcsbm(settings))[:, 0], minlength=2000)
    key = stream_key(2, "dcsbm/weight")
    weight = np.array([min((1 - draw_unit(key, node, 0)) ** (-1 / 1.5), 2000**0.5) for node in range(2000)])
    expected = 2_000_000 * weight / weight.sum()
    assert (abs(degree - expected) / np.sqrt(expected)).max() < 5
    assert (((degree - expected) ** 2 / expected).mean()) == pytest.approx(1, abs=0.2)


def test_degrees_have_a_heavy_tail_up_to_the_cap() -> None:
    raw = dcsbm(DcsbmSettings(nodes=50_000, edges=1_000_000, features=0))
    degree = np.sort(np.bincount(drawn_edges(raw).ravel(), minlength=50_000))
    assert degree.mean() == 20
    assert degree[-1] > 40 * degree.mean()
    # P(weight > w) = w^−1.5: the degree of the 1 % heaviest is 100^(2/3) = 21.5 times the smallest expected one, 20 / 2.85.
    assert degree[-500] == pytest.approx(21.5 * 20 / 2.87, rel=0.1)


def test_community_order_sorts_the_classes() -> None:
    y = drawn_columns(dcsbm(DcsbmSettings(**SMALL, order="community")))["y"]
    shuffled = drawn_columns(dcsbm(DcsbmSettings(**SMALL)))["y"]
    np.testing.assert_array_equal(y, np.sort(shuffled))


def test_more_classes_than_members() -> None:
    raw = dcsbm(DcsbmSettings(nodes=5, edges=2000, classes=5, features=2))
    assert len(np.unique(drawn_columns(raw)["y"])) < 5  # some class is empty, and nothing is drawn from it
    assert sorted(np.unique(drawn_edges(raw))) == [0, 1, 2, 3, 4]


def test_one_node() -> None:
    raw = dcsbm(DcsbmSettings(nodes=1, edges=10, classes=1, features=1))
    assert drawn_edges(raw).tolist() == [[0, 0]] * 5


def test_the_origin_tells_how_to_make_it_again() -> None:
    raw = dcsbm(DcsbmSettings(**SMALL, split="50/30/10"))
    told = dict(raw.origin)
    assert told.pop("generator") == "dcsbm"
    assert DcsbmSettings.model_validate(told) == DcsbmSettings(**SMALL, split=(50, 30, 10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 0},
        {"nodes": 3},
        {"edges": 1},
        {"mix": 1.5},
        {"exponent": 1.0},
        {"signal": -1},
        {"split": "60/30/20"},
        {"split": "60/40"},
        {"order": "sorted"},
        {"node": 10},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DcsbmSettings(**wrong)
