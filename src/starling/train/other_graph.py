"""Another graph than the one a run was trained on: does it have the types and columns that the model's weights are for?

Weights go by the number of a type, and graphs of the same types may number them in another order: names tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from starling.core.errors import InputError
from starling.train.config import DataSettings, RunConfig
from starling.train.graph_checks import learns_by_relation, type_names
from starling.train.model import Shapes


def check_like_trained(config: RunConfig, found: Shapes) -> None:
    """Refuse to predict on the graph of `config`, of which these are the shapes, where the rest of it says otherwise."""
    data, names = config.data, type_names(config, found.type_widths)
    _check_names(data, "node", data.node_types, names["node_types"])
    _check_names(data, "edge", data.edge_types, names["edge_types"])
    for (number, expected), got in zip(enumerate(data.type_widths), found.type_widths, strict=False):
        name = data.node_types[number] if data.node_types else number
        _check_number(data, f"features for nodes of type '{name}'", expected, got)
    _check_number(data, "features a node", data.features, found.features)
    if found.type_widths and not data.type_widths:
        raise InputError(
            f"Expected features of one kind as the model was trained with, got a table for each type in {data.path}."
        )
    if learns_by_relation(config):
        _check_number(data, "edge types", data.relations, found.relations)
    _check_number(data, "attributes an edge", data.edge_features, found.edge_features)


def _check_number(data: DataSettings, what: str, trained: int | None, found: int) -> None:
    if trained is not None and trained != found:
        raise InputError(f"Expected {trained} {what} as the model was trained with, got {found} in {data.path}.")


def _check_names(data: DataSettings, noun: str, trained: Sequence[str], found: Sequence[str]) -> None:
    """Refuse other names; a run without any, whose types are numbers, says nothing."""
    if not trained or tuple(trained) == tuple(found):
        return
    one, other = [*trained, None], [*found, None]
    at = next(at for at, (name, got) in enumerate(zip(one, other, strict=False)) if name != got)
    expected, got = ("missing" if name is None else f"'{name}'" for name in (one[at], other[at]))
    raise InputError(
        f"Expected the {noun} types that the model was trained with, of which number {at} is {expected}, got one that is {got} in "
        f"{data.path}. Import it with the same types in the same order."
    )
