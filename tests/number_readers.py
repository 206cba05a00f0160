"""Which functions take a number, and what becomes of the derivative of a traced one.

    python tests/number_readers.py            a table of modules, and what became of their calls
    python tests/number_readers.py --list     and each call that was made
    python tests/number_readers.py --how repl     the same at the prompt; or c, exec, notebook
    python tests/number_readers.py --how all      all of them: the tables must be as a file's

The functions are those that math, cmath, statistics, random, operator, functools, itertools,
builtins, numpy (with linalg, fft, random and its generators, plain arrays and scalar types),
scipy.special, scipy.integrate and scipy.optimize (with functions that close over the number) have
here.  Each is called with a number in each place, or with lists and arrays that hold it, where
plain numbers are taken there.  Its derivative under `grad` must be that of differences, or the call
must raise:

    right, zero   the derivative of differences
    raised        no number was lost
    python        Python code of NumPy or SciPy, which asks for no number, see `PYTHON`
    rough         differences do not say
    silent        another derivative: there must be none

None was silent of 4,805 calls on Python 3.10, 5,407 on 3.11, 5,432 on 3.12 and 5,458 on 3.13, in
each of these ways, which gave the same tables.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import contextlib
import functools
import importlib
import inspect
import io
import itertools
import json
import math
import operator
import os
import random
import signal
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.special

import fgrad

X = 0.43  # where derivatives are taken
A = np.array([0.21, 0.52, 0.87])
# What asks the user, files, or the state of the process; and searches that take long.
_UNSAFE = (
    "breakpoint compile delattr eval exec exit getattr globals help input locals open print quit "
    "setattr vars copyright credits license save savetxt savez savez_compressed load loadtxt "
    "genfromtxt fromfile memmap fromregex test info show_config show_runtime seterr seterrcall "
    "setbufsize set_printoptions tofile dump setflags set_state get_include seed byteswap "
    "id empty empty_like GenericAlias basinhopping dual_annealing shgo differential_evolution "
    "direct brute show_options"
)
UNSAFE = frozenset(_UNSAFE.split())

# Python code of libraries that loses a derivative without reading a number: no C function is asked.
PYTHON = {
    "scipy.optimize: golden": "it compares numbers, and calculates with none of the function's",
    "scipy.optimize: bracket": "likewise",
    "numpy.polynomial: polyvalfromroots": "it asks isinstance(x, np.ndarray)",
}

Call = tuple[str, Callable[[Any], Any]]  # what is shown, and a function of the number


# --- numbers of results ---------------------------------------------------------------------------


def total(out: Any, depth: int = 0) -> Any:
    """The sum of all numbers in a result, with weights for imaginary parts."""
    if out is NotImplemented or (out is None and not depth):
        raise TypeError
    if isinstance(out, (bool, str, bytes, type(None), type)) or depth > 4:
        return 0.0
    if isinstance(out, (int, float)):
        return out * 1.0
    if isinstance(out, complex):
        return out.real + 0.7 * out.imag
    if isinstance(out, dict):
        return sum([total(out[k], depth + 1) for k in ("x", "root", "y", "fun") if k in out])
    if isinstance(out, (np.ndarray, np.generic)) or type(out).__name__ == "Tracer":
        if out.dtype.kind not in "iufc":
            return 0.0
        value = np.sum(out)
        return np.real(value) + 0.7 * np.imag(value)
    if isinstance(out, (tuple, list)):
        return sum([total(item, depth + 1) for item in out], 0.0)
    if isinstance(out, Iterator):
        return total(list(itertools.islice(out, 8)), depth + 1)
    if hasattr(out, "root"):
        return total(out.root, depth + 1)
    if hasattr(out, "coef"):
        return total(out.coef, depth + 1)
    return 0.0


# --- what is called -------------------------------------------------------------------------------

# Kinds of arguments: the value in a place, each another one, and the same with the number in it.
KINDS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any] | None]] = {
    "x": (lambda p: 0.61 - 0.13 * p, lambda x: x),
    "[x]": (lambda p: [0.21 + 0.02 * p, 0.55, 0.87], lambda x: [0.21, x, 0.87]),
    "a*x": (lambda p: A * (0.5 + 0.1 * p), lambda x: A * x),
    "a": (lambda p: A + 0.03 * p, None),
    "m": (lambda p: np.array([[2.0, 0.3], [0.3, 1.0 + 0.1 * p]]), None),
    "2": (lambda p: 2, None),
    "f": (lambda p: np.hypot, None),
}


def public(module: Any) -> list[tuple[str, Any]]:
    """The functions and types of a module, by name."""
    names = [n for n in dir(module) if not n.startswith("_") and n not in UNSAFE]
    found = [(n, getattr(module, n, None)) for n in names]
    waves = ("1_cv", "2_cv")  # solve their equation for one value of an argument, not for any
    found = [(n, f) for n, f in found if not n.endswith(waves)]
    return [(n, f) for n, f in found if callable(f) and not is_exception(f)]


def is_exception(f: Any) -> bool:
    """Whether it is a class of errors."""
    return isinstance(f, type) and issubclass(f, BaseException)


def method(make: Callable[[], Any], name: str) -> Callable[..., Any]:
    """A method of a fresh object: its result, and what it has written into the object."""

    def call(*args: Any, **kwargs: Any) -> Any:
        owner = make()
        return getattr(owner, name)(*args, **kwargs), owner

    return call


def methods(make: Callable[[], Any], dunders: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    """The methods of the objects that `make` gives."""
    owner = make()
    names = [n for n in dir(owner) if (not n.startswith("_") or n in dunders) and n not in UNSAFE]
    return [(n, method(make, n)) for n in names if callable(getattr(type(owner), n, None))]


def set_item(index: Any) -> Callable[..., Any]:
    """An assignment into a plain array."""

    def call(value: Any) -> Any:
        owner = A.copy()
        owner[index] = value
        return owner

    return call


_ARITHMETIC = "add radd mul rmul sub truediv pow setitem iadd imul"
ARITHMETIC = tuple([f"__{n}__" for n in _ARITHMETIC.split()])
MODULES: dict[str, Callable[[], list[tuple[str, Any]]]] = {
    "builtins": lambda: public(builtins),
    "math": lambda: public(math),
    "cmath": lambda: public(cmath),
    "statistics": lambda: public(statistics),
    "statistics.NormalDist": lambda: methods(lambda: statistics.NormalDist(0.1, 1.2)),
    "random": lambda: methods(lambda: random.Random(1)),
    "operator": lambda: public(operator),
    "functools": lambda: public(functools),
    "itertools": lambda: public(itertools),
    "float": lambda: methods(lambda: 1.7, ARITHMETIC),
    "complex": lambda: methods(lambda: 1.7 + 0.3j, ARITHMETIC),
    "numpy": lambda: public(np),
    "numpy.linalg": lambda: public(np.linalg),
    "numpy.fft": lambda: public(np.fft),
    "numpy.random": lambda: methods(lambda: np.random.RandomState(1)),
    "numpy.random.Generator": lambda: methods(lambda: np.random.default_rng(1)),
    "numpy.ndarray": lambda: [
        *methods(A.copy, ARITHMETIC),
        *[(f"y[{k!r}] = v", set_item(k)) for k in (0, slice(2), ..., [0, 1], np.arange(3) < 2)],
    ],
    "numpy.float64": lambda: methods(lambda: np.float64(1.7), ARITHMETIC),
    "numpy.ufunc": lambda: [
        (f"{u.__name__}.{n}", getattr(u, n))
        for u in (np.add, np.multiply, np.maximum, np.hypot)
        for n in ("reduce", "accumulate", "outer", "reduceat")
    ],
    "numpy.polynomial": lambda: public(np.polynomial.polynomial),
    "scipy.special": lambda: public(scipy.special),
}


# --- calls ----------------------------------------------------------------------------------------


def plain_result(fn: Callable[..., Any], kinds: tuple[str, ...], named: str = "") -> Any:
    """The total of a call with plain arguments; None if it is refused."""
    args = [KINDS[k][0](p) for p, k in enumerate(kinds)]
    try:
        found = total(fn(*args, **({named: X} if named else {})))
        return found if math.isfinite(found) else None
    except Exception:  # whatever a function says to arguments that it does not take
        return None


def calls_of(name: str, fn: Any) -> list[Call]:
    """Calls that take a number: each place of each kind once, and each keyword."""
    found: list[Call] = []
    seen: set[tuple[int, str]] = set()
    most = fn.nin if isinstance(fn, np.ufunc) else 3
    bases: list[tuple[str, ...]] = []
    for n in range(1, most + 1):
        for kinds in itertools.product(KINDS if n < 4 else ("x", "2"), repeat=n):
            new = {(p, k) for p, k in enumerate(kinds) if KINDS[k][1] is not None} - seen
            first = n not in {len(b) for b in bases}
            if not (new or first) or plain_result(fn, kinds) is None:
                continue
            bases.append(kinds)
            for place, kind in sorted(new):
                seen.add((place, kind))
                found.append((shown(name, kinds, place), positional(fn, kinds, place)))
    for base in bases[:2]:
        for key in keywords_of(fn)[len(base) :]:
            if plain_result(fn, base, key) is not None:
                found.append((f"{name}({', '.join(base)}, {key}=x)", by_keyword(fn, base, key)))
    return found


def shown(name: str, kinds: tuple[str, ...], place: int) -> str:
    """How a call is written in the list."""
    marked = [f"<{k}>" if p == place else k for p, k in enumerate(kinds)]
    return f"{name}({', '.join(marked)})"


def positional(fn: Callable[..., Any], kinds: tuple[str, ...], place: int) -> Callable[[Any], Any]:
    """The call as a function of the number in one place."""

    def call(x: Any) -> Any:
        args = [KINDS[k][0](p) for p, k in enumerate(kinds)]
        hole = KINDS[kinds[place]][1]
        assert hole is not None
        args[place] = hole(x)
        return fn(*args)

    return call


def by_keyword(fn: Callable[..., Any], base: tuple[str, ...], key: str) -> Callable[[Any], Any]:
    """The call as a function of the number that a keyword takes."""
    return lambda x: fn(*[KINDS[k][0](p) for p, k in enumerate(base)], **{key: x})


def keywords_of(fn: Any) -> list[str]:
    """The names of the parameters of a function, where they are known."""
    try:
        return [p.name for p in inspect.signature(fn).parameters.values() if p.name != "out"]
    except (TypeError, ValueError):
        return []


SOLVED: dict[str, Callable[[Any, Any], Any]] = {
    "(f, a, b)": lambda fn, x: fn(lambda t, *_: t**3 + t - x, 0.0, 5.0),
    "(f, x0)": lambda fn, x: fn(lambda t: t**3 + t - x, 0.6),
    "(f, a, b, args)": lambda fn, x: fn(lambda t, p: t**3 + t - p, 0.0, 5.0, (x,)),
    "(f, limits x)": lambda fn, x: fn(lambda t: np.exp(-t), 0.0, x),
    "(f, method)": lambda fn, x: fn(lambda t: t**3 + t - x, bracket=(0.0, 5.0)),
    "(f)": lambda fn, x: fn(lambda t: (t - x) ** 2),
    "(norm, x0)": lambda fn, x: fn(lambda t: np.sum((t - x) ** 2), [0.6]),
    "(vector, x0)": lambda fn, x: fn(lambda t: t**3 + t - x, [0.6]),
    "(f, gradient)": lambda fn, x: fn(
        lambda t: np.sum((t - x) ** 2), lambda t: 2 * (t - x), np.array([0.6]), np.array([-0.3])
    ),
    "(model, t, y)": lambda fn, x: fn(lambda t, a: a * t * x, A, A),
    "(field, y0, t)": lambda fn, x: fn(lambda y, t: -x * y, 1.0, [0.0, 0.5]),
    "(field, span, y0)": lambda fn, x: fn(lambda t, y: -x * y, (0.0, 0.5), [1.0]),
    "(field, t, y0, end)": lambda fn, x: fn(lambda t, y: -x * y, 0.0, [1.0], 0.5).step(),
    "(f, a, b, g, h)": lambda fn, x: fn(lambda s, t: s * x, 0.0, 1.0, 0.0, 1.0),
    "(f, a, b, g, h, q, r)": lambda fn, x: fn(lambda s, t, u: s * x, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0),
    "(f, ranges)": lambda fn, x: fn(lambda t: np.exp(-x * t), [(0.0, 1.0)]),
    "(samples)": lambda fn, x: fn(A * x, dx=0.1),
}


def solver_calls(module: Any, every: int) -> list[Call]:
    """Calls of functions that take a function, which closes over the number."""
    found: list[Call] = []
    for name, fn in public(module)[::every]:
        if isinstance(fn, type) and issubclass(fn, (dict, Warning)):
            continue
        for pattern, call in SOLVED.items():
            bound = functools.partial(call, fn)
            if plain_total(bound, X) is not None:
                found.append((f"{name}{pattern}", bound))
    return found


# --- verdicts -------------------------------------------------------------------------------------


def plain_total(call: Callable[[Any], Any], x: float) -> float | None:
    """The total of a call with a plain number; None if it is refused."""
    try:
        with limited(10):
            return float(total(call(x)))
    except Exception:  # as above
        return None


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """At most so long, and in silence."""

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def slope(call: Callable[[Any], Any], h: float) -> float | None:
    """The central difference of a call at X."""
    high, low = plain_total(call, X + h), plain_total(call, X - h)
    return None if high is None or low is None else (high - low) / (2 * h)


def verdict(call: Callable[[Any], Any]) -> str:
    """right, zero, raised or silent; rough where differences do not say."""
    coarse, fine = slope(call, 1e-4), slope(call, 2e-5)
    try:
        with limited(20):
            found = float(fgrad.grad(lambda x: total(call(x)) + 0.0 * x)(X))
    except Exception:  # a card, or what NumPy and SciPy put on top of it
        return "raised"
    if coarse is None or fine is None or not near(coarse, fine):
        return "rough"
    if near(found, fine):
        return "zero" if near(fine, 0.0) else "right"
    return "silent"


def near(a: float, b: float) -> bool:
    """Whether two slopes agree as far as differences can tell."""
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 2e-3 * (1.0 + abs(b))


def all_calls(every: int = 1) -> Iterator[tuple[str, Call]]:
    """Each call, with the module of its function; of `every` n-th function alone."""
    for module, functions in MODULES.items():
        with limited(100):
            calls = [c for name, fn in functions()[::every] for c in calls_of(name, fn)]
        yield from [(module, call) for call in calls]
    for module in (scipy.integrate, scipy.optimize):
        yield from [(module.__name__, call) for call in solver_calls(module, every)]


COLUMNS = ("calls", "right", "zero", "raised", "python", "rough", "silent")


def survey(every: int = 1) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Counts for each module, and the calls of each verdict; of `every` n-th function alone."""
    table: dict[str, dict[str, int]] = {}
    lists: dict[str, list[str]] = {}
    for module, (text, call) in all_calls(every):
        row = table.setdefault(module, dict.fromkeys(COLUMNS, 0))
        said, full = verdict(call), f"{module}: {text}"
        if said == "silent" and any([full.startswith(name) for name in PYTHON]):
            said = "python"
        row["calls"] += 1
        row[said] += 1
        lists.setdefault(said, []).append(full)
    return table, lists


