"""Fourier transforms: the primitive's rules, and np.fft against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rule_checks import check_batch, check_derivatives, check_types, rng_of

import fgrad
import fgrad.numpy
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.ops import fft as ft
from fgrad.ops.complex import complex_, imag, real
from fgrad.trace import run, trace

TOLERANCE = {"f": 2e-5, "F": 2e-5, "d": 1e-12, "D": 1e-12}


def _arrays(name: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    x, y = rng_of(name).standard_normal((2, *shape))
    return [x, x + 1j * y, x.astype("f"), (x + 1j * y).astype("F")]


def _agree(f: Any, x: np.ndarray) -> None:
    """Traced and run, a function gives NumPy's values, dtypes and shapes."""
    expected = f(x)
    program = trace(lambda x: [f(x)], [aval_of(x)]).program
    (got,) = run(program, [x])
    assert program.out_avals[0].shape == got.shape == expected.shape
    assert program.out_avals[0].dtype == got.dtype == expected.dtype
    tolerance = TOLERANCE[got.dtype.char]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# --- the primitive


def _parts(z: Any) -> tuple[Any, Any]:
    return real(z), imag(z)


RULES = {
    "rfft.even": (lambda x: _parts(ft.rfft(x, 1)), (2, 6)),
    "rfft.odd": (lambda x: _parts(ft.rfft(x, 0)), (5, 2)),
    "rfft.1": (lambda x: _parts(ft.rfft(x, 0)), (1, 2)),
    "irfft.even": (lambda x: ft.irfft(complex_(x, x), 6, 0), (4, 2)),
    "irfft.odd": (lambda x: ft.irfft(complex_(x, x), 7, 1), (2, 4)),
    "irfft.1": (lambda x: ft.irfft(complex_(x, x), 1, 1), (2, 1)),
    "irfft.2": (lambda x: ft.irfft(complex_(x, x), 2, 1), (2, 2)),
    "fft": (lambda x: _parts(ft.fft(complex_(x, x), (0, 2))), (3, 2, 4)),
    "ifft": (lambda x: _parts(ft.ifft(complex_(x, x), (1,))), (3, 4)),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    f, shape = RULES[name]
    rng = rng_of(name)
    check_types(f, rng.standard_normal(shape))
    check_types(f, rng.standard_normal(shape).astype(np.float32))
    check_derivatives(f, rng.standard_normal(shape), seed=name)
    check_batch(f, rng.standard_normal((3, *shape)), seed=name)


def test_type_errors() -> None:
    x = aval_of(np.zeros((2, 4)))
    with pytest.raises(DtypeError, match="fft does not take float64"):
        ft.fft_p.type_of(x, kind="fft", axes=(0,), n=None)
    with pytest.raises(ShapeError, match="axes"):
        ft.fft_p.type_of(x, kind="rfft", axes=(2,), n=4)
    with pytest.raises(ShapeError, match="n=5"):
        ft.fft_p.type_of(x, kind="rfft", axes=(1,), n=5)


# --- np.fft

NORMS = (None, "ortho", "forward")


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 3, 4, 7])
def test_one_axis(name: str, n: int | None, norm: str | None) -> None:
    transform = getattr(np.fft, name)
    for axis in (0, -1):
        for x in _arrays(name, (4, 5)):
            if x.dtype.kind == "f" or name not in ("rfft", "ihfft"):
                _agree(lambda x, axis=axis: transform(x, n, axis, norm), x)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("norm", NORMS)
def test_several_axes(name: str, norm: str | None) -> None:
    transform = getattr(np.fft, name)
    plane = getattr(np.fft, name[:-1] + "2")
    for x in _arrays(name, (2, 4, 5)):
        if x.dtype.kind == "f" or name != "rfftn":
            _agree(lambda x: transform(x, norm=norm), x)
            _agree(lambda x: plane(x, norm=norm), x)
            for s, axes in (((3, 6), (0, 1)), ((6, 3), (2, 0)), (None, (1,)), ((4,), (-1,))):
                _agree(lambda x, s=s, axes=axes: transform(x, s, axes, norm), x)


@pytest.mark.parametrize("n", [None, 3, 4, 7])
def test_derivatives(n: int | None) -> None:
    x = rng_of(f"slope{n}").standard_normal((4, 5))
    check_derivatives(lambda x: np.real(np.fft.fft(x * x, n) * 1j), x)
    check_derivatives(lambda x: np.fft.irfft(np.fft.rfft(x * x) * 2.0, n), x)
    check_derivatives(lambda x: np.fft.hfft(np.fft.fft2(x), n, 0), x)


