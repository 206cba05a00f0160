"""L4. The error card for NumPy functions that have no traced form: which, where, what to write."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import UnsupportedNumpyError
from fgrad.numpy.dispatch import TRACED
from fgrad.numpy.promote import user_line
from fgrad.tracing.tables import unsupported_card

difflib: Any = lazy_module("difflib")

_DATES = ("it calculates with dates, and traced arrays hold numbers", "days as plain integers")
_MATRIX = (
    "np.matrix has another product than arrays",
    "np.block([[a, b], [c, d]])",
)

# Functions that no traced array goes through: why not, and what to write instead.
ADVICE: dict[str, tuple[str, str]] = {
    "asmatrix": _MATRIX,
    "bmat": _MATRIX,
    "busday_count": _DATES,
    "busday_offset": _DATES,
    "is_busday": _DATES,
    "datetime_as_string": _DATES,
    "isnat": ("it asks about dates; NumPy refuses numbers too", "np.isnan(x)"),
    "frompyfunc": ("its results are arrays of Python objects", "fgrad.numpy.vectorize(f)(x)"),
    "isfortran": ("a traced array has no layout in memory", "x.T where the order matters"),
    "nested_iters": ("it walks over memory", "for row in x, or fgrad.lax.scan"),
}

# Functions that take no array: NumPy's own make constants, or say something about types.
PLAIN: tuple[str, ...] = (
    "bartlett", "base_repr", "binary_repr", "blackman", "broadcast_shapes", "datetime_data",
    "diag_indices", "empty", "eye", "format_float_positional", "format_float_scientific",
    "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromregex", "fromstring",
    "genfromtxt", "get_include", "get_printoptions", "getbufsize", "geterr", "geterrcall",
    "hamming", "hanning", "identity", "indices", "info", "isdtype", "issubdtype", "iterable",
    "load", "loadtxt", "mask_indices", "mintypecode", "ones", "printoptions", "promote_types",
    "set_printoptions", "setbufsize", "seterr", "seterrcall", "show_config", "show_runtime", "test",
    "tri", "tril_indices", "triu_indices", "typename", "zeros",
)  # fmt: skip

# What to write where values are not known: the keyword that fixes the shape of the result.
SIZED = {
    name: f"fgrad.numpy.{name}(..., size=n)    n elements, filled up or cut off"
    for name in (
        "nonzero", "flatnonzero", "argwhere", "unique", "unique_values", "unique_counts", "extract",
        "compress", "union1d", "intersect1d", "setdiff1d", "setxor1d",
    )
} | {"bincount": "fgrad.numpy.bincount(x, length=n)    counts of 0 ... n - 1"}  # fmt: skip

# Names whose result has a shape that depends on values: what to write where these are not known.
NEEDS_VALUES: dict[str, str] = {
    **{name: text.split("    ")[0] for name, text in SIZED.items()},
    "where": "fgrad.numpy.where(mask, size=n)",
    "unique_all": "fgrad.numpy.unique_all(x, size=n)",
    "unique_inverse": "fgrad.numpy.unique_inverse(x, size=n)",
    "roots": "fgrad.numpy.roots(p, strip_zeros=False)",
    "polydiv": "fgrad.numpy.polydiv(u, v, trim_leading_zeros=False)",
    "trim_zeros": "x[a:b] with known bounds",
    "delete": "np.delete(x, i) with a known i",
    "insert": "np.insert(x, i, v) with a known i",
    "repeat": "np.repeat(x, n) with known counts",
    "arange": "np.arange(n) of known limits, or np.linspace(a, b, n)",
    "histogram_bin_edges": "a number of bins or edges instead of 'auto'",
    "array2string": "print the result of the function",
    "array_repr": "print the result of the function",
    "array_str": "print the result of the function",
    "save": "save the result of the function",
    "savetxt": "save the result of the function",
    "savez": "save the result of the function",
    "savez_compressed": "save the result of the function",
}


def unsupported(function: object, method: str = "__call__") -> UnsupportedNumpyError:
    """The error for a function, or a method of a ufunc, that does not take traced arrays."""
    name = _name_of(function)
    if isinstance(function, np.ufunc) and set("".join(function.types)) <= set("O->"):
        why, write = ADVICE["frompyfunc"]
        shown = f"np.frompyfunc({name.removesuffix(' (vectorized)')}, ...)"
    elif method != "__call__":
        why, write = "it has no traced form", "the reduction itself, or a loop"
        shown = f"{name}.{method}"
    else:
        leaf = name.removeprefix("np.")
        why, write = ADVICE.get(leaf, ("it has no traced form", _suggest(leaf)))
        shown = name
    rows = (*user_line(), ("why", f"{why}."), ("write", write))
    return UnsupportedNumpyError(f"{shown} does not take traced arrays.", rows)


def _name_of(function: object) -> str:
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


unsupported_card.provide(unsupported)
