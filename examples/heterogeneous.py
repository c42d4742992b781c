"""A graph with node and edge types from plain files: python examples/heterogeneous.py FOLDER [RUN]

Authors have 4 features, papers 6, venues none; papers are to be told apart by topic. Files are written here so that there is
something to import; with files of your own, begin at `import_graph`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import starling
from starling.cli.main import run as starling_command

AUTHORS, PAPERS, VENUES, TOPICS = 120, 300, 6, 3


def write_files(folder: Path) -> None:
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    topic = draw.integers(0, TOPICS, PAPERS)
    favourite = draw.integers(0, TOPICS, AUTHORS)
    lines = ["source,destination,type"]
    for paper in range(PAPERS):
        same = np.flatnonzero(favourite == topic[paper])
        for author in draw.choice(same if draw.random() < 0.8 else AUTHORS, 2):
            lines.append(f"author{author},paper{paper},writes")
        lines.append(f"paper{paper},venue{topic[paper] if draw.random() < 0.7 else draw.integers(0, VENUES)},in")
        lines.append(f"paper{paper},paper{draw.choice(np.flatnonzero(topic == topic[paper]))},cites")
    (folder / "edges.csv").write_text("\n".join(lines) + "\n")
    table = ["id,type,label,split"]
    table += [f"author{number},author,," for number in range(AUTHORS)]
    splits = draw.choice(["train", "val", "test"], PAPERS, p=[0.5, 0.2, 0.3])
    table += [f"paper{number},paper,topic{topic[number]},{splits[number]}" for number in range(PAPERS)]
    table += [f"venue{number},venue,," for number in range(VENUES)]
    (folder / "nodes.csv").write_text("\n".join(table) + "\n")
    np.save(folder / "authors.npy", draw.normal(size=(AUTHORS, 4)).astype(np.float32))
    np.save(folder / "papers.npy", (draw.normal(size=(PAPERS, 6)) + 0.3 * topic[:, None]).astype(np.float32))


def import_graph(folder: Path) -> Path:
    """`--inverse` lets messages go against relations too, by relations of their own: papers hear from their venues."""
    graph = folder / "graph"
    command = ["import", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--inverse", "--quiet"]
    command += ["--features", f"author={folder / 'authors.npy'}", "--features", f"paper={folder / 'papers.npy'}"]
    assert starling_command([*command, "-o", str(graph)]) == 0
    return graph


def main(folder: Path, run: str) -> None:
    write_files(folder)
    graph = import_graph(folder)
    for name, model in {
        "a matrix for each relation": {"name": "rgcn"},
        "attention over all relations": {"name": "rgat", "heads": 2},
        "GraphSAGE once for each relation": {"name": "sage", "relational": True},
    }.items():
        result = starling.Trainer(
            {
                "data": {"path": str(graph)},
                "model": {"hidden": 16, "dropout": 0.2, **model},
                "embedding": {"dim": 8},
                "strategy": {"name": "mini", "batch_size": 75, "fanouts": {"writes": [5, 5], "*": [10, 5]}},
                "run": {"epochs": 6, "seed": 1},
            },
            run=f"{run}-{model['name']}",
        ).fit()
        print(f"{name}: {result.metric} of the test papers {result.scores.test:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "runs/typed")
