"""Where everything lies: which worker answers for a part, and which parts a worker reads itself.

A worker reads its own parts and those of other workers of its host in place, through memory maps of their shards: no message, no
server, no copy in each process. Only what lies on another host is asked for, of the worker that owns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starling.comm.team import Team
from starling.core.errors import InputError
from starling.engine.data.split import spread_homes
from starling.engine.hybrid.share.worker_graph import parts_of_worker
from starling.kernels.csr import index_type
from starling.store.parts import Parts
from starling.store.parts_manifest import PartsManifest
from starling.store.policies import first_entries


def open_places(path: Path, team: Team) -> Places:
    """Open the parts of a run; a machine must have the shards that its own workers read, and no others."""
    manifest = PartsManifest.read(path)
    places = Places(Parts(path, manifest), team)
    manifest.check_shards(path, places.here)
    return places


@dataclass(frozen=True, eq=False)
class Places:
    """The parts of a run as one worker sees them. Workers own consecutive parts; where there are more workers, some own none."""

    parts: Parts
    team: Team

    def __post_init__(self) -> None:
        manifest = self.parts.manifest
        if manifest.kind != "edge-cut":
            raise InputError(
                f"--parallel data samples from whole neighbour lists, got a vertex-cut in {self.parts.path}. Partition without "
                "--keep-vertex-cut, or pass --parallel hybrid."
            )
        if any(record.dropped for record in manifest.shards):
            raise InputError(
                f"{self.parts.path} was cut with zero halo hops, so edges between parts are missing. Partition with "
                "--halo-hops 1."
            )

    @cached_property
    def far(self) -> list[int]:
        """Workers of other hosts, the next in rank first."""
        return [peer for peer in self.team.peers if peer not in self.team.near]

    def parts_of(self, worker: int) -> range:
        """The consecutive parts a worker owns."""
        return parts_of_worker(worker, self.team.size, len(self.parts))

    @property
    def own(self) -> range:
        """This worker's parts."""
        return self.parts_of(self.team.rank)

    @cached_property
    def here(self) -> tuple[int, ...]:
        """The parts this worker reads itself."""
        far = {part for worker in self.far for part in self.parts_of(worker)}
        return tuple(part for part in range(len(self.parts)) if part not in far)

    @cached_property
    def worker_bounds(self) -> NDArray[np.int64]:
        """First global id of each worker's nodes, and the number of nodes [workers + 1]."""
        starts = [self.parts_of(worker).start for worker in range(self.team.size)]
        return self.parts.offsets[[*starts, len(self.parts)]]

    @cached_property
    def homes(self) -> NDArray[np.int64]:
        """First global id that each worker is at home with: of its parts, or of a share of one that several workers read."""
        manifest = self.parts.manifest
        return spread_homes(self.parts.offsets, [np.array(record.sub_offsets) for record in manifest.shards], self.team.size)

    @cached_property
    def first_entry(self) -> NDArray[np.int64]:
        """Entries of neighbour lists are numbered over all parts: where each part's begin [p + 1]."""
        return first_entries(self.parts.manifest)

    @property
    def id_type(self) -> Any:
        """The type of global ids in frontiers and messages."""
        return index_type(self.parts.manifest.nodes)
