"""Complex numbers: gradients, every function of the table, special values, no Python in between.

Each row of the table whose function takes complex numbers in NumPy is given complex arguments: its
derivatives are compared with finite differences along both parts, transposes with pushforwards,
compiled values with eager ones.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase

import fgrad
from fgrad import grad, hessian, jacfwd, jacrev, lax, value_and_grad
from fgrad.compile.cpu.c_loops import c_loop
from fgrad.compile.tasks.routines import Evaluation
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.errors import GradDtypeError
from fgrad.testing import check_grads, check_jit, check_transpose, check_vmap

# Refused for complex numbers, since NumPy's dtype depends on values, its order is not total, or it
# drops imaginary parts.
REAL_ONLY = {
    "interp.period",
    "nanmedian", "nanmedian.axis", "nanmedian.keepdims", "nanmedian.last", "real_if_close",
}  # fmt: skip


@lru_cache
def complex_arguments(case: OpCase) -> list[Any]:
    """The arguments of a row, with imaginary parts; none if NumPy's function takes real ones."""
    rng = np.random.default_rng(zlib.adler32(case.name.encode()))
    args: list[Any] = []
    for x in map(np.asarray, case.args(rng)):
        size = rng.uniform(0.2, 0.9, x.shape) * rng.choice([-1, 1], x.shape)
        args.append(x + 1j * size if x.dtype.kind == "f" else x)
    try:
        outs = fgrad.tree.leaves(case.fun(*args))
    except TypeError:
        return []
    smooth = any(np.asarray(y).dtype.kind in "fc" for y in outs)
    return args if smooth and any(x.dtype.kind == "c" for x in args) else []


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CASES = [
        case
        for case in OP_CASES
        if case.differentiable and case.order and case.name not in REAL_ONLY
        if complex_arguments(case)
    ]


def of_smooth(case: OpCase) -> tuple[Callable[..., Any], list[Any]]:
    """The row as a function of its complex arguments to its results that are not discrete."""
    args = complex_arguments(case)
    which = [i for i, x in enumerate(args) if x.dtype.kind == "c"]

    def function(*xs: Any) -> Any:
        whole = list(args)
        for i, x in zip(which, xs, strict=True):
            whole[i] = x
        return [y for y in fgrad.tree.leaves(case.fun(*whole)) if y.dtype.kind in "fc"]

    return function, [args[i] for i in which]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_derivatives(case: OpCase) -> None:
    check_grads(case.fun, complex_arguments(case), order=1, rtol=2e-5, atol=2e-5)
    function, args = of_smooth(case)
    check_transpose(function, args, rtol=1e-9)


@pytest.mark.parametrize("case", [c for c in CASES if not c.known], ids=lambda c: c.name)
def test_compiled_values(case: OpCase) -> None:
    check_jit(case.fun, complex_arguments(case), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", [c for c in CASES if not c.known], ids=lambda c: c.name)
def test_batches(case: OpCase) -> None:
    batch = [np.stack([x, x * 1.1 if x.dtype.kind == "c" else x]) for x in complex_arguments(case)]
    check_vmap(case.fun, batch, rtol=1e-11, atol=1e-13)


# --- special values: infinities, NaN, signed zeros, branch cuts

UNARY = [
    "negative",
    "reciprocal",
    "conjugate",
    "absolute",
    "sign",
    "exp",
    "sqrt",
    "log",
    "log2",
    "log10",
    "log1p",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "isnan",
    "isinf",
    "isfinite",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "maximum",
    "minimum",
]


def grid(dtype: str) -> np.ndarray:
    """All pairs of special numbers as parts; products of the large ones do not overflow."""
    parts = np.array([0.0, -0.0, 1.0, -1.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 300.0])
    z = np.zeros((len(parts), len(parts)), dtype)
    z.real, z.imag = parts[:, None], parts
    return z.ravel()


def assert_same(got: Any, expected: Any, rtol: float) -> None:
    """Equal parts, with the same infinities, NaN and signs of zero."""
    for a, b in ((np.real(got), np.real(expected)), (np.imag(got), np.imag(expected))):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=0)
        if a.dtype.kind == "f":
            zero = (a == 0) & (b == 0)
            np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero])


@pytest.mark.parametrize("dtype", "DF")
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_special_values(name: str, dtype: str) -> None:
    ufunc, z = getattr(np, name), grid(dtype)
    args = (z,) if ufunc.nin == 1 else (np.repeat(z, len(z)), np.tile(z, len(z)))
    got = fgrad.jit(lambda *xs: ufunc(*xs))(*args)
    assert_same(got, ufunc(*args), {"D": 4e-15, "F": 2e-6}[dtype])


