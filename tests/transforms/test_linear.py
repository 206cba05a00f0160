"""What is linear has a transpose; what is linear but for a constant is refused, in all places where
a rule of the user's is transposed."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import CustomRuleError, MissingRuleError

X = np.array([1.0, 2.0, 3.0])
C = np.array([1.0, 0.0, 3.0])


def _in_buffer(x):
    y = fgrad.numpy.zeros(5)
    y[1:4] = x
    return y


def _overwritten(value):
    def fun(x):
        y = x.copy()
        y[1] = value
        return y

    return fun


def _running(first):
    return lambda x: lax.scan(lambda c, y: (c + y, c * 2.0), first, x)[1]


def _branches(added):
    true = np.array(True)
    return lambda x: lax.cond(true, lambda x: x * 2.0, lambda x: x * 3.0 + added, x)


LINEAR = {
    "scaled": lambda x: 2.0 * x,
    "zero": lambda x: np.zeros(3),
    "plus zeros": lambda x: x + np.zeros_like(x) + np.zeros(3),
    "where 0": lambda x: np.where(C > 0, x, 0.0),
    "beside zeros": lambda x: np.concatenate([x, np.zeros(2)]),
    "padded": lambda x: np.pad(x, 1),
    "stored": lambda x: fgrad.at(np.zeros(5))[1:4].set(x),
    "in a buffer": _in_buffer,
    "0 stored": _overwritten(0.0),
    "scan": _running(0.0),
    "cond": _branches(0.0),
    "jit": fgrad.jit(lambda x: x * 2.0),
    "vmap": fgrad.vmap(lambda x: x * 2.0),
    "fft": lambda x: np.real(np.fft.ifft(np.fft.fft(x) * C)),
    "solve": lambda x: np.linalg.solve(np.diag(C + 1.0), x),
    "mixed": lambda x: np.roll(x, 1) - x[::-1] + x @ np.ones((3, 3)) + np.cumsum(x) / 3.0,
}

AFFINE = {
    "plus 1": lambda x: 2.0 * x + 1.0,
    "minus an array": lambda x: x - C,
    "a constant": lambda x: C,
    "a constant beside": lambda x: (x, C),
    "where 1": lambda x: np.where(C > 0, x, 1.0),
    "beside ones": lambda x: np.concatenate([x, np.ones(2)]),
    "padded by 2": lambda x: np.pad(x, 1, constant_values=2.0),
    "stored in ones": lambda x: fgrad.at(np.ones(5))[1:4].set(x),
    "2 stored": _overwritten(2.0),
    "scan from 1": _running(1.0),
    "cond plus 1": _branches(1.0),
    "jit": fgrad.jit(lambda x: x * 2.0 + 1.0),
    "vmap": fgrad.vmap(lambda x: x * 2.0 + 1.0),
    "a product": lambda x: x * x,
}


@pytest.mark.parametrize("case", LINEAR)
def test_a_linear_function_has_a_transpose(case):
    fun = LINEAR[case]
    shape = np.shape(fun(X))
    ct = np.arange(1.0, 1.0 + np.prod(shape, dtype=int)).reshape(shape)
    (pulled,) = fgrad.linear_transpose(fun, X)(ct)
    np.testing.assert_allclose(np.sum(pulled * X), np.sum(ct * fun(X)), rtol=1e-12)


@pytest.mark.parametrize("case", AFFINE)
def test_a_constant_part_is_refused(case):
    out = fgrad.tree.map(np.ones_like, AFFINE[case](X))
    with pytest.raises(MissingRuleError, match="is not linear"):
        fgrad.linear_transpose(AFFINE[case], X)(out)


BWD = {
    "linear": lambda r, ct: (ct * np.cos(r),),
    "linear with zeros": lambda r, ct: (ct * np.cos(r) + np.zeros_like(r) + np.zeros(3),),
    "no cotangent": lambda r, ct: (np.cos(r),),
    "plus 1": lambda r, ct: (ct * np.cos(r) + 1.0,),
    "clipped": lambda r, ct: (np.clip(ct, -0.1, 0.1),),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("case", BWD)
def test_forward_mode_of_custom_vjp(case, jitted):
    @fgrad.custom_vjp
    def sine(x):
        return np.sin(x)

    sine.defvjp(lambda x: (sine(x), x), BWD[case])
    push = lambda x: fgrad.jvp(sine, (x,), (np.ones(3),))[1]  # noqa: E731
    push = fgrad.jit(push) if jitted else push
    if case.startswith("linear"):
        np.testing.assert_allclose(push(X), np.cos(X), rtol=1e-12)
    else:
        with pytest.raises(MissingRuleError, match="no forward derivative"):
            push(X)


JVP = {
    "linear": lambda p, t: (np.sin(p[0]), t[0] * np.cos(p[0])),
    "no tangent": lambda p, t: (np.sin(p[0]), np.cos(p[0])),
    "plus 1": lambda p, t: (np.sin(p[0]), t[0] * np.cos(p[0]) + 1.0),
}
MODES = {
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (np.ones(3),))[1],
    "grad": lambda f: fgrad.grad(lambda x: np.sum(f(x))),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", JVP)
def test_rules_of_custom_jvp(case, mode, jitted):
    @fgrad.custom_jvp
    def sine(x):
        return np.sin(x)

    sine.defjvp(JVP[case])
    derivative = MODES[mode](sine)
    derivative = fgrad.jit(derivative) if jitted else derivative
    if case == "linear":
        np.testing.assert_allclose(derivative(X), np.cos(X), rtol=1e-12)
    else:
        with pytest.raises(CustomRuleError, match="not linear in the tangents"):
            derivative(X)
