"""Averaged models of nodes that learn rows: one part is one process, workers change no bit, rows move with their own part alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.part_embeddings import EmbeddedPartFeatures
from starling.engine.data.shelf import Shelf
from starling.launch.trainer import Trainer
from starling.nn.graph import local_graph
from starling.nn.view import View
from starling.train import budget
from starling.train.averaging.parts_work import PartsWork
from starling.train.averaging.setup import set_up_averaging
from starling.train.config import RunConfig
from starling.train.config_tables import merged
from starling.train.embeddings import EMBEDDINGS, ROWS
from starling.train.prediction import PredictRequest, predict
from starling.train.trainer import fit
from tests.engine.hybrid.runs import cut, small_graph
from tests.engine.hybrid.test_typed import NODES, build
from tests.support.ranks import run_ranks
from tests.support.trainable import trainable_graph
from tests.train.averaging.cases import ONE_PROCESS, PARTS, Tables, assert_identical, tables, train
from tests.train.links.averaged import again, edge_tables, owners
from tests.train.links.link_graphs import grouped_pairs, link_graph
from tests.train.test_resuming import ADAM, EPOCHS, assert_same_run, stop_and_go_on
from tests.train.test_resuming import train as train_resumable
from tests.train.test_resuming_rows import assert_same_rows

ROWS_OF_ALL: Tables = {"embedding": {"dim": 6, "lr": 0.1}}
IN_FILES: Tables = {"embedding": {"dim": 6, "optimizer": "adagrad", "memory": 50}}
LINK: Tables = {"task": {"name": "link"}, "strategy": {"batch_size": 20}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graphs without features, for nodes and for links, in one part and in five: one is empty, one has no training targets."""
    folder = tmp_path_factory.mktemp("rows")
    nodes, draw = small_graph(folder / "nodes", without_x=True), np.random.default_rng(7)
    owner = draw.choice([0, 1, 3, 4], 61, p=[0.2, 0.5, 0.2, 0.1])
    owner[np.asarray(nodes.node_table("train")) & (owner == 4)] = 3
    pairs = again(grouped_pairs(60, 138, 4))
    links = link_graph(folder / "links", features=0, pairs=pairs, edge_tables=edge_tables(directed=False))
    typed = build(folder / "typed", author=3)  # venues have no features
    for graph, owner_of in ((nodes, owner), (links, owners()), (typed, draw.choice([0, 1, 3, 4], NODES))):
        cut(graph, folder / f"{graph.path.name}-five", PARTS, owner_of, halo_hops=2)
        cut(graph, folder / f"{graph.path.name}-one", 1, np.zeros(graph.nodes, np.int64))
    return folder


def rows_of(run: Path) -> Any:
    return np.load(run / EMBEDDINGS / ROWS)


CASES: dict[str, tuple[str, Tables]] = {
    "nodes, adam": ("nodes", ROWS_OF_ALL),
    "nodes, whole parts, in files": ("nodes", merged(IN_FILES, {"strategy": {"name": "global"}, "sync": {"every": 2}})),
    "links, by default": ("links", LINK),
    "links, in files, rounds": ("links", merged(LINK, IN_FILES, {"sync": {"rounds": 2, "moments": "local"}})),
    "types without features": ("typed", {"embedding": {"dim": 7}}),
}


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_workers_gives_the_same_bits(place: Path, tmp_path: Path, case: str) -> None:
    """Rows too; and `infer`, by one process that holds the whole graph, finds the same scores for them."""
    name, changes = CASES[case]
    path = place / f"{name}-five" / "parts"
    (alone,) = train(path, tmp_path / "1", 1, changes)
    assert alone.embeddings == changes.get("embedding", {}).get("dim", 64)
    for workers in (2, 4):
        for found in train(path, tmp_path / str(workers), workers, changes):
            assert_identical(found, alone)
        np.testing.assert_array_equal(rows_of(tmp_path / str(workers)), rows_of(tmp_path / "1"))
    told = predict(PredictRequest(tmp_path / "4", tmp_path / "out.csv"))
    assert told.scores == alone.scores
    assert not (tmp_path / "4" / "scratch").exists()


def learn_in_process(team: Any, given: Tables, run: Path) -> tuple[Any, Any]:
    result = fit(RunConfig.from_tables(given), run, team=team)
    return {name: value.numpy() for name, value in result.model.state_dict().items()}, result.losses


