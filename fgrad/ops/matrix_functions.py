"""L3. Functions of matrices: the exponential and its kin, the square root, Sylvester's equation.

[N] Najfeld, Havel, Derivatives of the matrix exponential and their computation, 1995.
[B] Higham, Functions of matrices, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import NOT_LINEAR, Primitive
from fgrad.ops.elementwise import add, neg
from fgrad.ops.families import zeros_like
from fgrad.ops.matrices import (
    above,
    batch_leading,
    beside,
    block,
    check_equal,
    check_matrix,
    each_matrix,
    matmul,
    transposed,
)
from fgrad.trace import Value, bind

scipy_linalg = lazy_module("scipy.linalg")


# --- the functions of SciPy that are given by power series, and their derivatives

FUNCTIONS = frozenset({"expm", "logm", "cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"})

_LARGE = 32  # rows from which on `expm_frechet` is faster than `expm` of twice as many

matrix_function_p = Primitive("matrix_function", traits.whole(flops_over_n3=20.0), params=("name",))
frechet_p = Primitive("frechet", traits.whole(), params=("name",), linear_in=(1,))


@matrix_function_p.type_rule
def _(a: Aval, *, name: str) -> Aval:
    check_matrix(matrix_function_p, a, square=True)
    return a.strong()


def _evaluate(name: str, a: np.ndarray) -> np.ndarray:
    """A function of SciPy in double precision, in the dtype of the operand in the end: NaN where
    the operand is real, but not the result."""
    x = getattr(scipy_linalg, name)(a.astype(np.result_type(a.dtype, np.float64)))
    if x.dtype.kind == "c" and a.dtype.kind == "f":
        small = 100 * float(np.finfo(x.dtype).eps) * np.abs(x).max(initial=0)
        x = x.real if np.abs(x.imag).max(initial=0) <= small else np.full_like(a, np.nan)
    return x.astype(a.dtype, copy=False)


@matrix_function_p.evaluate
def _(a: np.ndarray, *, name: str) -> np.ndarray:
    return each_matrix(lambda x: (_evaluate(name, x),), [(a.shape[-2:], a.dtype)], a)[0]


@matrix_function_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value, *, name: str) -> Value:
    return frechet(name, primals[0], tangents[0])


@frechet_p.type_rule
def _(a: Aval, e: Aval, *, name: str) -> Aval:
    check_matrix(frechet_p, a, square=True)
    check_equal(frechet_p, a.shape, e.shape)
    return a.strong()


@frechet_p.evaluate
def _(a: np.ndarray, e: np.ndarray, *, name: str) -> np.ndarray:
    """The upper right block of f([[a, e], [0, a]]) [N, section 2; B, 3.16]; by SciPy's own function
    for exponentials that are large."""
    n = a.shape[-1]

    def one(a: np.ndarray, e: np.ndarray) -> tuple[np.ndarray]:
        if name == "expm" and n >= _LARGE and np.isfinite(a).all() and np.isfinite(e).all():
            wide = np.result_type(a.dtype, np.float64)
            slope = scipy_linalg.expm_frechet(a.astype(wide), e.astype(wide), compute_expm=False)
            return (slope.astype(a.dtype),)
        whole = np.block([[a, e], [np.zeros_like(a), a]])
        return (_evaluate(name, whole)[:n, n:],)

    return each_matrix(one, [(a.shape[-2:], a.dtype)], a, e)[0]


@frechet_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], out: Value, *, name: str
) -> Value | None:
    """Linear in e; in a, the derivative of f([[a, e], [0, a]]), which is linear in da: the upper
    right block of l([[a, e], [0, a]], [[da, 0], [0, da]])."""
    (a, e), (da, de) = primals, tangents
    total = None if de is None else frechet(name, a, de)
    if da is not None:
        n, zero = a.shape[-1], zeros_like(a)
        whole = frechet(name, _blocks(a, e, zero, a), _blocks(da, zero, zero, da))
        part = block(whole, 0, n, n, 2 * n)
        total = part if total is None else add(total, part)
    return total


def _blocks(a: Value, b: Value, c: Value, d: Value) -> Value:
    return above(beside(a, b), beside(c, d))


@frechet_p.transpose
def _(ct: Value, wanted: Sequence[bool], a: Value, e: Value, *, name: str) -> tuple[None, Value]:
    """The transpose of l(a, .) is l(a^T, .)."""
    return None, frechet(name, transposed(a), ct)


matrix_function_p.refuse("transpose", NOT_LINEAR)
batch_leading(matrix_function_p)
batch_leading(frechet_p)


def matrix_function(name: str, a: Value) -> Value:
    """One of `FUNCTIONS` of square matrices, in their own dtype."""
    return bind(matrix_function_p, a, name=name)


def frechet(name: str, a: Value, e: Value) -> Value:
    """The derivative of one of `FUNCTIONS` at a, in the direction e."""
    return bind(frechet_p, a, e, name=name)


# --- solve_sylvester: a x + x b = c

solve_sylvester_p = Primitive("solve_sylvester", traits.whole(), linear_in=(2,))


@solve_sylvester_p.type_rule
def _(a: Aval, b: Aval, c: Aval) -> Aval:
    check_matrix(solve_sylvester_p, a, square=True)
    check_matrix(solve_sylvester_p, b, square=True)
    check_equal(solve_sylvester_p, (*a.shape[:-1], b.shape[-1]), c.shape)
    return c.strong()


@solve_sylvester_p.evaluate
def _(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    def one(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray]:
        return (scipy_linalg.solve_sylvester(a, b, c),)

    return each_matrix(one, [(c.shape[-2:], c.dtype)], a, b, c)[0]


@solve_sylvester_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value | None], x: Value) -> Value | None:
    """a dx + dx b = dc - da x - x db."""
    (a, b, _), (da, db, dc) = primals, tangents
    for part in (None if da is None else matmul(da, x), None if db is None else matmul(x, db)):
        if part is not None:
            dc = neg(part) if dc is None else add(dc, neg(part))
    return None if dc is None else solve_sylvester(a, b, dc)


@solve_sylvester_p.transpose
def _(ct: Value, wanted: Sequence[bool], a: Value, b: Value, c: Value) -> tuple[None, None, Value]:
    return None, None, solve_sylvester(transposed(a), transposed(b), ct)


batch_leading(solve_sylvester_p)


def solve_sylvester(a: Value, b: Value, c: Value) -> Value:
    """x with a x + x b = c."""
    return bind(solve_sylvester_p, a, b, c)


# --- sqrtm

sqrtm_p = Primitive("sqrtm", traits.whole(flops_over_n3=25.0))


@sqrtm_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(sqrtm_p, a, square=True)
    return a.strong()


@sqrtm_p.evaluate
def _(a: np.ndarray) -> np.ndarray:
    return each_matrix(lambda x: (_evaluate("sqrtm", x),), [(a.shape[-2:], a.dtype)], a)[0]


@sqrtm_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], x: Value) -> Value:
    """x dx + dx x = da [B, 6.5]."""
    return solve_sylvester(x, x, tangents[0])


sqrtm_p.refuse("transpose", NOT_LINEAR)
batch_leading(sqrtm_p)


def sqrtm(a: Value) -> Value:
    """The principal square root of matrices, in their own dtype."""
    return bind(sqrtm_p, a)
