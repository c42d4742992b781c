"""Torch tensors as the arrays kernels take, without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from starling.kernels.rows import Rows


def applied(function: type[Function], *arguments: object) -> Any:
    """Run an autograd function; torch leaves `apply` untyped."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def has_kernels(x: Tensor) -> bool:
    """Whether kernels can read these rows where they lie; on any other device `plain` computes the same in ordinary torch."""
    return x.device.type == "cpu"


def accumulator(x: Tensor) -> torch.dtype:
    """The type sums are made in: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def split_columns(x: Tensor, groups: int) -> Tensor:
    """[N, G·F] → [N, G, F], for no rows too."""
    return x.reshape(len(x), groups, x.shape[1] // groups)


def rows(x: Tensor) -> Rows:
    """A matrix as rows; columns must lie next to each other (they are copied together where they do not)."""
    x = x.detach()
    if x.stride(1) != 1 and x.shape[1] > 1:
        x = x.contiguous()
    count, width = x.shape
    if x.dtype == torch.bfloat16:
        x = x.view(torch.uint16)
    stride = x.stride(0) if count > 1 else width
    span = (count - 1) * stride + width if count and width else 0
    return Rows(x.as_strided((span,), (1,)).numpy(), count, width, stride)


def array(x: Tensor | None, dtype: torch.dtype) -> NDArray[Any]:
    """A tensor as a C-ordered array of the given type; None is an empty one."""
    if x is None:
        return np.empty(0, np.float64 if dtype == torch.float64 else np.float32)
    result: NDArray[Any] = x.detach().to(dtype).contiguous().numpy()
    return result


def table(x: Tensor | None, width: int, dtype: torch.dtype) -> NDArray[Any]:
    """`array` of two dimensions; None is no rows of `width`."""
    return array(x, dtype).reshape(-1, width)
