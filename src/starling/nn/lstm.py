"""Run an LSTM over each row's neighbours, in edge order, with bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from starling.nn.graph import LocalGraph

BLOCK_EDGES = 1 << 16


def last_states(graph: LocalGraph, lstm: nn.LSTM, rows: Tensor) -> Tensor:
    """The LSTM's last state for each destination [D, F]; zero without neighbours.

    Destinations of equal degree run side by side, at most a block of edges at a time; backward runs each block again.
    """
    degree = graph.local_degree
    order = torch.argsort(degree, stable=True)
    # Tied to `rows` even where there is no edge: a backward pass that others wait in must come by here too.
    nothing = rows.new_zeros(int((degree == 0).sum()), lstm.hidden_size) + rows[:0].sum()
    parts: list[Tensor] = [nothing]
    for length, count in zip(*torch.unique(degree[degree > 0], return_counts=True), strict=True):
        start = int((degree < length).sum())
        for members in torch.split(order[start : start + int(count)], max(1, BLOCK_EDGES // int(length))):
            places = graph.offsets[members][:, None] + torch.arange(int(length), device=graph.device)
            sources = graph.neighbours_at(places).long()
            parts.append(checkpoint(_run, lstm, rows, sources, use_reentrant=False))
    return torch.cat(parts)[torch.argsort(order)]


def _run(lstm: nn.LSTM, rows: Tensor, sources: Tensor) -> Tensor:
    states: Tensor = lstm(rows[sources])[0]
    return states[:, -1]
