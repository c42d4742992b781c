"""Starling's side of bench/train_speed.py: epochs, inference, sampling and sampled training on one graph. JSON lines out.

    python bench/train_speed_starling.py GRAPH [--models sage,gcn,gat] [--measures full,inference,sampling,training,limits]
           [--layers 2] [--hidden 128] [--no-reuse] [--order ORDER.npy] [--weights DIR]

GRAPH holds edges, x, y, train and test as .npy files. Models, steps and fields are those of the peers' scripts, and with --weights
(the folder of their weights.py) the initial weights too, so that losses can be compared digit by digit. --order gives, for each new
row, the node that stands there: nodes renumbered so that neighbours lie together, as they do in the shards of `starling partition`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import starling.nn  # noqa: F401  (asks for huge pages before torch is loaded)

import numpy as np  # isort: skip
import torch  # isort: skip
from torch.nn.functional import cross_entropy  # isort: skip
from torch.optim import Adam  # isort: skip

from starling.core.allocator import release_freed_memory  # isort: skip
from starling.engine.features import DenseFeatures  # isort: skip
from starling.engine.fill import FilledBatch, Filler  # isort: skip
from starling.engine.source import GraphSource  # isort: skip
from starling.infer.layerwise import Inference  # isort: skip
from starling.kernels.csr import csr_from_pairs  # isort: skip
from starling.nn.registry import ModelSpec, build_model  # isort: skip
from starling.nn.view import View  # isort: skip
from starling.plan.background import Background  # isort: skip
from starling.plan.registry import make_strategy  # isort: skip
from starling.plan.source import NeighbourSource  # isort: skip
from starling.plan.strategy import Strategy  # isort: skip

HEADS = 4
OWN_NAMES = {"self": "own"}
"""Weights that Starling's layers name differently."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", default="sage,gcn,gat")
    parser.add_argument("--measures", default="full,inference,sampling,training")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5, help="timed, after one that is not")
    parser.add_argument("--fanouts", default="25,10", help="from the targets outward")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--inference-memory", type=int, default=400 << 20, help="budget of layer-wise inference")
    parser.add_argument("--no-reuse", action="store_true", help="aggregate the input features in every epoch")
    parser.add_argument("--order", type=Path)
    parser.add_argument("--weights", type=Path, help="the folder of weights.py")
    return parser.parse_args()


def read(args: argparse.Namespace) -> GraphSource:
    """The graph as a step reads it, renumbered where an order is given."""
    arrays = {name: np.load(args.graph / f"{name}.npy") for name in ("x", "y", "train", "test")}
    pairs = np.load(args.graph / "edges.npy").astype(np.int32)
    if args.order is not None:
        order = np.load(args.order)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        pairs = place[pairs]
        arrays = {name: array[order] for name, array in arrays.items()}
    x = torch.empty(arrays["x"].shape)  # torch's memory has huge pages
    x.copy_(torch.from_numpy(arrays["x"]))
    incoming = csr_from_pairs(pairs, len(x))
    source = GraphSource(
        args.graph,
        replace(incoming, edge=incoming.edge[:0].copy()),  # as the trainer does where no table of edges is read
        DenseFeatures(x.numpy()),
        None,
        arrays["y"],
        {name: np.flatnonzero(arrays[name]) for name in ("train", "test")},
        {},
        0,
        False,
        None,  # type: ignore[arg-type]  # names of nodes; nobody asks for them here
    )
    del pairs, incoming
    release_freed_memory()  # what reading left behind is not the epoch's
    return source


