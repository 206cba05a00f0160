"""Sparse matrices: constants of SciPy and traced entries, against dense ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as plain

import fgrad
import fgrad.scipy.sparse.linalg as ours
from fgrad.errors import UnsupportedTypeError
from fgrad.scipy.sparse import _direct

M, N = 4, 6
RNG = np.random.default_rng(3)
DENSE = RNG.normal(size=(M, N)) * (RNG.random((M, N)) < 0.5)
DENSE[2] = 0.0  # an empty row
DENSE[:, 1] = 0.0
FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")
KINDS = [f"{form}_{kind}" for form in FORMATS for kind in ("array", "matrix")]
DTYPES = (np.float64, np.complex128, np.float32, np.int32, np.bool_)

# Each program takes the matrix, a value for its columns and one for its rows.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "A @ x": lambda a, x, y: a @ x,
    "x @ A": lambda a, x, y: y.T @ a,
    "A.T @ x": lambda a, x, y: a.T @ y,
    "A.dot(x)": lambda a, x, y: a.dot(x),
    "A @ (A.T @ x)": lambda a, x, y: a @ (a.T @ y),
}
WAYS: dict[str, Callable[..., Any]] = {
    "jvp": lambda f, x, y: fgrad.jvp(f, (x, y), (x, y))[0],
    "tangent": lambda f, x, y: fgrad.jvp(f, (x, y), (x, y))[1],
    "jit": lambda f, x, y: fgrad.jit(f)(x, y),
    "vmap": lambda f, x, y: fgrad.vmap(f)(np.stack([x, 2 * x]), np.stack([y, 2 * y]))[0],
}


def _values(columns: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    tail = (columns,) if columns else ()
    x, y = RNG.normal(size=(N, *tail)), RNG.normal(size=(M, *tail))
    if dtype is np.complex128:
        x, y = x + 1j * RNG.normal(size=x.shape), y * (1 - 2j)
    return (x.astype(dtype), y.astype(dtype)) if dtype in (np.float32, np.complex128) else (x, y)


def _matrix(kind: str, dtype: Any) -> Any:
    dense = DENSE * (1 + 0.5j) if dtype is np.complex128 else 3 * DENSE
    return getattr(scipy.sparse, kind)(dense.astype(dtype))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", KINDS)
def test_constants(kind: str, program: str, columns: int, way: str) -> None:
    if way == "jit" and (columns == 1 or "matrix" in kind):
        pytest.skip("as in the others; each is compiled")
    if kind.startswith("dok") and way in ("jit", "vmap"):
        pytest.skip("a dictionary without a hash is refused where a function closes over it")
    if kind.startswith("coo") and program == "A.dot(x)":
        pytest.skip("SciPy's own dot of tensors: a card says to write A @ x")
    a, f = _matrix(kind, np.float64), PROGRAMS[program]
    x, y = _values(columns)
    wanted = f(a, x, y)
    found = WAYS[way](lambda x, y: f(a, x, y), x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_dtypes_and_gradients(program: str, dtype: Any) -> None:
    a, f = _matrix("csr_array", dtype), PROGRAMS[program]
    x, y = _values(2, dtype)
    wanted = f(a, x, y)
    found = fgrad.jit(lambda x, y: f(a, x, y))(x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert found.dtype == wanted.dtype

    def loss(a: Any) -> Callable[..., Any]:
        return lambda x, y: np.sum(np.abs(f(a, x, y)) ** 2)

    if program == "A.dot(x)":
        return  # NumPy's arrays have another dot
    grads = fgrad.grad(loss(a), argnums=(0, 1))(x, y)
    dense = a.toarray().astype(np.result_type(dtype, np.float32))
    for one, two in zip(grads, fgrad.grad(loss(dense), argnums=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_places_given_twice_are_added() -> None:
    a = scipy.sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), (2, 2))
    double = scipy.sparse.csr_array((a.data, [1, 1, 0], [0, 2, 3]), (2, 2))
    own = fgrad.sparse.csr(double.data, double.indices, double.indptr, (2, 2))
    x = np.array([10.0, 1.0])
    for m in (a, double, own):
        np.testing.assert_array_equal(fgrad.jit(lambda x, m=m: m @ x)(x), [3.0, 40.0])
    np.testing.assert_array_equal(own.toarray(), double.toarray())
    np.testing.assert_array_equal((own + own.T).toarray(), (a + a.T).toarray())


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_traced_arrays_are_refused(kind: str) -> None:
    a = _matrix(kind, np.float64)
    for f in (lambda x: a @ list(x), lambda x: [x[0]] * M @ a, lambda x: a @ [[y] for y in x]):
        with pytest.raises(fgrad.errors.FgradError, match="of a list"):
            fgrad.jvp(f, (np.ones(N),), (np.ones(N),))


def test_truth_values() -> None:
    a, x = scipy.sparse.csr_array(np.ones((3, 300), bool)), np.ones(300, bool)
    found = fgrad.jit(lambda x: a @ x)(x)
    np.testing.assert_array_equal(found, a @ x)
    assert found.dtype == (a @ x).dtype


def _csr(a: Any, data: Any = None) -> Any:
    a = a.tocsr()
    given = a.data if data is None else data
    return fgrad.sparse.csr(given, a.indices, a.indptr, a.shape)


OTHER = scipy.sparse.csr_array(np.roll(DENSE, 1, axis=1))
# Each works on a matrix of SciPy and on one of fgrad's.
METHODS: dict[str, Callable[[Any], Any]] = {
    "A @ x": lambda a: a @ np.arange(6.0),
    "A @ X": lambda a: a @ np.arange(12.0).reshape(6, 2),
    "x @ A": lambda a: np.arange(4.0) @ a,
    "X @ A": lambda a: np.arange(8.0).reshape(2, 4) @ a,
    "T": lambda a: a.T.toarray(),
    "T @ x": lambda a: a.T @ np.arange(4.0),
    "T.T": lambda a: a.T.T.toarray(),
    "+": lambda a: (a + OTHER).toarray(),
    "r+": lambda a: (OTHER + a).toarray(),
    "-": lambda a: (a - OTHER).toarray(),
    "r-": lambda a: (OTHER - a).toarray(),
    "same": lambda a: (a + a).toarray(),
    "scaled": lambda a: (2.0 * a * np.float64(3.0) / 4.0 - -a).toarray(),
    "diagonal": lambda a: a.diagonal(),
    "T.diagonal": lambda a: a.T.diagonal(),
    "sum": lambda a: a.sum(),
    "sum 0": lambda a: a.sum(axis=0),
    "sum 1": lambda a: a.sum(axis=1),
    "sum -1": lambda a: a.sum(axis=-1),
    "conj": lambda a: (a.astype(complex) * 1j).conj().toarray(),
}


@pytest.mark.parametrize("name", METHODS)
def test_traced_entries(name: str) -> None:
    a, f = scipy.sparse.csr_array(DENSE), METHODS[name]
    wanted = f(a)

    def of(data: Any) -> Any:
        return f(_csr(a, data))

    for way in (lambda f: f, fgrad.jit):
        found = way(of)(a.data)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        assert found.shape == wanted.shape
    # Each is linear in the entries, up to a constant: its derivative is a difference.
    tangent = RNG.normal(size=a.nnz)
    np.testing.assert_allclose(
        fgrad.jvp(of, (a.data,), (tangent,))[1],
        f(scipy.sparse.csr_array((a.data + tangent, a.indices, a.indptr), a.shape)) - wanted,
        atol=1e-12,
    )
    many = fgrad.vmap(of)(np.stack([a.data, a.data * 2]))
    np.testing.assert_allclose(many[0], wanted, rtol=1e-12, atol=1e-12)


def test_a_matrix_is_a_tree() -> None:
    a = _csr(scipy.sparse.csr_array(DENSE))
    doubled = fgrad.jit(lambda a: 2 * a)(a)
    assert isinstance(doubled, fgrad.sparse.CsrMatrix) and doubled.pattern == a.pattern
    grad = fgrad.grad(lambda a: np.sum((a @ np.ones(N)) ** 2))(a)
    np.testing.assert_allclose(grad.data, 2 * DENSE.sum(1)[a.pattern.rows])
    again = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(again.toarray(), DENSE)


def test_refused() -> None:
    x = np.ones(N)
    a: Any = scipy.sparse.csr_array(DENSE)
    own = _csr(a)
    cases: list[Callable[[Any], Any]] = [
        lambda x: a * x, lambda x: x * a, lambda x: a + x, lambda x: np.matmul(a, x),
        lambda x: np.dot(a, x), lambda x: a @ x[:-1], lambda x: scipy.sparse.csr_matrix(a) * x,
        lambda x: own @ own, lambda x: own @ a, lambda x: own * x, lambda x: own + x,
        lambda x: own + own.T, lambda x: scipy.sparse.coo_array(a).dot(x),
        lambda x: scipy.sparse.diags_array(x), lambda x: a @ x[None, :, None], lambda x: a.T @ x,
        lambda x: plain.spsolve(a @ a.T, x[:4]),
        lambda x: scipy.sparse.csr_array((x, (range(6), range(6)))),
        lambda x: own.sum(axis=2) + x, lambda x: x @ a, lambda x: a @ x[0],
    ]  # fmt: skip
    for f in cases:
        with pytest.raises((ValueError, TypeError)):
            fgrad.jit(f)(x)
    bad: list[dict[str, Any]] = [
        {"data": np.ones(2)}, {"indices": [0, 9, 1]}, {"indices": [0, -1, 1]}, {"indptr": [0, 3]},
        {"indptr": [0, 2, 1, 3]}, {"indptr": [1, 2, 3]}, {"indices": [0.0, 1.0, 1.0]},
        {"shape": (3, 2)},
    ]  # fmt: skip
    good = {"data": np.ones(3), "indices": [0, 1, 1], "indptr": [0, 2, 3], "shape": (2, 2)}
    for wrong in bad:
        with pytest.raises((ValueError, TypeError)):
            fgrad.sparse.csr(**{**good, **wrong})
    with pytest.raises(fgrad.errors.ArgumentError, match="pattern is traced"):
        fgrad.jit(lambda i: fgrad.sparse.csr(np.ones(3), i, [0, 2, 3], (2, 2)))(np.array([0, 1, 1]))


# --- direct solutions -----------------------------------------------------------------------------


def _system(dtype: Any) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(8)
    dense = rng.normal(size=(N, N)) * (rng.random((N, N)) < 0.4) + 4 * np.eye(N)
    right = rng.normal(size=(N, 2))
    if dtype is np.complex128:
        dense, right = dense * (1 + rng.normal(size=(N, N)) * 1j), right * (2 - 1j)
    return scipy.sparse.csc_array(dense.astype(dtype)), right.astype(dtype)


SOLVERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "spsolve": (ours.spsolve, np.linalg.solve),
    "factorized": (lambda a, b: ours.factorized(a)(b), np.linalg.solve),
    "splu": (lambda a, b: ours.splu(a).solve(b), np.linalg.solve),
    "splu T": (lambda a, b: ours.splu(a).solve(b, "T"), lambda a, b: np.linalg.solve(a.T, b)),
    "splu H": (
        lambda a, b: ours.splu(a).solve(b, "H"),
        lambda a, b: np.linalg.solve(np.conj(a.T), b),
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("name", SOLVERS)
def test_solutions(name: str, columns: int, dtype: Any) -> None:
    a, right = _system(dtype)
    b = right if columns else right[:, 0]
    solve, dense = SOLVERS[name]
    own = _csr(a)
    tol = 1e-5 if dtype is np.float32 else 1e-11

    def sparse_loss(a: Any, b: Any) -> Any:
        return np.sum(np.abs(solve(a, b).T) ** 2 * np.arange(N))

    def dense_loss(a: Any, b: Any) -> Any:
        return np.sum(np.abs(dense(a.toarray(), b).T) ** 2 * np.arange(N))

    for way in (lambda f: f, fgrad.jit):
        for matrix in (a, own):
            found = way(lambda b, m=matrix: solve(m, b))(b)
            np.testing.assert_allclose(found, dense(a.toarray(), b), rtol=tol, atol=tol)
            assert found.dtype == b.dtype
        found = way(fgrad.grad(sparse_loss, argnums=(0, 1)))(own, b)
        wanted = fgrad.grad(dense_loss, argnums=(0, 1))(own, b)
        np.testing.assert_allclose(found[0].data, wanted[0].data, rtol=10 * tol, atol=tol)
        np.testing.assert_allclose(found[1], wanted[1], rtol=10 * tol, atol=tol)
    tangents = fgrad.jvp(sparse_loss, (own, b), (2 * own, b))[1]
    assert abs(tangents - fgrad.jvp(dense_loss, (own, b), (2 * own, b))[1]) < 100 * tol


def test_solutions_are_mapped() -> None:
    a, right = _system(np.float64)
    own, many = _csr(a), np.stack([right[:, 0], right[:, 1], 0 * right[:, 0]])
    wanted = np.linalg.solve(a.toarray(), many.T).T
    np.testing.assert_allclose(fgrad.vmap(lambda b: ours.spsolve(a, b))(many), wanted, atol=1e-13)
    stack = fgrad.sparse.CsrMatrix(np.stack([own.data, 2 * own.data]), own.pattern)
    by_matrix = fgrad.vmap(lambda a: fgrad.vmap(lambda b: ours.spsolve(a, b))(many))
    for way in (lambda f: f, fgrad.jit):
        np.testing.assert_allclose(way(by_matrix)(stack), [wanted, wanted / 2], atol=1e-13)
    one_each = fgrad.vmap(ours.spsolve)(stack, many[:2])
    np.testing.assert_allclose(one_each, wanted[:2] / [[1], [2]], atol=1e-13)


def test_a_value_and_its_gradient_factorise_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, right = _system(np.float64)
    own, b, count = _csr(a), right[:, 0], []
    made = plain.splu
    monkeypatch.setattr(_direct.plain, "splu", lambda *args: count.append(1) or made(*args))
    step = fgrad.jit(fgrad.value_and_grad(lambda d, b: np.sum(ours.spsolve(_csr(a, d), b))))
    data = own.data * 1.25
    step(data, b)
    assert len(count) == 1
    step(data * 2, b)
    assert len(count) == 2


def test_singular_and_refused_systems() -> None:
    singular = fgrad.sparse.csr(np.array([1.0, 1.0]), [0, 0], [0, 1, 2], (2, 2))
    with pytest.warns(plain.MatrixRankWarning):
        assert np.all(np.isnan(ours.spsolve(singular, np.ones(2))))
    a, right = _system(np.float64)
    own, b = _csr(a), right[:, 0]
    assert ours.spsolve(own, b[:, None]).shape == ours.spsolve(a, b[:, None]).shape
    assert fgrad.jit(lambda b: ours.spsolve(a, b))(b[:, None]).shape == b.shape
    np.testing.assert_allclose(ours.splu(a).L.toarray(), plain.splu(a).L.toarray())
    cases: list[Callable[[Any], Any]] = [
        lambda b: ours.spsolve(own, b[1:]), lambda b: ours.spsolve(np.eye(N), b),
        lambda b: ours.spsolve(scipy.sparse.csr_array(DENSE), b), lambda b: ours.splu(own).L,
        lambda b: ours.splu(own, permc_spec="NATURAL"), lambda b: ours.splu(own).solve(b, "X"),
        lambda b: ours.spsolve(own, scipy.sparse.csr_array(np.eye(N))),
    ]  # fmt: skip
    for f in cases:
        with pytest.raises((ValueError, TypeError)):
            fgrad.jit(f)(b)


# --- norms and eigenvalues ------------------------------------------------------------------------


@pytest.mark.parametrize("ord", [None, "fro", 1, np.inf])
def test_norms(ord: Any) -> None:
    a = scipy.sparse.csr_array(DENSE)
    twice = fgrad.sparse.csr(np.array([1.0, 2.0, -4.0]), [0, 0, 1], [0, 2, 3], (2, 2))
    assert (
        abs(ours.norm(twice, ord) - plain.norm(scipy.sparse.csr_array(twice.toarray()), ord))
        < 1e-12
    )
    assert abs(fgrad.jit(lambda d: ours.norm(_csr(a, d), ord))(a.data) - plain.norm(a, ord)) < 1e-12
    fgrad.testing.check_grads(lambda d: ours.norm(_csr(a, d), ord), (a.data,))


def _laplacian(k: Any) -> Any:
    """A chain of 9 springs, fixed at both ends."""
    n = len(k) - 1
    data = [k[0] + k[1]]
    for i in range(1, n):
        data += [-k[i], -k[i], k[i] + k[i + 1]]
    # Entries by rows: (i, i-1), (i, i), (i, i+1)
    rows = [0]
    for i in range(1, n):
        rows += [i - 1, i, i]
    columns = [0]
    for i in range(1, n):
        columns += [i, i - 1, i]
    order = np.argsort(np.array(rows) * n + columns)
    pattern = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), (n, n))
    return fgrad.sparse.csr(np.stack(data)[order], pattern.indices, pattern.indptr, (n, n))


@pytest.mark.parametrize("options", [{"which": "SA"}, {"which": "LA"}, {"sigma": 0.3}], ids=str)
def test_eigenvalues(options: dict[str, Any]) -> None:
    k = 1 + RNG.random(10)
    dense = _laplacian(k).toarray()

    def loss(solve: Callable[..., Any]) -> Callable[..., Any]:
        def of(k: Any) -> Any:
            values, vectors = solve(_laplacian(k))
            return np.sum(values * np.arange(1.0, 4.0)) + np.sum(np.abs(vectors) ** 3)

        return of

    found = ours.eigsh(_laplacian(k), 3, **options)
    wanted = plain.eigsh(scipy.sparse.csr_array(dense), 3, **options)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-10)
    which = [int(np.argmin(np.abs(np.linalg.eigvalsh(dense) - w))) for w in wanted[0]]

    def by_eigh(a: Any) -> Any:
        values, vectors = np.linalg.eigh(a.toarray())
        return values[np.array(which)], vectors[:, np.array(which)]

    by_arpack = loss(lambda a: ours.eigsh(a, 3, **options))
    grad = fgrad.grad(loss(by_eigh))(k)
    np.testing.assert_allclose(fgrad.grad(by_arpack)(k), grad, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(by_arpack))(k), grad, rtol=1e-7, atol=1e-9)
    tangent = fgrad.jvp(by_arpack, (k,), (np.ones(10),))[1]
    assert abs(tangent - grad.sum()) < 1e-8
    twice = [fgrad.hessian(loss(f))(k) for f in (lambda a: ours.eigsh(a, 3, **options), by_eigh)]
    np.testing.assert_allclose(*twice, rtol=1e-5, atol=1e-6)
    many = fgrad.vmap(lambda k: ours.eigsh(_laplacian(k), 3, **options)[0])(np.stack([k, 2 * k]))
    np.testing.assert_allclose(many[0], wanted[0], rtol=1e-10)


def test_eigenvalues_refused() -> None:
    a = _csr(_system(np.float64)[0])
    cases: list[Callable[[Any], Any]] = [
        lambda a: ours.eigsh(a, 0), lambda a: ours.eigsh(a, N),
        lambda a: ours.eigsh(a.toarray(), 2), lambda a: ours.eigsh(a, 2, sigma=a.sum()),
        lambda a: ours.eigsh(a.astype(complex), 2), lambda a: ours.eigsh(a, 2, M=np.eye(N)),
        lambda a: ours.eigsh(_csr(scipy.sparse.csr_array(DENSE)), 2), lambda a: ours.norm(a, 2),
        lambda a: ours.norm(a, axis=0), lambda a: ours.norm(a.toarray()),
    ]  # fmt: skip
    for f in cases:
        with pytest.raises((ValueError, TypeError)):
            fgrad.jit(f)(a)


def test_double_eigenvalues_have_no_derivative() -> None:
    def smallest(data: Any) -> Any:
        a = fgrad.sparse.csr(data, [0, 1, 2, 3], [0, 1, 2, 3, 4], (4, 4))
        return ours.eigsh(a, 2, which="LA", return_eigenvectors=False)[1]

    with pytest.warns(plain.MatrixRankWarning):
        assert np.any(np.isnan(fgrad.grad(smallest)(np.array([1.0, 1.0, 3.0, 3.0]))))


@pytest.mark.parametrize("kind", ["dok_array", "dok_matrix", "lil_array", "lil_matrix"])
def test_changes_of_matrices_held_by_lists_are_seen(kind: str) -> None:
    a = getattr(scipy.sparse, kind)(np.diag([1.0, 2.0, 3.0]))
    f, x = fgrad.jit(lambda x: a @ x), np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(f(x), a @ x)
    a[0, 0] = 5.0
    np.testing.assert_allclose(f(x), a @ x)
    a[0, 1] = 7.0
    np.testing.assert_allclose(f(x), a @ x)
    np.testing.assert_allclose(fgrad.vmap(lambda x: a @ x)(np.stack([x, x])), [a @ x, a @ x])
    large = getattr(scipy.sparse, kind)(scipy.sparse.eye_array(2000))
    with pytest.raises(UnsupportedTypeError, match="tocsr"):
        fgrad.jit(lambda x: large @ x)(np.ones(2000))
    slope = fgrad.grad(lambda x: (large @ x)[3])(np.ones(2000))
    assert slope[3] == 1.0 == slope.sum()
