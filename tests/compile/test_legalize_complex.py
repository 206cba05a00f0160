"""Complex arrays as pairs of real ones: compiled programs give NumPy's numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.legalize_complex import RULES, legalize_complex
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.routines import Evaluation
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.trace import run

RNG = np.random.default_rng(3)
Z = RNG.standard_normal((5, 4)) + 1j * RNG.standard_normal((5, 4))
W = RNG.standard_normal((5, 4)) + 1j * RNG.standard_normal((5, 4))

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda z, w: (z + w) * z - w / z + 2 * z - (1 + 2j) / w + (-z),
    "parts": lambda z, w: np.conj(z) * w.real + w.imag * 1j,
    "abs": lambda z, w: np.abs(z) ** 2 + np.abs(w),
    "matmul": lambda z, w: z.T @ w,
    "matvec": lambda z, w: z @ w[0],
    "einsum": lambda z, w: np.einsum("ij,ij->i", z, np.conj(w)),
    "exp": lambda z, w: np.exp(1j * z.real) * np.exp(w),
    "moves": lambda z, w: np.concatenate([z[::-1].T, w.T[:, 1:]], 1).reshape(-1)[3:],
    "sums": lambda z, w: z.sum(0) + w.mean(0) * np.cumsum(z, 1)[:, 0].sum(),
    "where": lambda z, w: np.where(np.abs(z) > 1, z, w),
    "gather": lambda z, w: z[np.array([0, 2]), :1] + w[1:3, 2:3],
    "pad": lambda z, w: np.pad(z, 1, constant_values=2),
    "fft": lambda z, w: np.fft.ifft(np.fft.fft(z) * np.fft.fft(w)),
    "rfft": lambda z, w: np.fft.irfft(np.fft.rfft(z.real) * np.fft.rfft(w.real)),
    "host": lambda z, w: np.sqrt(z) + np.log(w) + np.tanh(z) * np.prod(w, 0),
    "constants": lambda z, w: z * (np.arange(4) + 1j) + np.ones((5, 1)) * 1j,
    "compare": lambda z, w: (z == w) | (z != z + 1),
    "results": lambda z, w: (z, w.T, 3j, z * 0, np.float64(1)),
    "narrow": lambda z, w: z.astype(np.complex64) * np.float32(2) + w.astype(np.complex64),
    "powers": lambda z, w: z**2 + w**3 + z**1.5,
    "widened": lambda z, w: w.real * z + w.real.astype(np.complex128),
    "solve": lambda z, w: np.linalg.solve(z[:4], w[:4]),
    "scalar": lambda z, w: z[0, 0] * w.sum() + 1j,
}


def _leaves(out: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f = CASES[name]
    for got, expected in zip(_leaves(fgrad.jit(f)(Z, W)), _leaves(f(Z, W)), strict=True):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        tolerance = 1e-5 if expected.dtype == np.complex64 else 1e-12
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_what_is_left(name: str) -> None:
    """The pass keeps the meaning, and no equation that it has a rule for stays complex."""
    program = fgrad.make_program(lambda z, w: CASES[name](z, w))(Z, W)
    split = cse(legalize_complex(program))
    for a, b in zip(run(program, [Z, W]), run(split, [Z, W]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-12)
    assert split.out_avals == program.out_avals
    left = [e for e in split.eqns if any(a.aval.dtype.kind == "c" for a in e.inputs)]
    assert {e.prim.name for e in left} & set(RULES) <= {"real", "imag", "pow"}


def test_real_programs_stay_as_they_are() -> None:
    program = fgrad.make_program(lambda x: np.sin(x) * 2)(np.ones(3))
    assert legalize_complex(program) is program


@pytest.mark.parametrize("name", ["divide", "multiply", "exp", "add", "absolute"])
def test_special_values(name: str) -> None:
    """Infinities, NaN and zeros come out where NumPy has them."""
    large = 7.0 if name == "multiply" else 1e300  # fused products round overflow elsewhere
    parts = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, large])
    grid = (parts[:, None] + 0j).repeat(8, 1)
    grid.imag = parts
    x, y = grid.ravel()[:, None], grid.ravel()[None]
    ufunc = getattr(np, name)
    args = (x, y) if ufunc.nin == 2 else (x,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ufunc(*args)
    got = fgrad.jit(lambda *a: ufunc(*a))(*args)
    for part in (np.real, np.imag):
        a, b = part(got), part(expected)
        if name == "exp":  # of infinite or NaN imaginary parts C leaves the results open
            keep = np.isfinite(args[0].imag) & np.isfinite(args[0].real)
            a, b = a[keep], b[keep]
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_gradients() -> None:
    def loss(x: Any) -> Any:
        z = np.exp(1j * x) * (2 + 1j) + np.fft.fft(x)
        return np.sum(np.abs(z @ np.conj(W[0, 0] * z)) + (z / (3 + z)).real)

    x = RNG.standard_normal(6)
    expected = fgrad.grad(loss)(x)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(x), expected, rtol=1e-11)
    np.testing.assert_allclose(fgrad.grad(fgrad.jit(loss))(x), expected, rtol=1e-11)
    np.testing.assert_allclose(
        fgrad.vmap(fgrad.jit(fgrad.grad(loss)))(np.stack([x, x]))[1], expected, rtol=1e-11
    )


def counted(z: Any, c: Any) -> Any:
    for _ in range(40):
        z = z * z * 0.3 + c
    return z


def until(z: Any, c: Any) -> Any:
    n = 0
    while abs(z) < 2.0 and n < 50:
        z = z * z + c
        n += 1
    return z * n


def chosen(z: Any, c: Any) -> Any:
    for k in range(6):
        if abs(z) < 1.0:
            z = z * (1 + 1j)
            z += k
        else:
            z = np.exp(1j * c) - z
    return z


def filled(z: Any, c: Any) -> Any:
    y = np.zeros(30, dtype=complex)
    s = z
    for i in range(30):
        s = s * (0.8 + 0.1j) + c
        y[i] = s
    return y


def solved(z: Any, c: Any) -> Any:
    total = np.zeros((5, 4), dtype=complex)
    for k in range(7):
        a = np.eye(5) * (c + k + 2) + z * W[:, :1]
        total += np.linalg.solve(a, W) * np.fft.fft(W)
    return total


LOOPS = (counted, until, chosen, filled, solved)


@pytest.mark.parametrize("f", LOOPS)
def test_loops_on_complex_numbers_are_loops_on_their_parts(f: Callable[..., Any]) -> None:
    args = (0.1 + 0.2j, 0.3 - 0.1j)
    np.testing.assert_allclose(fgrad.jit(f)(*args), f(*args), rtol=1e-10)
    steps = compile_program(fgrad.make_program(fgrad.jit(f))(*args)).stages
    (lowered,) = [stage.result for stage in steps if stage.name == "lower"]
    routines = [step.routine for step in lowered if isinstance(step, LibraryStep)]
    assert not [r for r in routines if isinstance(r, Evaluation) and r.eqn.prim.holds]

    def loss(t: Any) -> Any:
        y = f(args[0] * t, args[1])
        return np.sum(np.real(y) ** 2 + np.imag(y))

    gradient, h = fgrad.jit(fgrad.grad(loss))(1.0), 1e-6
    np.testing.assert_allclose(gradient, (loss(1 + h) - loss(1 - h)) / (2 * h), 1e-6, 1e-9)


@pytest.mark.parametrize("name", ["solve", "det", "inv"])
def test_what_only_libraries_read_is_not_taken_apart(name: str) -> None:
    a = RNG.standard_normal((16, 3, 3)) + 1j * RNG.standard_normal((16, 3, 3))
    f: Any = {"solve": lambda a: np.linalg.solve(a, a)}.get(name, getattr(np.linalg, name))
    program = legalize_complex(inline_calls(fgrad.make_program(f)(a)))
    taken = [eqn for eqn in program.eqns if eqn.inputs and eqn.inputs[0] is program.inputs[0]]
    assert not {"real", "imag"} & {eqn.prim.name for eqn in taken}
