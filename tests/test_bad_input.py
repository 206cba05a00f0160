"""Bad input to functions with JAX's names: at the prompt and compiled, a value or an error that
says what is wrong; never an error of the compiler's, or of Python's inside of fgrad."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, nn
from fgrad.errors import ArgumentError, CheckError, DtypeError, FgradError

A = np.array([[0.5, -1.5, 2.0], [3.0, 0.0, -0.5]])
BAD: dict[str, np.ndarray] = {
    "float64": A,
    "float16": A.astype(np.float16),
    "int32": A.astype(np.int32),
    "uint8": np.abs(A).astype(np.uint8),
    "bool": A > 0,
    "complex128": A + 1j,
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((2, 0)),
    "0-d": np.array(0.5),
    "NaN": np.array([[np.nan, np.inf, -np.inf]]),
    "square": A[:, :2],
}
# In the place of further arguments without a default value.
OTHERS: tuple[Any, ...] = (0, -1, 5, (0,), (0, 9), 2.0)
MODULES = {"lax": lax, "nn": nn, "linalg": fnp.linalg, "fft": fnp.fft}
NOT_CALLED = {  # functions of functions, of keys, of names of axes
    "associative_scan", "cond", "switch", "scan", "map", "fori_loop", "while_loop", "all_gather",
    "all_to_all", "axis_index", "axis_size", "pbroadcast", "pmax", "pmean", "pmin", "ppermute",
    "pshuffle", "psum", "psum_scatter", "pvary", "custom_root", "custom_linear_solve", "contents",
    "lazy_names", "iota",
}  # fmt: skip


def functions() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """The functions of one or two arguments."""
    for label, module in MODULES.items():
        for name in dir(module):
            f = getattr(module, name)
            if name[0] == "_" or name in NOT_CALLED or inspect.isclass(f) or not callable(f):
                continue
            try:
                parameters = inspect.signature(f).parameters.values()
            except ValueError:
                continue
            given = [p for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
            if len(given) in (1, 2) and len(given) < 3:
                yield f"{label}.{name}", f, len(given)


FUNCTIONS = {name: (f, count) for name, f, count in functions()}
MEANT = (FgradError, TypeError, ValueError, IndexError, np.linalg.LinAlgError, ArithmeticError)


def outcome(call: Callable[[], Any]) -> str:
    """ "value", or "error" where it is one that is meant."""
    try:
        call()
    except CheckError:
        raise
    except MEANT:
        return "error"
    except NotImplementedError:
        return "error"
    return "value"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_or_an_error_that_is_meant(name: str) -> None:
    f, count = FUNCTIONS[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for kind, x in BAD.items():
            for other in OTHERS if count == 2 else (None,):
                rest = () if count == 1 else (other,)
                prompt = outcome(lambda x=x, rest=rest: f(x, *rest))
                if kind in ("float64", "int32", "no rows", "bool"):
                    compiled = outcome(lambda x=x, rest=rest: fgrad.jit(lambda y: f(y, *rest))(x))
                    assert prompt == compiled or compiled == "error", (kind, other)


Refused = tuple[Callable[[], Any], type[Exception], str]
REFUSED: dict[str, Refused] = {
    "top_k of 2.0": (lambda: lax.top_k(A, 2.0), ArgumentError, "k=2.0 is no count"),
    "one_hot of -1": (
        lambda: nn.one_hot(np.array([0]), -1), ArgumentError, "num_classes=-1 is no count"),
    "bits of bool": (lambda: lax.bitcast_convert_type(A > 0, np.uint8), DtypeError, "no bits"),
    "half complex": (
        lambda: lax.complex(np.float16(1), np.float16(1)), DtypeError, "two float16"),
    "least complex": (lambda: lax.reduce_max(A + 1j, (0,)), DtypeError, "no least"),
    **{f"{f.__name__} of complex": (
        lambda f=f: f(A + 1j), DtypeError, "takes real numbers")
       for f in (nn.silu, nn.gelu, nn.mish, nn.soft_sign, nn.hard_silu, nn.sparse_plus,
                 nn.sigmoid, nn.glu)},
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_cards(name: str) -> None:
    call, kind, words = REFUSED[name]
    for f in (call, fgrad.jit(call)):
        with pytest.raises(kind, match=words):
            f()


REDUCING = (
    "all", "any", "amax", "amin", "argmax", "argmin", "argsort", "count_nonzero", "cumprod",
    "cumsum", "max", "mean", "min", "nanmax", "nansum", "prod", "ptp", "std", "sum", "var",
)  # fmt: skip


@pytest.mark.parametrize("name", REDUCING)
def test_axes_that_are_none(name: str) -> None:
    """A flag in the place of an axis, as in `np.sum(x, True)`, is refused as by NumPy."""
    f = getattr(fnp, name)
    for axis in (True, False, 1.5, "a", 5, -3):
        for run in (f, fgrad.jit(lambda x, axis: f(x, axis=axis), static_argnums=1)):
            with pytest.raises((TypeError, ValueError, FgradError)):
                run(A, axis=axis) if run is f else run(A, axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_integers_stay_integers(dtype: str) -> None:
    x = np.array([0, 1, 5], dtype)
    for f, expected in ((nn.relu, x), (nn.hard_tanh, np.minimum(x, 1))):
        for found in (f(x), fgrad.jit(f)(x)):
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(found, expected)
