"""Loops in order of which all steps, or a part of each, are vectors: bits, errors, derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.kernel.ir import Loop
from fgrad.compile.kernel.rewrite import walk

RNG = np.random.default_rng(5)
SIZES = (1, 7, 16, 17, 63, 255, 256, 257, 300, 1000)


def gather(b: Any, s: Any, w: Any) -> Any:
    out = np.zeros(s.shape[0])
    for i in range(s.shape[0]):
        out[i] = b[s[i]]
    return out


def in_place(b: Any, s: Any, w: Any) -> Any:
    out = w * 1.0
    for i in range(s.shape[0]):
        out[i] = out[i] - b[s[i]]
    return out


def shifted(b: Any, s: Any, w: Any) -> Any:
    out = w * 1.0
    for i in range(1, s.shape[0]):
        out[i] = out[i - 1] + b[s[i]]
    return out


def two_arrays(b: Any, s: Any, w: Any) -> Any:
    u, v = np.zeros(s.shape[0]), np.ones(s.shape[0])
    for i in range(s.shape[0]):
        u[i] = w[i] * 2.0
        v[i] = u[i] - b[s[i]]
    return u + v


def backwards(b: Any, s: Any, w: Any) -> Any:
    out = np.zeros(s.shape[0])
    n = s.shape[0]
    for i in range(n):
        out[n - 1 - i] = b[s[i]]
    return out


def table(b: Any, s: Any, w: Any) -> Any:
    out = np.zeros((3, s.shape[0]))
    for k in range(3):
        for i in range(s.shape[0]):
            out[k, i] = b[s[i] - k]
    return out


def scatter(b: Any, s: Any, w: Any) -> Any:
    h = np.zeros(b.shape[0])
    for i in range(s.shape[0]):
        h[s[i]] += w[i]
    return h


def last_one(b: Any, s: Any, w: Any) -> Any:
    h = np.zeros(b.shape[0])
    for i in range(s.shape[0]):
        h[s[i]] = w[i] - b[s[i]]
    return h


def walk_of(b: Any, s: Any, w: Any) -> Any:
    h = b * 1.0
    for i in range(s.shape[0]):
        h[s[i]] = h[s[i] - 1] + b[s[i]]
    return h


def counts(b: Any, s: Any, w: Any) -> Any:
    c, t = 0, 0.0
    h = np.zeros(b.shape[0])
    for i in range(s.shape[0]):
        c += s[i]
        h[s[i]] += b[s[i] - 1]
        t = max(t, b[s[i]])
    return h + c + t


def squares(b: Any, s: Any, w: Any) -> Any:
    t = 0.0
    for i in range(s.shape[0]):
        t += b[s[i]] + w[i]
    return t


def chosen(b: Any, s: Any, w: Any) -> Any:
    h = np.zeros(b.shape[0])
    for i in range(s.shape[0]):
        if w[i] > 0:
            h[s[i]] += w[i]
    return h


PROGRAMS = (
    gather, in_place, shifted, two_arrays, backwards, table, scatter, last_one, walk_of, counts,
    squares, chosen,
)  # fmt: skip


def loop_kinds(f: Callable[..., Any], *args: Any) -> set[str]:
    steps = fgrad.inspect(f)(*args).passes["control"][1]
    kernels = [step.kernel for step in steps if hasattr(step, "kernel")]
    loops = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Loop)]
    return {s.kind for s in loops if s.extent > 1}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_bits_are_those_of_python(f: Callable[..., Any], n: int) -> None:
    b, w = RNG.normal(size=37), RNG.normal(size=n)
    s = RNG.integers(-37 + 2, 37, n)
    np.testing.assert_array_equal(fgrad.jit(f)(b, s, w), f(b, s, w))


@pytest.mark.parametrize("f", [gather, scatter, last_one, walk_of], ids=lambda f: f.__name__)
@pytest.mark.parametrize("at", [0, 255, 256, 299])
def test_indices_out_of_bounds(f: Callable[..., Any], at: int) -> None:
    b, w, s = RNG.normal(size=37), RNG.normal(size=300), RNG.integers(0, 37, 300)
    s[at] = 37
    with pytest.raises(IndexError, match=re.escape("out of bounds for axis 0 with size 37")):
        fgrad.jit(f)(b, s, w)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [17, 300])
def test_derivatives(f: Callable[..., Any], n: int) -> None:
    b, w, s = RNG.normal(size=37), RNG.normal(size=n), RNG.integers(2, 37, n)

    def value(b: Any, w: Any) -> Any:
        return (f(b, s, w) ** 2).sum() if f is not squares else f(b, s, w) ** 2

    got = fgrad.jit(fgrad.grad(value, (0, 1)))(b, w)
    for k, x in enumerate((b, w)):
        d = RNG.normal(size=x.shape)
        ends = [value(*((x + e * d, w) if k == 0 else (b, x + e * d))) for e in (1e-6, -1e-6)]
        expected = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose((got[k] * d).sum(), expected, rtol=1e-5, atol=1e-4)


def test_which_loops_are_vectors() -> None:
    b, w, s = RNG.normal(size=37), RNG.normal(size=1000), RNG.integers(0, 37, 1000)
    assert "serial" not in loop_kinds(gather, b, s, w)
    assert loop_kinds(scatter, b, s, w) >= {"serial", "reduce"}
    assert "reduce" not in loop_kinds(squares, b, s, w)
