"""Rules, registration and libraries: each test is one thing that was wrong once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fgrad
from fgrad import optim
from fgrad.errors import ArgumentError

ROOT = Path(__file__).resolve().parents[2]


def in_new_process(code: str) -> str:
    """What a program prints that is the first to use fgrad in its process."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "f = lambda x: np.linalg.norm([x, x + 2])",
        "f = lambda x: np.fft.fft([x, 0 * x])[0].real",
        "import fgrad.numpy.linalg as la; f = lambda x: la.norm([x, x + 2])",
        "import fgrad.numpy.fft as fft; f = lambda x: fft.fft([x, 0 * x])[0].real",
    ],
    ids=["2.4 linalg", "2.4 fft", "6f linalg first", "6f fft first"],
)
def test_linalg_and_fft_take_traced_numbers_from_the_beginning(code: str) -> None:
    program = f"import fgrad, fgrad.numpy as np; {code}; print(fgrad.grad(f)(0.0))"
    assert in_new_process(program) == "1.0"
    if "import " in code:
        first, rest = code.split("; ")
        program = f"{first}; {rest}; import fgrad.numpy as np; print(np.linalg.norm([3, 4]))"
        assert in_new_process(program) == "5.0"


def test_2_5_a_lazy_import_is_not_interrupted() -> None:
    """A Ctrl-C in the midst of a load comes when the load is done; all works afterwards."""
    program = """
import builtins, signal, fgrad, numpy as np
plain, left = builtins.__import__, [1]
def interrupting(name, *args, **kwargs):
    if left and "scipy" in name:
        left.pop()
        signal.raise_signal(signal.SIGINT)
    return plain(name, *args, **kwargs)
builtins.__import__ = interrupting
import scipy.special
f = lambda x: fgrad.scipy.special.erf(x)
try:
    fgrad.grad(f)(0.0)
except KeyboardInterrupt:
    print("interrupted")
print(fgrad.grad(f)(0.0).round(4))
"""
    program = program.replace("import scipy.special\n", "")
    assert in_new_process(program).split() == ["interrupted", "1.1284"]


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad"])
def test_7_1_optimizers_find_the_minimum_over_complex_numbers(name: str) -> None:
    settings = {"weight_decay": 0.0} if name == "adamw" else {}
    rate = {"adagrad": 1.0, "rmsprop": 0.01}.get(name, 0.1)
    optimizer = getattr(optim, name)(rate, **settings)
    z = np.zeros(2, complex)
    state = optimizer.init(z)
    for _ in range(400):
        gradient = fgrad.grad(lambda z: np.sum(np.abs(z - (2 + 2j)) ** 2))(z)
        updates, state = optimizer.update(gradient, state, z)
        z = optim.apply_updates(z, updates)
    np.testing.assert_allclose(z, 2 + 2j, atol=0.02)


def test_7_1_the_norm_of_complex_numbers_is_that_of_their_parts() -> None:
    norm = optim.global_norm([3 + 4j])
    assert norm == 5.0 and norm.dtype == np.float64
    clipped, _ = optim.clip_by_global_norm(1.0).update([3 + 4j], optim.EmptyState())
    np.testing.assert_allclose(clipped, [0.6 + 0.8j])


@pytest.mark.parametrize("function", ["minimize", "root", "least_squares"])
def test_7_1_minimisers_refuse_complex_numbers(function: str) -> None:
    optimize = fgrad.scipy.optimize
    with pytest.raises(ArgumentError, match="real numbers"):
        getattr(optimize, function)(lambda z: np.abs(z - 1j) ** 2, np.array([0j]))
    x0 = np.array([1 + 2j, 0j])  # as the card says
    goal = np.array([1j, 3.0])
    found = optimize.minimize(
        lambda p: np.sum(np.abs(p[: x0.size] + 1j * p[x0.size :] - goal) ** 2),
        np.r_[x0.real, x0.imag],
    ).x
    np.testing.assert_allclose(found[:2] + 1j * found[2:], goal, atol=1e-5)


def test_1_11_neighbours_have_the_slope_of_a_rounded_number() -> None:
    """The spacing of floats is constant in pieces; the next number is x, but for rounding."""
    for transform in (fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f))):
        assert transform(np.spacing)(1.5) == 0.0
        assert transform(lambda x: np.nextafter(x, 2.0))(1.5) == 1.0
        assert transform(lambda y: np.nextafter(1.5, y))(2.0) == 0.0


def test_1_11_equal_elements_share_the_running_maximum() -> None:
    slope = fgrad.grad(lambda x: np.sum(np.maximum.accumulate(x)))(np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(slope, [2.0, 1.0, 0.0])


def test_6_entropy_has_an_infinite_slope_at_zero() -> None:
    entr = fgrad.scipy.special.entr
    for transform in (lambda f: f, fgrad.jit):
        with np.errstate(divide="ignore"):
            assert transform(lambda x: fgrad.jvp(entr, (x,), (1.0,)))(0.0) == (0.0, np.inf)
            assert transform(fgrad.grad(entr))(0.0) == np.inf
        assert transform(fgrad.grad(fgrad.grad(entr)))(0.5) == -2.0


def test_6_choosing_nothing_with_repetition() -> None:
    special = pytest.importorskip("scipy.special")
    n, k = np.array([0.0, -1.0, 3.0, 2.0]), np.array([0.0, 0.0, 2.0, 0.0])
    found = fgrad.jit(lambda n, k: fgrad.scipy.special.comb(n, k, repetition=True))(n, k)
    np.testing.assert_array_equal(found, [1.0, np.nan, 6.0, 1.0])
    if special.comb(0.0, 0.0, repetition=True) == 1.0:  # SciPy 1.16 and later
        np.testing.assert_array_equal(found, special.comb(n, k, repetition=True))
