"""What has no derivative may stand behind `stop_gradient`: no transform asks for one there."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import MissingRuleError

X = np.array([1.0, 2.0])


def _thrice(x):
    return fgrad.pure_callback(lambda v: v * 3.0, np.zeros(2), x)


@fgrad.primitive(out=lambda x: x)
def ruleless(x):
    return x * 3.0


AROUND = {
    "plain": lambda f: f,
    "jit": fgrad.jit,
    "checkpoint": fgrad.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "cond": lambda f: lambda x: lax.cond(np.array(True), f, lambda x: x, x),
}
MODES = {
    "grad": lambda f: fgrad.grad(f),
    "jit of grad": lambda f: fgrad.jit(fgrad.grad(f)),
    "forward": lambda f: fgrad.jacfwd(f),
    "vjp": lambda f: lambda x: fgrad.vjp(f, x)[1](1.0)[0],
    "vmap": lambda f: lambda x: fgrad.vmap(fgrad.grad(f))(np.stack([x, x]))[1],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("around", AROUND)
def test_callbacks(around, mode):
    fun = AROUND[around](lambda x: x * _thrice(fgrad.stop_gradient(x)))
    found = MODES[mode](lambda x: np.sum(fun(x)))(X)
    np.testing.assert_allclose(found, 3.0 * X)


@pytest.mark.parametrize("mode", ["grad", "jit of grad", "forward", "vjp"])
def test_primitives_of_the_user(mode):
    found = MODES[mode](lambda x: np.sum(x * ruleless(fgrad.stop_gradient(x))))(X)
    np.testing.assert_allclose(found, 3.0 * X)


@pytest.mark.parametrize("mode", MODES)
def test_without_it_they_are_refused(mode):
    with pytest.raises(MissingRuleError):
        MODES[mode](lambda x: np.sum(x * _thrice(x)))(X)
