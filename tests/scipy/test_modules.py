"""Functions of scipy.fft, signal, ndimage, interpolate, spatial, cluster and stats: SciPy's values,
derivatives against differences, under jit and vmap; what SciPy refuses is refused."""

from __future__ import annotations

import importlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.signal

import fgrad

RNG = np.random.default_rng(7)
LINE, OTHER = RNG.normal(size=40), RNG.normal(size=33)
TABLE = RNG.normal(size=(5, 6))
KERNEL = RNG.normal(size=(3, 2))
PLACES = RNG.uniform(-6, 10, size=(2, 20))
GRID = (np.array([0.0, 1.0, 2.5, 4.0, 5.0]), np.arange(5.0, -1.0, -1.0))
POINTS = RNG.uniform(0.0, 5.0, size=(20, 2))
SPECTRA = scipy.signal.stft(LINE.reshape(2, 20), nperseg=8)[2]

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def _fft_cases() -> Iterator[Case]:
    kinds = itertools.product((1, 2, 3, 4), (None, "ortho", "forward"), (None, True))
    for name, (kind, norm, ends) in itertools.product(("dct", "idct", "dst", "idst"), kinds):
        yield f"fft.{name}", (TABLE,), {"type": kind, "norm": norm, "orthogonalize": ends}
    for name in ("dct", "idst"):
        yield f"fft.{name}", (TABLE,), {"axis": 0, "n": 7}
        yield f"fft.{name}", (TABLE + 1j * TABLE[::-1],), {"n": 3}
        yield f"fft.{name}n", (TABLE,), {"s": (3, 8), "axes": (1, 0)}
        yield f"fft.{name}n", (TABLE,), {"type": 3, "norm": "ortho"}
    for name in ("fft", "ifft", "rfft", "irfft", "hfft"):
        yield f"fft.{name}", (TABLE,), {"n": 4, "norm": "ortho"}
    for name in ("fft2", "ifftn", "rfft2", "irfftn"):
        yield f"fft.{name}", (TABLE,), {"s": (4, 5)}
    for name in ("hfft2", "hfftn", "ihfft2", "ihfftn"):
        for norm in (None, "ortho", "forward", "backward"):
            yield f"fft.{name}", (TABLE,), {"s": (3, 7), "axes": (1, 0), "norm": norm}
        yield f"fft.{name}", (TABLE + (0 if name[0] == "i" else 1j),), {}
    for name, axes in itertools.product(("fftshift", "ifftshift"), (None, -1, (0, 1))):
        yield f"fft.{name}", (TABLE,), {"axes": axes}
    for name, length in itertools.product(("fht", "ifht"), (5, 6)):
        for mu, offset, bias in ((0.5, 0.0, 0.0), (0.0, 0.2, 0.1), (-1.0, 0.1, -0.4)):
            given = {"dln": 0.1, "mu": mu, "offset": offset, "bias": bias}
            yield f"fft.{name}", (TABLE[:, :length],), given


def _spectrum_cases() -> Iterator[Case]:
    for settings in (
        {}, {"nperseg": 7, "nfft": 9}, {"noverlap": 2}, {"detrend": "linear"}, {"detrend": False},
        {"scaling": "spectrum", "window": ("kaiser", 4.0)}, {"return_onesided": False},
        {"average": "median"}, {"nperseg": None, "window": np.hanning(8)}, {"fs": 10.0},
    ):  # fmt: skip
        given: dict[str, Any] = {"nperseg": 8, **settings}
        yield "signal.welch", (LINE,), given
        yield "signal.csd", (LINE, OTHER), given
    yield "signal.welch", (TABLE,), {"axis": 0, "nperseg": 4}
    for boundary, padded in itertools.product(("zeros", "even", "odd", "constant", None), (0, 1)):
        yield "signal.stft", (LINE,), {"nperseg": 8, "boundary": boundary, "padded": bool(padded)}
    yield "signal.stft", (TABLE,), {"axis": 0, "nperseg": 4, "scaling": "psd"}
    for given in ({}, {"boundary": False}, {"scaling": "psd"}, {"time_axis": 0}, {"noverlap": 6}):
        yield "signal.istft", (SPECTRA,), given
    for given in ({}, {"type": "constant"}, {"bp": [10, 20]}):
        yield "signal.detrend", (LINE,), given


def _convolution_cases() -> Iterator[Case]:
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate", "fftconvolve"):
            yield f"signal.{name}", (LINE, OTHER), {"mode": mode}
            yield f"signal.{name}", (TABLE, KERNEL), {"mode": mode}
            yield f"signal.{name}", (KERNEL, TABLE + 1j), {"mode": mode}
            yield f"signal.{name}", (TABLE[None], KERNEL[None]), {"mode": mode}
        for name, side in itertools.product(
            ("convolve2d", "correlate2d"), ("fill", "wrap", "symm")
        ):
            yield f"signal.{name}", (TABLE, KERNEL), {"mode": mode, "boundary": side}
        yield "signal.correlate2d", (KERNEL, TABLE + 1j), {"mode": mode, "fillvalue": 2.0}


