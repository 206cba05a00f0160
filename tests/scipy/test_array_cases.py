"""Rows of tests/scipy_array_cases.py: SciPy's values, dtypes and shapes, in single precision too;
derivatives against differences in both modes; under jit and vmap."""

from __future__ import annotations

import ast
import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy_array_cases import ARRAYS, CASES, CONSTANTS, LOST, WRONG

import fgrad

SHORT = {"sg": "signal", "nd": "ndimage", "ip": "interpolate"}
PLAIN, OWN = [
    {short: importlib.import_module(f"{top}.{name}") for short, name in SHORT.items()}
    for top in ("scipy", "fgrad.scipy")
]
RNG = np.random.default_rng(3)


def _program(line: str, modules: dict[str, Any]) -> tuple[Callable[..., Any], list[str]]:
    """The expression as a function of the arrays that it names."""
    read = {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)}
    names = sorted(read & {*ARRAYS})
    scope = {"np": np, **CONSTANTS, **modules}
    return eval(f"lambda {', '.join(names)}: {line}", scope), names


def _arrays(found: Any) -> list[Any]:
    """The results that are arrays, of nested tuples and lists."""
    if not isinstance(found, (tuple, list)):
        return [found]
    return [x for part in found for x in _arrays(part)]


def _given(names: list[str], single: bool = False) -> list[np.ndarray]:
    given = [ARRAYS[n] for n in names]
    return [x.astype(np.complex64 if x.dtype.kind == "c" else np.float32) for x in given] if (
        single
    ) else given  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # SciPy's about empty objects
        yield


@pytest.mark.parametrize("line", CASES)
def test_values(line: str) -> None:
    own, names = _program(line, OWN)
    given = _given(names)
    found, wanted = _arrays(fgrad.jit(own)(*given)), _arrays(_program(line, PLAIN)[0](*given))
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert (np.shape(x), np.asarray(x).dtype) == (np.shape(y), np.asarray(y).dtype)
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("line", [c for c in CASES[::2] if "round" not in c])
def test_single_precision(line: str) -> None:
    own, names = _program(line, OWN)
    given = _given(names, single=True)
    found, wanted = _arrays(fgrad.jit(own)(*given)), _arrays(_program(line, PLAIN)[0](*given))
    for x, y in zip(found, wanted, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-3)


def _way(name: str, x: np.ndarray) -> np.ndarray:
    """A direction; a_0 of sections stays one."""
    way = RNG.normal(size=x.shape)
    if name == "s":
        way[:, 3] = 0
    return way.astype(x.dtype)


def _loss(own: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*xs: Any) -> Any:
        total = 0.0
        for out in _arrays(own(*xs)):
            out = np.where(np.isnan(out), 0.0, out)
            weights = np.cos(np.arange(np.size(out))).reshape(np.shape(out))
            total = total + np.sum((np.abs(out) ** 2 * 0.1 + np.real(out)) * weights)
        return total

    return loss


ROUGH = ("sg.square", "sg.sawtooth", "nd.uniform_filter(np.round", "nd.sum(np.round")  # jumps


@pytest.mark.parametrize("line", [c for c in CASES if not c.startswith(ROUGH)])
def test_derivatives(line: str) -> None:
    own, names = _program(line, OWN)
    given = _given(names)
    loss = _loss(own)
    ways = [_way(n, ARRAYS[n]) for n in names]
    _, slope = fgrad.jvp(loss, tuple(given), tuple(ways))
    back = fgrad.jit(fgrad.grad(loss, argnums=tuple(range(len(given)))))(*given)
    paired = sum([np.sum(np.real(g * w)) for g, w in zip(back, ways, strict=True)])
    h = 1e-6
    plain = _loss(_program(line, PLAIN)[0])
    ends = [plain(*[x + t * h * w for x, w in zip(given, ways, strict=True)]) for t in (1, -1)]
    assert slope == pytest.approx(paired, rel=1e-7, abs=1e-8)
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("line", CASES[1::3])
def test_vmap_is_a_loop(line: str) -> None:
    own, names = _program(line, OWN)
    given = _given(names)
    many = [np.stack([x, x + 0.01 * _way(n, x)]) for n, x in zip(names, given, strict=True)]
    found = _arrays(fgrad.vmap(lambda *xs: _arrays(own(*xs)))(*many))
    for k in range(2):
        wanted = _arrays(own(*[x[k] for x in many]))
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("line", LOST)
def test_no_derivative_is_lost(line: str) -> None:
    own, names = _program(line, OWN)
    given = tuple(_given(names))
    with pytest.raises(TypeError, match="does not take traced arrays"):
        fgrad.jvp(own, given, given)


@pytest.mark.parametrize("line", WRONG)
def test_what_scipy_refuses_is_refused(line: str) -> None:
    plain, names = _program(line, PLAIN)
    with pytest.raises(Exception):  # noqa: B017 - of many classes
        plain(*_given(names))
    with pytest.raises((ValueError, TypeError, IndexError, RuntimeError)):
        fgrad.jit(_program(line, OWN)[0])(*_given(names))


