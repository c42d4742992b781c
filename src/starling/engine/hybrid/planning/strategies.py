"""The strategies of a team: the same steps as in one process, each worker planning its own rows of them.

Planning talks to the other workers, on tags of its own, so it may run in the background of training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.core.keyed import stream_key
from starling.engine.hybrid.layers.plan import WorkerLayer, WorkerPlan
from starling.engine.hybrid.planning.active import ActiveSet, Take
from starling.engine.hybrid.planning.boundary import Boundary
from starling.engine.hybrid.planning.chances import Chances
from starling.engine.hybrid.planning.thinning import Thinning
from starling.engine.hybrid.share.worker_graph import WorkerGraph
from starling.kernels.frontier import FrontierPool
from starling.kernels.induced import take_within
from starling.kernels.keyed_order import keyed_order
from starling.kernels.sampling import Taken, take_all
from starling.nn.view import Size
from starling.plan.batch import Block
from starling.plan.cluster import Cluster
from starling.plan.cohesive.batches import CohesiveBatches
from starling.plan.cohesive.kept import KeptPlans, kept_bytes
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.hops import AllNeighbours, HopSampler, Moment
from starling.plan.mini import Batches, Mini, hop_samplers
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.plan.targets import TargetBatches

_SIZES, _POSITIONS, _CLUSTERS, _LABELS = 1 << 12, 1, 2, 3
"""Numbers of messages: of sizes in a step; of training positions, dealt clusters and batches' labels when a run begins."""

Common = dict[str, Any]
"""What every strategy of a team is made with."""


@dataclass(frozen=True, eq=False)
class FixedBatches:
    """Cohesive batches of positions, and how many bytes of their plans a worker may keep."""

    batches: CohesiveBatches
    keep: int


class TeamStrategy(ABC):
    """Deals out the steps of an epoch to a worker. Plans are made in order, each once, by every worker."""

    fixed: FixedBatches | None = None
    """Where batches are the same every epoch: their plans are kept, and nothing is asked of other workers for them again."""

    def __init__(self, graph: WorkerGraph, team: Team, train_rows: NDArray[Any], layers: int, boundary: Boundary) -> None:
        self.graph, self.team, self.layers, self.boundary = graph, team, layers, boundary
        self.train_rows = np.sort(train_rows).astype(np.int64)
        self._pool = FrontierPool(graph.rows)

    @property
    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many plans an epoch has, the same for all workers."""

    def plans(self, epoch: int) -> Iterator[WorkerPlan]:
        """The steps of an epoch (from 1) in order."""
        for step in range(self.steps_per_epoch):
            yield self.plan(epoch, step)

    def plan(self, epoch: int, step: int) -> WorkerPlan:
        """One step; every worker asks for the same one."""
        number = (epoch - 1) * self.steps_per_epoch + step
        if self.fixed is None or self.boundary.probability < 1:
            return self._made(epoch, step, number)
        batch = self.fixed.batches.number(epoch, step)
        plan = self._kept.plan(self.fixed.batches.grouping(epoch), batch, lambda: self._made(epoch, step, number))
        return replace(plan, epoch=epoch, step=step, number=number)

    @cached_property
    def _kept(self) -> KeptPlans[WorkerPlan]:
        """A plan's bytes are reckoned from sizes over all workers, so all keep the same ones."""

        def share(plan: WorkerPlan) -> float:
            return sum(kept_bytes(size.edges, size.sources) for size in plan.sizes) / self.team.size

        return KeptPlans(self.fixed.keep if self.fixed else 0, share)

    def _made(self, epoch: int, step: int, number: int) -> WorkerPlan:
        layers, targets, outputs = self._layers(epoch, step, ActiveSet(self.graph, self.team, self._pool, number))
        counts = [value for layer in layers for value in (layer.size.sources, layer.size.destinations, layer.size.edges)]
        everywhere = np.sum(
            self.team.all_lists(make_tag(Channel.PLAN, number, _SIZES), np.array([*counts, len(targets)])), axis=0
        )
        sizes = tuple(Size(*map(int, everywhere[3 * k : 3 * k + 3])) for k in range(len(layers)))
        return WorkerPlan(epoch, step, number, layers, sizes, targets, outputs, int(everywhere[-1]))

    @abstractmethod
    def _layers(self, epoch: int, step: int, active: ActiveSet) -> tuple[tuple[WorkerLayer, ...], NDArray[Any], NDArray[Any]]:
        """The layers, outermost first; the own targets, and their places among the last one's outputs."""

    def _thinned(self, take: Take, epoch: int) -> Take:
        return lambda rows: self.boundary.thin(take(rows), rows, epoch)


