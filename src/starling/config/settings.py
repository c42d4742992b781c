"""A component's settings: a small strict model, made from a table with one clear sentence for whatever is wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, ValidationError

from starling.core.errors import InputError, nearest
from starling.core.manifest import Record

Kind = TypeVar("Kind", bound=Record)
Whole = Annotated[int, Field(ge=1)]
"""A number of things of which there is at least one."""


class Choice(Record):
    """A component chosen by name, with settings that only the component itself can check."""

    name: str
    settings: dict[str, Any] = {}

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Self:
        """From a flat table: `name`, and everything else is a setting."""
        name = table.get("name")
        if not isinstance(name, str) or not name:
            raise InputError(f"Expected a name in [{where}], got {name!r}.")
        return cls(name=name, settings={key: value for key, value in table.items() if key != "name"})

    def to_table(self) -> dict[str, Any]:
        """The flat table again."""
        return {"name": self.name, **self.settings}


def checked(kind: type[Kind], table: Mapping[str, Any], where: str) -> Kind:
    """The settings in a table, defaults filled in; unknown keys and wrong values are refused by name."""
    unknown = [key for key in table if key not in kind.model_fields]
    if unknown:
        raise InputError(f"{where} has no setting '{unknown[0]}'. {nearest(unknown[0], kind.model_fields)}")
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InputError(f"Wrong setting '{place}' of {where}: {first['msg']}, got {first['input']!r}.") from error
