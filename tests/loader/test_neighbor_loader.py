"""The loader beside PyG's meaning of a batch, and the same batches on any number of ranks."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starling.comm.in_process import run_threads
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.loader import NeighborLoader
from starling.store.graph import Graph
from tests.engine.data.cases import machines, on_hosts, uneven_owner, uneven_parts
from tests.engine.hybrid.runs import cut, own_copy, small_graph
from tests.support.source import ROOT

pytest.importorskip("torch_geometric")
NODES = 61


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, Path, Path]:
    folder = tmp_path_factory.mktemp("loader")
    graph = small_graph(folder / "g")
    return graph, uneven_parts(graph, folder / "five"), cut(graph, folder / "one", 1, np.zeros(NODES, np.int64))


def check_batch(graph: Graph, batch: Any, fanouts: list[int], wanted: np.ndarray) -> None:
    """What PyG promises of a batch, edge by edge."""
    pairs, x, y = np.asarray(graph.edges), np.asarray(graph.node_table("x")), np.asarray(graph.node_table("y"))
    n_id, size = batch.n_id.numpy(), batch.batch_size
    assert len(np.unique(n_id)) == len(n_id) == batch.num_nodes
    np.testing.assert_array_equal(n_id[:size], wanted[batch.input_id.numpy()])
    np.testing.assert_array_equal(batch.x.numpy(), x[n_id])
    np.testing.assert_array_equal(batch.y.numpy(), y[n_id])
    np.testing.assert_array_equal(batch.train_mask.numpy(), np.asarray(graph.node_table("train"))[n_id])
    edges = batch.e_id.numpy()
    assert len(np.unique(edges)) == len(edges)
    np.testing.assert_array_equal(n_id[batch.edge_index.numpy()].T, pairs[edges])
    np.testing.assert_array_equal(batch.edge_weight.numpy(), np.asarray(graph.edge_table("weight"))[edges])
    np.testing.assert_array_equal(batch.edge_attr.numpy(), np.asarray(graph.edge_table("attr"))[edges])
    assert sum(batch.num_sampled_nodes) == batch.num_nodes
    assert sum(batch.num_sampled_edges) == batch.edge_index.shape[1]
    degree, begin, first = np.bincount(pairs[:, 1], minlength=NODES), 0, 0
    for hop, fanout in enumerate(fanouts):
        rows = np.arange(begin, begin + batch.num_sampled_nodes[hop])
        taken = batch.edge_index[1].numpy()[first : first + batch.num_sampled_edges[hop]]
        counts = np.bincount(taken, minlength=batch.num_nodes)[rows]
        most = degree[n_id[rows]]
        np.testing.assert_array_equal(counts, most if fanout == -1 else np.minimum(most, fanout))
        begin, first = begin + len(rows), first + len(taken)
    assert first == batch.edge_index.shape[1], "nodes of the last hop have no edges"


@pytest.mark.parametrize("fanouts", [[3, 2], [-1, 2, -1]])
def test_a_batch_is_what_pyg_gives(place: tuple[Graph, Path, Path], fanouts: list[int]) -> None:
    graph, five, _ = place
    train = np.flatnonzero(np.asarray(graph.node_table("train")))
    loader = NeighborLoader(five, fanouts, batch_size=8, shuffle=True, team=Team())
    assert len(loader) == -(-len(train) // 8)
    seen = []
    for batch in loader:
        check_batch(graph, batch, fanouts, train)
        seen.append(batch.input_id.numpy())
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(len(train)))


def test_samples_are_those_of_one_process_for_any_parts(place: tuple[Graph, Path, Path]) -> None:
    """The same seeds in the same steps: the whole graph in one part, or in five unequal ones."""
    _, five, one = place
    loaders = [NeighborLoader(path, [2, 2], batch_size=9, shuffle=True, seed=4, team=Team()) for path in (five, one)]
    for left, right in zip(*loaders, strict=True):
        for name in ("n_id", "e_id", "edge_index", "input_id", "x"):
            assert torch.equal(left[name], right[name]), name


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("hosts", ["together", "apart"])
def test_ranks_share_the_seeds(place: tuple[Graph, Path, Path], ranks: int, hosts: str) -> None:
    graph, five, _ = place
    train = np.flatnonzero(np.asarray(graph.node_table("train")))
    assert len(train) % ranks, "counts differ"

    def load(team: Team) -> list[Any]:
        loader = NeighborLoader(five, [3, 2], batch_size=7, shuffle=True, team=team)
        return [list(loader), list(loader)][1]

    found = on_hosts([0] * ranks if hosts == "together" else list(range(ranks)), load)
    assert len({len(batches) for batches in found}) == 1, "every rank yields the same number of batches"
    inputs = np.concatenate([batch.input_id.numpy() for batches in found for batch in batches])
    assert set(inputs) == set(range(len(train)))
    assert len(inputs) == ranks * -(-len(train) // ranks), "filled up by one a rank at most"
    for batches in found:
        for batch in batches:
            check_batch(graph, batch, [3, 2], train)


@pytest.mark.parametrize(("hosts", "local_only"), [([0, 0], False), ([0, 1], False), ([0, 1], True), ([0, 1, 0], False)])
def test_without_padding_every_seed_comes_once(place: tuple[Graph, Path, Path], hosts: list[int], local_only: bool) -> None:
    """Ranks have unequal numbers of batches; across hosts those that are through answer the others, in every epoch."""
    graph, five, _ = place
    train = np.flatnonzero(np.asarray(graph.node_table("train")))
    size = len(train) // len(hosts)
    assert len(train) % len(hosts), "the last rank has one seed more"

    def load(team: Team) -> list[list[Any]]:
        loader = NeighborLoader(five, [2, 2], batch_size=size, pad=False, local_only=local_only, team=team)
        epochs = [list(loader), list(loader)]
        assert [len(batches) for batches in epochs] == [len(loader)] * 2
        return epochs

    found = on_hosts(hosts, load)
    assert len({len(epochs[0]) for epochs in found}) > 1, "counts differ"
    for epoch in range(2):
        batches = [batch for epochs in found for batch in epochs[epoch]]
        inputs = np.concatenate([batch.input_id.numpy() for batch in batches])
        np.testing.assert_array_equal(np.sort(inputs), np.arange(len(train)))
        for batch in [] if local_only else batches:
            check_batch(graph, batch, [2, 2], train)


@pytest.mark.parametrize("hosts", [[0, 1], [0, 0, 1, 1], [1, 0, 1]])
@pytest.mark.parametrize("local_only", [False, True])
def test_a_host_needs_the_shards_of_its_own_ranks_alone(
    place: tuple[Graph, Path, Path], tmp_path: Path, hosts: list[int], local_only: bool
) -> None:
    """Neither others' shards nor the files beside them; batches are those of hosts that have everything."""
    _, five, _ = place
    copies = machines(five, tmp_path, hosts)

    def load(own: bool, team: Team) -> list[Any]:
        path = copies[team.rank] if own else five
        loader = NeighborLoader(path, [3, 2], 7, input_nodes="test", pad=False, local_only=local_only, team=team)
        return [*loader, *loader]

    for ours, everything in zip(on_hosts(hosts, partial(load, True)), on_hosts(hosts, partial(load, False)), strict=True):
        assert len(ours) == len(everything)
        for left, right in zip(ours, everything, strict=True):
            for name in right.keys():  # noqa: SIM118, PyG's Data is no dict
                assert torch.equal(torch.as_tensor(left[name]), torch.as_tensor(right[name])), name


