"""Two machine instructions that Numba does not offer: prefetch, and reading a bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch.p0", fnty=ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        builder.call(function, [place, word(0), word(3), word(1)])  # for reading, to stay in cache, data
        return context.get_dummy_value()

    return types.void(array, index), generate


def _widen(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.args[0] != types.uint16:
            return arguments[0]
        word = ir.IntType(32)
        return builder.bitcast(builder.shl(builder.zext(arguments[0], word), word(16)), ir.FloatType())

    return (types.float32 if value == types.uint16 else value)(value), generate


prefetch: Callable[[Any, Any], None] = cast(Any, intrinsic(_prefetch))
"""``prefetch(array, index)`` asks for the cache line of ``array[index]``; it reads nothing, so any index is safe."""

widen: Callable[[Any], Any] = cast(Any, intrinsic(_widen))
"""``widen(stored)`` is the float a stored number stands for: the 16 bits of a bfloat16 become a float32, floats stay."""
