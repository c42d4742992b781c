"""Any PyG convolution that takes (x_src, x_dst) as a layer."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from starling.core.errors import InputError, MissingExtra, nearest
from starling.nn.excerpt import Excerpt
from starling.nn.view import View

_MAKING = Lock()


class PygLayer(nn.Module):
    """Runs a PyG convolution on a view's edges; PyG gathers a message an edge, so memory is edges × features."""

    whole_lists = True

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution, self.name = convolution, ""

    @property
    def added_last(self) -> nn.Parameter | None:
        """The convolution's `bias`, which PyG's add at the end."""
        bias = getattr(self.convolution, "bias", None)
        return bias if isinstance(bias, nn.Parameter) else None

    def forward(self, view: View, h: Tensor) -> Tensor:
        """Rows of the sources → rows of the destinations."""
        if view.exchange.workers > 1:
            check_for_teams(self.convolution)
        (result,) = view.on_whole_lists(h, self._on_lists)
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
        return PygLayer(_made(kind, (fan_in, fan_in), fan_out, options))
    except (TypeError, ValueError) as error:
        if not _can_be_made(kind, fan_in, fan_out, options):
            raise InputError(f"PyG's {name} cannot be made with the options {options}: {error}.") from error
        raise InputError(
            f"PyG's {name} does not take rows of sources and destinations as a pair, as a layer of a cut graph must. {instead}"
        ) from error


def check_for_teams(convolution: nn.Module) -> None:
    """Refuse a convolution that workers cannot compute together."""
    mixer = _mixes_rows(convolution)
    if mixer is not None:
        raise InputError(
            f"PyG's {type(convolution).__name__} has {mixer} inside, where a row depends on all that are computed beside it, and "
            "workers that compute one graph have different ones. Pass options without it, or --parallel data."
        )


def _mixes_rows(convolution: nn.Module) -> str | None:
    """The module in which a row's result depends on which others there are: norms over rows, aggregators that pad lists."""
    for module in convolution.modules():
        of_pyg = type(module).__module__.startswith("torch_geometric.nn.norm")
        by_row = type(module).__name__ == "MessageNorm" or getattr(module, "mode", None) == "node"
        if isinstance(module, _NormBase | nn.RNNBase) or (of_pyg and not by_row):
            return type(module).__name__
    return None


def _can_be_made(kind: type[nn.Module], fan_in: int, fan_out: int, options: dict[str, Any]) -> bool:
    """Whether the convolution is one for rows that are sources and destinations at once."""
    try:
        _made(kind, fan_in, fan_out, options)
    except (TypeError, ValueError):
        return False
    return True


def _made(kind: type[nn.Module], fan_in: int | tuple[int, int], fan_out: int, options: dict[str, Any]) -> nn.Module:
    """A convolution, without the source files that PyG writes for its first of a kind and leaves among temporary files."""
    with _MAKING:
        known = set(sys.modules)
        try:
            return kind(fan_in, fan_out, **options)
        finally:
            for name in set(sys.modules) - known:
                written = getattr(sys.modules[name], "__file__", None)
                if written is not None and name.startswith(kind.__module__) and Path(written).parent == Path(gettempdir()):
                    Path(written).unlink(missing_ok=True)


def _own_model(name: str) -> str:
    """Starling's own layer of that name, as a way out."""
    own = name.removesuffix("Conv").lower()
    return f", or --model {own}" if own in ("gcn", "gin") else ""
