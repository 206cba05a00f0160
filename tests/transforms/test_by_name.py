"""Gradients by named arguments, and what JAX's users give besides: float0, hints of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, GradDtypeError, UnsupportedTypeError


def f(x: Any, y: Any = 2.0, *rest: Any, z: Any = 1.0, **more: Any) -> Any:
    return x**2 * y * z + more.get("t", 0.0) ** 2 + sum(rest)


def with_aux(x: Any, y: Any) -> Any:
    return x * y, "aux"


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "a default": (lambda: fgrad.grad(f, argnames="y")(3.0), 9.0),
    "several": (
        lambda: fgrad.grad(f, argnames=("x", "z", "t"))(3.0, z=2.0, t=5.0),
        {"x": 24.0, "z": 18.0, "t": 10.0},
    ),
    "by keyword": (lambda: fgrad.grad(f, argnames="x")(x=3.0, y=1.0), 6.0),
    "with the value": (lambda: fgrad.value_and_grad(f, argnames="x")(3.0, 1.0), (9.0, 6.0)),
    "more positions": (lambda: fgrad.grad(f, argnames="x")(3.0, 1.0, 5.0), 6.0),
    "aux": (lambda: fgrad.grad(with_aux, argnames="x", has_aux=True)(2.0, 3.0), (3.0, "aux")),
    "all three": (
        lambda: fgrad.value_and_grad(with_aux, argnames=["x"], has_aux=True)(2.0, y=3.0),
        ((6.0, "aux"), {"x": 3.0}),
    ),
    "under jit": (lambda: fgrad.jit(fgrad.grad(f, argnames="x"))(2.0), 8.0),
    "under vmap": (lambda: fgrad.vmap(fgrad.grad(f, argnames="x"))(np.array([2.0]))[0], 8.0),
    "twice": (lambda: fgrad.grad(fgrad.grad(lambda x: x**3, argnames="x"))(2.0), 12.0),
    "forwards": (lambda: fgrad.jvp(fgrad.grad(f, argnames="x"), (2.0,), (1.0,))[1], 4.0),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_name(name: str) -> None:
    compute, wanted = CASES[name]
    assert compute() == wanted


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: fgrad.grad(lambda x: x, argnames="q"), ArgumentError),
        (lambda: fgrad.grad(f, argnames="t")(1.0), ArgumentError),
        (lambda: fgrad.grad(f, 1, argnames="x"), ArgumentError),
        (lambda: fgrad.grad(f, argnames="x")(3), GradDtypeError),
        (lambda: fgrad.grad(f, argnames="x")(), TypeError),
    ],
)
def test_refused(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


FLOAT0 = np.dtype([("float0", "V")])


def test_tangents_of_integers_may_be_of_jaxs_dtype() -> None:
    none = np.zeros((), FLOAT0)
    assert fgrad.jvp(lambda x, n: x * n, (2.0, 3), (1.0, none)) == (6.0, 3.0)

    @fgrad.custom_vjp
    def times(x: Any, n: Any) -> Any:
        return x * n

    times.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, none))
    assert fgrad.grad(times)(2.0, 3) == fgrad.jit(fgrad.grad(times))(2.0, 3) == 3.0
    with pytest.raises(UnsupportedTypeError):
        fgrad.jvp(np.sin, (2.0,), (none,))


METHODS = ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max")


@pytest.mark.parametrize("name", METHODS)
def test_hints_of_indices_change_nothing(name: str) -> None:
    x = np.arange(1.0, 5.0)

    def updated(**hints: bool) -> Any:
        value = 9.0 if name == "max" else 0.5
        return fgrad.jit(lambda x, i: getattr(x.at[i], name)(value, **hints))(x, np.array([0, 2]))

    hinted = updated(indices_are_sorted=True, unique_indices=True)
    np.testing.assert_array_equal(hinted, updated())
    assert not np.array_equal(hinted, x)
    with pytest.raises(ArgumentError, match="wrap_negative_indices"):
        updated(wrap_negative_indices=False)


def test_hints_of_reads() -> None:
    x = np.arange(4.0)
    assert fgrad.at(x)[2].get(indices_are_sorted=True, unique_indices=True) == 2.0
    with pytest.raises(ArgumentError, match="wrap_negative_indices"):
        fgrad.at(x)[-1].get(wrap_negative_indices=False)


@pytest.mark.parametrize("name", ["float8_e8m0fnu", "int1"])
def test_dtypes_of_few_bits_that_are_not_traced_say_so(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    with pytest.raises(UnsupportedTypeError, match=r"np\.asarray\(y\)\.astype"):
        fgrad.jit(lambda x: x.astype(dtype))(np.ones(4))
    for f in (fgrad.jit(lambda x: x), fgrad.vmap(lambda x: x), fgrad.jit(fgrad.vmap(lambda x: x))):
        with pytest.raises(UnsupportedTypeError, match="no zero") as found:
            f(np.ones(4).astype(dtype))
        assert "static" not in str(found.value) and name in str(found.value)
