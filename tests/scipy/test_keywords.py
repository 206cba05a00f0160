"""Keywords that a function does not have are refused by name, under transforms, by all functions of
fgrad.scipy and fgrad.optim; those of SciPy's that mean something which is not done, too."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.sparse

import fgrad
import fgrad.optim
import fgrad.scipy.integrate as si
import fgrad.scipy.interpolate as ip
import fgrad.scipy.ndimage as nd
import fgrad.scipy.optimize as so
import fgrad.scipy.signal as sg
import fgrad.scipy.sparse.linalg as sl
import fgrad.scipy.spatial.distance as sd
from fgrad.errors import FgradError

Call = Callable[..., Any]
MODULES = (
    "signal", "ndimage", "interpolate", "sparse.linalg", "optimize", "integrate",
    "spatial.distance", "stats", "linalg", "fft", "special",
)  # fmt: skip
BANDED = np.diag(np.arange(4.0, 10)) + np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
PATTERN = scipy.sparse.csr_array(BANDED)
WINDOW, RIGHT, LINE, TIMES = (
    np.ones(4),
    np.arange(1.0, 7),
    np.linspace(0, 1, 12),
    np.linspace(0, 1, 3),
)


def matrix(p: Any) -> Any:
    return fgrad.sparse.csr(p * PATTERN.data, PATTERN.indices, PATTERN.indptr, PATTERN.shape)


def bowl(p: Any) -> Call:
    return lambda x: np.sum((x - p) ** 2)


def cube(p: Any) -> Call:
    return lambda x: x * x * x - p


def each(names: str, call: Call) -> dict[str, Call]:
    """A call for each of some names: `call(name, p, **keywords)`."""
    return {
        name: lambda p, name=name, **k: call(name.split(".")[-1], p, **k) for name in names.split()
    }


ONCE = {"type": "eq", "fun": lambda x: x[0] - 1}
# Functions that take any keyword: they pass them on, and must look at them.
CALLS: dict[str, Call] = {
    "signal.ShortTimeFFT": lambda p, **k: sg.ShortTimeFFT(WINDOW, 2, 1.0, **k).stft(p * LINE),
    "ndimage.gaussian_gradient_magnitude": lambda p, **k: nd.gaussian_gradient_magnitude(
        p * LINE, 1.0, **k
    ),
    "ndimage.gaussian_laplace": lambda p, **k: nd.gaussian_laplace(p * LINE, 1.0, **k),
    "interpolate.AAA": lambda p, **k: ip.AAA(LINE, np.exp(LINE), **k)(p * 0.1),
    "interpolate.Rbf": lambda p, **k: ip.Rbf(LINE, p * np.exp(LINE), **k)(0.3),
    "sparse.linalg.LinearOperator": lambda p, **k: (
        sl.LinearOperator((6, 6), lambda x: p * x, **k) @ RIGHT
    ),
    **each(
        "sparse.linalg.cg sparse.linalg.gmres sparse.linalg.bicgstab sparse.linalg.bicg "
        "sparse.linalg.cgs sparse.linalg.gcrotmk sparse.linalg.lgmres sparse.linalg.minres "
        "sparse.linalg.qmr sparse.linalg.tfqmr sparse.linalg.lsqr sparse.linalg.lsmr",
        lambda name, p, **k: getattr(sl, name)(matrix(p), RIGHT, **k)[0],
    ),
    "sparse.linalg.eigs": lambda p, **k: sl.eigs(matrix(p), 2, **k)[0].real,
    "sparse.linalg.eigsh": lambda p, **k: sl.eigsh(matrix(p), 2, **k)[0],
    "sparse.linalg.lobpcg": lambda p, **k: sl.lobpcg(matrix(p), np.eye(6)[:, :1], **k)[0],
    "sparse.linalg.svds": lambda p, **k: sl.svds(matrix(p), 2, **k)[1],
    "sparse.linalg.splu": lambda p, **k: sl.splu(matrix(p), **k).solve(RIGHT),
    **each(
        "optimize.anderson optimize.broyden1 optimize.broyden2 optimize.diagbroyden "
        "optimize.excitingmixing optimize.linearmixing optimize.newton_krylov",
        lambda name, p, **k: getattr(so, name)(lambda x: p - x - x**3 / 9, np.full(2, 0.3), **k),
    ),
    **each(
        "optimize.bisect optimize.brenth optimize.brentq optimize.ridder optimize.toms748",
        lambda name, p, **k: getattr(so, name)(cube(p), 0.0, 9.0, **k),
    ),
    **each(
        "optimize.fmin optimize.fmin_bfgs optimize.fmin_cg optimize.fmin_powell",
        lambda name, p, **k: getattr(so, name)(bowl(p), np.ones(2), disp=0, **k),
    ),
    "optimize.fmin_ncg": lambda p, **k: so.fmin_ncg(bowl(p), np.ones(2), None, disp=0, **k),
    "optimize.fmin_l_bfgs_b": lambda p, **k: so.fmin_l_bfgs_b(bowl(p), np.ones(2), **k)[0],
    "optimize.fmin_tnc": lambda p, **k: so.fmin_tnc(bowl(p), np.ones(2), disp=0, **k)[0],
    "optimize.leastsq": lambda p, **k: so.leastsq(lambda x: x - p, np.ones(2), **k)[0],
    "optimize.basinhopping": lambda p, **k: so.basinhopping(bowl(p), np.ones(2), niter=2, **k).x,
    **each(
        "optimize.differential_evolution optimize.dual_annealing optimize.shgo optimize.direct",
        lambda name, p, **k: getattr(so, name)(bowl(p), [(-5.0, 5.0)], **k).x,
    ),
    "optimize.brute": lambda p, **k: so.brute(bowl(p), [(-5.0, 5.0)], **k),
    "optimize.fminbound": lambda p, **k: so.fminbound(bowl(p), 0.0, 3.0, **k),
    "optimize.brent": lambda p, **k: so.brent(bowl(p), **k),
    "optimize.golden": lambda p, **k: so.golden(bowl(p), **k),
    "optimize.minimize": lambda p, **k: so.minimize(bowl(p), np.ones(2), **k).x,
    "optimize.minimize of a tree": lambda p, **k: so.minimize(
        lambda x: bowl(p)(x["a"]), {"a": np.ones(2)}, **k
    ).x["a"],
    "optimize.minimize constrained": lambda p, **k: (
        so.minimize(bowl(p), np.ones(2), constraints=ONCE, **k).x
    ),
    "optimize.minimize_scalar": lambda p, **k: so.minimize_scalar(bowl(p), **k).x,
    "optimize.least_squares": lambda p, **k: so.least_squares(lambda x: x - p, np.ones(2), **k).x,
    "optimize.curve_fit": lambda p, **k: so.curve_fit(
        lambda x, a: a * x, LINE, p * LINE, [1.0], **k
    )[0],
    "optimize.newton": lambda p, **k: so.newton(cube(p), 1.0, **k),
    "optimize.root": lambda p, **k: so.root(cube(p), np.ones(2), **k).x,
    "optimize.root_scalar": lambda p, **k: so.root_scalar(cube(p), bracket=(0.0, 9.0), **k).root,
    "optimize.fsolve": lambda p, **k: so.fsolve(cube(p), np.ones(2), **k),
    "integrate.odeint": lambda p, **k: si.odeint(lambda y, t: -p * y, np.ones(1), TIMES, **k),
    "integrate.quad": lambda p, **k: si.quad(lambda x: p * x, 0.0, 1.0, **k)[0],
    "integrate.solve_ivp": lambda p, **k: (
        si.solve_ivp(lambda t, y: -p * y, (0.0, 1.0), np.ones(1), t_eval=TIMES, **k).y
    ),
    "integrate.solve_ivp by Radau": lambda p, **k: (
        si.solve_ivp(lambda t, y: -p * y, (0.0, 1.0), np.ones(1), "Radau", t_eval=TIMES, **k).y
    ),
    "spatial.distance.cdist": lambda p, **k: sd.cdist(p * BANDED, BANDED, **k),
    "spatial.distance.pdist": lambda p, **k: sd.pdist(p * BANDED, **k),
    "spatial.distance.cdist minkowski": lambda p, **k: sd.cdist(
        p * BANDED, BANDED, "minkowski", **k
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("transform", [fgrad.grad, fgrad.jit])
def test_unknown_keywords_are_refused(name: str, transform: Any) -> None:
    f = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(fgrad.jit(lambda p: np.sum(np.abs(f(p))))(2.0))
        with pytest.raises((TypeError, ValueError, FgradError), match="nonsense"):
            transform(lambda p: np.sum(np.abs(f(p, nonsense=3))))(2.0)


def functions(module: str) -> Iterator[tuple[str, Call]]:
    """The functions of a module that have a traced form, and take no keyword but their own."""
    theirs = importlib.import_module(f"scipy.{module}")
    ours = importlib.import_module(f"fgrad.scipy.{module}")
    for name in sorted(theirs.__all__):
        found = getattr(ours, name, None)
        if f"{module}.{name}" in CALLS or not callable(found) or isinstance(found, type):
            continue
        inner = inspect.unwrap(found)
        if (getattr(inner, "__module__", None) or type(inner).__module__).startswith("fgrad."):
            yield name, found


def required(function: Call) -> int:
    """How many arguments a function needs."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum([p.default is p.empty and p.kind in kinds for p in parameters])


