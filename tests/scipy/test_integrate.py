"""scipy.integrate: solutions against SciPy's, derivatives against formulas and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate as plain

import fgrad
import fgrad.scipy.integrate as si
from fgrad.errors import ArgumentError, ShapeError

TIMES = np.array([0.0, 0.3, 1.0, 2.5])


def pendulum(y: Any, t: Any, omega: Any, damping: Any) -> Any:
    return np.stack([y[1], -(omega**2) * np.sin(y[0]) - damping * y[1] + 0.3 * np.cos(t)])


Y0, OMEGA, DAMPING = np.array([1.0, 0.2]), 1.7, 0.3


@pytest.mark.parametrize("times", [TIMES, TIMES[::-1].copy(), TIMES[:1]])
def test_odeint_is_scipys(times: np.ndarray) -> None:
    expected = plain.odeint(pendulum, Y0, times, (OMEGA, DAMPING), rtol=1e-11, atol=1e-11)
    solve = fgrad.jit(lambda y: si.odeint(pendulum, y, times, (OMEGA, DAMPING)))
    np.testing.assert_allclose(solve(Y0), expected, atol=3e-7)
    assert si.odeint(pendulum, Y0, times, (OMEGA, DAMPING)).shape == expected.shape


def _loss(y0: Any, times: Any, omega: Any, damping: Any, adjoint: bool) -> Any:
    ys = si.odeint(pendulum, y0, times, (omega, damping), rtol=1e-9, atol=1e-9, adjoint=adjoint)
    return np.sum(np.arange(1.0, 5)[:, None] * ys**2)


@pytest.mark.parametrize("adjoint", [True, False])
def test_gradients(adjoint: bool) -> None:
    args = (Y0, TIMES, OMEGA, DAMPING)
    gradient = fgrad.jit(fgrad.grad(lambda *a: _loss(*a, adjoint), argnums=(0, 1, 2, 3)))(*args)

    def value(*a: Any) -> float:
        ys = plain.odeint(pendulum, a[0], a[1], a[2:], rtol=1e-12, atol=1e-12)
        return float(np.sum(np.arange(1.0, 5)[:, None] * ys**2))

    for k, x in enumerate(args):
        flat = np.atleast_1d(np.asarray(x, float))
        difference = []
        for step in 1e-5 * np.eye(flat.size):
            ends = [value(*args[:k], (flat + s).reshape(np.shape(x)), *args[k + 1 :])
                    for s in (step, -step)]  # fmt: skip
            difference.append((ends[0] - ends[1]) / 2e-5)
        if k == 1 and not adjoint:
            continue  # steps that end at a time depend on it in ways of their own
        np.testing.assert_allclose(np.ravel(gradient[k]), difference, rtol=2e-5, atol=1e-6)


def test_what_a_field_closes_over_and_trees() -> None:
    def loss(p: Any) -> Any:
        ys = si.odeint(lambda y, t: np.tanh(p["w"] @ y + p["b"]), np.ones(2), TIMES)
        return np.sum(ys[-1])

    p = {"w": np.array([[0.1, -0.5], [0.4, 0.2]]), "b": np.array([0.3, -0.1])}
    gradient = fgrad.jit(fgrad.grad(loss))(p)
    for key in p:
        for place in np.ndindex(p[key].shape):
            step = np.zeros_like(p[key])
            step[place] = 1e-5
            ends = [fgrad.jit(loss)({**p, key: p[key] + s}) for s in (step, -step)]
            np.testing.assert_allclose(
                gradient[key][place], (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-6
            )


def test_forward_mode_and_vmap() -> None:
    def end(k: Any, adjoint: bool = False) -> Any:
        return si.odeint(lambda y, t: -k * y, 1.0, TIMES, adjoint=adjoint)[-1, 0]

    value, tangent = fgrad.jvp(end, (0.7,), (1.0,))
    np.testing.assert_allclose(
        [value, tangent], np.exp(-0.7 * 2.5) * np.array([1, -2.5]), rtol=1e-6
    )
    ks = np.array([0.2, 1.0, 3.0])
    mapped = fgrad.jit(fgrad.vmap(fgrad.grad(lambda k: end(k, True))))(ks)
    np.testing.assert_allclose(mapped, -2.5 * np.exp(-ks * 2.5), rtol=1e-5)


def test_solve_ivp() -> None:
    def f(t: Any, y: Any, k: Any) -> Any:
        return -k * y + np.sin(t)

    def run(k: Any) -> Any:
        return si.solve_ivp(
            f, (0.0, 2.0), [1.0, -1.0], t_eval=[0.5, 2.0], args=(k,), rtol=1e-9, atol=1e-9
        ).y

    expected = plain.solve_ivp(
        f, (0.0, 2.0), [1.0, -1.0], t_eval=[0.5, 2.0], args=(0.8,), rtol=1e-9, atol=1e-9
    ).y
    np.testing.assert_allclose(fgrad.jit(run)(0.8), expected, atol=1e-7)
    slope = fgrad.jacrev(run)(0.8)
    np.testing.assert_allclose(slope, (run(0.8 + 1e-5) - run(0.8 - 1e-5)) / 2e-5, rtol=1e-4)
    with pytest.raises(ArgumentError, match="needs t_eval"):
        fgrad.jit(lambda k: si.solve_ivp(f, (0.0, 2.0), [1.0], "BDF", args=(k,)).y)(1.0)


def test_too_many_steps_give_nan() -> None:
    out = fgrad.jit(lambda y: si.odeint(lambda y, t: y**2, y, np.array([0.0, 2.0]), mxstep=50))(1.0)
    assert np.isnan(out[-1]).all()


def _decay(t: Any, y: Any) -> Any:
    return -1.3 * y * (1 + 0.3 * np.sin(t))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "BDF"])
@pytest.mark.parametrize("single", [False, True])
def test_intervals_of_length_zero_and_precision(method: str, single: bool) -> None:
    y0 = np.array([1.0, 0.5], np.float32 if single else np.float64)

    def solve(y: Any, end: Any) -> Any:
        return si.solve_ivp(_decay, (1.0, end), y, method, t_eval=np.stack([end])).y

    found = fgrad.jit(solve)(y0, 1.0)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[:, 0], y0)
    slope = fgrad.jit(fgrad.grad(lambda end: np.sum(solve(np.array([1.0, 0.5]), end))))(1.0)
    np.testing.assert_allclose(slope, np.sum(_decay(1.0, np.array([1.0, 0.5]))))


@pytest.mark.parametrize("method", ["RK45", "DOP853"])
def test_complex_values(method: str) -> None:
    y0, ts = np.array([1.0 + 0.5j]), [0.5, 1.0]

    def solve(ivp: Any, y: Any) -> Any:
        return ivp.solve_ivp(_decay, (0.0, 1.0), y, method, t_eval=ts, rtol=1e-9, atol=1e-9).y

    found = fgrad.jit(lambda y: solve(si, y))(y0)
    np.testing.assert_allclose(found, solve(plain, y0), rtol=1e-6)


@pytest.mark.parametrize(
    "y0, t_eval",
    [
        ([1.0], [0.5, 2.0]), ([1.0], [-0.1, 0.5]), ([1.0], [0.5, 0.2]), ([1.0], [0.5, 0.5]),
        ([1.0], [[0.5]]), (1.0, [0.5]), ([[1.0]], [0.5]),
    ],
)  # fmt: skip
def test_times_and_starts_that_scipy_refuses(y0: Any, t_eval: Any) -> None:
    def solve(ivp: Any, y: Any) -> Any:
        return ivp.solve_ivp(_decay, (0.0, 1.0), y, t_eval=t_eval)

    with pytest.raises(ValueError):
        solve(plain, np.array(y0))
    with pytest.raises(ArgumentError, match="solve_ivp"):
        fgrad.jit(lambda y: solve(si, y))(np.array(y0))


METHODS = ("RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(2,), (4,), (3, 3), (1, 3), (0,)])
@pytest.mark.parametrize("transform", [fgrad.jit, fgrad.grad])
def test_slopes_of_a_wrong_shape(method: str, shape: tuple[int, ...], transform: Any) -> None:
    def end(k: Any) -> Any:
        found = si.solve_ivp(
            lambda t, y: k * np.ones(shape), (0.0, 1.0), np.ones(3), method, t_eval=[1.0]
        )
        return np.sum(found.y)

    with pytest.raises(ShapeError, match=r"The slopes .* have shape .*, its values \(3,\)"):
        transform(end)(1.0)


@pytest.mark.parametrize("method", METHODS[:3])
def test_one_slope_for_all_values_is_scipys(method: str) -> None:
    def end(k: Any, ivp: Any = si) -> Any:
        return ivp.solve_ivp(lambda t, y: k * t, (0.0, 1.0), np.ones(3), method, t_eval=[1.0]).y

    np.testing.assert_allclose(fgrad.jit(end)(2.0), end(2.0, plain), rtol=1e-6)


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA"])
def test_sensitivities_of_stiff_problems(method: str) -> None:
    def end(m: Any, ivp: Any = si, tight: float = 1.0) -> Any:
        def slopes(t: Any, y: Any) -> Any:
            return np.array([y[1], m * ((1 - y[0] ** 2) * y[1] - y[0])])

        found = ivp.solve_ivp(
            slopes, (0.0, 0.9), np.array([2.0, 0.0]), method, t_eval=[0.3, 0.9],
            rtol=1e-7 * tight, atol=1e-9 * tight,
        )  # fmt: skip
        return np.sum(found.y[0] ** 2)

    h = 1.0
    wanted = [end(1e3 + s * h, plain, 1e-4) for s in (1, -1)]
    slope = (wanted[0] - wanted[1]) / (2 * h)
    assert fgrad.jit(fgrad.grad(end))(1e3) == pytest.approx(slope, rel=2e-3)
