"""Numbers that leave a trace: each is right, or raises; nothing is wrong in silence.

1.5   a plain number made of a value that is differentiated raises, whoever asks for it
1.9   solve_ivp gives the same time points with and without derivatives
1.15  math.sin of a traced number raises wherever it is called from, and says what to write
4.2   cards name only functions that exist
"""

from __future__ import annotations

import cmath
import functools
import itertools
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.stats

import fgrad
import fgrad.scipy.integrate
import fgrad.scipy.optimize
from fgrad import config, grad
from fgrad.errors import FgradError, LostDerivativeError

ROOT = Path(__file__).resolve().parents[2]


def _fill(a: Any) -> Any:
    m = np.zeros(3)
    m.fill(a)
    return m.sum() * a


def _set_item(a: Any) -> Any:
    y = np.ones(3)
    y.__setitem__(0, a)
    return y.sum() * a


def _store(a: Any) -> Any:
    y = np.ones(3)
    y[0] = a
    return y.sum() * a


RAISES: dict[str, Callable[[Any], Any]] = {
    "1.5 math.sin": lambda x: x**2 + math.sin(x),
    "1.5 map": lambda x: sum(map(math.exp, [x, x])),
    "1.5 dictionary": lambda x: {"e": math.exp}["e"](x),
    "1.5 partial": lambda x: functools.partial(math.exp)(x),
    "1.5 cmath": lambda x: cmath.exp(x).real * x,
    "1.5 statistics": lambda x: statistics.NormalDist(0.0, 1.0).cdf(math.sin(x)),
    "1.5 accumulate": lambda x: list(itertools.accumulate([x, x], math.hypot))[-1],
    "1.5 float": lambda x: float(x) * x,
    "1.5 item": lambda x: x * np.sum(x * x).item(),
    "1.5 tolist": lambda x: x * sum(np.stack([x, x]).tolist()),
    "1.5 fill": _fill,
    "1.5 setitem": _set_item,
    "1.5 store": _store,
    "1.5 initial": lambda x: np.sum(np.ones(3), initial=x),
    "1.5 interp": lambda x: np.interp(-1.0, np.arange(3.0), np.arange(3.0), left=x),
    "1.5 percent": lambda x: float("%.3f" % x) * x,  # noqa: UP031 - it is what is tested
    "1.5 isnan": lambda x: x * (2.0 if math.isnan(x) else 1.0),
    "1.5 np.float64": lambda x: np.float64(x) * x,
    "1.5 scipy quad": lambda x: scipy.integrate.quad(lambda t: np.exp(-x * t), 0.0, 1.0)[0],
    "1.5 scipy dblquad": lambda x: scipy.integrate.dblquad(lambda s, t: x * s, 0, 1, 0, 1)[0],
    "1.5 scipy nquad": lambda x: scipy.integrate.nquad(lambda t: x * t, [(0, 1)])[0],
    "1.5 scipy brentq": lambda x: scipy.optimize.brentq(lambda t: t - x, 0.0, 9.0),
    "1.5 scipy bisect": lambda x: scipy.optimize.bisect(lambda t: t - x, 0.0, 9.0),
    "1.5 scipy ridder": lambda x: scipy.optimize.ridder(lambda t: t - x, 0.0, 9.0),
    "1.5 expect": lambda x: scipy.stats.norm.expect(lambda t: t * x),
}


@pytest.mark.parametrize("name", RAISES)
def test_a_number_that_would_lose_its_derivative_raises(name: str) -> None:
    with config.override(capture=False), pytest.raises(Exception) as found:
        grad(RAISES[name])(1.5)
    error: BaseException | None = found.value
    while error is not None and not isinstance(error, FgradError):
        error = error.__cause__ or error.__context__  # NumPy and SciPy put their own on top
    assert isinstance(error, FgradError)


@pytest.mark.parametrize("name", RAISES)
def test_captured_it_has_its_derivative_or_raises(name: str) -> None:
    f = RAISES[name]
    try:
        found = grad(f)(1.5)
    except Exception:  # the test above says of what kind
        return
    step = 1e-6
    assert abs(found - (f(1.5 + step) - f(1.5 - step)) / (2 * step)) < 1e-6


def test_what_fgrads_own_solvers_find_has_its_derivative() -> None:
    """1.5: `root_scalar` gave 1.260 for x * root, which has slope 1.680."""

    def f(p: Any) -> Any:
        found = fgrad.scipy.optimize.root_scalar(lambda x: x**3 - p, bracket=(0.0, 9.0))
        return p * found.root

    np.testing.assert_allclose(grad(f)(2.0), 4 / 3 * 2 ** (1 / 3), rtol=1e-9)


