"""Products of all pairs of dtypes give NumPy's numbers: whether they are promoted before or after
each product is seen where integers of few bits overflow, and where a sum of bools is an or."""

from __future__ import annotations

import collections
import itertools
import pathlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import jit, vmap

DTYPES = ("?", "i1", "u1", "i4", "i8", "u4", "u8", "f2", "f4", "f8", "F", "D")

L = np.linalg
PRODUCTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "multi_dot": (lambda a, b, c: L.multi_dot([a, b, c]), [(3, 3)] * 3),
    "multi_dot of vectors": (lambda a, b, c: L.multi_dot([a, b, c]), [(3,), (3, 3), (3,)]),
    "multi_dot of four": (lambda a, b, c: L.multi_dot([a, b, c, a]), [(2, 3), (3, 4), (4, 2)]),
    "multi_dot of two": (lambda a, b: L.multi_dot([a, b]), [(2, 3), (3, 2)]),
    "einsum": (lambda a, b: np.einsum("ij,jk->ki", a, b), [(2, 3), (3, 2)]),
    "einsum of all": (lambda a, b: np.einsum("ij,ij", a, b), [(2, 3), (2, 3)]),
    "einsum of three": (
        lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c, optimize=True), [(3, 3)] * 3
    ),
    "dot": (np.dot, [(2, 3), (3, 2)]), "dot of vectors": (np.dot, [(3,), (3,)]),
    "vdot": (np.vdot, [(2, 3), (2, 3)]), "vecdot": (np.vecdot, [(2, 3), (2, 3)]),
    "inner": (np.inner, [(2, 3), (2, 3)]), "matmul": (np.matmul, [(2, 2, 3), (3, 2)]),
    "tensordot": (lambda a, b: np.tensordot(a, b, 2), [(2, 3), (2, 3)]),
    "kron": (np.kron, [(2, 2), (2, 1)]), "outer": (np.outer, [(2,), (3,)]),
    "cross": (np.cross, [(2, 3), (2, 3)]), "convolve": (np.convolve, [(4,), (3,)]),
    "correlate": (np.correlate, [(4,), (3,)]), "polyval": (np.polyval, [(3,), (3,)]),
}  # fmt: skip


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) > 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -60, 120, shape).astype(dtype)
    real = rng.normal(size=shape)
    return (real + 1j * rng.normal(size=shape) if kind == "c" else real).astype(dtype)


def _lane(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: vmap(f)(*[np.stack([x, x]) for x in args])[0]


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_all_pairs_of_dtypes(name: str, rng: np.random.Generator) -> None:
    f, shapes = PRODUCTS[name]
    for k, dtypes in enumerate(itertools.product(DTYPES, repeat=2)):
        if name == "cross" and dtypes == ("?", "?"):  # bools are not subtracted
            continue
        given = (*dtypes, dtypes[0])
        args = [_random(rng, d, s) for d, s in zip(given, shapes, strict=False)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = np.asarray(f(*args))
            found = _lane(f)(*args) if k % 8 else jit(f)(*args)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), dtypes
        if expected.dtype.kind in "biu":
            assert np.array_equal(found, expected), dtypes
        else:
            tol = {"f2": 3e-2}.get(min(dtypes, key=lambda d: d != "f2"), 1e-4)
            size = np.max(
                np.abs(expected.astype(complex)), where=np.isfinite(expected), initial=1.0
            )
            np.testing.assert_allclose(found, expected, tol, tol * size, err_msg=str(dtypes))


def test_a_function_is_registered_once() -> None:
    """Else which of two rules a call takes depends on the modules that are loaded by then."""
    folder = pathlib.Path(fgrad.__file__).parent / "numpy"
    found: collections.Counter[str] = collections.Counter()
    for path in folder.rglob("*.py"):
        for line in re.findall(r"^@implements\((.*?)\)$", path.read_text(), re.M):
            found.update(re.findall(r'"([\w.]+)"', line.split("extra")[0]))
    assert [name for name, count in found.items() if count > 1] == []


@pytest.mark.parametrize("shapes", [((3, 3), (2, 3)), ((2, 3), (3, 3)), ((2, 3), (2, 3))])
def test_what_the_products_of_linalg_refuse(shapes: Any) -> None:
    a, b = [np.ones(shape) for shape in shapes]
    with pytest.raises(ValueError, match="3-dimensional vectors"):
        jit(lambda a, b: np.linalg.cross(a, b, axis=0))(a, b)
    with pytest.raises(ValueError, match="one-dimensional"):
        jit(np.linalg.outer)(a, b)
