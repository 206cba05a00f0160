"""Random programs of the whole op table: NumPy against fgrad in every way that it can run them.

    python tests/random_ops.py --count 100000 --seed 0

A program is one to three calls (see `random_ops_draw`) on arrays of all dtypes, sizes and layouts.
Every program is traced with known values and without, and evaluated; every fourth one is compiled,
many of them in one function; some are batched, against a loop, and smooth ones are differentiated:
forward against reverse, against differences.  What NumPy raises is to be raised.  Cards that refuse
what NumPy takes are counted, and listed by `--refused`.
`--only K` runs the program with that number alone and prints it.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from random_ops_draw import Call, Draw, Ref, invoke
from random_ops_more import random_call

import fgrad
from fgrad import errors
from fgrad.config import config
from fgrad.ir.aval import aval_of
from fgrad.trace import Builder, Tracer, concrete, run, trace

RAISED = (
    RuntimeError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError,
    np.linalg.LinAlgError, NotImplementedError,
)  # fmt: skip
# Cards that refuse what NumPy takes, rather than say what NumPy says.
REFUSED = (errors.UnsupportedNumpyError, errors.UnsupportedTypeError, errors.TracedIndexError,
           errors.TracedBoolError, errors.TracedArrayError, errors.BoundsError,
           errors.InPlaceError, errors.ArgumentWriteError)  # fmt: skip
REFUSES_VALUES = ("asarray_chkfinite", "geomspace", "nanargmax", "nanargmin")
BY_VALUE = (IndexError, ArithmeticError, np.linalg.LinAlgError)  # raised for what is not known
TOLERANCE = {"e": 2e-2, "f": 2e-4, "F": 2e-4, "d": 1e-8, "D": 1e-8}
PACK = 40  # programs that are compiled as one function


class Program(NamedTuple):
    """Calls on inputs, what NumPy makes of them, and what it raises at the last call."""

    number: int
    inputs: list[Any]
    calls: list[Call]
    expected: list[list[Any]]  # of each call
    raises: type[BaseException] | None

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.with_results_moved(0, inputs)

    def with_results_moved(self, step: float, inputs: Sequence[Any] | None = None) -> list[Any]:
        """The results, where later calls take those of earlier ones with a step added."""
        pool = [*(self.inputs if inputs is None else inputs)]
        outs: list[Any] = []
        for call in self.calls:
            try:
                result = flat(invoke(call, pool))
            except Exception as error:
                error.raised_by = call.name  # type: ignore[attr-defined]
                raise
            made = [y if isinstance(y, Tracer) else np.asarray(y)[()] for y in result]
            pool += [y + step if step and y.dtype.kind in "fc" else y for y in made]
            outs += made
        return outs

    def __str__(self) -> str:
        lines = [f"program {self.number}"]
        lines += [
            f"  {k}: {x.dtype}{list(x.shape)} strides {x.strides} {x.tolist()}"
            for k, x in enumerate(self.inputs)
        ]
        for call, made in zip(self.calls, [*self.expected, ["raises"]], strict=False):
            lines.append(f"  {call.name} {call.args} {call.kwargs} -> {made}")
        return "\n".join(lines)


def flat(x: Any) -> list[Any]:
    """The arrays in a result."""
    return [z for y in x for z in flat(y)] if isinstance(x, (tuple, list)) else [x]


def draw_program(seed: int, number: int, smooth: bool, raising: float = 0.1) -> Program:
    """The program with a number: all its calls are such as NumPy takes, or the last one raises:
    `raising` is the share that is kept of those that do."""
    rng = np.random.default_rng([seed, number])
    draw = Draw(rng, smooth)
    calls: list[Call] = []
    expected: list[list[Any]] = []
    wanted = int(rng.integers(1, 4))
    for _ in range(40):
        kept = len(draw.inputs), len(draw.pool)
        call = random_call(draw)
        if calls and len(draw.inputs) != kept[0]:
            # Inputs come first in the pool: a later call takes what is there.
            del draw.inputs[kept[0] :], draw.pool[kept[1] :]
            continue
        try:
            made = [np.asarray(y)[()] for y in flat(invoke(call, draw.pool))]
        except RAISED as error:
            if not smooth and draw.chance(raising) and not _accident(call, draw.pool):
                return Program(number, draw.inputs, [*calls, call], expected, type(error))
            made = None
        bad = made is None or any([y.dtype.kind not in "biufc" or y.size > 400 for y in made])
        bad = bad or any([y.dtype.char in "gG" for y in made or ()])
        bad = bad or _undefined(call, draw.pool) or (bool(calls) and _of_signs(call, draw.pool))
        if bad:
            del draw.inputs[kept[0] :], draw.pool[kept[1] :]
            continue
        calls.append(call)
        expected.append(made)  # type: ignore[arg-type]
        draw.pool += made  # type: ignore[operator]
        if len(calls) >= wanted:
            break
    return Program(number, draw.inputs, calls, expected, None)


def _of_signs(call: Call, pool: Sequence[Any]) -> bool:
    """Whether a call shows the signs of zeros: of computed sums these are open."""
    return call.name in ("signbit", "copysign") and any([np.any(np.equal(x, 0)) for x in pool])


def _accident(call: Call, pool: Sequence[Any]) -> bool:
    """Whether what raises is a step within NumPy's function: lanes of one element, and no lanes."""
    lanes = "median" in call.name or "quantile" in call.name or "percentile" in call.name
    return lanes and call.kwargs.get("axis") == () and any([np.size(x) == 0 for x in pool])


