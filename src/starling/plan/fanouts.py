"""How many neighbours each hop takes, as the user writes it: ``15,10,5`` or ``all``.

The first number is for the targets' own neighbours, the next for theirs, as in PyG's NeighborLoader (DGL's NeighborSampler
lists them the other way round). −1 is another word for ``all``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from starling.core.errors import InputError

Fanout = int | Literal["all"]


def _read(value: object) -> object:
    """Text as a list of numbers; a lone value as a list of one."""
    if isinstance(value, str):
        value = value.split(",")
    items = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(_read_one(item) for item in items)


def _read_one(item: object) -> Fanout:
    text = str(item).strip()
    if text in ("all", "-1"):
        return "all"
    if isinstance(item, bool) or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"expected numbers of at least 1, or 'all', such as 15,10,5, got '{text}'")
    return int(text)


Fanouts = Annotated[tuple[Fanout, ...], BeforeValidator(_read)]


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
