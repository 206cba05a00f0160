"""Interrupts at random moments of first uses: the process must work as before.

    python tests/faults/interrupts.py --seed 0 --count 10000

A parent imports fgrad and forks; each child uses something for the first time while an alarm raises
`Interrupt` somewhere within, tries again under further alarms, and then without one.  Then the
result must be right, and so must a few results of everything else; nothing may be left behind: no
open trace, no garbage collector that is turned off, no lock that is held.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad.trace import Tracer, innermost

X = np.linspace(0.1, 1.7, 12)
M = np.linspace(-1.0, 1.0, 16).reshape(4, 4) + 3.0 * np.eye(4)


THRESHOLD = gc.get_threshold()


class Interrupt(BaseException):
    """What the alarm raises."""


def _loop(x: Any) -> Any:
    return fgrad.lax.scan(lambda c, v: (np.sin(c) * v, c), x[0], x)[0]


def _while(x: Any) -> Any:
    return fgrad.lax.while_loop(lambda y: np.sum(y) < 50.0, lambda y: y * 1.5, x)


def _ruled(x: Any) -> Any:
    @fgrad.custom_vjp
    def cube(y: Any) -> Any:
        return y**3

    cube.defvjp(lambda y: (y**3, y), lambda y, ct: (3 * y * y * ct,))
    return np.sum(cube(x))


def _written(x: Any) -> Any:
    y = x.copy()
    y[1:] *= x[:-1]
    v = y[::2]
    v += 1.0
    return np.sum(y * y)


def _optimised() -> Any:
    adam = fgrad.optim.adam(0.1)
    state, params = adam.init(X), X
    for _ in range(3):
        updates, state = adam.update(fgrad.grad(lambda p: np.sum(p * p))(params), state, params)
        params = fgrad.optim.apply_updates(params, updates)
    return params


def _special(x: Any) -> Any:
    special = importlib.import_module("scipy.special")  # in the child only
    return np.sum(special.gammaln(x) + special.erf(x))


USES: dict[str, Callable[[], Any]] = {
    "grad": lambda: fgrad.grad(lambda x: np.sum(np.tanh(x) * x))(X),
    "hessian": lambda: fgrad.hessian(lambda x: np.sum(np.sin(x) * np.cumsum(x)))(X),
    "jvp": lambda: fgrad.jvp(lambda x: np.exp(x) / (1 + x), (X,), (X,)),
    "linearize": lambda: fgrad.linearize(np.sqrt, X)[1](X),
    "vmap": lambda: fgrad.vmap(lambda r: np.linalg.norm(r) * r)(M),
    "vmap of grad": lambda: fgrad.vmap(fgrad.grad(lambda r: np.sum(np.sort(r) ** 2)))(M),
    "in place": lambda: fgrad.grad(_written)(X),
    "in place, jit": lambda: fgrad.jit(fgrad.grad(_written))(X),
    "jit": lambda: fgrad.jit(lambda x: np.sin(x) * 2 + 1)(X),
    "jit of grad": lambda: fgrad.jit(fgrad.grad(lambda x: np.sum(np.exp(-x * x) @ x[:, None])))(X),
    "jit of vmap": lambda: fgrad.jit(fgrad.vmap(lambda r: np.cumsum(r) @ M))(M),
    "jit, again": lambda: [fgrad.jit(np.cos)(X[:k]) for k in (3, 5, 7)],
    "jit, called often": lambda: [f(X) for f in [fgrad.jit(lambda x: x * x + 2)] for _ in range(9)],
    "scan": lambda: fgrad.jit(fgrad.value_and_grad(_loop))(X),
    "scan, eager": lambda: fgrad.grad(_loop)(X),
    "while": lambda: fgrad.jit(_while)(X),
    "linalg": lambda: fgrad.jit(lambda m: np.linalg.solve(m, np.linalg.cholesky(m @ m.T)))(M),
    "eigh": lambda: fgrad.grad(lambda m: np.sum(np.linalg.eigh(m + m.T)[0] ** 3))(M),
    "fft": lambda: fgrad.jit(lambda x: np.abs(np.fft.rfft(x)))(X),
    "sort": lambda: fgrad.jit(lambda m: (np.sort(m, axis=0), np.argsort(m)))(M),
    "einsum": lambda: fgrad.grad(lambda m: np.einsum("ij,jk,ki", m, m, m))(M),
    "random": lambda: fgrad.random.normal(fgrad.random.key(3), (5,)),
    "optim": _optimised,
    "custom rule": lambda: fgrad.grad(_ruled)(X),
    "custom rule, jit": lambda: fgrad.jit(fgrad.grad(_ruled))(X),
    "checkpoint": lambda: fgrad.grad(lambda x: np.sum(fgrad.checkpoint(np.sin)(x) ** 2))(X),
    "special": lambda: fgrad.grad(_special)(X),
    "special, jit": lambda: fgrad.jit(fgrad.grad(_special))(X),
    "nn": lambda: fgrad.nn.softmax(fgrad.nn.gelu(X)),
    "program": lambda: str(fgrad.make_program(lambda x: np.interp(x, X, X))(X)).count("\n"),
    "polynomial": lambda: fgrad.grad(lambda x: np.polyval(x, 2.0) + np.median(x))(X),
}


def _flat(result: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in fgrad.tree.leaves(result)]


def _sane() -> None:
    """The process works: nothing is left of what was interrupted."""
    assert innermost() is None, "a trace is open"
    assert gc.isenabled(), "the garbage collector is off"
    assert gc.get_threshold() == THRESHOLD, "the garbage collector looks seldom"
    assert type(fgrad.random.key(1)) is not Tracer
    for use in ("grad", "vmap", "jit of grad"):
        USES[use]()


def _child(seed: int, use: str, attempts: int) -> tuple[int, str]:
    """Interrupted first uses: how many interrupts came, and what went wrong."""
    rng = np.random.default_rng(seed)
    came, armed = 0, False

    def ring(_signal: int, _frame: Any) -> None:
        nonlocal came
        if armed:
            came += 1
            raise Interrupt

    signal.signal(signal.SIGALRM, ring)
    longest = 0.3
    for _ in range(attempts):
        delay = float(rng.uniform(2e-5, longest))
        start = time.perf_counter()
        try:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, delay)
                USES[use]()
            finally:
                armed = False
            longest = time.perf_counter() - start
        except Interrupt:
            pass
        except Exception:  # an import that was interrupted may raise what it likes
            if not came:
                return came, traceback.format_exc(limit=-6)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)  # what hangs is ended
    try:
        results = [_flat(USES[use]()) for _ in range(2)]
        _sane()
        for got in results:
            for a, b in zip(got, EXPECTED[use], strict=True):
                assert a.dtype == b.dtype and np.allclose(a, b, rtol=1e-10, atol=1e-12), "numbers"
    except BaseException:
        return came, traceback.format_exc(limit=-6)
    return came, ""


def _forked(seed: int, use: str, attempts: int) -> tuple[int, str]:
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(read)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # "Exception ignored in ..."
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps(_child(seed, use, attempts)))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        data = source.read()
    _, status = os.waitpid(pid, 0)
    return pickle.loads(data) if data else (0, f"the process ended with status {status}")


def play(seed: int, count: int, attempts: int = 8) -> tuple[int, int, list[str]]:
    """Processes until `count` interrupts came: processes, interrupts, and what went wrong."""
    names, processes, came, wrong = list(USES), 0, 0, []
    while came < count:
        use = names[processes % len(names)]
        more, mistake = _forked(seed * 1_000_003 + processes, use, attempts)
        came += more
        if mistake:
            wrong.append(
                f"{use}, process {processes} of seed {seed}, {more} interrupts:\n{mistake}"
            )
        processes += 1
    return processes, came, wrong


def _expected() -> dict[str, list[np.ndarray]]:
    """The results without interrupts, of a process of their own, so that this one loads nothing."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with os.fdopen(write, "wb") as out:
                out.write(pickle.dumps({name: _flat(use()) for name, use in USES.items()}))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as source:
        data = source.read()
    os.waitpid(pid, 0)
    return pickle.loads(data)


EXPECTED = _expected()


def main() -> None:
    """Play, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    start = time.perf_counter()
    processes, came, wrong = play(options.seed, options.count)
    print("\n".join(wrong))
    seconds = time.perf_counter() - start
    print(f"{came} interrupts, {processes} processes, {len(wrong)} broken, {seconds:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
