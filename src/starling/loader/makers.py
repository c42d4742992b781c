"""Which PyG object a graph's batches are."""

from __future__ import annotations

from starling.engine.data.kv import KeyValueStore
from starling.loader.pyg_batch import DataMaker, PlainMaker
from starling.loader.typed_batch import TypedMaker
from starling.store.parts import Parts


def make_maker(parts: Parts, store: KeyValueStore) -> DataMaker:
    """``HeteroData`` where node types have names, else ``Data``."""
    typed = bool(parts.manifest.node_types) and "type" in parts.manifest.node_tables
    return (TypedMaker if typed else PlainMaker)(parts, store)
