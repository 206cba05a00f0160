"""L4. Which dtypes derivatives take and give, and the conjugate convention for complex numbers.

Cotangents pair with tangents as <c, t> = Re(c t): `vjp` is the plain transpose.  The gradient of a
real function of z = x + iy is the direction of steepest ascent,

    grad L = dL/dx + i dL/dy = conj(transpose(1)),

so `z - step * grad(L)(z)` descends, as in PyTorch and TensorFlow.  With `holomorphic=True` the
argument and the result are complex, and the derivative is f'(z).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from fgrad.base.source import here, resolve
from fgrad.errors import GradDtypeError
from fgrad.ir.aval import has_derivative
from fgrad.ops.complex import conj
from fgrad.ops.families import REAL_FLOATS
from fgrad.trace import Value
from fgrad.transforms.core.wrap import function_name
from fgrad.typing import PyTree

_Rows = tuple[tuple[str, str], ...]


def check_argument(
    dtype: np.dtype, holomorphic: bool, name: str, what: str, argument: str = "an argument"
) -> None:
    """Refuse arguments that have no derivative, or none of the kind that was asked for."""
    real = dtype.kind in REAL_FLOATS and has_derivative(dtype)
    if dtype.kind == "c" or (real and not holomorphic):
        return
    if holomorphic and dtype.kind in REAL_FLOATS:
        raise GradDtypeError(
            f"{what}(holomorphic=True) needs complex arguments, but {argument} of {name} is "
            f"{dtype}.",
            (
                *_used(),
                ("write", f"{what}(f)".ljust(36) + "f is a function of real numbers"),
                ("write", "x = np.asarray(x, dtype=complex)    convert the argument"),
            ),
        )
    raise GradDtypeError(
        f"{what} needs floating-point arguments, but {argument} of {name} is {dtype}.",
        (
            *_used(),
            ("why", "the derivative with respect to an integer does not exist."),
            ("write", _converted(argument)),
            ("write", f"{what}(f, argnums=...)".ljust(42) + "differentiate another one"),
        ),
    )


def _converted(argument: str) -> str:
    """How to convert an argument: `the argument p['a'][0]` is part of the tree p."""
    tree = re.match(r"the argument (\w+)[\[.]", argument)
    if tree is None:
        return "x = np.asarray(x, dtype=np.float64)       convert the argument"
    name = tree[1]
    return f"{name} = fgrad.tree.map(np.float64, {name})".ljust(42) + "convert all of it"


def check_result(dtype: np.dtype, holomorphic: bool, fun: Callable[..., PyTree], what: str) -> None:
    """Refuse results that have no derivative, or none of the kind that was asked for."""
    if dtype.kind in ("c" if holomorphic else REAL_FLOATS) and has_derivative(dtype):
        return
    name = function_name(fun)
    if holomorphic and dtype.kind in REAL_FLOATS:
        raise GradDtypeError(
            f"{what}(holomorphic=True) needs a complex result, but {name} returned {dtype}.",
            (
                *_used(),
                ("why", "a real function of complex numbers is not holomorphic."),
                ("write", f"{what}(f)     for dL/dx + i dL/dy of a real result L"),
            ),
        )
    if dtype.kind == "c":
        raise GradDtypeError(
            f"{what} needs a real result, but {name} returned {dtype}.",
            (
                *_used(),
                ("why", "the real and the imaginary part each have their own derivatives."),
                ("write", "np.abs(y) or y.real                make a real number of the result"),
                ("write", f"{what}(f, holomorphic=True)".ljust(35) + "f'(z) of a holomorphic f"),
                ("write", "fgrad.jvp(f, (z,), (dz,))          the derivative in one direction"),
            ),
        )
    raise GradDtypeError(
        f"{what} needs a floating-point result, but {name} returned {dtype}.",
        (*_used(), ("why", "a result with discrete values has no useful derivative.")),
    )


def check_direction(
    dtype: np.dtype, holomorphic: bool, fun: Callable[..., PyTree], what: str
) -> None:
    """Refuse complex arguments of a forward Jacobian that is not holomorphic."""
    check_argument(dtype, holomorphic, function_name(fun), what)
    if dtype.kind == "c" and not holomorphic:
        raise GradDtypeError(
            f"{what} needs real arguments, but one of {function_name(fun)} is {dtype}.",
            (
                *_used(),
                ("why", "a function of z = x + iy has one derivative along x and another along y."),
                ("write", f"{what}(f, holomorphic=True)".ljust(46) + "f'(z) of a holomorphic f"),
                ("write", f"{what}(lambda x, y: f(x + 1j * y), (0, 1))".ljust(46) + "both of them"),
            ),
        )


def _used() -> _Rows:
    used = resolve(here())
    return (("used", f"{used}:  {used.text()}"),)


def ascent(ct: Value, holomorphic: bool) -> Value:
    """The gradient that a cotangent stands for: its conjugate, and itself for holomorphic ones."""
    return conj(ct) if ct.dtype.kind == "c" and not holomorphic else ct
