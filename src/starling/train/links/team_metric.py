"""The metric of a split whose edges are scored by several workers: the same number on every one, however many there are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from starling.comm.team import Team
from starling.engine.hybrid.messages.calls import Calls
from starling.train.links.metrics import LinkScore, pair_metric, ranks_of, rounded
from starling.train.metrics import everybodys_rows


def metric_over_team(score: LinkScore, edge: Tensor, other: Tensor, team: Team, calls: Calls) -> float | None:
    """From the scores [P] of each worker's edges and [P · K] of the pairs against them; None where nobody has an edge."""
    if score.of_ranks:
        points = score.points(ranks_of(edge.double().numpy(), other.double().numpy())) if len(edge) else np.empty(0)
        return mean_over_team(points, team, calls)
    counts = np.array(team.all_lists(calls.next_tag(), np.array([len(edge), len(other)])))
    if not counts[:, 0].sum():
        return None
    everybodys = (
        everybodys_rows(team, calls.next_tag(), values, counts[:, k].tolist()).double().numpy()
        for k, values in enumerate((edge, other))
    )
    return rounded(pair_metric(score.name, *everybodys))


def mean_over_team(points: NDArray[np.float64], team: Team, calls: Calls) -> float | None:
    """The mean of all workers' points, added in the order of workers: so it does not matter who has which."""
    told = team.all_lists(calls.next_tag(), np.ascontiguousarray(points).view(np.int64))
    everybodys = np.concatenate(told).view(np.float64)
    return rounded(float(everybodys.mean())) if len(everybodys) else None
