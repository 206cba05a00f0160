"""Times of SciPy's functions under `fgrad.jit` against SciPy's own, and of gradients against JAX.

    python benchmarks/scipy_functions.py [--only TEXT] [--write]

A case is one expression; the same text runs with SciPy's modules, with fgrad's under `jit`, and,
where JAX has the function, with JAX's.  A gradient is that of the sum of the squares of the result.
The libraries take turns in one process on one thread, results are compared before, and the least
processor times are reported, so that other programs may run beside; `--write` writes
results/scipy_functions.md.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import re
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.signal
import scipy.sparse
from harness import least_times, restart_on_one_thread
from libraries import has

import fgrad

RNG = np.random.default_rng(19)
ROOT = np.random.default_rng(1).normal(size=(200, 200))
SMOOTH = np.cumsum(RNG.normal(size=2000))
ARRAYS: dict[str, np.ndarray] = {
    "x": RNG.normal(size=20000), "y": RNG.normal(size=2000), "h": RNG.normal(size=64),
    "m": RNG.normal(size=(256, 256)), "k": RNG.normal(size=(5, 5)),
    "z": RNG.normal(size=(64, 1024)),
    "b": np.array([0.2, 0.3, 0.2]), "a": np.array([1.0, -0.4, 0.2]),
    "q": RNG.uniform(1, 498, size=20000), "v": RNG.normal(size=500), "s": RNG.normal(size=(60, 50)),
    "p": RNG.uniform(1, 48, size=(5000, 2)), "r": RNG.normal(size=(200, 200)),
    "g": ROOT @ ROOT.T / 200 + np.eye(200),
    "t": RNG.normal(size=(3, 1000)) + np.array([[0.0], [5.0], [0.0]]), "w": RNG.normal(size=1000),
    "e": RNG.normal(size=(40, 40)) / 10, "l": np.linspace(0.0, 490.0, 5000), "u": SMOOTH,
    "o": RNG.normal(size=(300, 2)), "f": RNG.normal(size=300),
    "c": RNG.uniform(0.1, 10.0, size=20000), "d": RNG.uniform(0.05, 0.95, size=20000),
    "i": RNG.normal(size=(768, 768)),
}  # fmt: skip
CONSTANTS: dict[str, Any] = {
    "SOS": scipy.signal.butter(6, 0.2, output="sos"), "GRID": (np.arange(60.0), np.arange(50.0)),
    "X": np.arange(500.0), "TILT": np.array([[0.9, 0.1], [-0.1, 0.95]]),
    "LABELS": RNG.integers(0, 50, size=(256, 256)), "PEAKS": scipy.signal.find_peaks(SMOOTH)[0],
    "COEFFS": RNG.normal(size=(4, 499)), "COV": np.array([[1.0, 0.3], [0.3, 2.0]]),
    "BAND": scipy.sparse.diags([-1.0, 2.1, -1.0], [-1, 0, 1], (1000, 1000), format="csc"),
}  # fmt: skip
MODULES = {
    **{m: m for m in ("signal", "ndimage", "interpolate", "linalg", "fft", "special", "stats")},
    **{m: m for m in ("optimize", "integrate")},
    "distance": "spatial.distance",
    "sparse": "sparse.linalg",
}


class Case(NamedTuple):
    """An expression in SciPy's modules, and that of JAX if it differs; none if it has none."""

    text: str
    jax: str | None = None


def _both(text: str) -> Case:
    return Case(text, text)