def _image_cases() -> Iterator[Case]:
    modes = (
        "constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap", "grid-mirror",
        "grid-constant",
    )  # fmt: skip
    for mode, order in itertools.product(modes, range(6)):
        yield (
            "ndimage.map_coordinates",
            (TABLE, PLACES),
            {"mode": mode, "order": order, "cval": 0.7},
        )
    yield "ndimage.map_coordinates", (TABLE, PLACES), {"prefilter": False}
    yield "ndimage.map_coordinates", ((TABLE * 20).astype(int), PLACES), {"order": 1}
    for method in ("linear", "nearest"):
        yield "interpolate.interpn", (GRID, TABLE, POINTS), {"method": method}
        beyond = {"method": method, "bounds_error": False}
        yield "interpolate.interpn", (GRID, TABLE, POINTS + 1), {**beyond, "fill_value": 2.0}
        yield "interpolate.interpn", (GRID, TABLE, POINTS + 1), {**beyond, "fill_value": None}


def _statistics_cases() -> Iterator[Case]:
    ties = np.round(TABLE * 2)
    for method, axis in itertools.product(("average", "min", "max", "dense", "ordinal"), (None, 1)):
        yield "stats.rankdata", (ties,), {"method": method, "axis": axis}
    for axis, keep in itertools.product((None, 0, -1), (False, True)):
        yield "stats.mode", (ties,), {"axis": axis, "keepdims": keep}
        yield "stats.sem", (TABLE,), {"axis": axis, "keepdims": keep}
    yield "cluster.vq.vq", (TABLE, TABLE[:2] + 0.1), {}


CASES = [
    *_fft_cases(), *_spectrum_cases(), *_convolution_cases(), *_image_cases(),
    *_statistics_cases(),
]  # fmt: skip
# Arguments that SciPy refuses.
WRONG: list[Case] = [
    ("fft.dct", (TABLE,), {"type": 5}),
    ("fft.dct", (TABLE,), {"norm": "unit"}),
    ("fft.dct", (TABLE,), {"n": 0}),
    ("fft.hfftn", (TABLE,), {"norm": "unit"}),
    ("fft.hfft2", (TABLE,), {"axes": (0, 2)}),
    ("fft.ihfftn", (TABLE + 1j,), {}),
    ("fft.dct", (TABLE,), {"axis": 3}),
    ("fft.dct", (TABLE[:, :1],), {"type": 1}),
    ("fft.dctn", (TABLE,), {"axes": (0, 0)}),
    ("fft.dctn", (TABLE,), {"s": (3,), "axes": (0, 1)}),
    ("signal.welch", (LINE,), {"nperseg": 0}),
    ("signal.welch", (LINE,), {"nperseg": 8, "noverlap": 8}),
    ("signal.welch", (LINE,), {"nperseg": 8, "nfft": 4}),
    ("signal.welch", (LINE,), {"scaling": "power"}),
    ("signal.stft", (LINE,), {"nperseg": 8, "boundary": "wrap"}),
    ("signal.istft", (SPECTRA,), {"time_axis": 1, "freq_axis": 1}),
    ("signal.istft", (SPECTRA,), {"window": np.ones(7)}),
    ("signal.detrend", (LINE,), {"type": "cubic"}),
    ("signal.detrend", (LINE,), {"bp": 100}),
    ("signal.convolve", (LINE, TABLE), {}),
    ("signal.convolve", (LINE, OTHER), {"mode": "circular"}),
    ("signal.convolve", (TABLE, np.ones((2, 9))), {"mode": "valid"}),
    ("signal.convolve2d", (TABLE, KERNEL), {"boundary": "reflect"}),
    ("ndimage.map_coordinates", (TABLE, PLACES[:1]), {}),
    ("ndimage.map_coordinates", (TABLE, PLACES), {"order": 6}),
    ("ndimage.map_coordinates", (TABLE, PLACES), {"mode": "edge"}),
    ("interpolate.interpn", (GRID, TABLE, POINTS + 1), {}),
    ("interpolate.interpn", (GRID, TABLE, POINTS[:, :1]), {}),
    ("stats.rankdata", (TABLE,), {"method": "first"}),
    ("cluster.vq.vq", (TABLE, TABLE[:, :2]), {}),
]