class Bench:
    """One graph and a method for each measure."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.source = args, read(args)
        self.classes = int(self.source.y.max()) + 1 if self.source.y is not None else 0
        self.constants = self.source.constants(keep=not args.no_reuse)

    def line(self, measure: str, **fields: object) -> None:
        shared = {"peer": "starling", "threads": self.args.threads, "hidden": self.args.hidden}
        how = {"reuse": not self.args.no_reuse, "order": "as imported" if self.args.order is None else "community"}
        print(json.dumps({"measure": measure, **shared, **how, **fields}), flush=True)

    def model(self, kind: str, layers: int) -> Any:
        width, hidden = self.source.features.width, self.args.hidden
        settings = {"layers": layers, "hidden": hidden} | ({"heads": HEADS, "activation": "elu"} if kind == "gat" else {})
        model = build_model(ModelSpec(kind, width, self.classes, settings=settings), 0)
        if self.args.weights is not None:
            sys.path.insert(0, str(self.args.weights.resolve()))
            import weights  # type: ignore[import-not-found]

            given = weights.initial(kind, width, hidden, self.classes, layers, HEADS, 0)
            with torch.no_grad():
                for layer, matrices in zip(model.graph_layers, given, strict=True):  # type: ignore[arg-type]
                    for name, matrix in matrices.items():
                        getattr(layer, OWN_NAMES.get(name, name)).copy_(torch.from_numpy(matrix))
        return model

    def whole_graph(self, kind: str, measures: list[str]) -> None:
        """Full-graph epochs and, with the model they trained, exact inference."""
        model, x = self.model(kind, self.args.layers), self.source.x
        view = View(self.source.whole, constants=self.constants)
        if "full" in measures:
            optimiser, train = Adam(model.parameters(), 0.01), torch.from_numpy(self.source.splits["train"])
            y = torch.from_numpy(self.source.y)[train]

            def epoch() -> float:
                optimiser.zero_grad()
                loss = cross_entropy(model(view, x)[train], y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                return loss.item()

            reset_peak()
            times, losses = repeat(epoch, self.args.epochs)
            self.line("full_epoch", model=kind, layers=self.args.layers, **spread(times), losses=losses, **peak())
        if "inference" in measures:
            model.eval()
            with torch.no_grad():
                reset_peak()
                whole, outs = repeat(lambda: model(view, x), 3)
                fields = {"whole_graph_seconds": spread(whole)["seconds"], "whole_graph_peak": peak()["peak_rss_bytes"]}
            self.inference(kind, model, outs[-1], fields)

    def inference(self, kind: str, model: Any, expected: torch.Tensor, fields: dict[str, object]) -> None:
        """All nodes layer by layer within a budget too small for the whole graph, checked against the pass over it."""
        reset_peak()
        bounded = Inference(self.source, self.args.inference_memory, reuse=False)
        times, outs = repeat(lambda: bounded.outputs(model), 1, warmup=0)
        found = torch.from_numpy(outs[-1].read(0, self.source.nodes))
        test = torch.from_numpy(self.source.splits["test"])
        right = (found[test].argmax(1) == torch.from_numpy(self.source.y)[test]).float().mean()
        self.line(
            "inference", model=kind, layers=self.args.layers, **spread(times), **fields, budget=self.args.inference_memory,
            max_difference=float((found - expected).abs().max()), test_accuracy=float(right), **peak(),
        )  # fmt: skip

    def sampled(self, measures: list[str]) -> None:
        """Neighbour sampling alone (blocks included), then SAGE training on sampled batches."""
        args, source = self.args, self.source
        neighbours = NeighbourSource(source.incoming, source.nodes)
        settings = {"fanouts": args.fanouts, "batch_size": args.batch}
        layers = len(args.fanouts.split(","))
        strategy = make_strategy("mini", settings, neighbours, source.splits["train"], layers, threads=args.threads)
        if "sampling" in measures:
            stream, edges, inputs = endless(strategy, args.batch), 0, 0
            for _ in itertools.islice(stream, 3):
                pass
            reset_peak()
            began = time.perf_counter()
            for plan in itertools.islice(stream, args.batches):
                edges += sum(len(block.neighbours) for block in plan.blocks)
                inputs += len(plan.inputs)
            seconds = time.perf_counter() - began
            self.line(
                "sampling", edges_per_s=round(edges / seconds), batches_per_s=round(args.batches / seconds, 3),
                edges_per_batch=edges // args.batches, inputs_per_batch=inputs // args.batches, **peak(),
            )  # fmt: skip
        if "training" in measures:
            self.training(strategy, layers)

    def training(self, strategy: Strategy, layers: int) -> None:
        args, model = self.args, self.model("sage", layers)
        optimiser, filler, losses = Adam(model.parameters(), 0.01), Filler(self.source), []

        def steps(batches: Iterator[FilledBatch], count: int) -> None:
            for batch in itertools.islice(batches, count):
                optimiser.zero_grad()
                loss = cross_entropy(model(batch.views, batch.x)[batch.outputs], batch.y)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.item())
                del batch, loss  # before the next is asked for, as the trainer does: one batch less in memory

        reset_peak()
        with Background((filler.fill(plan) for plan in endless(strategy, args.batch)), stage="preparing batches") as batches:
            steps(batches, 3)
            began = time.perf_counter()
            steps(batches, args.batches)
            seconds = time.perf_counter() - began
        self.line(
            "sampled_training", model="sage", layers=layers, batches_per_s=round(args.batches / seconds, 3),
            first_loss=losses[0], loss=statistics.mean(losses[-5:]), **peak(),
        )  # fmt: skip


def limits(threads: int) -> dict[str, float]:
    """What the machine can do at best of five: copy memory, and multiply 200,000 rows by small matrices (torch's library)."""
    x = torch.randn(200_000, 128)
    out = torch.empty_like(x)
    found = {"copy_gb_per_s": 2 * x.nbytes / min(repeat(lambda: out.copy_(x), 5)[0]) / 1e9}
    for width in (40, 128, 256):
        weight, result = torch.randn(128, width), torch.empty(len(x), width)
        work = 2 * len(x) * 128 * width
        found[f"product_128x{width}_gflop_per_s"] = work / min(repeat(lambda: torch.mm(x, weight, out=result), 5)[0]) / 1e9  # noqa: B023
        found[f"gradient_128x{width}_gflop_per_s"] = work / min(repeat(lambda: torch.mm(x.t(), result), 5)[0]) / 1e9  # noqa: B023
    return {"threads": threads, **{name: round(value, 1) for name, value in found.items()}}


def endless(strategy: Strategy, batch: int) -> Iterator[Any]:
    """Whole batches, epoch after epoch."""
    for epoch in itertools.count():
        yield from (plan for plan in strategy.plans(epoch) if len(plan.targets) == batch)


def repeat(work: Callable[[], Any], times: int, warmup: int = 1) -> tuple[list[float], list[Any]]:
    """Seconds of each of `times` calls after the untimed ones, and what all calls returned."""
    seconds, results = [], [work() for _ in range(warmup)]
    for _ in range(times):
        began = time.perf_counter()
        results.append(work())
        seconds.append(time.perf_counter() - began)
    return seconds, results


def spread(seconds: list[float]) -> dict[str, Any]:
    return {"seconds": round(statistics.median(seconds), 5), "all_seconds": [round(one, 5) for one in seconds]}


def reset_peak() -> None:
    """Let the peak count from now on, so that each measure reports its own (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> dict[str, int]:
    line = next(text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM"))
    return {"peak_rss_bytes": int(line.split()[1]) * 1024}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    measures = args.measures.split(",")
    if "limits" in measures:
        print(json.dumps({"measure": "limits", **limits(args.threads)}), flush=True)
    if measures == ["limits"]:
        return
    bench = Bench(args)
    if {"full", "inference"} & set(measures):
        for kind in args.models.split(","):
            bench.whole_graph(kind, measures)
    if {"sampling", "training"} & set(measures):
        bench.sampled(measures)


if __name__ == "__main__":
    main()
