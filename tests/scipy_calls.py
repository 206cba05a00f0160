"""Calls of functions of SciPy, one expression a line, with arrays to be traced; those of signals,
images and splines are in scipy_array_cases.py. `tests/scipy/test_every_name.py` runs them.

`A` is a (4, 4) matrix, `B` (4, 3), `C` (5, 4), `v` and `w` are vectors of 4, `p` has 4 positive
numbers, `x` 24 numbers, `y` 21, `a` is one number, `z` a complex (4, 4) matrix: what an expression
names is traced.  `spd`, `sym`, `near` and `sparse` make matrices of a kind, `I` is the unit matrix.
"""
# ruff: noqa: E501 - a call is a line

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import scipy.stats
from scipy_distributions import SHAPES

import fgrad.sparse

MODULES = {
    "sl": "linalg", "sf": "fft", "sd": "spatial.distance", "ss": "sparse.linalg", "so": "optimize",
    "si": "integrate", "st": "stats", "sp": "special", "sg": "signal", "ip": "interpolate",
    "nd": "ndimage",
}  # fmt: skip
RNG = np.random.default_rng(190)
ARRAYS: dict[str, np.ndarray] = {
    "A": RNG.normal(size=(4, 4)), "B": RNG.normal(size=(4, 3)), "C": RNG.normal(size=(5, 4)),
    "v": RNG.normal(size=4), "w": RNG.normal(size=4), "p": RNG.uniform(0.4, 2.4, size=4),
    "x": RNG.normal(size=24), "y": RNG.normal(size=21), "a": np.array(1.7),
    "z": RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4)), "u": RNG.uniform(0.2, 0.8, size=4),
}  # fmt: skip
BASE = np.diag([6.0, 7.0, 8.0, 9.0]) + np.eye(4, k=1) + np.eye(4, k=-1)


def spd(x: Any) -> Any:
    """A symmetric positive definite matrix."""
    return x @ x.T + 3 * np.eye(4)


def sym(x: Any) -> Any:
    """A symmetric matrix with eigenvalues far from each other."""
    return x + x.T + np.diag([-9.0, 0.0, 9.0, 20.0])


def near(x: Any) -> Any:
    """A matrix near a diagonal one: its eigenvalues are positive and far from each other."""
    return 0.2 * x + np.diag([2.0, 4.0, 7.0, 11.0])


def sparse_of(own: bool) -> Callable[..., Any]:
    """Makes a sparse matrix with traced numbers on its diagonal: fgrad's or SciPy's."""

    def made(d: Any, lower: bool = False) -> Any:
        base = np.tril(BASE) if lower else BASE
        if not own:
            return scipy.sparse.csr_array(base + np.diag(d))
        pattern = scipy.sparse.csr_array(base)
        rows = np.repeat(np.arange(4), np.diff(pattern.indptr))
        data = pattern.data + d[rows] * (rows == pattern.indices)
        return fgrad.sparse.csr(data, pattern.indices, pattern.indptr, shape=(4, 4))

    return made


CONSTANTS: dict[str, Any] = {
    "np": np, "I": np.eye(4), "spd": spd, "sym": sym, "near": near,
    "WEIGHTS": np.array([1.0, 2.0, 0.5, 1.5]), "BITS": np.array([1.0, 0.0, 1.0, 1.0]),
    "OTHER": np.array([0.0, 0.0, 1.0, 1.0]), "T": np.linspace(0.0, 2.0, 24),
    "LIMITS": np.linspace(0.0, 1.5, 4), "TIGHT": {"rtol": 1e-13, "atol": 0.0},
    "LEAST": {"atol": 1e-14, "btol": 1e-14}, "X0": np.linspace(1.0, 2.0, 4),
    "KEEP": {"disp": 0}, "SPEC": scipy.stats.qmc.Halton(2, seed=2),
    "COLUMNS": np.linspace(0.1, 0.9, 4), "TABLE": np.array([[3.0, 1.0], [1.0, 2.0]]),
}  # fmt: skip

