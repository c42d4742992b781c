"""Training from Python: python examples/train.py GRAPH [RUN]"""

from __future__ import annotations

import sys
from pathlib import Path

import starling


def main(graph: str, run: str) -> None:
    result = starling.Trainer(
        {
            "data": {"path": graph},
            "model": {"name": "sage", "hidden": 64, "dropout": 0.2},
            "strategy": {"name": "mini", "batch_size": 200, "fanouts": [10, 5]},
            "optimizer": {"lr": 0.01},
            "run": {"epochs": 10, "seed": 1},
        },
        run=run,
    ).fit()
    print(f"{result.metric} of the test nodes: {result.scores.test:.3f}, in epoch {result.best_epoch} of {result.epochs}")

    # Any of it again: the run's own settings, with another seed.
    config = starling.RunConfig.read(Path(run) / "config.toml")
    again = config.model_copy(update={"run": config.run.model_copy(update={"seed": 2})})
    other = starling.Trainer(again, run=f"{run}-again").fit()
    print(f"with another seed: {other.scores.test:.3f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "runs/from-python")
