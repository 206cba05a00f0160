"""Programs that were once slower than what one writes by hand in C++, Numba or JAX.

    python benchmarks/by_hand.py [--only camera] [--write results/by_hand.md]

All on one core, in turns in one process (A B A B ...): medians of the processor's time, since other
programs may run beside.  C++ is compiled by `g++ -O3 -march=native` where there is one.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from libraries import has, jax_library

import fgrad

Call = Callable[[], Any]
HERE = Path(__file__).parent
CAMERAS, POINTS, SEEN = 49, 7776, 31_843  # of GradBench's smallest bundle adjustment


def rng() -> np.random.Generator:
    """The same numbers for all."""
    return np.random.default_rng(0)


# --- cameras


def reprojection(xp: Any) -> Callable[..., Any]:
    """The error of a point seen by a camera with a rotation vector and radial distortion."""

    def error(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        turn, offset = camera[0:3], point - camera[3:6]
        angle = xp.sqrt(xp.sum(turn**2))
        axis, c = turn / angle, xp.cos(angle)
        turned = offset * c + xp.cross(axis, offset) * xp.sin(angle)
        turned = turned + axis * (xp.dot(axis, offset) * (1.0 - c))
        flat = turned[0:2] / turned[2]
        square = xp.sum(flat * flat)
        bent = flat * (1.0 + camera[9] * square + camera[10] * square * square)
        return weight * (bent * camera[6] + camera[7:9] - seen)

    return error


def adjustment() -> tuple[np.ndarray, ...]:
    """Cameras, points, weights, places on the film; which camera and which point."""
    r = rng()
    cameras = r.normal(size=(CAMERAS, 11)) * 0.3
    cameras[:, 5] -= 10.0
    return (
        cameras, r.normal(size=(POINTS, 3)), r.normal(size=SEEN) ** 2, r.normal(size=(SEEN, 2)),
        r.integers(0, CAMERAS, SEEN), np.sort(r.integers(0, POINTS, SEEN)),
    )  # fmt: skip


def cameras(xp: Any, api: Any, way: str) -> Callable[..., Any]:
    """The Jacobian of each error by its camera, point and weight."""
    mode = api.jacfwd if way == "jacfwd" else api.jacrev
    one = mode(reprojection(xp), argnums=(0, 1, 2))
    steps = lambda *a: api.lax.map(lambda item: one(*item), a)  # noqa: E731
    many = steps if way == "map" else api.vmap(one)
    return lambda c, p, w, s, of, at: many(c[of], p[at], w, s)


def _by_cameras(way: str) -> dict[str, Call]:
    args = adjustment()
    found = both(lambda xp, api: cameras(xp, api, way), *args)
    library = cpp(HERE / "reprojection.cpp")
    if library is not None:
        out = np.empty((SEEN, 2, 15))
        given = [ctypes.c_void_p(a.ctypes.data) for a in (*args, out)]
        found["C++"] = lambda: (library.jacobians(ctypes.c_long(SEEN), *given), out)
        found["C++"]()
        by_camera, by_point, by_weight = found["fgrad"]()
        same = np.concatenate([by_camera, by_point, by_weight[:, :, None]], axis=2)
        assert np.allclose(same, out, rtol=1e-9, atol=1e-9), "C++ has other numbers"
    return found


def cpp(source: Path, more: Sequence[str] = ()) -> ctypes.CDLL | None:
    """A C++ file as a library, or None without a compiler."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    made = Path(tempfile.mkdtemp()) / "code.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, *more, str(source), "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


# --- straight lines, complex numbers, pairs


def _unrolled(n: int, gradient: bool) -> dict[str, Call]:
    """A Cholesky factorisation of numbers in lists."""

    def factor(a: Any) -> Any:
        rows: list[list[Any]] = []
        for i in range(n):
            rows.append([])
            for j in range(i + 1):
                s = a[i, j]
                for k in range(j):
                    s = s - rows[i][k] * rows[j][k]
                rows[i].append(np.sqrt(s) if i == j else s / rows[j][j])
        return sum([x * x for row in rows for x in row])

    a = rng().normal(size=(n, n))
    a = a @ a.T + n * np.eye(n)
    f = fgrad.jit(fgrad.grad(factor) if gradient else factor, capture=False)
    return {"fgrad": lambda: f(a), "NumPy's factor": lambda: np.linalg.cholesky(a)}


def _complex(step: Callable[[Any, Any], Any]) -> dict[str, Call]:
    z = rng().normal(size=(2, 40_000)) * 0.3
    z = z[0] + 1j * z[1]
    return both(lambda xp, api: lambda z: api.lax.fori_loop(0, 50, lambda _, z: step(xp, z), z), z)


def _pairs(n: int) -> dict[str, Call]:
    """The gradient of the potential of n bodies."""

    def potential(xp: Any, api: Any) -> Callable[..., Any]:
        def f(x: Any, m: Any) -> Any:
            d = x[:, None, :] - x[None, :, :]
            return -0.5 * xp.sum(m[:, None] * m[None, :] / xp.sqrt(xp.sum(d * d, -1) + 0.01))

        return api.grad(f)

    x, m = rng().normal(size=(n, 3)), rng().uniform(size=n)
    found = both(potential, x, m)
    if has("numba"):
        numba = importlib.import_module("numba")
        loops = numba.njit(fastmath=True)(_forces)
        found["Numba"] = lambda: loops(x, m)
    return found


def _forces(x: Any, m: Any) -> Any:
    g = np.zeros_like(x)
    for i in range(len(x)):
        a = b = c = 0.0
        for j in range(len(x)):
            u, v, w = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            r2 = u * u + v * v + w * w + 0.01
            s = m[i] * m[j] / (r2 * np.sqrt(r2))
            a += s * u
            b += s * v
            c += s * w
        g[i, 0], g[i, 1], g[i, 2] = a, b, c
    return g


