"""What SciPy's solvers call back is compiled once for a program, with the values of each run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import fgrad
import fgrad.scipy.integrate as own_integrate
import fgrad.scipy.optimize as own_optimize
from fgrad.scipy import _bound

MATRIX = np.random.default_rng(3).normal(size=(6, 3))


def slope_of_cube(t: Any) -> Any:
    return 3 * t**2


def curvature_of_cube(t: Any) -> Any:
    return 6 * t


def system(p: Any) -> Callable[[Any], Any]:
    return lambda x: x + 0.3 * np.sin(x) - p * np.array([0.2, 0.4, 0.6])


def bowl(p: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum((x - p) ** 2 + 0.1 * (x - p) ** 4)


CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "brentq": lambda so, si, p: so.brentq(lambda t: t**3 - p, 0.0, 3.0),
    "toms748": lambda so, si, p: so.toms748(lambda t: t**3 - p, 0.0, 3.0),
    "root_scalar": lambda so, si, p: so.root_scalar(lambda t: t**3 - p, bracket=(0.0, 3.0)).root,
    "newton": lambda so, si, p: so.newton(lambda t: t**3 - p, 1.0),
    "halley": lambda so, si, p: (
        so.root_scalar(
            lambda t: t**3 - p,
            x0=1.0,
            method="halley",
            fprime=slope_of_cube,
            fprime2=curvature_of_cube,
        ).root
    ),
    "newton by slopes": lambda so, si, p: so.newton(lambda t: t**3 - p, 1.0, fprime=slope_of_cube),
    "newton by curvatures": lambda so, si, p: so.newton(
        lambda t: t**3 - p, np.array([1.0, 2.0]), fprime=slope_of_cube, fprime2=curvature_of_cube
    ),
    "root": lambda so, si, p: so.root(system(p), np.zeros(3)).x,
    "root of float32": lambda so, si, p: so.root(system(p), np.zeros(3, np.float32)).x,
    "lm": lambda so, si, p: so.root(system(p), np.zeros(3), method="lm").x,
    "fsolve": lambda so, si, p: so.fsolve(system(p), np.zeros(3)),
    "broyden1": lambda so, si, p: so.broyden1(system(p), np.zeros(3), f_tol=1e-9),
    "fixed_point": lambda so, si, p: so.fixed_point(lambda t: 0.5 * (t + p / t), 1.0),
    "minimize": lambda so, si, p: so.minimize(bowl(p), np.zeros(3)).x,
    "CG": lambda so, si, p: so.minimize(bowl(p), np.zeros(3), method="CG").x,
    "within": lambda so, si, p: so.minimize(bowl(p), np.zeros(2), bounds=[(0.0, 2.5)] * 2).x,
    "minimize_scalar": lambda so, si, p: so.minimize_scalar(lambda t: (t - p) ** 2 + t).x,
    "least_squares": lambda so, si, p: (
        so.least_squares(lambda x: MATRIX @ x - p * MATRIX[:, 0] ** 2, np.zeros(3)).x
    ),
    "leastsq": lambda so, si, p: so.leastsq(lambda x: MATRIX @ x - p, np.zeros(3))[0],
    "fmin_bfgs": lambda so, si, p: so.fmin_bfgs(bowl(p), np.zeros(3), disp=0),
    "nnls": lambda so, si, p: so.nnls(MATRIX, p * MATRIX[:, 0] - MATRIX[:, 1])[0],
    "lsq_linear": lambda so, si, p: so.lsq_linear(MATRIX, p * MATRIX[:, 0], (0.0, 2.5)).x,
    "quad": lambda so, si, p: si.quad(lambda t: np.exp(-p * t), 0.0, 3.0)[0],
    "quad to infinity": lambda so, si, p: si.quad(lambda t: np.exp(-p * t), 0.0, np.inf)[0],
    "quad_vec": lambda so, si, p: si.quad_vec(lambda t: np.exp(-p * t) * MATRIX, 0.0, 1.0)[0],
    "dblquad": lambda so, si, p: si.dblquad(lambda y, x: x * y * p, 0.0, 1.0, 0.0, 2.0)[0],
    "nested": lambda so, si, p: so.brentq(
        lambda t: si.quad(lambda s: s * t, 0.0, 1.0)[0] - p, 0.0, 30.0
    ),
}
VALUES = (2.0, 3.0, 5.0, 2.0)


def own(name: str) -> Callable[[Any], Any]:
    return lambda p: CASES[name](own_optimize, own_integrate, p)


@pytest.mark.parametrize("name", CASES)
def test_a_program_compiles_once_and_takes_the_values_of_each_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(_bound, "jit", lambda f: made.append(f) or fgrad.jit(f))
    f, counts = fgrad.jit(own(name)), []
    for p in VALUES:
        expected = CASES[name](scipy.optimize, scipy.integrate, p)
        np.testing.assert_allclose(f(p), expected, rtol=2e-5, atol=2e-5)
        counts.append(len(made))
    assert counts == counts[:1] * len(VALUES)


@pytest.mark.parametrize("name", CASES)
def test_maps_and_derivatives_of_programs_are_those_without(name: str) -> None:
    ps = np.array(VALUES[:3])
    each = [own(name)(p) for p in ps]
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(own(name)))(ps), each, rtol=2e-5, atol=2e-5)
    slope = fgrad.jacfwd(own(name))
    np.testing.assert_allclose(fgrad.jit(slope)(3.0), slope(3.0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["brentq", "root", "least_squares", "nnls", "quad"])
def test_threads_have_values_of_their_own(name: str) -> None:
    f, wrong = fgrad.jit(own(name)), []
    expected = {p: np.array(f(p)) for p in VALUES}

    def work(p: float) -> None:
        for _ in range(30):
            if not np.array_equal(f(p), expected[p]):
                wrong.append(p)

    threads = [threading.Thread(target=work, args=(p,)) for p in VALUES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_function_raises_comes_through_and_the_next_run_works() -> None:
    def raising(x: np.ndarray) -> np.ndarray:
        if x < 0:
            raise ArithmeticError("below")
        return x

    def f(p: Any) -> Any:
        def shifted(t: Any) -> Any:
            return fgrad.pure_callback(raising, fgrad.ShapeDtype((), float), t - p)

        return own_integrate.quad(lambda t: shifted(t), 0.0, 1.0)[0]

    program = fgrad.jit(f)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="below"):
            program(0.5)
        assert program(0.0) == pytest.approx(0.5)
