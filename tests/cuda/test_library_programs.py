"""Programs with library steps on a device that is not there, compared with NumPy and SciPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from device_programs import called, check, compiled
from emulator.driver import StubDriver
from emulator.events import Graph
from emulator.libraries import StubLibraries
from real_device import stub_device

import fgrad
import fgrad.scipy.linalg
import fgrad.scipy.special as fs
from fgrad.errors import UnsupportedDeviceError
from fgrad.lower_cuda.device.driver import driver
from fgrad.lower_cuda.library.special import SPECIAL


@pytest.fixture(autouse=True)
def libraries() -> Iterator[StubLibraries]:
    """Libraries and a driver without a device."""
    stub = StubLibraries()
    with stub_device(libraries=stub):
        yield stub


RNG = np.random.default_rng(0)
MATRICES = RNG.normal(size=(3, 4, 4)) + 4 * np.eye(4)
RIGHT = RNG.normal(size=(3, 4))
POSITIVE = np.array(MATRICES[0] @ MATRICES[0].T)
SIGNAL = RNG.normal(size=(3, 16))


def rebuilt(w: Any, v: Any) -> Any:
    """The parts of the matrices that have these eigenvalues and eigenvectors."""
    a = (v * w[:, None]) @ np.linalg.inv(v)
    return a.real, a.imag


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (
        lambda a, b: np.tanh(a @ b + 1),
        (RNG.normal(size=(40, 30)), RNG.normal(size=(30, 20))),
    ),
    "solve": (lambda a, b: np.linalg.solve(a, b[..., None]), (MATRICES, RIGHT)),
    "determinant": (lambda a: np.linalg.slogdet(a)[1], (MATRICES,)),
    "inverse": (np.linalg.inv, (MATRICES,)),
    "cholesky": (np.linalg.cholesky, (POSITIVE,)),
    "eigenvalues": (lambda a: np.linalg.eigh(a)[0], (POSITIVE,)),
    "any eigenvalues": (lambda a: np.sort(np.abs(np.linalg.eigvals(a))), (MATRICES,)),
    "any eigenvectors": (lambda a: rebuilt(*np.linalg.eig(a)), (MATRICES * (1 + 1j),)),
    "singular values": (lambda a: np.linalg.svd(a)[1], (MATRICES,)),
    "spectrum": (lambda x: np.abs(np.fft.rfft(x)), (SIGNAL,)),
    "plane spectrum": (lambda x: np.abs(np.fft.fft2(x)), (SIGNAL,)),
    "sort": (lambda x: np.sort(x, axis=0), (SIGNAL,)),
    "quantile": (lambda x: np.quantile(x, 0.3, axis=1), (SIGNAL,)),
    "search": (lambda x: np.searchsorted(np.arange(5.0), x[0]), (SIGNAL,)),
    "totals": (lambda x: np.cumsum(x, 1) * np.argmax(x, 1)[:, None], (SIGNAL,)),
    "polar": (lambda x: np.exp(1j * x).real, (SIGNAL,)),
    "callback": (
        lambda x: 1 + fgrad.pure_callback(np.sin, fgrad.ShapeDtype((3, 16), float), x),
        (SIGNAL,),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    fun, args = PROGRAMS[name]
    check(fun, *args, calls=2, rtol=1e-9, atol=1e-9)


def transformed(x: Any) -> Any:
    """A program of a few launches with a transform and its inverse."""
    y = np.fft.rfft(np.tanh(x)) * np.arange(9)
    return np.cumsum(np.fft.irfft(y) + x, axis=1)


def test_transforms_in_graphs() -> None:
    """What works on the stream of its handle is captured too."""
    executable = compiled(transformed, SIGNAL)
    for k in range(8):
        (found,) = called(executable, SIGNAL + k)
        np.testing.assert_allclose(found, transformed(SIGNAL + k), rtol=1e-9, atol=1e-9)
    device = driver()
    assert isinstance(device, StubDriver)
    assert any([isinstance(event, Graph) for event in device.log])


def test_handles_serve_one_thread_at_a_time() -> None:
    executable = compiled(transformed, SIGNAL)

    def work(k: int) -> None:
        for _ in range(30):
            (found,) = called(executable, SIGNAL + k)
            np.testing.assert_allclose(found, transformed(SIGNAL + k), rtol=1e-9, atol=1e-9)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.parametrize("name", ["solve", "determinant", "cholesky", "eigenvalues", "spectrum"])
def test_gradients(name: str) -> None:
    fun, args = PROGRAMS[name]
    check(fgrad.grad(lambda *xs: np.sum(np.sin(fun(*xs)))), *args, calls=1, rtol=1e-8, atol=1e-8)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 10.0, 1e-10, np.inf, -np.inf, np.nan]
FEW = [0.0, 1.0, -1.0, 0.5, 10.0, np.inf, np.nan]
DISTRIBUTIONS = [
    "gammainc", "gammaincc", "betainc", "betaincc", "beta", "betaln", "gdtr", "gdtrc", "pdtr",
    "pdtrc", "fdtr", "fdtrc", "stdtr", "ellipk", "ellipkm1", "ellipe",
]  # fmt: skip


def arguments(name: str) -> list[np.ndarray]:
    """Numbers of all sizes and signs for a function, as it is not defined on all."""
    rng = np.random.default_rng(1)
    count = getattr(sp, name).nin
    near = [rng.normal(size=40) * 3, rng.uniform(0, 1, 40), np.array([0.0, -0.0, -1, 2, np.nan])]
    return [rng.permutation(np.concatenate(near)) for _ in range(count)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_functions(dtype: type) -> None:
    """All in one program, with a number in the place of the second operand too."""
    given = {
        name: [x.astype(dtype) for x in arguments(name)]
        for name in SPECIAL
        if name not in DISTRIBUTIONS
    }

    def apply(xs: dict[str, list[Any]]) -> dict[str, Any]:
        found = {name: getattr(fs, name)(*x) for name, x in xs.items()}
        return found | {f"{n}.5": getattr(fs, n)(x[0], 0.5) for n, x in xs.items() if len(x) > 1}

    with np.errstate(all="ignore"):
        tolerance = 1e-11 if dtype is np.float64 else 1e-5
        check(apply, given, calls=1, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_and_elliptic_integrals(name: str) -> None:
    """SciPy's values at all pairs and triples of edges, and at numbers of all sizes."""
    function = getattr(sp, name)
    edges = np.array(
        list(itertools.product(FEW if function.nin > 2 else EDGES, repeat=function.nin))
    )
    sizes = np.exp(np.random.default_rng(0).uniform(-6, 6, (100, function.nin)))
    if name in ("ellipk", "ellipe", "betainc", "betaincc"):
        sizes[:, -1] = sizes[:, -1] / (1 + sizes[:, -1])
    xs = [*np.concatenate([edges, sizes]).T.copy()]
    with np.errstate(all="ignore"):
        expected = function(*xs)
    (found,) = called(compiled(getattr(fs, name), *xs), *xs)
    if name == "stdtr":  # SciPy's is 1/2 for t = 1e-10
        kept = np.abs(xs[1]) != 1e-10
        found, expected = found[kept], expected[kept]
    # SciPy's logarithms of beta are differences of large ones
    np.testing.assert_allclose(found, expected, 1e-11, 1e-12 if name == "betaln" else 1e-200)