LINALG = """
sl.block_diag(A, B)
sl.cdf2rdf(np.array([1.0 + 2j, 1 - 2j]), z[:2, :2] * 0 + np.array([[1, 1], [1j, -1j]]) * a)[1]
sl.cho_factor(spd(A))[0].diagonal()
sl.cho_solve(sl.cho_factor(spd(A)), v)
sl.cho_solve_banded((sl.cholesky_banded(np.stack([v * 0.1, p + 3])), False), w)
sl.cholesky(spd(A))
sl.cholesky_banded(np.stack([v * 0.1, p + 3]))[1]
sl.circulant(v)
sl.companion(p)
sl.convolution_matrix(v, 3)
sl.coshm(A)
sl.cosm(A)
np.concatenate(sl.cossin(sl.qr(A)[0], 2, 2, separate=True)[1:2])
sl.det(A)
sl.diagsvd(v, 4, 4)
sl.eig(near(A))[0]
sl.eig_banded(np.stack([v * 0.1, p + np.arange(4.0) * 5]), eigvals_only=True)
sl.eigh(sym(A))[0]
sl.eigh_tridiagonal(p + np.arange(4.0) * 5, v[:3])[0]
sl.eigvals(near(A))
sl.eigvals_banded(np.stack([v * 0.1, p + np.arange(4.0) * 5]))
sl.eigvalsh(sym(A))
sl.eigvalsh_tridiagonal(p + np.arange(4.0) * 5, v[:3])
sl.expm(A)
sl.expm_cond(A)
sl.expm_frechet(A, spd(A))
sl.fiedler(v)
sl.fiedler_companion(p)
sl.fractional_matrix_power(spd(A), 0.7)
sl.funm(near(A), np.exp)
sl.hankel(v, w)
np.abs(sl.hessenberg(A))
sl.inv(A)
sl.khatri_rao(A, C)
sl.ldl(spd(A))[1]
sl.leslie(p, p[:3])
sl.logm(near(A))
sl.lstsq(C, np.ones(5))[0]
sl.lu(A)[1:]
sl.lu_factor(A)[0]
sl.lu_solve(sl.lu_factor(A), v)
sl.matmul_toeplitz((v, w), x[:4])
sl.matrix_balance(near(A))[0]
sl.norm(A)
sl.norm(A, 'nuc')
sl.null_space(C[:3]) @ sl.null_space(C[:3]).T
np.abs(sl.ordqz(near(A), spd(A))[0].diagonal())
sl.orth(B) @ sl.orth(B).T
sl.orthogonal_procrustes(A, near(A))[0]
sl.pinv(B)
sl.pinvh(spd(A))
sl.polar(A)
np.abs(sl.qr(A)[1])
np.abs(sl.qr_delete(*sl.qr(A), 1)[1])
np.abs(sl.qr_insert(*sl.qr(A), v, 1)[1])
np.abs(sl.qr_multiply(A, v)[1])
np.abs(sl.qr_update(*sl.qr(A), v, w)[1])
np.abs(sl.qz(near(A), spd(A))[0].diagonal())
np.abs(sl.rq(A)[0])
sl.rsf2csf(*sl.schur(near(A)))[0].diagonal()
sl.schur(near(A))[0].diagonal()
sl.signm(near(A) - 5 * I)
sl.sinhm(A)
sl.sinm(A)
sl.solve(A, v)
sl.solve(spd(A), B, assume_a='pos')
sl.solve_banded((1, 1), np.stack([v * 0.1, p + 3, w * 0.1]), x[:4])
sl.solve_circulant(p + np.array([9.0, 0, 0, 0]), v)
sl.solve_continuous_are(A, B, spd(A), np.eye(3))
sl.solve_continuous_lyapunov(near(A), B @ B.T)
sl.solve_discrete_are(A, B, spd(A), np.eye(3))
sl.solve_discrete_lyapunov(near(A) / 20, spd(A))
sl.solve_lyapunov(near(A), B @ B.T)
sl.solve_sylvester(near(A), spd(C[:4]), A)
sl.solve_toeplitz((p + np.array([9.0, 0, 0, 0]), v), w)
sl.solve_triangular(near(A), v, lower=True)
sl.solveh_banded(np.stack([v * 0.1, p + 3]), w)
sl.sqrtm(near(A))
sl.subspace_angles(B[:, :2], A[:, :2])
sl.svd(A)[1]
sl.svdvals(B)
sl.tanhm(A * 0.3)
sl.tanm(A * 0.3)
sl.toeplitz(v, w)
""".strip().splitlines()

