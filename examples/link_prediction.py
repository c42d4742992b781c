"""Link prediction from Python: python examples/link_prediction.py GRAPH [RUN]"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import starling
from starling.train.prediction import PredictRequest, predict


def main(graph: str, run: str) -> None:
    result = starling.Trainer(
        {
            "data": {"path": graph},
            "task": {"name": "link", "metric": "auc"},
            "link": {"split_edges": "90/5/5", "negatives": "pairs", "decoder": "mlp"},
            "model": {"name": "sage", "hidden": 32},
            "strategy": {"name": "mini", "batch_size": 2048, "fanouts": [10, 5]},
            "run": {"epochs": 8, "seed": 1, "evaluate_every": 2},
        },
        run=run,
    ).fit()
    print(f"{result.metric} of the held-out edges: {result.scores.test:.3f}, in epoch {result.best_epoch} of {result.epochs}")

    # How likely are these links? Any two nodes may be asked for, under your own ids.
    pairs, scored = Path(f"{run}-pairs.csv"), Path(f"{run}-scores.npy")
    pairs.write_text("source,destination\n0,1\n0,2\n7,7\n")
    predict(PredictRequest(Path(run), scored, pairs=pairs, force=True))
    print("scores of three pairs:", ", ".join(f"{score:.2f}" for score in np.load(scored)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "runs/links")
