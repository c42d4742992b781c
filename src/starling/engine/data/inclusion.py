"""How often batches will read a node: its vertex-inclusion probability, reckoned before training (SALIENT++ §3).

A batch holds each of a worker's n targets with probability p = batch / n. Hop by hop it takes min(f, d) of the d in-edges of every
node it holds, f being the hop's fan-out. Taking these choices as independent, node u is left out of everything up to hop h + 1 with

    s_{h+1}(u) = s_h(u) · Π_{u→v} (1 − (1 − s_h(v)) · min(1, f_h / d(v))),        s_0 = 1 − p on targets, else 1,

and is included at all with 1 − s_H(u). With fan-outs by relation f and d are those of the edge's relation. Targets and edges that
share nodes are not independent, so this is an estimate, good enough to rank nodes by; a rough one where neighbours are drawn by
weight, with replacement or from a target's past. One pass over the edges a hop; lists on other hosts are worked on by their
owners, in rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.compile import compiled
from starling.engine.data.cache import StaticCache
from starling.engine.data.kv import KeyValueStore
from starling.engine.data.local import global_ids
from starling.engine.data.places import Places
from starling.engine.data.rounds import receive_arrays, send_array
from starling.engine.hybrid.messages.calls import Calls
from starling.kernels.stitch import group_by_range
from starling.plan.fanouts import Fanout
from starling.store.parts import Shard
from starling.store.policies import TypedRanges


def inclusion_probability(
    places: Places,
    targets: NDArray[Any],
    share: float,
    fanouts: Sequence[Fanout | Sequence[Fanout]],
    calls: Calls,
    *,
    own_only: bool = False,
) -> NDArray[np.float32]:
    """The chance that a batch of this worker reads a node, for all nodes by global id [V].

    `targets` are the worker's training nodes, of which a batch takes a `share`; fan-outs are the targets' own first, each one for
    all edges or one a relation. With `own_only` neighbours are looked for in own parts alone (`--local-only`). Every worker calls
    this. Costs 12 bytes a node.
    """
    left_out = np.zeros(places.parts.manifest.nodes, np.float32)  # logarithms: products become sums, and small chances stay
    left_out[targets] = np.log1p(-min(share, 1.0)) if share < 1 else -np.inf
    for fanout in fanouts:
        held = np.flatnonzero(left_out)
        chance = -np.expm1(left_out[held])
        by_part = group_by_range(held, places.parts.offsets)
        limit = _limits(fanout)
        for part in places.own if own_only else places.here:
            found = by_part.of(part, part + 1)
            if len(found):
                shard = places.parts.shard(part)
                _spread(shard, held[found] - shard.first_global, chance[found], limit, global_ids(shard), left_out)
        if places.far and not own_only:
            _ask_others(
                places,
                {w: by_part.of(places.parts_of(w).start, places.parts_of(w).stop) for w in places.far},
                held,
                chance,
                limit,
                left_out,
                calls,
            )
    return -np.expm1(left_out)


def hottest(chance: NDArray[np.float32], places: Places, count: int) -> NDArray[np.int64]:
    """The `count` nodes of other hosts that are read most often, ascending by id; nodes that are never read are left out."""
    elsewhere = np.ones(len(chance), np.bool_)
    for part in places.here:
        elsewhere[places.parts.offsets[part] : places.parts.offsets[part + 1]] = False
    nodes = np.flatnonzero(elsewhere & (chance > 0))
    order = np.argsort(-chance[nodes], kind="stable")
    return np.sort(nodes[order[:count]])


def fill_cache(store: KeyValueStore, names: Sequence[str], size: int, chance: NDArray[np.float32], calls: Calls) -> None:
    """Cache the likeliest nodes' rows of some node tables within `size` bytes in all; every worker calls this.

    Tables are of all nodes, or of one type each; a node has a row in one of them at most.
    """
    ids = hottest(chance, store.places, size // max(1, *(store.row_bytes(name) for name in names)))
    manifest = store.places.parts.manifest
    of_type = {name: manifest.node_tables[name].of_type for name in names}
    codes = TypedRanges(manifest).types_of(ids) if any(of_type.values()) else None
    for name, kind in of_type.items():
        mine = ids if kind is None or codes is None else ids[codes == manifest.node_types.index(kind)]
        store.use_cache(name, StaticCache(mine, store.pull(name, mine, calls, counted=False), len(chance)))


def _ask_others(
    places: Places,
    theirs: dict[int, NDArray[np.int64]],
    held: NDArray[np.int64],
    chance: NDArray[np.float32],
    limit: NDArray[np.float64],
    left_out: NDArray[np.float32],
    calls: Calls,
) -> None:
    """Let owners on other hosts work on their lists, and do the same for them."""
    team, far = places.team, places.far
    chances, answers, values = calls.next_tag(), calls.next_tag(), calls.next_tag()
    asked = team.ask(far, calls.next_tag(), {worker: held[found] for worker, found in theirs.items()})
    for worker, found in theirs.items():
        send_array(team, worker, chances, chance[found])
    given = receive_arrays(team, chances, {worker: len(nodes) for worker, nodes in asked.items()}, np.float32)
    reached = {worker: _reached(places, nodes, given[worker], limit) for worker, nodes in asked.items()}
    told = team.ask(far, answers, {worker: ids for worker, (ids, _) in reached.items()})
    for worker, (_, logs) in reached.items():
        send_array(team, worker, values, logs)
    logs_of = receive_arrays(team, values, {worker: len(told[worker]) for worker in told}, np.float32)
    for worker in sorted(told):  # in the order of ranks: sums of float32 depend on it
        left_out[told[worker]] += logs_of[worker]


def _reached(
    places: Places, nodes: NDArray[np.int64], chance: NDArray[np.float32], limit: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """What own lists of these nodes reach: global ids, ascending, and the logarithms to be added."""
    by_part = group_by_range(nodes, places.parts.offsets)
    ids, logs = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for part in places.own:
        found = by_part.of(part, part + 1)
        if len(found):
            shard = places.parts.shard(part)
            local = np.zeros(shard.local, np.float32)
            _spread(shard, nodes[found] - shard.first_global, chance[found], limit, np.arange(shard.local), local)
            rows = np.flatnonzero(local)
            ids.append(global_ids(shard)[rows])
            logs.append(local[rows])
    every, place = np.unique(np.concatenate(ids), return_inverse=True)
    total = np.zeros(len(every), np.float32)
    np.add.at(total, place, np.concatenate(logs))
    return every, total


def _limits(fanout: Fanout | Sequence[Fanout]) -> NDArray[np.float64]:
    """The fan-out of each relation [R], or of all edges [1]."""
    each = [fanout] if isinstance(fanout, int | str) else fanout
    return np.array([np.inf if one == "all" else float(one) for one in each])


def _spread(
    shard: Shard,
    rows: NDArray[np.int64],
    chance: NDArray[np.float32],
    limit: NDArray[np.float64],
    name_of: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    lists = shard.incoming
    kind = np.asarray(shard.edge_table("type")) if len(limit) > 1 else np.empty(0, np.uint8)
    _add_logarithms(np.asarray(lists.offsets), np.asarray(lists.neighbours), kind, rows, chance, limit, name_of, out)


@compiled
def _add_logarithms(
    offsets: NDArray[np.int64],
    neighbours: NDArray[Any],
    kind: NDArray[Any],
    rows: NDArray[np.int64],
    chance: NDArray[np.float32],
    limit: NDArray[np.float64],
    name_of: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """out[name of u] += log(1 − chance(v) · min(1, limit / d(v))) for every edge u → v of the given rows v.

    With a limit for each relation, d(v) counts edges of the relation of u → v, its `kind`; with one limit, all: `kind` is empty.
    """
    relations = len(limit)
    degree, change = np.zeros(relations, np.int64), np.zeros(relations, np.float32)
    for i in range(len(rows)):
        first, last = offsets[rows[i]], offsets[rows[i] + 1]
        degree[:] = 0
        if relations == 1:
            degree[0] = last - first
        else:
            for k in range(first, last):
                degree[kind[k]] += 1
        for r in range(relations):
            taken = chance[i] * min(1.0, limit[r] / max(degree[r], 1))
            change[r] = np.float32(np.log1p(-min(taken, 1.0))) if taken < 1.0 else np.float32(-np.inf)
        for k in range(first, last):
            out[name_of[neighbours[k]]] += change[kind[k] if relations > 1 else 0]
