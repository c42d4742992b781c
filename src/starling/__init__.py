"""Starling trains graph neural networks on graphs larger than the machine.

Names are looked up when first used, so ``import starling`` is quick and small.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Graph": "starling.store.graph",
    "open_graph": "starling.store.graph",
    "from_pyg": "starling.store.from_objects",
    "from_dgl": "starling.store.from_objects",
    "from_networkx": "starling.store.from_objects",
    "from_scipy": "starling.store.from_objects",
    "from_ogb": "starling.store.from_objects",
    "to_pyg": "starling.store.to_objects",
    "to_dgl": "starling.store.to_objects",
    "to_networkx": "starling.store.to_objects",
    "to_scipy": "starling.store.to_objects",
    "Trainer": "starling.launch.trainer",
    "RunConfig": "starling.train.config",
    "InputError": "starling.core.errors",
    "StarlingError": "starling.core.errors",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'starling' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return __all__
