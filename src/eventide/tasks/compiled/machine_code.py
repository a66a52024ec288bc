"""Python that is compiled to machine code, and how it gets at bytes and numbers.

It would count references to every array that it hands from function to function, which costs more than parsing. So
functions get addresses, and whoever calls them sees to it that the memory is there and large enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

from eventide.tasks.compiled.kept import folder

Function = TypeVar("Function", bound=Callable[..., Any])

_BYTE, _HALF, _WHOLE = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def compiled(function: Function) -> Function:
    """Machine code, made when it is called for the first time, and kept for later processes where there is a folder for
    it. Other threads may run beside it.
    """
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(folder())
        made: Function = njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):  # there is no such folder: no home, or the functions are in an archive
        made = njit(nogil=True)(function)
    finally:
        config.CACHE_DIR = before
    return made


def _reading(stored: Any, given: Any, step: int) -> Any:
    """What is `step` times a number behind an address, in the type that compiled code has of it."""

    def read(typing: Any, address: Any, number: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            found = builder.load(_pointer(builder, stored, step, *values), align=1)
            return found if stored.width == given.bitwidth else builder.zext(found, _WHOLE)

        return given(types.int64, types.int64), code

    return intrinsic(read)


def _writing(stored: Any, taken: Any, step: int) -> Any:
    def write(typing: Any, address: Any, number: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address, number, value = values
            value = value if stored.width == taken.bitwidth else builder.trunc(value, stored)
            builder.store(value, _pointer(builder, stored, step, address, number), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, taken), code

    return intrinsic(write)


def _pointer(builder: Any, stored: Any, step: int, address: Any, number: Any) -> Any:
    place = builder.add(address, builder.mul(number, ir.Constant(_WHOLE, step)))
    return builder.inttoptr(place, stored.as_pointer())


# A byte, eight bytes with the first of them lowest, and the elements of arrays: 32 bits without a sign, and 64 bits.
byte_at: Callable[[int, int], int] = _reading(_BYTE, types.int64, 1)
eight_at: Callable[[int, int], np.uint64] = _reading(_WHOLE, types.uint64, 1)
half_at: Callable[[int, int], int] = _reading(_HALF, types.int64, 4)
number_at: Callable[[int, int], int] = _reading(_WHOLE, types.int64, 8)

put_byte: Callable[[int, int, int], None] = _writing(_BYTE, types.int64, 1)
put_eight: Callable[[int, int, np.uint64], None] = _writing(_WHOLE, types.uint64, 1)
put_half: Callable[[int, int, int], None] = _writing(_HALF, types.int64, 4)
put_number: Callable[[int, int, int], None] = _writing(_WHOLE, types.int64, 8)
