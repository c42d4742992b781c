"""Edge lists for kernel tests, small and awkward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from starling.kernels import degrees, parallel, split


@dataclass(frozen=True)
class Edges:
    """Edges [E, 2] of a graph of `nodes` nodes."""

    pairs: NDArray[Any]
    nodes: int


@st.composite
def edge_lists(draw: st.DrawFn, most_nodes: int = 40, most_edges: int = 120) -> Edges:
    """Random edges among few nodes, so that there are loops and copies; sometimes none, one node, or all at one hub."""
    nodes = draw(st.integers(1, most_nodes))
    node = st.integers(0, nodes - 1)
    destination = st.just(draw(node)) if draw(st.booleans()) else node
    pairs = draw(st.lists(st.tuples(node, destination), max_size=most_edges))
    array = np.array(pairs, draw(st.sampled_from([np.int32, np.int64]))).reshape(-1, 2)
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    return Edges(array, nodes)


@contextmanager
def tiny_thresholds() -> Iterator[None]:
    """Let a handful of edges be split into many buckets and over many threads, as millions are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_ITEMS_WORTH_A_THREAD", 1)
        patch.setattr(split, "_PAIRS_IN_CACHE", 2)
        patch.setattr(degrees, "_EDGES_WORTH_OWN_COUNTS", 1)
        yield
