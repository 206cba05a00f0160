"""What the tables of calls of SciPy's functions share: an expression as a function of the arrays
that it names, by SciPy or by fgrad, and the arrays of what it gives."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy_calls

import fgrad
from fgrad.errors import FgradError

PLAIN, OWN = [
    {s: importlib.import_module(f"{top}.{name}") for s, name in scipy_calls.MODULES.items()}
    for top in ("scipy", "fgrad.scipy")
]


def names_in(line: str, arrays: Mapping[str, Any]) -> list[str]:
    """The arrays that an expression names."""
    read = {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)}
    return sorted(read & {*arrays})


def program(
    line: str, arrays: Mapping[str, Any], constants: Mapping[str, Any], own: bool
) -> Callable[..., Any]:
    """The expression as a function of the arrays that it names."""
    scope = {"np": np, **constants, "sparse": scipy_calls.sparse_of(own), **(OWN if own else PLAIN)}
    return eval(f"lambda {', '.join(names_in(line, arrays))}: {line}", scope)


FIELDS = (("statistic", "pvalue"), ("mean_direction", "mean_resultant_length"))
FIRST = ("toarray", "y", "x", "coeffs")  # parts of results that are not arrays


def _parts(found: Any) -> Any:
    """A result object as its arrays."""
    for names in FIELDS:
        if all([hasattr(found, name) for name in names]):
            return [getattr(found, name) for name in names]
    part = next((getattr(found, n) for n in FIRST if hasattr(found, n)), found)
    return part() if callable(part) else part


def arrays_of(found: Any) -> list[Any]:
    """The arrays of nested tuples, lists and result objects."""
    if hasattr(found, "dtype") and not hasattr(found, "toarray"):
        return [found]
    if isinstance(found, (bool, int, float, complex)):
        return [found]
    found = found if type(found) in (tuple, list, dict) else _parts(found)
    if isinstance(found, dict):
        found = list(found.values())
    if hasattr(found, "dtype"):
        return [found]
    if hasattr(found, "slope") or isinstance(found, (tuple, list)):
        return [x for part in found for x in arrays_of(part)]
    return []


def traced(f: Callable[..., Any], given: list[np.ndarray]) -> list[Any]:
    """The arrays of a result, by a trace that knows no values; evaluated, not compiled."""
    found = fgrad.vmap(lambda *xs: arrays_of(f(*xs)))(*[x[None] for x in given])
    return [np.asarray(x)[0] for x in found]


def differs(found: list[Any], wanted: list[Any], rtol: float = 1e-5, atol: float = 1e-7) -> str:
    """In what arrays differ from others; empty if they do not."""
    shapes = [[np.shape(x) for x in xs] for xs in (found, wanted)]
    if shapes[0] != shapes[1]:
        return f"shapes {shapes[0]}, SciPy's {shapes[1]}"
    for x, y in zip(found, wanted, strict=True):
        if not np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
            return f"{np.ravel(x)[:4]}, SciPy's {np.ravel(y)[:4]}"
    return ""


MEANT = (
    FgradError, TypeError, ValueError, ArithmeticError, RuntimeError, np.linalg.LinAlgError,
)  # fmt: skip


def _with(x: np.ndarray, value: float) -> np.ndarray:
    return np.where(np.arange(x.size).reshape(x.shape) == 0, value, x)


ALTERED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "no rows": lambda x: x[:0],
    "one number": lambda x: x.reshape(-1)[0],
    "another axis": lambda x: x[None],
    "NaN": lambda x: _with(x, np.nan),
    "complex": lambda x: x * (1 + 0.1j),
    "shorter": lambda x: x[:-1],
    "no columns": lambda x: x[..., :0],
    "infinite": lambda x: _with(x, np.inf),
    "int64": lambda x: np.round(x.real * 3).astype(np.int64),
    "uint8": lambda x: np.abs(np.round(x.real * 9)).astype(np.uint8),
    "bool": lambda x: x.real > 0,
    "float16": lambda x: x.real.astype(np.float16),
}
SLICES = ("no rows", "no columns", "shorter")  # which one number has none of
