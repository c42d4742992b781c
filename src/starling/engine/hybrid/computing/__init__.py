"""How a layer is computed while messages fly: sums by blocks of rows, everything else by groups of them."""
