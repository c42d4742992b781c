"""Batches of graphs with node types: what PyG's HeteroData promises, on any number of ranks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import starling
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.loader import NeighborLoader
from tests.engine.data.cases import machines, on_hosts
from tests.engine.hybrid.runs import cut
from tests.loader.test_neighbor_loader import torchrun

pytest.importorskip("torch_geometric")


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Authors who write papers that cite papers, only papers labelled; cut into three parts."""
    from torch_geometric.data import HeteroData

    folder, draw = tmp_path_factory.mktemp("typed"), torch.Generator().manual_seed(3)
    data = HeteroData()
    data["author"].x = torch.rand(14, 2, generator=draw)
    data["paper"].x = torch.rand(23, 5, generator=draw)
    data["paper"].y = torch.randint(0, 3, (23,), generator=draw)
    data["paper"].train_mask = torch.arange(23) % 2 == 0
    for triple, count in (
        (("author", "writes", "paper"), 60),
        (("paper", "cites", "paper"), 80),
        (("paper", "by", "author"), 50),
    ):
        ends = [torch.randint(0, data[kind].num_nodes, (4 * count,), generator=draw) for kind in (triple[0], triple[2])]
        data[triple].edge_index = torch.unique(torch.stack(ends), dim=1)[:, :count]
        data[triple].edge_attr = torch.rand(data[triple].edge_index.shape[1], 2, generator=draw)
    graph = starling.from_pyg(data, folder / "g")
    return data, cut(graph, folder / "cut", 3, np.random.default_rng(0).integers(0, 3, graph.nodes))


def check_typed(data: Any, batch: Any, fanouts: dict[Any, list[int]]) -> None:
    names = {kind: batch[kind].n_id for kind in ("author", "paper")}
    for kind, ids in names.items():
        assert len(torch.unique(ids)) == len(ids)
        assert torch.equal(batch[kind].x, data[kind].x[ids])
    assert torch.equal(batch["paper"].y, data["paper"].y[names["paper"]])
    assert "y" not in batch["author"]
    assert set(batch.edge_types) == set(data.edge_types)
    for triple in data.edge_types:
        whole, found = data[triple].edge_index, batch[triple].edge_index
        pairs = torch.stack([names[triple[0]][found[0]], names[triple[2]][found[1]]])
        place = {pair: number for number, pair in enumerate(map(tuple, whole.T.tolist()))}
        numbers = [place[pair] for pair in map(tuple, pairs.T.tolist())]
        assert len(set(numbers)) == len(numbers)
        assert torch.equal(batch[triple].edge_attr, data[triple].edge_attr[numbers])
        degree = torch.bincount(whole[1], minlength=data[triple[2]].num_nodes)
        taken = torch.bincount(found[1], minlength=len(names[triple[2]]))
        most = degree[names[triple[2]]]
        first, second = (most if fanout == -1 else most.clamp(max=fanout) for fanout in fanouts[triple])
        size = batch[triple[2]].get("batch_size", 0)
        assert torch.equal(taken[:size], first[:size]), "seeds take the first number"
        for count, one, other in zip(taken[size:].tolist(), second[size:].tolist(), first[size:].tolist(), strict=True):
            assert count in (one, 0), f"others the second, or none if they are of the last hop ({other})"


@pytest.mark.parametrize("given", ["one list", "by type"])
def test_a_typed_batch_is_what_pyg_gives(typed: tuple[Any, Path], given: str) -> None:
    data, path = typed
    by_type = {triple: [2, 1] for triple in data.edge_types}
    if given == "by type":
        by_type["paper", "cites", "paper"] = [-1, 3]
    chosen = data["paper"].train_mask
    loader = NeighborLoader(
        path, [2, 1] if given == "one list" else by_type, 5, input_nodes=("paper", chosen), shuffle=True, team=Team()
    )
    seen = []
    for batch in loader:
        check_typed(data, batch, by_type)
        size = batch["paper"].batch_size
        wanted = torch.nonzero(chosen).flatten()[batch["paper"].input_id]
        assert torch.equal(batch["paper"].n_id[:size], wanted)
        seen.append(wanted)
    assert torch.equal(torch.cat(seen).sort().values, torch.nonzero(chosen).flatten())


def test_where_typed_batches_start(typed: tuple[Any, Path]) -> None:
    data, path = typed
    by_name = next(iter(NeighborLoader(path, [1], 99, input_nodes="train", team=Team())))
    assert by_name["paper"].batch_size == int(data["paper"].train_mask.sum())
    authors = next(iter(NeighborLoader(path, [1], 99, input_nodes="author", team=Team())))
    assert authors["author"].n_id[:14].tolist() == list(range(14))
    for wrong, message in (
        ("venue", "no mask 'venue'"),
        (("venue", [0]), "no node type 'venue'"),
        (("paper", [23]), r"\[0, 23\)"),
    ):
        with pytest.raises(InputError, match=message):
            NeighborLoader(path, [1], input_nodes=wrong, team=Team())
    with pytest.raises(InputError, match="as many fan-outs"):
        NeighborLoader(path, {"*": [1, 1], "writes": [1]}, input_nodes="paper", team=Team())