FREE: dict[str, tuple[Callable[[Any], Any], float]] = {
    "1.5 int, round, bool": (lambda x: x * int(x) * round(x) * bool(x), 2.0),
    "1.5 comparison": (lambda x: x * (3.0 if x > 1 else 0.0), 3.0),
    "1.5 text": (lambda x: (x, f"{x:.3f}", f"{x}", str(x), print(x, end=""))[0], 1.0),
    "1.5 stop_gradient": (lambda x: x * float(fgrad.stop_gradient(x)), 1.5),
    "1.5 another value": (lambda x: x * math.sin(np.float64(0.5) * 1.0), math.sin(0.5)),
}


@pytest.mark.parametrize("name", FREE)
def test_what_loses_no_derivative_goes_on(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fun, slope = FREE[name]
    assert grad(fun)(1.5) == slope


def test_a_log_is_plain_when_the_trace_has_ended() -> None:
    """1.5"""
    log: list[Any] = []
    grad(lambda x: (log.append(np.sum(x**2)), log[-1])[1])(np.arange(3.0))
    assert (float(log[0]), f"{log[0]:.1f}", np.asarray(log).tolist()) == (5.0, "5.0", [5.0])


PROGRAM = """
import math, fgrad
def f(x):
    return (x**2
            + math.sin(
                x))

try:
    print("right", abs(fgrad.grad(f)(1.0) - 2.0 - math.cos(1.0)) < 1e-12)
except fgrad.errors.LostDerivativeError as error:
    print("raised", "np.sin(x)" in str(error), "stop_gradient(x)" in str(error))

"""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["-c", PROGRAM], ""), (["-c", f"exec({PROGRAM!r})"], ""), (["-i", "-q"], PROGRAM)],
    ids=["1.15 -c", "1.15 exec", "1.15 prompt"],
)
def test_it_does_not_matter_where_code_comes_from(arguments: list[str], text: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], input=text, cwd=ROOT, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    # Python 3.13 keeps the source of such code, so `math.sin` is rewritten there.
    assert {"raised True True", "right True"} & set(done.stdout.splitlines()), done.stderr


def test_solve_ivp_has_the_same_time_points_in_all_modes() -> None:
    """1.9"""

    def solve(k: Any) -> Any:
        return fgrad.scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0])

    kept: list[Any] = []
    grad(lambda k: (kept.append(solve(k)), np.mean(kept[0].y))[1])(1.0)
    np.testing.assert_array_equal(np.asarray(kept[0].t), solve(1.0).t)


SOLVERS: dict[str, Callable[[Any], Any]] = {
    "4.2 fsolve": lambda p: scipy.optimize.fsolve(lambda x: x - p, 1.0)[0],
    "4.2 minimize_scalar": lambda p: scipy.optimize.minimize_scalar(lambda x: (x - p) ** 2),
    "4.2 least_squares": lambda p: scipy.optimize.least_squares(lambda x: x - p, 1.0)["x"],
    "4.2 bisect": lambda p: scipy.optimize.bisect(lambda x: x - p, 0.0, 9.0),
    "4.2 linprog": lambda p: scipy.optimize.linprog([1.0], [[-1.0]], np.stack([p]))["x"],
    "4.2 trapezoid": lambda p: scipy.integrate.trapezoid(np.stack([p, p])),
    "4.2 simpson": lambda p: scipy.integrate.simpson(np.stack([p, p, p])),
    "4.2 romb": lambda p: scipy.integrate.romb(np.stack([p, p, p])),
    "4.2 wishart": lambda p: scipy.stats.wishart.logpdf(p, 3, 1.0),
    "4.2 solve_banded": lambda p: scipy.linalg.solve_banded((0, 0), np.stack([p])[None], [1.0]),
    "4.2 math.erf": math.erf,
    "4.2 math.fsum": lambda p: math.fsum([p, p]),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_cards_name_what_exists(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with config.override(capture=False), pytest.raises(Exception) as found:
        grad(SOLVERS[name])(1.5)
    said, error = capfd.readouterr().err, found.value
    while error is not None:
        said, error = said + str(error), error.__cause__ or error.__context__
    assert "write" in said
    named = re.findall(r"\b(?:np|fgrad)(?:\.\w+)+", said.replace("fgrad.errors", ""))
    assert named
    for path in named:
        owner: Any = {"np": np, "fgrad": fgrad}[path.split(".")[0]]
        for part in path.split(".")[1:]:
            owner = getattr(owner, part)
        assert path.startswith("np.") or owner.__module__.startswith("fgrad")


def test_the_error_is_one_that_numpy_does_not_replace() -> None:
    """1.5: NumPy puts words of its own in the place of a TypeError."""
    assert not issubclass(LostDerivativeError, TypeError)