@pytest.mark.parametrize("module", MODULES)
def test_unknown_keywords_of_others_are_refused(module: str) -> None:
    accepted = []
    for name, function in functions(module):
        count = max(required(function), 1)
        try:
            fgrad.jit(lambda x, f=function, n=count: f(*[x] * n, nonsense=3))(1.0)
            accepted.append(name)
        except Exception as error:
            if "nonsense" not in str(error):
                accepted.append(f"{name}: {error}")
    assert not accepted


def test_unknown_keywords_of_optimisers_are_refused() -> None:
    for name in fgrad.optim.__all__:
        found = getattr(fgrad.optim, name)
        if callable(found) and not isinstance(found, type):
            with pytest.raises((TypeError, FgradError), match="nonsense"):
                found(*[1.0] * max(required(found), 1), nonsense=3)


# A keyword of SciPy's that means something, which the traced form does not do.
MEANT: dict[str, tuple[Call, dict[str, Any]]] = {
    "quad weight": (CALLS["integrate.quad"], {"weight": "cos", "wvar": 1.0}),
    "quad full_output": (CALLS["integrate.quad"], {"full_output": 1}),
    "odeint tcrit": (CALLS["integrate.odeint"], {"tcrit": [0.5]}),
    "solve_ivp lband": (CALLS["integrate.solve_ivp by Radau"], {"lband": 1}),
    "curve_fit full_output": (CALLS["optimize.curve_fit"], {"full_output": True}),
    "curve_fit nan_policy": (CALLS["optimize.curve_fit"], {"nan_policy": "omit"}),
    "newton full_output": (CALLS["optimize.newton"], {"full_output": True}),
    "fmin retall": (CALLS["optimize.fmin"], {"retall": 1}),
    "brute full_output": (CALLS["optimize.brute"], {"full_output": 1}),
    "brentq full_output": (CALLS["optimize.brentq"], {"full_output": True}),
    "eigsh M": (CALLS["sparse.linalg.eigsh"], {"M": BANDED}),
    "eigs OPinv": (CALLS["sparse.linalg.eigs"], {"OPinv": BANDED}),
    "svds options": (CALLS["sparse.linalg.svds"], {"options": {"maxiter": 3}}),
    "lobpcg B": (CALLS["sparse.linalg.lobpcg"], {"B": BANDED}),
    "eigh subset_by_index": (
        lambda p, **k: fgrad.scipy.linalg.eigh(p * BANDED, **k)[0], {"subset_by_index": [0, 1]}
    ),
    "eigh type": (lambda p, **k: fgrad.scipy.linalg.eigh(p * BANDED, **k)[0], {"type": 2}),
    "eigvals homogeneous_eigvals": (
        lambda p, **k: fgrad.scipy.linalg.eigvals(p * BANDED, **k), {"homogeneous_eigvals": True}
    ),
    "pinv return_rank": (
        lambda p, **k: fgrad.scipy.linalg.pinv(p * BANDED, **k), {"return_rank": True}
    ),
    "erf out": (lambda p, **k: fgrad.scipy.special.erf(p * LINE, **k), {"out": np.zeros(12)}),
    "erf where": (lambda p, **k: fgrad.scipy.special.erf(p * LINE, **k), {"where": LINE > 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_keywords_that_mean_something_are_not_ignored(name: str) -> None:
    f, keywords = MEANT[name]
    option = next(iter(keywords))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, ValueError, FgradError), match=option):
            fgrad.grad(lambda p: np.sum(np.abs(f(p, **keywords))))(2.0)
