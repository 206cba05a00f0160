"""Random loop programs: under jit and in gradients they do what Python does, or raise a card.

    python tests/unmodified/loop_programs.py --seed 0 --count 1000
    python tests/unmodified/loop_programs.py --count 200 --modes jit,jit_grad --show
    python tests/unmodified/loop_programs.py --only 3:17         program 17 of seed 3, with its text
    python tests/unmodified/loop_programs.py --only 3:17 --reduce     as few statements as possible
    python tests/unmodified/loop_programs.py --grammar names     lists, objects, several names

Nested loops, branches, breaks, slices, writes in place and names of one array, see loop_grammar.py;
lists, dictionaries, objects and functions that share arrays, see name_grammar.py.
Python says what the values are, central differences what a gradient is, and forward mode agrees.
A card is a refusal, counted by its kind; anything else is a mismatch.  Gradients take turns: every
program is run by jit and at the prompt, every k-th one (--every) by each of the other modes.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import math
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from case import Case
from kind_grammar import Kinds
from loop_grammar import Block, Grammar, reduced, text_of
from name_grammar import Names
from outcomes import (
    CARD,
    EQUAL,
    ERROR,
    Outcome,
    Reference,
    call_python,
    difference,
    direction_of,
    float_places,
    gradient_outcome,
    guarded,
    is_rounding,
    loss_of,
    moved,
    narrowed,
    quiet,
    value_outcome,
)

import fgrad

FOLDER = tempfile.TemporaryDirectory(prefix="fgrad-loop-programs-", ignore_cleanup_errors=True)
GRAMMARS: dict[str, type[Grammar]] = {"kinds": Kinds, "loops": Grammar, "names": Names}
LARGEST = 1e4  # values of programs that are taken
SLOWEST = 0.02  # seconds that Python may need
RAISES = (IndexError, UnboundLocalError, ZeroDivisionError)
OF_KINDS = (*RAISES, OverflowError, TypeError)


class Program(NamedTuple):
    """A function of a file, its arguments, and what Python makes of them."""

    name: str
    statements: Block
    function: Callable[..., Any]
    case: Case
    right: Reference


def function_of(statements: Block, name: str) -> Callable[..., Any]:
    """The function, in a file of its own: it has source, as a user's has."""
    path = Path(FOLDER.name) / f"{name}.py"
    path.write_text(text_of(statements), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope := {"__name__": name})
    return scope["f"]


def arguments(rng: np.random.Generator) -> tuple[Any, ...]:
    """A vector, a matrix, a permutation, a number, an integer."""
    x, m = rng.uniform(-1, 1, 6), rng.uniform(-1, 1, (3, 6))
    return x, m, rng.permutation(6), float(rng.uniform(-1, 1)), int(rng.integers(0, 7))


def program(seed: int, number: int, grammar: str = "loops") -> Program:
    """The program with a number: the first one drawn that is short and of moderate values."""
    rng = np.random.default_rng([seed, number])
    loose = grammar == "kinds"
    while True:
        statements = GRAMMARS[grammar](rng).program()
        made = tried(
            statements, f"p{seed}_{number}", Case(arguments(rng), True, False, False, loose)
        )
        if made is not None and (made.right.raised is None or rng.random() < 0.3):
            return made


def tried(statements: Block, name: str, case: Case) -> Program | None:
    """A program, if Python runs it in time and to numbers, or raises what programs may raise."""
    try:
        function = function_of(statements, name)
    except SyntaxError:
        return None
    with python_limit() as late:
        right = call_python(function, case)
    raises = OF_KINDS if case.loose else RAISES
    if late or not (right.raised is None or isinstance(right.raised, raises)):
        return None
    if right.raised is None:
        sizes = [_largest(a) for a in fgrad.tree.leaves(right.result)]
        if not all([size <= LARGEST for size in sizes]) or not stable(function, case, right.result):
            return None
    return Program(name, statements, function, case, right)


def _largest(x: object) -> float:
    """The largest size of a number or of an array, of integers that have no dtype too."""
    if isinstance(x, int):
        return float(abs(x)) if abs(x) <= LARGEST else math.inf
    return np.abs(np.asarray(x)).max(initial=0)


class Rounded:
    """NumPy or math, whose functions that are not exact err in the last places, by chance."""

    def __init__(self, module: ModuleType, rng: np.random.Generator) -> None:
        self.module = module
        self.rng = rng

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        return (lambda x: self.erring(found(x))) if name in ("sin", "cos", "tanh") else found

    def erring(self, y: Any) -> Any:
        """A result with the error."""
        return y * (1 + self.rng.uniform(-4e-16, 4e-16, np.shape(y)))


