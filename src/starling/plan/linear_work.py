"""What is cheaper where a layer is linear: its product before aggregating, or after."""

from __future__ import annotations

from dataclasses import dataclass

EDGE_COST = 16
"""Reading one number of a neighbour's row costs about as much as this many multiply-adds of a dense product (measured)."""


@dataclass(frozen=True)
class LinearWork:
    """An aggregation and a product with a matrix, in either order; `dense` are the multiply-adds of one row's product."""

    edges: int
    sources: int
    destinations: int
    fan_in: int
    fan_out: int
    dense: int

    def product_first(self, *, backward: bool, passes: int) -> bool:
        """Whether multiplying the sources and aggregating `fan_out` columns reads and multiplies less.

        `passes`: how often `fan_in` columns would be aggregated otherwise — never where that is kept, once where the input needs
        no gradient, else twice. Products cost three times as much with a backward pass: for the output, the input, the matrix.
        """
        dense = self.dense * (3 if backward else 1)
        before = self.edges * self.fan_out * EDGE_COST * (2 if backward else 1) + self.sources * dense
        after = self.edges * self.fan_in * EDGE_COST * passes + self.destinations * dense
        return before < after
