"""Which PyG object a graph's batches are."""

from __future__ import annotations

from starling.engine.data.kv import KeyValueStore
from starling.loader.overview import Overview
from starling.loader.pyg_batch import DataMaker, PlainMaker
from starling.loader.typed_batch import TypedMaker


def make_maker(overview: Overview, store: KeyValueStore) -> DataMaker:
    """``HeteroData`` where node types have names, else ``Data``."""
    manifest = overview.parts.manifest
    typed = bool(manifest.node_types) and "type" in manifest.node_tables
    return (TypedMaker if typed else PlainMaker)(overview, store)
