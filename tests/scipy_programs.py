"""Programs that give a traced number `a` to SciPy's functions, one expression a line.

The modules are bound to short names: `so` is scipy.optimize, and so on, see MODULES.
"""

from __future__ import annotations

MODULES = {
    "so": "optimize", "si": "integrate", "ip": "interpolate", "nd": "ndimage", "sp": "special",
    "st": "stats", "sl": "linalg", "sg": "signal", "sf": "fft", "sd": "spatial.distance",
    "ss": "sparse", "ssl": "sparse.linalg",
}  # fmt: skip

PROGRAMS = """
so.brentq(lambda x: x ** 2 - a, 0, 5)
so.bisect(lambda x: x ** 2 - a, 0, 5)
so.ridder(lambda x: x ** 2 - a, 0, 5)
so.brenth(lambda x: x ** 2 - a, 0, 5)
so.toms748(lambda x: x ** 2 - a, 0, 5)
so.newton(lambda x: x ** 2 - a, 1.)
so.newton(lambda x: x ** 2 - 2, a)
so.root_scalar(lambda x: x ** 2 - a, bracket=(0, 5)).root
so.root_scalar(lambda x: x ** 2 - a, x0=1., x1=2.0).root
so.root(lambda x: x ** 2 - a, [1.]).x[0]
so.root(lambda x: x ** 2 - a, [1.], method='lm').x[0]
so.root(lambda x: x ** 2 - a, [1.], method='krylov').x[0]
so.root(lambda x: x ** 2 - a, [1.], method='df-sane').x[0]
so.fsolve(lambda x: x ** 2 - a, [1.])[0]
so.fixed_point(lambda x: np.sqrt(a) + 0 * x, 1.)
so.broyden1(lambda x: x ** 2 - a, [1.])[0]
so.anderson(lambda x: x ** 2 - a, [1.])[0]
so.newton_krylov(lambda x: x ** 2 - a, [1.])[0]
so.minimize(lambda x: np.sum((x - a) ** 2), [1.]).x[0]
so.minimize_scalar(lambda x: (x - a) ** 2).x
so.minimize_scalar(lambda x: (x - a) ** 2, bounds=(0, 9.0), method='bounded').x
so.fminbound(lambda x: (x - a) ** 2, 0, 5)
so.brent(lambda x: (x - a) ** 2)
so.golden(lambda x: (x - a) ** 2)
so.bracket(lambda x: (x - a) ** 2)[1]
so.fmin(lambda x: np.sum((x - a) ** 2), [1.], disp=0)[0]
so.fmin_bfgs(lambda x: np.sum((x - a) ** 2), [1.], disp=0)[0]
so.fmin_cg(lambda x: np.sum((x - a) ** 2), [1.], disp=0)[0]
so.fmin_l_bfgs_b(lambda x: np.sum((x - a) ** 2), [1.], approx_grad=True)[0][0]
so.fmin_slsqp(lambda x: np.sum((x - a) ** 2), [1.], disp=0)[0]
so.fmin_tnc(lambda x: np.sum((x - a) ** 2), [1.], approx_grad=True, disp=0)[0][0]
so.fmin_cobyla(lambda x: np.sum((x - a) ** 2), [1.], [lambda x: 1.], disp=0)[0]
so.fmin_powell(lambda x: np.sum((x - a) ** 2), [1.], disp=0)[0]
so.fmin_ncg(lambda x: np.sum((x - a) ** 2), [1.], lambda x: 2 * (x - a), disp=0)[0]
so.least_squares(lambda x: x - a, [1.]).x[0]
so.least_squares(lambda x: x - a, [1.], method='lm').x[0]
so.least_squares(lambda x: x - a, [1.], method='dogbox').x[0]
so.leastsq(lambda x: x - a, [1.])[0][0]
so.curve_fit(lambda t, p: p * t * a, np.arange(3.), np.arange(3.))[0][0]
so.curve_fit(lambda t, p: p * t, np.arange(3.), np.arange(3.) * a)[0][0]
so.linprog([a], bounds=[(1, 2)]).x[0]
so.milp(np.ones(1) * a).x[0]
so.nnls(np.eye(2), np.ones(2) * a)[0][0]
so.lsq_linear(np.eye(2), np.ones(2) * a).x[0]
so.linear_sum_assignment(np.ones((3, 3)) * a)[0][0]
so.dual_annealing(lambda x: (x[0] - a) ** 2, [(0, 3)], maxiter=2).x[0]
so.direct(lambda x: (x[0] - a) ** 2, [(0, 3)], maxiter=2).x[0]
so.basinhopping(lambda x: np.sum((x - a) ** 2), [1.], niter=1).x[0]
so.brute(lambda x: (x[0] - a) ** 2, [(0, 3)], Ns=3)[0]
so.approx_fprime(np.ones(1), lambda x: np.sum((x - a) ** 2))[0]
so.check_grad(lambda x: np.sum((x - a) ** 2), lambda x: 2 * (x - a), [1.])
si.quad(lambda x: x * a, 0, 1)[0]
si.quad(lambda x: x, 0, a)[0]
si.dblquad(lambda y, x: x * a, 0, 1, 0, 1)[0]
si.tplquad(lambda z, y, x: x * a, 0, 1, 0, 1, 0, 1)[0]
si.nquad(lambda y, x: x * a, [(0, 1), (0, 1)])[0]
si.quad_vec(lambda x: x * a, 0, 1)[0]
si.fixed_quad(lambda x: x * a, 0, 1)[0]
si.romb(np.ones(5) * a)
si.simpson(np.ones(5) * a)
si.trapezoid(np.ones(5) * a)
si.cumulative_trapezoid(np.ones(5) * a)[0]
si.solve_ivp(lambda t, y: -a * y, (0, 1), [1.]).y[0, -1]
si.solve_ivp(lambda t, y: -y, (0, 1), [a]).y[0, -1]
si.solve_ivp(lambda t, y: -a * y, (0, 1), [1.], method='LSODA').y[0, -1]
si.solve_ivp(lambda t, y: -a * y, (0, 1), [1.], method='Radau').y[0, -1]
si.solve_ivp(lambda t, y: -a * y, (0, 1), [1.], method='BDF').y[0, -1]
si.odeint(lambda y, t: -a * y, [1.], [0, 1.])[-1, 0]
si.odeint(lambda y, t: -y, [a], [0, 1.])[-1, 0]
si.ode(lambda t, y: -a * y).set_integrator('dopri5').set_initial_value([1.]).integrate(1.)[0]
si.ode(lambda t, y: -a * y).set_integrator('vode').set_initial_value([1.]).integrate(1.)[0]
si.RK45(lambda t, y: -a * y, 0, [1.], 1.).step()
ip.interp1d(np.arange(4.), np.arange(4.) * a)(1.5)
ip.interp1d(np.arange(4.), np.arange(4.))(a)
ip.CubicSpline(np.arange(4.), np.arange(4.) * a)(1.5)
ip.CubicSpline(np.arange(4.), np.arange(4.))(a)
ip.BSpline(np.arange(8.0), np.ones(4) * a, 3)(3.5)
ip.UnivariateSpline(np.arange(5.), np.ones(5) * a)(1.)
ip.splrep(np.arange(5.), np.ones(5) * a)[1][0]
ip.splev(a, ip.splrep(np.arange(5.), np.ones(5)))
ip.griddata(np.random.RandomState(0).rand(9, 2), np.ones(9) * a, [[0.5, 0.5]])[0]
ip.RBFInterpolator(np.random.RandomState(0).rand(9, 2), np.ones(9) * a)([[0.5, 0.5]])[0]
ip.RegularGridInterpolator((np.arange(3.),), np.ones(3) * a)([1.])[0]
ip.PchipInterpolator(np.arange(4.), np.arange(4.) * a)(1.5)
ip.Akima1DInterpolator(np.arange(5.), np.arange(5.) * a)(1.5)
ip.barycentric_interpolate(np.arange(4.), np.arange(4.) * a, 1.5)
ip.make_interp_spline(np.arange(4.), np.arange(4.) * a)(1.5)
ip.interpn((np.arange(3.),), np.ones(3) * a, [1.])[0]
nd.generic_filter(np.ones(5), lambda v: np.sum(v) * a, 3)[0]
nd.generic_filter1d(np.ones(5), lambda i, o: o.__setitem__(slice(None), i[1:-1] * a), 3)[0]
nd.geometric_transform(np.ones(5), lambda c: (c[0] * a,))[0]
nd.gaussian_filter(np.ones(5) * a, 1.)[0]
nd.gaussian_filter(np.ones(5), a)[0]
nd.convolve(np.ones(5) * a, np.ones(3))[0]
nd.map_coordinates(np.ones(5) * a, [[1.]])[0]
nd.zoom(np.ones(5) * a, 2)[0]
nd.rotate(np.ones((3, 3)), a)[0, 0]
nd.label(np.ones((3, 3)) * a)[1]
nd.sum(np.ones((3, 3)) * a)
nd.median_filter(np.ones((3, 3)) * a, 3)[0, 0]
sp.gamma(a)
sp.erf(a)
sp.jv(1, a)
sp.hyp2f1(1, 1, 2, a * 0.1)
sp.ellipk(a * 0.1)
sp.logsumexp(np.ones(2) * a)
sp.softmax(np.ones(2) * a)[0]
sp.eval_legendre(2, a)
sp.factorial(a)
sp.zeta(a + 1)
sp.airy(a)[0]
sp.expi(a)
sp.struve(1, a)
sp.multigammaln(a, 1)
sp.legendre(2)(a)
sp.sph_harm_y(1, 0, a, a).real
sp.kolmogorov(a)
st.norm.pdf(a)
st.norm.logpdf(1., a)
st.norm.cdf(a)
st.norm.ppf(a * 0.1)
st.norm.expect(lambda x: x * a)
st.norm.fit(np.arange(3.) * a)[0]
st.gamma.logpdf(a, 2.0)
st.multivariate_normal.logpdf(np.ones(2) * a, np.zeros(2), np.eye(2))
st.wishart.logpdf(np.eye(2) * a, 3, np.eye(2))
st.pearsonr(np.arange(3.) * a, np.arange(3.))[0]
st.ttest_ind(np.arange(3.) * a, np.arange(3.))[0]
st.gaussian_kde(np.arange(3.) * a)(1.)[0]
st.zscore(np.arange(3.) * a)[0]
st.linregress(np.arange(3.) * a, np.arange(3.))[0]
st.entropy(np.ones(3) * a)
st.skew(np.arange(3.) * a)
st.poisson.pmf(1, a)
st.rankdata(np.arange(3.) * a)[0]
st.spearmanr(np.arange(3.) * a, np.arange(3.))[0]
st.gmean(np.arange(1., 3.) * a)
st.t.sf(a, 3)
st.ecdf(np.arange(3.) * a).cdf.evaluate(1.)
sl.solve(np.eye(2) * a, np.ones(2))[0]
sl.expm(np.eye(2) * a)[0, 0]
sl.eigvalsh(np.eye(2) * a)[0]
sl.inv(np.eye(2) * a)[0, 0]
sl.solve_banded((0, 0), np.ones((1, 2)) * a, np.ones(2))[0]
sl.lstsq(np.eye(2) * a, np.ones(2))[0][0]
sl.sqrtm(np.eye(2) * a)[0, 0]
sl.funm(np.eye(2) * a, np.exp)[0, 0]
sl.toeplitz(np.ones(2) * a)[0, 0]
sl.schur(np.eye(2) * a)[0][0, 0]
sl.null_space(np.ones((3, 3)) * a)[0, 0]
sl.norm(np.ones(2) * a)
sl.det(np.eye(2) * a)
sg.fftconvolve(np.ones(3) * a, np.ones(3))[0]
sg.lfilter([1.], [1., 0.5], np.ones(3) * a)[0]
sg.butter(2, a * 0.1)[0][0]
sg.find_peaks(np.ones(3) * a)[0]
sg.welch(np.ones(16) * a, nperseg=8)[1][0]
sg.savgol_filter(np.ones(9) * a, 5, 2)[0]
sg.convolve(np.ones(3) * a, np.ones(3))[0]
sg.detrend(np.arange(3.) * a)[0]
sg.resample(np.ones(4) * a, 8)[0]
sg.hilbert(np.ones(4) * a)[0].real
sf.fft(np.ones(3) * a)[0].real
sf.dct(np.ones(3) * a)[0]
sd.cdist(np.ones((3, 3)) * a, np.ones((3, 3)))[0, 0]
sd.pdist(np.ones((3, 3)) * a)[0]
sd.euclidean(np.ones(2) * a, np.zeros(2))
ssl.cg(np.eye(2) * a, np.ones(2))[0][0]
ssl.cg(ssl.LinearOperator((2, 2), matvec=lambda v: v * a), np.ones(2))[0][0]
ssl.gmres(ssl.LinearOperator((2, 2), matvec=lambda v: v * a), np.ones(2))[0][0]
ssl.eigsh(ssl.LinearOperator((4, 4), matvec=lambda v: v * a, dtype=float), 1)[0][0]
ssl.spsolve(ss.csc_array(np.eye(2)), np.ones(2) * a)[0]
(ss.csr_array(np.eye(2)) @ (np.ones(2) * a))[0]
(ss.csr_array(np.eye(2)) * a).sum()
ss.csr_array(np.eye(2) * a).sum()
ssl.splu(ss.csc_array(np.eye(2))).solve(np.ones(2) * a)[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='Powell').x[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='CG').x[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='L-BFGS-B').x[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='TNC').x[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='SLSQP').x[0]
so.minimize(lambda x: np.sum((x - a)**2), [1.], method='trust-constr').x[0]
""".strip().splitlines()
