"""The table of plans: what is compared, what fits, which one is taken, and what would help where none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from starling.core.errors import InputError
from starling.plan.forecast.candidates import Asked, Offer, candidates
from starling.plan.forecast.facts import facts_of_numbers
from starling.plan.forecast.network import parse_network
from starling.plan.forecast.request import Answer, Request, answer
from starling.plan.forecast.scaling import worker_counts
from starling.plan.forecast.subject import Numbers
from tests.support.rates import calibration

OFFER = Offer(
    frozenset({"global", "mini", "cluster", "saint", "cohesive"}),
    frozenset({"hybrid", "data"}),
    frozenset({"gradient", "stale", "average"}),
)
BEFORE = Offer(frozenset({"global", "mini", "cluster", "saint"}), frozenset({"hybrid"}), frozenset({"gradient", "stale"}))
FACTS = facts_of_numbers(2_000_000, 40_000_000, 128, classes=16, train=200_000)


def told(request: Request, offer: Offer = OFFER) -> Answer:
    return answer(Numbers(FACTS), request, offer, calibration())


REQUEST = Request(Asked(workers=4), worker_memory=16 << 30, network=parse_network("10Gbit"))


def test_every_strategy_is_compared_in_one_process_and_by_workers() -> None:
    ways = candidates(Asked(workers=4), FACTS, OFFER, 2)
    kinds = {(way.strategy, way.parallel, way.sync, way.workers, way.boundary) for way in ways}
    for strategy in ("global", "mini", "cluster", "cohesive"):
        assert {(strategy, "hybrid", "gradient", 1, 1.0), (strategy, "hybrid", "gradient", 4, 1.0)} <= kinds
    assert {kind[3] for kind in kinds if kind[0] == "saint"} == {1}, "it draws from a whole graph"
    assert ("mini", "data", "gradient", 4, 1.0) in kinds
    assert ("mini", "data", "average", 4, 1.0) in kinds
    assert ("global", "hybrid", "gradient", 4, 0.1) in kinds


def test_what_this_starling_cannot_run_is_not_offered() -> None:
    ways = candidates(Asked(workers=4), FACTS, BEFORE, 2)
    assert {way.parallel for way in ways} == {"hybrid"}
    assert {way.sync for way in ways} == {"gradient"}
    assert "cohesive" not in {way.strategy for way in ways}


def test_one_strategy_and_one_parallelism() -> None:
    ways = candidates(Asked(workers=4, strategy="mini", parallel="data"), FACTS, OFFER, 2)
    assert {way.strategy for way in ways} == {"mini"}
    assert all(way.alone or way.parallel == "data" for way in ways)


def test_the_fastest_exact_plan_that_fits_is_taken() -> None:
    found = told(REQUEST).found
    assert found.best is not None
    fitting = [plan for plan in found.plans if plan.fits and plan.way.exact]
    assert found.best.seconds_per_epoch == min(plan.seconds_per_epoch for plan in fitting)


def test_less_memory_leaves_fewer_plans() -> None:
    most = sum(plan.fits for plan in told(REQUEST).found.plans)
    some = told(replace(REQUEST, worker_memory=3 << 30))
    assert 0 < sum(plan.fits for plan in some.found.plans) < most
    for plan in some.found.plans:
        assert plan.fits == (plan.memory_bytes <= 3 << 30)
        assert plan.fits or "too much" in plan.why


def test_where_nothing_fits_the_answer_says_what_would() -> None:
    found = told(replace(REQUEST, worker_memory=1200 << 20, asked=Asked(workers=2, strategy="global")), BEFORE)
    assert found.found.best is None
    assert found.command is None
    assert found.refusal is not None
    assert "Nothing fits 1.2 GiB a worker" in found.refusal
    assert "--workers" in found.refusal


def test_parts_in_turn_are_what_fits_last() -> None:
    tight = Request(Asked(workers=1, strategy="mini", fanouts=(2, 2), batch_size=64), worker_memory=1400 << 20)
    best = told(tight).found.best
    assert best is not None
    assert best.way.in_turn
    assert told(tight, BEFORE).refusal is not None


def test_a_slow_network_takes_longer() -> None:
    def epoch(network: str) -> float:
        found = told(replace(REQUEST, network=parse_network(network)))
        return next(p.seconds_per_epoch for p in found.found.plans if p.way.workers == 4 and p.way.strategy == "global")

    assert epoch("100Mbit") > epoch("1Gbit") > epoch("25Gbit")


def test_json_has_the_documented_keys() -> None:
    found = told(replace(REQUEST, simulate=8)).to_json()
    assert {"graph", "model", "workers", "plans", "recommended", "command", "assumptions", "calibration", "simulation"} <= set(
        found
    )
    plan = found["plans"][found["recommended"]]
    wanted = {
        "strategy",
        "parallel",
        "sync",
        "parts",
        "workers",
        "memory_bytes",
        "bytes_per_epoch",
        "seconds_per_epoch",
        "fits",
        "why",
    }
    assert wanted <= set(plan)
    assert found["command"] == plan["command"]
    assert [point["workers"] for point in found["simulation"]["points"]] == [1, 2, 4, 8]


def test_simulated_clusters_scale_until_the_network_is_full() -> None:
    found = told(replace(REQUEST, simulate=64, asked=Asked(workers=4, strategy="global")))
    seconds = [point.plan.seconds_per_epoch for point in found.points]
    assert seconds[0] > seconds[1] > seconds[2]
    efficient = [point.efficiency for point in found.points]
    assert efficient[-1] < 1
    memory = [point.plan.memory_bytes for point in found.points]
    assert memory[1:] == sorted(memory[1:], reverse=True)


def test_numbers_of_workers() -> None:
    assert worker_counts(1) == [1]
    assert worker_counts(6) == [1, 2, 4, 6]
    assert worker_counts(1024)[-1] == 1024


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (Asked(strategy="globl"), "Did you mean 'global'"),
        (Asked(batch_size=300_000), "at most the 200,000 training nodes"),
        (Asked(workers=3_000_000), "as many workers as"),
        (Asked(strategy="global", fanouts=(5, 5)), "--fanouts is for the strategy mini, got --strategy global"),
        (Asked(strategy="global", batch_size=16), "--batch-size is for the strategy mini"),
        (Asked(strategy="global", parallel="data"), "mini-batches of their own, got the strategy global"),
        (Asked(workers=2, strategy="saint", parallel="hybrid"), "saint is not trained by 2 workers with --parallel hybrid"),
        (Asked(strategy="mini", batches=5), "--batches is for the strategy cohesive"),
        (Asked(batches=300_000), "at most 200,000 batches"),
        (Asked(sync="stale"), "no forecast for --sync stale"),
        (Asked(boundary=0.5), "No way to train with --boundary 0.5 by 1 worker is forecast"),
        (Asked(balance_workers=True), "No way to train with --balance-workers by 1 worker"),
    ],
)
def test_contradictions_are_refused(asked: Asked, match: str) -> None:
    with pytest.raises(InputError, match=match):
        told(Request(asked))


def test_dropout_where_there_is_nothing_to_drop_is_refused() -> None:
    with pytest.raises(InputError, match="no inner layers"):
        told(Request(Asked(), model="sgc", dropout=0.5))


def test_a_model_without_what_it_reads_is_refused() -> None:
    for name, match in (("gate", "edge attributes"), ("rgcn", "edge types"), ("gatt", "Did you mean 'gat'")):
        with pytest.raises(InputError, match=match):
            told(Request(Asked(), model=name))


def test_more_simulated_workers_than_nodes_are_refused() -> None:
    few = Numbers(facts_of_numbers(1000, 5000, 8, classes=2, train=500))
    with pytest.raises(InputError, match="as many simulated workers as the 1,000 nodes, got 2,000"):
        answer(few, Request(Asked(), simulate=2000), OFFER, calibration())


def test_more_edges_than_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="at most 100 edges between 10 nodes"):
        facts_of_numbers(10, 1_000_000, 8, classes=2, train=5)
    assert facts_of_numbers(10, 200, 8, classes=2, train=5, relations=2).edges == 200


def test_cohesive_on_a_small_graph_has_two_batches_or_those_asked_for() -> None:
    few = facts_of_numbers(1000, 5000, 8, classes=2, train=500)
    assert [way.batches for way in candidates(Asked(strategy="cohesive"), few, OFFER, 2)] == [2]
    assert [way.batches for way in candidates(Asked(batches=5), few, OFFER, 2)] == [5]
    assert [way.batches for way in candidates(Asked(batches=1), few, OFFER, 2)] == [1]


def test_what_else_was_asked_is_kept_to() -> None:
    thin = candidates(Asked(workers=2, boundary=0.5), FACTS, OFFER, 2)
    assert {(way.workers, way.boundary, way.parallel) for way in thin} == {(2, 0.5, "hybrid")}
    whole = candidates(Asked(workers=2, boundary=1.0), FACTS, OFFER, 2)
    assert {way.boundary for way in whole} == {1.0}
    assert {way.in_turn for way in candidates(Asked(workers=2, sync="average"), FACTS, OFFER, 2)} == {True}
    assert {way.in_turn for way in candidates(Asked(workers=2, sync="gradient"), FACTS, OFFER, 2)} == {False}
    shared = candidates(Asked(workers=2, balance_workers=True), FACTS, OFFER, 2)
    assert {(way.strategy, way.workers, way.boundary) for way in shared} == {("cohesive", 2, 1.0)}


def test_where_even_edges_would_do_the_answer_says_so() -> None:
    def refusal(limit: int) -> str | None:
        return told(
            replace(REQUEST, worker_memory=limit, asked=Asked(workers=4, strategy="global", boundary=1.0)), BEFORE
        ).refusal

    def needed(edge_balance: float | None) -> int:
        found = answer(
            Numbers(FACTS, edge_balance=edge_balance), replace(REQUEST, worker_memory=1 << 40), BEFORE, calibration()
        )
        return next(p.memory_bytes for p in found.found.plans if p.way.strategy == "global" and p.way.workers == 4)

    hubs, even = needed(None), needed(1.05)
    assert even < hubs
    assert "partition --balance edges" in (refusal((hubs + even) // 2) or "")
    assert "partition --balance edges" not in (refusal(int(0.9 * even)) or "partition --balance edges")