FOURIER = [
    f"sf.{name}({of})"
    for names, of in (
        ("fft ifft rfft hfft irfft ihfft dct idct dst idst fft2 ifft2 fftn ifftn rfft2 rfftn "
         "irfft2 irfftn dctn idctn dstn idstn fftshift ifftshift ihfft2 ihfftn", "A"),
        ("fft ifft fft2 ifft2 fftn ifftn hfft2 hfftn irfft2 irfftn dctn idstn", "z"),
        ("dstn idstn dctn idctn", "C, 3, norm='ortho'"), ("ifft2 fft2", "C, s=(3, 6)"),
        ("fht ifht", "x, 0.1, 0.5"),
    )
    for name in names.split()
]  # fmt: skip

DISTANCE = """
sd.cdist(A, C)
sd.cdist(A, C, 'cosine')
sd.pdist(C)
sd.pdist(C, 'seuclidean')
sd.directed_hausdorff(A, C)[0]
sd.squareform(x[:6])
sd.squareform(sd.pdist(C))
sd.jensenshannon(p, u)
sd.euclidean(v, w)
sd.euclidean(v, w, p)
sd.mahalanobis(v, w, spd(A))
sd.minkowski(v, w, 3)
sd.minkowski(v, w, 1.5, WEIGHTS)
sd.seuclidean(v, w, p)
sd.yule(BITS, OTHER) * a
sd.hamming(v, w) * a
sd.hamming(BITS, OTHER, p)
sd.jaccard(v, w) * a
""".strip().splitlines() + [
    f"sd.{name}({operands})"
    for name in ["braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "sqeuclidean"]
    for operands in ("v, w", "p, u", "v, w, WEIGHTS", "v, w, p")
] + [
    f"sd.{name}(BITS, OTHER, p)"
    for name in ["dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"]
] + [
    f"sd.{name}(BITS > 0, OTHER > 0) * a"
    for name in ["dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"]
]  # fmt: skip

SPARSE = [
    f"ss.{name}(sparse(p), v, {given})[0]"
    for names, given in (
        ("cg minres", "rtol=1e-13"), ("bicg bicgstab cgs gmres qmr tfqmr lgmres gcrotmk", "**TIGHT"),
        ("lsqr lsmr", "**LEAST"),
    )
    for name in names.split()
] + """
ss.spsolve(sparse(p), v)
ss.spsolve_triangular(sparse(p, True), v)
ss.factorized(sparse(p))(v)
ss.splu(sparse(p)).solve(v)
ss.eigs(sparse(p), 1)[0].real
ss.eigsh(sparse(p), 2)[0]
ss.svds(sparse(p), 1)[1]
np.abs(ss.lobpcg(sparse(p), np.ones((4, 1)), tol=1e-12, maxiter=200)[0])
ss.expm(sparse(p) * 0.1)
ss.expm_multiply(sparse(p) * 0.1, v)
ss.funm_multiply_krylov(sl.expm, sparse(p) * 0.1, v)
ss.inv(sparse(p))
ss.matrix_power(sparse(p), 3)
ss.norm(sparse(p))
ss.norm(sparse(p), 1)
ss.onenormest(sparse(p))
ss.aslinearoperator(sparse(p)) @ v
ss.LinearOperator((4, 4), lambda q: A @ q, dtype=float) @ v
""".strip().splitlines()  # fmt: skip

ROOTS = [
    f"so.{name}({f}, {given})"
    for names, f, given in (
        ("brentq brenth bisect ridder toms748", "lambda q: q ** 3 - a * q - 2", "0.0, 5.0, xtol=1e-14"),
        ("newton", "lambda q: q ** 3 - a * q - 2", "2.0, tol=1e-14"),
        ("fsolve", "lambda q: q ** 3 + q - v", "np.ones(4), xtol=1e-14"),
        ("broyden1 broyden2 anderson diagbroyden",
         "lambda q: 2 * q + 0.1 * np.sin(q) - v", "np.ones(4), f_tol=1e-13"),
        ("linearmixing excitingmixing", "lambda q: v - 2 * q - 0.1 * np.sin(q)",
         "np.ones(4), alpha=0.4, f_tol=1e-12"),
        ("newton_krylov", "lambda q: q ** 3 + q - v", "np.ones(4), f_tol=1e-13"),
        ("fixed_point", "lambda q: 0.5 * np.cos(q) + v", "np.ones(4), xtol=1e-13"),
    )
    for name in names.split()
]  # fmt: skip

MINIMA = [
    f"so.{name}(lambda q: np.sum((q - v) ** 2) + 0.1 * np.sum(q ** 4), np.ones(4), {given}){end}"
    for names, given, end in (
        ("fmin", "xtol=1e-11, ftol=1e-14, maxfun=9000, maxiter=9000, disp=0", ""),
        ("fmin_powell", "xtol=1e-10, ftol=1e-14, disp=0", ""),
        ("fmin_bfgs fmin_cg", "gtol=1e-9, disp=0", ""),
        ("fmin_slsqp", "acc=1e-14, disp=0", ""),
        ("fmin_l_bfgs_b", "approx_grad=True, factr=1.0", "[0]"),
        ("fmin_tnc", "approx_grad=True, disp=0", "[0]"),
        ("fmin_cobyla", "[lambda q: 9.0 - q[0]], rhoend=1e-9, maxfun=9000, disp=0", ""),
        ("minimize", "tol=1e-10", ".x"),
    )
    for name in names.split()
]  # fmt: skip

OPTIMIZE = ROOTS + MINIMA + """
so.fmin_ncg(lambda q: np.sum((q - v) ** 2), np.ones(4), lambda q: 2 * (q - v), disp=0)
so.root(lambda q: q ** 3 + q - v, np.ones(4), tol=1e-13).x
so.root_scalar(lambda q: q ** 3 - a * q - 2, bracket=(0.0, 5.0), xtol=1e-14).root
so.minimize_scalar(lambda q: (q - a) ** 2 + 0.1 * q ** 4, tol=1e-12).x
so.brent(lambda q: (q - a) ** 2 + 0.1 * q ** 4, tol=1e-12)
so.golden(lambda q: (q - a) ** 2 + 0.1 * q ** 4, tol=1e-12)
so.fminbound(lambda q: (q - a) ** 2 + 0.1 * q ** 4, 0.0, 5.0, xtol=1e-10)
so.brute(lambda q: np.sum((q - v) ** 2), ((-3, 3),) * 4, Ns=5)
so.basinhopping(lambda q: np.sum((q - v) ** 2), np.ones(4), niter=2, seed=3).x
so.differential_evolution(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 4, seed=3, tol=1e-10).x
so.dual_annealing(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 4, seed=3, maxiter=20).x
so.direct(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 4, vol_tol=1e-20, maxfun=20000).x
so.shgo(lambda q: np.sum((q - v[:2]) ** 2), [(-4, 4)] * 2).x
so.least_squares(lambda q: A @ q + 0.1 * q ** 3 - v, np.ones(4), xtol=1e-14, ftol=1e-14).x
so.leastsq(lambda q: near(A) @ q + 0.1 * q ** 3 - v, np.ones(4))[0]
so.curve_fit(lambda t, b, c: b * np.exp(-c * t), T, x * 0.01 + 2 * np.exp(-T), (1.0, 1.0))[0]
so.lsq_linear(C, np.ones(5)).x
so.nnls(C ** 2, np.ones(5))[0]
so.linprog(p, A_ub=-I, b_ub=-u).x
so.linear_sum_assignment(A)[1]
so.isotonic_regression(x).x
so.minimize(lambda q: np.sum((q - v) ** 2), np.ones(4), method='trust-constr', bounds=so.Bounds(u - 9, u)).x
so.minimize(lambda q: np.sum((q - v) ** 2), np.ones(4), method='SLSQP', constraints=so.LinearConstraint(p, -np.inf, 0.5)).x
so.minimize(lambda q: np.sum((q - v) ** 2), np.ones(4), method='SLSQP', constraints=so.NonlinearConstraint(lambda q: q @ q, -np.inf, 0.5)).x
so.rosen(v)
so.rosen(A)
so.rosen_der(v)
so.rosen_hess(v)
so.rosen_hess_prod(v, w)
""".strip().splitlines()  # fmt: skip

INTEGRATE = """
si.quad(lambda t: np.exp(-a * t), 0.0, 2.0)[0]
si.quad_vec(lambda t: np.exp(-p * t), 0.0, 2.0)[0]
si.dblquad(lambda s, t: np.exp(-a * t * s), 0.0, 1.0, 0.0, 1.0)[0]
si.tplquad(lambda r, s, t: np.exp(-a * t * s * r), 0.0, 1.0, 0.0, 1.0, 0.0, 1.0)[0]
si.nquad(lambda s, t: np.exp(-a * t * s), [(0.0, 1.0), (0.0, 2.0)])[0]
si.fixed_quad(lambda t: np.exp(-a * t), 0.0, 2.0)[0]
si.cubature(lambda q: np.exp(-a * q[:, 0] * q[:, 1]), [0.0, 0.0], [1.0, 1.0]).estimate
si.tanhsinh(lambda t: np.exp(-a * t), 0.0, 2.0).integral
si.nsum(lambda k: k ** (-1.0 - a), 1, np.inf).sum
si.qmc_quad(lambda q: np.exp(-a * q[0] * q[1]), [0, 0], [1, 1], n_points=64, qrng=SPEC).integral * 0 + a
si.trapezoid(x, T)
si.trapezoid(A, dx=0.5, axis=0)
si.simpson(y, dx=0.1)
si.simpson(x, x=T)
si.romb(y[:17], dx=0.3)
si.cumulative_trapezoid(x, T, initial=0)
si.cumulative_simpson(x, x=T)
si.cumulative_simpson(A, dx=0.2, axis=0)
si.solve_ivp(lambda t, q: -p * q, (0.0, 1.5), v, rtol=1e-10, atol=1e-12).y[:, -1]
si.solve_ivp(lambda t, q: -p * q, (0.0, 1.5), v, t_eval=LIMITS, rtol=1e-10, atol=1e-12).y
si.odeint(lambda q, t: -p * q, v, LIMITS, rtol=1e-11, atol=1e-13)
si.solve_bvp(lambda t, q: np.stack([q[1], -a * q[0]]), lambda l, r: np.stack([l[0], r[0] - 1]), LIMITS, np.zeros((2, 4)), tol=1e-8).sol(0.4)
""".strip().splitlines()

OTHERS = """
sg.sosfreqz(np.stack([np.concatenate([x[:3], [1.0], x[3:5] * 0.2])]), 9)[1]
sg.fftconvolve(x, y)
sg.convolve2d(A, B)
sg.correlate2d(A, B)
sg.csd(x, y[:16], nperseg=8)[1]
sg.welch(x, nperseg=8)[1]
sg.detrend(x)
sg.convolve(x, y, 'same')
sg.correlate(x, y)
sg.stft(x, nperseg=8)[2]
sg.istft(z, nperseg=6)[1]
nd.extrema(A)[:2]
nd.map_coordinates(A, np.stack([p, u]))
ip.RegularGridInterpolator((np.arange(4.0), np.arange(3.0)), B)(np.stack([p, u], -1))
ip.interpn((np.arange(4.0), np.arange(3.0)), B, np.stack([p, u], -1))
sp.hankel1e(1.5, p)
sp.hankel2(1.5, p)
sp.log_softmax(v)
sp.logsumexp(A, axis=0)
sp.multigammaln(p + 3, 3)
sp.polygamma(2, p)
sp.softmax(A, axis=1)
sp.softplus(v)
sp.fdtridfd(3.0, 0.72 + u / 10, 2 + u)
sp.stdtridf(0.93 + u / 20, 3 + u)
sp.pro_ang1_cv(1, 1, 0.5, sp.pro_cv(1, 1, 0.5), u)
sp.obl_ang1_cv(1, 1, 0.5, sp.obl_cv(1, 1, 0.5), u)
sp.pro_rad1_cv(1, 1, 0.5, sp.pro_cv(1, 1, 0.5), 1 + u)
sp.obl_rad1_cv(1, 1, 0.5, sp.obl_cv(1, 1, 0.5), p)
""".strip().splitlines()

STATISTICS = [
    f"st.{name}({of})"
    for names, of in (
        ("circmean circstd circvar describe differential_entropy gstd gzscore iqr kstat kstatvar "
         "kurtosis skew lmoment median_abs_deviation moment obrientransform sem tmean tstd tsem tvar "
         "tmin tmax variation zscore hmean gmean entropy expectile", "np.exp(x)"),
        ("f_oneway kruskal levene bartlett ttest_ind ttest_rel combine_pvalues energy_distance "
         "wasserstein_distance pearsonr linregress siegelslopes theilslopes pointbiserialr zmap", ""),
        ("jarque_bera kurtosistest skewtest normaltest rankdata boxcox_normmax yeojohnson_normmax",
         "np.exp(x)"),
        ("trim_mean", "x, 0.1"), ("quantile", "x, u"),
        ("scoreatpercentile", "x, 30.0"), ("boxcox", "np.exp(x), a"), ("yeojohnson", "x, a"),
        ("boxcox_llf", "a, np.exp(x)"), ("yeojohnson_llf", "a, x"), ("pmean", "np.exp(x), 2.5"),
        ("chisquare", "p"), ("power_divergence", "p, lambda_=1.5"), ("ttest_1samp", "x, a"),
        ("sigmaclip", "x, 1.5, 1.5"), 
        ("ttest_ind_from_stats", "a, 1.3, 9, 0.4, 1.1, 7"),
        ("wasserstein_distance_nd", "C, C[:3] + 1"),
        ("binned_statistic", "T, x, 'mean', 3"), ("binned_statistic_2d", "T, T, x, 'sum', 2"),
        ("binned_statistic_dd", "np.stack([T, T], -1), x, 'mean', 2"),
    )
    for name in names.split()
    if of
]  # fmt: skip
STATISTICS += [
    "st.f_oneway(x, y)", "st.kruskal(x, y)", "st.levene(x, y)", "st.bartlett(x, y)",
    "st.ttest_ind(x, y)", "st.ttest_rel(x[:21], y)", "st.combine_pvalues(u)",
    "st.energy_distance(x, y)", "st.wasserstein_distance(x, y)", "st.pearsonr(x[:21], y)[0]",
    "st.linregress(x[:21], y)", "st.siegelslopes(x[:21], y)", "st.theilslopes(x[:21], y)",
    "st.pointbiserialr(BITS, v)[0]", "st.zmap(x, y)", "st.mode(x)", "st.gaussian_kde(x)(u)",
    "st.Normal(mu=a, sigma=p).cdf(v)", "st.Uniform(a=-a, b=p).pdf(u)", "st.Logistic().cdf(v)",
    "st.Binomial(n=7, p=u).pmf(3)", "st.dirichlet.logpdf(p / np.sum(p), p)",
    "np.sort(st.trim1(x, 0.1))", "np.sort(st.trimboth(x, 0.1))",
    "st.dirichlet_multinomial.logpmf([1, 2, 0, 3], p, 6)", "st.invwishart.logpdf(spd(A), 6, spd(A))",
    "st.wishart.logpdf(spd(A), 6, spd(A))", "st.matrix_normal.logpdf(A, spd(A))",
    "st.matrix_t.logpdf(A, I, spd(A), df=4)", "st.multinomial.logpmf([1, 2, 0, 3], 6, p / np.sum(p))",
    "st.multivariate_hypergeom.logpmf([1, 2], [4, 5], 3) * a",
    "st.multivariate_normal.logpdf(v, w, spd(A))", "st.multivariate_t.logpdf(v, w, spd(A), 4)",
    "st.normal_inverse_gamma.logpdf(a, p, 0.5, 1.5, 2.0, 1.2)",
    "st.vonmises_fisher.logpdf(v / np.sqrt(v @ v), I[0], 1.7) * a", "st.poisson_binom.cdf(2, u)",
    "st.ortho_group.rvs(3, random_state=2) * a", "st.special_ortho_group.rvs(3, random_state=2) * a",
    "st.unitary_group.rvs(3, random_state=2) * a", "st.directional_stats(C).mean_direction", "st.uniform_direction.rvs(3, random_state=2) * a",
]  # fmt: skip


def _distributions() -> list[str]:
    """A distribution function of each distribution that has one, at four points of its middle."""
    lines = []
    for name in dir(scipy.stats):
        family = getattr(scipy.stats, name)
        if not isinstance(family, (scipy.stats.rv_continuous, scipy.stats.rv_discrete)):
            continue
        shapes = SHAPES.get(name, ())
        if len(shapes) < family.numargs:
            continue  # refused: levy_stable
        low, high = [float(x) for x in family.ppf([0.3, 0.7], *shapes)]
        given = "".join([f", {s}" for s in shapes])
        at = f"{low} + {high - low} * u" if isinstance(family, scipy.stats.rv_continuous) else "3"
        lines.append(f"st.{name}.cdf({at}{given}) + 0 * a")
    return lines


CALLS = [
    *LINALG, *FOURIER, *DISTANCE, *SPARSE, *OPTIMIZE, *INTEGRATE, *OTHERS, *STATISTICS,
    *_distributions(),
]  # fmt: skip
