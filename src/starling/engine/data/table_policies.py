"""Which partition policy a table of the key-value store has, and which one a wish for rows of one type has."""

from __future__ import annotations

from starling.core.errors import InputError
from starling.engine.data.tables import Kind
from starling.store.parts_manifest import PartsManifest
from starling.store.policies import RangePolicy, edge_policy, node_policy


class TablePolicies:
    """The policies of tables by kind and name; each is made when it is first asked for."""

    def __init__(self, parts: PartsManifest) -> None:
        self._parts = parts
        self._kept: dict[tuple[Kind, str], str | None] = {}
        self._made: dict[tuple[Kind, str | None, bool], RangePolicy] = {}

    def keep(self, kind: Kind, name: str, of_type: str | None) -> None:
        """Tell of a table that is not in the parts: it has rows for all ids, or for those of one type alone."""
        self._kept[kind, name] = of_type

    def find(self, kind: Kind, name: str, of_type: str | None) -> RangePolicy:
        """The policy of all ids that a table has rows for, or of those of one type."""
        own = self._type_of(kind, name)
        if own is not None and of_type not in (None, own):
            raise InputError(
                f"Expected a wish for rows of the type '{own}', the only one that the {kind} table '{name}' has, got '{of_type}'."
            )
        key = (kind, of_type or own, own is not None)
        if key not in self._made:
            make = node_policy if kind == "node" else edge_policy
            self._made[key] = make(self._parts, of_type or own, alone=own is not None)
        return self._made[key]

    def _type_of(self, kind: Kind, name: str) -> str | None:
        if (kind, name) in self._kept:
            return self._kept[kind, name]
        stored = self._parts.node_tables if kind == "node" else self._parts.edge_tables
        return stored[name].of_type if name in stored else None
