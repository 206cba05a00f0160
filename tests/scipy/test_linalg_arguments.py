"""Every argument of SciPy's functions of matrices, given to their traced forms by name and by
place: SciPy's result, or an error that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as plain

import fgrad
import fgrad.scipy.linalg as traced
from fgrad.errors import ArgumentError, UnsupportedNumpyError

RNG = np.random.default_rng(0)
ANY = RNG.normal(size=(4, 4))
POSITIVE = ANY @ ANY.T + 4 * np.eye(4)
TALL, VECTOR = RNG.normal(size=(6, 4)), RNG.normal(size=4)
LOW = np.tril(ANY) + 3 * np.eye(4)

FIRST: dict[str, tuple[Any, ...]] = {
    "cholesky": (POSITIVE,),
    "det": (ANY,),
    "eigh": (POSITIVE,),
    "eigvals": (ANY,),
    "eigvalsh": (POSITIVE,),
    "expm": (ANY,),
    "expm_frechet": (ANY, LOW),
    "inv": (ANY,),
    "logm": (POSITIVE,),
    "lstsq": (TALL, TALL[:, 0] + 1),
    "lu": (ANY,),
    "lu_factor": (ANY,),
    "norm": (ANY,),
    "pinv": (TALL,),
    "polar": (ANY,),
    "qr": (TALL,),
    "solve": (POSITIVE, VECTOR),
    "solve_triangular": (LOW, VECTOR),
    "solve_sylvester": (ANY, POSITIVE, LOW),
    "solve_continuous_lyapunov": (ANY, POSITIVE),
    "solve_discrete_lyapunov": (ANY, POSITIVE),
    "sqrtm": (POSITIVE,),
    "svd": (TALL,),
    "svdvals": (TALL,),
}
# Values that are not the usual ones; several where there are several kinds.
VALUES: dict[str, list[Any]] = {
    "assume_a": ["pos", "sym", "her", "gen", "diagonal", "upper triangular", "lower triangular",
                 "tridiagonal", "nonsense"],
    "atol": [2.0], "axis": [0], "b": [POSITIVE + np.eye(4)], "blocksize": [2],
    "check_finite": [False], "compute_expm": [False], "compute_uv": [False], "cond": [1e-9],
    "disp": [False], "driver": ["evd"], "eigvals_only": [True], "full_matrices": [False],
    "homogeneous_eigvals": [True], "keepdims": [True], "left": [True],
    "lower": [True], "lwork": [100], "method": ["direct", "blockEnlarge"],
    "mode": ["economic", "r", "raw", "nonsense"], "ord": [1, np.inf, "nuc"], "overwrite_a": [True],
    "overwrite_b": [True], "p_indices": [True], "permute_l": [True], "pivoting": [True],
    "return_rank": [True], "rtol": [0.3], "side": ["left", "nonsense"],
    "subset_by_index": [[0, 1]], "subset_by_value": [[0.0, 50.0]],
    "trans": [1, "T", "C", 7], "transposed": [True], "turbo": [False], "type": [1, 2, 3],
    "unit_diagonal": [True],
}  # fmt: skip
NOT_GIVEN = {("inv", "assume_a"), ("det", "assume_a")}

Case = tuple[str, str, Any]
CASES: list[Case] = [
    (function, name, value)
    for function, first in FIRST.items()
    for name in list(inspect.signature(getattr(plain, function)).parameters)[len(first) :]
    for value in VALUES.get(name, [])
    if (function, name) not in NOT_GIVEN
]


def outcome(f: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    try:
        return f(*[np.copy(a) for a in args], **given)
    except Exception as error:
        return error


def assert_same(found: Any, expected: Any) -> None:
    """Equal up to the signs of columns, on which factorisations do not agree."""
    pairs = [x if isinstance(x, tuple) else (x,) for x in (found, expected)]
    assert len(pairs[0]) == len(pairs[1])
    for x, y in zip(*pairs, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(np.sort(np.abs(x), None), np.sort(np.abs(y), None), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*the `lwork` keyword")  # since SciPy 1.18
@pytest.mark.parametrize(
    ("function", "name", "value"), CASES, ids=[f"{f}-{n}-{k}" for k, (f, n, _) in enumerate(CASES)]
)
def test_argument(function: str, name: str, value: Any) -> None:
    args, given = FIRST[function], {name: value}
    f = getattr(traced, function)
    expected = outcome(getattr(plain, function), args, given)
    found = outcome(fgrad.jit(lambda *xs: f(*xs, **given)), args, {})
    if isinstance(found, Exception):
        assert isinstance(found, (UnsupportedNumpyError, ArgumentError, ValueError)), found
        assert name in str(found)
    else:
        assert not isinstance(expected, Exception), f"SciPy refuses it: {expected}"
        assert_same(found, expected)


@pytest.mark.parametrize("function", FIRST)
def test_unknown_argument_is_refused(function: str) -> None:
    f, args = getattr(traced, function), FIRST[function]
    with pytest.raises(TypeError, match="nonsense"):
        fgrad.jit(lambda *xs: f(*xs, nonsense=3))(*args)
    with pytest.raises(TypeError):
        fgrad.jit(lambda *xs: f(*xs, *[False] * 20))(*args)


# By place, in SciPy's order.
PLACES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "lu": ((ANY,), (False, True)),  # overwrite_a
    "qr": ((TALL,), (True, None, "economic")),
    "qr of one part": ((TALL,), (False, None, "r")),
    "svd": ((TALL,), (False, True, True)),
    "solve": ((POSITIVE, VECTOR), (True, False, False, True, "sym")),
    "cholesky": ((POSITIVE,), (True, True)),
    "eigvals": ((ANY,), (None, True)),
    "lstsq": ((TALL, TALL[:, :2] + 1), (None, True)),
    "solve_triangular": ((LOW, VECTOR), (0, True, False, True)),
}


@pytest.mark.filterwarnings("ignore:.*the `lwork` keyword")
@pytest.mark.parametrize("name", PLACES)
def test_by_place(name: str) -> None:
    args, more = PLACES[name]
    function = name.split()[0]
    f = getattr(traced, function)
    expected = getattr(plain, function)(*[np.copy(a) for a in args], *more)
    assert_same(fgrad.jit(lambda *xs: f(*xs, *more))(*args), expected)


def test_part_of_the_matrix_that_is_read() -> None:
    """`solve` reads what `assume_a` says, and so does its derivative."""
    for kind in ("pos", "sym", "upper triangular", "lower triangular", "diagonal", "tridiagonal"):
        for lower in (False, True):

            def f(a: Any, kind: str = kind, lower: bool = lower) -> Any:
                return np.sum(traced.solve(a, VECTOR, lower=lower, assume_a=kind))

            a = POSITIVE + 0.1 * ANY
            np.testing.assert_allclose(fgrad.jit(f)(a), f(a), rtol=1e-9)
            step, slope = 1e-6, fgrad.grad(f)(a)
            for i, j in np.ndindex(4, 4):
                e = np.zeros((4, 4))
                e[i, j] = step
                change = (f(a + e) - f(a - e)) / (2 * step)
                np.testing.assert_allclose(
                    slope[i, j], change, atol=1e-6, err_msg=f"{kind} {i} {j}"
                )
