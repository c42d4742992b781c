"""The one table of methods: it drives ``--method``, ``--help``, the docs and the contract test."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from starling.core.errors import InputError, nearest
from starling.partition.communities import Leiden, Louvain
from starling.partition.contract import Partitioner
from starling.partition.dbh import Dbh
from starling.partition.flock import Flock
from starling.partition.greedy import Greedy
from starling.partition.grid import Grid
from starling.partition.hashed import Hash
from starling.partition.hdrf import Hdrf
from starling.partition.kaminpar import KaMinPar
from starling.partition.metis import Metis
from starling.partition.mtkahypar import MtKaHyPar
from starling.partition.restream import Restream
from starling.partition.spring import Spring
from starling.partition.two_phase import TwoPhase
from starling.partition.uniform import Random

_CLASSES: tuple[type[Partitioner], ...] = (
    Random,
    Hash,
    Grid,
    Dbh,
    Greedy,
    Hdrf,
    TwoPhase,
    Spring,
    Restream,
    Flock,
    Metis,
    KaMinPar,
    MtKaHyPar,
    Louvain,
    Leiden,
)
METHODS: dict[str, type[Partitioner]] = {method.name: method for method in _CLASSES}


def find_method(name: str) -> type[Partitioner]:
    """The class of a method by its name, or a user's own by its place: ``mine.py:MyPartitioner``."""
    if name in METHODS:
        return METHODS[name]
    file, colon, class_name = name.rpartition(":")
    if colon:
        return _load_class(Path(file), class_name)
    raise InputError(f"There is no method '{name}'. {nearest(name, METHODS)}")


def make_method(name: str, settings: Mapping[str, object] | None = None) -> Partitioner:
    """A method with these settings (text is read as what the setting is), others at their defaults."""
    method = find_method(name)
    try:
        return method(method.Settings.model_validate(dict(settings or {})))
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(step) for step in first["loc"])
        if first["type"] == "extra_forbidden":
            known = method.Settings.model_fields
            hint = nearest(setting, known) if known else "It has no settings."
            raise InputError(f"The method {name} has no setting '{setting}'. {hint}") from error
        raise InputError(f"The setting '{setting}' of {name} is wrong: {first['msg']}; got {first['input']!r}.") from error


def _load_class(path: Path, class_name: str) -> type[Partitioner]:
    """Import a user's file and take the class out of it."""
    if not path.is_file():
        raise InputError(f"There is no file {path} to load the method {class_name} from.")
    spec = importlib.util.spec_from_file_location(f"starling_method_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"Expected a Python file such as mine.py, got {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pydantic look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}.") from error
    found = getattr(module, class_name, None)
    if found is None:
        own = [name for name, value in vars(module).items() if _is_method(value) and value.__module__ == spec.name]
        raise InputError(f"{path} has no class {class_name}. {nearest(class_name, own) if own else 'It has no Partitioner.'}")
    if not _is_method(found):
        raise InputError(f"{class_name} in {path} must be a subclass of starling.partition.contract.Partitioner with _assign.")
    if not found.name:
        found.name = class_name
    method: type[Partitioner] = found
    return method


def _is_method(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Partitioner) and not inspect.isabstract(value)
