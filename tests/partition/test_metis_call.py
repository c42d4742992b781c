"""METIS is never passed over: no odd graph makes it give up, and where it does, every caller says so and stops."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymetis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starling.cli.main import run
from starling.core.errors import StarlingError
from starling.partition.adjacency import read_adjacency
from starling.partition.contract import PartitionTask
from starling.partition.flock import Flock
from starling.partition.metis_call import cut_by_metis
from starling.partition.registry import make_method
from starling.stream.edges import EdgesInMemory
from tests.support.tiny import clique, streams, undirected

RING_OF_CLIQUES = undirected(
    [pair for k in range(12) for pair in [*clique(*range(8 * k, 8 * k + 8)), (8 * k, (8 * k + 8) % 96)]], 96
)


@settings(deadline=None, max_examples=150)
@given(
    edges=streams(),
    parts=st.integers(1, 40),
    weights=st.sampled_from(["none", "nothing", "one heavy"]),
    recursive=st.booleans(),
    imbalance=st.sampled_from([0.0, 0.03, 1e6]),
)
def test_no_odd_graph_makes_metis_give_up(
    edges: EdgesInMemory, parts: int, weights: str, recursive: bool, imbalance: float
) -> None:
    """Without edges, torn apart, more parts than nodes, nodes that weigh nothing or everything."""
    graph = read_adjacency(PartitionTask(edges, 2))
    heavy = np.where(np.arange(edges.nodes) == 0, 10**9, 1)
    weight = {"none": None, "nothing": np.zeros(edges.nodes, np.int64), "one heavy": heavy}[weights]
    given_weights = {"node_weight": weight, "imbalance": imbalance, "recursive": recursive}
    part = cut_by_metis(parts, graph.start, graph.neighbour, what="it", instead="stop", seed=0, **given_weights)
    assert part.shape == (edges.nodes,)
    assert 0 <= part.min() <= part.max() < parts


WITHOUT_MEMORY = """
import resource
import numpy as np
from starling.core.errors import StarlingError
from starling.partition.metis_call import cut_by_metis

n = 20_000
pairs = np.random.default_rng(0).integers(0, n, (8 * n, 2))
keys = np.unique(np.concatenate([pairs[:, 0] * n + pairs[:, 1], pairs[:, 1] * n + pairs[:, 0]]))
start, neighbour = np.searchsorted(keys, np.arange(n + 1) * n), keys % n
cut_by_metis(2, np.array([0, 1, 2]), np.array([1, 0]), what="a pair", instead="stop", seed=0)
with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 6_000_000,) * 2)
try:
    cut_by_metis(4, start, neighbour, what="the flock graph", instead="lower --memory", seed=0)
except StarlingError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to set a limit just above what is held")
def test_a_metis_without_memory_says_so_in_one_sentence() -> None:
    child = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, check=True)
    assert child.stdout.startswith("METIS gave up on cutting the flock graph (20,000 nodes and 15")
    assert child.stdout.endswith("what it printed is above. Free some, or lower --memory.\n")
    assert "Memory allocation failed" in child.stderr


def gives_up(error: type[Exception], at: int = 0) -> Callable[..., object]:
    """A METIS that fails at one call, counted from 0, and works otherwise."""
    calls, real = [0], pymetis.part_graph

    def part_graph(*given: object, **named: object) -> object:
        calls[0] += 1
        if calls[0] == at + 1:
            raise error("METIS_PartGraphKway failed")
        return real(*given, **named)  # type: ignore[arg-type]

    return part_graph


@pytest.mark.parametrize("error", [RuntimeError, MemoryError])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_flock_stops_when_metis_gives_up_with_any_of_its_seeds(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], at: int
) -> None:
    monkeypatch.setattr(pymetis, "part_graph", gives_up(error, at))
    with pytest.raises(StarlingError, match=r"METIS gave up on cutting the flock graph .* into 2 parts"):
        Flock(Flock.Settings(tries=5)).assign(PartitionTask(RING_OF_CLIQUES, 2))


def test_the_seeds_of_flock_all_differ_for_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    """METIS draws the same numbers with the seeds 0 and 1, so neither flock's first try nor any other may have seed 0."""
    seeds, real = [], pymetis.part_graph

    def part_graph(*given: object, **named: object) -> object:
        seeds.append(named["options"].seed)  # type: ignore[attr-defined]
        return real(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(pymetis, "part_graph", part_graph)
    Flock(Flock.Settings(tries=3)).assign(PartitionTask(RING_OF_CLIQUES, 2, seed=0))
    Flock(Flock.Settings(tries=3)).assign(PartitionTask(RING_OF_CLIQUES, 2, seed=1))
    assert seeds == [1, 2, 3, 4, 5, 6]


def test_metis_as_a_method_says_it_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymetis, "part_graph", gives_up(RuntimeError))
    with pytest.raises(StarlingError, match=r"METIS gave up on cutting the graph .* or take --method flock"):
        make_method("metis").assign(PartitionTask(RING_OF_CLIQUES, 2))


@pytest.mark.parametrize("at", [0, 1], ids=["first part", "second part"])
def test_sub_parts_that_metis_gives_up_on_end_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    sizes = ["--nodes", "400", "--edges", "3000", "--features", "0", "--seed", "7"]
    assert run(["generate", "dcsbm", *sizes, "-o", str(tmp_path / "graph")]) == 0
    capsys.readouterr()
    monkeypatch.setattr(pymetis, "part_graph", gives_up(RuntimeError, at))
    flags = ["-p", "2", "--sub-parts", "2", "--method", "hash", "-o", str(tmp_path / "parts"), "--quiet"]
    assert run(["partition", str(tmp_path / "graph"), *flags]) == 1
    said = capsys.readouterr().err
    assert said.startswith("starling: METIS gave up on cutting the inside of a part (")
    assert said.endswith("or leave out --sub-parts.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
