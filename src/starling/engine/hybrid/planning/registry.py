"""The strategies of a team by name: the same steps as in one process, each worker planning its own rows of them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from starling.core.errors import InputError
from starling.engine.hybrid.planning.all_nodes import TeamGlobal
from starling.engine.hybrid.planning.clusters import TeamCluster
from starling.engine.hybrid.planning.steps import TeamStrategy, TeamTask
from starling.engine.hybrid.planning.targets import check_team_mini, team_cohesive, team_mini
from starling.engine.hybrid.share.source import WorkerSource
from starling.plan.cluster import Cluster
from starling.plan.cohesive.strategy import Cohesive
from starling.plan.mini import Mini
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy


def check_team_strategy(name: str, settings: Strategy.Settings) -> None:
    """Refuse a strategy that a team cannot compute together, before anything is moved for it."""
    if isinstance(settings, Mini.Settings):
        check_team_mini(settings)
    elif name != "global" and not isinstance(settings, Cohesive.Settings | Cluster.Settings):
        raise InputError(
            f"Workers of --parallel hybrid compute global, mini, cluster and cohesive steps together, got {name}. Use one worker."
        )


def make_team_strategy(
    name: str,
    settings: Strategy.Settings,
    task: TeamTask,
    source: WorkerSource,
    clusters: NDArray[Any] | None,
    *,
    in_place: bool,
) -> TeamStrategy:
    """The strategy of a name for one worker of a team, once it was checked.

    `clusters` are those of the own rows, for strategies of clusters. `in_place`: the model does not ask for lists of edges.
    """
    if name == "global":
        return TeamGlobal(task)
    if isinstance(settings, Mini.Settings):
        return team_mini(task, settings, neighbours_of(source), in_place=in_place)
    if isinstance(settings, Cohesive.Settings):
        assert clusters is not None, "the run finds batches first"
        return team_cohesive(task, settings, clusters, neighbours_of(source))
    assert isinstance(settings, Cluster.Settings), "checked when the run began"
    assert clusters is not None, "the run finds clusters first"
    return TeamCluster(task, settings, clusters)


def neighbours_of(source: WorkerSource) -> NeighbourSource:
    """A worker's lists as samplers read them."""
    graph, weight, kinds = source.graph, source.edge_tables.get("weight"), source.edge_tables.get("type")
    return NeighbourSource(
        graph.incoming,
        graph.rows,
        graph.position,
        None if weight is None else weight.numpy(),
        graph.in_degree,
        None if kinds is None else kinds.numpy(),
        graph.manifest.edge_types,
        source.relations,
    )
