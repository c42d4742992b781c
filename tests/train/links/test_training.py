"""Link prediction learns, in one process and by teams: what two and four workers learn is what one learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.store.graph import Graph
from starling.train.config import CONFIG, RunConfig
from starling.train.config_tables import merged
from starling.train.results import TrainResult
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.ranks import run_ranks
from tests.train.links.link_graphs import grouped_pairs, link_graph

NODES, PARTS = 60, 5
TYPES = np.random.default_rng(3).integers(0, 3, 150).astype(np.uint8)


def config_of(path: Path, workers: int = 1, *, epochs: int = 2, **tables: dict[str, Any]) -> RunConfig:
    given: dict[str, dict[str, Any]] = {
        "data": {"path": path},
        "model": {"name": "sage", "hidden": 8},
        "strategy": {"name": "mini", "batch_size": 90},
        "task": {"name": "link"},
        "link": {"split_edges": "80/10/10"},
        "optimizer": {"name": "sgd", "lr": 0.2},
        "run": {"epochs": epochs, "seed": 3, "evaluate_every": epochs},
        "team": {"workers": workers},
    }
    return RunConfig.from_tables({name: given.get(name, {}) | tables.get(name, {}) for name in {**given, **tables}})


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    folder = tmp_path_factory.mktemp("graphs")
    return {
        "undirected": link_graph(folder / "u"),
        "typed": link_graph(folder / "t", directed=True, edge_tables={"type": TYPES}),
        "featureless": link_graph(folder / "f", features=0),
    }


@pytest.fixture(scope="module")
def parts(graphs: dict[str, Graph], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Five unequal parts: one empty, one of a single node; as edge-cuts, and with edges anywhere (`in pieces`)."""
    draw = np.random.default_rng(5)
    owner = draw.choice([0, 2, 4], NODES, p=[0.5, 0.25, 0.25])
    owner[7] = 3
    folder = tmp_path_factory.mktemp("parts")
    edge_cuts = {name: cut(graph, folder / name, PARTS, owner) for name, graph in graphs.items()}
    pieces = {
        f"{name} in pieces": cut(graph, folder / f"{name}-pieces", PARTS, owner, draw.integers(0, PARTS, graph.manifest.edges))
        for name, graph in graphs.items()
    }
    return edge_cuts | pieces


def test_another_width_of_a_saved_run(graphs: dict[str, Graph], tmp_path: Path) -> None:
    """The outputs of link prediction are a choice, so those of an earlier run bind nobody."""
    fit(config_of(graphs["undirected"].path, epochs=1), tmp_path / "first")
    saved = RunConfig.read(tmp_path / "first" / CONFIG).to_tables()
    wider = RunConfig.from_tables(merged(saved, {"model": {"hidden": 12}}))
    fit(wider, tmp_path / "second")
    assert RunConfig.read(tmp_path / "second" / CONFIG).data.outputs == 12


@pytest.mark.parametrize("parallel", ["hybrid", "data"])
def test_bytes_count_in_the_epoch_of_their_step(parts: dict[str, Path], tmp_path: Path, parallel: str) -> None:
    """Steps are prepared ahead of time; what that sends is counted with the step, so every run tells the same."""
    config = config_of(parts["undirected"], 2, epochs=4, team={"parallel": parallel})

    def bytes_by_epoch(run: Path) -> list[list[list[int]]]:
        learn_together(config, run)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [[worker["bytes_to"] for worker in line["workers"]] for line in lines]

    first, *others = (bytes_by_epoch(tmp_path / str(number)) for number in range(3))
    assert all(sum(map(sum, epoch)) > 0 for epoch in first)
    assert all(other == first for other in others)


def learn_together(config: RunConfig, run: Path) -> list[TrainResult]:
    return run_threads(config.team.workers, lambda team: fit(config, run, team=team))


