"""Sums of scattered rows in vector registers: the one loop that decides how fast a weighted sum over neighbours is.

LLVM vectorises such a loop over columns, and then loads and stores the running sum for every few neighbours. Here the loop is
written in LLVM's own vectors of eight numbers: the sums of up to 64 columns stay in registers while the neighbours' rows go by,
each column's terms are added in the order of the list with one rounding each (FMA), and rows are asked for ahead of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from starling.core.compile import compiled

LANES = 8
_MOST = 8
"""Vectors of sums at once: as many again of the sixteen registers of AVX2 are left for the rows and the weights."""
_LINE = 64
_LINES_AHEAD, _ROWS_AHEAD = 64, 32
"""How much is on its way from memory: so many cache lines, of no more than so many rows (measured)."""

_WORD, _INDEX = ir.IntType(32), ir.IntType(64)


def _add_rows(vectors: int, masked: bool = False) -> Callable[..., None]:
    """The loop for so many vectors of columns; a masked one takes the first `width` lanes of a single vector."""

    def typing(
        context: Any, total: Any, to: Any, x: Any, shift: Any, stride: Any, neighbours: Any, first: Any, count: Any, weight: Any,
        width: Any,
    ) -> Any:  # fmt: skip
        whole = types.int64
        signature = types.void(total, whole, x, whole, whole, neighbours, whole, whole, weight, whole)
        return signature, lambda *given: _generate(vectors, masked, *given)

    return cast("Callable[..., None]", intrinsic(typing))


def _generate(vectors: int, masked: bool, context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = {
        name: context.make_array(signature.args[place])(context, builder, arguments[place])
        for name, place in (("total", 0), ("x", 2), ("neighbours", 5), ("weight", 8))
    }
    to, shift, stride, first, count, width = (arguments[place] for place in (1, 3, 4, 6, 7, 9))
    number = ir.DoubleType() if signature.args[0].dtype == types.float64 else ir.FloatType()
    vector, stored = ir.VectorType(number, LANES), context.get_data_type(signature.args[2].dtype)
    lanes = f"v{LANES}f{64 if isinstance(number, ir.DoubleType) else 32}"
    fused = builder.module.declare_intrinsic(f"llvm.fma.{lanes}", fnty=ir.FunctionType(vector, [vector] * 3))
    mask = _first_lanes(builder, width) if masked else None

    def pick(array: str, index: Any) -> Any:
        return builder.load(builder.gep(arrays[array].data, [index]))

    def columns(pointer: Any, of: Any, place: int) -> Any:
        """Eight numbers from here on."""
        return _load(builder, builder.gep(pointer, [_INDEX(LANES * place)]), ir.VectorType(of, LANES), mask)

    sums = builder.gep(arrays["total"].data, [to])
    keep: Callable[..., Any] = cgutils.alloca_once_value  # a register, once LLVM has seen it
    kept = [keep(builder, columns(sums, number, place)) for place in range(vectors)]
    last = builder.sub(builder.extract_value(arrays["neighbours"].shape, 0), _INDEX(1))
    lines = -(-vectors * LANES * context.get_abi_sizeof(stored) // _LINE)
    ahead = min(_LINES_AHEAD // lines, _ROWS_AHEAD)
    with cgutils.for_range(builder, count) as loop:
        k = builder.add(first, loop.index)
        later = builder.add(k, _INDEX(ahead))
        later = builder.select(builder.icmp_signed("<", later, last), later, last)
        for asked, at in ((True, later), (False, k)):
            neighbour = builder.zext(pick("neighbours", at), _INDEX) if _narrow(signature.args[5]) else pick("neighbours", at)
            row = builder.gep(arrays["x"].data, [builder.add(builder.mul(neighbour, stride), shift)])
            if asked:
                for line in range(lines):
                    _prefetch(builder, row, line * _LINE)
                continue
            factor = _all_lanes(builder, pick("weight", loop.index), vector)
            for place, sum_ in enumerate(kept):
                term = _widened(builder, columns(row, stored, place), vector)
                builder.store(builder.call(fused, [factor, term, builder.load(sum_)]), sum_)
    for place, sum_ in enumerate(kept):
        _store(builder, builder.load(sum_), builder.gep(sums, [_INDEX(LANES * place)]), mask)
    return context.get_dummy_value()


def _narrow(array: Any) -> bool:
    return bool(array.dtype.bitwidth < 64)


def _first_lanes(builder: Any, width: Any) -> Any:
    """A mask of the first `width` of eight lanes."""
    words = ir.VectorType(_WORD, LANES)
    limit = _all_lanes(builder, builder.trunc(width, _WORD), words)
    return builder.icmp_signed("<", ir.Constant(words, list(range(LANES))), limit)


def _all_lanes(builder: Any, value: Any, vector: Any) -> Any:
    """The same value in every lane."""
    none = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(none, value, _WORD(0))
    return builder.shuffle_vector(one, none, ir.Constant(ir.VectorType(_WORD, LANES), [0] * LANES))


def _load(builder: Any, pointer: Any, vector: Any, mask: Any) -> Any:
    place = builder.bitcast(pointer, vector.as_pointer())
    if mask is None:
        return builder.load(place, align=1)
    kind = ir.FunctionType(vector, [place.type, _WORD, mask.type, vector])
    function = builder.module.declare_intrinsic(f"llvm.masked.load.{_suffix(vector)}.p0", fnty=kind)
    return builder.call(function, [place, _WORD(1), mask, ir.Constant(vector, None)])


def _store(builder: Any, value: Any, pointer: Any, mask: Any) -> None:
    place = builder.bitcast(pointer, value.type.as_pointer())
    if mask is None:
        builder.store(value, place, align=1)
        return
    kind = ir.FunctionType(ir.VoidType(), [value.type, place.type, _WORD, mask.type])
    function = builder.module.declare_intrinsic(f"llvm.masked.store.{_suffix(value.type)}.p0", fnty=kind)
    builder.call(function, [value, place, _WORD(1), mask])


def _suffix(vector: Any) -> str:
    names = {ir.FloatType(): "f32", ir.DoubleType(): "f64", ir.IntType(16): "i16"}
    return f"v{LANES}{names[vector.element]}"


def _widened(builder: Any, values: Any, vector: Any) -> Any:
    """The bits of bfloat16 as float32; others as they are."""
    if values.type == vector:
        return values
    words = ir.VectorType(_WORD, LANES)
    shift = ir.Constant(words, [16] * LANES)
    return builder.bitcast(builder.shl(builder.zext(values, words), shift), vector)


def _prefetch(builder: Any, pointer: Any, distance: int) -> None:
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _WORD, _WORD, _WORD])
    function = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
    place = builder.gep(builder.bitcast(pointer, byte), [_INDEX(distance)])
    builder.call(function, [place, _WORD(0), _WORD(3), _WORD(1)])


_one, _two, _three, _four, _five, _six, _seven, _eight = (_add_rows(vectors) for vectors in range(1, _MOST + 1))
_some_lanes = _add_rows(1, masked=True)


@compiled
def add_scattered(
    total: Any, to: int, x: Any, shift: int, stride: int, neighbours: Any, first: int, count: int, weight: Any, width: int
) -> None:
    """``total[to + f] += weight[j] · x[neighbours[first + j] · stride + shift + f]`` for all j < count, f < width."""
    left = width >> 3
    while left > 0:
        vectors = min(left, 8)
        if vectors == 8:
            _eight(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 7:
            _seven(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 6:
            _six(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 5:
            _five(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 4:
            _four(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 3:
            _three(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        elif vectors == 2:
            _two(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        else:
            _one(total, to, x, shift, stride, neighbours, first, count, weight, 0)
        left -= vectors
        to += 8 * vectors
        shift += 8 * vectors
    if width & 7:
        _some_lanes(total, to, x, shift, stride, neighbours, first, count, weight, width & 7)
