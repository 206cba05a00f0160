"""Every supported name of SciPy has a row; the calls of a table: values, derivatives, jit, vmap.

Rows of special functions are those of `tests/scipy/test_special.py` and `test_special_families.py`,
those of signals, images and interpolation those of `test_array_cases.py`.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy_array_cases import CASES
from scipy_calls import ARRAYS, CALLS, CONSTANTS, MODULES, sparse_of
from scipy_special_cases import OPERANDS, ORDERS
from sources import ROOT

import fgrad
from fgrad.errors import FgradError, MissingRuleError
from fgrad.scipy import special
from fgrad.scipy.special import elementary

sys.path.insert(0, str(ROOT / "docs"))
NAMES = importlib.import_module("scipy_names")
PLAIN, OWN = [
    {short: importlib.import_module(f"{top}.{name}") for short, name in MODULES.items()}
    for top in ("scipy", "fgrad.scipy")
]
RNG = np.random.default_rng(4)


def _program(line: str, own: bool) -> tuple[Callable[..., Any], list[str]]:
    read = {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)}
    names = sorted(read & {*ARRAYS})
    modules = OWN if own else PLAIN
    scope = {**CONSTANTS, "sparse": sparse_of(own), **modules}
    return eval(f"lambda {', '.join(names)}: {line}", scope), names


def _arrays(found: Any) -> list[Any]:
    """The results that are arrays, of nested tuples, lists and result objects."""
    if isinstance(found, dict):
        found = tuple(found.values())
    elif hasattr(found, "slope"):
        found = (found.slope, found.intercept)
    elif hasattr(found, "pvalue"):
        found = (found.statistic, found.pvalue)
    elif not isinstance(found, (tuple, list)) and hasattr(found, "toarray"):
        return [found.toarray()]
    if not isinstance(found, (tuple, list)):
        return (
            [found] if hasattr(found, "dtype") or isinstance(found, (int, float, complex)) else []
        )
    return [x for part in found for x in _arrays(part)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _both(line: str) -> tuple[Callable[..., Any], Callable[..., Any], list[str], list[np.ndarray]]:
    own, names = _program(line, True)
    given = [ARRAYS[n] for n in names]
    return (
        lambda *a: _arrays(own(*a)),
        lambda *a: _arrays(_program(line, False)[0](*a)),
        names,
        given,
    )


BY_VALUES = {  # shapes, or how many steps, are known from values: a card under jit and vmap
    "sl.null_space", r"sl.orth\(", "nd.extrema", "st.sigmaclip",
    r"si.solve_ivp\(((?!t_eval).)*$",
}  # fmt: skip
WITHOUT = ["cossin", "hessenberg", "ldl", "ordqz", "qz", "rsf2csf", "schur"]  # derivatives: a card
LOOSE = ("so.", "st.boxcox_normmax", "st.yeojohnson_normmax")  # SciPy's results have 1e-8 of error


SEARCHES = ("so.brute", "so.direct", "so.dual_annealing")  # for v: SciPy's are no smooth functions


def _nearest(v: np.ndarray) -> list[np.ndarray]:
    """The result of a search for v in place of SciPy's."""
    return [v]


def _is_by_values(line: str) -> bool:
    return any([re.match(pattern, line) for pattern in BY_VALUES])


def _has_no_derivative(line: str) -> bool:
    return any([f"sl.{name}(" in line for name in WITHOUT])


@pytest.mark.parametrize("line", CALLS)
def test_values(line: str) -> None:
    own, plain, _, given = _both(line)
    wanted = plain(*given)
    if _is_by_values(line):
        with pytest.raises(FgradError):
            fgrad.jit(own)(*given)
        found = fgrad.vjp(own, *given)[0]
    else:
        found = fgrad.jit(own)(*given)
    assert len(found) == len(wanted) > 0
    for x, y in zip(found, wanted, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-8)


def _loss(f: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*xs: Any) -> Any:
        total = 0.0
        for out in f(*xs):
            out = np.where(np.isnan(out), 0.0, out)
            weights = np.cos(np.arange(np.size(out))).reshape(np.shape(out))
            total = total + np.sum((np.abs(out) ** 2 * 0.1 + np.real(out)) * weights)
        return total

    return loss


@pytest.mark.parametrize("line", CALLS)
def test_derivatives(line: str) -> None:
    own, plain, _, given = _both(line)
    ways = [RNG.normal(size=x.shape) + 0j * x for x in given]
    ways = [w if x.dtype.kind == "c" else w.real for w, x in zip(ways, given, strict=True)]
    slopes = fgrad.grad(_loss(own), argnums=tuple(range(len(given))))
    if _has_no_derivative(line):
        with pytest.raises(MissingRuleError, match=r"There is no derivative of scipy\.linalg\."):
            slopes(*given)
        return
    back = (slopes if _is_by_values(line) else fgrad.jit(slopes))(*given)
    slope = sum([np.sum(np.real(g * w)) for g, w in zip(back, ways, strict=True)])
    h, tolerance = (1e-3, 1e-3) if line.startswith(LOOSE) else (2e-5, 1e-4)
    tolerance = 1e-2 if line.startswith("so.fmin_tnc") else tolerance  # SciPy's ends early
    reference = _loss(_nearest if line.startswith(SEARCHES) else plain)
    ends = [reference(*[x + t * h * w for x, w in zip(given, ways, strict=True)]) for t in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=tolerance, abs=1e-5)


@pytest.mark.parametrize("line", [c for c in CALLS if not _is_by_values(c)])
def test_vmap_is_a_loop(line: str) -> None:
    own, _, _, given = _both(line)
    many = [np.stack([x, x * 1.01]) for x in given]
    found = fgrad.vmap(own)(*many)
    for k in range(2):
        for x, y in zip(found, own(*[x[k] for x in many]), strict=True):
            np.testing.assert_allclose(
                x[k], y, rtol=1e-5 if line.startswith(LOOSE) else 1e-7, atol=1e-8
            )


CHOICES = {"factorial", "sinc", "zeta", "comb", "perm"}  # no ufuncs of SciPy
ELEMENTARY = {  # those of tests/scipy/test_special.py, each with operands by its number of them
    name
    for name in {*special.PRIMITIVES, *dir(elementary)}
    if isinstance(getattr(PLAIN["sp"], name, None), np.ufunc) or name in CHOICES
}
ELSEWHERE = {  # names whose tests have no row of a table
    "interpolate": {"BivariateSpline", "sproot"},  # a base class; test_zeros_of_splines
    "stats": {"bootstrap"},  # test_resampling.py
    "integrate": {"OdeSolution"},  # of solve_ivp(dense_output=True).sol
}


@pytest.mark.parametrize("module", NAMES.WITHOUT)
def test_every_supported_name_has_a_row(module: str) -> None:
    short = {name: key for key, name in MODULES.items()}[module]
    rows = {*re.findall(rf"\b{short}\.(\w+)", " ".join([*CALLS, *CASES]))}
    rows |= ELSEWHERE.get(module, set())
    if module == "special":
        rows |= {*OPERANDS, *[key.split()[0] for key in ORDERS], *ELEMENTARY}
    assert sorted({*NAMES.classified(module)["supported"]} - rows) == []