def assert_same(found: TrainResult, expected: TrainResult) -> None:
    np.testing.assert_allclose(found.losses, expected.losses, rtol=2e-4, atol=2e-5)
    for name, value in expected.model.state_dict().items():
        np.testing.assert_allclose(found.model.state_dict()[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    for split in ("train", "val", "test"):
        assert getattr(found.scores, split) == pytest.approx(getattr(expected.scores, split), abs=0.02)  # a near tie may turn


CASES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "mini": ("undirected", {"link": {"count": 3, "loss": "softmax", "decoder": "mlp"}}),
    "global": ("undirected", {"strategy": {"name": "global", "batch_size": None}, "model": {"name": "gcn"}}),
    "by degree": ("undirected", {"link": {"negatives": "degree"}, "task": {"metric": "ap"}}),
    "any two": ("typed", {"link": {"negatives": "pairs", "count": 2}}),
    "in batch, directed": (
        "typed",
        {"link": {"negatives": "batch", "count": 2, "loss": "margin"}, "task": {"metric": "mrr"}},
    ),
    "local to the part": ("undirected", {"link": {"negatives": "local"}, "task": {"metric": "hits@3"}}),
    "relations, ranked against all": (
        "typed",
        {"model": {"name": "rgcn"}, "link": {"decoder": "distmult", "count": 2}, "task": {"metric": "mrr"}},
    ),
    "shared, ranked against all": (
        "typed",
        {
            "model": {"name": "rgcn"},
            "link": {"decoder": "distmult", "negatives": "shared", "count": 6, "loss": "softmax"},
            "task": {"metric": "mrr"},
        },
    ),
    "ranked against some": ("undirected", {"task": {"metric": "mrr"}, "link": {"candidates": 5}}),
    "sampled": ("undirected", {"strategy": {"fanouts": [3, 2]}}),
    "sampled by relation": ("typed", {"model": {"name": "rgcn"}, "strategy": {"type_fanouts": {"0": [3, 2], "*": [1, 1]}}}),
    "embeddings": ("featureless", {"embedding": {"dim": 4, "optimizer": "sgd"}}),
}


def settings_of(case: str) -> dict[str, dict[str, Any]]:
    tables = CASES[case][1]
    strategy = tables.get("strategy", {})
    return tables | {"strategy": {k: v for k, v in ({"name": "mini", "batch_size": 90} | strategy).items() if v is not None}}


def with_tables(config: RunConfig, **tables: Any) -> RunConfig:
    return RunConfig.from_tables({**config.to_tables(), **tables})


def config_for(case: str, path: Path, workers: int, **team: Any) -> RunConfig:
    tables = settings_of(case)
    config = config_of(path, workers, **{name: table for name, table in tables.items() if name != "strategy"})
    plain = config.to_tables()
    return RunConfig.from_tables({**plain, "strategy": tables["strategy"], "team": {**plain["team"], **team}})


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_teams_learn_what_one_process_learns(
    case: str, workers: int, graphs: dict[str, Graph], parts: dict[str, Path], tmp_path: Path
) -> None:
    graph, _ = CASES[case]
    alone_on = parts[graph] if "local" in case else graphs[graph].path
    (alone,) = learn_together(config_for(case, alone_on, 1), tmp_path / "alone")
    for seen in learn_together(config_for(case, parts[graph], workers), tmp_path / "team"):
        assert_same(seen, alone)


@pytest.mark.parametrize("case", ["mini", "global", "relations, ranked against all", "sampled by relation", "embeddings"])
def test_lists_in_pieces_are_put_together_first(
    case: str, graphs: dict[str, Graph], parts: dict[str, Path], tmp_path: Path
) -> None:
    graph, _ = CASES[case]
    (alone,) = learn_together(config_for(case, graphs[graph].path, 1), tmp_path / "alone")
    for seen in learn_together(config_for(case, parts[f"{graph} in pieces"], 4), tmp_path / "team"):
        assert_same(seen, alone)


def test_workers_of_their_own_batches_refuse_lists_in_pieces(parts: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Partition without --keep-vertex-cut"):
        learn_together(config_for("mini", parts["undirected in pieces"], 2, parallel="data"), tmp_path / "team")


def test_flights_and_boundaries_are_those_of_one_process(
    graphs: dict[str, Graph], parts: dict[str, Path], tmp_path: Path
) -> None:
    """Delayed updates on the graph and by two workers; and parts that hear of others by chance, however many workers hold them."""
    stale = {"sync": {"name": "stale", "staleness": 1, "in_flight": 2}}
    (alone,) = learn_together(config_of(graphs["undirected"].path, **stale), tmp_path / "alone")
    for seen in learn_together(config_of(parts["undirected"], 2, **stale), tmp_path / "team"):
        assert_same(seen, alone)
    for choice in ("even", "weighted"):
        thin = {"team": {"boundary": 0.5, "boundary_choice": choice}}
        (one,) = learn_together(config_of(parts["undirected"], 1, **thin), tmp_path / choice)
        for seen in learn_together(config_of(parts["undirected"], 2, **thin), tmp_path / f"{choice}-team"):
            assert_same(seen, one)
        assert one.losses != alone.losses
        alone = one


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("case", ["mini", "shared, ranked against all", "sampled", "sampled by relation", "embeddings"])
def test_workers_of_their_own_batches_do_too(
    case: str, workers: int, graphs: dict[str, Graph], parts: dict[str, Path], tmp_path: Path
) -> None:
    graph, _ = CASES[case]
    (alone,) = learn_together(config_for(case, graphs[graph].path, 1), tmp_path / "alone")
    for seen in learn_together(config_for(case, parts[graph], workers, parallel="data"), tmp_path / "team"):
        assert_same(seen, alone)


def train_here(team: Team, config: str, run: str) -> tuple[list[float], float | None]:
    import tomllib

    result = fit(RunConfig.from_tables(tomllib.loads(config)), Path(run), team=team)
    return list(result.losses), result.scores.test


def test_processes_learn_it_as_well(graphs: dict[str, Graph], parts: dict[str, Path], tmp_path: Path) -> None:
    (alone,) = learn_together(config_of(graphs["undirected"].path), tmp_path / "alone")
    config = config_of(parts["undirected"], 2)
    for losses, test in run_ranks(2, train_here, config.to_toml(), str(tmp_path / "team")):
        np.testing.assert_allclose(losses, alone.losses, rtol=2e-4)
        assert test == pytest.approx(alone.scores.test, abs=0.02)


@pytest.mark.parametrize("strategy", [{"name": "mini", "batch_size": 400}, {"name": "global"}])
def test_edges_are_learnt(strategy: dict[str, Any], tmp_path: Path) -> None:
    graph = link_graph(tmp_path / "g", nodes=120, edges=600, groups=4)
    tables = config_of(graph.path, epochs=12).to_tables()
    tables |= {"strategy": strategy, "optimizer": {"lr": 0.02}}
    tables["run"]["evaluate_every"] = 10
    result = fit(RunConfig.from_tables(tables), tmp_path / "run")
    assert result.metric == "auc"
    assert result.losses[-1] < result.losses[0]
    assert result.scores.test is not None
    assert result.scores.test > 0.7


def test_a_run_repeats_itself_and_seeds_differ(graphs: dict[str, Graph], tmp_path: Path) -> None:
    config = config_of(graphs["undirected"].path)
    one, again = (fit(config, tmp_path / name) for name in ("one", "again"))
    assert one.losses == again.losses
    assert one.scores == again.scores
    repeated = fit(RunConfig.read(tmp_path / "one" / "config.toml"), tmp_path / "repeated")
    assert repeated.losses == one.losses
    other = fit(with_tables(config, run={"epochs": 2, "seed": 4}), tmp_path / "other")
    assert other.losses != one.losses


def test_held_out_edges_change_no_loss(tmp_path: Path) -> None:
    """Training must not see them: with other validation and test edges the losses are the same."""
    pairs = np.random.default_rng(0).permutation(np.array([(i, j) for i in range(20) for j in range(i)]))[:120]
    split = np.repeat(np.arange(120) % 5, 2).clip(0, 2)  # of five pairs one trains, one validates, three test
    other = pairs.copy()
    held = split[::2] > 0
    free = np.array([(i + 20, j + 20) for i in range(20) for j in range(i)])[: held.sum()]
    other[held] = free
    results = []
    for name, edges in (("a", pairs), ("b", other)):
        graph = link_graph(tmp_path / name, nodes=40, pairs=edges, edge_tables={"split": split.astype(np.uint8)})
        results.append(fit(config_of(graph.path, link={"split_edges": None}), tmp_path / f"run-{name}"))
    assert results[0].losses == results[1].losses
    assert results[0].scores.test != results[1].scores.test


@pytest.mark.parametrize(("parallel", "cut_of"), [("hybrid", "edges"), ("data", "edges"), ("hybrid", "vertices")])
def test_later_edges_are_no_edges(parallel: str, cut_of: str, tmp_path: Path) -> None:
    """With --before, a team learns from edges until then what one process does, which reads their splits by the right numbers."""
    draw = np.random.default_rng(4)
    tables = {
        "time": draw.integers(0, 10, 150),
        "split": draw.choice(3, 150, p=[0.8, 0.1, 0.1]).astype(np.uint8),
        "type": TYPES,
    }
    graph = link_graph(tmp_path / "g", directed=True, edge_tables=tables)
    edge_part = draw.integers(0, 3, 150) if cut_of == "vertices" else None
    parts = cut(graph, tmp_path / "parts", 3, draw.choice([0, 2], NODES), edge_part)
    settings: dict[str, Any] = {"link": {"split_edges": None, "count": 2}, "data": {"before": 6}, "task": {"metric": "mrr"}}
    (alone,) = learn_together(config_of(graph.path, **settings), tmp_path / "alone")
    team = config_of(parts, 2, **settings, team={"workers": 2, "parallel": parallel})
    for seen in learn_together(team, tmp_path / "team"):
        assert_same(seen, alone)
    kept = np.flatnonzero(tables["time"] <= 6)
    earlier = {name: table[kept] for name, table in tables.items()}
    pairs = grouped_pairs(NODES, 150, 4)[kept]
    imported = link_graph(tmp_path / "early", directed=True, edge_tables=earlier, pairs=pairs)
    (known,) = learn_together(config_of(imported.path, link=settings["link"], task=settings["task"]), tmp_path / "early-run")
    assert known.scores.test == pytest.approx(alone.scores.test, abs=0.1)  # other negatives, the same held-out edges


def test_means_of_what_was_heard_of(parts: dict[str, Path], tmp_path: Path) -> None:
    """Pairs are scored from rows that boundary sampling thins, too; a model without means is told so."""
    found = {}
    for mean in ("unbiased", "ratio"):
        config = config_of(parts["undirected"], 2, team={"boundary": 0.5, "boundary_mean": mean})
        found[mean] = learn_together(config, tmp_path / mean)[0].losses
    assert np.abs(np.subtract(found["ratio"], found["unbiased"])).max() > 1e-4
    config = config_of(parts["undirected"], 2, model={"name": "gcn"}, team={"boundary": 0.5, "boundary_mean": "ratio"})
    with pytest.raises(InputError, match="this model takes none"):
        learn_together(config, tmp_path / "refused")
