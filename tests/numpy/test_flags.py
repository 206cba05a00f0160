"""`keepdims` is a flag as in NumPy: 1 and `np.True_` are true, whatever reduces."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp

X = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 4.0, 2.5, 1.5], [2.0, 2.0, -1.0, 7.0]])
NAMES = [
    name
    for module, prefix in ((np, ""), (np.linalg, "linalg."))
    for name, f in [(prefix + n, getattr(module, n)) for n in dir(module) if n[0].islower()]
    if callable(f)
    and not isinstance(f, (type, np.ufunc, types.BuiltinFunctionType))
    and f.__module__.startswith("numpy")
    and "keepdims" in inspect.signature(f).parameters
]
NEEDS: dict[str, tuple[Any, ...]] = {
    "quantile": (0.3,), "percentile": (30,), "nanquantile": (0.3,), "nanpercentile": (30,),
}  # fmt: skip


def function(name: str) -> Callable[..., Any]:
    module, _, last = name.rpartition(".")
    return getattr(np.linalg if module else np, last)


def test_names() -> None:
    assert len(NAMES) > 25


@pytest.mark.parametrize("flag", [True, False, 1, 0, np.True_, np.False_], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_keepdims_is_numpys(name: str, flag: Any) -> None:
    f, rest = function(name), NEEDS.get(name, ())
    for axis in (None, 1):
        try:
            wanted = f(X, *rest, axis=axis, keepdims=flag)
        except TypeError:
            continue
        found = fgrad.jit(lambda x, axis=axis: f(x, *rest, axis=axis, keepdims=flag))(X)
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var", "max", "min", "all", "any"])
def test_keepdims_of_methods(name: str) -> None:
    found = fgrad.jit(lambda x: getattr(x, name)(axis=0, keepdims=1))(X)
    np.testing.assert_allclose(found, getattr(X, name)(axis=0, keepdims=1))
    assert np.shape(getattr(fnp, name)(X, axis=0, keepdims=1)) == (1, 4)
