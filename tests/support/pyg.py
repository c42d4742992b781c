"""PyTorch Geometric's data classes, imported past the deprecation warnings that its own import gives."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.data import Data, HeteroData

__all__ = ["Data", "HeteroData"]
