"""Exact outputs of a partitioned graph, layer by layer and part by part, in bounded memory.

Every node is computed with all its neighbours, whatever was trained on. Workers compute their own parts, and share the rows of a
layer (`layer_rows.py`) for the next one, which reads own nodes and halo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from starling.comm.tags import Channel, make_tag
from starling.core.allocator import freed_memory_given_back, release_freed_memory
from starling.engine.data.part_source import PartSource
from starling.engine.data.parts_source import PartsSource
from starling.engine.data.shelf import Shelf
from starling.infer.layer_rows import LayerRows
from starling.infer.layerwise import numbers_an_edge, row_blocks, widest
from starling.nn.model import LayeredModel
from starling.nn.view import View

_BARRIER = 1 << 11
"""Messages of an evaluation from this number on say that a worker has come to the end of a layer."""


@dataclass(eq=False)
class PartInference:
    """Runs a model over this worker's parts, within about `memory` bytes beside the parts themselves.

    Rows that are shared, or do not fit, are files in `folder`.
    """

    source: PartsSource
    shelf: Shelf
    memory: int
    folder: Path
    device: str = "cpu"
    _evaluations: int = field(default=0, init=False)

    @torch.no_grad()
    def outputs(self, model: LayeredModel) -> Iterator[tuple[PartSource, int, NDArray[np.float32]]]:
        """Every own part with its own nodes' outputs, block by block: those of rows start, start + 1, …

        All workers ask at the same time; the caller lets go of a part and its outputs before it asks for more.
        """
        self._evaluations += 1
        training = model.training
        model.eval()
        try:
            if not self.shelf.comes_and_goes:
                yield from self._outputs(model)
                return
            release_freed_memory()  # what steps would use again; and nothing of an evaluation is kept for them
            with freed_memory_given_back():
                yield from self._outputs(model)
        finally:
            model.train(training)

    def _outputs(self, model: LayeredModel) -> Iterator[tuple[PartSource, int, NDArray[np.float32]]]:
        kept: list[LayerRows] = []
        for index in range(model.layer_count - 1):
            kept.append(self._layer(model, index, kept))
            self._meet(index)
            for earlier in kept[:-1]:
                earlier.drop_halo()
            if not model.keeps_all:
                del kept[:-1]
        last = model.layer_count - 1
        with self.shelf.turns(self.source.mine, features=last == 0) as parts:
            for part in parts:
                for start, given in self._blocks(model, last, part, kept):
                    yield part, start, given
                del part  # before the next one is read

    def _layer(self, model: LayeredModel, index: int, kept: list[LayerRows]) -> LayerRows:
        """Rows of all nodes after an inner layer; this worker writes those of its own parts."""
        layer: LayerRows | None = None
        with self.shelf.turns(self.source.mine, features=index == 0) as parts:
            for part in parts:
                for start, given in self._blocks(model, index, part, kept):
                    if layer is None:
                        layer = self._rows(index, given.shape[1])
                    layer.write(part.part, start, given)
                del part  # before the next one is read
        return layer or self._rows(index, 0)  # no node of its own: it will read none

    def _blocks(
        self, model: LayeredModel, index: int, part: PartSource, kept: list[LayerRows]
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """A part's own rows after layer `index`, block by block; after the last layer its outputs."""
        width = kept[-1].width if index else self.source.features.width
        read = kept[-1].of(part, self._room(part)) if index else part.features.rows
        widths = max(width, widest(model)), numbers_an_edge(model)
        for start, stop, rows, graph in row_blocks(part, part.owned, *widths, self.memory // 4):
            view = View(graph if self.device == "cpu" else graph.to(self.device))
            given = model.layer(index, view, torch.from_numpy(read(rows)).to(self.device))
            if index == model.layer_count - 1:
                earlier = [layer.own(part.part, start, stop) for layer in kept] if model.keeps_all else []
                given = model.finish(view, [*(torch.from_numpy(own).to(self.device) for own in earlier), given])
            yield start, given.float().cpu().numpy()

    def _room(self, part: PartSource) -> int:
        """For a part's rows of an inner layer: a part that comes and goes is then held without its features."""
        instead = self.source.feature_bytes(part.part) if self.shelf.keeping in ("ahead", "one") else 0
        return max(self.memory // 4, instead)

    def _rows(self, index: int, width: int) -> LayerRows:
        parts = self.source.parts
        in_memory = self.source.team.size == 1 and 4 * parts.manifest.nodes * width <= self.memory // 4
        return LayerRows(parts, width, None if in_memory else self.folder / f"layer-{index}")

    def _meet(self, index: int) -> None:
        """Wait until everybody has written a layer's rows."""
        tag = make_tag(Channel.EVALUATE, self._evaluations, _BARRIER + index)
        self.source.team.all_lists(tag, np.empty(0, np.int64))
