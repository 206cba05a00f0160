"""Ten programs in plain NumPy, as they are written in the wild: same numbers, right gradients."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fgrad

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("test"))


def _load(name: str) -> tuple[ModuleType, tuple[Any, ...]]:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, module.arguments(np.random.default_rng(zlib.adler32(name.encode())))


def _close(found: Any, expected: Any, tolerance: float) -> None:
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_there_are_ten() -> None:
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_values(name: str) -> None:
    module, args = _load(name)
    before = [np.array(x) for x in args]
    expected = module.run(*[np.array(x)[()] for x in args])
    _close(fgrad.vjp(lambda *xs: _floats(module.run(*xs)), *args)[0], _floats(expected), 1e-10)
    _close(fgrad.jit(module.run)(*args), expected, 1e-10)
    for x, y in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, y)


def _floats(outs: Any) -> tuple[Any, ...]:
    return tuple([y for y in outs if y.dtype.kind == "f"])


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    module, args = _load(name)

    def loss(*xs: Any) -> Any:
        total = 0.0
        for k, y in enumerate(_floats(module.run(*xs))):
            total = total + np.sum(np.sin(y + 0.3 * k))
        return total

    every = tuple(range(len(args)))
    eager = fgrad.grad(loss, argnums=every)(*args)
    compiled = fgrad.jit(fgrad.grad(loss, argnums=every))(*args)
    rng = np.random.default_rng(1)
    direction = [rng.normal(size=np.shape(x)) for x in args]
    slope = sum(np.sum(g * d) for g, d in zip(eager, direction, strict=True))
    h = 1e-6
    ends = [loss(*[x + s * h * d for x, d in zip(args, direction, strict=True)]) for s in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=2e-5, abs=2e-6)
    for a, b in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