def test_hosts_with_other_parts_are_refused(place: tuple[Graph, Path, Path], tmp_path: Path) -> None:
    graph, five, _ = place
    paths = [five, cut(graph, tmp_path / "other", 5, np.arange(NODES) % 5)]
    with pytest.raises(InputError, match="has other parts than worker 0"):
        on_hosts([0, 1], lambda team: NeighborLoader(paths[team.rank], [2], team=team))


def test_a_missing_shard_of_ones_own_is_named(place: tuple[Graph, Path, Path], tmp_path: Path) -> None:
    machine = own_copy(place[1], tmp_path / "machine", [0], 2)
    with pytest.raises(InputError, match="part-00002 is missing"):
        NeighborLoader(machine, [2], team=Team())


def test_own_parts_alone(place: tuple[Graph, Path, Path]) -> None:
    """`local_only`: no edge into a node that the rank does not own."""
    graph, five, _ = place
    owner = uneven_owner(NODES)

    def load(team: Team) -> list[Any]:
        return list(NeighborLoader(five, [-1, -1], batch_size=5, local_only=True, input_nodes=np.arange(NODES), team=team))

    for rank, batches in enumerate(on_hosts([0, 0], load)):
        own = (owner < 2) if rank == 0 else (owner >= 2)
        for batch in batches:
            assert own[batch.n_id.numpy()[: batch.batch_size]].all()
            assert own[batch.n_id.numpy()[batch.edge_index[1].numpy()]].all()
    assert graph.nodes == NODES


