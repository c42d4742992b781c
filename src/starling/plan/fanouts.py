"""How many neighbours each hop takes, as the user writes it: ``15,10,5`` or ``all``, or by edge type ``cites:10,5;writes:5,5``.

The first number is for the targets' own neighbours, the next for theirs, as in PyG's NeighborLoader (DGL's NeighborSampler
lists them the other way round). −1 is another word for ``all``. By type every relation has numbers of its own, those not named what
stands at ``*``; there 0 leaves a relation out of a hop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator

from starling.core.errors import InputError, nearest

Fanout = int | Literal["all"]
OTHERS = "*"
_MOST = (1 << 31) - 1


def _read(value: object) -> object:
    """Text as a list of numbers; a lone value as a list of one."""
    return _read_list(value, least=1)


def _read_types(value: object) -> object:
    """A list of numbers for each relation, from a table or from text."""
    if isinstance(value, Mapping):
        return {str(name): _read_list(numbers, least=0) for name, numbers in value.items()}
    if isinstance(value, str):
        return dict(_read_type(part) for part in value.split(";") if part.strip())
    raise ValueError(f"expected relations and their numbers, such as cites:10,5;writes:5,5, got {value!r}")


def names_types(value: object) -> bool:
    """Whether fan-outs are given by edge type."""
    return isinstance(value, Mapping) or (isinstance(value, str) and ":" in value)


def _read_type(text: str) -> tuple[str, tuple[Fanout, ...]]:
    name, colon, numbers = text.rpartition(":")  # a relation may be called http://…
    if not colon or not name.strip():
        raise ValueError(f"expected a relation and its numbers, such as cites:10,5, got '{text.strip()}'")
    return name.strip(), _read_list(numbers, least=0)


def _read_list(value: object, least: int) -> tuple[Fanout, ...]:
    if isinstance(value, str):
        value = value.split(",")
    items = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(_read_one(item, least) for item in items)


def _read_one(item: object, least: int) -> Fanout:
    text = str(item).strip()
    if text in ("all", "-1"):
        return "all"
    if isinstance(item, bool) or not text.isdecimal() or int(text) < least:
        raise ValueError(f"expected numbers of at least {least}, or 'all', such as 15,10,5, got '{text}'")
    if int(text) > _MOST:
        raise ValueError(f"expected numbers of at most {_MOST:,}, or 'all', got '{text}'")
    return int(text)


Fanouts = Annotated[tuple[Fanout, ...], BeforeValidator(_read)]
TypeFanouts = Annotated[dict[str, tuple[Fanout, ...]], BeforeValidator(_read_types)]


def one_a_layer(fanouts: tuple[Fanout, ...] | None, layers: int) -> tuple[Fanout, ...]:
    """The fan-outs of all layers; without any, all neighbours."""
    if fanouts is None:
        every: Fanout = "all"
        return (every,) * layers
    if len(fanouts) != layers:
        given = ",".join(str(fanout) for fanout in fanouts)
        raise InputError(
            f"Expected {layers} fan-outs, one a layer, got {len(fanouts)} ({given}). "
            f"Give --fanouts {layers} numbers, or set --layers {len(fanouts)}."
        )
    return fanouts


def by_relation(
    fanouts: Mapping[str, tuple[Fanout, ...]], names: Sequence[str], relations: int, layers: int
) -> tuple[tuple[Fanout, ...], ...]:
    """For each layer the fan-out of each relation; `names` are the relations' names, none where they are only numbers.

    A relation goes by its whole name (``author__writes__paper``), by the middle of it where only one is called so, or by number.
    """
    known = _words(names, relations)
    chosen: dict[int, tuple[Fanout, ...]] = {}
    for word, numbers in fanouts.items():
        if word == OTHERS:
            continue
        if word not in known:
            raise InputError(f"There is no relation '{word}' to take neighbours of. {nearest(word, [*known, OTHERS])}")
        if known[word] in chosen:
            raise InputError(f"Expected each relation once in the fan-outs, got '{word}' twice under two names.")
        chosen[known[word]] = one_a_layer(numbers, layers)
    missing = [number for number in range(relations) if number not in chosen]
    if missing and OTHERS not in fanouts:
        name = names[missing[0]] if names else str(missing[0])
        every = ",".join(["all"] * layers)
        raise InputError(
            f"Expected fan-outs of every relation, got none of '{name}'. Name it, or say what all others take, such as *:{every}."
        )
    rest = one_a_layer(fanouts.get(OTHERS), layers) if missing else ()
    of_relation = [chosen.get(number, rest) for number in range(relations)]
    return tuple(tuple(numbers[hop] for numbers in of_relation) for hop in range(layers))


def _words(names: Sequence[str], relations: int) -> dict[str, int]:
    """Every word a relation may be called by."""
    middles = [name.split("__")[1] if name.count("__") == 2 else name for name in names]
    words = {middle: number for number, middle in enumerate(middles) if middles.count(middle) == 1}
    numbers = {} if names else {str(number): number for number in range(relations)}
    return {**words, **numbers, **{name: number for number, name in enumerate(names)}}
