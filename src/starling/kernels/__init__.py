"""Hot loops: Numba functions over a row range, and the one driver that runs them on threads."""
