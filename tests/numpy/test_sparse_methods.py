"""Methods of sparse matrices with traced entries: SciPy's values, slopes, and all its names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fgrad
from fgrad.errors import FgradError
from fgrad.numpy import sparse_matrices

INDICES, INDPTR, SHAPE = [2, 0, 0, 1, 3, 3], [0, 2, 4, 6], (3, 4)  # two pairs are of one place
OTHER = scipy.sparse.csr_array(np.array([[1.0, 0, 2, 0], [3.0, 0, 0, 0], [0, 0, 0, 5.0]]))
DENSE = np.arange(12.0).reshape(3, 4)
LINES = [
    *("power(3)", "power(2.5)", "multiply(2.0)", "multiply(DENSE)", "multiply(OTHER)"),
    *("multiply(DENSE[:1])", "multiply(DENSE[:, :1])", "multiply(DENSE[0])", "multiply(A.T.T)"),
    *("sqrt().multiply(A)", "max()", "min()", "mean()", "mean(axis=0)", "mean(axis=-1)"),
    *("trace()", "trace(1)", "trace(offset=-1)", "copy()", "tocsr()", "asformat('csr')"),
    *("conjugate()", "real", "imag"),
    *[f"{name}()" for name in sparse_matrices._OF_ENTRIES],
]
SCOPE = {"OTHER": OTHER, "DENSE": DENSE}
CALLS: dict[str, Callable[[Any], Any]] = {n: eval(f"lambda A: A.{n}", SCOPE) for n in LINES}


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else x


def _entries(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.1, 0.4, size=6)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_slopes(name: str, rng: np.random.Generator) -> None:
    data, step, f = _entries(rng), 1e-6, CALLS[name]

    def plain(data: Any) -> Any:
        return np.asarray(_dense(f(scipy.sparse.csr_array((data, INDICES, INDPTR), shape=SHAPE))))

    def traced(data: Any) -> Any:
        return _dense(f(fgrad.sparse.csr(data, INDICES, INDPTR, SHAPE)))

    np.testing.assert_allclose(fgrad.jit(traced)(data), plain(data), rtol=1e-12)
    slopes = [(plain(data + step * e) - plain(data - step * e)) / (2 * step) for e in np.eye(6)]
    found = fgrad.jacrev(traced)(data)
    np.testing.assert_allclose(found, np.stack(slopes, axis=-1), rtol=1e-5, atol=1e-7)


def test_each_name_of_scipys_is_there_or_refused(rng: np.random.Generator) -> None:
    theirs = scipy.sparse.csr_array((_entries(rng), INDICES, INDPTR), shape=SHAPE)
    mine = fgrad.sparse.csr(_entries(rng), INDICES, INDPTR, SHAPE)
    for name in [n for n in dir(theirs) if not n.startswith("_")]:
        try:
            getattr(mine, name)
        except FgradError as card:
            assert name in str(card)
    np.testing.assert_array_equal(mine.mT.toarray(), mine.toarray().T)
    with pytest.raises(AttributeError):
        mine.no_such_name  # noqa: B018


REFUSED: dict[str, Callable[[Any], Any]] = {
    "power below zero": lambda A: A.power(-1),
    "other shape": lambda A: A.multiply(np.ones((2, 2))),
    "wider": lambda A: A.multiply(np.ones((2, 3, 4))),
    "sparse of another shape": lambda A: A.multiply(A.T),
    "max along an axis": lambda A: A.max(axis=0),
    "by columns": lambda A: A.asformat("csc"),
    "tocsc": lambda A: A.tocsc(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, rng: np.random.Generator) -> None:
    with pytest.raises(FgradError):
        fgrad.jit(lambda d: REFUSED[name](fgrad.sparse.csr(d, INDICES, INDPTR, SHAPE)).data)(
            _entries(rng)
        )
