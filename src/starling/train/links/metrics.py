"""How well edges are told from other pairs: AUC and average precision of scores, MRR and Hits@k of ranks.

Ranks are 1 + better + equal / 2, the mean of the places that a tie may take. Scores that differ by less than float32 rounding are
equal: which worker computed them, and in blocks of which size, must not decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.train.metrics import Score, check_finite

PAIR_METRICS = ("auc", "ap")
RANK_METRICS = ("mrr", "hits@1", "hits@3", "hits@10", "hits@50", "hits@100")

ROUNDING = 2e-6
"""Scores this close, relative to their size where that is above one, are equal."""


@dataclass(frozen=True)
class LinkScore(Score):
    """A metric of link prediction by name; larger is better."""

    @property
    def higher_is_better(self) -> bool:
        """Always."""
        return True

    @property
    def of_ranks(self) -> bool:
        """Whether it is a mean over ranks, or compares all scores with one another."""
        return self.name not in PAIR_METRICS

    @property
    def cutoff(self) -> int | None:
        """k of Hits@k."""
        return int(self.name.removeprefix("hits@")) if self.name.startswith("hits@") else None

    def points(self, rank: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each rank counts; the metric is the mean."""
        return 1 / rank if self.cutoff is None else (rank <= self.cutoff).astype(np.float64)


def make_link_score(name: str | None) -> LinkScore:
    """The metric of a name, auc by default; hits@k for any k."""
    name = name or PAIR_METRICS[0]
    if name not in (*PAIR_METRICS, *RANK_METRICS) and not re.fullmatch(r"hits@[1-9]\d*", name):
        raise InputError(f"There is no metric '{name}' for link. {nearest(name, (*PAIR_METRICS, *RANK_METRICS))}")
    return LinkScore("link", name, 1)


def pair_metric(name: str, edge: NDArray[Any], other: NDArray[Any]) -> float:
    """AUC or average precision of edges' scores against other pairs'."""
    check_finite(torch.from_numpy(np.concatenate([edge, other])))
    return area(edge, other) if name == "auc" else average_precision(edge, other)


def area(edge: NDArray[Any], other: NDArray[Any]) -> float:
    """The chance that an edge scores above another pair, a tie counting half (Mann and Whitney): O(n log n)."""
    ranked = np.sort(other)
    below = np.searchsorted(ranked, edge, side="left")
    upto = np.searchsorted(ranked, edge, side="right")
    return float((below + upto).sum() / (2 * len(edge) * len(other)))


def average_precision(edge: NDArray[Any], other: NDArray[Any]) -> float:
    """Σ (recall at a threshold − recall before) · precision there, over all different scores, highest first."""
    scores, counts = np.concatenate([edge, other]), np.concatenate([np.ones(len(edge)), np.zeros(len(other))])
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # the end of each run of equal scores
    hits, taken = np.cumsum(counts[order])[last], (np.arange(len(scores)) + 1)[last]
    return float((np.diff(hits, prepend=0) * hits / taken).sum() / len(edge))


def ranks_of(edge: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """The rank of each edge among its own pairs [P · K]."""
    other = other.reshape(len(edge), -1)
    margin = ROUNDING * np.maximum(np.abs(edge), 1)
    better = (other > (edge + margin)[:, None]).sum(1)
    equal = (other >= (edge - margin)[:, None]).sum(1) - better
    rank: NDArray[np.float64] = 1 + better + equal / 2
    return rank


def rounded(value: float) -> float:
    """As many digits as float32 scores can tell."""
    return float(f"{value:.7g}")
