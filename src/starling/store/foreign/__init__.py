"""Partitions of other tools, read as assignments and written from parts."""