CASES = [
    _both("signal.convolve(x, h)"), _both("signal.fftconvolve(x, y)"),
    _both("signal.correlate(x, h, 'same')"),
    Case("signal.convolve2d(m, k, 'same')"),  # the gradient of JAX 0.10.2 ends the process
    Case("signal.oaconvolve(x, y)"), Case("signal.oaconvolve(x, h)"),
    Case("signal.lfilter(b, a, x)"),
    Case("signal.lfilter(b, a, z)"), Case("signal.filtfilt(b, a, x)"),
    Case("signal.sosfilt(SOS, x)"), Case("signal.sosfilt(SOS, z)"),
    Case("signal.sosfiltfilt(SOS, x)"), Case("signal.hilbert(x)"),
    _both("signal.welch(x, nperseg=256)[1]"),
    _both("np.abs(signal.csd(x, x[::-1], nperseg=256)[1])"),
    Case("signal.coherence(x, x[::-1], nperseg=256)[1]"),
    Case("signal.periodogram(x)[1]"), Case("signal.spectrogram(x, nperseg=256)[2]"),
    _both("np.abs(signal.stft(x, nperseg=256)[2])"), _both("signal.detrend(x)"),
    Case("np.abs(signal.ShortTimeFFT(np.ones(64), 16, 1.0).stft(x))"),
    Case("signal.savgol_filter(x, 11, 3)"), Case("signal.medfilt(y, 5)"),
    Case("signal.resample(y, 1500)"), Case("signal.resample_poly(x, 3, 2)"),
    Case("signal.decimate(x, 4)"), Case("signal.upfirdn(h, x, 3, 2)"),
    Case("np.abs(signal.freqz(b, a, 512)[1])"), Case("signal.sepfir2d(m, k[0], k[1])"),
    Case("signal.cspline2d(m)"), Case("signal.symiirorder1(x, 0.4, 0.3)"),
    Case("signal.spline_filter(m)"), Case("signal.envelope(y)"),
    Case("signal.peak_prominences(u, PEAKS)[0]"), Case("signal.peak_widths(u, PEAKS)[0]"),
    Case("np.abs(signal.czt(y))"), Case("signal.wiener(m, 5)"),
    Case("ndimage.gaussian_filter(m, 2.0)"), Case("ndimage.uniform_filter(m, 5)"),
    Case("ndimage.convolve(m, k)"), Case("ndimage.correlate1d(m, h[:9])"),
    Case("ndimage.sobel(m)"), Case("ndimage.laplace(m)"), Case("ndimage.median_filter(m, 3)"),
    Case("ndimage.maximum_filter(m, 5)"), Case("ndimage.grey_dilation(m, 3)"),
    _both("ndimage.map_coordinates(s, p.T, order=1)"),
    Case("ndimage.map_coordinates(s, p.T, order=3)"), Case("ndimage.zoom(s, 2.0)"),
    Case("ndimage.rotate(m, 30.0, reshape=False)"), Case("ndimage.shift(m, (2.5, -1.5))"),
    Case("ndimage.affine_transform(m, TILT, order=1)"), Case("ndimage.spline_filter(m)"),
    Case("ndimage.spline_filter(i)"), Case("ndimage.rotate(i, 30.0, reshape=False)"),
    Case("ndimage.shift(i, (2.5, -1.5))"),
    Case("ndimage.sum_labels(m, LABELS, np.arange(50))"),
    Case("ndimage.distance_transform_edt(m > 0, [1.0, 2.0])"),
    _both("interpolate.RegularGridInterpolator(GRID, s)(p)"),
    Case("interpolate.interpn(GRID, s, p)"),
    Case("interpolate.interp1d(X, v)(q)"), Case("interpolate.interp1d(X, v, 'cubic')(q)"),
    Case("interpolate.CubicSpline(X, v)(q)"), Case("interpolate.PchipInterpolator(X, v)(q)"),
    Case("interpolate.Akima1DInterpolator(X, v)(q)"),
    Case("interpolate.make_interp_spline(X, v)(q)"),
    Case("interpolate.UnivariateSpline(X, v, s=0)(q)"), Case("interpolate.PPoly(COEFFS, X)(q)"),
    Case("interpolate.BPoly(COEFFS, X)(q)"),
    Case("interpolate.RectBivariateSpline(*GRID, s)(l[:500] / 10, l[:400] / 10)"),
    Case("interpolate.RectBivariateSpline(*GRID, s).ev(p[:, 0], p[:, 1])"),
    Case("interpolate.NdBSpline((np.arange(64.0), np.arange(54.0)), s, 3)(p)"),
    Case("interpolate.RBFInterpolator(o, f)(p[:1000] / 20)"),
    Case("interpolate.Rbf(o[:, 0], o[:, 1], f)(p[:1000, 0], p[:1000, 1])"),
    Case("interpolate.FloaterHormannInterpolator(X[:60], v[:60])(l / 9)"),
    Case("interpolate.BarycentricInterpolator(X[:12], v[:12])(l / 50)"),
    _both("linalg.inv(g)"), _both("linalg.solve(g, r)"), _both("linalg.det(g[:60, :60])"),
    _both("linalg.cholesky((g + g.T) / 2)"), _both("linalg.expm(e)"),
    _both("linalg.eigh((g + g.T) / 2)[0]"),
    _both("linalg.svd(r, compute_uv=False)"), _both("linalg.qr(r)[1]"), _both("linalg.lu(r)[2]"),
    _both("linalg.solve_triangular(g, r)"), Case("linalg.solve_banded((1, 1), t, w)"),
    Case("linalg.solve_toeplitz(f + 40 * (np.arange(300) == 0), f)"),
    Case("linalg.sqrtm(g[:60, :60])"),
    Case("linalg.logm(g[:60, :60])"), Case("linalg.solve_sylvester(g[:60, :60], g[:50, :50], s)"),
    Case("linalg.pinv(s)"), Case("linalg.lstsq(s, s[:, 0])[0]"), Case("linalg.toeplitz(f)"),
    Case("linalg.funm(e, np.sin)"), Case("linalg.khatri_rao(s, s)"),
    Case("np.abs(linalg.eig(e)[0])"), Case("linalg.qr_insert(*linalg.qr(s[:50]), s[50], 3)[1]"),
    Case("np.abs(fft.fft(x))", "np.abs(np.fft.fft(x))"),
    Case("np.abs(fft.rfft(z))", "np.abs(np.fft.rfft(z))"),
    Case("np.abs(fft.fft2(m))", "np.abs(np.fft.fft2(m))"),
    Case("np.abs(fft.rfftn(m))", "np.abs(np.fft.rfftn(m))"),
    Case("fft.irfft(x)", "np.fft.irfft(x)"),
    Case("fft.irfft(z)", "np.fft.irfft(z)"), Case("fft.hfft(x)", "np.fft.hfft(x)"),
    _both("fft.dct(z)"), _both("fft.dct(i)"), _both("fft.dctn(m)"), _both("fft.idct(z)"),
    Case("fft.dst(z)"),
    Case("fft.fht(y, 0.01, 0.5)"), Case("fft.fftshift(m)", "np.fft.fftshift(m)"),
    *map(_both, (
        "special.gammaln(c)", "special.digamma(c)", "special.erf(x)", "special.erfinv(d)",
        "special.expit(x)", "special.logit(d)", "special.i0(c)", "special.i1e(c)",
        "special.ndtr(x)", "special.ndtri(d)", "special.log_ndtr(x)", "special.xlogy(c, d)",
        "special.entr(c)", "special.betainc(2.5, 1.5, d)", "special.gammainc(2.5, c)",
        "special.exp1(c)", "special.logsumexp(z, axis=1)",
        "special.softmax(z, axis=1)",
    )),
    Case("special.spence(c)"),  # the derivative of JAX 0.10.2 is NaN at some places
    Case("special.j0(c)"), Case("special.jv(2.5, c)"), Case("special.kv(1.5, c)"),
    Case("special.ellipk(d)"), Case("special.airy(c)[0]"), Case("special.fresnel(c)[0]"),
    Case("special.lambertw(c).real"), Case("special.hyp1f1(1.0, 2.0, d)"),
    Case("special.eval_legendre(5, d)"),
    *map(_both, (
        "stats.norm.logpdf(x)", "stats.norm.cdf(x)", "stats.norm.ppf(d)",
        "stats.gamma.logpdf(c, 2.5)", "stats.beta.logpdf(d, 2.0, 3.0)", "stats.t.logpdf(x, 5.0)",
        "stats.expon.logpdf(c)", "stats.laplace.logpdf(x)", "stats.cauchy.logpdf(x)",
        "stats.multivariate_normal.logpdf(o, np.zeros(2), COV)",
        "stats.gaussian_kde(f)(l[:1000] / 100)",
    )),
    Case("stats.chi2.cdf(c, 4.0)"), Case("stats.gamma.ppf(d, 2.5)"), Case("stats.skew(x)"),
    Case("stats.kurtosis(z, axis=1)"), Case("stats.zscore(z, axis=1)"),
    Case("stats.ttest_ind(y, v).statistic"), Case("stats.entropy(c)"), Case("stats.rankdata(y)"),
    Case("stats.wasserstein_distance(f, y)"),
    Case("stats.pearsonr(x, c).statistic"),
    Case("optimize.brentq(lambda tt: tt**3 - c[0], 0.0, 3.0)"),
    Case("optimize.minimize(lambda tt: np.sum((tt - o[0])**4 + tt**2), np.zeros(2)).x"),
    Case("optimize.least_squares(lambda tt: s[:, :5] @ tt - s[:, 5], np.zeros(5)).x"),
    Case("optimize.root(lambda tt: tt + 0.3 * np.sin(tt) - w[:5], np.zeros(5)).x"),
    Case("optimize.nnls(s[:, :10], s[:, 10])[0]"),
    Case("optimize.linear_sum_assignment(m[:60, :60])[1]"),
    Case("integrate.trapezoid(z, dx=0.1)", "integrate.trapezoid(z, dx=0.1)"),
    Case("integrate.simpson(z, dx=0.1)"), Case("integrate.cumulative_trapezoid(z, dx=0.1)"),
    Case("integrate.romb(z[:, :513])"),
    Case("integrate.quad(lambda tt: np.exp(-tt * c[0]), 0.0, 3.0)[0]"),
    Case("integrate.solve_ivp(lambda tt, yy: -yy * c[:2], (0.0, 1.0), o[0], t_eval=[1.0]).y"),
    Case("distance.cdist(o, o)"), Case("distance.pdist(o)"), Case("distance.cosine(v, f[0] + v)"),
    Case("distance.cdist(o, o, 'cityblock')"), Case("distance.squareform(distance.pdist(o))"),
    Case("sparse.spsolve(BAND, w)"), Case("sparse.cg(BAND, w, rtol=1e-10)[0]"),
    Case("sparse.splu(BAND).solve(w)"), Case("BAND @ w"),
]  # fmt: skip
NAME = re.compile(r"\b([a-z])\b(?![=(])")


