"""`NeighborLoader`: PyG's loader of the same name, on parts of a graph, in every process of a script that torchrun started.

    loader = NeighborLoader("parts", [15, 10], batch_size=1024, input_nodes="train", shuffle=True)
    for batch in loader:                                   # a torch_geometric.data.Data, or HeteroData where nodes have types
        out = model(batch.x, batch.edge_index)[: batch.batch_size]

Ranks share the input nodes; neighbours and features come from all parts, wherever they lie. Choices are keyed by (seed, epoch,
step, node): for given seeds a batch is the same on any number of ranks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from starling.comm.tags import Channel
from starling.comm.team import Team
from starling.core.errors import InputError, nearest
from starling.core.manifest import read_json
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.neighbours import AllParts, OwnParts
from starling.engine.data.places import Places, open_places
from starling.engine.hybrid.messages.calls import Calls
from starling.engine.same_parts import check_same_parts
from starling.loader.makers import make_maker
from starling.loader.overview import Overview
from starling.loader.pyg_batch import Fanouts
from starling.loader.ranks import team_of_script
from starling.loader.seeds import NO_SEEDS, SeedBatch, Seeds
from starling.loader.subgraph import SubgraphSampler
from starling.plan.background import Background
from starling.plan.mini import Mini, hop_samplers
from starling.plan.registry import read_settings
from starling.plan.source import EdgeColumns

_CALLS = 64
"""Messages of one loader's step; loaders of a script have numbers of their own."""
_MOST_LOADERS = 64
_OF_PROCESSES = {"num_workers", "persistent_workers", "prefetch_factor", "pin_memory", "filter_per_worker", "worker_init_fn"}
"""Arguments of PyG's loader that are about the processes it prepares batches in."""


class NeighborLoader:
    """Batches of sampled neighbourhoods, as PyG's NeighborLoader gives them.

    `input_nodes` are the nodes to start from: the name of a mask ("train"), a mask, node numbers of the imported graph, or None for
    all; of a typed graph ("paper", mask) or ("paper", numbers within the type). `fanouts` are neighbours a hop, −1 for all; of a
    typed graph they hold for each edge type; PyG's name for them, `num_neighbors`, will do. `pad` gives every rank the same number
    of batches, so that collectives of the script never hang; without it every seed comes once, and ranks may differ by one batch.
    By default seeds that are shuffled, to train, are padded and others, to be scored, are not. `local_only` stays within a rank's
    own parts and their halo.
    """

    def __init__(
        self,
        parts: Path | str,
        fanouts: Fanouts | None = None,
        batch_size: int = 1,
        *,
        input_nodes: Any = "train",
        shuffle: bool = False,
        drop_last: bool = False,
        pad: bool | None = None,
        replace: bool = False,
        local_only: bool = False,
        seed: int = 0,
        prefetch: int = 2,
        team: Team | None = None,
        num_neighbors: Fanouts | None = None,
        **others: Any,
    ) -> None:
        _refuse(others)
        path, fanouts = _checked_path(parts), _checked_fanouts(fanouts, num_neighbors)
        self._team = team if team is not None else team_of_script()
        self._number = _loader_number(self._team)
        self._places = _opened(path, self._team)
        self.parts = self._places.parts
        overview = Overview(self._places, Calls(self._number, Channel.SETUP))
        self._maker = make_maker(overview, KeyValueStore(self._places))
        hops = self._maker.hops(fanouts)
        settings = read_settings(Mini.name, {"fanouts": self._maker.fanouts(fanouts), "replace": replace})
        assert isinstance(settings, Mini.Settings)
        around = (OwnParts if local_only else AllParts)(
            self._places,
            lambda lists: hop_samplers(settings, lists, hops, None),
            EdgeColumns(relations=self._maker.relations if settings.type_fanouts is not None else 0),
        )
        self._sampler = SubgraphSampler(around, hops, seed)
        positions = self._maker.positions(input_nodes)
        self._seeds = Seeds(
            np.asarray(overview.global_of_position[positions], np.int64),
            positions,
            batch_size,
            self._places.homes,
            self._team.rank,
            seed=seed,
            shuffle=shuffle,
            pad=shuffle if pad is None else pad,
            drop_last=drop_last,
            own_only=local_only,
        )
        self._prefetch, self._epoch = prefetch, 0

    def __len__(self) -> int:
        """Batches of this rank in an epoch; with `pad` the same on every rank."""
        return len(self._seeds)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from 1; otherwise each one is the next."""
        self._epoch = epoch - 1

    def __iter__(self) -> Iterator[Any]:
        """One epoch, prepared in the background.

        Where ranks of other hosts are asked, batches are made only when they are wanted: a script may stop in the middle, and
        nobody may then wait for an answer to a batch that others did not come to.
        """
        self._epoch += 1
        batches = self._batches(self._epoch)
        if not self._prefetch or self._places.far:
            yield from batches
            return
        with Background(batches, stage="loading batches", depth=self._prefetch) as ready:
            yield from ready

    def _batches(self, epoch: int) -> Iterator[Any]:
        for step, seeds in enumerate(self._seeds.epoch(epoch)):
            yield self._batch(seeds, epoch, step)
        if self._places.far:  # ranks with more batches still ask this one: it answers, with nothing to ask itself
            for step in range(len(self), self._seeds.most_batches):
                self._batch(NO_SEEDS, epoch, step)

    def _batch(self, seeds: SeedBatch, epoch: int, step: int) -> Any:
        first = self._number * 2 * _CALLS
        number = epoch * self._seeds.most_batches + step  # messages of a batch go by it: the same on every rank
        found = self._sampler.sample(seeds.ids, epoch, step, Calls(number, Channel.SAMPLE, first))
        return self._maker.batch(found, seeds.input_id, Calls(number, Channel.FETCH, first))


def _refuse(others: Mapping[str, Any]) -> None:
    """What PyG's loader takes and this one does not, in a sentence each."""
    for name in others:
        if name in _OF_PROCESSES:
            raise InputError(
                f"NeighborLoader takes no '{name}': batches are prepared by a thread, `prefetch` of them ahead. Leave it out."
            )
        known = [name for name in inspect.signature(NeighborLoader).parameters if name != "others"]
        raise InputError(f"NeighborLoader takes no '{name}'. Leave it out. {nearest(name, known)}")