@pytest.mark.parametrize("n", [2, 3, 5, -1, -4])
def test_integer_powers(n: int) -> None:
    z = grid("D")[np.isfinite(grid("D"))]
    z = z[z != 0]
    assert_same(fgrad.jit(lambda z: z**n)(z), z**n, 1e-13)


@pytest.mark.parametrize("n", [0, 0.5, 1.5, -0.5, 0.3, 2 + 1j, -1j, 120, 0j])
def test_powers(n: complex) -> None:
    z = grid("D")[np.isfinite(grid("D"))]
    got, expected = fgrad.jit(lambda z: z**n)(z), z**n
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-13)


@pytest.mark.parametrize("n", [-1, -2, -3, 0, 1, 2, 3, 0.5, -0.5, 0.3, 2 + 1j])
@pytest.mark.parametrize("dtype", "DF")
def test_powers_of_special_values(n: complex, dtype: str) -> None:
    """The prompt, compiled code and NumPy's `**` agree; literal exponents and traced ones."""
    z = grid(dtype)
    exponent = z.dtype.type(n)

    def agree(found: Any, expected: Any) -> None:
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(np.isfinite(found), finite)
        for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
            if not isinstance(n, complex):
                np.testing.assert_array_equal(a[~finite], b[~finite])
        error = np.abs(found[finite] - expected[finite])
        assert np.all(error <= {"D": 1e-13, "F": 2e-5}[dtype] * np.abs(expected[finite]))

    for f in (lambda z: z**n, lambda z: np.power(z, n)):
        agree(fgrad.jit(f)(z), z**n)
        agree(fgrad.jvp(f, (z,), (z * 0,))[0], z**n)
    for k in range(len(z)):  # of rank 0
        args = (z[k], exponent)
        agree(*[np.array([w(np.power)(*args)]) for w in (fgrad.jit, at_the_prompt)])
        agree(*[np.array([w(lambda z: z**n)(z[k])]) for w in (fgrad.jit, at_the_prompt)])
    agree(fgrad.jit(np.power)(z, exponent), np.power(z, exponent))
    agree(at_the_prompt(np.power)(z, exponent), np.power(z, exponent))


def at_the_prompt(f: Callable[..., Any]) -> Callable[..., Any]:
    """Evaluated equation by equation."""
    return lambda *xs: fgrad.jvp(f, xs, tuple([x * 0 for x in xs]))[0]


@pytest.mark.parametrize("kind", ["normal", "wide", "circle", "large"])
@pytest.mark.parametrize(
    "name",
    [
        "sqrt", "log", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "arcsin",
        "arccos", "arctan", "arcsinh", "arccosh", "arctanh",
    ],
)  # fmt: skip
def test_accuracy(name: str, kind: str) -> None:
    """Within 4 units of rounding of the exact value, each part within 8 unless it cancels."""
    if np.finfo(np.longdouble).eps >= np.finfo(float).eps:
        pytest.skip("long doubles are no better than doubles here")
    rng, n = np.random.default_rng(0), 20_000
    angle = np.exp(1j * rng.uniform(-np.pi, np.pi, n))
    z = {
        "normal": rng.normal(size=n) + 1j * rng.normal(size=n),
        "wide": np.exp(rng.uniform(-30, 5.5, n)) * angle,
        "circle": np.exp(1e-6 * rng.normal(size=n)) * angle,
        "large": rng.uniform(-700, 700, n) + 1j * rng.uniform(-700, 700, n),
    }[kind]
    ufunc = getattr(np, name)
    exact, got = ufunc(z.astype(np.clongdouble)), fgrad.jit(lambda z: ufunc(z))(z)
    unit = np.finfo(float).eps
    assert np.max(np.abs(got - exact) / np.abs(exact)) < 4 * unit
    if kind != "circle":
        for a, b in ((got.real, exact.real), (got.imag, exact.imag)):
            normal = np.abs(b) > 1e-300
            assert np.max((np.abs(a - b) / np.abs(b))[normal]) < 8 * unit


def test_products_of_many() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5, 1, 7)) + 1j * rng.normal(size=(5, 1, 7))
    for axis in (None, 0, 1, (0, 2), (1, 2)):
        got = fgrad.jit(lambda z, axis=axis: np.prod(z, axis))(z)
        np.testing.assert_allclose(got, np.prod(z, axis), rtol=1e-13)