def test_order_epochs_and_the_rest_of_a_batch(place: tuple[Graph, Path, Path]) -> None:
    _, five, _ = place
    chosen = [5, 3, 9, 1, 60]
    loader = NeighborLoader(five, [1], batch_size=2, input_nodes=chosen, team=Team(), prefetch=0)
    assert [batch.n_id[: batch.batch_size].tolist() for batch in loader] == [[5, 3], [9, 1], [60]]
    short = NeighborLoader(five, [1], batch_size=2, input_nodes=chosen, drop_last=True, team=Team())
    assert (len(short), len(list(short))) == (2, 2)
    mixed = NeighborLoader(five, [1], batch_size=5, input_nodes=chosen, shuffle=True, team=Team())
    first, second = ([batch.input_id.tolist() for batch in mixed] for _ in range(2))
    assert first != second
    mixed.set_epoch(1)
    assert [batch.input_id.tolist() for batch in mixed] == first
    by_mask = NeighborLoader(five, [1], batch_size=61, input_nodes=torch.arange(NODES) < 4, team=Team())
    assert next(iter(by_mask)).n_id[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_nodes": "trian"}, "no mask 'trian'"),
        ({"input_nodes": [1, 1]}, "every node once"),
        ({"input_nodes": [61]}, r"in \[0, 61\)"),
        ({"input_nodes": np.zeros(60, bool)}, "mask of 61 nodes"),
        ({"input_nodes": []}, "nodes to start from"),
        ({"batch_size": 0}, "at least one seed"),
        ({"fanouts": [0]}, "at least 1"),
        ({"fanouts": {"a": [1]}}, "by edge type"),
        ({"fanouts": 10}, r"in each hop, such as \[15, 10\], got 10"),
        ({"fanouts": []}, "in each hop"),
        ({"fanouts": None}, "in each hop"),
        ({"num_neighbors": [3]}, "both fanouts and num_neighbors"),
        ({"num_workers": 2}, "num_workers.*prepared by a thread.*prefetch"),
        ({"weight_attr": "w"}, "takes no 'weight_attr'"),
        ({"batchsize": 2}, "Did you mean 'batch_size'"),
        ({"parts": Team()}, r"path of a parts directory, got a Team\. Write it once with starling\.from_pyg"),
    ],
)
def test_wrong_input_is_refused(place: tuple[Graph, Path, Path], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NeighborLoader(**{"parts": place[1], "fanouts": [2], "batch_size": 4, "team": Team(), **changes})


def test_fanouts_by_pygs_name(place: tuple[Graph, Path, Path]) -> None:
    ours, pygs = (
        NeighborLoader(place[1], **{name: [3, 2]}, batch_size=8, team=Team()) for name in ("fanouts", "num_neighbors")
    )
    for left, right in zip(ours, pygs, strict=True):
        assert torch.equal(left.e_id, right.e_id)


def test_a_graph_that_is_not_cut_is_refused(place: tuple[Graph, Path, Path]) -> None:
    with pytest.raises(InputError, match=r"not cut into parts yet\. Run: starling partition"):
        NeighborLoader(place[0].path, [2], team=Team())


def test_without_input_nodes_all_are_seeds(place: tuple[Graph, Path, Path]) -> None:
    (batch,) = NeighborLoader(place[1], [1], batch_size=NODES, input_nodes=None, team=Team())
    assert batch.n_id[:NODES].tolist() == list(range(NODES))


def test_a_rank_without_a_seed_of_its_own(place: tuple[Graph, Path, Path]) -> None:
    _, five, _ = place
    found = on_hosts([0, 0, 0], lambda team: list(NeighborLoader(five, [1], input_nodes=[7], pad=True, team=team)))
    assert [[batch.n_id[0].item() for batch in batches] for batches in found] == [[7], [7], [7]]
    with pytest.raises(InputError, match="owns none of the input nodes"):
        run_threads(2, lambda team: NeighborLoader(five, [1], input_nodes=[7], pad=True, local_only=True, team=team))


def test_seeds_are_filled_up_where_they_are_shuffled(place: tuple[Graph, Path, Path]) -> None:
    """By default: in training, where ranks meet in every step, and not where nodes are scored, each once."""
    _, five, _ = place

    def count(shuffle: bool, team: Team) -> int:
        return len(list(NeighborLoader(five, [1], input_nodes=[7], shuffle=shuffle, team=team)))

    assert on_hosts([0, 0, 1], partial(count, True)) == [1, 1, 1]
    assert sorted(on_hosts([0, 0, 1], partial(count, False))) == [0, 0, 1]


def test_alone_without_torchrun(place: tuple[Graph, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    graph, five, _ = place
    loader = NeighborLoader(str(five), [2, 1], batch_size=100, input_nodes="test")
    (batch,) = loader
    check_batch(graph, batch, [2, 1], np.flatnonzero(np.asarray(graph.node_table("test"))))


SCRIPT = ROOT / "examples" / "pyg" / "sage_starling.py"


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def check_told(told: str) -> None:
    losses = [float(line.split()[-1]) for line in told.splitlines() if line.startswith("epoch")]
    assert len(losses) == 8
    assert losses[-1] < losses[0] * 0.8
    assert float(told.split()[-1]) > 0.5, "one in three by chance"


def test_the_example_runs_at_one_rank(
    place: tuple[Graph, Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(place[1]), "--classes", "3", "--epochs", "8"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    check_told(capsys.readouterr().out)


def torchrun(script: Path, *words: str) -> str:
    """What two processes of a script print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
    done = subprocess.run(
        [*command, str(script), *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "STARLING_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_example_runs_under_torchrun(place: tuple[Graph, Path, Path]) -> None:
    check_told(torchrun(SCRIPT, str(place[1]), "--classes", "3", "--epochs", "8"))


def test_the_example_differs_from_pygs_in_three_lines() -> None:
    before, after = (
        [line for line in (ROOT / "examples" / "pyg" / name).read_text().splitlines() if line and not line.startswith('"""')]
        for name in ("sage_pyg.py", "sage_starling.py")
    )
    assert len(set(before) - set(after)) == len(set(after) - set(before)) == 3
