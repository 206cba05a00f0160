"""Functions of fgrad's as C functions: SciPy calls them, other lengths fail, signals stop them."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, ndimage

import fgrad
from fgrad.errors import ArgumentError
from fgrad.interop.c import as_c

IMAGE = (np.arange(1200) * 0.6180339887498949 % 1.0).reshape(30, 40)
FILTER = "int (double *, intptr_t, double *, void *)"
LINES = "int (double *, npy_intp, double *, npy_intp, void *)"
PLACES = "int (intptr_t *, double *, int, int, void *)"
TABLE = np.linspace(0.0, 1.0, 8)
TABLE.flags.writeable = False

NUMBERS: dict[str, tuple[Callable[..., Any], str, tuple[float, ...]]] = {
    "exp": (lambda x: np.exp(-x * x), "double (double)", (0.5,)),
    "gradient": (fgrad.grad(lambda x: x**3), "double(double)", (2.0,)),
    "jitted": (fgrad.jit(np.tanh), "double (double, void *)", (0.3,)),
    "two": (lambda x, y: x**2 - y, "double (double, double)", (3.0, 4.0)),
    "single": (lambda x: np.sin(x), "float (float)", (1.5,)),
    "itself": (lambda x: x, "double (double)", (1.5,)),
    "constant": (lambda x: 3.0, "double (double)", (1.5,)),
    "truth value": (lambda x: x > 1, "double (double)", (1.5,)),
    "table": (lambda x: np.sum(np.cos(TABLE * x)), "double (double)", (0.3,)),
    "branch": (lambda x: x if x > 1 else -x, "double (double)", (-1.5,)),
    "loop": (lambda x: fgrad.lax.fori_loop(0, 9, lambda i, y: y * 0.5 + i, x), "double (double)",
             (2.0,)),
    "large": (lambda x: np.sum(np.sort(np.sin(np.arange(20_000.0) * x))), "double (double)",
              (1.0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    f, signature, args = NUMBERS[name]
    extra = [None] if "void" in signature else []
    found = as_c(f, signature).pointer(*args, *extra)
    assert found == pytest.approx(float(f(*args)), rel=1e-6 if "float" in signature else 1e-9)


def test_integrals_and_their_derivatives() -> None:
    f = as_c(lambda x: np.exp(-x * x), "double (double)").low_level
    assert integrate.quad(f, 0, 1) == integrate.quad(lambda x: np.exp(-x * x), 0, 1)
    g = as_c(lambda x: np.sum(np.sin(x)), "double (int, double *)", 3).low_level
    expected = 3 * (1 - np.cos(1.0))
    assert integrate.nquad(g, [(0, 1)] * 3)[0] == pytest.approx(expected, rel=1e-12)


IMAGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "filter": (
        lambda: ndimage.generic_filter(IMAGE, as_c(np.median, FILTER, 9).low_level, size=3),
        lambda: ndimage.generic_filter(IMAGE, np.median, size=3),
    ),
    "filter by weights": (
        lambda: ndimage.generic_filter(
            IMAGE, as_c(lambda w: np.std(w) / (1 + w[4]), FILTER, 9).low_level, size=3),
        lambda: ndimage.generic_filter(IMAGE, lambda w: np.std(w) / (1 + w[4]), size=3),
    ),
    "lines": (
        lambda: ndimage.generic_filter1d(
            IMAGE, as_c(lambda x: np.cumsum(x)[2:-2], LINES, (44, 40)).low_level, 5),
        lambda: ndimage.generic_filter1d(
            IMAGE, lambda x, y: np.copyto(y, np.cumsum(x)[2:-2]), 5),
    ),
    "constant lines": (
        lambda: ndimage.generic_filter1d(
            IMAGE, as_c(lambda x: np.full(40, 2.0), LINES, (44, 40)).low_level, 5),
        lambda: np.full((30, 40), 2.0),
    ),
    "places": (
        lambda: ndimage.geometric_transform(
            IMAGE, as_c(lambda p: p - 0.5 * p[::-1], PLACES, (2, 2)).low_level),
        lambda: ndimage.geometric_transform(
            IMAGE, lambda p: (p[0] - 0.5 * p[1], p[1] - 0.5 * p[0])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_filters_of_images(name: str) -> None:
    ours, theirs = IMAGES[name]
    np.testing.assert_allclose(ours(), theirs(), rtol=1e-12, atol=1e-13)


def test_other_lengths_fail() -> None:
    f = as_c(np.sum, "double (int, double *)", 3).pointer
    three = (ctypes.c_double * 3)(1, 2, 3)
    assert f(3, three) == 6.0
    assert np.isnan(f(2, three))
    with pytest.raises(RuntimeError):
        ndimage.generic_filter(IMAGE, as_c(np.sum, FILTER, 9).low_level, size=5)


REFUSED: dict[str, tuple[Callable[..., Any], str, Any, str]] = {
    "signature": (np.sin, "double (int)", None, "does not know"),
    "size too many": (np.sin, "double (double)", 3, "takes no size"),
    "size wanted": (np.sum, FILTER, None, "takes size=n"),
    "array": (lambda x: np.stack([x, x]), "double (double)", None, "gives float64"),
    "two results": (lambda x: (x, x), "double (double)", None, "gives float64"),
    "complex": (lambda x: x + 1j, "double (double)", None, "gives float64"),
    "raises": (lambda x: np.linalg.inv(np.eye(2) * x)[0, 0], "double (double)", None, "Python"),
    "callback": (
        lambda x: fgrad.pure_callback(np.sin, fgrad.ShapeDtype((), float), x),
        "double (double)", None, "Python"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_c_cannot_call_is_refused(name: str) -> None:
    f, signature, size, words = REFUSED[name]
    with pytest.raises(ArgumentError, match=words):
        as_c(f, signature, size)


def test_code_lives_as_long_as_what_calls_it() -> None:
    pointer = as_c(lambda x: x * 3, "double (double)").pointer
    low_level = as_c(lambda x: x * 3, "double (double)").low_level
    gc.collect()
    for k in range(20):
        as_c(lambda x, k=k: x + k, "double (double)")
    assert pointer(2.0) == 6.0
    assert integrate.quad(low_level, 0, 2)[0] == pytest.approx(6.0)


def test_threads() -> None:
    f = as_c(lambda x: np.sum(np.sin(np.arange(10_000.0) * x)), "double (double)").pointer
    expected = f(0.5)
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda: found.extend([f(0.5) for _ in range(50)])) for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 200


def test_a_signal_ends_a_long_call() -> None:
    def slow(x: Any) -> Any:
        return fgrad.lax.while_loop(lambda s: s < 1e15, lambda s: s + 1.0, x)

    f = as_c(slow, "double (double)")
    assert f.pointer(1e16) == 1e16
    command = f"sleep 0.5; kill -INT {os.getpid()}"  # a thread would wait for SciPy's lock
    with subprocess.Popen(["/bin/sh", "-c", command]), pytest.raises(KeyboardInterrupt):
        integrate.quad(f.low_level, 0, 1)
    assert as_c(lambda x: x + 1, "double (double)").pointer(1.0) == 2.0


TABLE = np.arange(5.0)
NEVER_RAISING: dict[str, tuple[Any, dict[float, float]]] = {
    "clip": (lambda x: fgrad.at(TABLE)[x.astype(int)].get(mode="clip"), {2.0: 2.0, 9.0: 4.0}),
    "fill": (
        lambda x: fgrad.at(TABLE)[x.astype(int)].get(mode="fill", fill_value=-1.0),
        {2.0: 2.0, 9.0: -1.0}),
    "take": (
        lambda x: fgrad.numpy.take(TABLE, x.astype(int), mode="fill", fill_value=-1.0),
        {2.0: 2.0, 9.0: -1.0, -1.0: 4.0}),
    "division": (lambda x: (7 // x.astype(int)).astype(float), {2.0: 3.0, 0.0: 0.0}),
    "sorted": (lambda x: np.sort(np.stack([x, 1.0 + 0 * x]))[0], {2.0: 1.0, 0.0: 0.0}),
    "loop": (
        lambda x: fgrad.lax.while_loop(lambda c: c < 100, lambda c: c * 2, x), {3.0: 192.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", NEVER_RAISING)
def test_what_never_raises_is_a_c_function(name: str) -> None:
    f, values = NEVER_RAISING[name]
    made = as_c(f, "double (double)")
    assert {x: made.pointer(x) for x in values} == values


def _checked(x: Any) -> Any:
    if x < 0:
        raise ValueError("negative")
    return np.sqrt(x)


MAY_RAISE: dict[str, Any] = {
    "a place": lambda x: TABLE[x.astype(int)],
    "a condition": _checked,
    "solve": lambda x: np.linalg.solve(np.eye(2) * x, np.ones(2))[0],
    "inv": lambda x: np.linalg.inv(np.eye(2) * x)[0, 0],
    "eigh": lambda x: np.linalg.eigh(np.eye(2) * x)[0][0],
    "a power": lambda x: (2 ** x.astype(int)).astype(float),
    "no elements": lambda x: np.max(TABLE[x < TABLE]),
    "print": lambda x: (fgrad.debug.print("{}", x), x)[1],
    "callback": lambda x: fgrad.pure_callback(np.sin, fgrad.ShapeDtype((), float), x),
}


@pytest.mark.parametrize("name", MAY_RAISE)
def test_what_may_raise_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="needs Python while it runs"):
        as_c(MAY_RAISE[name], "double (double)")