def report(table: dict[str, dict[str, int]]) -> str:
    """The table as text."""
    whole = {c: sum([row[c] for row in table.values()]) for c in COLUMNS}
    lines = ["".join([f"{'':<24}", *[f"{c:>8}" for c in COLUMNS]])]
    for name, row in {**table, "all": whole}.items():
        lines.append("".join([f"{name:<24}", *[f"{row[c]:>8}" for c in COLUMNS]]))
    return "\n".join(lines)


def main() -> None:
    """Print the table; the environment says which parts."""
    options = os.environ.get("NUMBER_READERS", "")
    table, lists = survey()
    print(report(table))
    for said in (
        ("silent", "rough", "raised", "right", "zero") if "list" in options else ("silent",)
    ):
        for line in lists.get(said, []):
            print(f"{said:<8}{line}")
    print("RESULT", json.dumps(table, sort_keys=True))


# --- ways to run this file ------------------------------------------------------------------------


def for_the_prompt(source: str) -> str:
    """Source text as one types it: no empty lines within a statement, one after it."""
    statements = [ast.unparse(node) for node in ast.parse(source).body]
    lines = ["\n".join([line for line in s.splitlines() if line.strip()]) for s in statements]
    return "\n\n".join(lines) + "\n\n"


def in_a_notebook(source: str) -> str:
    """What a notebook prints whose only cell is the source."""
    nbclient, nbformat = map(importlib.import_module, ("nbclient", "nbformat"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(book, timeout=1200).execute()
    return "".join([out.get("text", "") for out in book.cells[0].outputs])


def run_python(*arguments: str, text: str = "") -> str:
    """What this Python prints."""
    done = subprocess.run(
        [sys.executable, *arguments], input=text, capture_output=True, text=True, check=False
    )
    return done.stdout


PATH = os.path.abspath(__file__) if "__file__" in globals() else ""  # none in a notebook
WAYS: dict[str, Callable[[str], str]] = {
    "file": lambda source: run_python(PATH),
    "c": lambda source: run_python("-c", source),
    "exec": lambda source: run_python(
        "-c", f"exec(compile(open({PATH!r}).read(), '<string>', 'exec'))"
    ),
    "repl": lambda source: run_python("-i", "-q", text=for_the_prompt(source)),
    "notebook": in_a_notebook,
}


def other_ways(wanted: list[str]) -> bool:
    """Run in other ways; whether no number was lost, and the tables are the same."""
    with open(PATH, encoding="utf-8") as file:
        source = file.read()
    results: list[dict[str, dict[str, int]]] = []
    for way in wanted:
        said = [line for line in WAYS[way](source).splitlines() if line.startswith("RESULT")]
        results.append(json.loads(said[0][7:]) if said else {})
        counts = {c: sum([row[c] for row in results[-1].values()]) for c in COLUMNS}
        same = "" if results[-1] == results[0] else f"not as {wanted[0]}"
        print(f"{way:<9}", counts if said else "no table", same, flush=True)
    lost = [row["silent"] for table in results for row in table.values()]
    return bool(lost) and not any(lost) and all([r == results[0] for r in results])


if __name__ == "__main__":
    if "--how" in sys.argv[1:]:
        asked = sys.argv[-1]
        sys.exit(not other_ways(list(WAYS) if asked == "all" else [asked]))
    if "--list" in sys.argv[1:]:
        os.environ["NUMBER_READERS"] = "list"
    main()