# --- sums of segments


SEGMENTS = 1000
ITEMS = 1_000_000


def _added(xp: Any, api: Any, way: str) -> Callable[[Any, Any], Any]:
    """The sums of the items of each segment, as one writes them with a library."""

    def by_writes(x: Any, segments: Any) -> Any:
        if xp is not np:
            return xp.zeros(SEGMENTS).at[segments].add(x)
        out = np.zeros(SEGMENTS)
        np.add.at(out, segments, x)
        return out

    def by_counts(x: Any, segments: Any) -> Any:
        return (fgrad.numpy if xp is np else xp).bincount(segments, x, length=SEGMENTS)

    def by_segments(x: Any, segments: Any) -> Any:
        segment_sum = api.lax.segment_sum if xp is np else api.ops.segment_sum
        return segment_sum(x, segments, SEGMENTS)

    return {"add.at": by_writes, "bincount": by_counts, "segment_sum": by_segments}[way]


def _segments(way: str, gradient: bool) -> dict[str, Call]:
    """A million numbers into a thousand places; the gradient of the squares of the sums."""

    def make(xp: Any, api: Any) -> Callable[..., Any]:
        sums = _added(xp, api, way)
        return api.grad(lambda x, s: xp.sum(sums(x, s) ** 2)) if gradient else sums

    x, places = rng().normal(size=ITEMS), rng().integers(0, SEGMENTS, ITEMS)
    found = both(make, x, places)
    if has("numba"):
        numba = importlib.import_module("numba")
        loops = numba.njit(fastmath=True)(_pulled_sums if gradient else _sums)
        found["Numba"] = lambda: loops(x, places)
    return found


def _sums(x: Any, places: Any) -> Any:
    out = np.zeros(SEGMENTS)
    for i in range(len(places)):
        out[places[i]] += x[i]
    return out


def _pulled_sums(x: Any, places: Any) -> Any:
    out = np.zeros(SEGMENTS)
    for i in range(len(places)):
        out[places[i]] += x[i]
    g = np.empty_like(x)
    for i in range(len(places)):
        g[i] = 2.0 * out[places[i]]
    return g


# --- all


def both(make: Callable[[Any, Any], Callable[..., Any]], *args: Any) -> dict[str, Call]:
    """fgrad's call, and JAX's where it is installed."""
    own = fgrad.jit(make(np, fgrad))
    found: dict[str, Call] = {"fgrad": lambda: own(*args)}
    jax = jax_library()
    if jax is not None:
        other, held = jax.api.jit(make(jax.np, jax.api)), jax.put(args)
        found["JAX"] = lambda: jax.ready(other(*held))
    return found


ROWS: Mapping[str, tuple[Callable[[], dict[str, Call]], str]] = {
    "cameras, vmap(jacrev)": (lambda: _by_cameras("jacrev"), "3.7 of C++"),
    "cameras, vmap(jacfwd)": (lambda: _by_cameras("jacfwd"), "13.6 of C++"),
    "cameras, lax.map(jacrev)": (lambda: _by_cameras("map"), "1.6 of C++"),
    "unrolled Cholesky, 24 x 24": (lambda: _unrolled(24, False), "5.8 us"),
    "its gradient": (lambda: _unrolled(24, True), "18.4 us"),
    "50 times z*z + 0.1": (lambda: _complex(lambda xp, z: z * z + 0.1), "10 of JAX"),
    "50 times z*abs(z) + 0.1": (lambda: _complex(lambda xp, z: z * xp.abs(z) + 0.1), "12 of JAX"),
    "potential of 300 bodies, gradient": (lambda: _pairs(300), "1.4 of Numba"),
    "potential of 1,000 bodies, gradient": (lambda: _pairs(1000), "2.9 of Numba"),
    "segments, np.add.at": (lambda: _segments("add.at", False), "1.4 of Numba"),
    "segments, np.add.at, gradient": (lambda: _segments("add.at", True), "1.4 of Numba"),
    "segments, bincount": (lambda: _segments("bincount", False), "1.6 of Numba"),
    "segments, lax.segment_sum": (lambda: _segments("segment_sum", False), "3.5 of Numba"),
    "segments, lax.segment_sum, gradient": (lambda: _segments("segment_sum", True), "1.2 of Numba"),
}


def medians(calls: Mapping[str, Call], turns: int = 15) -> dict[str, float]:
    """Processor seconds of a call of each, in turns of about 10 ms."""
    counts = {}
    for name, call in calls.items():
        for _ in range(4):
            start = time.process_time()
            call()
        counts[name] = max(1, int(0.01 / max(time.process_time() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(counts[name]):
                call()
            times[name].append((time.process_time() - start) / counts[name])
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Measure what is asked for, all of it by default, and write a page of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a part of the names of rows")
    options.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    given = options.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = ["| | fgrad, us | others, us: ratio | before |", "|---|---|---|---|"]
    with fgrad.config.override(num_threads=1):
        for name, (calls, before) in ROWS.items():
            if given.only not in name:
                continue
            found = medians(calls())
            own = found.pop("fgrad")
            others = [f"{k} {t * 1e6:.4g}: {own / t:.2f}" for k, t in found.items()]
            lines.append(f"| {name} | {own * 1e6:.4g} | {', '.join(others)} | {before} |")
            print(lines[-1], flush=True)
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        head = f"# Beside code by hand\n\nMade by `benchmarks/by_hand.py` on one core: {about}."
        given.write.write_text("\n\n".join([head, "\n".join(lines)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