def names_of(text: str) -> list[str]:
    """The arrays that an expression names."""
    return sorted({n for n in NAME.findall(text) if n in ARRAYS})


def function(text: str, modules: dict[str, Any], numpy: Any) -> Callable[..., Any]:
    """The expression as a function of its arrays."""
    scope = {"np": numpy, **CONSTANTS, **modules}
    found: Callable[..., Any] = eval(f"lambda {', '.join(names_of(text))}: {text}", scope)
    return found


def _modules(root: str) -> dict[str, Any]:
    return {name: importlib.import_module(f"{root}.{path}") for name, path in MODULES.items()}


def _squares(fun: Callable[..., Any], numpy: Any) -> Callable[..., Any]:
    return lambda *xs: numpy.sum(fun(*xs) ** 2)


class Row(NamedTuple):
    """Seconds of a case: forward by SciPy and fgrad, gradients by fgrad and JAX."""

    text: str
    scipy: float
    fgrad: float
    gradient: float = math.nan
    jax: float = math.nan

    def forward_ratio(self) -> float:
        """fgrad's time by SciPy's."""
        return self.fgrad / self.scipy

    def gradient_ratio(self) -> float:
        """fgrad's time by JAX's."""
        return self.gradient / self.jax


def measured(case: Case, turns: int, own: dict[str, Any], plain: dict[str, Any]) -> Row:
    """The times of a case, after its results were compared."""
    arrays = [ARRAYS[n] for n in names_of(case.text)]
    theirs, mine = function(case.text, plain, np), fgrad.jit(function(case.text, own, np))
    np.testing.assert_allclose(mine(*arrays), theirs(*arrays), rtol=1e-6, atol=1e-6)
    times = least_times({"scipy": lambda: theirs(*arrays), "fgrad": lambda: mine(*arrays)}, turns)
    row = Row(case.text, times["scipy"], times["fgrad"])
    if case.jax is None or not has("jax"):
        return row
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    modules = {
        name: importlib.import_module(f"jax.scipy.{path}")
        for name, path in MODULES.items()
        if path != "spatial.distance" and has(f"jax.scipy.{path}")
    }
    jnp = importlib.import_module("jax.numpy")
    argnums = tuple(range(len(arrays)))
    loss = _squares(function(case.text, own, np), np)
    gradient = fgrad.jit(fgrad.grad(loss, argnums=argnums))
    other = jax.jit(jax.grad(_squares(function(case.jax, modules, jnp), jnp), argnums=argnums))
    given = [jax.device_put(x) for x in arrays]
    for x, y in zip(gradient(*arrays), other(*given), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5 * float(np.max(np.abs(y))))
    calls = {
        "fgrad": lambda: gradient(*arrays),
        "jax": lambda: jax.block_until_ready(other(*given)),
    }
    times = least_times(calls, turns)
    return row._replace(gradient=times["fgrad"], jax=times["jax"])


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean([math.log(r) for r in ratios]))


