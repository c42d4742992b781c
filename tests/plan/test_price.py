from __future__ import annotations

import numpy as np
import pytest

from starling.core.errors import InputError
from starling.nn.registry import ModelSpec, build_model
from starling.plan.batch import Block
from starling.plan.expected_sizes import degrees_of, even_degrees, expected_sizes, whole_sizes
from starling.plan.mini import Mini
from starling.plan.model_work import LayerShape, LayerSize, Product, layer_work, model_shape
from starling.plan.price import StepKind, locality_of, price_step, product_seconds, sizes_of_plan, sum_seconds
from starling.plan.strategy import PlanTask
from tests.plan.sources import draw_graph
from tests.support.rates import rates

SIZE = LayerSize(sources=100, destinations=40, edges=300)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gcn", {}),
        ("sage", {}),
        ("sage", {"aggregate": "max"}),
        ("sage", {"aggregate": "lstm"}),
        ("gat", {"heads": 2}),
        ("gatv2", {"heads": 2}),
        ("gate", {"heads": 2}),
        ("rgcn", {}),
        ("rgat", {"heads": 2}),
        ("gin", {}),
        ("mlp", {}),
    ],
)
def test_shapes_have_the_parameters_of_models(name: str, settings: dict[str, object]) -> None:
    extra = {"edge_features": 5 if name == "gate" else 0, "relations": 3 if name in ("rgcn", "rgat") else 0}
    model = build_model(ModelSpec(name, 12, 4, settings={"hidden": 8, "layers": 3, **settings}, **extra))
    shape = model_shape(name, 12, 4, layers=3, hidden=8, **{key: value for key, value in extra.items() if value}, **settings)  # type: ignore[arg-type]
    counted = sum(weight.numel() for weight in model.parameters())
    assert shape.parameters == pytest.approx(counted, rel=0.1), "up to a bias or a few attention vectors"
    assert len(shape.layers) == 3


def test_sgc_is_hops_and_a_head() -> None:
    shape = model_shape("sgc", 12, 4, layers=3)
    assert shape.parameters == 12 * 4 + 4
    assert [layer.kind for layer in shape.layers] == ["sgc"] * 3


def test_the_work_of_a_gcn_layer_by_hand() -> None:
    wide = layer_work(LayerShape("gcn", 1000, 4), SIZE)
    assert [(product.rows, product.forward, product.backward) for product in wide.products] == [(100, 1, 2)]
    assert (wide.columns, wide.forward_sums, wide.backward_sums, wide.turned) == (4, 1, 1, True), "multiplied first"
    narrow = layer_work(LayerShape("gcn", 4, 1000), SIZE, first=True)
    assert [(product.rows, product.backward) for product in narrow.products] == [(40, 1)]
    assert (narrow.columns, narrow.forward_sums, narrow.backward_sums, narrow.turned, narrow.pulled) == (4, 1, 0, False, 0)
    kept = layer_work(LayerShape("gcn", 4, 1000), SIZE, first=True, constant=True)
    assert kept.forward_sums == 0


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gatv2", "gin", "rgcn", "sgc", "mlp"])
def test_prices_grow_with_work_and_fall_with_speed(kind: str) -> None:
    model = model_shape(kind, 64, 8, hidden=32)
    sizes = (LayerSize(1000, 400, 3000), LayerSize(400, 100, 900))
    larger = tuple(LayerSize(2 * s.sources, 2 * s.destinations, 2 * s.edges) for s in sizes)
    slow = price_step(model, sizes, 100, rates(1), StepKind(planned=True))
    fast = price_step(model, sizes, 100, rates(2), StepKind(planned=True))
    more = price_step(model, larger, 200, rates(1), StepKind(planned=True))
    assert fast.seconds < slow.seconds < more.seconds
    assert slow.held_bytes < more.held_bytes
    assert slow.received_bytes == 0


def test_mirrors_rows_are_sent_each_way() -> None:
    model = model_shape("gcn", 1000, 4, layers=2, hidden=16)
    sizes = (LayerSize(100, 40, 300, mirrors=10), LayerSize(40, 20, 100, mirrors=5))
    price = price_step(model, sizes, 20, rates(), StepKind(planned=True))
    widths = [
        layer_work(shape, size, first=k == 0).pulled for k, (shape, size) in enumerate(zip(model.layers, sizes, strict=True))
    ]
    assert price.received_bytes == 2 * 4 * (10 * widths[0] + 5 * widths[1]) > 0


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(InputError, match="Expected the sizes of 2 layers, got 1"):
        price_step(model_shape("gcn", 4, 2), [SIZE], 1, rates(), StepKind(planned=True))
    with pytest.raises(InputError, match="There is no price for the model 'gnc'"):
        model_shape("gnc", 4, 2)
    with pytest.raises(InputError, match="Expected at least 1 of features"):
        model_shape("gcn", 0, 2)
    with pytest.raises(InputError, match="Expected a locality above 0"):
        StepKind(planned=True, locality=0)