def _undefined(call: Call, pool: Sequence[Any]) -> bool:
    """Whether floats become integers that cannot hold them, which C leaves open, or what is not
    finite meets functions whose algorithms spread NaN in ways of their own."""
    spreads = (
        "fft", "einsum", "percentile", "quantile", "median", "nanm", "prod", "dot", "reciprocal",
        "corr", "cov", "convolve", "poly", "inner", "gradient",
    )  # fmt: skip
    if "fft" in call.name:
        lengths = call.kwargs.get("s")
        if isinstance(lengths, Ref) and np.asarray(pool[lengths.number]).dtype == bool:
            return True  # are 0 and 1 to a few of NumPy's transforms, and errors to others
        if any([np.size(x) == 0 for x in pool]):
            return True  # NumPy's transforms of nothing are memory as it was
    if call.name in ("convolve", "correlate") and any([_largest(x) > 1e4 for x in pool]):
        return True  # what is left of large products that cancel
    module = getattr(call.function, "__module__", "")
    if module == "numpy.linalg" or any([part in call.name for part in spreads]):
        return not all([np.all(np.isfinite(x)) for x in pool])
    if call.name in ("signbit", "copysign"):  # of NaN, the processor's or the compiler's
        return any([np.any(np.isnan(x)) for x in pool])
    if call.name in ("nanvar", "nanstd") and call.kwargs.get("dtype") is not None:
        return any([_largest(x) > 1e4 for x in pool])  # NumPy squares in the dtype of its argument
    if call.name == "pow" and call.args[1] == 2 and isinstance(call.args[0], Ref):
        x = pool[call.args[0].number]  # NumPy's squares of arrays of rank 0 are no numbers' squares
        if isinstance(x, np.ndarray) and x.dtype == bool and not x.shape:
            return True
    asked = call.kwargs.get("dtype")
    if call.name in ("astype", ".astype"):
        asked = call.args[-1]
    if asked is None or np.dtype(asked).kind not in "iub":
        return False
    floats = [np.asarray(x) for x in pool if np.asarray(x).dtype.kind in "fc"]
    return not all([np.all((x.real >= 0) & (x.real < 100)) for x in floats])


# --- ways to run a program ------------------------------------------------------------------------


def evaluated(f: Program, inputs: Sequence[Any]) -> list[Any]:
    """With known values."""
    builder = Builder("grad", "f", eager=True)
    with builder.running, builder:
        return [concrete(y) for y in f(*[builder.input(x) for x in inputs])]


def traced(f: Program, inputs: Sequence[Any]) -> list[Any]:
    """Without values, the equations evaluated."""
    return run(trace(lambda *xs: f(*xs), [aval_of(x) for x in inputs]).program, list(inputs))


