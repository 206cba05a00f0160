"""Rules for samples, integrals of vectors, and initial value problems by each of SciPy's methods:
values, derivatives against differences, jit and vmap."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import fgrad
import fgrad.scipy.integrate as si
from fgrad import grad, hessian, jit, jvp, vmap
from fgrad.errors import ArgumentError, FgradError, UnsupportedNumpyError

RNG = np.random.default_rng(5)
TIMES = np.array([0.0, 0.3, 0.7, 1.5, 1.6, 2.0, 2.2, 3.0, 3.5])


def _rules() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for n in (2, 3, 4, 5, 8, 9):
        y = RNG.normal(size=(3, n))
        for name in ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"):
            yield name, y, {"dx": 0.3}
            yield name, y, {"x": TIMES[:n]}
            yield name, y.T, {"x": TIMES[:n], "axis": 0}
            yield name, y, {"x": np.broadcast_to(TIMES[:n], (3, n))}
            if n % 2:  # of an even number SciPy makes float64
                yield name, y[0].astype(np.float32), {"x": TIMES[:n].astype(np.float32)}
            yield name, y + 1j, {"x": TIMES[:n]}
            if name.startswith("cumulative"):
                yield name, y, {"initial": 0, "axis": 0}
        if n in (2, 3, 5, 9):
            yield "romb", y, {"dx": 0.7}
            yield "romb", y.T, {"axis": 0}
    yield "trapezoid", np.zeros((3, 1)), {}
    yield "trapezoid", np.zeros((3, 0)), {}
    yield "simpson", np.array([1.0, np.nan, 2.0]), {}


RULES = list(_rules())


@pytest.mark.parametrize("name", sorted({r[0] for r in RULES}))
def test_rules_for_samples(name: str) -> None:
    ours, theirs = getattr(si, name), getattr(scipy.integrate, name)
    for _, y, given in [r for r in RULES if r[0] == name]:
        wanted = theirs(y, **given)
        found = jit(lambda y, ours=ours, given=given: ours(y, **given))(y)
        assert found.shape == wanted.shape
        if name != "simpson":  # which makes float64 of float32 here and there
            assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if y.dtype == np.float32 else 1e-12)
        if y.dtype == np.float64 and y.size and np.isfinite(y).all():
            way, h = RNG.normal(size=y.shape), 1e-6
            ends = [np.sum(theirs(y + s * h * way, **given) ** 2) for s in (1, -1)]
            g = grad(lambda y, ours=ours, given=given: np.sum(ours(y, **given) ** 2))(y)
            np.testing.assert_allclose(
                np.sum(g * way), (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8
            )


def test_rules_have_derivatives_in_places() -> None:
    y = np.sin(TIMES)
    for name in ("trapezoid", "simpson"):
        f = lambda x, name=name: getattr(si, name)(y, x=x)  # noqa: E731
        fgrad.testing.check_grads(f, (TIMES,), order=1)


@pytest.mark.parametrize(
    "program",
    [
        lambda y: si.trapezoid(y, x=np.ones(4)),
        lambda y: si.romb(y[:4]),
        lambda y: si.romb(y, show=True),
        lambda y: si.cumulative_trapezoid(y, initial=1.0),
        lambda y: si.simpson(y, axis=3),
        lambda y: si.trapezoid(y, ddx=1),
        lambda y: si.quad_vec(lambda t: t * y, 0.0, 1.0, full_output=True)[0],
    ],
)
def test_what_is_not_there_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)):
        jit(program)(np.ones(5))


def _stiff(t: Any, y: Any, k: Any) -> Any:
    return np.stack([-50.0 * k * (y[0] - np.cos(t)), y[0] - 0.5 * k * y[1]])


def _fall(t: Any, y: Any, g: Any) -> Any:
    return np.stack([y[1], -g])


def _ground(t: Any, y: Any, g: Any) -> Any:
    return y[0]


def _top(t: Any, y: Any, g: Any) -> Any:
    return y[1]


_ground.terminal, _ground.direction = True, -1  # type: ignore[attr-defined]
FINE = {"rtol": 1e-8, "atol": 1e-8}


def _thrown(p: Any, **more: Any) -> Any:
    return si.solve_ivp(
        _fall, (0.0, 50.0), np.stack([1.0, 3.0 * p]), args=(9.81 + p,), events=(_top, _ground),
        **FINE, **more,
    )  # fmt: skip


PROBLEMS: dict[str, Callable[[Any], Any]] = {
    **{
        method: lambda p, method=method: si.solve_ivp(
            _stiff, (0.0, 1.0), np.stack([p, 1.0]), method, np.array([0.2, 1.0]), args=(p,), **FINE
        ).y[1] @ np.array([1.0, 2.0])
        for method in ("RK23", "DOP853", "Radau", "BDF", "LSODA")
    },
    "max_step": lambda p: si.solve_ivp(
        _stiff, (0.0, p), [1.0, 1.0], t_eval=[0.5, p], max_step=0.01, args=(2.0,), **FINE
    ).y[1, 1],
    "start": lambda p: si.solve_ivp(
        _stiff, (0.1 * p, 2.0), [1.0, 1.0], "LSODA", [2.0], args=(p,), **FINE
    ).y[1, 0],
    "atol of each": lambda p: si.solve_ivp(
        _stiff, (0.0, 1.0), [1.0, 1.0], "BDF", [1.0], args=(p,), rtol=1e-9,
        atol=[1e-10, 1e-11],
    ).y[0, 0],
    "event": lambda p: _thrown(p).t_events[1][0],
    "value at an event": lambda p: _thrown(p).y_events[1][0, 1],
    "end at an event": lambda p: _thrown(p).y[1, -1] + _thrown(p).t[-1],
    "times before an event": lambda p: np.sum(_thrown(p, t_eval=np.linspace(0, 9, 50)).y),
    "dense": lambda p: np.sum(_thrown(p, dense_output=True).sol(np.array([0.4, 0.1])) ** 2),
    "dense at a number": lambda p: _thrown(p, dense_output=True).sol(0.2)[0],
    "quad_vec": lambda p: si.quad_vec(lambda t: np.stack([np.exp(-p * t), t**p]), 0.0, p)[0][1],
    "quad_vec matrix": lambda p: np.sum(si.quad_vec(
        lambda t, c: np.eye(2) * np.exp(-c * t), 0.0, np.inf, args=(p,), norm="max"
    )[0]),
    "tplquad": lambda p: si.tplquad(
        lambda z, y, x: z * y + p * x, 0.0, p, 0.0, lambda x: x, 0.0, lambda x, y: x + y
    )[0],
    "fixed_quad": lambda p: si.fixed_quad(lambda t: np.exp(-p * t), 0.1, p, n=7)[0],
}  # fmt: skip
UNKNOWN = ("event", "value at", "end at", "times before", "dense")


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives(name: str) -> None:
    f, h = PROBLEMS[name], 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = (f(2.0 + h) - f(2.0 - h)) / (2 * h)
        np.testing.assert_allclose(grad(f)(2.0), expected, rtol=1e-4)
        np.testing.assert_allclose(fgrad.value_and_grad(f)(2.0)[0], f(2.0), rtol=1e-6)
        if name.startswith(UNKNOWN):
            with pytest.raises(FgradError):
                jit(f)(2.0)
            return
        np.testing.assert_allclose(jit(f)(2.0), f(2.0), rtol=1e-6)
        np.testing.assert_allclose(jvp(f, (2.0,), (1.0,))[1], expected, rtol=1e-4)
        if name == "DOP853":
            np.testing.assert_allclose(vmap(grad(f))(np.array([1.0, 2.0]))[1], expected, rtol=1e-4)
            second = (grad(f)(2.0 + h) - grad(f)(2.0 - h)) / (2 * h)
            np.testing.assert_allclose(hessian(f)(2.0), second, rtol=1e-4)


def test_events_need_known_values_and_bands_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no events"):
        jit(lambda p: _thrown(p, t_eval=[0.1]).t_events[0])(2.0)
    with pytest.raises(UnsupportedNumpyError, match="lband"):
        grad(lambda p: _thrown(p, lband=1).t_events[0][0])(2.0)
