"""Mini-batches of a partitioned graph for training scripts of other libraries: PyG's ``Data`` and ``HeteroData``."""

from starling.loader.neighbor_loader import NeighborLoader

__all__ = ["NeighborLoader"]
