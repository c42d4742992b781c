"""Packages import only downwards, in the order CONTRIBUTING.md gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import PACKAGE, ROOT, Module, modules


def order_of_packages(text: str) -> tuple[dict[str, float], set[str]]:
    """The height of each package in the sentence of CONTRIBUTING.md, and those that know only the lowest."""
    sentence = re.search(r"import only downwards:(.*?);(.*?)knows? only `core`", text, re.DOTALL)
    assert sentence is not None, "CONTRIBUTING.md no longer says in which order packages import"
    levels = [re.findall(r"\w+", level) for level in reversed(sentence[1].split(">"))]
    heights: dict[str, float] = {name: height for height, level in enumerate(levels) for name in level}
    only_core = set(re.findall(r"`(\w+)`", sentence[2]))
    return heights | dict.fromkeys(only_core, 0.5), only_core


HEIGHTS, ONLY_CORE = order_of_packages((ROOT / "CONTRIBUTING.md").read_text())


def imported_names(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Every dotted name a module imports, wherever it stands: at the top, in a function, or by a string."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
                base = ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])])
            yield from ((node, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node, argument.value


def upward_imports(module: Module) -> list[str]:
    """What a module imports from its own height or above, outside its own package."""
    if not module.package:
        return []  # the modules of ``starling`` itself only point at things
    wrong = []
    for node, name in imported_names(module):
        parts = name.split(".")
        if parts[0] != "starling" or name == "starling.__version__":
            continue
        other = parts[1] if len(parts) > 1 else ""
        allowed = other == module.package or (
            other in HEIGHTS
            and HEIGHTS[other] < HEIGHTS[module.package]
            and (module.package not in ONLY_CORE or other == "core")
        )
        if not allowed:
            wrong.append(f"{module.where(node)} imports {name}")
    return wrong


def test_every_package_has_a_height() -> None:
    assert HEIGHTS.keys() == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_order_is_read_as_it_is_meant() -> None:
    assert HEIGHTS["cli"] > HEIGHTS["train"] > HEIGHTS["engine"] > HEIGHTS["nn"] > HEIGHTS["plan"]
    assert HEIGHTS["plan"] > HEIGHTS["store"] == HEIGHTS["partition"] > HEIGHTS["stream"] > HEIGHTS["kernels"] > HEIGHTS["core"]
    assert {"config"} == ONLY_CORE
    several = "import only downwards: `top` > `left | right` > `core`; `this` and `that` know only `core`."
    heights = {"top": 2, "left": 1, "right": 1, "core": 0, "this": 0.5, "that": 0.5}
    assert order_of_packages(several) == (heights, {"this", "that"})


def test_imports_only_go_down() -> None:
    assert [line for module in modules() for line in upward_imports(module)] == []


@pytest.mark.parametrize(
    ("package", "source", "count"),
    [
        ("core", "from starling.kernels.csr import Csr", 1),
        ("kernels", "from starling.core import npy", 0),
        ("kernels", "import starling.core.npy", 0),
        ("kernels", "import starling.store.graph", 1),
        ("kernels", "from starling import store", 1),
        ("kernels", "from starling import __version__", 0),
        ("kernels", "def f():\n    from starling.cli.main import main", 1),
        ("kernels", "from ..store import graph", 1),
        ("kernels", "from . import parallel", 0),
        ("kernels", "from .parallel import parallel_for", 0),
        ("kernels", "import importlib\nimportlib.import_module('starling.nn.layers')", 1),
        ("store", "from starling.partition.flock import flock", 1),
        ("nn", "from starling.engine.plan import Plan", 1),
        ("config", "from starling.kernels.csr import Csr", 1),
        ("config", "from starling.core.errors import InputError", 0),
        ("config", "from starling.stream.raw import RawGraph", 1),
        ("train", "from starling.config.settings import checked", 0),
        ("kernels", "import torch", 0),
    ],
)
def test_the_test_can_tell(package: str, source: str, count: int) -> None:
    module = Module(PACKAGE / package / "made_up.py", ast.parse(source))
    assert len(upward_imports(module)) == count


FOLDERS_OF_HYBRID = ("messages", "layers", "share", "planning", "computing")
"""In the order of `engine/hybrid/README.md`: each imports only those before it."""


def test_folders_of_the_hybrid_engine_follow_the_data() -> None:
    wrong = []
    files = [path.stem for path in (PACKAGE / "engine" / "hybrid").glob("[a-z]*.py")]  # which put it all together
    for height, folder in enumerate(FOLDERS_OF_HYBRID):
        above = tuple(f"starling.engine.hybrid.{other}" for other in (*FOLDERS_OF_HYBRID[height + 1 :], *files))
        for module in modules():
            if module.name.startswith(f"starling.engine.hybrid.{folder}"):
                wrong += [module.where(node) for node, name in imported_names(module) if name.startswith(above)]
    assert wrong == []
    folders = {path.parent.name for path in (PACKAGE / "engine" / "hybrid").glob("*/__init__.py")}
    assert folders == set(FOLDERS_OF_HYBRID)


def test_no_star_imports() -> None:
    stars = [
        module.where(node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    assert stars == []


def test_modules_are_found() -> None:
    names = {module.name for module in modules()}
    assert {"starling", "starling.core", "starling.core.npy", "starling.kernels.parallel"} <= names
    assert Path(PACKAGE / "core").is_dir()
