"""Options of SciPy's functions under transforms: those unknown to SciPy are refused by name, and so
are those that mean something which the traced form does not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedNumpyError
from fgrad.scipy import integrate, optimize

TIMES = np.linspace(0.0, 1.0, 3)
Call = Callable[..., Any]


def bowl(a: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum((x - a) ** 2)


def crossing(a: Any) -> Callable[[Any], Any]:
    return lambda x: x * x * x - a


CALLS: dict[str, Call] = {
    "bisect": lambda a, **k: optimize.bisect(crossing(a), 0.0, 9.0, **k),
    "brentq": lambda a, **k: optimize.brentq(crossing(a), 0.0, 9.0, **k),
    "newton": lambda a, **k: optimize.newton(crossing(a), 1.0, **k),
    "root_scalar": lambda a, **k: optimize.root_scalar(crossing(a), bracket=(0.0, 9.0), **k).root,
    "root": lambda a, **k: optimize.root(crossing(a), np.ones(2), **k).x,
    "fsolve": lambda a, **k: optimize.fsolve(crossing(a), np.ones(2), **k),
    "minimize": lambda a, **k: optimize.minimize(bowl(a), np.ones(2), **k).x,
    "minimize_scalar": lambda a, **k: optimize.minimize_scalar(bowl(a), **k).x,
    "least_squares": lambda a, **k: optimize.least_squares(crossing(a), np.ones(2), **k).x,
    "odeint": lambda a, **k: integrate.odeint(lambda y, t: -a * y, np.ones(1), TIMES, **k),
    "quad": lambda a, **k: integrate.quad(lambda x: a * x, 0.0, 1.0, **k)[0],
}


@pytest.mark.parametrize("value", [3, 0, None], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_unknown_option_is_refused(name: str, value: Any) -> None:
    f = CALLS[name]
    assert np.isfinite(fgrad.grad(lambda a: np.sum(f(a)))(3.0))
    with pytest.raises((TypeError, UnsupportedNumpyError), match="nonsense"):
        fgrad.grad(lambda a: np.sum(f(a, nonsense=value)))(3.0)


@pytest.mark.parametrize("option", [{"full_output": True}, {"tcrit": [0.5]}, {"hmax": 0.1}])
def test_odeint_refuses_what_it_does_not_do(option: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedNumpyError, match=next(iter(option))):
        fgrad.grad(lambda a: np.sum(CALLS["odeint"](a, **option)))(1.0)


def test_odeint_with_hints() -> None:
    hints = {"h0": 0.01, "Dfun": None, "mxordn": 5, "printmessg": False}
    slope = fgrad.grad(lambda a: CALLS["odeint"](a, **hints)[-1, 0])(1.0)
    assert slope == pytest.approx(-np.exp(-1.0), rel=1e-5)
