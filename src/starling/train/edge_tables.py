"""The edge tables that a run must have, and one sentence for a graph without."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from starling.core.errors import InputError
from starling.core.manifest import read_json
from starling.plan.fanouts import names_types
from starling.train.config import RunConfig

_OF_MODEL = {"gate": "attr", "rgcn": "type", "rgat": "type"}


def edge_tables_of(config: RunConfig) -> tuple[str, ...]:
    """The tables that a model and its strategy read, by name."""
    return tuple(sorted({table for table, _, _ in _wanted(config) if table != "time"}))


def check_edge_tables(config: RunConfig, tables: Collection[str]) -> None:
    """Refuse a graph that lacks a table."""
    for table, reader, instead in _wanted(config):
        if table not in tables:
            raise InputError(
                f"{reader} reads the edge table '{table}', and {config.data.path} has none. Import the edges with one, or "
                f"{instead}."
            )


def check_stored_edge_tables(config: RunConfig) -> None:
    """The same of the graph or parts directory of a run."""
    tables = read_json(config.data.path).get("edge_tables")
    if isinstance(tables, dict):  # else it is no graph, as whoever opens it will say
        check_edge_tables(config, tables)


def _wanted(config: RunConfig) -> Iterator[tuple[str, str, str]]:
    """Each table, who reads it, and what to do without."""
    model, strategy = config.model.settings, config.strategy.settings
    if config.model.name in _OF_MODEL:
        yield _OF_MODEL[config.model.name], f"The model {config.model.name}", "choose another model"
    if model.get("relational"):
        yield "type", "A model with model.relational", "leave it out"
    if _by_relation(strategy):
        yield "type", "A fan-out by relation", "give plain numbers, such as --fanouts 15,10"
    if model.get("edge_weights"):
        yield "weight", "A model with model.edge_weights", "leave it out"
    if strategy.get("sampling") == "weighted":
        yield "weight", "Weighted sampling", "set strategy.sampling=uniform"
    if config.data.before is not None:
        yield "time", "--before", "leave it out"
    if strategy.get("past"):
        yield "time", "strategy.past", "leave it out"


def _by_relation(strategy: Mapping[str, Any]) -> bool:
    return bool(strategy.get("type_fanouts")) or names_types(strategy.get("fanouts"))
