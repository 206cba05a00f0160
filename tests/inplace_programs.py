"""Random in-place programs: what NumPy computes, fgrad computes, under every transform, or refuses.

    python tests/inplace_programs.py --seed 0 --count 1000
    python tests/inplace_programs.py --seed 0 --count 200 --modes jit,jit_grad --show
    python tests/inplace_programs.py --only 3:17              program 17 of seed 3, with its text

A program is a list of statements over a few arrays: views of views, reshapes, copies that overlap,
`out=`, `where=`, masks, sorting, functions transformed inside.  NumPy runs it, and says what is
right; directional derivatives are compared with central differences, and reverse mode with forward
mode.  A card of fgrad is a refusal, counted by its kind; any other difference is a mismatch.

Compiling takes a hundred times as long as all else, so `jit` and its relatives take turns on every
k-th program (--every); nested transforms take turns on all.  "trace" runs the traced program
equation by equation.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from inplace_statements import Program, program

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import FgradError
from fgrad.ir.aval import aval_of
from fgrad.trace import run, trace

Arrays = list[np.ndarray]

STEP = 1e-6
FLAT_SAYS = "Error setting single item of array."  # NumPy, of plain.flat[0] = x, in place of a card


# --- what is right --------------------------------------------------------------------------------


def copies_of(args: Any) -> Arrays:
    """Arguments that a program may write into."""
    return [np.array(a) for a in args]


def loss_of(function: Callable[..., Any], n: Any, z: Any) -> Callable[[Any, Any], Any]:
    """A number made of all the results that are real or complex."""

    def loss(x: Any, m: Any) -> Any:
        total = 0.0  # n and z belong to the trace: it may write into them
        for k, a in enumerate(function(x, m, fnp.array(n), fnp.array(z))):
            if a.dtype.kind == "f":
                total = total + np.sum(np.sin(a + 0.3 * k))
            elif a.dtype.kind == "c":
                total = total + np.sum(np.sin(a.real) * 0.5 + a.imag)
        return total

    return loss


class Right:
    """What NumPy says about a program: its results, and one directional derivative of its loss."""

    def __init__(self, p: Program) -> None:
        self.p = p
        rng = np.random.default_rng(len(p.text))
        self.direction = rng.standard_normal(4), rng.standard_normal((2, 3))
        with np.errstate(all="ignore"):
            self.results = p.function(*copies_of(p.args))
        self.single = "float32" in p.text
        self.slack = 2e-2 if self.single else 1e-4
        self.losses: dict[float, float] = {}

    @functools.cached_property
    def doubles(self) -> Callable[..., Any]:
        """The program in float64: the differences of float32 say little."""
        text = self.p.text.replace("np.float32", "np.float64")
        exec(text, scope := dict(self.p.function.__globals__))
        return scope["f"]

    def loss_at(self, t: float) -> float:
        """The loss along the direction; modes ask for the same ones."""
        if t not in self.losses:
            self.losses[t] = self._loss_at(t)
        return self.losses[t]

    def _loss_at(self, t: float) -> float:
        x, m, n, z = copies_of(self.p.args)
        loss = loss_of(self.doubles, n, z)
        with np.errstate(all="ignore"):
            return float(loss(x + t * self.direction[0], m + t * self.direction[1]))

    @functools.cached_property
    def reverse(self) -> float:
        """The slope along the direction, by reverse mode."""
        x, m, n, z = copies_of(self.p.args)
        return self.along(both(loss_of(self.p.function, n, z))(x, m))

    def along(self, gradient: Any) -> float:
        """The slope that a gradient by x and m has along the direction."""
        gx, gm = gradient
        return float(np.sum(gx * self.direction[0]) + np.sum(gm * self.direction[1]))

    def slope_close(self, found: float) -> bool:
        """Whether a directional derivative agrees with differences, of one step or another."""
        for h in (STEP, 0.1 * STEP, 10 * STEP):
            slope = (self.loss_at(h) - self.loss_at(-h)) / (2 * h)
            if abs(slope - found) <= self.slack * max(1.0, abs(slope), abs(found)):
                return True
        return False


def _digits_of(right: np.ndarray) -> float:
    """What an element may differ by after elements as large as the largest cancelled."""
    finite = np.abs(right[np.isfinite(right)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    return (1e-7 if right.dtype == np.float32 else 1e-9) * scale


def close(found: Any, right: Any, rtol: float = 1e-6) -> str:
    """What is different between two lists of arrays; nothing if nothing is."""
    for k, (a, b) in enumerate(zip(found, right, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: {a.dtype}{a.shape}, right {b.dtype}{b.shape}"
        if not np.allclose(a, b, rtol, _digits_of(b), equal_nan=True):
            return f"result {k}: {a.tolist()}, right {b.tolist()}"
    return ""


# --- modes ----------------------------------------------------------------------------------------


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a program that was recorded without values, and is run by NumPy."""

    def call(*args: Any) -> Any:
        result = trace(function, [aval_of(a) for a in args])
        return run(result.program, [*result.captured, *args])

    return call


