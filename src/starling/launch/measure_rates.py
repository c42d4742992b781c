"""Time the operations that training is made of, in this process with its threads: the rates of a calibration (plan/calibration.py).

Every operation is the one that training calls, on data of the size it has there. A time is the lower quartile of several runs after
one to warm up, since whatever else the machine does can only make a run longer; runs are as many as fit into the time allowed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from starling.core.environment import thread_count
from starling.plan.calibration import Point, Rates

_SECONDS = {False: 0.25, True: 0.06}
"""Time for one operation, thoroughly and in a hurry."""
_LEAST, _MOST = 3, 200
_WIDTH, _DEGREE = 64, 16
_MATRICES = ((16, 8), (32, 32), (64, 64), (128, 64), (128, 128), (256, 256), (602, 256), (1433, 256))
_REACHES = (1 << 17, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28)
_STEPS = 60


def typical_seconds(work: Callable[[], object], quick: bool = False) -> float:
    """How long one call takes."""
    work()
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS[quick]
    while len(seconds) < _LEAST or (time.perf_counter() < end and len(seconds) < _MOST):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[len(seconds) // 4]


def measure_rates(quick: bool = False) -> Rates:
    """All rates of this process."""
    layer, step = _overheads(quick)
    return Rates(
        threads=thread_count(),
        **_elementwise(quick),
        beta=_products(quick),
        spmm=_sparse_products(quick),
        softmax=_attention(quick),
        **_planning(quick),
        memory_bandwidth=_bandwidth(quick),
        layer=layer,
        step=step,
    )


def _elementwise(quick: bool) -> dict[str, float]:
    """α, γ, η, λ: sums of rows, activations, scaled matrices, gradients of a loss."""
    import torch
    from torch.nn import functional

    rows, columns = 8192, _WIDTH
    a, b, out = (torch.randn(rows, columns) for _ in range(3))
    logits = torch.randn(rows, columns, requires_grad=True)
    classes = torch.randint(0, columns, (rows,))

    def loss_gradient() -> None:
        logits.grad = None
        functional.cross_entropy(logits, classes).backward()  # type: ignore[no-untyped-call]

    numbers = rows * columns
    return {
        "alpha": typical_seconds(lambda: torch.add(a, b, out=out), quick) / numbers,
        "gamma": typical_seconds(lambda: torch.clamp(a, min=0, out=out), quick) / numbers,
        "eta": typical_seconds(lambda: torch.mul(a, 0.5, out=out), quick) / numbers,
        "lam": typical_seconds(loss_gradient, quick) / numbers,
    }


def _products(quick: bool) -> tuple[Point, ...]:
    """β: a product of many rows with one matrix, by the numbers in it."""
    import torch

    points = []
    for fan_in, fan_out in _MATRICES:
        rows = min(65536, max(512, (1 << 25) // (fan_in * fan_out)))
        x, w, out = torch.randn(rows, fan_in), torch.randn(fan_in, fan_out), torch.empty(rows, fan_out)
        seconds = typical_seconds(partial(torch.mm, x, w, out=out), quick)
        points.append(Point(at=fan_in * fan_out, seconds=seconds / (rows * fan_in * fan_out)))
    return tuple(points)


def _sparse_products(quick: bool) -> tuple[Point, ...]:
    """Neighbours' rows added up, by the bytes that neighbours are spread over."""
    from starling.kernels.adjacency import adjacency
    from starling.kernels.rows import rows_of
    from starling.kernels.spmm import plain_sum, weighted_sum

    draw = np.random.default_rng(0)
    rows = 16_384
    out = np.empty((rows, _WIDTH), np.float32)
    points = []
    for reach in _REACHES[:-1] if quick else _REACHES:
        sources = max(reach // (4 * _WIDTH), 1)
        x = np.ones((sources, _WIDTH), np.float32)
        neighbours = draw.integers(0, sources, rows * _DEGREE).astype(np.int32)
        edges = adjacency(np.arange(0, rows * _DEGREE + 1, _DEGREE, dtype=np.int64), neighbours, sources)
        seconds = typical_seconds(partial(weighted_sum, edges, plain_sum(np.float32), rows_of(x), rows_of(out)), quick)
        points.append(Point(at=reach, seconds=seconds / (rows * _DEGREE * _WIDTH)))
    return tuple(points)


def _attention(quick: bool) -> float:
    """Scores, softmax and their gradients of an edge and head, with one column a head so that little is summed."""
    import torch

    from starling.kernels.adjacency import adjacency
    from starling.nn.ops.attend import attend_additive

    rows, heads = 8192, 4
    neighbours = np.random.default_rng(0).integers(0, rows, rows * _DEGREE).astype(np.int32)
    edges = adjacency(np.arange(0, rows * _DEGREE + 1, _DEGREE, dtype=np.int64), neighbours, rows)
    x, source, target = (torch.randn(rows, heads, requires_grad=True) for _ in range(3))

    def attend() -> None:
        out, _ = attend_additive(edges, x, source, target, 0.2)
        out.sum().backward()  # type: ignore[no-untyped-call]

    return typical_seconds(attend, quick) / (rows * _DEGREE * heads)


def _planning(quick: bool) -> dict[str, float]:
    """Turning a block round, and taking edges into a batch and numbering their sources."""
    from starling.kernels.adjacency import adjacency
    from starling.kernels.csr import Csr
    from starling.kernels.frontier import FrontierPool
    from starling.kernels.sampling import take_all

    nodes, taken_rows = 200_000, 10_000
    draw = np.random.default_rng(0)
    offsets = np.arange(0, nodes * _DEGREE + 1, _DEGREE, dtype=np.int64)
    lists = Csr(offsets, draw.integers(0, nodes, nodes * _DEGREE).astype(np.int32), np.arange(nodes * _DEGREE))
    targets, pool = draw.permutation(nodes)[:taken_rows].astype(np.int32), FrontierPool(nodes)

    def plan() -> Any:
        taken = take_all(lists, targets)
        with pool.frontier(targets) as frontier:
            return taken, frontier.extend(taken.neighbours), len(frontier)

    taken, numbers, sources = plan()
    edges = taken_rows * _DEGREE
    return {
        "plan": typical_seconds(plan, quick) / edges,
        "transpose": typical_seconds(lambda: adjacency(taken.offsets, numbers, sources).transposed, quick) / edges,
    }


def _bandwidth(quick: bool) -> float:
    """Bytes read and written a second by a copy larger than caches."""
    import torch

    a, b = torch.zeros(1 << 24), torch.zeros(1 << 24)
    return 2 * a.nbytes / typical_seconds(lambda: b.copy_(a), quick)


def _overheads(quick: bool) -> tuple[float, float]:
    """Seconds of a layer and of a step that no size explains: from real training on next to nothing, with 2 and with 5 layers."""
    from starling.store.graph import create_graph
    from starling.stream.generators import GENERATORS
    from starling.stream.ingest import ImportOptions

    generator = GENERATORS["dcsbm"]
    settings = generator.settings(nodes=4 * _STEPS, edges=4 * _STEPS, classes=2, features=8, split=(50, 25, 25), seed=0)
    with tempfile.TemporaryDirectory(prefix="starling-calibrate-") as folder:
        graph = Path(folder) / "graph"
        create_graph(
            generator.make(settings), graph, ImportOptions(direction="undirected", self_loops="drop", duplicates="drop")
        )
        few, many = (_step_seconds(graph, layers, 3 if quick else 7) for layers in (2, 5))
    layer = max((many - few) / 3, 1e-6)
    return layer, max(few - 2 * layer, 1e-6)


def _step_seconds(graph: Path, layers: int, epochs: int) -> float:
    """A step of two targets, in the middle epoch."""
    from starling.train.config import RunConfig
    from starling.train.trainer import fit

    config = RunConfig.from_tables(
        {
            "data": {"path": graph},
            "model": {"name": "gcn", "layers": layers, "hidden": 8},
            "strategy": {"name": "mini", "batch_size": 2},
            "run": {"epochs": epochs, "evaluate_every": epochs},
        }
    )
    return fit(config, graph.parent / f"run-{layers}").epoch_seconds_median / _STEPS