class TeamGlobal(TeamStrategy):
    """All nodes in one step; one layer stands for all."""

    @cached_property
    def _thinning(self) -> Thinning:
        return Thinning(self.boundary)

    @property
    def steps_per_epoch(self) -> int:
        """One."""
        return 1

    def _layers(self, epoch: int, step: int, active: ActiveSet) -> tuple[tuple[WorkerLayer, ...], NDArray[Any], NDArray[Any]]:
        layer = self.graph.whole_layer if self.boundary.probability == 1 else self._thin_layer(epoch, active)
        return (layer,) * self.layers, self.train_rows, self.train_rows

    def _thin_layer(self, epoch: int, active: ActiveSet) -> WorkerLayer:
        def listed() -> Block:
            own = np.arange(self.graph.owned, dtype=np.int64)
            take = self._thinned(lambda rows: take_all(self.graph.incoming, rows), epoch)
            return active.expand(own, take, self.boundary.wanted(epoch))[0].block

        return self._thinning.layer(epoch, listed)


class TeamTargets(TeamStrategy):
    """Batches of the whole team's training nodes; each worker has those it owns. Batches are made of positions.

    `in_place`: edges of large layers with all neighbours are read where the graph's own lists are, and not listed.
    """

    def __init__(
        self, hops: Sequence[HopSampler], targets: Batches, seed: int, *, in_place: bool = False, **common: Any
    ) -> None:
        super().__init__(**common)
        self._hops, self._targets, self._seed = hops, targets, seed
        self._in_place = (
            in_place and self.boundary.probability == 1 and self.team.device.type == "cpu"
        )  # on a card edges are listed
        positions = self.graph.position[self.train_rows]
        order = np.argsort(positions)
        self._positions, self._rows = positions[order], self.train_rows[order]

    @property
    def steps_per_epoch(self) -> int:
        """Batches until every training node was a target once."""
        return self._targets.steps

    def _layers(self, epoch: int, step: int, active: ActiveSet) -> tuple[tuple[WorkerLayer, ...], NDArray[Any], NDArray[Any]]:
        own = targets = self._mine(self._targets.batch(epoch, step))
        layers: list[WorkerLayer] = []
        for hop, sampler in enumerate(self._hops):
            if self._in_place and isinstance(sampler, AllNeighbours):
                layer, own = active.expand_whole(own)
            else:
                moment = Moment(self._seed, epoch, step, hop)
                layer, own = active.expand(own, self._thinned(partial(sampler.take, moment=moment), epoch))
            layers.append(layer)
        return tuple(reversed(layers)), targets, np.arange(len(targets))

    def _mine(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        place = np.searchsorted(self._positions, positions)
        found = place < len(self._positions)
        found[found] = self._positions[place[found]] == positions[found]
        return self._rows[place[found]]


def team_mini(settings: Mini.Settings, source: NeighbourSource, seed: int, in_place: bool, common: Common) -> TeamTargets:
    """Targets in keyed order, all neighbours or a sample of them."""
    if settings.sampling == "layerwise":
        raise InputError(
            "Layer-wise sampling draws from all rows of a layer at once, which a team of workers does not hold in one place. "
            "Use one worker."
        )
    if settings.past:
        raise InputError(
            "A hybrid team computes every node of a step once, and a node has another past for every target. Use --parallel data, "
            "--before (one time for all), or one worker."
        )
    sampled = settings.type_fanouts is not None or (settings.fanouts is not None and set(settings.fanouts) != {"all"})
    if common["graph"].spread and sampled:
        raise InputError(
            "Fan-outs sample from whole neighbour lists, got a vertex-cut. Leave out --fanouts, or partition into an edge-cut."
        )
    hops = hop_samplers(settings, source, common["layers"])
    everywhere = _everywhere(common, common["graph"].position[common["train_rows"]], _POSITIONS)
    # everybody knows all training positions: 24 bytes a training node, as rows, as positions and in the epoch's order
    targets = TargetBatches(everywhere, everywhere, settings.batch_size, seed=seed, shuffle=settings.shuffle)
    return TeamTargets(hops, targets, seed, in_place=in_place, **common)


def team_cohesive(
    settings: Cohesive.Settings, labels: NDArray[Any], source: NeighbourSource, seed: int, common: Common
) -> TeamTargets:
    """Fixed batches (plan/cohesive/), each computed by its nodes' owners."""
    batches = fixed_batches(settings, labels, seed, common)
    strategy = TeamTargets((AllNeighbours(source),) * common["layers"], batches, seed, **common)
    strategy.fixed = FixedBatches(batches, settings.keep)
    return strategy


def fixed_batches(settings: Cohesive.Settings, labels: NDArray[Any], seed: int, common: Common) -> CohesiveBatches:
    """Everybody's cohesive batches, of positions; `labels` are those of the own rows."""
    rows = common["train_rows"]
    positions = _everywhere(common, common["graph"].position[rows], _POSITIONS)
    known = _everywhere(common, labels[rows], _LABELS)
    each, every = settings.clusters_per_batch, settings.regroup_every
    return CohesiveBatches(positions, positions, known, each, seed=seed, regroup_every=every)


def _everywhere(common: Common, mine: NDArray[Any], number: int) -> NDArray[Any]:
    """Everybody's numbers, by rank."""
    return np.concatenate(common["team"].all_lists(make_tag(Channel.SETUP, 0, number), np.asarray(mine, np.int64)))


class TeamCluster(TeamStrategy):
    """Whole clusters a step (plan/cluster.py); a cluster may lie with several workers."""

    def __init__(self, settings: Cluster.Settings, clusters: NDArray[Any], seed: int, **common: Any) -> None:
        super().__init__(**common)
        if settings.boundary_hops > self.layers:
            raise InputError(
                f"Expected at most {self.layers} boundary hops, one a layer, got {settings.boundary_hops}. Lower --boundary-hops."
            )
        self._settings, self._seed = settings, seed
        self._clusters = clusters[: self.graph.owned]
        mine = np.unique(self._clusters[self.train_rows])
        self._dealt = np.unique(np.concatenate(self.team.all_lists(make_tag(Channel.SETUP, 0, _CLUSTERS), mine)))
        if settings.clusters_per_step > len(self._dealt):
            raise InputError(
                f"Expected at most {len(self._dealt):,} clusters a step, as many as hold training nodes, "
                f"got {settings.clusters_per_step:,}."
            )
        self._trained = np.zeros(self.graph.owned, np.bool_)
        self._trained[self.train_rows] = True

    @property
    def steps_per_epoch(self) -> int:
        """Steps until every cluster with training nodes was dealt once."""
        return -(-len(self._dealt) // self._settings.clusters_per_step)

    def _layers(self, epoch: int, step: int, active: ActiveSet) -> tuple[tuple[WorkerLayer, ...], NDArray[Any], NDArray[Any]]:
        together = self._settings.clusters_per_step
        order = keyed_order(stream_key(self._seed, "clusters", epoch), self._dealt)
        own = members = np.flatnonzero(np.isin(self._clusters, self._dealt[order[step * together : (step + 1) * together]]))
        layers: list[WorkerLayer] = []
        lists = self.graph.incoming
        for _ in range(self._settings.boundary_hops):
            layer, own = active.expand(own, self._thinned(lambda rows: take_all(lists, rows), epoch))
            layers.append(layer)
        inside = self.layers - len(layers)
        if inside:
            layer, _ = active.expand(own, self._within(own, active, epoch))
            layers.extend([layer] * inside)
        outputs = np.flatnonzero(self._trained[members])
        return tuple(reversed(layers)), members[outputs], outputs

    def _within(self, own: NDArray[Any], active: ActiveSet, epoch: int) -> Take:
        """Edges among the rows of the step, everywhere; what is left of a list is scaled to its whole length."""
        announced = active.announce(own)
        together = np.concatenate([own, announced.mirrors])

        def take(rows: NDArray[Any]) -> Taken:
            with self._pool.frontier(together) as frontier:
                taken = take_within(self.graph.incoming, rows, frontier.places)
            left = np.diff(taken.offsets)
            if self.graph.spread:
                left = active.totals(announced, left)
            whole = self.graph.in_degree[rows]
            scale = np.where(left > 0, whole / np.maximum(left, 1), 1.0).astype(np.float32)
            inside = Taken(taken.offsets, together[taken.neighbours], taken.entry, scale)
            return self.boundary.thin(inside, rows, epoch)

        return take


def make_team_strategy(
    name: str,
    settings: Strategy.Settings,
    graph: WorkerGraph,
    team: Team,
    train_rows: NDArray[Any],
    layers: int,
    seed: int,
    *,
    boundary: float = 1.0,
    chances: Chances | None = None,
    edge_weight: NDArray[Any] | None = None,
    edge_type: NDArray[Any] | None = None,
    relations: tuple[str, ...] = (),
    types: int = 0,
    clusters: NDArray[Any] | None = None,
    in_place: bool = False,
) -> TeamStrategy:
    """The strategy of a name for one worker of a team; refuses those that a team cannot compute together.

    `in_place`: the model does not ask for lists of edges.
    """
    common: Common = {
        "graph": graph,
        "team": team,
        "train_rows": train_rows,
        "layers": layers,
        "boundary": Boundary(graph, boundary, seed, chances),
    }
    if name == "global":
        return TeamGlobal(**common)
    if isinstance(settings, Mini.Settings):
        source = NeighbourSource(
            graph.incoming, graph.rows, graph.position, edge_weight, graph.in_degree, edge_type, relations, types
        )
        return team_mini(settings, source, seed, in_place, common)
    if isinstance(settings, Cohesive.Settings):
        assert clusters is not None, "the run finds batches first"
        source = NeighbourSource(graph.incoming, graph.rows, graph.position, None, graph.in_degree)
        return team_cohesive(settings, clusters, source, seed, common)
    if isinstance(settings, Cluster.Settings):
        assert clusters is not None, "the run finds clusters first"
        return TeamCluster(settings, clusters, seed, **common)
    raise InputError(
        f"Workers of --parallel hybrid compute global, mini, cluster and cohesive steps together, got {name}. Use one worker."
    )
