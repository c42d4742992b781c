"""The text files that KaMinPar and Mt-KaHyPar read; their Python packages take graphs in no better way."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starling.partition.adjacency import Adjacency

_NODES_AT_ONCE = 10_000


@contextmanager
def graph_file(graph: Adjacency, load: NDArray[np.integer] | None, scratch: Path | None) -> Iterator[Path]:
    """A file in METIS format: a line a node with its load, if any, and its neighbours, counted from 1."""
    header = f"{graph.nodes} {len(graph.neighbour) // 2}" + (" 10" if load is not None else "")
    with _file_of(header, scratch) as path:
        with path.open("a") as file:
            for first, lists in _lists(graph):
                lead = [] if load is None else load[first : first + len(lists)].tolist()
                file.writelines(f"{lead[i]} {line}\n" if lead else f"{line}\n" for i, line in enumerate(lists))
        yield path


@contextmanager
def nets_file(graph: Adjacency, load: NDArray[np.integer] | None, scratch: Path | None) -> Iterator[Path]:
    """A file in hMETIS format: a net for each node, the node and its neighbours, counted from 1; then the loads, if any.

    A net that touches λ parts means λ copies of its node, so connectivity (Σ λ − 1) is exactly the number of halo rows.
    """
    header = f"{graph.nodes} {graph.nodes}" + (" 10" if load is not None else "")
    with _file_of(header, scratch) as path:
        with path.open("a") as file:
            for first, lists in _lists(graph):
                file.writelines(f"{first + i + 1} {line}\n" for i, line in enumerate(lists))
            if load is not None:
                file.writelines(f"{weight}\n" for weight in load.tolist())
        yield path


@contextmanager
def _file_of(header: str, scratch: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="starling-", dir=scratch) as folder:
        path = Path(folder) / "graph"
        path.write_text(header + "\n")
        yield path


def _lists(graph: Adjacency) -> Iterator[tuple[int, list[str]]]:
    """Neighbour lists as text, some thousands of nodes at a time, with the number of the first of them."""
    for first in range(0, graph.nodes, _NODES_AT_ONCE):
        bounds = graph.start[first : first + _NODES_AT_ONCE + 1]
        words = list(map(str, (graph.neighbour[bounds[0] : bounds[-1]] + 1).tolist()))
        ends = (bounds - bounds[0]).tolist()
        yield first, [" ".join(words[a:b]) for a, b in itertools.pairwise(ends)]
