"""What happens to rows one by one between two aggregations, so that an engine may begin with rows whose neighbours are all there.

From one sum over neighbours to the next a model mostly treats every row by itself: a product, a bias, an activation, dropout, the
next layer's product. `View.aggregate_then` is given all of that as one piece of work. In one process it is done with all rows when
they are summed; a team does it block by block, while other blocks still wait for messages (engine/hybrid/computing/released.py,
engine/hybrid/computing/grouped_rows.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from starling.nn.view import View


@dataclass(frozen=True, eq=False)
class Node:
    """A transformed layer input: `rows` are what neighbours read [owned, F], `own` what the destination itself keeps.

    `multiplied`: the layer's weights have been applied, so that only the sum is left. `input` are the rows before they were
    transformed, where something reads them later: residuals, jumping knowledge. `mark` is the engine's, which finds it again when
    the rows are aggregated; a node with a mark is to be aggregated next, and its `rows` and `own` are read by nothing else.
    """

    rows: Tensor
    own: Tensor
    multiplied: bool = False
    input: Tensor | None = None
    mark: object = None

    def apart(self, *, shown: bool = False) -> tuple[list[Tensor], NodeLayout]:
        """Its tensors, each once, rows first, and what each stands for. An input that is `shown` to others is one of its own."""
        tensors = [self.rows] if self.own is self.rows else [self.rows, self.own]
        own = place = len(tensors) - 1
        if self.input is not None and (shown or self.input is not self.own):
            tensors.append(self.input)
            place = len(tensors) - 1
        return tensors, NodeLayout(own, None if self.input is None else place, self.multiplied)


@dataclass(frozen=True)
class NodeLayout:
    """Which of a node's tensors is what: `own` and `input` by number, the rows being number 0."""

    own: int = 0
    input: int | None = None
    multiplied: bool = False

    @property
    def kept(self) -> tuple[int, ...]:
        """The tensors that destinations read of themselves."""
        return (self.own,) if self.input is None or self.input == self.own else (self.own, self.input)

    def node(self, tensors: Mapping[int, Tensor], mark: object = None) -> Node:
        """A node of such tensors; without rows, for those who read what destinations keep."""
        own = tensors[self.own]
        return Node(tensors.get(0, own), own, self.multiplied, None if self.input is None else tensors[self.input], mark)


@dataclass(frozen=True, eq=False)
class RowWork:
    """`run(first, node, aggregate)`: some destinations' rows, from number `first` on, by their own and their aggregates.

    No row of the result may depend on another's. `modules` have all weights that are used. `reader` is the view that sums the
    result, by the same kind of gather as the one before; None where it is not summed next. `shows_input`: the result's input is
    read by others than the next piece of work, too.
    """

    run: Callable[[int, Node, Tensor], Node]
    modules: tuple[nn.Module, ...]
    reader: View | None = None
    shows_input: bool = False

    @property
    def weights(self) -> tuple[nn.Parameter, ...]:
        """The weights that learn, each once."""
        found = {id(weight): weight for module in self.modules for weight in module.parameters() if weight.requires_grad}
        return tuple(found.values())
