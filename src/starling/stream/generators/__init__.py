"""Graphs made on the spot, of any size, the same for the same seed. `GENERATORS` drives the command line and its help.

A generated graph is to be imported as undirected, without duplicates and self-loops.
"""

from __future__ import annotations

from typing import Any

from starling.stream.generators.contract import Generator
from starling.stream.generators.dcsbm import DcsbmSettings, dcsbm
from starling.stream.generators.rmat import RmatSettings, rmat

GENERATORS: dict[str, Generator[Any]] = {
    "dcsbm": Generator("communities and power-law degrees, features that neighbours make clear", DcsbmSettings, dcsbm),
    "rmat": Generator("power-law degrees without communities, as in Graph500", RmatSettings, rmat),
}

__all__ = ["GENERATORS", "DcsbmSettings", "Generator", "RmatSettings", "dcsbm", "rmat"]