def test_processes_give_the_bits_of_threads(place: Path, tmp_path: Path) -> None:
    path = place / "nodes-five" / "parts"
    (alone,) = train(path, tmp_path / "1", 1, ROWS_OF_ALL)
    given = tables(path, ROWS_OF_ALL, {"team": {"workers": 2}})
    for flat, losses in run_ranks(2, learn_in_process, given, tmp_path / "2"):
        assert losses == alone.losses
        for name, value in alone.model.state_dict().items():
            np.testing.assert_array_equal(flat[name], value.numpy())
    np.testing.assert_array_equal(rows_of(tmp_path / "2"), rows_of(tmp_path / "1"))


@pytest.mark.parametrize(
    ("name", "changes"),
    [("nodes", ROWS_OF_ALL), ("links", merged(LINK, {"link": {"negatives": "local"}})), ("typed", {"embedding": {"dim": 7}})],
)
def test_one_part_equals_one_process_to_the_bit(place: Path, tmp_path: Path, name: str, changes: Tables) -> None:
    changes = merged(changes, {"schedule": {"name": "cosine"}})
    (found,) = train(place / f"{name}-one" / "parts", tmp_path / "average", 1, changes, {"sync": {"rounds": 2}})
    whole = place / f"{name}-one" / "parts" if name == "links" else place / name  # local to the same part
    alone = Trainer(tables(whole, changes, ONE_PROCESS), run=tmp_path / "alone").fit()
    assert found.losses == pytest.approx(alone.losses, rel=1e-12), "sums of losses are added up by rounds"
    for weight, value in alone.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[weight], value), weight
    np.testing.assert_array_equal(rows_of(tmp_path / "average"), rows_of(tmp_path / "alone"))


def test_rounds_by_a_slow_twin(tmp_path: Path) -> None:
    """Two rounds of two steps each: in a round a part moves its own rows and sees all others as they were before it.

    The twin computes every part on the whole graph, of which one layer reads no more than a part and its halo have.
    """
    graph = trainable_graph(tmp_path / "g", nodes=12, edges=40, without=("x", "val"))
    owner = np.arange(12) % 3
    twice: Tables = {
        "model": {"name": "sage", "layers": 1, "dropout": 0.0},
        "strategy": {"name": "global"},
        "optimizer": {"name": "sgd", "lr": 0.5},
        "embedding": {"dim": 4, "optimizer": "adagrad", "lr": 0.3},
        "run": {"epochs": 4, "evaluate_every": 4},
        "sync": {"every": 2},
    }
    path = cut(graph, tmp_path / "cut", 3, owner)
    setup = set_up_averaging(RunConfig.from_tables(tables(path, twice)), Team())
    assert isinstance(setup.work, PartsWork)
    assert setup.embeddings is not None
    rows = torch.empty(12, 4)
    rows[torch.from_numpy(np.array(setup.embeddings.positions, np.int64))] = torch.from_numpy(setup.embeddings.begin().all())
    expected, moved = slow_rounds(setup.model, rows, graph, owner, rounds=2, steps=2)
    (found,) = train(path, tmp_path / "run", 1, twice)
    assert (moved - rows).abs().min() > 1e-3, "every row has moved"
    np.testing.assert_allclose(rows_of(tmp_path / "run"), moved.numpy(), rtol=1e-4, atol=1e-5)
    for name, value in found.model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5)


