"""L7. Derivatives in the form in which SciPy's minimisers call them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.errors import MissingRuleError
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.grad import grad
from fgrad.transforms.jacobian import jacfwd, jacrev
from fgrad.typing import PyTree


def value_and_gradient(both: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """SciPy wants a Python float and an array of its own."""

    def function(x: np.ndarray, *args: PyTree) -> tuple[float, np.ndarray]:
        value, gradient = both(x, *args)
        return float(value), gradient

    return function


def hessian_products(fun: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Products with the Hessian: the gradient, pushed forward."""

    def hessp(x: np.ndarray, p: np.ndarray, *args: PyTree) -> np.ndarray:
        return jvp(lambda x: grad(fun)(x, *args), (x,), (p.astype(x.dtype),))[1]

    return hessp


def jacobian(fun: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The Jacobian by forward mode; by reverse mode if a part of `fun` has a rule for that alone,
    such as the adjoint equation of a differential equation."""

    def by_either(*args: PyTree) -> PyTree:
        try:
            return jacfwd(fun)(*args)
        except MissingRuleError:
            return jacrev(fun)(*args)

    return by_either
