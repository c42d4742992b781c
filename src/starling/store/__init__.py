"""Graphs and shards on disk: written once, atomically; read through memory maps."""
