"""Memory that one worker fills and another reads: a nameless file in memory, mapped by both, parcelled out block by block.

The file (memfd) has no name in any directory and no limit but the machine's memory; it ends with the last process that maps it,
however that ends. Its sender maps a great deal of address space and backs it with memory as far as blocks have reached. A block
is taken at the lowest place that is free, so the same few pages are used again and again.

The first byte of a block says whether somebody still needs it. The sender sets it when it takes the block, the reader clears it
when it is done, and the sender looks when it wants the next one. Locks, and the system call that carries the note, stand between
a worker's access to rows and to that byte, so the order holds on any processor.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from starling.core.errors import StarlingError
from starling.core.memory import format_bytes

_LINE = 64
"""A cache line: rows begin at one, after the line that holds the flag."""
_FREE, _NEEDED = 0, 1
_LOOK_BACK = 64
"""After so many blocks, memory that none of them reached is given back if it is more than half."""
_FEW = 64
"""Up to so many blocks on their way, each new one looks for a gap."""
_LARGE = 1 << 20
"""Bytes of a message from which on its pages are worth a call when it has been read."""
_KEPT = 1 << 26
"""Bytes of all peers' arenas, the first of each, whose pages a reader keeps: mapping a page takes longer than reading it."""
_ADDRESSES = 1 << 45
"""Address space that all arenas of a worker may reserve together (a process has 2⁴⁷)."""


@dataclass(frozen=True)
class Block:
    """A range of an arena: a line for the flag, then the bytes of a message."""

    start: int
    stop: int


class Arena:
    """The sender's side. Threads may take blocks at the same time."""

    def __init__(self, peer: int, size: int) -> None:
        self._peer = peer
        memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
        self._reserved = min(memory, _ADDRESSES // size) // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            self.file = os.memfd_create("starling", os.MFD_CLOEXEC)
            os.ftruncate(self.file, self._reserved)
            self._memory = mmap.mmap(self.file, self._reserved)
        except OSError as error:
            raise StarlingError(
                f"Cannot reserve {format_bytes(self._reserved)} of addresses for messages to worker {peer} ({error.strerror}). "
                "Raise the limit (ulimit -v), or pass --transport gloo."
            ) from error
        self._base = torch.frombuffer(self._memory, dtype=torch.uint8, count=1).data_ptr()
        self._blocks: list[Block] = []
        self.held = 0
        """Bytes from the beginning that have memory behind them."""
        self._reached, self._taken, self._since_look = 0, 0, 0
        self._lock = threading.Lock()

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory for a message; it is this one's until a reader lets it go."""
        count = math.prod(shape)
        length = _LINE + -(-count * dtype.itemsize // _LINE) * _LINE
        with self._lock:
            index, start = self._place(length)
            self._back(start + length)
            self._memory[start] = _NEEDED
            self._blocks.insert(index, Block(start, start + length))
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start + _LINE).view(tuple(shape))

    def start_of(self, parcel: Tensor) -> int:
        """Where the block of a parcel begins."""
        start = parcel.data_ptr() - self._base - _LINE
        if not 0 <= start < self._reserved or not parcel.is_contiguous():
            raise ValueError(f"what is sent to worker {self._peer} must be a whole parcel that was made for it")
        return start

    def _place(self, length: int) -> tuple[int, int]:
        """Where a new block goes, in the list and in memory: into the lowest gap.

        While hundreds of messages are on their way, most go to the end, so that a message's cost does not grow with their number.
        """
        self._since_look += 1
        if self._since_look < len(self._blocks) // _FEW:
            return len(self._blocks), self._blocks[-1].stop
        self._since_look = 0
        self._blocks = [block for block in self._blocks if self._memory[block.start] == _NEEDED]
        start = 0
        for index, block in enumerate(self._blocks):
            if block.start - start >= length:
                return index, start
            start = block.stop
        return len(self._blocks), start

    def _back(self, stop: int) -> None:
        """Have memory behind everything before `stop`, and not behind much more than is in use."""
        self._reached, self._taken = max(self._reached, stop), self._taken + 1
        if stop > self.held:
            wanted = -(-stop // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                if wanted > self._reserved:
                    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
                # reserved here and now: a lack of memory is an error of this call, not a signal when the rows are written
                os.posix_fallocate(self.file, self.held, wanted - self.held)
            except OSError as error:
                raise StarlingError(
                    f"No memory for messages to worker {self._peer}: {format_bytes(self.held)} are in use, and "
                    f"{format_bytes(wanted - self.held)} more are not to be had ({error.strerror})."
                ) from error
            self.held = wanted
        elif self._taken >= _LOOK_BACK:
            reached = max(self._reached, max((block.stop for block in self._blocks), default=0))
            kept = -(-reached // mmap.PAGESIZE) * mmap.PAGESIZE
            if kept < self.held // 2:
                self._memory.madvise(mmap.MADV_REMOVE, kept, self.held - kept)
                self.held = kept
            self._reached, self._taken = 0, 0

    def close(self) -> None:
        """Close the file; its memory goes when nobody has a message of it any more."""
        os.close(self.file)


class Window:
    """The reader's side of a peer's arena."""

    def __init__(self, file: int, size: int) -> None:
        self._memory = mmap.mmap(file, os.fstat(file).st_size)
        self._kept = _KEPT // size

    def rows(self, start: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """The message of a block, in place."""
        return torch.frombuffer(self._memory, dtype=dtype, count=math.prod(shape), offset=start + _LINE).view(tuple(shape))

    def let_go(self, start: int, length: int) -> None:
        """The block, whose message has so many bytes, may be used again.

        Pages of a large one are taken out of this process: they are the sender's, and would count as memory of both. Those at the
        beginning of the arena stay, since the next messages will lie there too.
        """
        first = -(-max(start + _LINE, self._kept) // mmap.PAGESIZE) * mmap.PAGESIZE
        pages = (start + _LINE + length - first) // mmap.PAGESIZE
        if length >= _LARGE and pages > 0:
            self._memory.madvise(mmap.MADV_DONTNEED, first, pages * mmap.PAGESIZE)
        self._memory[start] = _FREE