def _checked_fanouts(fanouts: object, num_neighbors: object) -> Fanouts:
    """Neighbours a hop under either name."""
    if fanouts is not None and num_neighbors is not None:
        raise InputError("Expected the neighbours to sample once, got both fanouts and num_neighbors. Leave one out.")
    given = num_neighbors if fanouts is None else fanouts
    if not isinstance(given, Sequence | Mapping) or not given:
        raise InputError(f"Expected the neighbours to sample in each hop, such as [15, 10], got {given!r}.")
    return given


def _checked_path(parts: object) -> Path:
    """The path of a parts directory; what a PyG script hands its loader instead is told apart."""
    if not isinstance(parts, Path | str):
        raise InputError(
            f"Expected the path of a parts directory, got a {type(parts).__name__}. Write it once with starling.from_pyg(data, "
            '"graph"), then: starling partition graph -p 2 -o parts.'
        )
    if read_json(Path(parts)).get("format") == "starling-graph":
        raise InputError(f"{parts} is a graph that is not cut into parts yet. Run: starling partition {parts} -p 2 -o PARTS.")
    return Path(parts)


def _opened(path: Path, team: Team) -> Places:
    """The parts as this rank sees them: a host must have the shards of its own ranks, one host all of the directory."""
    places = open_places(path, team)
    if places.far:
        check_same_parts(path, places.parts.manifest, team)
    else:
        places.parts.manifest.check_sizes(path)
    return places


_loaders: WeakKeyDictionary[Team, int] = WeakKeyDictionary()


def _loader_number(team: Team) -> int:
    """Loaders are numbered in the order in which a script makes them, the same on every rank."""
    number = _loaders.get(team, 0)
    _loaders[team] = number + 1
    return number % _MOST_LOADERS