def in_batches(f: Program) -> tuple[list[Any], list[Any]]:
    """A batch of three, and a loop: the first input changes."""
    x = f.inputs[0]
    many = np.ascontiguousarray(np.stack([x, x[..., ::-1] if x.ndim else x, x]))
    batched = fgrad.vmap(lambda x: f(x, *f.inputs[1:]))(many)
    each = [f(np.asarray(y), *f.inputs[1:]) for y in many]
    if len({tuple([np.shape(y) for y in made]) for made in each}) > 1:
        return [], []  # a size depends on values, as that of a product of polynomials
    loop = [np.stack(column) for column in zip(*each, strict=True)]
    return batched, loop


# --- comparisons ----------------------------------------------------------------------------------


def differs(found: Sequence[Any], f: Program, expected: Sequence[Any]) -> str:
    """What is wrong with results, or nothing."""
    if len(found) != len(expected):
        return f"{len(found)} results for {len(expected)}"
    largest = max([_largest(x) for x in (*f.inputs, *expected)], default=1.0)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = np.asarray(a)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: {a.dtype}{a.shape} for {b.dtype}{b.shape}"
        rtol = max([TOLERANCE.get(np.asarray(x).dtype.char, 0.0) for x in (*f.inputs, *expected)])
        if b.dtype.kind in "biu" and np.array_equal(a, b):
            continue
        if b.dtype.kind in "biu" or not np.allclose(a, b, rtol, rtol * largest, equal_nan=True):
            return f"result {k}: {a.tolist()!r}\n      for {b.tolist()!r}"
    return ""


def _largest(x: Any) -> float:
    x = np.abs(np.asarray(x, complex)) if np.asarray(x).dtype.kind in "fc" else np.zeros(1)
    x = x[np.isfinite(x)]
    return min(float(np.max(x, initial=1.0)), 1e6)


def is_stable(f: Program, expected: Sequence[Any]) -> bool:
    """Whether NumPy's own results stay when the inputs change in their last digits."""
    for sign in (1, -1):
        near = [_moved(x, sign) if x.dtype.kind in "fc" else x for x in f.inputs]
        try:
            moved = [np.asarray(y) for y in f(*near)]
        except RAISED:
            return False
        if differs(moved, f, expected):
            return False
    return True


def each_follows(f: Program, found: Sequence[Any]) -> bool:
    """Whether NumPy's calls make each result of those that were found before it.  Then a last digit
    or the sign of a zero has differed, and a function such as floor or divmod has shown it."""
    pool, rest = [*f.inputs], [np.asarray(y)[()] for y in found]
    for call in f.calls:
        try:
            made = [np.asarray(y)[()] for y in flat(invoke(call, pool))]
        except RAISED:
            return False
        own, rest = rest[: len(made)], rest[len(made) :]
        if differs(own, f, made):
            return False
        pool += own
    return True


def _moved(x: Any, sign: int) -> Any:
    """Numbers with other last digits; the imaginary parts of complex ones change too."""
    step = 4 * np.finfo(x.dtype).eps * (sign if x.dtype.kind == "f" else sign * (1 + 1j))
    return np.asarray(x * (1 + step), x.dtype)


# --- derivatives ----------------------------------------------------------------------------------


def _is_singular(f: Program) -> bool:
    """Whether a function has no slope at a computed value, as that of x ** n in n for negative x
    and the cube root at 0: differences of x ** (x / x) and of cbrt(x % x) do not see it."""

    def near(step: float) -> np.ndarray:
        outs = f.with_results_moved(step)
        return np.concatenate([np.ravel(y) for y in outs if np.asarray(y).dtype.kind in "fc"])

    wide, narrow = [(near(h) - near(-h)) / h for h in (1e-5, 1e-7)]
    return not np.allclose(wide, narrow, 1e-2, 1e-2)