def check_value(transform: Callable[..., Any]) -> Callable[[Right], str]:
    """A mode that compares the results."""

    def check(right: Right) -> str:
        found = transform(right.p.function)(*copies_of(right.p.args))
        return close(found, right.results)

    return check


def check_slope(gradient: Callable[..., Any]) -> Callable[[Right], str]:
    """A mode that compares the gradient along a direction with differences."""

    def check(right: Right) -> str:
        x, m, n, z = copies_of(right.p.args)
        slope = right.along(gradient(loss_of(right.p.function, n, z))(x, m))
        return "" if right.slope_close(slope) else f"slope {slope}, differences disagree"

    return check


def reverse_slope(right: Right) -> str:
    """Reverse mode against differences."""
    if right.slope_close(right.reverse):
        return ""
    return f"slope {right.reverse}, differences disagree"


def jvp_slope(right: Right) -> str:
    """Forward mode against differences, and against reverse mode."""
    x, m, n, z = copies_of(right.p.args)
    loss = loss_of(right.p.function, n, z)
    slope = float(fgrad.jvp(loss, (x, m), right.direction)[1])
    reverse = right.reverse
    if abs(slope - reverse) > (1e-4 if right.single else 1e-8) * max(1.0, abs(slope), abs(reverse)):
        return f"forward {slope}, reverse {reverse}"
    return "" if right.slope_close(slope) else f"forward {slope}, differences disagree"


