"""Link prediction by workers that each compute pairs of their own: as many target edges each, most of which end in their nodes.

A step's edges are those of one process (plan/links/deal.py), so over all workers a step is the same; what a worker cannot know by
itself, how many edges a step has, workers tell one another once an epoch. Shards hold all edges: held-out ones are told apart by a
bit for every edge of the graph, the one thing that grows with all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.engine.data.kept_lists import looped_by, of_kept
from starling.engine.data.neighbours import MakeHops
from starling.engine.data.places import Places
from starling.engine.data.schedule import Schedule, Scheduled
from starling.engine.hybrid.share.row_requests import Addresses
from starling.kernels.csr import Csr
from starling.plan.links.deal import Deal
from starling.plan.links.even import even_pairs
from starling.plan.links.exclude import WithoutTargets
from starling.plan.links.pairs import Pairs, StepPairs
from starling.plan.links.strategy import TargetPicker
from starling.plan.source import NeighbourSource

_COUNTS, _MOVED = 7900, 7901
"""Numbers of messages: how many edges a worker has in each step of an epoch, and edges that move to have others compute them."""


@dataclass(frozen=True, eq=False)
class ScheduledLinks(Scheduled):
    """A step whose targets are the ends of pairs; `total` are the target edges of all workers."""

    pairs: Pairs


class LinkSchedule(Schedule):
    """Deals out the steps of a run to one worker; negatives of kind `batch` come from its own targets."""

    def __init__(self, picker: TargetPicker, addresses: Addresses, team: Team) -> None:
        self._picker, self._addresses, self._team = picker, addresses, team
        self.steps_per_epoch = picker.deal.steps
        self._counts: tuple[int, NDArray[np.int64]] | None = None
        self._lock = threading.Lock()

    def step(self, epoch: int, step: int) -> ScheduledLinks:
        """This worker's target edges of a step, their negatives, and the ends of both."""
        picker, task = self._picker, self._picker.task
        edges = picker.edges(epoch, step)
        pool = edges[np.argsort(edges.number, kind="stable")]
        drawn = StepPairs(edges, task.negatives.draw(edges, picker.key(epoch, step), pool, epoch))
        with self._team.ledger.apart() as sent:
            counts, tag = self._epoch_counts(epoch)[:, step], make_tag(Channel.SAMPLE, self._number(epoch, step), _MOVED)
            drawn = even_pairs(drawn, counts, self._team.rank, lambda lists: self._team.swap_lists(tag, lists))
        ids = np.asarray(self._addresses.global_of_position[drawn.ends], np.int64)
        seeds, place = np.unique(ids, return_inverse=True)
        number, total = self._number(epoch, step), int(counts.sum())
        return ScheduledLinks(number, epoch, step, seeds, total, pairs=drawn.placed(place), sent=sent)

    def _epoch_counts(self, epoch: int) -> NDArray[np.int64]:
        """Target edges of each worker in each step of an epoch [W, steps]."""
        with self._lock:
            if self._counts is None or self._counts[0] != epoch:
                tag = make_tag(Channel.SAMPLE, self._number(epoch, 0), _COUNTS)
                self._counts = (epoch, np.stack(self._team.all_lists(tag, self._picker.sizes(epoch))))
            return self._counts[1]


def training_bits(number: NDArray[Any], edges: int, total: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.uint8]:
    """A bit for every edge of the graph, set for training edges; `number` are this worker's, `total` sums over all workers."""
    words = np.zeros(-(-edges // 64) * 8, np.uint8)
    numbers = np.asarray(number, np.int64)
    np.bitwise_or.at(words, numbers >> 3, (1 << (numbers & 7)).astype(np.uint8))
    summed = total(words.view(np.int64))  # each edge is with one worker, so a sum is a union
    return np.ascontiguousarray(summed).view(np.uint8)


def training_degrees(places: Places, bits: NDArray[np.uint8]) -> Callable[[int], NDArray[np.int64]]:
    """By part: how many training edges come into each of its own nodes."""

    def of_part(part: int) -> NDArray[np.int64]:
        shard = places.parts.shard(part)
        offsets = np.asarray(shard.incoming.offsets[: shard.owned + 1])
        before = np.concatenate([[0], np.cumsum(_trains(shard.incoming, bits)[: offsets[-1]], dtype=np.int64)])
        return np.diff(before[offsets])

    return of_part


def training_loops(places: Places, bits: NDArray[np.uint8]) -> Callable[[int], NDArray[np.bool_]]:
    """By part: which of its own nodes have a self-loop among the training edges."""

    def of_part(part: int) -> NDArray[np.bool_]:
        shard = places.parts.shard(part)
        return looped_by(shard, _trains(shard.incoming, bits))

    return of_part


def _trains(lists: Csr, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which entries of the lists are training edges."""
    number = np.asarray(lists.edge, np.int64)
    found: NDArray[np.bool_] = (bits[number >> 3] >> (number & 7)) & 1 == 1
    return found


def link_hops(make_hops: MakeHops, bits: NDArray[np.uint8], deal: Deal) -> MakeHops:
    """Samplers that know training edges only, without the targets of their step."""

    training = of_kept(make_hops, lambda lists: _trains(lists.incoming, bits))

    def made(lists: NeighbourSource) -> list[WithoutTargets]:
        return [WithoutTargets(sampler, lists, deal) for sampler in training(lists)]

    return made