def _pair(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    module, _, last = name.rpartition(".")
    theirs, ours = [importlib.import_module(f"{top}.{module}") for top in ("scipy", "fgrad.scipy")]
    return getattr(theirs, last), getattr(ours, last)


def _id(case: Case) -> str:
    settings = ",".join([f"{k}={np.shape(v) if np.ndim(v) else v}" for k, v in case[2].items()])
    return f"{case[0]}-{np.shape(case[1][0]) if case[0][:2] != 'in' else ''}{settings}"


def _places(name: str) -> tuple[int, ...]:
    """Which arguments are traced: the lines of a grid are not."""
    return (1, 2) if name == "interpolate.interpn" else (0, 1)


def _of_traced(case: Case, function: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    name, args, settings = case
    places = [k for k in _places(name) if k < len(args)]

    def of(*given: Any) -> Any:
        full = list(args)
        for k, x in zip(places, given, strict=True):
            full[k] = x
        return function(*full, **settings)

    return of, [args[k] for k in places]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's about segments
        yield


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_values(case: Case) -> None:
    theirs, ours = _pair(case[0])
    of, given = _of_traced(case, ours)
    found, wanted = fgrad.jit(of)(*given), theirs(*case[1], **case[2])
    for x, y in zip(
        found if isinstance(found, tuple) else (found,),
        wanted if isinstance(wanted, tuple) else (wanted,),
        strict=True,
    ):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype or case[0] == "stats.rankdata"
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


SMOOTH = [c for c in CASES if c[0] != "stats.rankdata" and c[2].get("order") != 0]


@pytest.mark.parametrize("case", SMOOTH, ids=_id)
def test_derivatives(case: Case) -> None:
    _, ours = _pair(case[0])
    of, given = _of_traced(case, ours)
    if any(np.asarray(x).dtype.kind not in "f" for x in given):
        return
    pick = {"stats.mode": 0}.get(case[0], -1)

    def loss(*xs: Any) -> Any:
        out = of(*xs)
        out = out[pick] if isinstance(out, tuple) else out
        return np.sum(np.abs(out) ** 2 * np.cos(np.arange(out.size)).reshape(out.shape))

    ways = [RNG.normal(size=np.shape(x)) for x in given]
    _, slope = fgrad.jit(lambda *xs: fgrad.jvp(loss, xs, tuple(ways)))(*given)
    back = fgrad.grad(loss, argnums=tuple(range(len(given))))(*given)
    assert slope == pytest.approx(sum(np.sum(b * w) for b, w in zip(back, ways, strict=True)))
    if case[0] in ("stats.mode", "cluster.vq.vq"):  # jumps
        return
    h = 1e-6
    ends = [loss(*[x + s * h * w for x, w in zip(given, ways, strict=True)]) for s in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES[::7], ids=_id)
def test_vmap_is_a_loop(case: Case) -> None:
    of, given = _of_traced(case, _pair(case[0])[1])
    many = [np.stack([x, x[::-1]]) for x in given]
    pick = (lambda out: out[-1]) if isinstance(of(*given), tuple) else (lambda out: out)
    found = fgrad.vmap(lambda *xs: pick(of(*xs)))(*many)
    for k in range(2):
        np.testing.assert_allclose(found[k], pick(of(*[x[k] for x in many])), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", WRONG, ids=_id)
def test_what_scipy_refuses_is_refused(case: Case) -> None:
    theirs, ours = _pair(case[0])
    with pytest.raises(Exception):  # noqa: B017 - of many classes
        theirs(*case[1], **case[2])
    of, given = _of_traced(case, ours)
    with pytest.raises((ValueError, TypeError, IndexError)):
        fgrad.jit(of)(*given)


@pytest.mark.parametrize("name", ["fft.dct", "signal.welch", "signal.convolve"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_other_dtypes(name: str, dtype: type) -> None:
    theirs, ours = _pair(name)
    x = (LINE * 3).astype(dtype)
    args = (x, x[:5]) if name.endswith("convolve") else (x,)
    if dtype == np.float16 and name.endswith(("convolve", "welch")):
        return
    found, wanted = fgrad.jit(ours)(*args), theirs(*args)
    found, wanted = (found[-1], wanted[-1]) if isinstance(found, tuple) else (found, wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: _pair("ndimage.map_coordinates")[1](x, PLACES, output=np.empty(20)),
        lambda x: _pair("interpolate.interpn")[1](GRID, x, POINTS, method="cubic"),
        lambda x: _pair("interpolate.interpn")[1]((x[:, 0], GRID[1]), TABLE, POINTS),
        lambda x: _pair("stats.mode")[1](x, nan_policy="omit"),
        lambda x: _pair("signal.filtfilt")[1]([1.0], [1.0, 0.5], x, method="gust"),
    ],
)
def test_what_has_no_traced_form_says_so(program: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="does not take traced arrays"):
        fgrad.jit(program)(TABLE)
