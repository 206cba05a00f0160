"""scipy.special: values and edges against SciPy, derivatives against differences and each other."""

from __future__ import annotations

import inspect
import itertools
import zlib
from typing import Any

import numpy as np
import pytest
import scipy.special as plain

import fgrad
import fgrad.scipy.special as traced
import fgrad.scipy.special.elementary as elementary
from fgrad.errors import ArgumentError, MissingRuleError, UnsupportedNumpyError

COUNT = 5
UNIT = {
    "betainc": (2,), "betaincc": (2,), "betaincinv": (2,), "gammaincinv": (1,),
    "gammainccinv": (1,), "ndtri": (0,), "erfcinv": (0,), "erfinv": (0,), "ellipk": (0,),
    "ellipe": (0,), "ellipkm1": (0,), "stdtrit": (1,), "hyp2f1": (3,), "logit": (0,),
}  # fmt: skip
COUNTS = {"pdtr": (0,), "pdtrc": (0,), "expn": (0,), "yn": (0,),
          "kn": (0,)}  # fmt: skip
SHIFTED = {("zeta", 0): 2.0, ("zeta", 1): 1.0, ("binom", 0): 4.0, ("comb", 0): 4.0,
           ("perm", 0): 4.0}  # fmt: skip
REFUSED = {
    ("expn", 0), ("hyp0f1", 0), ("hyp1f1", 0), ("hyp1f1", 1), ("hyp2f1", 0),
    ("hyp2f1", 1), ("hyp2f1", 2), ("hyperu", 0), ("hyperu", 1), ("iv", 0), ("ive", 0), ("jv", 0),
    ("jn", 0), ("kn", 0), ("kv", 0), ("kve", 0), ("yn", 0), ("yv", 0),
}  # fmt: skip
STEPS = {"gammasgn"}  # piecewise constant, as counts are
# Names that are not ufuncs, with the number of array operands.
OTHERS = {"factorial": 1, "sinc": 1, "zeta": 2, "comb": 2, "perm": 2}


def _arity(name: str) -> int | None:
    target = getattr(plain, name, None)
    return target.nin if isinstance(target, np.ufunc) else OTHERS.get(name)


OLD = {*traced.PRIMITIVES, *dir(elementary)}  # the others are in test_special_families.py
NAMES = sorted([n for n in traced.TRACED if _arity(n) and n in OLD])


def _operand(name: str, k: int) -> np.ndarray:
    rng = np.random.default_rng(zlib.crc32(f"{name}{k}".encode()))
    u = rng.uniform(0.15, 0.9, COUNT)
    if k in UNIT.get(name, ()):
        return u
    if k in COUNTS.get(name, ()):
        return np.arange(COUNT) + 0.0
    return -3 * u if name == "ndtri_exp" else 3 * u + SHIFTED.get((name, k), 0.0)


def _operands(name: str) -> list[np.ndarray]:
    return [_operand(name, k) for k in range(_arity(name) or 0)]


def _parts(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", NAMES)
def test_values(name: str) -> None:
    xs = _operands(name)
    function = getattr(traced, name)
    for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 3e-5)):
        given = [x.astype(dtype) for x in xs]
        expected = _parts(getattr(plain, name)(*given))
        for got, want in zip(_parts(fgrad.jit(function)(*given)), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3)
            assert got.shape == (COUNT,)
            assert got.dtype == want.dtype


DTYPES = ("bool", "int8", "int64", "uint16", "complex64", "complex128")
ROUNDED = {"softmax", "log_softmax"}  # SciPy computes those of small integers as these
TOLERANCES = {"f": 3e-5, "d": 1e-11, "F": 3e-5, "D": 1e-10}


def _of_dtype(xs: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    if dtype == "bool":
        return [np.arange(COUNT) % 2 == 0 for _ in xs]
    return [(x + 0.3j if dtype[0] == "c" else x).astype(dtype) for x in xs]


def _call(function: Any, xs: list[np.ndarray]) -> tuple[Any, ...] | None:
    """The results; None if SciPy does not take such operands."""
    try:
        return tuple([np.asarray(y) for y in _parts(function(*xs))])
    except (TypeError, ValueError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted([*NAMES, "logsumexp", *ROUNDED]))
def test_every_dtype_that_scipy_takes(name: str) -> None:
    """Compiled, a function gives SciPy's numbers in SciPy's dtypes, for each dtype it takes."""
    given = {}
    for dtype in DTYPES:
        xs = _of_dtype([_operand(name, k) for k in range(_arity(name) or 1)], dtype)
        expected = _call(getattr(plain, name), xs)
        if expected is not None and not (name in ROUNDED and dtype in ("int8", "uint16")):
            given[dtype] = (xs, expected)
    calls = {dtype: xs for dtype, (xs, _) in given.items()}
    function = getattr(traced, name)
    compiled = fgrad.jit(lambda calls: {k: _parts(function(*xs)) for k, xs in calls.items()})
    found = compiled(calls)
    for dtype, (_, expected) in given.items():
        for got, want in zip(found[dtype], expected, strict=True):
            tolerance = TOLERANCES[want.dtype.char]
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=dtype)
            assert got.dtype == want.dtype, dtype


