"""Programs of tests/scipy_user_programs.py: SciPy's values, under jit and again with other values;
gradients of stacks against differences of SciPy's."""

from __future__ import annotations

import importlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy_calls import MODULES
from scipy_user_programs import PROGRAMS

import fgrad
import fgrad.sparse


def _modules(top: str) -> Any:
    made = types.SimpleNamespace(
        **{short: importlib.import_module(f"{top}.{name}") for short, name in MODULES.items()}
    )
    made.rot = importlib.import_module(f"{top}.spatial.transform").Rotation
    made.csr = _with_diagonal if top == "scipy" else _with_traced_diagonal
    return made


def _with_diagonal(base: Any, d: np.ndarray) -> Any:
    return scipy.sparse.csr_array(base + scipy.sparse.diags([d], [0]))


def _with_traced_diagonal(base: Any, d: Any) -> Any:
    n = base.shape[0]
    pattern = scipy.sparse.csr_array(base + scipy.sparse.diags([np.ones(n)], [0]))
    rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
    on = rows == pattern.indices
    data = np.where(on, 0.0, pattern.data) + d[rows] * on
    return fgrad.sparse.csr(data, pattern.indices, pattern.indptr, shape=pattern.shape)


PLAIN, OWN = _modules("scipy"), _modules("fgrad.scipy")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    program, x = PROGRAMS[name]
    call = fgrad.jit(lambda x: program(OWN, x))
    exact = 1e-3 if x.dtype == np.float32 else 1e-5
    for given in (x, x * x.dtype.type(1.01)):
        found, wanted = call(given), program(PLAIN, given)
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=exact, atol=exact)


def _loss(program: Callable[..., Any], modules: Any) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        out = program(modules, x)
        return np.sum(np.real(out) * np.cos(np.arange(np.size(out))).reshape(np.shape(out)))

    return loss


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_stacks(name: str, rng: np.random.Generator) -> None:
    program, x = PROGRAMS[name]
    stack = np.stack([x, x * x.dtype.type(1.01)])
    found = fgrad.jit(fgrad.vmap(fgrad.grad(_loss(program, OWN))))(stack)
    plain = _loss(program, PLAIN)
    single = x.dtype == np.float32
    h = 1e-3 if single else 1e-4
    for slope, at in zip(found, stack, strict=True):
        way = rng.normal(size=x.shape).astype(x.dtype)
        difference = (plain(at + h * way) - plain(at - h * way)) / (2 * h)
        tolerance = 0.05 if single else 1e-3
        assert np.sum(np.real(slope) * np.real(way)) == pytest.approx(
            difference, rel=tolerance, abs=1e-5
        )
