"""Calls of functions of scipy.optimize, one expression a line, with small arrays to be altered;
`tests/scipy/test_altered_optimize.py` runs them."""
# ruff: noqa: E501 - a call is a line

from __future__ import annotations

import numpy as np

ARRAYS: dict[str, np.ndarray] = {
    "v": np.array([0.3, -0.4, 0.8]),
    "s": np.array([0.5, 0.2, 0.1]),
    "a": np.array(1.7),
    "M": np.array([[3.0, 1, 0.2], [0.5, 4, 0.3], [0.1, 0.2, 5], [1, 1, 1]]),
    "b": np.array([1.0, 2, 3, -1]),
    "lo": np.array([-1.0, -1, 0.2]),
    "hi": np.array([0.2, 1, 1.5]),
    "t": np.linspace(0, 1, 8),
    "y": 2 * np.exp(-np.linspace(0, 1, 8)) + 0.01 * np.sin(np.arange(8)),
    "e": np.array(0.0),
    "f": np.array(5.0),
    "c": np.array([1.0, 2, 0.5]),
    "sg": np.linspace(0.5, 1, 8),
    "w": np.linspace(0.5, 1.5, 8),
    "p2": np.array([1.0, 1.0]),
    "Q": np.array([[3.0, 1, 0.2], [0.5, 0.4, 0.3], [0.1, 0.2, 5]]),
}
VALLEY = "lambda q: np.sum((q - v) ** 2) + 0.1 * np.sum(q ** 4)"
CALLS = [
    *[
        f"so.{n}(lambda q: q ** 3 - a * q - 2, e, f)"
        for n in ["brentq", "brenth", "bisect", "ridder", "toms748"]
    ],
    "so.newton(lambda q: q ** 3 - a * q - 2, f)",
    "so.newton(lambda q: q ** 3 - v - 1, s)",
    "so.newton(lambda q: q ** 3 - v - 1, s, lambda q: 3*q**2)",
    "so.root_scalar(lambda q: q ** 3 - a * q - 2, bracket=(e, f)).root",
    "so.root_scalar(lambda q: q ** 3 - a * q - 2, x0=f, method='newton').root",
    "so.root_scalar(lambda q: q ** 3 - a * q - 2, x0=f, x1=e).root",
    "so.fsolve(lambda q: q ** 3 + q - v, s)",
    "so.root(lambda q: q ** 3 + q - v, s).x",
    "so.root(lambda q: q ** 3 + q - v, s, method='lm').x",
    "so.root(lambda q: q ** 3 + q - v, s, method='krylov').x",
    "so.root(lambda q: q ** 3 + q - v, s, method='df-sane').x",
    *[
        f"so.{n}(lambda q: 2 * q + 0.1 * np.sin(q) - v, s, maxiter=60)"
        for n in ["broyden1", "broyden2", "anderson", "diagbroyden", "newton_krylov"]
    ],
    *[
        f"so.{n}(lambda q: v - 2 * q - 0.1 * np.sin(q), s, alpha=0.4, maxiter=60)"
        for n in ["linearmixing", "excitingmixing"]
    ],
    "so.fixed_point(lambda q: 0.5 * np.cos(q) + v, s)",
    *[
        f"so.minimize({VALLEY}, s, method={m!r}, options=dict(maxiter=200)).x"
        for m in [
            "Nelder-Mead",
            "Powell",
            "CG",
            "BFGS",
            "Newton-CG",
            "L-BFGS-B",
            "TNC",
            "COBYLA",
            "COBYQA",
            "SLSQP",
            "trust-constr",
            "dogleg",
            "trust-ncg",
            "trust-exact",
            "trust-krylov",
        ]
    ],
    *[
        f"so.minimize({VALLEY}, s, method={m!r}, bounds=so.Bounds(lo, hi), options=dict(maxiter=200)).x"
        for m in ["Nelder-Mead", "Powell", "L-BFGS-B", "TNC", "SLSQP", "trust-constr", "COBYLA"]
    ],
    f"so.minimize({VALLEY}, s, bounds=[(lo[0],hi[0]),(None,1.0),(0.0,None)]).x",
    f"so.minimize({VALLEY}, s, args=(), constraints=so.LinearConstraint(c, -np.inf, 0.5)).x",
    f"so.minimize({VALLEY}, s, constraints=dict(type='ineq', fun=lambda q: 0.5 - c @ q)).x",
    f"so.minimize({VALLEY}, s, constraints=so.NonlinearConstraint(lambda q: q @ q, lo[0], 0.5), method='trust-constr', options=dict(maxiter=100)).x",
    f"so.fmin({VALLEY}, s, disp=0)",
    f"so.fmin_powell({VALLEY}, s, disp=0)",
    f"so.fmin_bfgs({VALLEY}, s, disp=0)",
    f"so.fmin_cg({VALLEY}, s, disp=0)",
    f"so.fmin_slsqp({VALLEY}, s, disp=0)",
    f"so.fmin_l_bfgs_b({VALLEY}, s, approx_grad=True)[0]",
    f"so.fmin_tnc({VALLEY}, s, approx_grad=True, disp=0)[0]",
    f"so.fmin_cobyla({VALLEY}, s, [lambda q: 9.0 - q[0]], disp=0)",
    "so.fmin_ncg(lambda q: np.sum((q - v) ** 2), s, lambda q: 2 * (q - v), disp=0)",
    "so.minimize_scalar(lambda q: (q - a) ** 2 + 0.1 * q ** 4).x",
    "so.minimize_scalar(lambda q: (q - a) ** 2 + 0.1 * q ** 4, bracket=(e, f)).x",
    "so.minimize_scalar(lambda q: (q - a) ** 2 + 0.1 * q ** 4, bounds=(e, f)).x",
    "so.brent(lambda q: (q - a) ** 2 + 0.1 * q ** 4)",
    "so.golden(lambda q: (q - a) ** 2 + 0.1 * q ** 4)",
    "so.fminbound(lambda q: (q - a) ** 2 + 0.1 * q ** 4, e, f)",
    "so.brute(lambda q: np.sum((q - v) ** 2), ((-1, 1),) * 3, Ns=3, finish=None)",
    "so.basinhopping(lambda q: np.sum((q - v) ** 2), s, niter=2, seed=3).x",
    "so.differential_evolution(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 3, seed=3, maxiter=3).x",
    "so.dual_annealing(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 3, seed=3, maxiter=3).x",
    "so.direct(lambda q: np.sum((q - v) ** 2), [(-4, 4)] * 3, maxiter=10).x",
    "so.direct(lambda q: np.sum((q - v) ** 2), so.Bounds(lo, hi), maxiter=10).x",
    "so.shgo(lambda q: np.sum((q - v[:3]) ** 2), [(-4, 4)] * 3, iters=1).x",
    *[
        f"so.least_squares(lambda q: M @ q + 0.1 * np.sum(q ** 3) - b, s{k}).x"
        for k in (
            "",
            ", method='lm'",
            ", method='dogbox'",
            ", bounds=(lo, hi)",
            ", loss='soft_l1'",
            ", loss='huber', f_scale=a",
        )
    ],
    "so.leastsq(lambda q: M @ q + 0.1 * np.sum(q ** 3) - b, s)[0]",
    "so.curve_fit(lambda t, b, c: b * np.exp(-c * t), t, y, p2)",
    "so.curve_fit(lambda t, b, c: b * np.exp(-c * t), t, y, p2, sigma=sg)",
    "so.curve_fit(lambda t, b, c: b * np.exp(-c * t), t, y, p2, sigma=sg, absolute_sigma=True)",
    "so.curve_fit(lambda t, b, c: b * np.exp(-c * t), t, y, bounds=(0, hi[1] * 5))",
    "so.lsq_linear(M, b).x",
    "so.lsq_linear(M, b, (lo, hi)).x",
    "so.lsq_linear(M, b, so.Bounds(lo, hi)).x",
    "so.lsq_linear(M, b, (-1.0, 0.3), method='bvls').x",
    "so.nnls(M, b)",
    "so.linprog(c, A_ub=M, b_ub=b * b + 1).x",
    "so.linprog(c, A_ub=-M, b_ub=-b*b, bounds=(0, 9)).x",
    "so.linprog(c, A_eq=M[:1], b_eq=b[:1], bounds=[(0, 9)]*3).x",
    "so.linprog(-c, bounds=np.stack([lo,hi],1)).x",
    "so.linear_sum_assignment(Q)",
    "so.linear_sum_assignment(M, True)",
    "so.isotonic_regression(y).x",
    "so.isotonic_regression(y, weights=w).x",
    "so.isotonic_regression(y, increasing=False).x",
    "so.rosen(v)",
    "so.rosen_der(v)",
    "so.rosen_hess(v)",
    "so.rosen_hess_prod(v, s)",
    "so.rosen(M)",
    "so.rosen_der(M)",
    "so.approx_fprime(s, lambda q: np.sum(q**2))",
    "so.check_grad(lambda q: np.sum(q**2), lambda q: 2*q, s)",
]
