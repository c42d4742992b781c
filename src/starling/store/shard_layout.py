"""Names of the files in a shard directory (docs/formats.md)."""

from __future__ import annotations

IN_OFFSETS, IN_NEIGHBOURS, IN_EDGE = "in.offsets.npy", "in.neighbours.npy", "in.edge.npy"
OUT_OFFSETS, OUT_NEIGHBOURS, OUT_ENTRY = "out.offsets.npy", "out.neighbours.npy", "out.entry.npy"
HALO_GLOBAL, HALO_OFFSETS = "halo.global.npy", "halo.offsets.npy"
SEND_ROWS, SEND_OFFSETS = "send.rows.npy", "send.offsets.npy"
POSITION, IN_DEGREE, OUT_DEGREE, LOOPED = "position.npy", "in_degree.npy", "out_degree.npy", "looped.npy"
NODE_TABLES, EDGE_TABLES = "nodes", "edges"


def shard_name(part: int) -> str:
    """The directory of a part's shard."""
    return f"part-{part:05d}"


CLUSTER_TABLE = "cluster"
"""The node table with the community of each node, where the partitioner found communities."""
