"""Programs in which a user of SciPy finds what a table of calls does not: lists where arrays are
meant, views, empty and single values, single precision, complex numbers, constants of other
libraries.

Each takes SciPy's modules (`tests/scipy/test_user_programs.py` makes them) and one array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

RNG = np.random.default_rng(71)
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {}


def given(x: np.ndarray) -> Callable[..., Any]:
    """Decorator: a program that is run on x."""

    def noted(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        PROGRAMS[f.__name__] = f, x
        return f

    return noted


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


# --- signal
@given(normal(3, 64))
def band_power_of_views(m: Any, x: Any) -> Any:
    f, p = m.sg.welch(x[:, ::-1][..., ::2], fs=10.0, nperseg=16, axis=-1)
    return m.si.trapezoid(p[..., (f > 0.5) & (f < 2.0)], f[(f > 0.5) & (f < 2.0)], axis=-1)


@given(normal(50).astype(np.float32))
def float32_filtered(m: Any, x: Any) -> Any:
    b, a = m.sg.butter(3, 0.2)
    return m.sg.filtfilt(b, a, x - np.mean(x)).std()


@given(normal(1))
def convolve_with_one(m: Any, x: Any) -> Any:
    return m.sg.convolve(x, np.array([2.0]), mode="same") + m.sg.correlate(x, x, mode="valid")


@given(normal(8, 3))
def analytic_phase(m: Any, x: Any) -> Any:
    return np.abs(m.sg.hilbert(x.T, axis=1)) * np.cos(np.angle(m.sg.hilbert(x.T))).mean(axis=0)


@given(normal(40))
def peaks_then_widths(m: Any, x: Any) -> Any:
    s = m.nd.gaussian_filter1d(x, 2.0)
    fixed = np.array([5, 20, 33])
    return m.sg.savgol_filter(s, 5, 2, mode="mirror")[fixed] * s[fixed]


@given(normal(2, 30) + 1j * normal(2, 30))
def complex_resampled(m: Any, x: Any) -> Any:
    y = m.sg.resample(x, 20, axis=-1)
    return np.real(y * np.conj(y)).sum(axis=0)


@given(normal(33))
def stft_round_trip(m: Any, x: Any) -> Any:
    _, _, z = m.sg.stft(x, nperseg=8, noverlap=6)
    return m.sg.istft(np.abs(z) * np.exp(1j * np.angle(z)), nperseg=8, noverlap=6)[1][:33]


@given(normal(4, 5))
def empty_slices_filtered(m: Any, x: Any) -> Any:
    area = m.si.trapezoid(x[:0], axis=1).sum()
    return area + m.nd.gaussian_filter1d(x[:1], 1.0, axis=1).sum()


# --- ndimage
@given(normal(6, 6))
def registered(m: Any, x: Any) -> Any:
    y = m.nd.shift(x, (0.3, -0.7), order=1, mode="nearest")
    return ((m.nd.sobel(y, 0) ** 2 + m.nd.sobel(y, 1) ** 2) ** 0.5)[1:-1, 1:-1]


@given(normal(3, 5, 4))
def stack_of_frames(m: Any, x: Any) -> Any:
    return m.nd.gaussian_filter(x, (0, 1, 1)) - m.nd.uniform_filter(x, size=(1, 3, 3))


@given(normal(5, 5))
def labelled_means(m: Any, x: Any) -> Any:
    lab = np.arange(25).reshape(5, 5) % 3
    return np.stack(
        [m.nd.mean(x, lab, 1), m.nd.sum_labels(x, lab, 2), *m.nd.maximum(x, lab, [0, 1])]
    )


@given(normal(7))
def sampled_at_traced_places(m: Any, x: Any) -> Any:
    return m.nd.map_coordinates(
        np.sin(np.arange(9.0)), np.clip(np.abs(x) * 2, 0, 8)[None], order=3, mode="nearest"
    )


@given(normal(4, 4).T)
def transposed_view_zoomed(m: Any, x: Any) -> Any:
    return m.nd.zoom(x[::-1], (2, 1), order=1)


# --- interpolate
@given(np.abs(normal(6)) + 0.5)
def spline_by_knots(m: Any, x: Any) -> Any:
    t = np.cumsum(x)
    return m.ip.CubicSpline(t, np.sin(t), bc_type="natural")(np.linspace(1.0, 3.0, 4))


@given(normal(5, 2, 3))
def interp_along_middle(m: Any, x: Any) -> Any:
    return m.ip.interp1d(np.arange(2.0), x, axis=1, fill_value="extrapolate")(
        np.array([[0.5], [1.5]])
    )


@given(np.array(0.37))
def scalar_place(m: Any, x: Any) -> Any:
    s = m.ip.PchipInterpolator([0, 1, 2, 4], [0, 2, 1, 5])
    return s(x) + s(x, nu=1) + m.ip.make_interp_spline([0, 1, 2, 3], [1.0, 0, 2, 1])(x)


@given(normal(4, 3))
def grid_values(m: Any, x: Any) -> Any:
    r = m.ip.RegularGridInterpolator(
        (np.arange(4), np.arange(3)), x, method="linear", bounds_error=False, fill_value=None
    )
    return r([[0.5, 0.5], [3.5, 2.2]])


@given(normal(10))
def rbf_of_values(m: Any, x: Any) -> Any:
    pts = np.stack([np.cos(np.arange(10.0)), np.sin(2 * np.arange(10.0))], -1)
    return m.ip.RBFInterpolator(pts, x, kernel="linear")(pts[:3] * 0.9)


# --- sparse
@given(np.abs(normal(5)) + 2)
def sparse_solved(m: Any, x: Any) -> Any:
    base = scipy.sparse.diags([-np.ones(4), -np.ones(4)], [-1, 1], shape=(5, 5), format="csr")
    return m.ss.spsolve(m.csr(base, x), np.ones(5))


@given(normal(6))
def constant_sparse_times(m: Any, x: Any) -> Any:
    c = scipy.sparse.random(4, 6, 0.5, random_state=1, format="csr")
    return (c @ x) * (c.T @ np.ones(4))[:4] + c.toarray() @ np.tanh(x)


@given(np.abs(normal(4)) + 1)
def cg_matrix_free(m: Any, x: Any) -> Any:
    op = m.ss.LinearOperator(
        (4, 4), matvec=lambda v: x * v + 0.1 * np.roll(v, 1) + 0.1 * np.roll(v, -1), dtype=float
    )
    return m.ss.cg(op, np.arange(4.0), rtol=1e-12)[0]


# --- optimize
@given(np.array([1.0, 2.0]))
def rosen_minimised(m: Any, x: Any) -> Any:
    return m.so.minimize(
        lambda q: (x[0] - q[0]) ** 2 + 10 * (q[1] - x[1] * q[0] ** 2) ** 2, [0.5, 0.5], tol=1e-12
    ).x


@given(np.array(2.0))
def root_in_a_loop(m: Any, x: Any) -> Any:
    t = 0.0
    for k in range(1, 4):
        t = t + m.so.brentq(lambda q, k=k: q**3 - k * x, 0, 10, xtol=1e-14)
    return t


@given(normal(12))
def fitted_curve(m: Any, x: Any) -> Any:
    t = np.linspace(0, 2, 12)
    p, c = m.so.curve_fit(
        lambda t, a, b: a * np.exp(-b * t),
        t,
        2 * np.exp(-t) + 0.05 * x,
        p0=[1.0, 1.0],
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    return np.concatenate([p, np.sqrt(np.diag(c))])


@given(np.array([0.3, -0.2, 0.9]))
def bounded_minimum(m: Any, x: Any) -> Any:
    return m.so.minimize(
        lambda q: np.sum((q - x) ** 2),
        np.zeros(3),
        bounds=[(0, None), (None, None), (-1, 0.5)],
        method="L-BFGS-B",
        tol=1e-12,
    ).x


@given(np.array([3.0, 1.0]))
def root_of_system(m: Any, x: Any) -> Any:
    return m.so.root(
        lambda q: [q[0] ** 2 + q[1] - x[0], q[0] - q[1] * x[1]], [1.0, 1.0], tol=1e-13
    ).x


@given(np.array([3.0, 1.0]))
def residuals_in_lists(m: Any, x: Any) -> Any:
    return m.so.least_squares(
        lambda q: [q[0] - x[0], q[1] ** 2 - x[1], q[0] * q[1] - 3.0], [x[0], 2.0], xtol=1e-14
    ).x


@given(np.array([0.5, 1.5]))
def fits_at_traced_places(m: Any, x: Any) -> Any:
    places, values = np.arange(6.0), np.arange(6.0) ** 2
    made = m.ip.make_interp_spline(places, values), m.ip.make_smoothing_spline(places, values)
    return made[0](x) + m.ip.splev(x, made[1]) + made[0].derivative()(x) + made[0].integrate(0, 1)


# --- integrate
@given(np.array([1.0, 0.5]))
def pendulum(m: Any, x: Any) -> Any:
    return m.si.solve_ivp(
        lambda t, y, g: [y[1], -g * np.sin(y[0])],
        (0, 1),
        [x[0], 0.0],
        args=(x[1],),
        rtol=1e-10,
        atol=1e-12,
        t_eval=[0.5, 1.0],
    ).y


@given(np.array(0.7))
def quad_to_infinity(m: Any, x: Any) -> Any:
    return (
        m.si.quad(lambda t: np.exp(-x * t * t), -np.inf, np.inf)[0]
        + m.si.quad(lambda t, a: t**a, 0, 1, args=(x,))[0]
    )


@given(normal(2, 9))
def integrals_of_rows(m: Any, x: Any) -> Any:
    return (
        m.si.simpson(x, dx=0.5)
        + m.si.cumulative_trapezoid(x, initial=0)[:, -1]
        + m.si.romb(x, dx=0.25)
    )


@given(np.array([0.5, 1.5]))
def odeint_with_args(m: Any, x: Any) -> Any:
    return m.si.odeint(
        lambda y, t, k: -k * y, x, np.linspace(0, 1, 4), args=(x[0],), rtol=1e-11, atol=1e-12
    )[-1]


# --- spatial
@given(normal(4, 2))
def distances(m: Any, x: Any) -> Any:
    d = m.sd.pdist(x)
    return (
        m.sd.squareform(d)[np.triu_indices(4, 1)]
        - d
        + m.sd.cdist(x[:1], x[1:], "sqeuclidean").sum()
    )


@given(normal(5, 3))
def mahalanobis_all(m: Any, x: Any) -> Any:
    vi = np.linalg.inv(np.cov(x.T) + np.eye(3))
    return m.sd.cdist(x, x[:2] * 0.5, "mahalanobis", VI=vi)


@given(normal(2, 4))
def rotated(m: Any, x: Any) -> Any:
    return (
        m.rot.from_quat(x).apply([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
        + m.rot.from_rotvec(x[:, :3]).as_matrix()[:, 0]
    )


# --- stats
@given(normal(20))
def likelihood(m: Any, x: Any) -> Any:
    return -m.st.norm.logpdf(x, loc=x.mean(), scale=x.std()).sum() + m.st.t.logpdf(x, df=5).sum()


@given(np.abs(normal(4, 6)) + 0.1)
def summaries(m: Any, x: Any) -> Any:
    return np.stack(
        [
            m.st.gmean(x, axis=1),
            m.st.skew(x, axis=1),
            m.st.kurtosis(x, axis=1),
            m.st.entropy(x, axis=1),
            m.st.zscore(x, axis=1)[:, 0],
            m.st.iqr(x, axis=1),
        ]
    )


@given(normal(15))
def density(m: Any, x: Any) -> Any:
    return m.st.gaussian_kde(x)(np.linspace(-1, 1, 5))


@given(normal(12))
def tests_of_samples(m: Any, x: Any) -> Any:
    return (
        m.st.ttest_1samp(x, 0.1).statistic
        + m.st.pearsonr(x, np.arange(12.0)).statistic
        + m.st.linregress(np.arange(12), x).slope
    )


@given(normal(3))
def normal_of_vectors(m: Any, x: Any) -> Any:
    return m.st.multivariate_normal(mean=x, cov=np.diag(np.exp(x))).logpdf(
        np.zeros(3)
    ) + m.st.multivariate_normal.logpdf(np.zeros((2, 3)), x, np.eye(3))


# --- linalg
@given(normal(4, 4))
def matrix_functions(m: Any, x: Any) -> Any:
    s = x @ x.T + 4 * np.eye(4)
    return m.sl.logm(s) + m.sl.sqrtm(s) + m.sl.expm(x * 0.1)


@given(normal(3, 3))
def factors(m: Any, x: Any) -> Any:
    p, low, up = m.sl.lu(x + 4 * np.eye(3))
    c = m.sl.cho_solve(m.sl.cho_factor(x @ x.T + np.eye(3)), np.ones(3))
    return p @ low @ up - x + c + m.sl.solve(x + 4 * np.eye(3), [1, 2, 3])


@given(normal(2, 3, 3) + 3 * np.eye(3))
def stacks_of_matrices(m: Any, x: Any) -> Any:
    return m.sl.inv(x) + m.sl.det(x)[:, None, None] + m.sl.expm(x * 0.1)


@given(normal(4) + 5)
def toeplitz_systems(m: Any, x: Any) -> Any:
    return (
        m.sl.solve_toeplitz(x + np.array([9.0, 0, 0, 0]), [1, 2, 3, 4])
        + m.sl.toeplitz(x)[0]
        + m.sl.solve_banded((1, 1), np.stack([np.ones(4), x, np.ones(4)]), np.ones(4))
    )


# --- special
@given(np.abs(normal(6)) + 0.2)
def special_mixed(m: Any, x: Any) -> Any:
    return (
        m.sp.gammaln(x)
        + m.sp.betainc(x, 2, 0.3) * m.sp.erf(x)
        - m.sp.jv(1, x)
        + m.sp.logsumexp(x)
        + m.sp.softmax(x)
    )


@given(np.array([[0.5], [1.5]]))
def broadcast_orders(m: Any, x: Any) -> Any:
    return (
        m.sp.kv([0.5, 1, 2], x)
        + m.sp.eval_legendre([0, 1, 2], np.tanh(x))
        + m.sp.xlogy(x, [3, 1, 2])
    )
