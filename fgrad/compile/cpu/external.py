"""L5. Native steps of special functions: loops that call SciPy's C functions by pointer.

    scipy.special.cython_special      `double f(double, ..., int)` for each function

A step reads arrays or constants and writes one array.  It calls the function once for each element
(20 to 500 ns, beside which the loop costs nothing); threads share the elements.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fgrad.base.lazy_import import lazy_extension
from fgrad.compile.cpu.library import capsule_address
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.text import element_type, literal, range_loop
from fgrad.compile.tasks.routines import SpecialFunction

cython_special = lazy_extension("scipy.special.cython_special")


def has_pointer(name: str, arity: int) -> bool:
    """Whether SciPy gives a pointer to this function on doubles."""
    return bool(_entry(name, arity))


@lru_cache
def _entry(name: str, arity: int) -> str:
    """The name in SciPy's table of the variant on doubles; empty if there is none."""
    wanted = f"double ({'double, ' * arity}int __pyx_skip_dispatch)"
    table = cython_special.__pyx_capi__
    for entry in (name, f"__pyx_fuse_0{name}", f"__pyx_fuse_1{name}"):
        if entry in table and f'"{wanted}"' in repr(table[entry]):
            return entry
    return ""


def external(task: SpecialFunction) -> int:
    """The address of a loop that applies the function to the elements of a range in [0, size)."""
    name, dtype, _, constants, ones = task  # ones: operands with one element for all
    arity, kind = len(constants), element_type(dtype)
    function = f"fgrad_special_{name}"
    arrays = [k for k, value in enumerate(constants) if value is None]
    loads = [_load(place, kind, k in ones) for place, k in enumerate(arrays)]
    double = np.dtype(np.float64)
    values = [
        f"%x{arrays.index(k)}" if value is None else literal(value, double)
        for k, value in enumerate(constants)
    ]

    arguments = ", ".join([*[f"double {v}" for v in values], "i32 0"])
    call = f"  %value = call double @{function}({arguments})"
    body = "\n".join([*loads, call, _store(len(arrays), kind)])

    def emit(symbol: str) -> tuple[str, set[str]]:
        text = range_loop(symbol, len(arrays) + 1, body)
        return text, {f"declare double @{function}({', '.join(['double'] * arity)}, i32)"}

    address = capsule_address(cython_special, _entry(name, arity))
    content = f"external {name} {kind} {constants} {ones}"
    return build_counted([Source(content, emit)], {function: address}, glue=True)[0]


def _load(place: int, kind: str, broadcast: bool) -> str:
    item = "0" if broadcast else "%i"
    text = f"  %p{place} = getelementptr {kind}, ptr %b{place}, i64 {item}\n"
    if kind == "double":
        return text + f"  %x{place} = load double, ptr %p{place}"
    return (
        text + f"  %n{place} = load {kind}, ptr %p{place}\n"
        f"  %x{place} = fpext {kind} %n{place} to double"
    )


def _store(place: int, kind: str) -> str:
    text = f"  %out = getelementptr {kind}, ptr %b{place}, i64 %i\n"
    if kind == "double":
        return text + "  store double %value, ptr %out"
    if kind == "half":  # by way of float32: no instruction narrows double to half
        text += "  %single = fptrunc double %value to float\n"
        return text + "  %narrow = fptrunc float %single to half\n  store half %narrow, ptr %out"
    return text + f"  %narrow = fptrunc double %value to {kind}\n  store {kind} %narrow, ptr %out"
