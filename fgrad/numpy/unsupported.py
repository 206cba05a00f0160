"""L4. The error card for NumPy functions that have no traced form: which, where, what to write."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np

from fgrad.errors import UnsupportedNumpyError
from fgrad.numpy.promote import user_line
from fgrad.numpy.register import TRACED
from fgrad.trace import unsupported_hook

_SHAPE = "the shape of the result depends on values"
ADVICE: dict[str, tuple[str, str]] = {
    "unique_values": (_SHAPE, "np.sort(x)"),
    "unique_counts": (_SHAPE, "np.sort(x)"),
    "unique_inverse": (_SHAPE, "np.sort(x)"),
    "unique_all": (_SHAPE, "np.sort(x)"),
    "intersect1d": (_SHAPE, "np.where(np.isin(x, y), x, 0)"),
    "setdiff1d": (_SHAPE, "np.where(np.isin(x, y), 0, x)"),
    "setxor1d": (_SHAPE, "np.where(mask, x, 0)"),
    "histogram2d": (_SHAPE, "np.histogram2d of constants outside of the function"),
    "histogramdd": (_SHAPE, "np.histogramdd of constants outside of the function"),
    "save": ("a traced array has no numbers to write", "save the result of the function"),
    "savez": ("a traced array has no numbers to write", "save the result of the function"),
    "savetxt": ("a traced array has no numbers to write", "save the result of the function"),
    "array2string": ("a traced array has no numbers to print", "print(x) or fgrad.debug_print"),
    "array_str": ("a traced array has no numbers to print", "print(x)"),
    "array_repr": ("a traced array has no numbers to print", "print(x)"),
    "vectorize": ("it calls Python once for each element", "fgrad.vmap(f)(x)"),
    "frompyfunc": ("it calls Python once for each element", "fgrad.vmap(f)(x)"),
    "gcd": ("it is a loop over integers", "np.gcd of constants outside of the function"),
    "lcm": ("it is a loop over integers", "np.lcm of constants outside of the function"),
    "frexp": ("its exponent has no derivative", "np.floor(np.log2(np.abs(x))) + 1"),
    "roots": ("its result is complex", "np.linalg.eigvals of the companion matrix"),
    "polyfit": ("it reports ranks", "np.linalg.lstsq(np.vander(x, n), y)[0]"),
    "poly": ("complex arrays are not supported here", "products with np.convolve"),
}
_METHODS = {
    "at": ("x = x.at[i].add(v)", "ufunc.at writes into its first argument"),
    "reduceat": ("fgrad.segment_sum, or slices and a reduction of each", "it has no traced form"),
}


def unsupported(function: Any, method: str = "__call__") -> UnsupportedNumpyError:
    """The error for a function, or a method of a ufunc, that does not take traced arrays."""
    name = _name_of(function)
    if method != "__call__":
        write, why = _METHODS.get(method, ("the reduction or a loop", "it has no traced form"))
        shown = f"{name}.{method}"
    else:
        leaf = name.removeprefix("np.")
        why, write = ADVICE.get(leaf, ("it has no traced form", _suggest(leaf)))
        shown = name
    rows = (*user_line(), ("why", f"{why}."), ("write", write))
    return UnsupportedNumpyError(f"{shown} does not take traced arrays.", rows)


def _name_of(function: Any) -> str:
    """How the user calls a function: `np.linalg.solve`, or its plain name if it is not NumPy's."""
    name = getattr(function, "__name__", str(function))
    for group, prefix in ((np, "np"), (np.linalg, "np.linalg"), (np.fft, "np.fft")):
        if getattr(group, name, None) is function:
            return f"{prefix}.{name}"
    return name


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, TRACED, 3, 0.85)
    if near:
        return "perhaps " + ", ".join(f"np.{n}" for n in near)
    return "fgrad.stop_gradient(x) and plain NumPy, where x is known and a constant"


unsupported_hook.append(unsupported)
