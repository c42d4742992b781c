"""How a graph falls apart into parts: exact where there are parts, measured where it is cut on trial, else assumed.

A part is described by its largest: training waits for the worker with the most, and memory is needed where the most is. What is
assumed rests on what the default method made of the graphs of docs/partitioning.md, beside a random deal of the same nodes:

    copies      0.00 to 0.24 of the random deal's on real graphs at any number of parts, up to 0.75 on graphs without communities
    nodes       at most 1.03 times the mean
    edges       b^0.4 times the mean in the middle, b^¾ at most on most graphs, b being what a part with all the largest hubs has;
                `starling partition --balance edges` evens them out
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starling.core.progress import SILENT, Progress
from starling.plan.forecast.degrees import hub_balance, random_copies
from starling.plan.forecast.facts import GraphFacts

if TYPE_CHECKING:
    from starling.partition.quality import Quality
    from starling.store.parts_manifest import PartRecord, PartsManifest
    from starling.stream.edges import EdgeStream

LIKELY_COPIES, SAFE_COPIES = 0.25, 0.8
"""Copies of a good cut, as a share of a random deal's: to be expected, and not to be exceeded."""
_LIKELY_HUBS, _SAFE_HUBS, _SAFE_NODE_BALANCE = 0.4, 0.75, 1.05
"""Powers of what the share with all the largest hubs would have, and nodes of the largest share over the mean."""
MOST_EDGES_TO_CUT = 2_000_000
"""All trial cuts together go through so many: more would take longer than a forecast should."""


@dataclass(frozen=True)
class Cut:
    """The largest share among so many, and all copies together."""

    shares: int
    nodes: float
    halo: float
    edges: float
    copies: float
    """Halo rows of all shares."""
    edge_cut: float
    """Share of edges between shares."""
    exact: bool


@dataclass(frozen=True)
class Likelihood:
    """A cut as it is expected to be, for time and traffic, and one that will not be exceeded, for memory."""

    likely: Cut
    safe: Cut


def whole(facts: GraphFacts) -> Likelihood:
    """Not cut at all."""
    cut = Cut(1, facts.nodes, 0, facts.edges, 0, 0, exact=True)
    return Likelihood(cut, cut)


def cut_of_parts(manifest: PartsManifest, workers: int) -> Likelihood:
    """Parts dealt to workers, consecutive ones to each; where a worker has several, a copy may be counted twice."""
    count = manifest.parts
    shares = [manifest.shards[count * w // workers : count * (w + 1) // workers] for w in range(workers)]
    cut_share = float(manifest.quality.get("edge_cut") or 0.0) if workers > 1 else 0.0
    if workers == 1:
        near = [0]
    else:
        near = [sum(_near(record) for record in share) for share in shares]
    made = Cut(
        workers,
        max(sum(record.nodes for record in share) for share in shares),
        max(near),
        max(sum(record.edges for record in share) for share in shares),
        sum(near),
        cut_share,
        exact=True,
    )
    return Likelihood(made, made)


def cut_of_quality(quality: Quality) -> Likelihood:
    """A cut that was made, on trial."""
    made = Cut(
        quality.parts,
        max(quality.part_nodes),
        max(quality.part_halo),
        max(quality.part_edges),
        quality.halo_rows,
        quality.edge_cut,
        exact=True,
    )
    return Likelihood(made, made)


def measured_cut(edges: EdgeStream, parts: int, *, seed: int, memory: int = 1 << 30, progress: Progress = SILENT) -> Likelihood:
    """Cut with the default method, as `starling train --workers` would."""
    from starling.partition.contract import PartitionTask
    from starling.partition.quality import measure
    from starling.partition.registry import make_method

    assignment = make_method("flock").assign(PartitionTask(edges, parts, seed, memory, None, progress))
    return cut_of_quality(measure(edges, assignment, memory=memory, progress=progress))


def assumed_cut(facts: GraphFacts, shares: int, *, known: float | None = None, edge_balance: float | None = None) -> Likelihood:
    """A cut nobody has made.

    `known` are copies as a share of a random deal's, where a cut of the same graph has told; `edge_balance` is the largest share's
    edges over the mean, where the user says so.
    """
    if shares == 1:
        return whole(facts)
    likely, safe = (LIKELY_COPIES, SAFE_COPIES) if known is None else (known, min(1.0, 1.5 * known + 0.05))
    random, hubs = random_copies(facts.degrees, shares), hub_balance(facts.degrees, shares)

    def cut(ratio: float, node_balance: float, edges: float) -> Cut:
        balance = min(edge_balance or edges, shares)
        copies = random * ratio
        return Cut(
            shares,
            math.ceil(facts.nodes / shares * node_balance),
            math.ceil(min(copies / shares * balance, facts.nodes)),
            math.ceil(facts.edges / shares * balance),
            copies,
            (1 - 1 / shares) * ratio,
            exact=False,
        )

    return Likelihood(
        cut(likely, 1.0, hubs**_LIKELY_HUBS), cut(safe, _SAFE_NODE_BALANCE, max(hubs**_SAFE_HUBS, _SAFE_NODE_BALANCE))
    )


def copies_ratio(facts: GraphFacts, cut: Cut) -> float:
    """Copies as a share of a random deal's."""
    random = random_copies(facts.degrees, cut.shares)
    return cut.copies / random if random else 0.0


def thinned(cut: Cut, boundary: float) -> Cut:
    """The cut that a step sees when a part hears of a neighbour elsewhere with this probability."""
    return replace(cut, halo=cut.halo * boundary, copies=cut.copies * boundary)


def _near(record: PartRecord) -> int:
    """Halo rows of the first hop, all that training reads."""
    return record.halo[0] if record.halo else 0