def stable(function: Callable[..., Any], case: Case, right: Any) -> bool:
    """Whether the last place of a sine is far from the results: what is chaotic is not compared."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        given = {"np": Rounded(np, rng), "math": Rounded(math, rng)}
        scope = {**function.__globals__, **given}
        other = call_python(FunctionType(function.__code__, scope, "other"), case)
        if other.raised is not None or difference(other.result, right, 1e-10):
            return False
    return True


@contextlib.contextmanager
def python_limit() -> Iterator[list[bool]]:
    """Stops what takes Python too long; the list is no longer empty then."""
    late: list[bool] = []

    def ring(number: int, frame: FrameType | None) -> None:
        late.append(True)
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SLOWEST * 10)
    try:
        yield late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- modes ----------------------------------------------------------------------------------------


def value(transform: Callable[..., Any]) -> Callable[[Program], Outcome]:
    """A mode that compares results, and what is written into the arguments."""

    def check(p: Program) -> Outcome:
        rtol = 1e-5 if is_single(p) else 1e-7  # a sum in float32 that is read as a float
        return value_outcome(p.right, transform(p.function), p.case, rtol)

    return check


def slope(transform: Callable[..., Any]) -> Callable[[Program], Outcome]:
    """A mode that compares a directional derivative."""

    def check(p: Program) -> Outcome:
        if p.right.raised is not None or is_single(p) or kinked(p):
            return Outcome(EQUAL)
        return gradient_outcome(p.function, p.function, p.case, transform)

    return check


def is_single(p: Program) -> bool:
    """Whether it has float32, of which differences say nothing."""
    text = text_of(p.statements)
    return "float32" in text or "float16" in text or "complex64" in text


def kinked(p: Program) -> bool:
    """Whether differences to the left and to the right are not the same."""
    places = float_places(p.case.args)
    way, loss = direction_of(p.case.args, places), loss_of(p.function)
    with quiet():
        try:
            at = [float(loss(*moved(p.case.args, places, way, t))) for t in (-1e-6, 0.0, 1e-6)]
        except RAISES:
            return True
    left, right = (at[1] - at[0]) / 1e-6, (at[2] - at[1]) / 1e-6
    return not abs(left - right) <= 1e-2 * max(1.0, abs(left), abs(right))


def forward(p: Program) -> Outcome:
    """Forward mode of the compiled program against reverse mode."""
    if p.right.raised is not None or is_single(p) or kinked(p):
        return Outcome(EQUAL)
    places = float_places(p.case.args)
    way = [w[0] for w in direction_of(p.case.args, places)]

    def run() -> str:
        args = copy.deepcopy(p.case.args)

        def loss(*chosen: Any) -> Any:
            full = list(copy.deepcopy(args))
            for k, x in zip(places, chosen, strict=True):
                full[k] = x
            return loss_of(p.function)(*full)

        chosen = [np.asarray(args[k])[()] for k in places]
        tangents = [np.asarray(w)[()] for w in way]

        def reverse(times: float) -> float:
            gradient = fgrad.grad(lambda *xs: times * loss(*xs), tuple(range(len(places))))
            found = fgrad.jit(gradient)(*chosen)
            return sum([float(np.sum(w * g)) for w, g in zip(tangents, found, strict=True)])

        found = fgrad.jit(lambda *xs: fgrad.jvp(loss, xs, tuple(tangents))[1])(*chosen)
        right = reverse(1.0)
        close = abs(float(found) - right) <= 1e-7 * max(1.0, abs(right))
        return "" if close or is_rounding(reverse) else f"forward {float(found)}, reverse {right}"

    return guarded(run)


def again(p: Program) -> Outcome:
    """A function that was called with other numbers before, so that it took other branches."""
    x, m, order, a, k = p.case.args
    compiled = fgrad.jit(p.function)
    other = p.case._replace(args=(-x, m[::-1].copy(), order[::-1].copy(), -a, k))
    with python_limit() as late:
        right = call_python(p.function, other)
    if late or right.raised is not None or not stable(p.function, other, right.result):
        return Outcome(EQUAL)
    rtol = 1e-5 if is_single(p) else 1e-7
    found = value_outcome(right, compiled, other, rtol)
    return value_outcome(p.right, compiled, p.case, rtol) if found.kind == EQUAL else found


def lanes(p: Program) -> Outcome:
    """Of two lanes, the second one; the first one takes other branches."""
    x, m, order, a, k = copy.deepcopy(p.case.args)
    if p.right.raised is not None:
        return Outcome(EQUAL)
    a = np.float64(a)  # what is mapped is NumPy's
    with python_limit() as late:
        other = call_python(p.function, p.case._replace(args=(-x, m[::-1], order, -a, k)))
        own = call_python(p.function, p.case._replace(args=(x, m, order, a, k)))
    if late or other.raised is not None or own.raised is not None:
        return Outcome(EQUAL)  # what one lane raises, all raise

    def run() -> str:
        both = np.stack([-x, x]), np.stack([m[::-1], m]), order, np.array([-a, a]), k
        found = fgrad.vmap(p.function, in_axes=(0, 0, None, 0, None))(*both)
        found = [np.asarray(leaf)[1][()] for leaf in fgrad.tree.leaves(found)]
        right = fgrad.tree.leaves(own.result)
        if len(found) != len(right):
            return f"{len(found)} results, right {len(right)}"
        found = narrowed(found, right) if p.case.loose else found
        pairs = zip(found, right, strict=True)
        rtol = 1e-5 if is_single(p) else 1e-7
        return "; ".join([d for one, two in pairs if (d := difference(one, two, rtol))])

    return guarded(run)


MODES: dict[str, Callable[[Program], Outcome]] = {
    "jit": value(fgrad.jit),
    "grad": slope(lambda loss, places: fgrad.grad(loss, places)),
    "jit_grad": slope(lambda loss, places: fgrad.jit(fgrad.grad(loss, places))),
    "grad_jit": slope(lambda loss, places: fgrad.grad(fgrad.jit(loss), places)),
    "jvp": forward,
    "again": again,
    "lanes": lanes,
}
ALWAYS = ("jit", "grad")


class Counts:
    """What became of many programs."""

    def __init__(self) -> None:
        self.programs = self.checks = 0
        self.mismatches: list[tuple[Program, str, Outcome]] = []
        self.equal: collections.Counter[str] = collections.Counter()
        self.cards: collections.Counter[str] = collections.Counter()
        self.example: dict[str, str] = {}

    def add(self, p: Program, mode: str, found: Outcome) -> None:
        """Count an outcome."""
        self.checks += 1
        if found.kind == EQUAL:
            self.equal[mode] += 1
        elif found.kind == CARD:
            kind = f"{mode}: " + "".join([c for c in found.says if not c.isdigit()])
            self.cards[kind] += 1
            self.example.setdefault(kind, p.name)
        else:
            self.mismatches.append((p, mode, found))


def modes_of(number: int, modes: list[str], every: int) -> list[str]:
    """The modes of one program: one of those that are dear has its turn."""
    dear = [m for m in modes if m not in ALWAYS]
    found = [m for m in modes if m in ALWAYS]
    if dear and number % every == 0:
        found.append(dear[number // every % len(dear)])
    return found


def check_many(
    seed: int,
    numbers: range,
    modes: list[str],
    every: int = 3,
    show: bool = False,
    grammar: str = "loops",
) -> Counts:
    """Run some programs of a seed."""
    counts = Counts()
    for number in numbers:
        p = program(seed, number, grammar)
        counts.programs += 1
        for mode in modes_of(number, modes, every):
            found = MODES[mode](p)
            counts.add(p, mode, found)
            if show and found.kind not in (EQUAL, CARD):
                print(f"--- {p.name[1:].replace('_', ':')} {mode}: {found.says}", flush=True)
    return counts


def smallest(p: Program, mode: str) -> Program:
    """As few statements as possible that still go wrong in a mode."""

    found = MODES[mode](p)
    first = found.says.split(":")[0] if found.kind == ERROR else ""

    def fails(statements: Block) -> bool:
        made = tried(statements, f"{p.name}_r{time.perf_counter_ns()}", p.case)
        if made is None:
            return False
        other = MODES[mode](made)
        return other.kind == found.kind and other.says.startswith(first)

    statements = reduced(p.statements, fails)
    return tried(statements, p.name + "_small", p.case) or p


def report(counts: Counts, seconds: float, reduce: bool) -> None:
    """The closing lines."""
    for p, mode, found in counts.mismatches:
        if reduce:
            p = smallest(p, mode)
            found = MODES[mode](p)
        print(f"\n--- {p.name} {mode} {found.kind}: {found.says}\n{text_of(p.statements)}")
        print(f"arguments {p.case.args}")
    for kind, number in counts.cards.most_common():
        print(f"{number:>7} refused: {kind}   ({counts.example[kind]})")
    print(", ".join([f"{mode} {n} equal" for mode, n in counts.equal.items()]))
    print(f"{counts.programs} programs, {counts.checks} checks, ", end="")
    print(f"{sum(counts.cards.values())} refused, {len(counts.mismatches)} mismatches", end="")
    print(f", {seconds / max(counts.programs, 1):.2f} s a program")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first program")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--every", type=int, default=3, help="gradients of every k-th program")
    parser.add_argument("--only", help="one program, as SEED:NUMBER")
    parser.add_argument("--grammar", choices=list(GRAMMARS), default="loops")
    parser.add_argument("--show", action="store_true", help="print mismatches as they are found")
    parser.add_argument("--reduce", action="store_true", help="leave out statements of mismatches")
    options = parser.parse_args()
    modes, begin = options.modes.split(","), time.perf_counter()
    if options.only:
        seed, number = map(int, options.only.split(":"))
        p = program(seed, number, options.grammar)
        print(text_of(p.statements))
        counts = Counts()
        counts.programs = 1
        for mode in modes:
            counts.add(p, mode, MODES[mode](p))
    else:
        numbers = range(options.start, options.start + options.count)
        counts = check_many(
            options.seed, numbers, modes, options.every, options.show, options.grammar
        )
    report(counts, time.perf_counter() - begin, options.reduce)
    return bool(counts.mismatches)


if __name__ == "__main__":
    sys.exit(main())
