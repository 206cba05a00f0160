"""What is not selected reaches no derivative, be it NaN or infinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from selections import (
    EAGER_ONLY,
    TABLE,
    WAYS,
    differences,
    random_difference,
)

from fgrad import at, checkpoint, custom_jvp, grad, hessian, jacfwd, jacrev, jit, jvp, vjp, vmap

ids = [row.name for row in TABLE]
COMPILED = [way for way in WAYS if way not in EAGER_ONLY]


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(TABLE) >= 60


@pytest.mark.parametrize("k", range(len(TABLE)), ids=ids)
@np.errstate(all="ignore")
def test_derivatives_are_those_of_the_branch_taken(k: int) -> None:
    row = TABLE[k]
    for way in ["where", *list(WAYS)[1 + k % 12 :: 12]]:
        found = differences(row.function, row.bad, row.good, way, np.float64, jitted=False)
        assert not found, f"by {way}: {found}"
    assert not differences(row.function, row.bad, row.good, "where", np.float32, jitted=False)


@pytest.mark.parametrize("k", range(len(TABLE)), ids=ids)
@np.errstate(all="ignore")
def test_compiled_derivatives_are_those_of_the_branch_taken(k: int) -> None:
    row, way = TABLE[k], COMPILED[k % len(COMPILED)]
    dtype = np.float64 if k % 3 else np.float32
    assert not differences(row.function, row.bad, row.good, way, dtype, jitted=True)


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int) -> None:
    assert random_difference(seed, jitted=seed % 10 == 0) is None


# --- what goes on from a selection ----------------------------------------------------------------

X = np.array([0.0, 1.0, 2.0])
SLOPE = np.array([0.0, 1.0, 1.0 + np.log(2.0)])  # of x log x


def x_log_x(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return x * np.log(x)


jitted = jit(x_log_x)
kept = checkpoint(x_log_x)


@custom_jvp
def ruled(x: Any) -> Any:
    return x_log_x(x)


@ruled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return x_log_x(x), t * (np.log(x) + 1.0)


PROGRAMS = {
    "a mean of what is selected": lambda x: 2 * np.mean(x_log_x(x), where=x > 0),
    "nansum": lambda x: np.nansum(np.where(x > 0, x_log_x(x), np.nan)),
    "a checkpoint": lambda x: np.sum(np.where(x > 0, kept(x), 0.0)),
    "a custom rule": lambda x: np.sum(np.where(x > 0, ruled(x), 0.0)),
    "a jitted function of a jitted one": lambda x: np.sum(np.where(x > 0, jitted(1.0 * x), 0.0)),
    "broadcast": lambda x: np.sum(np.where((x > 0)[None], np.stack([x_log_x(x)] * 2), 0.0)) / 2,
    "a sum along an axis": lambda x: np.sum(np.where(x > 0, np.diag(x_log_x(x)).sum(0), 0.0)),
    "nested": lambda x: np.sum(np.where(x > 0, np.where(x > 1, x_log_x(x), x_log_x(x)), 0.0)),
    "pad": lambda x: np.sum(np.pad(x_log_x(x)[1:], (2, 1))),
    "a store": lambda x: np.sum(at(x_log_x(x))[0].set(0.0)),
    "a guard": lambda x: np.sum(np.where(x > 0, x_log_x(x), 0.0) + 0 * np.sqrt(np.maximum(x, 0.5))),
    "of the last ones of a sort": lambda x: np.sum(np.sort(np.where(x > 0, x_log_x(x), -1.0))[1:]),
}  # fmt: skip
MODES = {
    "grad": lambda f: grad(f)(X),
    "jit(grad)": lambda f: jit(grad(f))(X),
    "grad(jit)": lambda f: grad(jit(f))(X),
    "jacfwd": lambda f: jacfwd(f)(X),
    "jit(jacfwd)": lambda f: jit(jacfwd(f))(X),
    "vmap(grad)": lambda f: vmap(grad(f))(np.stack([X, X]))[1],
}
CURVATURES = {
    "hessian": lambda f: hessian(f)(X),
    "jit(hessian)": lambda f: jit(hessian(f))(X),
    "jacrev(grad)": lambda f: jacrev(grad(f))(X),
    "jit(jacrev(grad))": lambda f: jit(jacrev(grad(f)))(X),
    "jacrev(jacfwd)": lambda f: jacrev(jacfwd(f))(X),
}


@pytest.mark.parametrize("what", PROGRAMS)
@np.errstate(all="ignore")
def test_selections_go_through(what: str) -> None:
    f = PROGRAMS[what]
    for mode, run in MODES.items():
        np.testing.assert_allclose(run(f), SLOPE, 1e-12, 1e-12, err_msg=mode)
    for mode, run in CURVATURES.items():
        np.testing.assert_allclose(run(f), np.diag([0.0, 1.0, 0.5]), 1e-12, 1e-12, err_msg=mode)


def test_a_zero_that_is_no_selection_is_not_taken_for_one() -> None:
    """0 * inf may be anything: sqrt(x) ** 2 has derivative 1 at 0, cbrt(x) ** 6 has 0."""
    with np.errstate(all="ignore"):
        assert np.isnan(grad(lambda x: np.sqrt(x) ** 2)(0.0))
        assert np.isnan(grad(lambda x: np.cbrt(x) ** 6)(0.0))
        assert np.isnan(jvp(lambda x: np.cbrt(x**3), (0.0,), (1.0,))[1])


def test_nan_of_the_branch_taken_is_seen() -> None:
    with np.errstate(all="ignore"):
        for g in (grad, lambda f: jit(grad(f))):
            slope = g(lambda x: np.sum(np.where(x < 1, x_log_x(x) * np.sqrt(x), x)))(X)
            assert np.isnan(slope[0]) and np.all(slope[1:] == 1.0)


@pytest.mark.parametrize("reduction", [np.max, np.min, np.sum, np.prod, np.linalg.norm, np.std])
@np.errstate(all="ignore")
def test_rows_that_are_not_selected(reduction: Any) -> None:
    """A row of NaN that is not selected reaches no derivative."""
    x = np.array([[-1.0, 2.0, 0.0], [0.5, 2.0, 3.0]])
    good = np.array([False, True])

    def f(x: Any) -> Any:
        return np.sum(np.where(good, reduction(np.log(x) * np.sqrt(x), axis=1), 0.0))

    right = grad(lambda row: reduction(np.log(row) * np.sqrt(row)))(x[1])
    for g in (grad(f), jit(grad(f)), jacfwd(f)):
        np.testing.assert_allclose(g(x), [np.zeros(3), right], 1e-10, 1e-12)
    curved = grad(lambda x: np.sum(grad(f)(x)))(x)
    assert np.isfinite(curved).all()


@np.errstate(all="ignore")
def test_places_of_a_sort_that_are_not_selected() -> None:
    x = np.array([4.0, 0.0, 1.0])
    f = lambda x: np.sum(np.sort(np.sqrt(x))[1:])  # noqa: E731
    assert np.array_equal(grad(f)(x), [0.25, 0.0, 0.5])
    assert np.array_equal(jit(grad(f))(x), [0.25, 0.0, 0.5])


def test_a_value_used_within_and_without_a_selection() -> None:
    """The dense use of sqrt(x) has an infinite derivative at 0, which stays."""
    f = lambda x: np.sum(np.where(x > 0, x_log_x(x), 0.0) + np.sqrt(x))  # noqa: E731
    assert grad(f)(X)[0] == np.inf and jit(grad(f))(X)[0] == np.inf


def test_zeros_that_are_given_are_meant() -> None:
    x = np.array([0.0, 4.0])
    only_last = np.array([0.0, 1.0])
    assert np.array_equal(jvp(np.sqrt, (x,), (only_last,))[1], [0.0, 0.25])
    assert np.array_equal(vjp(np.sqrt, x)[1](only_last)[0], [0.0, 0.25])
    for jacobian in (jacfwd, jacrev):
        with np.errstate(all="ignore"):
            assert np.array_equal(jacobian(np.sqrt)(x), [[np.inf, 0.0], [0.0, 0.25]])


def test_zeros_that_are_differentiated_are_none() -> None:
    """v -> J v is linear at v = 0 too."""
    x, zero = np.array([1.0, 2.0]), np.zeros(2)
    along = lambda v: np.sum(jvp(np.log, (x,), (v,))[1])  # noqa: E731
    back = lambda v: np.sum(vjp(jit(np.log), x)[1](v)[0])  # noqa: E731
    for f in (along, back, jit(along)):
        np.testing.assert_allclose(grad(f)(zero), 1 / x)


def test_a_long_chain_of_selections_does_not_recurse() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            x = np.where(x > 0, x * 1.0, 0.0)
        return np.sum(x)

    assert np.array_equal(grad(f)(X), [0.0, 1.0, 1.0])


def test_a_batch_of_derivatives_does_not_warn() -> None:
    """The square root does not, so what its derivative does where it is not selected is no news."""
    f = lambda x: np.where(x > 0, np.sqrt(x), 0.0)  # noqa: E731
    assert np.array_equal(vmap(grad(f))(np.array([0.0, 4.0])), [0.0, 0.25])


# --- stacks of matrices ---------------------------------------------------------------------------

SINGULAR = np.stack([np.eye(3), np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]])])
GOOD = np.array([False, True])
EACH = GOOD[:, None, None]
STACKS = {
    "eigh": lambda a: np.where(EACH, np.linalg.eigh(a)[1], a),
    "an eigenvector": lambda a: np.where(GOOD[:, None], np.linalg.eigh(a)[1][:, 0], a[:, 0]),
    "svd": lambda a: np.where(EACH, np.linalg.svd(a)[0], a),
    "qr": lambda a: np.where(EACH, np.linalg.qr(a * a)[0], a),
    "inv": lambda a: np.where(EACH, np.linalg.inv(a), a),
    "solve": lambda a: np.where(EACH, np.linalg.solve(a, a + 1.0), a),
    "cholesky": lambda a: np.where(EACH, np.linalg.cholesky(a), a),
    "slogdet": lambda a: np.where(GOOD, np.linalg.slogdet(a)[1], 0.0),
}
BY_VALUE = {"inv", "solve", "cholesky", "slogdet", "qr"}  # which take NaN without complaint


@pytest.mark.parametrize("what", STACKS)
@np.errstate(all="ignore")
def test_a_matrix_that_is_not_selected_counts_as_zero(what: str) -> None:
    """The identity has equal eigenvalues, whose vectors have no derivatives."""
    f = STACKS[what]
    slope = grad(lambda a: np.sum(f(a)))
    right = slope(np.stack([np.diag([1.0, 2.0, 4.0]), SINGULAR[1]]))[1]
    first = 0.0 if what == "slogdet" else np.eye(3)[:1].T if what == "an eigenvector" else 1.0
    for bad in (np.eye(3), np.full((3, 3), np.nan))[: 1 + (what in BY_VALUE)]:
        a = np.stack([bad, SINGULAR[1]])
        for found in (slope(a), jit(slope)(a)):
            np.testing.assert_allclose(found[1], right, 1e-9, 1e-9)
            assert np.array_equal(found[0], np.broadcast_to(first, (3, 3)))
    assert np.isfinite(grad(lambda a: np.sum(slope(a)))(SINGULAR)).all()
