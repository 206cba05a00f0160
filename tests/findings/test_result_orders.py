"""Whether NumPy would see a write through a reshape of what comes out of an inner function.

Its order in memory is told through every transform: what is not NumPy's is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inplace_programs import traced

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import InPlaceError

Function = Callable[..., Any]

W, M = np.float64(0.5), np.linspace(-1, 1, 6).reshape(2, 3)


def filled(w: Any, m: Any) -> Any:
    """No equation tells of the order: all that the result is made of is in C order."""
    y = fnp.zeros_like(m.T)
    y.fill(np.sum(w))
    return y * 1.0


def fortran(w: Any, _m: Any) -> Any:
    """NumPy was asked for another order."""
    return fnp.asfortranarray(fnp.ones((3, 2)) * w)


def assigned(w: Any, m: Any) -> Any:
    """The memory that is written keeps its order."""
    y = m.T * 1.0
    y[...] = w
    return y


def transposed(w: Any, m: Any) -> Any:
    """An equation tells of the order."""
    return m.T * w


def copied(w: Any, m: Any) -> Any:
    """A copy in C order."""
    return m.T.copy() * w


def simple(w: Any, m: Any) -> Any:
    """All is in C order."""
    return m * w


BODIES = (filled, fortran, assigned, transposed, copied, simple)
KEEP = fgrad.checkpoint_policies.everything_saveable


def with_jvp(g: Function) -> Function:
    """The function with a rule for forward mode."""
    rule = fgrad.custom_jvp(g)
    rule.defjvp(lambda primals, tangents: fgrad.jvp(g, primals, tangents))
    return rule


def with_vjp(g: Function) -> Function:
    """The function with a rule for reverse mode."""
    rule = fgrad.custom_vjp(g)
    rule.defvjp(lambda *a: (g(*a), a), lambda saved, ct: fgrad.vjp(g, *saved)[1](ct))
    return rule


def pair(x: Any) -> Any:
    """Two equal examples."""
    return np.stack([x, x])


CALLS: dict[str, Function] = {
    "vjp": lambda g, w, m: fgrad.vjp(g, w, m)[0],
    "jvp": lambda g, w, m: fgrad.jvp(g, (w, m), (w, m))[0],
    "linearize": lambda g, w, m: fgrad.linearize(g, w, m)[0],
    "aux": lambda g, w, m: fgrad.grad(lambda c: (c, g(w, m)), has_aux=True)(w)[1],
    "functionalize": lambda g, w, m: fgrad.functionalize(g)(w, m)[0],
    "vmap": lambda g, w, m: fgrad.vmap(g)(pair(w), pair(m))[1],
    "vmap shared": lambda g, w, m: fgrad.vmap(g, in_axes=(0, None))(pair(w), m)[1],
    "vmap chunks": lambda g, w, m: fgrad.vmap(g, (0, None), chunk_size=1)(pair(w), m)[1],
    "checkpoint": lambda g, w, m: fgrad.checkpoint(g)(w, m),
    "checkpoint policy": lambda g, w, m: fgrad.checkpoint(g, policy=KEEP)(w, m),
    "checkpoint closure": lambda g, w, m: fgrad.checkpoint(lambda w: g(w, m))(w),
    "jit": lambda g, w, m: fgrad.jit(g)(w, m),
    "jit closure": lambda g, w, m: fgrad.jit(lambda w: g(w, m))(w),
    "cond": lambda g, w, m: lax.cond(w > 0, g, g, w, m),
    "scan": lambda g, w, m: lax.scan(lambda c, e: (c, g(e, m)), 0.0, pair(w))[1][1],
    "carry": lambda g, w, m: lax.fori_loop(0, 2, lambda _, c: g(w, m) + 0 * c, 0 * g(w, m)),
    "custom_jvp": lambda g, w, m: with_jvp(g)(w, m),
    "custom_jvp closure": lambda g, w, m: with_jvp(lambda w: g(w, m))(w),
    "custom_vjp": lambda g, w, m: with_vjp(g)(w, m),
    "callback": lambda g, w, m: fgrad.pure_callback(g, np.empty(g(w, m).shape), w, m),
}

OUTER: dict[str, Function] = {
    "functionalize": lambda f: lambda *a: fgrad.functionalize(f)(*a)[0],
    "vjp": lambda f: lambda *a: fgrad.vjp(f, *a)[0],
    "jvp": lambda f: lambda *a: fgrad.jvp(f, a, a)[0],
    "vmap": lambda f: lambda w, m: fgrad.vmap(f)(pair(w), pair(m))[1],
    "trace": traced,
}

RESHAPES: tuple[Function, ...] = (np.ravel, lambda r: r.T.reshape(-1))


def program(call: Function, g: Function, reshape: Function, w: Any, m: Any) -> Any:
    """A write through a reshape of what `call(g, ...)` gives."""
    r = call(g, w, m)
    reshape(r)[0] = 7.0
    return r * 1.0


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("call", CALLS)
def test_a_write_through_a_reshape_is_right_or_refused(call: str, outer: str) -> None:
    for g in BODIES:
        for reshape in RESHAPES:
            right = program(lambda g, w, m: g(w, m), g, reshape, W, M)
            f = functools.partial(program, CALLS[call], g, reshape)
            try:
                found = OUTER[outer](f)(W, M)
            except (InPlaceError, fgrad.errors.CustomRuleError, fgrad.errors.MissingRuleError):
                continue
            np.testing.assert_allclose(np.asarray(found), right, err_msg=g.__name__)


@pytest.mark.parametrize("call", [k for k in CALLS if k not in ("callback", "custom_jvp closure")])
def test_what_lies_in_c_order_is_not_refused(call: str) -> None:
    f = functools.partial(program, CALLS[call], simple, np.ravel)
    right = program(lambda g, w, m: g(w, m), simple, np.ravel, W, M)
    for outer in OUTER.values():
        np.testing.assert_allclose(np.asarray(outer(f)(W, M)), right)
