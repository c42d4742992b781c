"""From a config to the checked parts of a run of link prediction, before any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from starling.comm.team import Team
from starling.config.settings import Choice
from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.engine.fill import Filler
from starling.engine.hybrid.boundary import Boundary
from starling.engine.hybrid.fill import TeamFiller
from starling.engine.hybrid.links import TeamLinks
from starling.engine.hybrid.row_requests import find_addresses
from starling.engine.hybrid.source import WorkerSource
from starling.engine.source import GraphSource
from starling.infer.layerwise import Inference
from starling.kernels.csr import Csr
from starling.plan.links.negatives import (
    KnownPairs,
    NegativeSampler,
    PartRanges,
    check_possible,
    degree_weights,
    known_pairs,
)
from starling.plan.links.random_pairs import AreEdges
from starling.plan.links.strategy import DealTask, LinkStrategy
from starling.plan.registry import read_settings
from starling.plan.source import NeighbourSource
from starling.plan.strategy import Strategy
from starling.store.parts import open_parts
from starling.train.config import RunConfig
from starling.train.embeddings import check_embeddings, table_of
from starling.train.link_data import HeldEdges, split_edges, split_sizes
from starling.train.link_scores import HeldOut, OwnScores
from starling.train.link_sources import held_by, held_by_worker, training_share, training_source
from starling.train.link_task import LinkTask
from starling.train.link_team import EdgeLookup, TeamLinkWork, TeamScores
from starling.train.link_work import OwnLinkWork
from starling.train.setup import (
    Setup,
    budget,
    check_device,
    check_outputs,
    check_shapes,
    is_shared,
    layers_of,
    make_model,
    read_share,
    read_source,
    resolved_model,
    shapes_of,
    sums_raw_input,
)
from starling.train.tasks import Source
from starling.train.work import TeamWork, Work

Degrees = Callable[[], NDArray[Any]]
"""Training edges into the node at each position; with several workers all ask together."""

_DEFAULT_WIDTH = 128


def set_up_links(config: RunConfig, team: Team) -> Setup:
    """Open the data, hold edges out, make the model and the strategy, check that they fit together."""
    check_device(config.run.device)
    settings = resolved_model(config.model)
    how = read_settings(config.strategy.name, config.strategy.settings)
    width = config.link.width or settings.get("hidden", _DEFAULT_WIDTH)
    task = LinkTask(config.link, config.task, width)
    memory = budget(config)
    source = read_share(config, memory, team) if is_shared(config) else read_source(config, memory)
    embeddings = table_of(source.features)
    check_embeddings(embeddings is not None, config.sync.name)
    _check_standard(config, source)
    held = held_by_worker(source) if isinstance(source, WorkerSource) else held_by(source)
    split = split_edges(held, config.link, config.run.seed)
    _check_validation(config, split_sizes(held, split)["val"])
    check_shapes(config, source.features.width, task.outputs)
    shapes = shapes_of(source, task.outputs)
    model = make_model(config, shapes)
    if ":" in config.model.name:
        check_outputs(config.model.name, model, source, task.outputs)
    run = _Run(config, how, task, held, split, layers_of(config, model))
    if isinstance(source, WorkerSource):
        work: Work = _team_work(run, source, model)
    else:
        work = _own_work(run, source, memory)
    data = config.data.model_copy(update={"path": config.data.path.resolve(), **asdict(shapes)})
    final = config.model_copy(
        update={
            "data": data,
            "model": Choice(name=config.model.name, settings=dict(settings)),
            "strategy": Choice(name=config.strategy.name, settings=how.model_dump()),
            "embedding": config.embedding.model_copy(update={"dim": 0 if embeddings is None else embeddings.width}),
            "task": config.task.model_copy(update={"name": task.kind, "metric": task.score.name}),
        }
    )
    return Setup(final, task, shapes, model, work, embeddings)


@dataclass(frozen=True, eq=False)
class _Run:
    """What is known of a run once its edges are split."""

    config: RunConfig
    how: Strategy.Settings
    task: LinkTask
    held: HeldEdges
    split: NDArray[np.uint8]
    layers: int

    def deal(self, source: Source, lists: Csr, parts: PartRanges | None, degree: Degrees) -> DealTask:
        """What is dealt out of a training graph; refuses one without a pair that is no edge."""
        config, held, link = self.config, self.held, self.config.link
        known = known_pairs(lists, held.position)
        check_possible(held.nodes, int(held.total(np.array([known.linked_to_all(held.position, held.nodes)]))[0]))
        cumulative = degree_weights(degree()) if link.negatives == "degree" else None
        negatives = NegativeSampler(link.negatives, link.count, held.nodes, held.directed, known, cumulative, parts)
        weight, relation = (_numbers(source.edge_tables.get(name)) for name in ("weight", "type"))
        graph = NeighbourSource(lists, len(held.position), held.position, weight)
        return DealTask(graph, negatives, self.layers, relation, config.run.seed, link.target_share, config.team.threads)

    def held_out(self, known: KnownPairs, are_edges: AreEdges) -> HeldOut:
        """What evaluations score."""
        return HeldOut(self.held, self.split, self.config.link, self.task.link_score, self.config.run.seed, known, are_edges)


def _own_work(run: _Run, source: GraphSource, memory: int) -> OwnLinkWork:
    """All of it in this process."""
    config, loop, held = run.config, run.config.run, run.held
    training = training_source(source, held, run.split)
    parts = None
    if config.link.negatives == "local" and read_json(source.path).get("format") == "starling-parts":
        opened = open_parts(source.path)
        parts = PartRanges(opened.offsets, opened.position_of_global, opened.global_of_position)
    deal = run.deal(training, training.incoming, parts, lambda: np.diff(training.incoming.offsets))
    known = known_pairs(held.lists, held.position)
    return OwnLinkWork(
        LinkStrategy(config.strategy.name, run.how, deal),
        Filler(training, seed=loop.seed, device=loop.device, reuse=loop.reuse),
        Inference(training, memory, loop.device, loop.reuse),
        OwnScores(run.held_out(known, lambda one, other: known.holds(other, one))),
    )


def _team_work(run: _Run, source: WorkerSource, model: nn.Module) -> TeamLinkWork:
    """One worker's share; all workers call this at the same time."""
    config, loop, held, team = run.config, run.config.run, run.held, source.team
    training = training_share(source, held, run.split)
    addresses = find_addresses(source.graph, team, source.calls.forward())
    parts = PartRanges(np.array(source.graph.manifest.offsets), addresses.position_of_global, addresses.global_of_position)

    def degree() -> NDArray[np.int64]:
        by_global = np.concatenate(team.all_lists(source.calls.forward(), np.diff(training.graph.incoming.offsets)))
        return by_global[addresses.global_of_position]

    common = {
        "graph": training.graph,
        "team": team,
        "layers": run.layers,
        "boundary": Boundary(training.graph, config.team.boundary, loop.seed),
    }
    deal = run.deal(training, training.graph.incoming, parts, degree)
    edges = split_sizes(held, run.split)["train"]
    strategy = TeamLinks(config.strategy.name, run.how, deal, edges, addresses, **common)
    raw = not source.features.learnt and sums_raw_input(model, training)
    mirrors = training.mirrors_of(training.x) if raw else None
    whole = training.local_graph(training.graph.whole_layer, training.calls)
    filler = TeamFiller(training, whole, loop.seed, loop.reuse, False, mirrors, config.team.overlap, config.team.wire)
    known = known_pairs(held.lists, held.position)
    everywhere = EdgeLookup(addresses, team, source.calls, known)
    return TeamLinkWork(
        strategy,
        TeamWork(training, strategy.seeds, filler, run.layers),
        TeamScores(run.held_out(known, everywhere), training, addresses),
    )


def _numbers(table: Tensor | None) -> NDArray[Any] | None:
    return None if table is None else table.numpy()


def _check_validation(config: RunConfig, edges: int) -> None:
    wanted = "--patience" if config.run.patience else "--schedule plateau" if config.schedule.name == "plateau" else None
    if wanted and not edges:
        raise InputError(f"{wanted} needs validation edges, and there are none. Leave it out, or give them a share.")


def _check_standard(config: RunConfig, source: Source) -> None:
    if config.data.normalize == "standard" and not source.split_sizes["train"]:
        raise InputError(
            "--normalize standard goes by training nodes, and link prediction has training edges. Pass --normalize rows or none."
        )
