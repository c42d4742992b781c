"""The one table of methods: it drives ``--method``, ``--help``, the docs and the contract test."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from starling.core.errors import InputError, nearest
from starling.core.user_class import ClassPlace
from starling.partition.communities import Leiden, Louvain
from starling.partition.contract import Partitioner, in_one_line
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
LARGEST_SETTING = 1_000_000
METHODS: dict[str, type[Partitioner]] = {method.name: method for method in _CLASSES}


def find_method(name: str) -> type[Partitioner]:
    """The class of a method by its name, or a user's own by its place: ``mine.py:MyPartitioner``."""
    if name in METHODS:
        return METHODS[name]
    if place := ClassPlace.parse(name):
        method = place.load(Partitioner, "method")  # type: ignore[type-abstract]
        method.name = method.name or place.name
        return method
    raise InputError(f"There is no method '{name}'. {nearest(name, METHODS)}")


def make_method(name: str, settings: Mapping[str, object] | None = None) -> Partitioner:
    """A method with these settings (text is read as what the setting is), others at their defaults."""
    method = find_method(name)
    if not (isinstance(method.Settings, type) and issubclass(method.Settings, BaseModel)):
        raise InputError(f"Expected a subclass of Partitioner.Settings as the Settings of {name}, got {method.Settings!r}.")
    try:
        read = method.Settings.model_validate(dict(settings or {}))
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(step) for step in first["loc"])
        if first["type"] == "extra_forbidden":
            known = method.Settings.model_fields
            hint = nearest(setting, known) if known else "It has no settings."
            raise InputError(f"The method {name} has no setting '{setting}'. {hint}") from error
        raise InputError(f"The setting '{setting}' of {name} is wrong: {first['msg']}; got {first['input']!r}.") from error
    if name in METHODS:
        _refuse_absurd(name, read)
        return method(read)
    try:
        return method(read)
    except Exception as error:
        raise InputError(
            f"The method {name} cannot be made: {in_one_line(error)}. Give it an __init__ that takes the settings, or none at all."
        ) from error


def _refuse_absurd(name: str, settings: Partitioner.Settings) -> None:
    """Numbers that no kernel can take; what is merely too large to matter is capped by the method."""
    for setting, value in settings.model_dump().items():
        if isinstance(value, int | float) and not abs(value) <= LARGEST_SETTING:
            raise InputError(f"The setting '{setting}' of {name} is wrong: expected at most {LARGEST_SETTING:,}, got {value}.")