@pytest.mark.parametrize(
    "line",
    [
        "ip.interp1d([0.0, 1.0, 1.0, 2.0], X[:4])(1.5)",
        "ip.RBFInterpolator(P2, X[[0] * 12], neighbors=5)(P2)",
        "ip.BarycentricInterpolator(X)",
        "ip.KroghInterpolator([0.0, 0.0, 1.0], [1.0, 2.0, 3.0])(0.5)",
        "ip.CubicSpline(X, X).roots()",
        "ip.CubicSpline(X, X[:2, None] * X, axis=1).derivative()(X)",
    ],
)
def test_plain_data_are_scipys(line: str) -> None:
    """What only SciPy does with plain data, it does."""
    found, wanted = [_program(line, modules)[0]() for modules in (OWN, PLAIN)]
    if not isinstance(wanted, PLAIN["ip"].BarycentricInterpolator):
        np.testing.assert_array_equal(found, wanted)


def test_data_that_change_later() -> None:
    made = OWN["ip"].BarycentricInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])
    made.set_yi([1.0, 1.0, 1.0])
    assert made(0.5) == 1.0
    for _ in range(2):
        with pytest.raises(TypeError, match="does not take traced arrays"):
            fgrad.grad(made)(0.5)


COMPLEX = ("ip.AAA", "ip.Floater")  # of complex places too
PLACES = [
    line
    for line in CASES
    if line.startswith("ip.") and "q" in _program(line, OWN)[1] and not line.startswith(COMPLEX)
]


@pytest.mark.parametrize("line", PLACES)
def test_complex_places_are_refused(line: str) -> None:
    """SciPy drops their imaginary parts."""
    own, names = _program(line, OWN)
    given = [ARRAYS[n] * (1 + 0.1j) if n == "q" else ARRAYS[n] for n in names]
    with pytest.raises((TypeError, ValueError), match="complex"):
        fgrad.jit(own)(*given)


@pytest.mark.parametrize("kind", [np.float32, np.complex128, np.int16])
def test_medians_keep_their_dtype(kind: type) -> None:
    labels, m = CONSTANTS["LABELS"], (ARRAYS["m"] * 9).astype(kind)
    m = m * (1 + 2j) if kind is np.complex128 else m
    found = fgrad.jit(lambda m: OWN["nd"].median(m, labels, [1, 2]))(m)
    wanted = PLAIN["nd"].median(m, labels, [1, 2])
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_zeros_of_splines() -> None:
    """How many there are must be known; each moves as the coefficients do."""
    t, c, way = CONSTANTS["T"], ARRAYS["g"], ARRAYS["e"]

    def zeros(module: Any, c: Any) -> Any:
        return module.sproot((t, c, 3))

    found, slope = fgrad.jvp(lambda c: zeros(OWN["ip"], c), (c,), (way,))
    np.testing.assert_allclose(found, zeros(PLAIN["ip"], c))
    ends = [zeros(PLAIN["ip"], c + h * way) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)
    back = fgrad.grad(lambda c: np.sum(zeros(OWN["ip"], c)))(c)
    assert back @ way == pytest.approx(np.sum(slope))
    with pytest.raises(TypeError, match="does not take traced arrays"):
        fgrad.jit(lambda c: zeros(OWN["ip"], c))(c)


KINDS = [np.float32, np.float64, np.complex64, np.int8, np.int64]


@pytest.mark.parametrize("places", [5, np.array([0.1, 0.2], np.float32), np.array([1, 2])])
def test_dtypes_of_responses(places: Any) -> None:
    for first, second in itertools.product(KINDS, KINDS):
        b, a = np.array([1, 2]).astype(first), np.array([2, 1]).astype(second)
        wanted = PLAIN["sg"].freqz(b, a, places)
        found = fgrad.jit(lambda b, a: OWN["sg"].freqz(b, a, places))(b, a)
        assert [x.dtype for x in found] == [x.dtype for x in wanted]


def test_filters_of_more_precision_than_the_image_are_refused() -> None:
    """As SciPy does, instead of widening the image."""
    given = ARRAYS["m"].astype(np.float32), np.ones(3), np.ones(3)
    for call in (PLAIN["sg"].sepfir2d, fgrad.jit(OWN["sg"].sepfir2d)):
        with pytest.raises(TypeError):
            call(*given)


# --- places on the edge of an image: rounding decides whether they are outside -------------------


def _turned(nd: Any, x: Any, matrix: Any, start: Any, angle: float) -> list[Any]:
    return [
        nd.affine_transform(x, matrix, start, order=1),
        nd.affine_transform(x, np.diagonal(matrix), start, order=1),
        nd.rotate(x, angle, order=1),
        nd.rotate(x, angle, reshape=False, order=1),
    ]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("trial", range(12))
def test_edges_of_images(trial: int, traced: bool, rng: np.random.Generator) -> None:
    rank = 2 + trial % 2
    x = rng.normal(size=rng.integers(6, 30, rank)) + 3
    matrix = np.round(rng.uniform(-1, 1, (rank, rank)), 1)
    np.fill_diagonal(matrix, np.round(rng.uniform(0.3, 1.5, rank), 1))
    start = np.round(rng.uniform(-3, 3, rank), 1) * (trial % 4 > 1)
    angle = [30.0, 45.0, 60.0, 33.3, -30.0, 270.0][trial // 2]

    def program(x: Any, *given: Any) -> list[Any]:
        return _turned(OWN["nd"], x, *(given or (matrix, start)), angle)

    found = fgrad.jit(program)(x, *([matrix, start] if traced else []))
    for a, b in zip(found, _turned(PLAIN["nd"], x, matrix, start, angle), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
