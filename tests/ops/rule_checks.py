"""Checks that serve every primitive: types, derivatives of both directions and orders, batching."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fgrad
from fgrad.ir.aval import aval_of
from fgrad.trace import run, trace


def rng_of(name: str) -> np.random.Generator:
    """A generator seeded by the name of the test."""
    return np.random.default_rng(zlib.adler32(name.encode()))


def as_tuple(x: Any) -> tuple[Any, ...]:
    """The results of a function as a tuple."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def check_types(f: Callable[..., Any], *args: Any) -> None:
    """The type rules agree with the evaluation, and the traced program gives the same numbers."""
    expected = as_tuple(f(*args))
    avals = [aval_of(np.asarray(x)) for x in args]
    traced = trace(lambda *xs: as_tuple(f(*xs)), avals)
    program = traced.program
    assert not traced.captured
    for aval, value in zip(program.out_avals, expected, strict=True):
        assert (aval.shape, aval.dtype) == (value.shape, value.dtype)
    for got, value in zip(run(program, args), expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-13, atol=1e-13)


def _dot(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return sum(float(np.sum(x * y)) for x, y in zip(xs, ys, strict=True))


def check_derivatives(
    f: Callable[..., Any], *args: np.ndarray, order: int = 2, seed: str = "", tol: float = 2e-5
) -> None:
    """jvp against central differences; vjp against jvp, and traced; the same for the slope of f."""
    rng = rng_of(f"{seed}{order}")
    tangents = tuple([rng.standard_normal(x.shape) for x in args])
    out, out_t = fgrad.jvp(f, args, tangents)
    outs, outs_t = as_tuple(out), as_tuple(out_t)
    for a, b in zip(outs, as_tuple(f(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    h = 1e-5
    plus, minus = (
        as_tuple(f(*[x + s * t for x, t in zip(args, tangents, strict=True)])) for s in (h, -h)
    )
    for t, a, b in zip(outs_t, plus, minus, strict=True):
        assert t.shape == a.shape and t.dtype == a.dtype
        np.testing.assert_allclose(t, (a - b) / (2 * h), rtol=tol, atol=tol)
    _, pull = fgrad.vjp(f, *args)
    cts = tuple([np.asarray(rng.standard_normal(y.shape))[()] for y in outs])
    ct = cts if isinstance(out, tuple) else cts[0]
    back = as_tuple(pull(ct))
    scale = 1 + sum(float(np.abs(x * t).sum()) for x, t in zip(cts, outs_t, strict=True))
    assert abs(_dot(cts, outs_t) - _dot(back, tangents)) < 1e-10 * scale

    def slope(*xs: Any) -> tuple[Any, ...]:
        _, pull = fgrad.vjp(f, *xs)
        return as_tuple(pull(ct))

    check_types(slope, *args)
    if order > 1:
        check_derivatives(slope, *args, order=order - 1, seed=seed, tol=tol)


def check_batch(
    f: Callable[..., Any], *args: Sequence[np.ndarray], seed: str = "", tol: float = 1e-12
) -> None:
    """vmap equals a loop, for every choice of batched arguments; an argument is a list of lanes."""
    rng = rng_of(seed)
    size = len(args[0])
    for choice in itertools.product((True, False), repeat=len(args)):
        if not any(choice):
            continue
        axes = tuple(
            [
                int(rng.integers(np.ndim(x[0]) + 1)) if b else None
                for x, b in zip(args, choice, strict=True)
            ]
        )
        given = [x[0] if a is None else np.stack(x, a) for x, a in zip(args, axes, strict=True)]
        got = as_tuple(fgrad.vmap(f, in_axes=axes)(*given))
        lanes = [
            as_tuple(f(*[x[k if b else 0] for x, b in zip(args, choice, strict=True)]))
            for k in range(size)
        ]
        for g, *each in zip(got, *lanes, strict=True):
            assert g.dtype == each[0].dtype
            np.testing.assert_allclose(g, np.stack(each), rtol=tol, atol=tol)
