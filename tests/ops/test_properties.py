"""Every property of every row of the table: derivatives, batches, compiled code.

`tests/numpy/test_op_cases.py` compares eager values with NumPy; here the rest follows from them:
jvp against finite differences, vjp against jvp, both orders, vmap against a loop, jit against
eager, and compiled derivatives against eager ones.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase

import fgrad
from fgrad.testing import check_grads, check_jit, check_transpose, check_vmap

IDS = [case.name for case in OP_CASES]
SMOOTH = [case for case in OP_CASES if case.differentiable and case.order]
TRACED = [case for case in OP_CASES if not case.known]


def arguments(case: OpCase, dtype: str = "d") -> list[Any]:
    """The arguments of a row, floats in the given precision."""
    args = case.args(np.random.default_rng(zlib.adler32(case.name.encode())))
    return [
        x.astype(dtype)[()] if np.asarray(x).dtype.kind == "f" and dtype != "d" else x for x in args
    ]


def floats(args: list[Any]) -> list[int]:
    """The positions of floating-point arguments."""
    return [i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"]


def scalar_loss(case: OpCase) -> Callable[..., Any]:
    """A smooth scalar of all floating results."""

    def loss(*args: Any) -> Any:
        outs = [y for y in fgrad.tree.leaves(case.fun(*args)) if y.dtype.kind == "f"]
        return sum(np.sum(np.sin(y + 0.1 * k)) for k, y in enumerate(outs))

    return loss


@pytest.mark.parametrize("case", SMOOTH, ids=lambda c: c.name)
def test_derivatives(case: OpCase) -> None:
    check_grads(case.fun, arguments(case), order=case.order, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda c: c.name)
def test_transposes(case: OpCase) -> None:
    args = arguments(case)
    which = floats(args)

    def of_floats(*xs: Any) -> Any:
        whole = list(args)
        for i, x in zip(which, xs, strict=True):
            whole[i] = x
        return [y for y in fgrad.tree.leaves(case.fun(*whole)) if y.dtype.kind == "f"]

    check_transpose(of_floats, [args[i] for i in which], rtol=1e-9)


@pytest.mark.parametrize("case", TRACED, ids=lambda c: c.name)
def test_compiled_values(case: OpCase) -> None:
    for dtype in case.dtypes:
        check_jit(
            case.fun,
            arguments(case, dtype),
            rtol={"d": 1e-12, "f": 1e-5, "e": 1e-2}[dtype],
            atol={"d": 1e-14, "f": 1e-6, "e": 1e-2}[dtype],
        )


@pytest.mark.parametrize("case", [c for c in SMOOTH if not c.known], ids=lambda c: c.name)
def test_compiled_gradients(case: OpCase) -> None:
    args = arguments(case)
    gradient = fgrad.grad(scalar_loss(case), argnums=tuple(floats(args)))
    for found, expected in zip(fgrad.jit(gradient)(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", TRACED, ids=lambda c: c.name)
def test_batches(case: OpCase) -> None:
    args = arguments(case)
    others = [np.asarray(x) for x in case.args(np.random.default_rng(5))]
    batch = [np.stack([x, y, x]) for x, y in zip(map(np.asarray, args), others, strict=True)]
    check_vmap(case.fun, batch, rtol=1e-11, atol=1e-13)
    if len(args) > 1:
        axes = (0,) + (None,) * (len(args) - 1)
        check_vmap(case.fun, [batch[0], *args[1:]], in_axes=axes, rtol=1e-11, atol=1e-13)
        axes = (None,) * (len(args) - 1) + (0,)
        check_vmap(case.fun, [*args[:-1], batch[-1]], in_axes=axes, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("case", [c for c in SMOOTH if not c.known], ids=lambda c: c.name)
def test_batches_of_gradients(case: OpCase) -> None:
    args = arguments(case)
    which = tuple(floats(args))
    batch = [np.stack([np.asarray(x)] * 2) for x in args]
    expected = fgrad.grad(scalar_loss(case), argnums=which)(*args)
    found = fgrad.vmap(fgrad.grad(scalar_loss(case), argnums=which))(*batch)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, np.stack([b, b]), rtol=1e-9, atol=1e-11)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """NumPy's warnings about special values are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
