"""Softmax over the in-edges of each row. Nothing here is larger than edges × heads.

A row may also attend to itself; its own score then takes part in the softmax (`own`). The log of the sum of exponentials is
kept a row. With it, softmaxes over parts of the edges (the pieces of a hub here, the workers of a vertex-cut elsewhere) combine
exactly: a part's weights are multiplied by exp(its log-sum − the whole log-sum).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.kernels.adjacency import Lists, run, works

_EXP_COST = 8
"""An exponential, in numbers read."""


def softmax(edges: Lists, score: NDArray[Any], own: NDArray[Any], log_sum: NDArray[Any], threads: int | None = None) -> None:
    """Turn the scores [E, H] and own scores [up to rows, H] into weights, in place; write log Σ exp [rows, H].

    The log-sum of a row that attends to nothing is −inf.
    """
    cost = _EXP_COST * score.shape[1]
    run(edges.ordinary, cost, threads, _softmax, score, own, log_sum)
    hubs = edges.hubs
    if hubs is not None:
        pieces = np.empty((len(hubs.owner), score.shape[1]), score.dtype)
        run(hubs, cost, threads, _softmax, score, own[:0], pieces)
        _join(hubs.owner, pieces, own, log_sum)
        run(hubs, score.shape[1], threads, _rescale, pieces, score)


def softmax_backward(
    edges: Lists, weight: NDArray[Any], gradient: NDArray[Any], shift: NDArray[Any], threads: int | None = None
) -> None:
    """Turn the gradient of the weights [E, H] into that of the scores, in place: weight · (gradient + shift[row]).

    `shift` [rows, H] is (gradient of log-sum) − Σ weight · gradient, a sum the caller has from ⟨gradient, output⟩ of each row.
    """
    for work in works(edges):
        run(work, weight.shape[1], threads, _softmax_backward, weight, gradient, shift)


@compiled
def _softmax(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    score: NDArray[Any],
    own: NDArray[Any],
    log_sum: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    heads = score.shape[1]
    for row in range(start, stop):
        if end[row] - begin[row] > limit:
            continue
        for h in range(heads):
            alone = row < len(own)
            top = own[row, h] if alone else score.dtype.type(-np.inf)
            for k in range(begin[row], end[row]):
                top = max(top, score[k, h])
            total = score.dtype.type(0)
            for k in range(begin[row], end[row]):
                score[k, h] = math.exp(score[k, h] - top)
                total += score[k, h]
            if alone:
                own[row, h] = math.exp(own[row, h] - top)
                total += own[row, h]
            if total == 0:  # no edge at all
                log_sum[row, h] = -np.inf
                continue
            factor = score.dtype.type(1) / total
            for k in range(begin[row], end[row]):
                score[k, h] *= factor
            if alone:
                own[row, h] *= factor
            log_sum[row, h] = top + math.log(total)


@compiled
def _join(owner: NDArray[np.int64], pieces: NDArray[Any], own: NDArray[Any], log_sum: NDArray[Any]) -> None:
    """Log-sums of a hub's pieces and own score → the hub's log-sum, the pieces' factors, the own weight."""
    first = 0
    while first < len(owner):
        row, last = owner[first], first + 1
        while last < len(owner) and owner[last] == row:
            last += 1
        for h in range(pieces.shape[1]):
            alone = row < len(own)
            top = own[row, h] if alone else pieces[first, h]
            for p in range(first, last):
                top = max(top, pieces[p, h])
            total = math.exp(own[row, h] - top) if alone else 0.0
            for p in range(first, last):
                total += math.exp(pieces[p, h] - top)
            whole = top + math.log(total)
            for p in range(first, last):
                pieces[p, h] = math.exp(pieces[p, h] - whole)
            if alone:
                own[row, h] = math.exp(own[row, h] - whole)
            log_sum[row, h] = whole
        first = last


@compiled
def _rescale(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    factor: NDArray[Any],
    weight: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for item in range(start, stop):
        for k in range(begin[item], end[item]):
            for h in range(weight.shape[1]):
                weight[k, h] *= factor[item, h]


@compiled
def _softmax_backward(
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    limit: int,
    weight: NDArray[Any],
    gradient: NDArray[Any],
    shift: NDArray[Any],
    start: int,
    stop: int,
) -> None:
    for item in range(start, stop):
        if end[item] - begin[item] > limit:
            continue
        row = owner[item] if len(owner) else item
        for k in range(begin[item], end[item]):
            for h in range(weight.shape[1]):
                gradient[k, h] = weight[k, h] * (gradient[k, h] + shift[row, h])
