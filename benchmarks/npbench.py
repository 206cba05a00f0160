"""NPBench's programs, unmodified: which run under jit, have right values and gradients, how fast.

    git clone https://github.com/spcl/npbench
    python benchmarks/npbench.py --npbench npbench                    all, with the peers installed
    python benchmarks/npbench.py --npbench npbench --only lu,nbody --gradient-times
    python benchmarks/npbench.py --npbench npbench --no-times         values and gradients alone

fgrad runs the NumPy versions as they are; Numba and JAX run those that NPBench has for them.
Values are compared with NumPy at the S preset and at small sizes, gradients at small sizes with
central differences.  Sizes (integers) are static arguments, or traced with --dynamic.  Every
program has a process of its own, with a time limit.  Times are in ms, the libraries take turns;
copies of arguments that are written are not timed.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib
import json
import math
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import wait_for_rest

import fgrad
from fgrad.errors import FgradError

SMALL: dict[str, dict[str, Any]] = {
    "adi": {"TSTEPS": 3, "N": 12},
    "arc_distance": {"N": 50},
    "atax": {"M": 8, "N": 9},
    "azimint_hist": {"N": 60, "npt": 8},
    "azimint_naive": {"N": 60, "npt": 8},
    "bicg": {"M": 8, "N": 9},
    "cavity_flow": {"ny": 11, "nx": 11, "nt": 4, "nit": 3},
    "channel_flow": {"ny": 11, "nx": 11, "nit": 4},
    "cholesky": {"N": 12},
    "cholesky2": {"N": 12},
    "compute": {"M": 8, "N": 8},
    "contour_integral": {"NR": 4, "NM": 6, "slab_per_bc": 2, "num_int_pts": 4},
    "conv2d_bias": {"N": 2, "C_in": 2, "C_out": 3, "K": 2, "H": 5, "W": 5},
    "correlation": {"M": 7, "N": 9},
    "covariance": {"M": 7, "N": 9},
    "covariance2": {"M": 7, "N": 9},
    "crc16": {"N": 20},
    "deriche": {"W": 10, "H": 8},
    "doitgen": {"NR": 4, "NQ": 5, "NP": 6},
    "durbin": {"N": 12},
    "fdtd_2d": {"TMAX": 4, "NX": 8, "NY": 9},
    "floyd_warshall": {"N": 9},
    "gemm": {"NI": 5, "NJ": 6, "NK": 7},
    "gemver": {"N": 8},
    "gesummv": {"N": 8},
    "go_fast": {"N": 8},
    "gramschmidt": {"M": 8, "N": 6},
    "hdiff": {"I": 6, "J": 6, "K": 4},
    "heat_3d": {"TSTEPS": 3, "N": 8},
    "jacobi_1d": {"TSTEPS": 6, "N": 20},
    "jacobi_2d": {"TSTEPS": 4, "N": 9},
    "k2mm": {"NI": 5, "NJ": 6, "NK": 7, "NL": 8},
    "k3mm": {"NI": 5, "NJ": 6, "NK": 7, "NL": 8, "NM": 9},
    "lenet": {"N": 2, "H": 16, "W": 16},
    "lu": {"N": 9},
    "ludcmp": {"N": 9},
    "mandelbrot1": {"XN": 9, "YN": 8, "maxiter": 12},
    "mandelbrot2": {"XN": 9, "YN": 8, "maxiter": 12},
    "mlp": {"C_in": 3, "N": 4, "S0": 10, "S1": 8, "S2": 8},
    "mvt": {"N": 9},
    "nbody": {"N": 5, "tEnd": 0.5},
    "nussinov": {"N": 10},
    "resnet": {"N": 2, "W": 6, "H": 6, "C1": 4, "C2": 3},
    "scattering_self_energies": {"NE": 3, "NA": 4},
    "seidel_2d": {"TSTEPS": 3, "N": 8},
    "softmax": {"N": 2, "H": 3, "SM": 5},
    "spmv": {"M": 20, "N": 20, "nnz": 40},
    "stockham_fft": {"R": 2, "K": 4},
    "symm": {"M": 6, "N": 7},
    "syr2k": {"M": 6, "N": 7},
    "syrk": {"M": 6, "N": 7},
    "trisolv": {"N": 12},
    "trmm": {"M": 7, "N": 8},
    "vadv": {"I": 4, "J": 5, "K": 6},
}
NUMBA = ("numba_n", "numba_o", "numba_np", "numba_npr")  # of its versions, the first that exists
RTOL = 1e-6


# --- programs -------------------------------------------------------------------------------------


class Program:
    """One of NPBench's programs."""

    def __init__(self, root: Path, name: str) -> None:
        text = (root / "bench_info" / f"{name}.json").read_text(encoding="utf-8")
        self.name, self.info = name, json.loads(text)["benchmark"]
        self.folder = "npbench.benchmarks." + self.info["relative_path"].replace("/", ".")

    def version(self, postfix: str) -> Callable[..., Any]:
        """The function as it is written for a library."""
        module = importlib.import_module(f"{self.folder}.{self.info['module_name']}_{postfix}")
        return getattr(module, self.info["func_name"])

    def arguments(self, small: bool) -> list[Any]:
        """The arguments, at the S preset or small."""
        values = dict(self.info["parameters"]["S"])
        if small:
            values |= SMALL.get(self.name, {})
        init = self.info.get("init")
        if init:
            module = importlib.import_module(f"{self.folder}.{self.info['module_name']}")
            made = getattr(module, init["func_name"])(*[values[k] for k in init["input_args"]])
            names = init["output_args"]
            values |= dict(zip(names, made if len(names) > 1 else [made], strict=True))
        return [values[k] for k in self.info["input_args"]]