def test_sorting() -> None:
    """By real, then imaginary parts; NaN last, in three groups."""
    z = np.round(np.random.default_rng(0).normal(size=(4, 6))) + 0j
    z.imag = np.random.default_rng(1).integers(0, 3, z.shape)
    z[0, 1], z[1, 2], z[1, 1] = complex(np.nan, 1), complex(0, np.nan), complex(np.nan, np.nan)
    for axis in (0, 1):
        for f in (np.sort, np.argsort):
            got = fgrad.jit(lambda z, f=f, axis=axis: f(z, axis, stable=True))(z)
            np.testing.assert_array_equal(got, f(z, axis, stable=True))


# --- without Python


def host_steps(f: Callable[..., Any], *args: Any) -> list[str]:
    """The primitives that compiled code evaluates by calling Python."""
    steps = fgrad.inspect(f)(*args).passes["lower"]
    routines = [s.routine for s in steps if isinstance(s, LibraryStep)]
    evaluated = [r.eqn for r in routines if isinstance(r, Evaluation)]
    return [eqn.prim.name for eqn in evaluated if c_loop(eqn) is None]


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_elementwise_functions_are_native(name: str) -> None:
    ufunc, z = getattr(np, name), np.ones(3) + 1j
    assert not host_steps(lambda *xs: ufunc(*xs), *[z] * ufunc.nin)


# --- gradients


def test_descent() -> None:
    """z - step * grad(f)(z) goes down."""
    target = np.array([1 + 2j, -3j])

    def loss(z: Any) -> Any:
        return np.sum(np.abs(z - target) ** 2)

    z = np.zeros(2, complex)
    for _ in range(50):
        z = z - 0.3 * grad(loss)(z)
    np.testing.assert_allclose(z, target, atol=1e-10)


def test_gradients_of_parts() -> None:
    """dL/dx + i dL/dy, at the prompt, compiled, mapped and of a compiled function."""

    def loss(z: Any, r: Any) -> Any:
        return np.abs(np.sum(np.exp(z) * r + np.conj(z))) + np.sum(np.angle(z))

    def of_parts(x: Any, y: Any, r: Any) -> Any:
        return loss(x + 1j * y, r)

    rng = np.random.default_rng(0)
    x, y, r = rng.normal(size=(3, 4))
    value, (dx, dy, dr) = value_and_grad(of_parts, (0, 1, 2))(x, y, r)
    z = x + 1j * y
    for way in (
        value_and_grad(loss, (0, 1)),
        fgrad.jit(value_and_grad(loss, (0, 1))),
        value_and_grad(fgrad.jit(loss), (0, 1)),
    ):
        got, (dz, ds) = way(z, r)
        np.testing.assert_allclose(got, value, rtol=1e-13)
        np.testing.assert_allclose(dz, dx + 1j * dy, rtol=1e-12)
        np.testing.assert_allclose(ds, dr, rtol=1e-12)
        assert ds.dtype == np.float64
    mapped = fgrad.vmap(grad(loss))(np.stack([z, z]), np.stack([r, r]))
    np.testing.assert_allclose(mapped[1], dx + 1j * dy, rtol=1e-12)
    np.testing.assert_allclose(
        jacrev(lambda z: np.stack([loss(z, r), loss(2 * z, r)]))(z)[0], dx + 1j * dy, rtol=1e-12
    )


