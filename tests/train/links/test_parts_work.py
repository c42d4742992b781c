"""Link prediction by averaged models: one part is one process, workers change no bit, parts weigh as many edges as they have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.plan.links.deal import step_of_pair
from starling.train import budget
from starling.train.averaging.advice import shallow_halo_advice
from starling.train.averaging.loop import AveragingLoop
from starling.train.averaging.parts_work import Share
from starling.train.config import CONFIG, RunConfig
from starling.train.config_tables import merged
from starling.train.links.batch import LinkBatch
from starling.train.links.parts_setup import set_up_averaged_links
from starling.train.links.parts_work import LinkLessons, LinkPartsWork
from starling.train.prediction import PredictRequest, predict
from starling.train.results import TrainResult
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut
from tests.support.ranks import run_ranks
from tests.support.trainable import trainable_graph
from tests.train.links.averaged import LONELY, PARTS, Tables, config_of, link_places, train
from tests.train.links.link_graphs import link_graph
from tests.train.test_resuming import assert_same_run, stop_and_go_on

GIVEN: Tables = {"link": {"split_edges": None}}
ONE_PROCESS: Tables = {"team": {"parallel": "hybrid", "workers": 1}, "sync": {"name": "gradient"}}
RELATIONS: Tables = {"model": {"name": "rgcn"}, "link": {"decoder": "distmult", "count": 2}, "task": {"metric": "mrr"}}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return link_places(tmp_path_factory.mktemp("links"))


def assert_identical(found: TrainResult, expected: TrainResult) -> None:
    assert found.losses == expected.losses
    assert found.scores == expected.scores
    for name, value in expected.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("undirected", {"link": {"negatives": "local", "count": 2}}),
        ("undirected", {"link": {"negatives": "batch"}, "strategy": {"name": "global"}, "model": {"name": "gcn"}}),
        ("typed", merged(RELATIONS, {"link": {"negatives": "local"}, "sync": {"every": 3}})),
    ],
    ids=["mini", "global", "relations"],
)
def test_one_part_equals_one_process(places: dict[str, Any], tmp_path: Path, name: str, changes: Tables) -> None:
    path = places[name][2]
    (found,) = train(config_of(path, 1, changes), tmp_path / "average")
    (alone,) = train(config_of(path, 1, changes, ONE_PROCESS), tmp_path / "alone")
    if config_of(path, 1, changes).strategy.name == "mini":
        assert_identical(found, alone)
    else:  # rows of a whole part stand in another order, and so do the terms of sums over them
        assert found.losses == pytest.approx(alone.losses, rel=1e-5)
        for name, value in alone.model.state_dict().items():
            torch.testing.assert_close(found.model.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert not (tmp_path / "average" / "scratch").exists()


CASES: dict[str, tuple[str, Tables]] = {
    "by default": ("undirected", {}),
    "global, edge weights": (
        "undirected",
        {"strategy": {"name": "global"}, "model": {"name": "gcn", "edge_weights": True, "norm": "batch"}},
    ),
    "sampled, a network, rounds": (
        "undirected",
        {
            "strategy": {"fanouts": "3,2", "batch_size": 10},
            "link": {"decoder": "mlp", "negatives": "batch"},
            "sync": {"rounds": 2, "moments": "local"},
            "task": {"metric": "ap"},
        },
    ),
    "relations, ranked against all": ("typed", merged(RELATIONS, {"sync": {"every": 2}})),
    "given, ranked against some": ("typed", merged(GIVEN, {"link": {"candidates": 4}, "task": {"metric": "hits@3"}})),
    "by time, before a time": ("undirected", {"link": {"split": "time"}, "data": {"before": 35}}),
}


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_workers_gives_the_same_bits(places: dict[str, Any], tmp_path: Path, case: str) -> None:
    """And `infer`, by one process that holds the whole graph, finds the same scores for these weights."""
    name, changes = CASES[case]
    path = places[name][1]
    (alone,) = train(config_of(path, 1, changes), tmp_path / "1")
    assert alone.scores.test is not None
    for workers in (2, 4):
        for found in train(config_of(path, workers, changes), tmp_path / str(workers)):
            assert_identical(found, alone)
    told = predict(PredictRequest(tmp_path / "4", tmp_path / "rows.csv"))
    assert told.scores == alone.scores
    assert RunConfig.read(tmp_path / "1" / CONFIG).link.negatives == changes.get("link", {}).get("negatives", "local")


def learn_in_process(team: Any, given: Tables, run: Path) -> tuple[Any, ...]:
    result = fit(RunConfig.from_tables(given), run, team=team)
    return {name: value.numpy() for name, value in result.model.state_dict().items()}, result.losses, result.scores


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As processes of tests have: torch shares out sums among its threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_processes_give_the_bits_of_threads(places: dict[str, Any], tmp_path: Path) -> None:
    path = places["typed"][1]
    (alone,) = train(config_of(path, 1, RELATIONS), tmp_path / "1")
    for flat, losses, scores in run_ranks(2, learn_in_process, config_of(path, 2, RELATIONS).to_tables(), tmp_path / "2"):
        assert losses == alone.losses
        assert scores == alone.scores
        for name, value in alone.model.state_dict().items():
            np.testing.assert_array_equal(flat[name], value.numpy())


def test_a_round_is_the_mean_of_parts_weighted_by_training_edges(places: dict[str, Any], tmp_path: Path) -> None:
    graph, path, _ = places["undirected"]
    kept, original = dict[int, torch.Tensor](), AveragingLoop._train_part

    def watched(self: AveragingLoop, part: Any, *rest: Any) -> Any:
        sums = original(self, part, *rest)
        kept[part.part] = torch.cat([value.detach().reshape(-1).double() for value in self._model.parameters()])
        return sums

    once: Tables = {"run": {"epochs": 1, "evaluate_every": 1}, "optimizer": {"name": "sgd", "lr": 0.1}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AveragingLoop, "_train_part", watched)
        (found,) = train(config_of(path, 1, GIVEN, once), tmp_path / "run")
    owner = np.searchsorted(np.cumsum([shard["nodes"] for shard in manifest_of(path)["shards"]]), np.arange(60), side="right")
    position_of = np.load(path / "position_of_global.npy")
    owner_of_position = np.empty(60, np.int64)
    owner_of_position[position_of] = owner
    trains = np.asarray(graph.edge_table("split")) == 0
    sizes = np.bincount(owner_of_position[np.asarray(graph.edges)[trains, 1]], minlength=PARTS)
    assert sizes[LONELY] == 0
    assert kept.keys() == set(np.flatnonzero(sizes).tolist()), "a part without training edges is not trained"
    expected = sum(int(sizes[part]) * kept[part] for part in kept) / int(sizes.sum())
    assert isinstance(expected, torch.Tensor)
    flat = torch.cat([value.reshape(-1).double() for value in found.model.parameters()])
    torch.testing.assert_close(flat, expected, rtol=1e-6, atol=1e-7)


def manifest_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return found


def lessons_of(config: RunConfig) -> list[tuple[Any, LinkLessons]]:
    work = set_up_averaged_links(config, Team()).work
    assert isinstance(work, LinkPartsWork)
    with work.shelf.turns(work.trained) as turns:
        parts = [(part, work.lessons(part)) for part in turns]
    assert all(isinstance(lessons, LinkLessons) for _, lessons in parts)
    return parts  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["undirected", "typed"])
def test_steps_of_a_part_by_a_slow_look(places: dict[str, Any], name: str) -> None:
    """Targets are the training in-edges of own nodes, each once an epoch; messages are none of them, either way, nor held out."""
    graph, path, _ = places[name]
    split, edges = np.asarray(graph.edge_table("split")), np.asarray(graph.edges).astype(np.int64)
    held_out = {tuple(edge) for edge in edges[split > 0].tolist()}
    targets_of_all = list[tuple[int, int]]()
    for part, lessons in lessons_of(config_of(path, 1, GIVEN, {"link": {"count": 3}})):
        own = set(part.position[: part.owned].tolist())
        for step in range(lessons.steps_per_epoch):
            plan = lessons.strategy.plan(2, step)
            seeds = part.position[plan.batch.targets]
            source, destination = seeds[plan.pairs.source], seeds[plan.pairs.destination]
            targets = list(zip(source[: plan.pairs.edges].tolist(), destination[: plan.pairs.edges].tolist(), strict=True))
            targets_of_all += targets
            assert own.issuperset(d for _, d in targets)
            against = slice(plan.pairs.edges, None)
            changed = np.where(
                source[against] != np.repeat(source[: plan.pairs.edges], 3), source[against], destination[against]
            )
            assert own.issuperset(changed.tolist()), "negatives are nodes of the part"
            rows = part.position[plan.batch.inputs]
            for block in plan.batch.blocks:
                into = np.repeat(np.arange(len(block.offsets) - 1), np.diff(block.offsets))
                messages = set(zip(rows[block.neighbours].tolist(), rows[into].tolist(), strict=True))
                assert messages.isdisjoint(targets)
                assert messages.isdisjoint((d, s) for s, d in targets)
                assert messages.isdisjoint(held_out)
            key, steps = lessons.strategy.deal.key(2), lessons.steps_per_epoch
            assert all(step_of_pair(key, s, d, steps, 1.0) == step for s, d in targets)
    assert sorted(targets_of_all) == sorted(map(tuple, edges[split == 0].tolist()))


def test_batches_of_a_share_are_its_steps(places: dict[str, Any]) -> None:
    _, lessons = lessons_of(config_of(places["undirected"][1], 1))[0]
    assert lessons.steps_per_epoch > 2
    batches = list(lessons.batches(range(1, 3), Share(1, 2)))
    assert len(batches) == 2 * len(lessons.steps(Share(1, 2)))
    assert all(isinstance(batch, LinkBatch) for batch in batches)


def test_stopped_and_resumed_is_the_run_that_was_not(places: dict[str, Any], tmp_path: Path) -> None:
    changes: Tables = {"run": {"epochs": 5, "evaluate_every": 1, "checkpoint_every": 1}, "sync": {"moments": "local"}}
    config = config_of(places["typed"][1], 2, RELATIONS, changes)
    expected = train(config, tmp_path / "whole")[0]
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)


@pytest.mark.parametrize("workers", [1, 2])
def test_parts_that_come_and_go_give_the_same_bits(places: dict[str, Any], tmp_path: Path, workers: int) -> None:
    """Within a memory that holds one part at a time, features on disk, rows in files."""
    path, found = places["undirected"][1], []
    for memory in (1 << 30, 34_000):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
                patch.setattr(budget, name, 0)  # as if the program took nothing
            config = config_of(path, workers, {"run": {"memory": workers * memory}})
            if workers == 1:
                work = set_up_averaged_links(config, Team()).work
                assert isinstance(work, LinkPartsWork)
                assert work.shelf.comes_and_goes == (memory < 1 << 30)
            found += train(config, tmp_path / str(memory))
    for result in found[1:]:
        assert_identical(result, found[0])


def test_a_memory_below_the_lists_of_a_part_is_refused(places: dict[str, Any], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
            patch.setattr(budget, name, 0)
        with pytest.raises(InputError, match=r"The neighbour lists of part 0 take .* partition into more parts"):
            train(config_of(places["undirected"][1], 1, {"run": {"memory": 8_000}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("negatives", [None, "batch"])
def test_a_part_of_one_node(tmp_path: Path, negatives: str | None) -> None:
    """It has no pair of its own to tell edges from, but the other edges of a step."""
    owner = np.arange(60) % 2
    owner[7] = 2
    path = cut(link_graph(tmp_path / "g"), tmp_path / "cut", 3, owner)
    config = config_of(path, 1, {"link": {"negatives": negatives}})
    if negatives is None:
        with pytest.raises(InputError, match=r"Every pair of the 1 nodes of part 2 is an edge already.* --negatives batch"):
            train(config, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    else:
        assert np.isfinite(train(config, tmp_path / "run")[0].losses).all()


def test_labels_are_left_alone(tmp_path: Path) -> None:
    """A part has labels of its own nodes, while ends of its pairs are halo nodes too."""
    path = cut(trainable_graph(tmp_path / "g"), tmp_path / "cut", 3, np.arange(60) % 3)
    (found,) = train(config_of(path, 1), tmp_path / "run")
    assert np.isfinite(found.losses).all()
    assert found.metric == "auc"


REFUSED: list[tuple[Tables, str]] = [
    *(({"link": {"negatives": kind}}, f"got --negatives {kind}, which are any") for kind in ("uniform", "degree", "pairs")),
    ({"link": {"negatives": "shared"}}, "Pass --negatives local or batch, or --sync gradient"),
    ({"sync": {"correct": True}}, "--correct draws its targets from all training nodes"),
    ({"team": {"parallel": "hybrid"}}, "Pass --parallel data"),
    ({"strategy": {"name": "cluster"}}, "its strategies are mini and global"),
    ({"strategy": {"past": True}}, "looks at all training edges, got past"),
    ({"data": {"normalize": "standard"}}, "goes by training nodes"),
    ({"run": {"patience": 2}, "link": {"split_edges": "90/0/10"}}, "--patience needs validation edges"),
    ({"link": {"candidates": "all"}}, "tells edges from pairs"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_go_together_is_refused(places: dict[str, Any], tmp_path: Path, changes: Tables, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(config_of(places["undirected"][1], 1, changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_no_rows_where_there_are_no_features_and_vertex_cuts_are_refused(tmp_path: Path) -> None:
    bare = cut(link_graph(tmp_path / "bare", features=0), tmp_path / "bare-cut", 2, np.arange(60) % 2)
    with pytest.raises(InputError, match="has no features 'x', and no embeddings are to be learnt"):
        train(config_of(bare, 1, {"embedding": {"dim": 0}}), tmp_path / "run")
    graph = link_graph(tmp_path / "g")
    spread = cut(graph, tmp_path / "cut", 2, np.arange(60) % 2, np.arange(graph.manifest.edges) % 2)
    with pytest.raises(InputError, match="vertex-cut"):
        train(config_of(spread, 1), tmp_path / "run")


def test_advice_about_halos_counts_the_hop_to_a_source(places: dict[str, Any]) -> None:
    """A target's source may be a halo node, so whole neighbourhoods take a hop more than the model has layers."""
    two = {"model": {"layers": 2}}
    advice = shallow_halo_advice(config_of(places["typed"][1], 1, two))  # two hops
    assert advice is not None
    assert "--halo-hops 3" in advice
    nodes = config_of(places["typed"][1], 1, two)
    assert shallow_halo_advice(replace_task(nodes)) is None


def replace_task(config: RunConfig) -> RunConfig:
    return config.model_copy(update={"task": config.task.model_copy(update={"name": "classification"})})
