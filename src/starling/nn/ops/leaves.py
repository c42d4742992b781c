"""What autograd will give gradients to: the leaves of the graph that made some tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor


def leaves_of(made: Sequence[Tensor]) -> Iterator[Tensor]:
    """Every trainable tensor that these were made of, once."""
    todo, seen = [tensor.grad_fn for tensor in made], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        todo.extend(before for before, _ in node.next_functions)