def test_known_gradient() -> None:
    f = lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2)  # noqa: E731
    x = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(fgrad.grad(f)(x), 8 * x)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(x), 8 * x)


def test_complex_derivatives() -> None:
    """vjp is the plain transpose: Re <c, fft t> = Re <fft^T c, t>."""
    rng = rng_of("complex")
    for f, shape in ((np.fft.ifftn, (3, 4)), (lambda z: np.fft.irfft(z, 6), (4,))):
        z, t = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape) for _ in "zt")
        out, out_t = fgrad.jvp(f, (z,), (t,))
        np.testing.assert_allclose(out_t, f(t), atol=1e-12)
        ct = rng.standard_normal(out.shape).astype(out.dtype)
        _, pull = fgrad.vjp(f, z)
        difference = np.sum(ct * out_t).real - np.sum(pull(ct)[0] * t).real
        assert abs(difference) < 1e-12


def test_shifts_and_frequencies() -> None:
    x = rng_of("shift").standard_normal((4, 5))
    _agree(np.fft.fftshift, x)
    _agree(lambda x: np.fft.ifftshift(x, 0), x)
    _agree(lambda x: np.fft.fftshift(x, (1,)), x)
    frequencies = fgrad.numpy.fft.fftfreq(8, 0.5)
    np.testing.assert_array_equal(frequencies, np.fft.fftfreq(8, 0.5))
    check_derivatives(lambda x: np.real(np.fft.ifft(1j * np.fft.fftfreq(5) * np.fft.fft(x))), x)


def test_integers_and_vmap() -> None:
    _agree(np.fft.rfft, np.arange(6))
    x = rng_of("vmap").standard_normal((3, 6))
    np.testing.assert_allclose(fgrad.vmap(np.fft.rfft)(x), np.fft.rfft(x), atol=1e-13)
    np.testing.assert_allclose(fgrad.jit(np.fft.rfft2)(x), np.fft.rfft2(x), atol=1e-13)


def test_errors() -> None:
    for f in (
        lambda x: np.fft.fft(x, 0),
        lambda x: np.fft.fft(x, norm="none"),
        lambda x: np.fft.hfft(x, norm="none"),
        lambda x: np.fft.fftn(x, (2,), (0, 1)),
    ):
        with pytest.raises(ValueError):
            f(np.ones((4, 4)))
        with pytest.raises(ValueError):
            fgrad.jit(f)(np.ones((4, 4)))
    with pytest.raises(TypeError):
        fgrad.jit(np.fft.rfft)(np.ones(4, complex))


# --- lengths with large prime factors, which compiled programs take apart -------------------------

LENGTHS = {  # shape of the numbers in time, and the axis
    "two times a prime": ((2 * 607,), 0),
    "odd": ((3, 3 * 401), 1),
    "rows": ((2, 4 * 211), 1),
    "columns": ((6 * 211, 2), 0),
    "the middle of three": ((2, 2 * 503, 3), 1),
    "two large primes": ((211 * 223,), 0),
    "prime": ((1009,), 0),
}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("case", LENGTHS)
def test_large_primes(case: str, kind: str, single: bool, rng: np.random.Generator) -> None:
    shape, axis = LENGTHS[case]
    n, given = shape[axis], list(shape)
    if kind == "irfft":
        given[axis] = n // 2 + 1
    x = rng.normal(size=given)
    if kind != "rfft":
        x = x + 1j * rng.normal(size=given)
    if single:
        x = x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    transform = getattr(np.fft, kind)
    wanted = transform(x, n, axis) if kind == "irfft" else transform(x, axis=axis)
    found = fgrad.jit(lambda x: transform(x, n, axis))(x)
    assert found.dtype == wanted.dtype
    scale = np.max(np.abs(wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=scale * (2e-6 if single else 1e-14))


def test_gradient_of_a_large_prime(rng: np.random.Generator) -> None:
    def loss(x: np.ndarray) -> np.ndarray:
        return np.sum(np.abs(np.fft.rfft(x)) ** 4)

    x = rng.normal(size=2 * 607)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(x), fgrad.grad(loss)(x), rtol=1e-9)
