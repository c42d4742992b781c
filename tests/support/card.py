"""A pretended graphics card: tensors on a device that is not the processor, on a machine that has no other.

    with a_card_for(team) as carded:                 # in each worker of a team of processes
        learn(carded, …)                             # computes on CARD, exchanges rows over Gloo by the code that is for NCCL

A tensor of the card wraps one in ordinary memory and lets nobody at it but torch's operations, which refuse what a card refuses:
``numpy()``, operands of which some lie here and some there, and factories that forget the device. So whatever passes here makes no
use of ordinary memory where rows lie on a card. It does not show that NCCL or CUDA kernels work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from starling.comm.switch import form_team
from starling.comm.team import Team
from tests.support.ranks import meeting

CARD = torch.device("lazy")
"""A device that torch knows by name, has no memory for, and computes gradients for in the caller's thread."""
CARD_GROUP = f"cpu:gloo,{CARD.type}:gloo"
"""Gloo for what lies on the card: it sees the memory behind."""

_COPIES = {torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default}


class CardTensor(Tensor):
    """`behind` is where its numbers are in truth."""

    behind: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, behind: Tensor) -> CardTensor:
        made: CardTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            behind.size(),
            strides=behind.stride(),
            storage_offset=behind.storage_offset(),
            dtype=behind.dtype,
            device=CARD,
        )
        made.behind = behind
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on a tensor of the card outside of `a_card`")

    # What torch does not let a wrapper do, and a tensor of a card can.
    def tolist(self) -> Any:
        return self.cpu().tolist()

    def untyped_storage(self) -> Any:
        return self.behind.untyped_storage()

    def data_ptr(self) -> int:
        return self.behind.data_ptr()


class _Operations(TorchDispatchMode):
    """Lets every operation of this thread see what is behind tensors of the card, if it may."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and importing the compiler takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        operands = [value for value in tree_leaves((args, given)) if isinstance(value, Tensor)]
        carded = [isinstance(operand, CardTensor) for operand in operands]
        makes_here = any(carded)
        if any(carded) and func not in _COPIES:
            _refuse_mixed(func, [operand for operand, on_card in zip(operands, carded, strict=True) if not on_card])
        if given.get("device") is not None:
            makes_here = torch.device(given["device"]) == CARD
            given["device"] = torch.device("cpu")
        out = func(*_behind(args), **_behind(given))
        return tree_map(lambda value: CardTensor(value) if isinstance(value, Tensor) else value, out) if makes_here else out


def _behind(values: Any) -> Any:
    return tree_map(lambda value: value.behind if isinstance(value, CardTensor) else value, values)


def _refuse_mixed(func: Any, ordinary: Sequence[Tensor]) -> None:
    if any(operand.dim() for operand in ordinary):  # a number by itself may come from anywhere
        raise RuntimeError(f"{func}: expected all tensors on one device, got some of {CARD} and some of cpu")


@contextmanager
def a_card() -> Iterator[None]:
    """Have a card, in this thread and in all that are started meanwhile; torch says that there are four."""
    run = threading.Thread.run

    def run_with_card(thread: threading.Thread) -> None:
        with _Operations():
            run(thread)

    with (
        mock.patch.object(threading.Thread, "run", run_with_card),
        mock.patch.object(torch.cuda, "device_count", return_value=4),
        mock.patch.object(torch, CARD.type, torch.cpu, create=True),  # where checkpoints look for its random numbers
        _Operations(),
    ):
        yield


@contextmanager
def a_card_for(team: Team) -> Iterator[Team]:
    """The same workers as a team of which each computes on a card of its own."""
    with a_card():
        carded = form_team(team.rank, team.size, meeting(team), device=CARD, backend=CARD_GROUP, wait_limit=30.0)
        yield carded
        carded.close()