def test_what_has_no_form_is_a_card() -> None:
    x = np.linspace(0.1, 0.9, 5)
    with pytest.raises(UnsupportedDeviceError, match="kv of float64") as caught:
        compiled(lambda x: fs.kv(2.0, x), x)
    assert "test_library_programs.py" in str(caught.value)
    with pytest.raises(UnsupportedDeviceError, match="scatter of complex128"):
        compiled(lambda x: fgrad.at(x * 1j)[np.array([0, 0])].mul(2j).imag, x)
    with pytest.raises(UnsupportedDeviceError, match="matrix_function of float64"):
        compiled(fgrad.scipy.linalg.expm, POSITIVE)


def test_a_matrix_that_cannot_be_factored_is_an_error_of_the_caller() -> None:
    singular = np.zeros((2, 3, 3))
    for fun, matrix, message in [
        (np.linalg.cholesky, -POSITIVE, "not positive definite"),
        (np.linalg.inv, singular, "Singular"),
    ]:
        executable = compiled(fun, matrix)
        with pytest.raises(np.linalg.LinAlgError, match=message):
            called(executable, matrix)


# Complex numbers: what the CPU leaves to NumPy's loops.

SPECIAL_PARTS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan])


def complex_rows(seed: int, finite: bool = False) -> np.ndarray:
    """Rows of special values, with many ties."""
    rng = np.random.default_rng(seed)
    choice = SPECIAL_PARTS[:5] if finite else SPECIAL_PARTS[: 8 - seed % 2]
    z = np.zeros((3, 4, 5), complex)
    z.real, z.imag = rng.choice(choice, z.shape), rng.choice(choice, z.shape)
    return z


ALONG_AXES: dict[str, Callable[..., Any]] = {
    "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
    "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate, "cumprod": np.cumprod,
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG_AXES)
def test_order_and_products_of_complex_numbers(name: str) -> None:
    """Exactly NumPy's: the first of equal elements, the first NaN, the sign of zeros."""
    f = ALONG_AXES[name]
    for seed in range(4):
        z = complex_rows(seed, finite=name == "cumprod")
        for axis in (0, 1, 2):
            (found,) = called(compiled(lambda z, axis=axis: f(z, axis=axis), z), z)
            expected = f(z, axis=axis)
            np.testing.assert_array_equal(found, expected)
            for part in (np.real, np.imag):
                a, b = part(found), part(expected)
                np.testing.assert_array_equal(np.signbit(a)[a == 0], np.signbit(b)[a == 0])


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_powers_of_complex_numbers(dtype: type) -> None:
    z = complex_rows(0, finite=True).ravel().astype(dtype)
    n = np.tile(np.array([2, 0.5 + 1j, -3, 0, -1j, 1.5], dtype), 10)
    (found,) = called(compiled(np.power, z, n), z, n)
    with np.errstate(all="ignore"):
        expected = np.power(z, n)
    tolerance = 1e-14 if dtype is np.complex128 else 1e-5
    np.testing.assert_allclose(found, expected, tolerance)
    exact = np.isin(n, [2, -3, 0]) & np.isfinite(expected)
    np.testing.assert_array_equal(found[exact], expected[exact])
