"""Classes a user wrote, by their place: ``mine.py:Net``. Models, strategies and partitioners are all found this way."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Self, TypeVar

from starling.core.errors import InputError, nearest

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class ClassPlace:
    """A class in a Python file."""

    file: Path
    name: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The place that ``file.py:Class`` tells; None for other names, such as ``gcn`` or ``pyg:SAGEConv``."""
        file, colon, name = text.rpartition(":")
        looks_like_a_file = "." in file or "/" in file
        return cls(Path(file), name) if colon and looks_like_a_file else None

    def __str__(self) -> str:
        return f"{self.file.as_posix()}:{self.name}"

    def load(self, base: type[Kind], what: str) -> type[Kind]:
        """Run the file and take the class out of it; it must be a complete subclass of `base`. `what` is what it is for."""
        if not self.name:
            raise InputError(f"Expected a class after the colon, as in {self.file}:{base.__name__}, got none.")
        if not self.file.is_file():
            raise InputError(f"There is no file {self.file} to load the {what} {self.name} from.")
        module = self._run(what)
        found = getattr(module, self.name, None)
        if found is None:
            own = [key for key, value in vars(module).items() if _is(value, base) and value.__module__ == module.__name__]
            hint = nearest(self.name, own) if own else f"It has no {base.__name__}."
            raise InputError(f"{self.file} has no class {self.name}. {hint}")
        if not _is(found, base):
            missing = ", ".join(sorted(getattr(base, "__abstractmethods__", ())))
            raise InputError(
                f"{self.name} in {self.file} must be a subclass of {base.__module__}.{base.__name__}"
                f"{f' with {missing}' if missing else ''}."
            )
        kind: type[Kind] = found
        return kind

    def _run(self, what: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"starling_{what}_{self.file.stem}", self.file)
        if spec is None or spec.loader is None:
            raise InputError(f"Expected a Python file such as mine.py with the {what} {self.name}, got {self.file}.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses and pydantic look their module up
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise InputError(f"{self.file} cannot be imported: {type(error).__name__}: {error}.") from error
        return module


def _is(value: object, base: type) -> bool:
    return isinstance(value, type) and issubclass(value, base) and not inspect.isabstract(value)