@pytest.mark.parametrize("jit", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
def test_holomorphic(jit: Callable[..., Any]) -> None:
    z = np.array([1 + 2j, 0.5 - 1j])

    def f(z: Any) -> Any:
        return z[0] ** 2 * np.sin(z[1])

    a, b = z
    slope = np.array([2 * a * np.sin(b), a**2 * np.cos(b)])
    cross = 2 * a * np.cos(b)
    curvature = np.array([[2 * np.sin(b), cross], [cross, -(a**2) * np.sin(b)]])
    np.testing.assert_allclose(jit(grad(f, holomorphic=True))(z), slope, rtol=1e-13)
    value, found = jit(value_and_grad(f, holomorphic=True))(z)
    np.testing.assert_allclose(value, f(z), rtol=1e-13)
    np.testing.assert_allclose(found, slope, rtol=1e-13)
    for jacobian in (jacfwd, jacrev):
        np.testing.assert_allclose(jit(jacobian(f, holomorphic=True))(z), slope, rtol=1e-13)
    np.testing.assert_allclose(jit(hessian(f, holomorphic=True))(z), curvature, rtol=1e-12)


def test_loops() -> None:
    """Complex carries in scans, loops and branches, at the prompt and compiled."""
    z = np.array([1 + 2j, 0.5 - 1j, -0.3j])

    def scanned(z: Any) -> Any:
        last, sizes = lax.scan(lambda c, t: (c * t + np.exp(1j * t.real), np.abs(c)), z[0], z)
        return np.abs(last) ** 2 + np.sum(sizes)

    def unrolled(z: Any) -> Any:
        c, total = z[0], 0.0
        for k in range(3):
            total = total + np.abs(c)
            c = c * z[k] + np.exp(1j * z[k].real)
        return np.abs(c) ** 2 + total

    for way in (grad(scanned), fgrad.jit(grad(scanned)), grad(fgrad.jit(scanned))):
        np.testing.assert_allclose(way(z), grad(unrolled)(z), rtol=1e-12)
    doubled = lax.while_loop, lambda c: np.abs(c) < 10, lambda c: c * (1 + 1j)
    assert fgrad.jit(lambda z: doubled[0](*doubled[1:], z))(0.5 + 0j) == 8 + 8j
    turned = fgrad.jit(lambda z: lax.cond(z.real > 0, lambda z: z * 2j, np.conj, z))
    assert turned(1 + 1j) == -2 + 2j and turned(-1 + 1j) == -1 - 1j


def test_complex_results_of_real_arguments() -> None:
    x = np.array([0.3, 0.7])
    got = jacfwd(lambda x: np.exp(1j * x))(x)
    np.testing.assert_allclose(got, np.diag(1j * np.exp(1j * x)), rtol=1e-14)


CUT: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name)
    for name in ("sqrt", "log", "log10", "log2", "log1p", "arcsin", "arccos", "arctan", "arcsinh",
                 "arccosh", "arctanh")
} | {f"power {n}": lambda z, n=n: z**n for n in (0.5, -0.5, 1.5, 0.3 + 1j)}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("along", ["real", "imaginary"])
def test_derivatives_on_branch_cuts(name: str, zero: float, along: str) -> None:
    """Along a cut: the sign of zero says on which side."""
    f, x = CUT[name], np.array([-2.03, -0.4, 0.3, 1.7])
    way = 1 if along == "real" else 1j

    def near(step: float) -> np.ndarray:
        z = np.empty(4, complex)
        z.real, z.imag = (x + step, zero) if along == "real" else (zero, x + step)
        return z

    expected = (f(near(1e-6)) - f(near(-1e-6))) / 2e-6
    z, t = near(0.0), np.full(4, way, complex)
    for run in (f, fgrad.jit(f)):
        np.testing.assert_allclose(fgrad.jvp(run, (z,), (t,))[1], expected, 1e-5, 1e-7)
        pulled = fgrad.vjp(lambda z, run=run: np.abs(run(z)), z)[1](np.ones(4))[0]
        slope = (np.abs(f(near(1e-6))) - np.abs(f(near(-1e-6)))) / 2e-6
        np.testing.assert_allclose(np.real(pulled * way), slope, 1e-5, 1e-7)


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arccosh", "arctanh", "sqrt", "log"])
def test_derivatives_of_real_numbers_beyond_the_domain(name: str) -> None:
    def f(x: Any) -> Any:
        return np.abs(getattr(np, name)(x, dtype=complex))

    x = np.array([-3.1, -1.2, -0.4, 0.3, 1.6, 2.0])
    slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
    for g in (grad(lambda x: np.sum(f(x))), fgrad.jit(grad(lambda x: np.sum(f(x))))):
        np.testing.assert_allclose(g(x), slope, 1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: grad(lambda z: z**2)(1j), "needs a real result"),
        (lambda: grad(lambda z: z**2, holomorphic=True)(1.0), "needs complex arguments"),
        (lambda: grad(np.abs, holomorphic=True)(1j), "needs a complex result"),
        (lambda: jacrev(np.sin)(np.ones(2) * 1j), "jacrev needs a real result"),
        (lambda: jacfwd(np.abs)(np.ones(2) * 1j), "jacfwd needs real arguments"),
        (lambda: hessian(np.abs)(1j), "hessian needs real arguments"),
        (lambda: jacfwd(np.abs, holomorphic=True)(1j), "needs a complex result"),
        (lambda: jacrev(np.abs, holomorphic=True)(1.0), "needs complex arguments"),
        (lambda: jacfwd(np.abs)(np.arange(3)), "jacfwd needs floating-point arguments"),
    ],
)
def test_cards(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(GradDtypeError, match=words):
        call()


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """NumPy's warnings about special values are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
