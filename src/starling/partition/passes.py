"""Passes over an edge stream: checked blocks of int32 pairs, the next one read while the last is worked on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.core.progress import SILENT, Progress
from starling.kernels.partition.ends import count_ends, first_outside, keep_once
from starling.stream.ahead import read_ahead
from starling.stream.edges import BLOCK_EDGES, EdgeStream

Pairs = NDArray[np.int32]


def pass_bytes(edges: EdgeStream) -> int:
    """What a pass itself holds: at most four blocks of int64 pairs."""
    return 4 * 16 * min(edges.edges, BLOCK_EDGES)


def edge_blocks(edges: EdgeStream, what: str, progress: Progress = SILENT) -> Iterator[Pairs]:
    """Every edge of the stream in order, as rows (source, destination) whose numbers were checked to be nodes."""
    with progress.task(what, edges.edges) as task:
        for pairs in read_ahead(_checked(edges)):
            yield pairs
            task.advance(len(pairs))


def pair_blocks(edges: EdgeStream, what: str, progress: Progress = SILENT) -> Iterator[Pairs]:
    """Every connection once and no self-loops, for methods to which direction means nothing.

    Of an undirected graph, where each edge stands in both directions, that is the copy that ascends. A directed graph's
    edges come as they are.
    """
    with progress.task(what, edges.edges) as task:
        for pairs, read in read_ahead(_once(edges)):
            yield pairs
            task.advance(read)


def count_connections(edges: EdgeStream, progress: Progress = SILENT) -> NDArray[np.int32]:
    """The degree of every node [V], one pass: edges in and out, of an undirected graph each connection once."""
    degree = np.zeros(edges.nodes, np.int32)
    for pairs in edge_blocks(edges, "counting degrees", progress):
        count_ends(pairs, edges.directed, degree)
    return degree


def _checked(edges: EdgeStream) -> Iterator[Pairs]:
    for block in edges.blocks():
        bad = first_outside(block.pairs, edges.nodes)
        if bad >= 0:
            got = f"{block.pairs[bad].tolist()} as edge {block.start + bad:,}"
            raise InputError(f"Expected node numbers in [0, {edges.nodes:,}), got {got}. Import the graph again.")
        yield np.ascontiguousarray(block.pairs, np.int32)


def _once(edges: EdgeStream) -> Iterator[tuple[Pairs, int]]:
    for pairs in _checked(edges):
        kept = np.empty_like(pairs)
        yield kept[: keep_once(pairs, edges.directed, kept)], len(pairs)
