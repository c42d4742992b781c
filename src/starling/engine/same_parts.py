"""Whether all workers of a team have parts of the same graph, where each machine has a copy of its own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from starling.comm.tags import Channel, make_tag
from starling.comm.team import Team
from starling.core.errors import InputError
from starling.store.parts_manifest import PartsManifest

_SAME_PARTS = make_tag(Channel.SETUP, 1, 0)


def check_same_parts(path: Path, manifest: PartsManifest, team: Team) -> None:
    """Refuse a team whose machines have parts of different graphs, or parts that were cut differently."""
    cut = manifest.model_dump_json(include={"input", "kind", "parts", "offsets", "halo_hops"})
    mark = np.frombuffer(hashlib.sha256(cut.encode()).digest(), np.int64)
    marks = team.all_lists(_SAME_PARTS, np.append(mark, [manifest.nodes, manifest.edges]))
    for rank, other in enumerate(marks):
        if not np.array_equal(other, marks[0]):
            raise InputError(
                f"Worker {rank} has other parts than worker 0: {other[-2]:,} nodes and {other[-1]:,} edges there, "
                f"{marks[0][-2]:,} and {marks[0][-1]:,} here, or cut differently. Copy one parts directory to every machine; "
                f"this worker reads {path}."
            )
