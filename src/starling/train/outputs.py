"""What a model gives for a batch."""

from __future__ import annotations

from torch import Tensor, nn

from starling.engine.fill import FilledBatch
from starling.nn.model import LayeredModel
from starling.nn.view import View


def outputs_of(model: nn.Module, batch: FilledBatch) -> Tensor:
    """What the model gives for the last view's destinations."""
    return computed(model, batch.views, batch.inputs())


def computed(model: nn.Module, views: tuple[View, ...], x: Tensor) -> Tensor:
    """Outputs of a model; one that does not know of layers gets the one view there is."""
    one = all(view.graph is views[0].graph for view in views) and not isinstance(model, LayeredModel)
    given: Tensor = model(views[0] if one else views, x)
    return given