def check_derivatives(f: Program, seed: int) -> str:
    """Forward against reverse against differences, for float64 in and out."""
    every_result = [y for made in f.expected for y in made]
    keep = [k for k, y in enumerate(every_result) if y.dtype == np.float64]
    if not keep:
        return ""
    rng = np.random.default_rng([seed, f.number, 1])
    floats = [k for k, x in enumerate(f.inputs) if x.dtype == np.float64]
    inputs = [f.inputs[k][()] for k in floats]
    way = [rng.normal(size=x.shape)[()] for x in inputs]
    if not any([x.size for x in inputs]):
        return ""  # a gradient of no numbers says nothing of infinite slopes

    def scalar(*xs: Any) -> Any:
        every = list(f.inputs)
        for k, x in zip(floats, xs, strict=True):
            every[k] = x
        ys = f(*every)
        return sum([np.sum(ys[k] * (0.5 + k)) for k in keep])

    if not np.isfinite(scalar(*inputs)):
        return ""
    pushed = fgrad.jvp(scalar, tuple(inputs), tuple(way))[1]
    pulled = fgrad.grad(scalar, argnums=tuple(range(len(inputs))))(*inputs)
    along = sum([np.sum(np.asarray(p) * t) for p, t in zip(pulled, way, strict=True)])
    size = 1 + abs(float(pushed)) if np.isfinite(pushed) else 1.0
    asked = [np.dtype(call.kwargs.get("dtype") or float).char for call in f.calls]
    single = any([char in "efF" for char in (*asked, *[y.dtype.char for y in every_result])])
    # No derivative or an infinite one is right, unless differences find another.
    same = np.array_equal(along, pushed, equal_nan=True)
    no_derivative = not np.isfinite([pushed, along]).any() and (same or _is_singular(f))
    if not (no_derivative or abs(along - pushed) <= (1e-2 if single else 1e-7) * size):
        return f"reverse {along}, forward {pushed}"

    if no_derivative and _is_singular(f):
        return ""
    if any([y.dtype == np.float16 for y in every_result]):
        return ""  # whose last digits are larger than the steps

    def difference(h: float) -> float:
        ends = [scalar(*[x + s * t for x, t in zip(inputs, way, strict=True)]) for s in (h, -h)]
        return float(ends[0] - ends[1]) / (2 * h)

    def kinked() -> bool:
        """Whether the slopes to both sides differ: of ties, |0| and the like any may be taken."""
        high, here, low = [scalar(*[x + s * t for x, t in zip(inputs, way, strict=True)])
                           for s in (1e-6, 0, -1e-6)]  # fmt: skip
        return bool(abs(high - 2 * here + low) > 1e-4 * 1e-6 * size)

    steps = [difference(h) for h in (1e-4, 1e-5, 1e-6)]
    agree = np.ptp(steps) < 1e-4 * (1 + abs(steps[0])) and not kinked()
    if np.isfinite(steps).all() and agree and not abs(steps[1] - pushed) <= 1e-2 * size:
        return f"forward {pushed}, differences {steps}"
    return ""


# --- the run --------------------------------------------------------------------------------------


def refused_by(f: Program, error: Exception) -> str:
    """The call that was refused, and the card."""
    return f"{getattr(error, 'raised_by', f.calls[-1].name)}: {type(error).__name__}"


