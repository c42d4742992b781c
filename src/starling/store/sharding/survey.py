"""A first look at the edges: how many each node has, and a sample that tells where the rest will go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.progress import SILENT, Progress
from starling.kernels.csr import index_type
from starling.kernels.degrees import count_degrees
from starling.store.sharding.inner_first import Crossings
from starling.stream.edges import EdgeStream

_SAMPLE = 1 << 18


@dataclass(frozen=True)
class Survey:
    """Degrees of every node, int32 when they fit, and every `stride`-th edge of the stream [S, 2], in order.

    `looped` are the nodes that have a self-loop; None where none has.
    """

    in_degree: NDArray[Any]
    out_degree: NDArray[Any]
    sample: NDArray[Any]
    stride: int
    looped: NDArray[np.bool_] | None = None


def survey_edges(
    stream: EdgeStream, *, crossings: Crossings | None = None, threads: int | None = None, progress: Progress = SILENT
) -> Survey:
    """Read the edges once, and tell `crossings` of them. Memory: 17 bytes a node while counting, 9 after."""
    stride = max(1, stream.edges // _SAMPLE)
    incoming = np.zeros(stream.nodes, np.int64)
    outgoing = np.zeros(stream.nodes, np.int64)
    looped = np.zeros(stream.nodes, np.bool_)
    sample = [np.zeros((0, 2), index_type(stream.nodes))]
    with progress.task("Counting edges", stream.edges) as task:
        for block in stream.blocks():
            count_degrees(block.pairs, stream.nodes, "destination", into=incoming, threads=threads)
            count_degrees(block.pairs, stream.nodes, "source", into=outgoing, threads=threads)
            looped[block.pairs[block.pairs[:, 0] == block.pairs[:, 1], 0]] = True
            if crossings is not None:
                crossings.note(block.pairs)
            sample.append(block.pairs[-block.start % stride :: stride].copy())
            task.advance(len(block.pairs))
    return Survey(_narrow(incoming), _narrow(outgoing), np.concatenate(sample), stride, looped if looped.any() else None)


def _narrow(counts: NDArray[np.int64]) -> NDArray[Any]:
    return counts.astype(index_type(int(counts.max(initial=0)) + 1))
