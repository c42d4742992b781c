"""The project's own files, as the policy tests read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "starling"


@dataclass(frozen=True)
class Module:
    """A module of the package, parsed."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        """``starling.core.npy``, or ``starling.core`` for its ``__init__.py``."""
        parts = self.path.relative_to(PACKAGE.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        """``core`` for everything below ``starling/core``, empty for the modules of ``starling`` itself."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else ""

    def where(self, node: ast.AST) -> str:
        """A place to look at, as editors understand it."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"

    def calls(self) -> Iterator[ast.Call]:
        """Every call in the module."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return tuple(Module(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is, or is about to be, under version control."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(path for path in (ROOT / name for name in sorted(set(listed.split("\0"))) if name) if path.is_file())