HOLOMORPHIC = ("gamma", "loggamma", "erfcx", "erfi", "dawsn", "log_ndtr", "expi", "exp1", "sici")


@pytest.mark.parametrize("name", [*HOLOMORPHIC, "logsumexp", "fresnel", "spence"])
def test_derivatives_of_complex_functions(name: str) -> None:
    z, step = np.array([1.3 + 0.4j, 0.6 - 0.7j]), (0.6 + 0.8j) * 1e-6
    function = getattr(traced, name)
    expected = [
        (y - x) / 2e-6
        for y, x in zip(_parts(function(z + step)), _parts(function(z - step)), strict=True)
    ]
    for f in (function, fgrad.jit(function)):
        _, found = fgrad.jvp(f, (z,), (np.full(2, step * 1e6),))
        for got, want in zip(_parts(found), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7)


def test_log_of_a_sum_of_complex_numbers() -> None:
    x, b = np.array([[800 + 2j, 800 - 1j], [-np.inf, -np.inf]]), np.array([1.0, -2.0])
    for settings in ({}, {"b": b}, {"return_sign": True}, {"keepdims": True}):
        given = {"axis": 1, **settings}
        got = fgrad.jit(lambda x, given=given: traced.logsumexp(x, **given))(x)
        with np.errstate(all="ignore"):
            want = plain.logsumexp(x, **given)
        for y, z in zip(_parts(got), _parts(want), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-12, err_msg=str(settings))


def test_choices_with_repetition() -> None:
    for n, k in ((0.0, 0.0), (2.0, 0.0), (0.0, 2.0), (3.0, 2.0)):
        f = lambda n, k: traced.comb(n, k, repetition=True)  # noqa: E731
        assert fgrad.jit(f)(n, k) == plain.comb(n, k, repetition=True)


EDGES = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -3, 10, -100, 1e-10, np.inf, -np.inf, np.nan])
FEW = np.array([0.0, 1, -1, 0.5, 10, np.inf, np.nan])
SLOW = {"hyp0f1", "hyp1f1", "hyp2f1", "hyperu"}  # SciPy itself does not return for some of these
ENDED = {"stdtrit": 0.1}  # operands below, where SciPy ends at 1e151 and the value is infinite
ELSEWHERE = {"kn", "yn", "expn", "comb", "perm"}  # orders that are no integers


