"""What happens to rows one by one between two aggregations, so that an engine may begin with rows whose neighbours are all there.

From one sum over neighbours to the next a model mostly treats every row by itself: a product, a bias, an activation, dropout, the
next layer's product. `View.aggregate_then` is given all of that as one piece of work. In one process it is done with all rows when
they are summed; a team does it block by block, while other blocks still wait for messages (engine/hybrid/released.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from starling.nn.view import View


@dataclass(frozen=True, eq=False)
class Node:
    """A transformed layer input: `rows` are what neighbours read [owned, F], `own` what the destination itself keeps.

    `multiplied`: the layer's weights have been applied, so that only the sum is left. `mark` is the engine's, which finds it again
    when the rows are aggregated; a node with a mark is to be aggregated next, and its tensors are read by nothing else.
    """

    rows: Tensor
    own: Tensor
    multiplied: bool = False
    mark: object = None


@dataclass(frozen=True, eq=False)
class RowWork:
    """`run(first, node, aggregate)`: some destinations' rows, from number `first` on, by their own and their aggregates.

    No row of the result may depend on another's. `modules` have all weights that are used. `reader` is the view that sums the
    result, by the same kind of gather as the one before; None where it is not summed next.
    """

    run: Callable[[int, Node, Tensor], Node]
    modules: tuple[nn.Module, ...]
    reader: View | None = None

    @property
    def weights(self) -> tuple[nn.Parameter, ...]:
        """The weights that learn, each once."""
        found = {id(weight): weight for module in self.modules for weight in module.parameters() if weight.requires_grad}
        return tuple(found.values())
