"""Which nodes negatives of kind `local` are drawn from: those of a part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LocalNodes(ABC):
    """Ranges of a list of nodes, by the node that stays in a pair."""

    @property
    @abstractmethod
    def positions(self) -> NDArray[Any]:
        """The list: positions of nodes."""

    @abstractmethod
    def ranges(self, stays: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in the list the nodes begin that may stand with the nodes at these positions, and how many there are."""


@dataclass(frozen=True, eq=False)
class PartRanges(LocalNodes):
    """The nodes of the part that the end that stays belongs to.

    `position_of_global` has positions in the order of parts, `offsets` where each part begins there, `global_of_position` where
    each position is.
    """

    offsets: NDArray[np.int64]
    position_of_global: NDArray[Any]
    global_of_position: NDArray[Any]

    @property
    def positions(self) -> NDArray[Any]:
        """All nodes, part by part."""
        return np.asarray(self.position_of_global)

    def ranges(self, stays: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Those of each node's part."""
        part = np.searchsorted(self.offsets, self.global_of_position[stays], side="right") - 1
        return self.offsets[part], np.diff(self.offsets)[part]


@dataclass(frozen=True, eq=False)
class OwnNodes(LocalNodes):
    """The nodes of one part that trains alone, whoever stays: of a node in its halo it does not know the neighbours."""

    own: NDArray[Any]

    @property
    def positions(self) -> NDArray[Any]:
        """The part's own nodes."""
        return self.own

    def ranges(self, stays: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All of them."""
        return np.zeros(stays.shape, np.int64), np.full(stays.shape, len(self.own), np.int64)