def _cells(row: Row) -> str:
    times = [f"{t * 1e6:,.0f}" if t == t else "" for t in row[1:]]
    compared = "" if row.jax != row.jax else f"{row.gradient_ratio():.2f}"
    cells = [f"`{row.text}`", *times[:2], f"{row.forward_ratio():.2f}", *times[2:], compared]
    return "| " + " | ".join(cells) + " |"


def table(rows: list[Row], missing: list[str]) -> str:
    """The results as a page."""
    lines = ["# SciPy's functions: forward against SciPy, gradients against JAX", ""]
    lines += [
        "Written by `benchmarks/scipy_functions.py --write`: microseconds of processor time on one"
    ]
    lines[-1] += " thread, the least of many turns."
    for module in (*MODULES, ""):
        part = [r for r in rows if re.search(rf"\b{module}\.", r.text)] if module else rows
        graded = [r.gradient_ratio() for r in part if r.jax == r.jax]
        if part:
            text = f"{len(part)} functions, forward {_mean([r.forward_ratio() for r in part]):.2f}"
            text += f", slowest {max([r.forward_ratio() for r in part]):.2f}"
            text += f"; {len(graded)} gradients, {_mean(graded):.2f}" if graded else ""
            text += f", slowest {max(graded):.2f}" if graded else ""
            name = f"scipy.{MODULES[module]}" if module else "all"
            lines += ["", f"* {name}: {text}"]
    head = ("expression", "SciPy", "fgrad", "ratio", "gradient", "JAX's", "ratio")
    lines += ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [_cells(row) for row in sorted(rows, key=Row.forward_ratio, reverse=True)]
    lines += ["", *[f"* not compared: {text}" for text in missing]] if missing else []
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the cases, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of cases")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if os.environ.get("FGRAD_NUM_THREADS") != "1":
        restart_on_one_thread()
    own, plain = _modules("fgrad.scipy"), _modules("scipy")
    rows, missing = [], []
    warnings.simplefilter("ignore")
    for case in CASES:
        if re.search(given.only, case.text):
            try:
                rows.append(measured(case, given.turns, own, plain))
                print(_cells(rows[-1]), flush=True)
            except (AssertionError, TypeError, ValueError, RuntimeError) as error:
                missing.append(f"`{case.text}` ({type(error).__name__})")
                print(missing[-1], str(error)[:300], flush=True)
    text = table(rows, missing)
    print(text.partition("\n| expr")[0])
    if given.write:
        path = Path(__file__).with_name("results") / "scipy_functions.md"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