def test_locality_of_neighbours() -> None:
    draw = np.random.default_rng(0)
    offsets = np.arange(0, 2001, 2)
    anywhere = Block(offsets, draw.integers(0, 5000, 2000).astype(np.int32), np.arange(2000), 5000)
    near = Block(offsets, (np.arange(2000) + draw.integers(0, 100, 2000)).astype(np.int32), np.arange(2000), 5000)
    assert locality_of(anywhere) == pytest.approx(1, abs=0.1)
    assert locality_of(near) == pytest.approx(100 / 5000, rel=0.1)


def test_expected_sizes_are_those_of_real_batches_on_a_shuffled_graph() -> None:
    graph = draw_graph(3000, 24_000, 5)
    source = graph.source
    degrees = degrees_of(np.diff(source.incoming.offsets), np.bincount(graph.pairs[:, 0], minlength=3000))
    strategy = Mini(Mini.Settings(batch_size=100, fanouts="5,3"), PlanTask(source, np.arange(3000), 2))
    real = np.mean([[(s.sources, s.destinations, s.edges) for s in sizes_of_plan(p)] for p in strategy.plans(1)], axis=0)
    expected = [(s.sources, s.destinations, s.edges) for s in expected_sizes(degrees, 100, (5, 3))]
    np.testing.assert_allclose(expected, real, rtol=0.05)


def test_expected_sizes_by_hand() -> None:
    # every node hears from two others; ten targets of a huge graph take ten neighbours each hop, hardly any twice
    sizes = expected_sizes(even_degrees(10**9, 2 * 10**9), 10, (1, "all"))
    assert [round(size.edges, 3) for size in sizes] == [40, 10]
    assert [round(size.sources, 3) for size in sizes] == [60, 20]
    assert whole_sizes(5, 9, 2) == (LayerSize(5, 5, 9),) * 2
    with pytest.raises(InputError, match="Expected between 1 and 10 targets, got 11"):
        expected_sizes(even_degrees(10, 20), 11, ("all",))
    with pytest.raises(InputError, match="Expected at least one node"):
        even_degrees(0, 20)


def test_a_sparse_product_by_hand() -> None:
    # rates of tests/support: 10 ns a row, 1 ns an edge, and 0.2 ns a number of neighbours within 32 KiB
    assert sum_seconds(40, 300, 100, 8, rates()) == pytest.approx(40 * 1e-8 + 300 * (1e-9 + 8 * 2e-10))
    assert sum_seconds(40, 0, 100, 8, rates()) == 0.0, "no edges, nothing to sum"


def test_products_with_few_columns_cost_more_for_each() -> None:
    narrow = rates()
    assert narrow.beta_of(64, 1) == pytest.approx(4e-10)
    assert narrow.beta_of(64, 15) == pytest.approx(2e-10)
    assert narrow.beta_of(64, 16) == pytest.approx(2e-10), "as matrices of up to 1024 numbers"
    forward, backward = product_seconds(Product(100, 64, 1), narrow)
    assert forward == pytest.approx(100 * 64 * 4e-10)
    assert backward == pytest.approx(100 * 64 * (4e-10 + 2e-10)), "its matrix's gradient has 1 column, its input's 64"
    assert product_seconds(Product(100, 64, 1, backward=1), narrow)[1] == pytest.approx(100 * 64 * 4e-10)


def test_planning_costs_edges_and_numbers_read() -> None:
    shape, sizes = model_shape("gcn", 16, 4, hidden=8), (SIZE, LayerSize(40, 10, 60))
    price = price_step(shape, sizes, 10, rates(1), StepKind(planned=True))
    assert price.planning == pytest.approx((SIZE.edges + 60) * 2e-8 + (SIZE.sources - SIZE.mirrors) * 16 * 1e-9)
    assert price_step(shape, sizes, 10, rates(1), StepKind(planned=False)).planning == 0.0, "a whole graph is there already"


def test_attention_between_relations_has_a_row_a_pair() -> None:
    work = layer_work(LayerShape("rgat", 12, 8, heads=2, relations=3), SIZE)
    assert [product.rows for product in work.products] == [300, 300, 120, 40], "100 sources of 3 relations, 40 destinations"
    assert work.pulled == 12, "rows travel as they are"
    few = layer_work(LayerShape("rgat", 12, 8, heads=2, relations=3), LayerSize(100, 40, 90))
    assert few.products[0].rows == 90, "no more pairs than edges"


def test_rows_that_are_read_twice_have_two_gradients() -> None:
    apart = layer_work(LayerShape("sage", 4, 1000), SIZE)
    assert apart.moved_backward == 3 * 100 * 4
    assert layer_work(LayerShape("sage", 4, 1000), SIZE, first=True).moved_backward == 0
    assert layer_work(LayerShape("gcn", 4, 1000), SIZE).moved_backward == 0
