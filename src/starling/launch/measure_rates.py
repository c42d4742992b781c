"""Time the operations that training is made of, in this process with its threads: the rates of a calibration (plan/calibration.py).

Every operation is the one that training calls, on data of the size it has there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from starling.core.environment import thread_count
from starling.launch.measure_training import overall, overheads, planning
from starling.launch.stopwatch import typical_seconds
from starling.plan.calibration import Point, Rates

_WIDTH, _DEGREE = 64, 16
_MATRICES = ((16, 8), (32, 32), (64, 64), (128, 64), (128, 128), (256, 256), (602, 256), (1433, 256))
_NARROW = (1, 2, 4, 8, 10, 12, 15)
_ATTENTION_SUMS, _LEAST_SECONDS = 3, 1e-12
_REACHES = (1 << 17, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28)


def measure_rates(quick: bool = False) -> Rates:
    """All rates of this process."""
    fixed = overheads(quick)  # first: training sets how memory is allocated, and operations must find it so
    edge, row = _edges_and_rows(quick)
    rates = Rates(
        threads=thread_count(),
        **_elementwise(quick),
        beta=_products(_MATRICES, quick),
        narrow=tuple(_narrow_products(quick)),
        spmm=_sparse_products(edge, row, quick),
        edge=edge,
        row=row,
        softmax=_attention(edge, row, quick),
        transpose=_turning(quick),
        plan=planning(quick),
        read=_reading(quick),
        memory_bandwidth=_bandwidth(quick),
        **fixed,
    )
    return rates.model_copy(update={"overall": overall(rates, quick)})


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


def _products(matrices: Sequence[tuple[int, int]], quick: bool) -> tuple[Point, ...]:
    """β: products of many rows with one matrix, by the numbers in it: for the output, the rows' gradient and the matrix's."""
    import torch

    points = []
    for fan_in, fan_out in matrices:
        rows = max(4096, min(16384, (1 << (28 if quick else 30)) // (fan_in * fan_out)))
        x, w, gradient = torch.randn(rows, fan_in), torch.randn(fan_in, fan_out), torch.randn(rows, fan_out)

        def products(x: Any = x, w: Any = w, gradient: Any = gradient) -> Any:
            return x @ w, gradient @ w.T, x.T @ gradient  # in fresh memory, as in training

        points.append(Point(at=fan_in * fan_out, seconds=typical_seconds(products, quick) / (3 * rows * fan_in * fan_out)))
    return tuple(points)


def _narrow_products(quick: bool) -> Iterator[Point]:
    """Products with few columns, by how many: for the output and the matrix's gradient, which both have so many."""
    import torch

    rows, fan_in = 8192, _WIDTH
    x = torch.randn(rows, fan_in)
    for columns in _NARROW:
        w, gradient = torch.randn(fan_in, columns), torch.randn(rows, columns)

        def products(w: Any = w, gradient: Any = gradient) -> Any:
            return x @ w, x.T @ gradient

        yield Point(at=columns, seconds=typical_seconds(products, quick) / (2 * rows * fan_in * columns))


def _edges_and_rows(quick: bool) -> tuple[float, float]:
    """What an edge and a row of a sparse product cost with a few columns, from rows with few edges and with many."""
    rows = 16_384
    few, many = (_sum_of_rows(rows, degree, columns=8, sources=4096, quick=quick) / rows for degree in (4, _DEGREE))
    edge = max((many - few) / (_DEGREE - 4), _LEAST_SECONDS)
    return edge, max(few - 4 * edge, _LEAST_SECONDS)


def _sparse_products(edge: float, row: float, quick: bool) -> tuple[Point, ...]:
    """Neighbours' rows added up, a number, by the bytes that neighbours are spread over; edges and rows are priced apart."""
    rows = 16_384
    numbers, fixed = rows * _DEGREE * _WIDTH, rows * (row + _DEGREE * edge)
    points = []
    for reach in _REACHES[:-1] if quick else _REACHES:
        seconds = _sum_of_rows(rows, _DEGREE, _WIDTH, max(reach // (4 * _WIDTH), 1), quick)
        points.append(Point(at=reach, seconds=max(seconds - fixed, seconds / 4) / numbers))
    return tuple(points)


def _sum_of_rows(rows: int, degree: int, columns: int, sources: int, quick: bool) -> float:
    """Seconds of a sparse product over rows with `degree` random neighbours each."""
    from starling.kernels.adjacency import adjacency
    from starling.kernels.rows import rows_of
    from starling.kernels.spmm import plain_sum, weighted_sum

    x, out = np.ones((sources, columns), np.float32), np.empty((rows, columns), np.float32)
    neighbours = np.random.default_rng(0).integers(0, sources, rows * degree).astype(np.int32)
    edges = adjacency(np.arange(0, rows * degree + 1, degree, dtype=np.int64), neighbours, sources)
    return typical_seconds(partial(weighted_sum, edges, plain_sum(np.float32), rows_of(x), rows_of(out)), quick)


def _attention(edge: float, row: float, quick: bool) -> float:
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

    seconds, sums = typical_seconds(attend, quick), _ATTENTION_SUMS * rows * (row + _DEGREE * edge)
    return max(seconds - sums, seconds / 4) / (rows * _DEGREE * heads)


def _turning(quick: bool) -> float:
    """Turning a block round, an edge."""
    from starling.kernels.adjacency import adjacency

    rows, sources = 10_000, 100_000
    neighbours = np.random.default_rng(0).integers(0, sources, rows * _DEGREE).astype(np.int32)
    offsets = np.arange(0, rows * _DEGREE + 1, _DEGREE, dtype=np.int64)
    return typical_seconds(lambda: adjacency(offsets, neighbours, sources).transposed, quick) / len(neighbours)


def _reading(quick: bool) -> float:
    """A number of rows that lie anywhere, copied into a batch of their own."""
    from starling.kernels.rows import gather_rows

    rows, taken = 200_000, 20_000
    x, index = np.ones((rows, _WIDTH), np.float32), np.random.default_rng(0).permutation(rows)[:taken]
    seconds = typical_seconds(lambda: gather_rows(x, index, np.empty((taken, _WIDTH), np.float32)), quick)
    return seconds / (taken * _WIDTH)


def _bandwidth(quick: bool) -> float:
    """Bytes read and written a second by a copy larger than caches."""
    import torch

    a, b = torch.zeros(1 << 24), torch.zeros(1 << 24)
    return 2 * a.nbytes / typical_seconds(lambda: b.copy_(a), quick)