class Found:
    """What was found, in all."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.ways: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.unstable = 0
        self.wrong: list[tuple[int, str, str, str]] = []

    def note(self, f: Program, way: str, why: str) -> None:
        """A mismatch."""
        last = "+".join([call.name for call in f.calls])
        self.wrong.append((f.number, way, last, why))
        short = f"{f.number} {way} {last}: {why.splitlines()[0][:200]}"
        print(f"MISMATCH {way} {last}: {why}\n{f}\n" if self.verbose else short, flush=True)

    def check(self, way: str, f: Program, run_it: Callable[[], Sequence[Any]]) -> None:
        """Run a program in a way, and compare."""
        self.ways[way] += 1
        try:
            found = run_it()
        except Exception as error:
            why = self.refusal(f, error)
            if why:
                self.note(f, way, f"{type(error).__name__}{why}: {str(error)[:200]}")
            return
        if f.raises is not None:
            by_value = way != "values" and issubclass(f.raises, BY_VALUE)
            refuses = f.raises is ValueError and f.calls[-1].name in REFUSES_VALUES
            by_value |= way != "values" and refuses
            by_value |= f.raises is AttributeError  # a Python number where an array is meant
            if not by_value:
                self.note(f, way, f"NumPy raises {f.raises.__name__}")
            return
        expected = [y for made in f.expected for y in made]
        self.compare(way, f, found, expected)

    def refusal(self, f: Program, error: Exception) -> str:
        """What is wrong with an error: a card refuses, what NumPy raises has its class."""
        if isinstance(error, REFUSED):
            if f.raises is None:
                self.refused[refused_by(f, error)] += 1
            return ""
        return "" if f.raises is not None and isinstance(error, RAISED) else " "

    def compare(self, way: str, f: Program, found: Sequence[Any], expected: Sequence[Any]) -> None:
        why = differs(found, f, expected)
        follows = bool(why) and way != "vmap" and each_follows(f, found)
        if why and len(f.calls) > 1 and (follows or not is_stable(f, expected)):
            self.unstable += 1
        elif why:
            self.note(f, way, why)


def compiled(found: Found, programs: Sequence[Program]) -> None:
    """Many programs as one compiled function; one by one, where that raises."""
    if not programs:
        return
    try:
        pack = fgrad.jit(lambda many: [f(*xs) for f, xs in zip(programs, many, strict=True)])
        outs = pack([f.inputs for f in programs])
    except Exception:
        if len(programs) > 1:
            half = len(programs) // 2
            compiled(found, programs[:half])
            compiled(found, programs[half:])
            return
        (f,) = programs
        found.check("jit", f, lambda: fgrad.jit(lambda *xs: f(*xs))(*f.inputs))
        return
    for f, made in zip(programs, outs, strict=True):
        found.check("jit", f, lambda made=made: made)


def run_programs(
    seed: int,
    numbers: Sequence[int],
    verbose: bool = False,
    jit_share: int = 4,
    raising: float = 0.1,
) -> Found:
    """Run programs; `jit_share`: every so many programs is compiled."""
    found = Found(verbose)
    waiting: list[Program] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in numbers:
            smooth = k % 5 == 4
            f = draw_program(seed, k, smooth, raising)
            if not f.calls:
                continue
            found.check("values", f, lambda f=f: evaluated(f, f.inputs))
            found.check("traced", f, lambda f=f: traced(f, f.inputs))
            if f.raises is None and k % jit_share == 0:
                waiting.append(f)
            if len(waiting) >= PACK:
                compiled(found, waiting)
                waiting.clear()
            if f.raises is None and f.inputs and k % 7 == 3:
                _batched(found, f)
            if smooth:
                _differentiated(found, f, seed)
        compiled(found, waiting)
    return found


def _batched(found: Found, f: Program) -> None:
    loop: list[Any] = []

    def batch() -> Sequence[Any]:
        made, expected = in_batches(f)
        loop.extend(expected)
        return made

    found.ways["vmap"] += 1
    try:
        made = batch()
    except REFUSED as error:
        found.refused[refused_by(f, error)] += 1
    except Exception as error:
        found.note(f, "vmap", f"{type(error).__name__}: {str(error)[:200]}")
    else:
        found.compare("vmap", f, made, loop)


def _differentiated(found: Found, f: Program, seed: int) -> None:
    found.ways["grad"] += 1
    try:
        why = check_derivatives(f, seed)
    except REFUSED as error:
        found.refused[refused_by(f, error)] += 1
    except Exception as error:
        found.note(f, "grad", f"{type(error).__name__}: {str(error)[:200]}")
    else:
        if why:
            found.note(f, "grad", why)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--jit", type=int, default=4, help="every so many programs is compiled")
    parser.add_argument("--raising", type=float, default=0.1, help="the share kept of what raises")
    parser.add_argument("--check", type=int, help="as FGRAD_CHECK: 3 runs programs between passes")
    parser.add_argument("--refused", action="store_true", help="list what was refused")
    options = parser.parse_args()
    if options.check is not None:
        config.check = options.check
    start = time.perf_counter()
    numbers = range(options.first, options.first + options.count)
    only = options.only is not None
    jit_share = 1 if only else options.jit
    chosen = [options.only] if only else numbers
    found = run_programs(options.seed, chosen, only, jit_share, options.raising)
    if options.refused:
        for what, count in found.refused.most_common():
            print(f"  refused {count:5} {what}")
    seconds = time.perf_counter() - start
    runs = ", ".join([f"{way} {count}" for way, count in found.ways.items()])
    print(
        f"{1 if only else len(numbers)} programs ({runs}; {sum(found.refused.values())} refused, "
        f"{found.unstable} unstable), {len(found.wrong)} mismatches, {seconds:.0f} s"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
