"""A sampled neighbourhood as PyG's ``HeteroData``: nodes and edges taken apart by type, numbered within their types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.core.errors import InputError, nearest
from starling.engine.data.kv import KeyValueStore
from starling.engine.hybrid.messages.calls import Calls
from starling.loader.overview import Overview
from starling.loader.pyg_batch import DataMaker, Fanouts, chosen_nodes, node_tensor
from starling.loader.subgraph import Subgraph
from starling.plan.fanouts import OTHERS
from starling.store.by_type import EdgeType, names_of_kinds
from starling.store.parts import Shard
from starling.store.policies import TypedRanges
from starling.store.to_objects import PYG_EDGES, PYG_NODES, to_tensor

_LABELS = ("y", "train", "val", "test")


class TypedMaker(DataMaker):
    """``HeteroData`` of a graph whose node types have names; 12 bytes a node are held.

    What it knows of all parts it hears at once: later no rank could tell when to speak.
    """

    def __init__(self, overview: Overview, store: KeyValueStore) -> None:
        super().__init__(overview, store)
        self._types = self.parts.manifest.node_types
        ranges, nodes = TypedRanges(self.parts.manifest), self.parts.manifest.nodes
        self._code = ranges.types_of(np.arange(nodes)).astype(np.int32)
        by_position = self._code[np.asarray(overview.global_of_position)]
        rank = np.empty(len(by_position), np.int64)
        self._members = [np.flatnonzero(by_position == code) for code in range(len(self._types))]
        for members in self._members:
            rank[members] = np.arange(len(members))
        self._rank = rank[np.asarray(overview.position_of_global)]
        self._labelled = set(overview.told(self._labelled_in).tolist())
        self._kinds = np.unique(overview.told(self._kinds_in))
        self._input_type = ""

    def fanouts(self, given: Fanouts) -> Any:
        """One list for every edge type, or by edge type: a triple, the relation's name, or ``*`` for those not named."""
        if "type" not in self.parts.manifest.edge_tables:
            if isinstance(given, Mapping):
                raise InputError("Fan-outs by edge type need edges with types, got a graph without. Give one number a hop.")
            return list(given)
        if not isinstance(given, Mapping):
            return {OTHERS: list(given)}
        return {"__".join(name) if isinstance(name, tuple) else name: list(numbers) for name, numbers in given.items()}

    def hops(self, given: Fanouts) -> int:
        """As many as a list has numbers."""
        lengths = {len(numbers) for numbers in given.values()} if isinstance(given, Mapping) else {len(given)}
        if len(lengths) != 1:
            raise InputError(f"Expected as many fan-outs for every edge type, got lists of {sorted(lengths)} numbers.")
        return lengths.pop()

    @property
    def relations(self) -> int:
        """How many edge types there are to sample by."""
        return len(self.parts.manifest.edge_types) or (int(self._kinds.max(initial=-1)) // len(self._types) ** 2 + 1)

    def positions(self, input_nodes: Any) -> NDArray[np.int64]:
        """A type, a stored mask whose nodes are of one type, or a type with a mask or numbers within it."""
        if isinstance(input_nodes, str) and input_nodes not in self._types:
            found = self.named_mask(input_nodes)
            codes = np.unique(self._code[np.asarray(self.overview.global_of_position[found])])
            if len(codes) > 1:
                names = ", ".join(self._types[code] for code in codes)
                raise InputError(f"Expected seeds of one type, got nodes of {names} in '{input_nodes}'. Pass (type, mask).")
            self._input_type = self._types[codes[0]] if len(codes) else self._types[0]
            return found
        name, chosen = input_nodes if isinstance(input_nodes, tuple) else (input_nodes, None)
        if name not in self._types:
            raise InputError(f"There is no node type '{name}' to start from. {nearest(str(name), self._types)}")
        self._input_type = name
        members = self._members[self._types.index(name)]
        if chosen is None:
            return members
        if isinstance(chosen, str):
            return np.intersect1d(self.named_mask(chosen), members)
        return members[chosen_nodes(chosen, len(members))]

    def batch(self, found: Subgraph, input_id: NDArray[np.int64], calls: Calls) -> Any:
        """Tables of every type; `n_id` are numbers within a type, the seeds are the first of theirs."""
        data = self._pyg.HeteroData()
        codes = self._code[found.nodes]
        local = np.empty(len(codes), np.int64)
        for code, name in enumerate(self._types):
            rows = np.flatnonzero(codes == code)
            local[rows] = np.arange(len(rows))
            self._fill_nodes(data[name], code, found.nodes[rows], calls)
        seeds = data[self._input_type]
        seeds.input_id, seeds.batch_size = to_tensor(input_id), len(input_id)
        self._fill_edges(data, found, codes, local, calls)
        return data

    def _fill_nodes(self, store: Any, code: int, ids: NDArray[np.int64], calls: Calls) -> None:
        store.num_nodes, store.n_id = len(ids), to_tensor(self._rank[ids])
        for name, table in self.parts.manifest.node_tables.items():
            plain = name.partition("@")[0]
            if name == "type" or table.of_type not in (None, self._types[code]):
                continue
            if plain in _LABELS and code not in self._labelled:
                continue  # only padding: no node of this type has a label
            store[PYG_NODES.get(plain, plain)] = node_tensor(
                plain, self.store.pull(name, ids, calls, of_type=self._types[code])
            )

    def _fill_edges(self, data: Any, found: Subgraph, codes: NDArray[np.int32], local: NDArray[np.int64], calls: Calls) -> None:
        names = [name for name in self.parts.manifest.edge_tables if name != "type"]
        tables = {name: self.store.pull(name, found.entry, calls, kind="edge") for name in names}
        relation = np.zeros(len(found.entry), np.int64)
        if "type" in self.parts.manifest.edge_tables:
            relation = self.store.pull("type", found.entry, calls, kind="edge").astype(np.int64)
        kind = _kind(relation, codes[found.source], codes[found.destination], len(self._types))
        for triple, number in self._triples:
            rows = np.flatnonzero(kind == number) if number is not None else np.empty(0, np.int64)
            store = data[triple]
            store.edge_index = to_tensor(np.stack([local[found.source[rows]], local[found.destination[rows]]]))
            for name, table in tables.items():
                store[PYG_EDGES.get(name, name)] = to_tensor(table[rows])

    def _labelled_in(self, shard: Shard) -> NDArray[np.int64]:
        """Node types of which some node of a part has a label or is in a split."""
        known = self.parts.manifest.node_tables
        code, there = np.asarray(shard.node_table("type")), np.zeros(shard.owned, np.bool_)
        for name in (name for name in _LABELS if name in known and known[name].of_type is None):
            values = np.asarray(shard.node_table(name))
            there |= values.any(axis=1) if values.ndim == 2 else values >= 0 if name == "y" else values.astype(bool)
        return np.unique(code[there]).astype(np.int64)

    def _kinds_in(self, shard: Shard) -> NDArray[np.int64]:
        """Every (relation, source type, destination type) that edges of a part have, as one number each; one pass over them."""
        end = int(shard.incoming.offsets[shard.owned])
        ids = np.concatenate([shard.first_global + np.arange(shard.owned), np.asarray(shard.halo_global)])
        code = self._code[ids.astype(np.int64)]
        lengths: NDArray[np.int64] = np.diff(shard.incoming.offsets[: shard.owned + 1])
        into = np.repeat(code[: shard.owned], lengths)
        typed = "type" in self.parts.manifest.edge_tables
        relation = np.asarray(shard.edge_table("type")[:end]) if typed else np.zeros(end)  # type: ignore[index]
        out_of = code[np.asarray(shard.incoming.neighbours[:end])]
        return np.unique(_kind(relation.astype(np.int64), out_of, into, len(self._types)))

    @cached_property
    def _triples(self) -> list[tuple[EdgeType, int | None]]:
        manifest = self.parts.manifest
        return list(names_of_kinds(manifest.node_types, manifest.edge_types, self._kinds))


def _kind(relation: NDArray[np.int64], source: NDArray[Any], destination: NDArray[Any], types: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (relation * types + source) * types + destination
    return found