def test_typed_ranks_without_padding(typed: tuple[Any, Path]) -> None:
    """Nine seeds of two ranks in batches of four: one rank has two batches, the other one."""
    data, path = typed
    chosen = torch.arange(9)

    def load(team: Team) -> list[Any]:
        return list(NeighborLoader(path, [2, 2], 4, input_nodes=("paper", chosen), pad=False, team=team))

    found = on_hosts([0, 1], load)
    assert sorted(map(len, found)) == [1, 2]
    seeds = [batch["paper"].n_id[: batch["paper"].batch_size] for batches in found for batch in batches]
    assert torch.equal(torch.cat(seeds).sort().values, chosen)
    for batch in (batch for batches in found for batch in batches):
        assert torch.equal(batch["paper"].x, data["paper"].x[batch["paper"].n_id])


def test_typed_ranks_share_the_seeds(typed: tuple[Any, Path]) -> None:
    data, path = typed
    found = on_hosts([0, 1], lambda team: list(NeighborLoader(path, [2, 2], 4, input_nodes="train", team=team)))
    assert len(found[0]) == len(found[1])
    for batches in found:
        for batch in batches:
            assert torch.equal(batch["paper"].x, data["paper"].x[batch["paper"].n_id])


@pytest.mark.parametrize("start", ["train", "author", ("paper", [3, 1, 22, 8])], ids=str)
def test_a_host_of_typed_ranks_needs_their_shards_alone(typed: tuple[Any, Path], tmp_path: Path, start: Any) -> None:
    data, path = typed
    copies = machines(path, tmp_path, [0, 1])

    def load(own: bool, team: Team) -> list[Any]:
        fanouts = {("paper", "cites", "paper"): [-1, 2], "*": [2, 1]}
        return list(NeighborLoader(copies[team.rank] if own else path, fanouts, 4, input_nodes=start, team=team))

    for ours, everything in zip(on_hosts([0, 1], partial(load, True)), on_hosts([0, 1], partial(load, False)), strict=True):
        for left, right in zip(ours, everything, strict=True):
            assert left.edge_types == right.edge_types == list(data.edge_types)
            assert all(torch.equal(left[kind].n_id, right[kind].n_id) for kind in ("author", "paper"))
            assert all(torch.equal(left[triple].edge_attr, right[triple].edge_attr) for triple in data.edge_types)
            check_typed(data, left, {triple: [-1, 2] if triple[1] == "cites" else [2, 1] for triple in data.edge_types})


SCRIPT = """
import sys

import torch
import torch.distributed as dist

from starling.loader import NeighborLoader

parts, folder = sys.argv[1:]
dist.init_process_group("gloo")
train = NeighborLoader(parts, [2, 1], 4, input_nodes="train", shuffle=True)
test = NeighborLoader(parts, [2, 1], 4, input_nodes=("paper", torch.arange(9)))
seen = []
for epoch in range(2):
    for batch in train:
        dist.all_reduce(torch.ones(1))  # as DDP's backward pass would: every rank must have as many batches
        seen.append(batch.to_dict())
seen += [batch.to_dict() for batch in test]
torch.save(seen, f"{folder}/{dist.get_rank()}.pt")
dist.barrier()
dist.destroy_process_group()
"""


def test_typed_batches_under_torchrun(typed: tuple[Any, Path], tmp_path: Path) -> None:
    """Two processes get what two ranks of one process get, epoch by epoch, beside collectives of the script's own."""
    from torch_geometric.data import HeteroData

    data, path = typed
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun(tmp_path / "script.py", str(path), str(tmp_path))

    def load(team: Team) -> list[Any]:
        train = NeighborLoader(path, [2, 1], 4, input_nodes="train", shuffle=True, team=team)
        test = NeighborLoader(path, [2, 1], 4, input_nodes=("paper", torch.arange(9)), team=team)
        return [batch for loader in (train, train, test) for batch in loader]

    tested: list[int] = []
    for rank, expected in enumerate(on_hosts([0, 0], load)):
        found = [HeteroData.from_dict(kept) for kept in torch.load(tmp_path / f"{rank}.pt", weights_only=True)]
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            check_typed(data, mine, {triple: [2, 1] for triple in data.edge_types})
            assert all(torch.equal(mine[kind].n_id, theirs[kind].n_id) for kind in data.node_types)
            assert all(torch.equal(mine[triple].edge_index, theirs[triple].edge_index) for triple in data.edge_types)
        for batch in found[4:]:  # of twelve training papers each rank has six in each epoch, two batches
            tested += batch["paper"].n_id[: batch["paper"].batch_size].tolist()
    assert sorted(tested) == list(range(9))