@pytest.mark.parametrize("name", sorted({*NAMES} - SLOW - ELSEWHERE))
def test_edges(name: str) -> None:
    arity = _arity(name) or 0
    points = itertools.product(EDGES if arity < 3 else FEW, repeat=arity)
    xs = [np.array(x) for x in zip(*points, strict=True)]
    kept = ~((xs[0] > 0) & (xs[0] < ENDED.get(name, 0)))
    xs = [x[kept] for x in xs]
    with np.errstate(all="ignore"):
        expected = _parts(getattr(plain, name)(*xs))
    for got, want in zip(_parts(fgrad.jit(getattr(traced, name))(*xs)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize(
    ("name", "k"), [(n, k) for n in NAMES for k in range(_arity(n) or 0) if (n, k) not in REFUSED]
)
def test_derivatives(name: str, k: int) -> None:
    xs = _operands(name)

    def f(x: Any) -> Any:
        outs = _parts(getattr(traced, name)(*xs[:k], x, *xs[k + 1 :]))
        return sum([(j + 1) * np.sum(out) for j, out in enumerate(outs)])

    gradient = fgrad.grad(f)(xs[k])
    if name in STEPS or k in COUNTS.get(name, ()):
        np.testing.assert_array_equal(gradient, 0)
        return
    h = 1e-6
    steps = h * np.eye(COUNT)
    difference = np.array([(f(xs[k] + s) - f(xs[k] - s)) / (2 * h) for s in steps])
    np.testing.assert_allclose(gradient, difference, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(xs[k]), gradient, rtol=1e-11, atol=1e-14)
    _, tangent = fgrad.jvp(f, (xs[k],), (np.ones(COUNT),))
    np.testing.assert_allclose(tangent, gradient.sum(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("name", "k"), sorted(REFUSED))
def test_refused(name: str, k: int) -> None:
    xs = _operands(name)
    with pytest.raises(MissingRuleError, match="derivative of"):
        fgrad.grad(lambda x: np.sum(getattr(traced, name)(*xs[:k], x, *xs[k + 1 :])))(xs[k])


@pytest.mark.parametrize("name", ["gammaln", "gamma", "i0e", "j1", "ndtri", "erfcx", "expi"])
def test_second_derivatives(name: str) -> None:
    function = getattr(traced, name)
    x, h = 0.4, 1e-5
    slope = fgrad.grad(function)
    second = fgrad.grad(slope)(x)
    np.testing.assert_allclose(second, (slope(x + h) - slope(x - h)) / (2 * h), rtol=1e-7)


def test_vmap_is_a_loop() -> None:
    a, x = _operands("gammainc")
    mapped = fgrad.jit(fgrad.vmap(fgrad.grad(traced.gammainc, argnums=(0, 1)), in_axes=(None, 0)))
    rows = [fgrad.grad(traced.gammainc, argnums=(0, 1))(a[0], v) for v in x]
    np.testing.assert_allclose(mapped(a[0], x), np.transpose(rows), rtol=1e-12)


def test_ufuncs_of_scipy_take_tracers() -> None:
    x = np.array([0.5, 1.5])
    gradient = fgrad.grad(lambda x: np.sum(plain.gammaln(x) * plain.expit(x)))(x)
    other = fgrad.grad(lambda x: np.sum(traced.gammaln(x) * traced.expit(x)))(x)
    np.testing.assert_array_equal(gradient, other)


def test_polygamma_of_known_orders() -> None:
    x = np.array([0.5, 1.5, 4.0])
    for n in (0, 1, 2, 3):
        expected = plain.polygamma(n, x)
        np.testing.assert_allclose(fgrad.jit(lambda x: traced.polygamma(n, x))(x), expected)  # noqa: B023
        slope = fgrad.vmap(fgrad.grad(lambda x: traced.polygamma(n, x)))(x)  # noqa: B023
        np.testing.assert_allclose(slope, plain.polygamma(n + 1, x))
    with pytest.raises(ArgumentError, match="known integer"):
        fgrad.grad(lambda n: traced.polygamma(n, 1.0))(2.0)


def test_masked_derivatives_at_zero() -> None:
    assert fgrad.grad(traced.xlogy)(0.0, 2.0) == np.log(2.0)
    assert fgrad.grad(traced.xlogy, argnums=1)(0.0, 0.0) == 0
    assert fgrad.grad(traced.inv_boxcox, argnums=1)(1.0, 0.0) == pytest.approx(-np.e / 2)
    assert fgrad.grad(traced.boxcox, argnums=1)(2.0, 0.0) == pytest.approx(np.log(2) ** 2 / 2)
    assert fgrad.grad(traced.rgamma)(-1.0) == -1.0


def test_other_names_are_refused() -> None:
    with pytest.raises(UnsupportedNumpyError, match="ellip_harm"):
        fgrad.grad(lambda x: traced.ellip_harm(5, 8, 1, 1, x))(1.0)
    with pytest.raises(UnsupportedNumpyError, match="obl_rad2"):
        fgrad.grad(lambda x: plain.obl_rad2(1.0, 1.0, 1.0, x))(1.0)
    assert traced.lambertw(1.0) == plain.lambertw(1.0)
    with pytest.raises(UnsupportedNumpyError, match="exact"):
        fgrad.grad(lambda n: traced.comb(n, 2, exact=True))(4.0)


@pytest.mark.parametrize("name", ["erf", "erfinv", "expit", "gammaln", "psi", "i0", "ndtri"])
def test_float16_stays_that_in_programs(name: str) -> None:
    x = np.array([0.25, 0.5, 0.75], np.float16)
    wanted = getattr(plain, name)(x.astype(np.float64)).astype(np.float16)
    for fun in (fgrad.jit, fgrad.vmap):
        found = fun(getattr(traced, name))(x)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=1e-3)


@pytest.mark.parametrize("name", sorted(traced.PRIMITIVES))
def test_signatures_have_as_many_arguments_as_scipys_ufunc(name: str) -> None:
    function = getattr(traced, name)
    assert len(inspect.signature(function).parameters) == getattr(plain, name).nin
    assert "dtype" in function.__doc__
