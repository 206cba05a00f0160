"""`progress=` means the same wherever it is taken: calls of (done, count), or lines on stderr."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.scipy.integrate as integrate
import fgrad.scipy.optimize as optimize
import fgrad.scipy.sparse.linalg as linear
from fgrad import optim
from fgrad.base import progress as module
from fgrad.base.progress import Progress
from fgrad.lax import fori_loop, scan
from fgrad.lax import map as lax_map


def bowl(x: Any) -> Any:
    return np.sum((x - 2.0) ** 2)


def cubic(x: Any) -> Any:
    return x**3 - 8.0


MATRIX, RIGHT = np.diag([2.0, 3.0, 5.0]) + 0.1, np.arange(3.0)
SYSTEMS = (
    "cg", "bicgstab", "gmres", "minres", "bicg", "cgs", "qmr", "tfqmr", "lgmres", "gcrotmk",
)  # fmt: skip
LEAST_SQUARES = ("lsqr", "lsmr")


def decay(t: Any, y: Any) -> Any:
    return -y


Work = Callable[[Any], object]
STEPS: dict[str, Work] = {
    "scan": lambda p: scan(lambda c, x: (c + x, None), 0.0, np.arange(7.0), progress=p)[0],
    "scan reversed": lambda p: scan(
        lambda c, x: (c + x, None), 0.0, np.arange(7.0), reverse=True, progress=p
    )[0],
    "fori_loop": lambda p: fori_loop(2, 9, lambda i, x: x + i, 0, progress=p),
    "jit": lambda p: fgrad.jit(lambda n: fori_loop(0, 7, lambda i, x: x + i, n, progress=p))(0.0),
    "vmap": lambda p: fgrad.jit(
        fgrad.vmap(lambda n: fori_loop(0, 7, lambda i, x: x + i, n, progress=p))
    )(np.zeros(3)),
    "grad": lambda p: fgrad.jit(
        fgrad.grad(lambda x: fori_loop(0, 7, lambda i, y: y * x, x, progress=p))
    )(1.1),
    "map": lambda p: lax_map(lambda x: x * 2, np.arange(7.0), progress=p),
    "map in batches": lambda p: lax_map(
        lambda x: x * 2, np.arange(15.0), batch_size=2, progress=p
    ),
    "parallel": lambda p: fgrad.parallel.map(abs, range(7), progress=p),
}  # fmt: skip
EVALUATIONS: dict[str, Work] = {
    "minimize": lambda p: optimize.minimize(bowl, np.zeros(2), progress=p).x,
    "without gradient": lambda p: optimize.minimize(
        bowl, np.zeros(2), method="Nelder-Mead", progress=p
    ).x,
    "a tree": lambda p: optimize.minimize(
        lambda t: bowl(t["a"]), {"a": np.zeros(2)}, progress=p
    ).x["a"],
    "root": lambda p: optimize.root(lambda x: x - 2.0, np.zeros(2), progress=p).x,
    "least_squares": lambda p: optimize.least_squares(
        lambda x: x - 2.0, np.zeros(2), progress=p
    ).x,
    "curve_fit": lambda p: optimize.curve_fit(
        lambda x, a: a * x, np.arange(3.0), np.arange(3.0), progress=p
    )[0],
    "fmin_bfgs": lambda p: optimize.fmin_bfgs(bowl, np.zeros(2), disp=0, progress=p),
    "root_scalar": lambda p: optimize.root_scalar(cubic, x0=1.0, method="newton", progress=p).root,
    "brentq": lambda p: optimize.brentq(cubic, 0.0, 9.0, progress=p),
    "newton": lambda p: optimize.newton(cubic, 1.0, progress=p),
    "fsolve": lambda p: optimize.fsolve(lambda x: x - 2.0, np.zeros(2), progress=p),
    "broyden1": lambda p: optimize.broyden1(lambda x: x - 2.0, np.zeros(2), progress=p),
    "minimize_scalar": lambda p: optimize.minimize_scalar(bowl, progress=p).x,
    "fminbound": lambda p: optimize.fminbound(bowl, 0.0, 5.0, progress=p),
    "brent": lambda p: optimize.brent(bowl, progress=p),
    "golden": lambda p: optimize.golden(bowl, progress=p),
    **{f"optim {m}": lambda p, m=m: optim.minimize(bowl, np.zeros(2), method=m, progress=p).x
       for m in ("l-bfgs", "newton-cg", "trust-ncg", "nelder-mead")},
    "optim fixed_point": lambda p: optim.fixed_point(np.cos, 1.0, progress=p).x,
    "optim jit": lambda p: fgrad.jit(
        lambda x: optim.minimize(bowl, x, progress=p).x)(np.zeros(2)),
    **{name: lambda p, name=name: getattr(linear, name)(MATRIX, RIGHT, progress=p)[0]
       for name in (*SYSTEMS, *LEAST_SQUARES)},
    "differential_evolution": lambda p: optimize.differential_evolution(
        bowl, [(-5.0, 5.0)], rng=1, maxiter=3, progress=p
    ).x,
}  # fmt: skip
INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "minimize": lambda p, q: optimize.minimize(
        lambda x: bowl(x - q), np.zeros(2), progress=p
    ).x[0],
    "root": lambda p, q: optimize.root(lambda x: x - q, np.zeros(2), progress=p).x[0],
    "least_squares": lambda p, q: optimize.least_squares(
        lambda x: x - q, np.zeros(2), progress=p
    ).x[0],
    "curve_fit": lambda p, q: optimize.curve_fit(
        lambda x, a: a * x, np.arange(3.0), q * np.arange(3.0), progress=p
    )[0][0],
    "root_scalar": lambda p, q: optimize.root_scalar(
        lambda x: cubic(x) + q, bracket=(0.0, 9.0), progress=p
    ).root,
    "brentq": lambda p, q: optimize.brentq(lambda x: cubic(x) + q, 0.0, 9.0, progress=p),
    "newton": lambda p, q: optimize.newton(lambda x: cubic(x) + q, 1.0, progress=p),
    "fsolve": lambda p, q: optimize.fsolve(lambda x: x - q, np.zeros(2), progress=p)[0],
    "broyden1": lambda p, q: optimize.broyden1(lambda x: x - q, np.zeros(2), progress=p)[0],
    "minimize_scalar": lambda p, q: optimize.minimize_scalar(
        lambda x: bowl(x - q), progress=p
    ).x,
    "brent": lambda p, q: optimize.brent(lambda x: bowl(x - q), progress=p),
    "optim": lambda p, q: optim.minimize(lambda x: bowl(x - q), 0.0, progress=p).x,
    "optim fixed_point": lambda p, q: optim.fixed_point(
        lambda x: np.cos(q * x), 1.0, progress=p
    ).x,
    "fmin_bfgs": lambda p, q: optimize.fmin_bfgs(
        lambda x: bowl(x - q), np.zeros(2), disp=0, progress=p
    )[0],
}  # fmt: skip
TIMES: dict[str, Work] = {
    "odeint": lambda p: integrate.odeint(
        decay, [1.0], np.array([1.0, 3.0]), tfirst=True, progress=p
    ),
    "solve_ivp": lambda p: integrate.solve_ivp(decay, (1.0, 3.0), [1.0], progress=p).y,
    "traced": lambda p: fgrad.jit(
        lambda y: integrate.solve_ivp(decay, (1.0, 3.0), y, t_eval=[3.0], progress=p).y
    )(np.ones(1)),
    "by scipy": lambda p: fgrad.jit(
        lambda y: integrate.solve_ivp(
            decay, (1.0, 3.0), y, "BDF", t_eval=[3.0], progress=p
        ).y
    )(np.ones(1)),
}  # fmt: skip
ALL = {**STEPS, **EVALUATIONS, **TIMES}


def seen_by(work: Work) -> list[tuple[Any, Any]]:
    seen: list[tuple[Any, Any]] = []
    work(lambda done, count: seen.append((done, count)))
    return seen


@pytest.mark.parametrize("name", STEPS)
def test_each_step_counts_once(name: str) -> None:
    assert seen_by(STEPS[name]) == [(k, 7) for k in range(1, 8)]


def test_steps_that_a_checkpoint_computes_again_are_told_again() -> None:
    def last(x: Any, progress: Progress) -> Any:
        return scan(lambda c, _: (c * x, None), x, None, 7, checkpoint=True, progress=progress)[0]

    seen = seen_by(lambda p: fgrad.jit(fgrad.grad(lambda x: last(x, p)))(1.1))
    assert seen[:7] == [(k, 7) for k in range(1, 8)] and len(seen) > 7


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluations_are_counted(name: str) -> None:
    seen = seen_by(EVALUATIONS[name])
    assert seen and seen == [(k, None) for k in range(1, len(seen) + 1)]


@pytest.mark.parametrize("name", INSIDE)
def test_so_they_are_inside_of_transforms(name: str) -> None:
    seen = seen_by(lambda p: fgrad.jit(fgrad.value_and_grad(lambda q: INSIDE[name](p, q)))(1.0))
    assert seen and seen == [(k, None) for k in range(1, len(seen) + 1)]


@pytest.mark.parametrize("name", (*SYSTEMS, *LEAST_SQUARES))
def test_systems_tell_their_steps_forward_and_back(name: str) -> None:
    def first(q: Any, p: Progress) -> Any:
        matrix = MATRIX if name in LEAST_SQUARES else lambda x: MATRIX @ x
        return getattr(linear, name)(matrix, q * RIGHT, progress=p)[0][0]

    seen = seen_by(lambda p: fgrad.jit(fgrad.grad(first), static_argnums=1)(1.0, p))
    assert seen[0] == (1, None)
    assert {whole for _, whole in seen} == {None}
    assert all([b[0] in (1, a[0] + 1) for a, b in itertools.pairwise(seen)])


def test_examples_of_a_batch_are_told_of() -> None:
    seen = seen_by(lambda p: fgrad.vmap(lambda x: optim.minimize(bowl, x, progress=p).x)(
        np.array([2.0, 9.0])))  # fmt: skip
    assert seen and max(seen)[0] >= 1


@pytest.mark.parametrize("name", TIMES)
def test_equations_tell_their_time(name: str) -> None:
    seen = seen_by(TIMES[name])
    assert {whole for _, whole in seen} == {2.0}
    assert max(done for done, _ in seen) == 2.0


@pytest.mark.parametrize("name", ALL)
def test_results_are_the_same(name: str) -> None:
    quiet: Progress = lambda _done, _count: None  # noqa: E731
    np.testing.assert_array_equal(ALL[name](quiet), ALL[name](False))


def test_many_steps_are_told_about_a_hundred_times() -> None:
    seen = seen_by(lambda p: fori_loop(0, 1234, lambda i, x: x + i, 0, progress=p))
    assert 100 <= len(seen) <= 110 and seen[-1] == (1234, 1234)


@pytest.mark.parametrize("name", ALL)
def test_where_nobody_watches_there_is_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ALL[name](True)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ALL)
def test_without_it_nothing_is_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ALL[name](False)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["scan", "minimize", "odeint", "jit"])
def test_on_a_terminal_lines_are_written_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "PERIOD", 0.0)
    ALL[name](True)
    text = stream.getvalue()
    assert text.count("\r") > 2 and text.count("\n") == 1 and text.endswith("\n")


def test_a_failure_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    def raises(x: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fgrad.parallel.map(raises, [1, 2], progress=True)
    assert capsys.readouterr().err.count("\n") <= 1