def sizes(args: Sequence[Any]) -> tuple[int, ...]:
    """The places of Python's integers."""
    return tuple([k for k, a in enumerate(args) if isinstance(a, (int, str))])


def jitted(f: Callable[..., Any], args: Sequence[Any], dynamic: bool) -> Callable[..., Any]:
    """The function under jit."""
    return fgrad.jit(f, static_argnums=() if dynamic else sizes(args))


# --- what is right --------------------------------------------------------------------------------


def numbers(x: Any) -> list[np.ndarray]:
    """The arrays in a result."""
    if x is None:
        return []
    return [a for y in x for a in numbers(y)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


def outcome(f: Callable[..., Any], args: Sequence[Any]) -> list[np.ndarray]:
    """What a call returns, and what it leaves in its arguments."""
    mine = copy.deepcopy(list(args))
    result = f(*mine)
    return numbers(result) + [a for a in mine if isinstance(a, np.ndarray)]


def difference(found: list[np.ndarray], right: list[np.ndarray], rtol: float = RTOL) -> str:
    """What is different; nothing if nothing is."""
    if len(found) != len(right):
        return f"{len(found)} results, right {len(right)}"
    for k, (a, b) in enumerate(zip(found, right, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: {a.dtype}{list(a.shape)}, right {b.dtype}{list(b.shape)}"
        with np.errstate(invalid="ignore"):
            scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
        narrow = b.dtype in (np.float32, np.complex64)
        room = max(rtol, 1e-3 if narrow else 0.0) * max(scale, 1e-30)
        if not np.allclose(a, b, rtol, room, equal_nan=True):
            return f"result {k} differs by {np.nanmax(np.abs(a - b)) / max(scale, 1e-30):.1e}"
    return ""


def is_smooth(x: Any) -> bool:
    """Whether an argument is differentiated."""
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def loss_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """A number made of all that is returned and all that is written."""

    def parts(a: Any) -> Any:
        return a.real + 0.5 * a.imag if a.dtype.kind == "c" else a

    def loss(*args: Any) -> Any:
        result = f(*args)
        total = 0.0
        for a in [a for a in [*flat(result), *args] if hasattr(a, "dtype")]:
            if a.dtype.kind in "fc":
                p, weights = parts(a), np.cos(np.arange(a.size) * 1.0).reshape(a.shape)
                total = total + np.mean(weights * (p + np.sqrt(1 + p * p)))
        return total

    return loss


def flat(x: Any) -> list[Any]:
    """The arrays in a result that may be traced."""
    if x is None:
        return []
    return [a for y in x for a in flat(y)] if isinstance(x, (tuple, list)) else [x]


def directions(args: Sequence[Any]) -> list[Any]:
    """A direction for each argument that is differentiated, None for the others."""
    rng = np.random.default_rng(5)
    found: list[Any] = []
    for a in args:
        if not is_smooth(a):
            found.append(None)
            continue
        d = rng.standard_normal(a.shape) * (np.abs(a).mean() + 1e-3)
        found.append((d * (1 + 0.3j) if a.dtype.kind == "c" else d).astype(a.dtype))
    return found


def moved(args: Sequence[Any], way: list[Any], t: Any) -> list[Any]:
    """The arguments by t along a direction."""
    pairs = zip(args, way, strict=True)
    return [copy.deepcopy(a) if d is None else a + t * d for a, d in pairs]


def slopes(f: Callable[..., Any], args: Sequence[Any], way: list[Any]) -> list[float]:
    """Central differences of some steps."""
    loss = loss_of(f)

    def at(t: float) -> float:
        return float(loss(*moved(args, way, t)))

    return [(at(h) - at(-h)) / (2 * h) for h in (1e-6, 1e-5, 1e-7, 1e-4)]


def gradient_slope(f: Callable[..., Any], args: Sequence[Any], way: list[Any]) -> float:
    """The slope by jit(grad), of all arguments that are differentiated."""
    real = all([d is None or d.dtype.kind == "f" for d in way])
    if not real:  # by the distance along the direction, so that no convention is needed
        along = fgrad.grad(lambda t: loss_of(f)(*moved(args, way, t)))
        return float(fgrad.jit(along)(0.0))
    gradient = jitted(gradient_of(f, args), args, dynamic=False)(*copy.deepcopy(list(args)))
    ways = [d for d in way if d is not None]
    return sum([float(np.sum(g * d)) for g, d in zip(gradient, ways, strict=True)])


def gradient_of(f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The gradient by all arguments that are differentiated."""
    return fgrad.grad(loss_of(f), tuple([k for k, a in enumerate(args) if is_smooth(a)]))


def check_gradient(f: Callable[..., Any], args: Sequence[Any]) -> str:
    """Whether the gradient agrees with differences: "right", "none", or what is wrong."""
    way = directions(args)
    result = outcome(f, args)
    if not any([d is not None for d in way]) or not any([a.dtype.kind in "fc" for a in result]):
        return "none"
    found = gradient_slope(f, args, way)
    expected = slopes(f, args, way)
    single = any([d is not None and d.dtype in (np.float32, np.complex64) for d in way])
    slack = 3e-2 if single else 1e-4
    if any([abs(s - found) <= slack * max(abs(s), abs(found), 1e-8) for s in expected]):
        return "right"
    return f"WRONG: {found:.6g}, differences {expected[0]:.6g}"


# --- one program, in a process of its own ---------------------------------------------------------


class Overtime(BaseException):
    """A part takes too long."""


def ring(_number: int, _frame: Any) -> None:
    """What an alarm does."""
    raise Overtime


def guarded(run: Callable[[], str], seconds: int) -> str:
    """What is found, or the card or error that is raised."""
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        return run()
    except Overtime:
        return f"SLOW: more than {seconds} s"
    except Exception as error:
        shown = error if isinstance(error, FgradError) else error.__cause__
        kind = "card " if isinstance(shown, FgradError) else "ERROR "
        return f"{kind}{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    finally:
        signal.alarm(0)


def timed(call: Callable[[], Any]) -> float:
    """Seconds of one call, once the threads of the library before it sleep."""
    wait_for_rest()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peers_of(p: Program, args: Sequence[Any]) -> dict[str, Callable[[], Callable[[], Any]]]:
    """The libraries that have a version: what prepares a call, and the call."""
    found: dict[str, Callable[..., Any]] = {"NumPy": p.version("numpy")}
    for postfix in NUMBA:
        try:
            found["Numba"] = p.version(postfix)
            break
        except (ImportError, AttributeError):
            continue
    calls = {name: functools.partial(prepared, f, args, copy.deepcopy) for name, f in found.items()}
    try:
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        calls["JAX"] = functools.partial(jax_call, jax, p.version("jax"), args)
    except (ImportError, AttributeError):
        pass
    return calls


def prepared(
    f: Callable[..., Any], args: Sequence[Any], copied: Callable[[Any], Any]
) -> Callable[[], Any]:
    """A call with copies of the arguments, which are made now."""
    mine = [copied(a) for a in args]
    return lambda: f(*mine)


def jax_call(jax: Any, f: Callable[..., Any], args: Sequence[Any]) -> Callable[[], Any]:
    """A call of JAX's version, which waits for the result."""
    mine = [jax.numpy.array(a) if isinstance(a, np.ndarray) else a for a in args]
    return lambda: jax.block_until_ready(f(*mine))


def times_of(calls: dict[str, Any], turns: int, seconds: float) -> dict[str, float]:
    """The first call and the median of the others, in seconds, for each library; in turns."""
    found: dict[str, float] = {}
    for name in list(calls):
        try:
            found[f"{name} first"] = timed(calls[name]())
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            del calls[name]
    times: dict[str, list[float]] = {name: [] for name in calls}
    start = time.perf_counter()
    for turn in range(turns):
        for name, prepare in calls.items():
            times[name].append(timed(prepare()))
        if turn > 1 and time.perf_counter() - start > seconds:
            break
    return found | {name: statistics.median(ts) for name, ts in times.items()}


def one(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """All that is asked about one program."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    p = Program(options.npbench, name)
    f, small = p.version("numpy"), p.arguments(small=True)
    row: dict[str, Any] = {"name": name}

    def values(args: Sequence[Any]) -> str:
        found = outcome(jitted(f, args, options.dynamic), args)
        return difference(found, outcome(f, args)) or "equal"

    row["small"] = guarded(lambda: values(small), options.limit // 4)
    row["gradient"] = guarded(lambda: check_gradient(f, small), options.limit // 4)
    if options.no_times or not row["small"].startswith("equal"):
        return row
    args = p.arguments(small=False)
    row["S"] = guarded(lambda: values(args), options.limit // 4)
    calls = peers_of(p, args)
    function = jitted(f, args, options.dynamic)
    calls["fgrad"] = functools.partial(prepared, function, args, copy.deepcopy)
    if options.gradient_times and row["gradient"] == "right":
        gradient = jitted(gradient_of(f, args), args, options.dynamic)
        calls["jit(grad)"] = functools.partial(prepared, gradient, args, copy.deepcopy)
    return row | times_of(calls, options.turns, options.seconds)


# --- all of them ----------------------------------------------------------------------------------

COLUMNS = ("NumPy", "fgrad", "Numba", "JAX", "jit(grad)")


def run(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """The row of one program, made by another process."""
    command = [sys.executable, __file__, "--npbench", str(options.npbench), "--one", name]
    command += ["--turns", str(options.turns), "--seconds", str(options.seconds)]
    command += ["--limit", str(options.limit)]
    flags = ("dynamic", "no_times", "gradient_times")
    command += ["--" + flag.replace("_", "-") for flag in flags if getattr(options, flag)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"name": name, "small": f"SLOW: more than {options.limit} s", "gradient": ""}
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if done.returncode or not last[0].startswith("{"):
        text = (done.stderr.strip().splitlines() or [""])[-1]
        return {"name": name, "small": f"CRASH {done.returncode}: {text}", "gradient": ""}
    return json.loads(last[0])


def line_of(row: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [row["name"], row["small"][:60], row.get("S", "")[:40], row["gradient"][:60]]
    for name in COLUMNS:
        cells.append(f"{row[name] * 1e3:.3g}" if name in row else "")
    for name in COLUMNS[1:]:
        first = row.get(f"{name} first")
        cells.append(f"{first - row.get(name, 0):.2f}" if first is not None else "")
    return "| " + " | ".join(cells) + " |"


def mean_ratio(rows: list[dict[str, Any]], one: str, other: str) -> str:
    """The geometric mean of the ratio of two columns."""
    logs = [math.log(r[one] / r[other]) for r in rows if r.get(one) and r.get(other)]
    return f"{math.exp(statistics.fmean(logs)):.2f} ({len(logs)} programs)" if logs else "-"


def summary(rows: list[dict[str, Any]]) -> str:
    """The closing lines."""
    right = sum([r["small"] == "equal" and r.get("S", "equal") == "equal" for r in rows])
    with_gradient = [r for r in rows if r["gradient"] != "none"]
    gradients = sum([r["gradient"] == "right" for r in with_gradient])
    lines = [f"{right} of {len(rows)} run with NumPy's values"]
    lines.append(f"{gradients} of {len(with_gradient)} gradients are right")
    for other in ("NumPy", "Numba", "JAX"):
        lines.append(f"fgrad / {other}: {mean_ratio(rows, 'fgrad', other)}")
    lines.append(f"jit(grad) / fgrad: {mean_ratio(rows, 'jit(grad)', 'fgrad')}")
    return "\n".join(lines)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--npbench", type=Path, required=True, help="a copy of spcl/npbench")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--dynamic", action="store_true", help="integers are traced")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--gradient-times", action="store_true", help="at the S preset")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0, help="for the turns of a program")
    parser.add_argument("--limit", type=int, default=300, help="seconds for a program")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(options.npbench))
    if options.one:
        print(json.dumps(one(options, options.one)))
        return 0
    names = options.only.split(",") if options.only else sorted(SMALL)
    firsts = [f"{name} compile s" for name in COLUMNS[1:]]
    heads = ["program", "small", "S", "gradient", *[f"{c} ms" for c in COLUMNS], *firsts]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    rows = []
    for name in names:
        rows.append(run(options, name))
        print(line_of(rows[-1]), flush=True)
    print("\n" + summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
