"""No module imports one that imports it in turn, at the top or inside a function."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.policy.test_imports import imported_names
from tests.support.source import PACKAGE, Module, modules

ALLOWED = {("starling.cli.demo", "starling.cli.main"): "the demo runs the commands that it shows, and is one itself"}
"""Imports that close a cycle, each with its reason. They stand inside a function."""


def for_types_only(tree: ast.Module) -> set[int]:
    """What stands under ``if TYPE_CHECKING``, by identity: it is never imported."""
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(inner) for test in tests for statement in test.body for inner in ast.walk(statement)}


def imported_modules(module: Module, known: Collection[str]) -> set[str]:
    """Those of the known modules that a module imports; of ``a.b.name``, ``a.b`` where ``name`` is no module."""
    ignored, names = for_types_only(module.tree), set()
    for node, name in imported_names(module):
        if id(node) not in ignored:
            names.add(name if name in known else name.rpartition(".")[0])
    return names & set(known) - {module.name}


def import_graph(some: Iterable[Module]) -> dict[str, set[str]]:
    """What each module imports of the others."""
    by_name = {module.name: module for module in some}
    return {name: imported_modules(module, by_name.keys()) for name, module in by_name.items()}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Some modules that import one another in turn, the first of them again at the end; empty where there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def without(graph: dict[str, set[str]], imports: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The graph without some imports."""
    left_out = set(imports)
    return {name: {other for other in others if (name, other) not in left_out} for name, others in graph.items()}


def test_modules_do_not_import_in_circles() -> None:
    assert cycle(without(import_graph(modules()), ALLOWED)) == []


@pytest.mark.parametrize("allowed", ALLOWED, ids=" imports ".join)
def test_what_is_allowed_closes_a_cycle(allowed: tuple[str, str]) -> None:
    assert cycle(without(import_graph(modules()), ALLOWED.keys() - {allowed})), "take it out of ALLOWED"


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ("from starling.store.second import Thing", "from starling.store.first import Other", 3),
        ("from starling.store import second", "def f():\n    import starling.store.first", 3),
        ("from .second import Thing", "from . import first", 3),
        ("from starling.store.second import Thing", "if TYPE_CHECKING:\n    from starling.store.first import Other", 0),
        ("from starling.store.second import Thing", "from starling.core import npy", 0),
    ],
)
def test_the_test_can_tell(first: str, second: str, length: int) -> None:
    sources = {"first": first, "second": second}
    made_up = [Module(PACKAGE / "store" / f"{name}.py", ast.parse(source)) for name, source in sources.items()]
    assert len(cycle(import_graph(made_up))) == length
