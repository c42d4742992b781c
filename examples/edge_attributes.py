"""Ratings with a sign and a time as edge attributes: python examples/edge_attributes.py FOLDER [RUN]

Who is a cheat shows only in what others say of them, not in who says it: GAT-E reads the ratings, GAT does not. Then the same with
nothing but the past: each trader is judged by ratings that were given before their own time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import starling
from starling.cli.main import run as starling_command

TRADERS, RATINGS = 300, 3000


def write_files(folder: Path) -> None:
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    cheats = draw.random(TRADERS) < 0.5
    lines = ["source,destination,rating,amount,time"]
    for time in range(RATINGS):
        source, destination = draw.integers(0, TRADERS, 2)
        rating = draw.normal(-0.5 if cheats[destination] else 0.5, 0.7)
        lines.append(f"{source},{destination},{rating:.3f},{draw.exponential():.3f},{time}")
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    table = ["id,label,split,time,size"]
    for trader in range(TRADERS):
        split = ("train", "train", "val", "test")[trader % 4]
        table.append(f"{trader},{'cheat' if cheats[trader] else 'honest'},{split},{RATINGS - trader},{draw.normal():.3f}")
    (folder / "traders.csv").write_text("\n".join(table) + "\n")


def main(folder: Path, run: str) -> None:
    write_files(folder)
    graph = folder / "graph"
    command = ["import", str(folder / "ratings.csv"), "--nodes", str(folder / "traders.csv"), "--directed", "--quiet"]
    assert starling_command([*command, "-o", str(graph)]) == 0
    for name, model, strategy in (
        ("GAT", "gat", {"name": "global"}),
        ("GAT-E", "gate", {"name": "global"}),
        ("GAT-E and nothing but the past", "gate", {"name": "mini", "past": True, "fanouts": [10]}),
    ):
        result = starling.Trainer(
            {
                "data": {"path": str(graph)},
                "model": {"name": model, "hidden": 16, "heads": 2, "layers": 1},
                "strategy": strategy,
                "optimizer": {"lr": 0.05},
                "run": {"epochs": 40, "seed": 1, "evaluate_every": 4},
            },
            run=f"{run}-{name.lower().replace(' ', '-')}",
        ).fit()
        print(f"{name}: {result.metric} of the test traders {result.scores.test:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "runs/ratings")
