"""Any PyG convolution that takes (x_src, x_dst) as a layer."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from starling.core.errors import InputError, MissingExtra, nearest
from starling.nn.excerpt import Excerpt
from starling.nn.view import View


class PygLayer(nn.Module):
    """Runs a PyG convolution on a view's edges; PyG gathers a message an edge, so memory is edges × features."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution, self.name = convolution, ""

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Rows of the sources → rows of the destinations."""
        if view.exchange.spread:
            raise InputError("Expected an edge-cut for a PyG convolution, whose sums cannot be split, got a vertex-cut.")
        (result,) = view.on_lists(h, self._on_lists)
        return result

    def _on_lists(self, piece: Excerpt, rows: Tensor) -> tuple[Tensor, ...]:
        """What the convolution makes of some destinations' edges, and the rows of all their sources."""
        graph, rows = piece.graph, rows.float() if rows.dtype == torch.bfloat16 else rows
        edges = torch.stack([graph.neighbours_at(slice(None)).long(), graph.edge_destination])
        result: Tensor = self.convolution((rows, rows[: graph.destinations]), edges)
        return (result.clone(),)  # the stack's activation writes into a layer's rows, and these may be PyG's to keep


def pyg_layer(name: str, fan_in: int, fan_out: int, options: dict[str, Any]) -> PygLayer:
    """The layer of a PyG convolution's class name."""
    try:
        from torch_geometric.nn import conv
    except ImportError as error:
        raise MissingExtra("torch_geometric", "pyg", f"The model 'pyg:{name}'") from error
    if not hasattr(conv, name):
        raise InputError(f"PyG has no convolution '{name}'. {nearest(name, conv.__all__)}")
    kind, instead = getattr(conv, name), f"Pass a convolution that does, such as pyg:SAGEConv{_own_model(name)}."
    if list(inspect.signature(kind).parameters)[:2] != ["in_channels", "out_channels"]:
        raise InputError(
            f"PyG's {name} does not take the widths of its input and output, as a layer of a stack must. {instead}"
        )
    try:
        return PygLayer(kind((fan_in, fan_in), fan_out, **options))
    except (TypeError, ValueError) as error:
        if not _can_be_made(kind, fan_in, fan_out, options):
            raise InputError(f"PyG's {name} cannot be made with the options {options}: {error}.") from error
        raise InputError(
            f"PyG's {name} does not take rows of sources and destinations as a pair, as a layer of a cut graph must. {instead}"
        ) from error


def _can_be_made(kind: type[nn.Module], fan_in: int, fan_out: int, options: dict[str, Any]) -> bool:
    """Whether the convolution is one for rows that are sources and destinations at once."""
    try:
        kind(fan_in, fan_out, **options)
    except (TypeError, ValueError):
        return False
    return True


def _own_model(name: str) -> str:
    """Starling's own layer of that name, as a way out."""
    own = name.removesuffix("Conv").lower()
    return f", or --model {own}" if own in ("gcn", "gin") else ""
