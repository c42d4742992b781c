"""Starling trains graph neural networks on graphs larger than the machine."""

__version__ = "0.1.0"
