"""`flock`: METIS quality, and better, in streaming memory; open `method.py` first."""

from starling.partition.flock.method import Flock

__all__ = ["Flock"]
