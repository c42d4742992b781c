"""The peers' scripts that ``--peers DIR`` points to, and their graphs as Starling's.

DIR holds graph.py, which makes a graph directory (edges, x, y, train, val and test as .npy files), and distdgl_run, which trains on
one with DistDGL and finds its environment beside itself.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from command import printed, printed_lines, starling
from kept_lines import Line


def block_model(peers: Path, place: Path, **size: int) -> Path:
    """A graph directory made by graph.py, with `size` as its options."""
    printed(sys.executable, peers / "graph.py", "make", place, *(f"--{name}={value}" for name, value in size.items()))
    return place


def imported(graph: Path, place: Path, train: int) -> Path:
    """The peers' graph as a graph directory of Starling, with at most `train` of its training nodes, for short epochs."""
    y, able = np.load(graph / "y.npy"), np.flatnonzero(np.load(graph / "train.npy"))
    mask = np.isin(np.arange(len(y)), np.random.default_rng(0).permutation(able)[:train])
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        npz = Path(scratch) / "graph.npz"
        tables = {"x": np.load(graph / "x.npy"), "y": y, "train_mask": mask, "test_mask": ~mask}
        np.savez(npz, edge_index=np.load(graph / "edges.npy").T, num_nodes=len(y), **tables)
        starling("import", npz, "-o", place)
    return place


def distdgl_lines(peers: Path, graph: Path, workers: int, *flags: object) -> list[Line]:
    """What distdgl_run measures with as many parts as workers, each of one thread."""
    with tempfile.TemporaryDirectory() as folder:
        team = ("--parts", workers, "--trainers", workers, "--threads", 1)
        return printed_lines(peers / "distdgl_run", graph, *team, *flags, "--work", folder)
