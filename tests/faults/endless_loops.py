"""One compiled loop that does not end, interrupted: the process must work as before.

    python tests/faults/endless_loops.py kernel

Each loop runs on where its argument is below 1, and ends at once from there on.  It is called three
times where it does not end: for the first time, when it was called before, and when its calls run
no Python code; each time SIGINT comes by a timer, and then by a thread.  `KeyboardInterrupt` must
be raised, and then the same function, and another one, must compute the right result.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import grad, jit, lax, pure_callback, stop_gradient, vmap

AFTER = 0.2  # seconds
TURNS = 10**12


def _endless(x: Any) -> Any:
    return lax.while_loop(lambda c: c < 1.0, lambda c: c * 0.5 + 0.1, x)


def _endless_sums(x: Any, body: Callable[[Any], Any]) -> Any:
    return lax.while_loop(lambda c: np.sum(c) < c.size, body, x)


def _smooth(c: Any) -> Any:
    return np.sort(np.sin(c) * 0.5)[::-1]


def _counted(x: Any) -> Any:
    turns = np.where(x < 1.0, TURNS, 0)
    return lax.fori_loop(0, turns, lambda i, c: c * 0.5 + i * 1e-300, x)


def _nested(x: Any) -> Any:
    """Turns of a few cycles and turns without end: the inner loop looks for signals."""

    def step(c: Any, t: Any) -> Any:
        return _endless(c) + t * 0.0, None

    return lax.scan(step, x, np.arange(3.0))[0]


def _outer(x: Any) -> Any:
    """Inner loops that end, each, in an outer one that does not: it looks for signals."""
    return lax.while_loop(
        lambda c: c < 1.0, lambda c: lax.fori_loop(0, 50, lambda i, d: d * 0.5 + 0.1, c), x
    )


def _routines(x: Any) -> Any:
    return _endless_sums(x, lambda c: np.linalg.inv(c @ c + np.eye(20)))


def _callbacks(x: Any) -> Any:
    """A loop which is in Python most of the time, in a function that it calls back."""
    return lax.while_loop(lambda c: c < 1.0, lambda c: pure_callback(_slowly, c, c), x)


def _slowly(c: Any) -> Any:
    time.sleep(0.01)
    return c


def _squared(x: Any) -> Any:
    return np.sin(x) * _endless(stop_gradient(x))


LOOPS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "kernel": (_endless, ()),
    "nested": (_nested, ()),
    "outer": (_outer, ()),
    "counted": (_counted, ()),
    "lanes": (vmap(_endless), (100,)),
    "shared lanes": (vmap(_endless), (100_000,)),
    "host": (lambda x: _endless_sums(x, _smooth), (100_000,)),
    "routines": (_routines, (20, 20)),
    "callbacks": (_callbacks, ()),
    "gradient": (grad(_squared), ()),
}


def _by_timer() -> Callable[[], None]:
    signal.setitimer(signal.ITIMER_REAL, AFTER)
    return lambda: None


def _by_thread() -> Callable[[], None]:
    thread = threading.Timer(AFTER, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    return thread.join


def _interrupted(function: Callable[[Any], Any], x: Any, send: Callable[[], Any]) -> bool:
    wait = send()
    try:
        function(x)
    except KeyboardInterrupt:
        wait()
        return True
    return False


def main(name: str) -> None:
    """Interrupt one loop in all ways."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    loop, shape = LOOPS[name]
    runs_on, ends = np.full(shape, 0.5)[()], np.full(shape, 2.0)[()]
    expected = np.cos(2.0) * 2.0 if name == "gradient" else ends
    other = jit(lambda x: np.sum(lax.fori_loop(0, 9, lambda i, c: c + i, x)))
    for send in (_by_timer, _by_thread):
        function = jit(loop)
        for _ in range(3):
            given = runs_on.copy()
            assert _interrupted(function, given, send), "the loop has ended"
            assert np.array_equal(given, runs_on), "the argument was written"
            for _ in range(2):
                assert np.allclose(function(ends), expected, rtol=1e-15), function(ends)
            assert other(np.ones(3)) == 111.0
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1])