def both(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient by x and m."""
    return fgrad.grad(loss, (0, 1))


def batched(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient of two examples at once, the first of them."""

    def gradient(loss: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, m: Any) -> Any:
            found = transform(fgrad.vmap(both(loss)))(np.stack([x, x + 0.1]), np.stack([m, 2 * m]))
            return found[0][0], found[1][0]

        return call

    return gradient


def through_vmap(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the first of two examples' losses."""

    def total(x: Any, m: Any) -> Any:
        return fgrad.vmap(loss)(np.stack([x, x + 0.1]), np.stack([m, 2 * m]))[0]

    return both(total)


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a program whose arguments are traced by reverse mode."""
    return lambda x, m, n, z: fgrad.vjp(lambda x, m, n, z: function(x, m, n, z), x, m, n, z)[0]


def in_vmap(function: Callable[..., Any]) -> Callable[..., Any]:
    """The results of the second of three examples."""

    def call(*args: Any) -> Any:
        stacked = [np.stack([a * 0, a, a]) for a in args]
        return [np.asarray(r)[1] for r in fgrad.vmap(function)(*stacked)]

    return call


def second_order(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient, by the reverse of a forward mode: d/dt of the loss along unit vectors."""

    def call(x: Any, m: Any) -> Any:
        def along(dx: Any, dm: Any) -> Any:
            return fgrad.jvp(loss, (x, m), (dx, dm))[1]

        return both(along)(np.cos(x), np.cos(m))

    return call


def aliased(transform: Callable[..., Any]) -> Callable[[Right], str]:
    """A mode in which x and m are parts of one array: results, and what is written into it."""

    def parts(buffer: np.ndarray) -> Arrays:
        return [buffer[:4], buffer[1:7].reshape(2, 3)]

    def check(right: Right) -> str:
        mine, yours = np.linspace(-1, 1, 8), np.linspace(-1, 1, 8)
        expected = right.p.function(*parts(yours), *copies_of(right.p.args[2:]))
        found = transform(right.p.function)(*parts(mine), *copies_of(right.p.args[2:]))
        return close([*found, mine], [*expected, yours])

    return check


def shared_by_all(function: Callable[..., Any]) -> Callable[..., Any]:
    """The results of the second of two examples, which share x and m."""

    def call(x: Any, m: Any, n: Any, z: Any) -> Any:
        mapped = fgrad.vmap(function, in_axes=(None, None, 0, 0))
        return [np.asarray(r)[1] for r in mapped(x, m, np.stack([n, n]), np.stack([z, z]))]

    return call


MODES: dict[str, Callable[[Right], str]] = {
    "functionalize": check_value(lambda f: lambda *a: fgrad.functionalize(f)(*a)[0]),
    "vjp": check_value(eager),
    "grad": reverse_slope,
    "jvp": jvp_slope,
    "vmap": check_value(in_vmap),
    "trace": check_value(traced),
    "trace_grad": check_slope(lambda loss: traced(lambda x, m: list(both(loss)(x, m)))),
    "vmap_grad": check_slope(batched(lambda g: g)),
    "grad_vmap": check_slope(through_vmap),
    "grad_jvp": check_slope(second_order),
    "trace_vmap_grad": check_slope(batched(lambda g: traced(lambda x, m: list(g(x, m))))),
    "aliased_vmap": aliased(shared_by_all),
    "jit": check_value(fgrad.jit),
    "aliased_jit": aliased(fgrad.jit),
    "jit_grad": check_slope(lambda loss: fgrad.jit(both(loss))),
    "grad_jit": check_slope(lambda loss: both(fgrad.jit(loss))),
    "vmap_jit": check_value(lambda f: in_vmap(fgrad.jit(f))),
}
COMPILED = ("jit", "jit_grad", "grad_jit", "vmap_jit", "aliased_jit")
NESTED = ("trace_grad", "vmap_grad", "grad_vmap", "grad_jvp", "trace_vmap_grad", "aliased_vmap")


# --- running --------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What one mode made of one program."""

    program: Program
    mode: str
    refused: str  # the card, if there was one
    wrong: str  # the difference, or what was raised that is no card


def outcomes(p: Program, modes: Any) -> list[Outcome]:
    """Every mode on one program."""
    right = Right(p)
    found = []
    for mode in modes:
        refused = wrong = ""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                wrong = MODES[mode](right)
        except Exception as error:  # a crash is a mismatch, whatever it is
            card = error if isinstance(error, FgradError) else error.__cause__  # NumPy's, of a card
            if str(error) == FLAT_SAYS:
                refused = FLAT_SAYS
            elif isinstance(card, FgradError):
                refused = f"{type(card).__name__}: {str(card).splitlines()[0]}"
            else:
                wrong = f"{type(error).__name__}: {error}"
        found.append(Outcome(p, mode, refused, wrong))
    return found


class Counts:
    """What became of many programs."""

    def __init__(self) -> None:
        self.programs = self.checks = 0
        self.mismatches: list[Outcome] = []
        self.refusals: collections.Counter[str] = collections.Counter()
        self.example: dict[str, Outcome] = {}

    def add(self, results: list[Outcome]) -> None:
        """Count the outcomes of one program."""
        self.programs += 1
        self.checks += len(results)
        for r in results:
            if r.wrong:
                self.mismatches.append(r)
            elif r.refused:
                kind = "".join(c for c in r.refused if not c.isdigit())
                self.refusals[kind] += 1
                self.example.setdefault(kind, r)


def modes_of(number: int, modes: Any, every: int) -> list[str]:
    """The modes of one program: one of those that compile, and of the nested ones, has its turn."""
    turns = [m for m in modes if m in NESTED], [m for m in modes if m in COMPILED]
    found = [m for m in modes if m not in NESTED and m not in COMPILED]
    if turns[0]:
        found.append(turns[0][number % len(turns[0])])
    if turns[1] and number % every == 0:
        found.append(turns[1][number // every % len(turns[1])])
    return found


def check_many(
    seed: int, count: int, modes: Any = tuple(MODES), every: int = 10, show: bool = False
) -> Counts:
    """Run programs 0 to count of a seed."""
    counts = Counts()
    for number in range(count):
        results = outcomes(program(seed, number), modes_of(number, modes, every))
        counts.add(results)
        for r in results:
            if r.wrong and show:
                print(f"--- program {r.program.name}, {r.mode}: {r.wrong}")
    return counts


def report(counts: Counts, seconds: float) -> None:
    """The closing lines."""
    shown = itertools.groupby(counts.mismatches, key=lambda r: r.program.name)
    for name, group in shown:
        first = list(group)
        print(f"\n--- program {name}\n{first[0].program.text}")
        for r in first:
            print(f"  {r.mode}: {r.wrong}")
    for kind, number in counts.refusals.most_common():
        r = counts.example[kind]
        print(f"{number:>7} refused: {kind}   (program {r.program.name}, {r.mode})")
    rate = counts.programs / max(seconds, 1e-9)
    refused = sum(counts.refusals.values())
    print(f"{counts.programs} programs, {counts.checks} checks, {refused} refused, ", end="")
    print(f"{len(counts.mismatches)} mismatches, {rate:.0f} programs a second")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--every", type=int, default=20, help="compile every k-th program")
    parser.add_argument("--only", help="one program, as SEED:NUMBER")
    parser.add_argument("--show", action="store_true", help="print mismatches as they are found")
    options = parser.parse_args()
    modes, start = options.modes.split(","), time.perf_counter()
    if options.only:
        seed, number = map(int, options.only.split(":"))
        p = program(seed, number)
        print(p.text)
        counts = Counts()
        results = outcomes(p, modes)
        counts.add(results)
    else:
        counts = check_many(options.seed, options.count, modes, options.every, options.show)
    report(counts, time.perf_counter() - start)
    return bool(counts.mismatches)


if __name__ == "__main__":
    sys.exit(main())
