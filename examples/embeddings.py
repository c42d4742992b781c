"""Nodes without features, from Python: python examples/embeddings.py FOLDER [RUN]

Users like what their group likes, and the groups of all users and items are learnt from those of one node in five. There are no
features: every node gets a row of numbers that is learnt, and lives with the worker that owns the node. Files are written here so
that there is something to import.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import starling
from starling.cli.main import run as starling_command

USERS, ITEMS, GROUPS, LIKES = 800, 200, 4, 10


def write_files(folder: Path) -> None:
    """Users, then items; four likes in five are of the user's own group."""
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    group = draw.integers(0, GROUPS, USERS + ITEMS)
    favourites = [USERS + np.flatnonzero(group[USERS:] == kind) for kind in range(GROUPS)]
    user = np.repeat(np.arange(USERS), LIKES)
    item = [draw.choice(favourites[group[u]]) if draw.random() < 0.8 else draw.integers(USERS, USERS + ITEMS) for u in user]
    np.save(folder / "likes.npy", np.stack([user, item], 1))
    np.save(folder / "groups.npy", group)


def main(folder: Path, run: str) -> None:
    write_files(folder)
    graph = str(folder / "graph")
    given = ["--undirected", "--labels", str(folder / "groups.npy"), "--split", "20/20/60", "--quiet"]
    assert starling_command(["import", str(folder / "likes.npy"), *given, "-o", graph]) == 0
    result = starling.Trainer(
        {
            "data": {"path": graph},
            "model": {"name": "sage", "hidden": 16},
            "strategy": {"name": "mini", "batch_size": 50, "fanouts": [10, 10]},
            "embedding": {"dim": 16, "optimizer": "adagrad", "lr": 0.1},
            "run": {"epochs": 6, "seed": 1},
        },
        run=run,
    ).fit()
    rows = np.load(Path(run) / "embeddings" / "rows.npy")
    print(f"{result.scores.test:.0%} of the other groups found, by rows of {rows.shape[1]} numbers for {len(rows):,} nodes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "runs/embeddings")