def slow_rounds(
    model: torch.nn.Module, rows: torch.Tensor, graph: Any, owner: Any, *, rounds: int, steps: int
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Weights and rows after some rounds, by torch alone; a part's row optimiser remembers from round to round."""
    edges = np.asarray(graph.edges)
    order = np.argsort(edges[:, 1], kind="stable")
    offsets = np.searchsorted(edges[order, 1], np.arange(len(owner) + 1))
    view = View(local_graph(torch.from_numpy(offsets), torch.from_numpy(edges[order, 0])))
    y, trains = torch.from_numpy(np.array(graph.node_table("y"))).long(), np.asarray(graph.node_table("train"))
    nodes = [torch.from_numpy(np.flatnonzero(owner == part)) for part in range(3)]
    own = [torch.nn.Parameter(rows[mine].clone()) for mine in nodes]
    by_row = [torch.optim.Adagrad([mine], lr=0.3) for mine in own]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    targets = [torch.from_numpy(np.flatnonzero((owner == part) & trains)) for part in range(3)]
    for _ in range(rounds):
        shown, learnt = rows.clone(), []
        for part in range(3):
            alone = copy.deepcopy(model)
            alone.load_state_dict(weights)
            by_weight = torch.optim.SGD(alone.parameters(), lr=0.5)
            for _ in range(steps):
                x = shown.index_copy(0, nodes[part], own[part])
                cross_entropy(alone(view, x)[targets[part]], y[targets[part]]).backward()  # type: ignore[no-untyped-call]
                for optimizer in (by_weight, by_row[part]):
                    optimizer.step()
                    optimizer.zero_grad()
            learnt.append(alone.state_dict())
        total = sum(len(some) for some in targets)
        weights = {
            name: torch.stack([len(some) / total * one[name] for some, one in zip(targets, learnt, strict=True)]).sum(0)
            for name in weights
        }
        for mine, moved in zip(nodes, own, strict=True):
            rows = rows.index_copy(0, mine, moved.detach())
    return weights, rows


@pytest.mark.parametrize(
    ("name", "changes", "workers", "arrays"),
    [
        ("nodes", ROWS_OF_ALL, 2, {"rows", "mean", "square"}),
        ("links", merged(LINK, IN_FILES), 1, {"rows", "squares"}),
        ("typed", ROWS_OF_ALL, 1, {"rows", "mean", "square"}),
    ],
)
def test_stopped_and_resumed_is_the_run_that_was_not(
    place: Path, tmp_path: Path, name: str, changes: Tables, workers: int, arrays: set[str]
) -> None:
    often: Tables = {"run": {"epochs": EPOCHS, "evaluate_every": 1, "checkpoint_every": 1}, "team": {"workers": workers}}
    config = RunConfig.from_tables(tables(place / f"{name}-five" / "parts", ADAM, changes, often))
    expected = train_resumable(config, tmp_path / "whole")
    result = stop_and_go_on(config, tmp_path / "run", 4)
    assert_same_run(tmp_path / "run", result, tmp_path / "whole", expected)
    assert_same_rows(tmp_path / "run", tmp_path / "whole", arrays)


@pytest.mark.parametrize("name", ["nodes", "typed"])
def test_parts_that_come_and_go_give_the_same_bits(place: Path, tmp_path: Path, name: str) -> None:
    path, changes = place / f"{name}-five" / "parts", {"embedding": {"dim": 6, "memory": 200}}
    (expected,) = train(path, tmp_path / "all", 1, {"embedding": {"dim": 6}})
    for keeping in ("ahead", "one", "lists"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Shelf, "keeping", property(lambda _, keeping=keeping: keeping, lambda _, value: None), raising=False)
            for found in train(path, tmp_path / keeping, 2, changes):
                assert_identical(found, expected)
        np.testing.assert_array_equal(rows_of(tmp_path / keeping), rows_of(tmp_path / "all"))


def test_memory_counts_the_table_and_the_halos(place: Path) -> None:
    """Where none is asked for, a quarter of a worker's data may be rows and state; what is beyond is in a file."""
    path, whole = place / "nodes-five" / "parts", 4 * 61 * 6 * 3
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRAINING_PROGRAM_BYTES", "_LEAST"):
            patch.setattr(budget, name, 0)  # as if the program took nothing
        for memory, embedding, held in ((1 << 20, {}, whole), (16_000, {}, 4_000), (1 << 20, {"memory": 600}, 600)):
            given = tables(path, {"embedding": {"dim": 6, **embedding}, "run": {"memory": memory}})
            setup = set_up_averaging(RunConfig.from_tables(given), Team())
            assert isinstance(setup.work, PartsWork)
            assert setup.embeddings is not None
            source, features = setup.work.source, setup.work.source.part_features
            assert isinstance(features, EmbeddedPartFeatures)
            assert setup.embeddings.held_bytes == features.nbytes == source.node_bytes == held
            assert setup.embeddings.on_disk == (held < whole)
            shard = source.parts.shard(1)
            assert source.feature_bytes(1) == 4 * 6 * (shard.local - shard.owned) > 0
        given = tables(path, {"embedding": {"dim": 6, "memory": 8_000}, "run": {"memory": 8_000}})
        with pytest.raises(InputError, match=r"at most half of it for --embedding-memory, got 4\.3 KiB of rows"):
            set_up_averaging(RunConfig.from_tables(given), Team())


REFUSED: list[tuple[Tables, str]] = [
    ({"sync": {"correct": True}}, "--correct moves the mean .* Leave --correct out, or pass --sync gradient"),
    ({"embedding": {"dim": 0}}, "no embeddings are to be learnt"),
    ({"data": {"normalize": "rows"}}, "--normalize rows scales features"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_go_together_is_refused(place: Path, tmp_path: Path, changes: Tables, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(place / "nodes-five" / "parts", tmp_path / "run", 1, changes)
    assert not (tmp_path / "run").exists()
