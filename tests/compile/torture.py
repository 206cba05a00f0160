"""Random calls of jitted functions: each one gives what NumPy gives, or the error it must end in.

    python tests/compile/torture.py --calls 1000000 --seed 0 --threads 2

Arguments are whole numbers, so that all results are exact.  A round draws functions and kinds of
arguments and calls them again and again with arguments of one kind in ever other guises; every
result is then overwritten, and looked at later, so that memory which is not its own is noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from allocated import allocated_bytes
from torture_values import (
    BAD_ARRAYS,
    BAD_OBJECTS,
    DTYPES,
    FRAGILE,
    GUISES,
    SCALARS,
    SHAPES,
    SINGULAR,
    TREES,
    Fragile,
    Named,
    plain,
    whole_numbers,
)

import fgrad
from fgrad import jit, tree
from fgrad.config import config
from fgrad.errors import FgradError, UnsupportedTypeError

BAD = 0.04  # share of the calls with an argument that is refused
KEPT = 100  # results of calls that are looked at again
MIXED = 0.05  # share of the calls whose arguments are of the kind of another function


class Kind(NamedTuple):
    """A kind of arguments: a container for the leaves, names of keywords, what the leaves are."""

    container: Callable[[list[Any]], Any]
    keywords: tuple[str, ...]
    leaves: tuple[tuple[tuple[int, ...], str] | type, ...]


# --- functions ------------------------------------------------------------------------------------


def affine(*args: Any, **kwargs: Any) -> Any:
    """All leaves, each in the same place."""
    return tree.map(lambda x: x * 2 + 1, (args, kwargs))


def untouched(*args: Any, **kwargs: Any) -> Any:
    """Arguments as results: the objects themselves."""
    return args, kwargs


def sums(*args: Any, **kwargs: Any) -> Any:
    """Scalars of many types in many containers."""
    parts = [(np.sum(x), np.any(x != 0), None) for x in tree.leaves((args, kwargs))]
    return {"sums": parts, "named": Named(w=[p[0] + 1 for p in parts], b=()), "one": 1.0}


def reversed_axes(*args: Any, **kwargs: Any) -> Any:
    """Results that read their arguments in another order."""
    return [np.transpose(x)[::-1] if np.ndim(x) else x for x in tree.leaves((args, kwargs))]


def together(*args: Any, **kwargs: Any) -> Any:
    """One result of all leaves."""
    total = 0
    for x in tree.leaves((args, kwargs)):
        total = total + np.sum(x) * 2
    return total


def picked(*args: Any, **kwargs: Any) -> Any:
    """A container with code of its own, and constants."""
    leaves = tree.leaves((args, kwargs))
    return Fragile(leaves[0], np.arange(3.0)) if leaves else None


def solved(*args: Any, **kwargs: Any) -> Any:
    """A library step that may fail."""
    return [
        np.linalg.inv(x)
        for x in tree.leaves((args, kwargs))
        if np.shape(x) == (2, 2) and x.dtype == np.float64
    ]


FUNCTIONS = (affine, untouched, sums, reversed_axes, together, picked, solved)


# --- arguments ------------------------------------------------------------------------------------


def draw_kind(rng: np.random.Generator) -> Kind:
    """A random kind of arguments."""
    count = int(rng.integers(0, 5))
    leaves: list[Any] = []
    for _ in range(count):
        if rng.random() < 0.3:
            leaves.append(SCALARS[rng.integers(len(SCALARS))])
        else:
            shape = SHAPES[rng.integers(len(SHAPES))]
            leaves.append((shape, DTYPES[rng.integers(len(DTYPES))]))
    names = tuple(rng.permutation(["alpha", "beta", "gamma"])[: rng.integers(0, 3)])
    return Kind(TREES[rng.integers(len(TREES))], tuple(map(str, names)), tuple(leaves))


def draw_leaf(rng: np.random.Generator, what: Any) -> Any:
    """An argument of a kind, in a random guise."""
    if isinstance(what, type):
        return what(int(rng.integers(0, 5)))
    shape, dtype = what
    if (shape, dtype) == ((2, 2), "f8") and rng.random() < 0.2:
        return SINGULAR.copy()
    x = whole_numbers(rng, shape, dtype)
    return x if rng.random() < 0.4 else GUISES[rng.integers(len(GUISES))](x)


def draw_call(rng: np.random.Generator, kind: Kind) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Arguments of a kind, and whether one of them must be refused."""
    leaves = [draw_leaf(rng, what) for what in kind.leaves]
    bad = bool(leaves) and rng.random() < BAD
    if bad:
        at = int(rng.integers(len(leaves)))
        if rng.random() < 0.5:
            leaves[at] = BAD_OBJECTS[rng.integers(len(BAD_OBJECTS))]
        else:
            leaves[at] = BAD_ARRAYS[rng.integers(len(BAD_ARRAYS))](rng)
    named = dict(zip(kind.keywords, leaves, strict=False))
    args = (kind.container(leaves[len(named) :]),)
    bad = bad and any([x is leaves[at] for x in tree.leaves((args, named))])
    return args, named, bad


# --- the comparison -------------------------------------------------------------------------------


def expected_outcome(fun: Any, args: Any, kwargs: Any) -> Any:
    """What NumPy says: the result, or the error."""
    args, kwargs = tree.map(plain, (args, kwargs))
    try:
        with np.errstate(all="ignore"):
            return tree.map(lambda x: np.asarray(x)[()], fun(*args, **kwargs))
    except (TypeError, ValueError, ArithmeticError) as error:
        return error


def found_outcome(fun: Any, args: Any, kwargs: Any) -> Any:
    """What the jitted function says."""
    try:
        return fun(*args, **kwargs)
    except (FgradError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        return error


def copied(x: Any) -> Any:
    """An argument as a result that is nobody else's."""
    array = np.array(plain(x))
    return array if array.ndim else array[()]


def difference(found: Any, expected: Any, refused: bool) -> str:
    """What is wrong with an outcome, or nothing."""
    if refused:
        return "" if isinstance(found, UnsupportedTypeError) else "accepted a bad argument"
    if isinstance(expected, Exception):
        return "" if isinstance(found, type(expected)) else f"no {type(expected).__name__}"
    if isinstance(found, Exception):
        return f"raised {type(found).__name__}: {str(found).splitlines()[0]}"
    if tree.structure(found) != tree.structure(expected):
        return "another structure"
    for x, y in zip(tree.leaves(found), tree.leaves(expected), strict=True):
        if type(x) is not type(y) or x.dtype != y.dtype or x.shape != y.shape:
            return f"{type(x).__name__} {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        if not (np.array_equal(x, y) or np.allclose(x, y, 1e-12, 1e-12)):
            return "other numbers"
        if isinstance(x, np.ndarray) and not (x.flags.writeable and x.flags.owndata):
            return "a result that is not an array of its own"
    return ""


class Report:
    """What was counted, and the first mistakes; shared by threads."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self.kept: deque[list[np.ndarray]] = deque()

    def one_call(
        self, rng: np.random.Generator, name: str, fun: Any, jitted: Any, kind: Kind
    ) -> None:
        """Make a call and compare."""
        args, kwargs, refused = draw_call(rng, kind)
        expected = None if refused else expected_outcome(fun, args, kwargs)
        if name == "picked" and rng.random() < 0.1 and isinstance(expected, Fragile):
            expected, FRAGILE.fails = LookupError(), True
        found = found_outcome(jitted, args, kwargs)
        given = {id(x) for x in tree.leaves((args, kwargs)) if hasattr(x, "__array__")}
        if not isinstance(found, Exception):
            found = tree.map(lambda x: copied(x) if id(x) in given else x, found)
        FRAGILE.fails = False
        wrong = difference(found, expected, refused)
        self.counts["calls"] += 1
        self.counts["refused"] += refused
        self.counts["errors"] += isinstance(expected, Exception)
        if wrong:
            self.counts["mistakes"] += 1
            if len(self.mistakes) < 20:
                self.mistakes.append(f"{name}: {wrong}\n    of {describe(args, kwargs)}")
        elif not isinstance(found, Exception):
            self.keep([x for x in tree.leaves(found) if isinstance(x, np.ndarray)])

    def keep(self, results: list[np.ndarray]) -> None:
        """Overwrite results, whose memory is nobody else's, and look at them again much later."""
        for x in results:
            x.fill(1)
        self.kept.append(results)
        old = self.kept.popleft() if len(self.kept) > KEPT else []
        if not all([np.array_equal(x, np.ones_like(x)) for x in old]):
            self.counts["mistakes"] += 1
            self.mistakes.append("a result was written by somebody else")


def describe(args: Any, kwargs: Any) -> str:
    """Arguments without their numbers."""
    leaves = tree.leaves((args, kwargs))
    texts = [f"{type(x).__name__}:{getattr(x, 'dtype', '')}{np.shape(x)}" for x in leaves]
    return f"{tree.structure((args, kwargs))} with {', '.join(texts)}"[:400]


# --- rounds ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def collections_that_call() -> Iterator[None]:
    """Run the collector all the time, and call jitted functions from within."""
    inside = jit(lambda x: (x + 1, {"y": [x.sum()]}))

    def call(_phase: str, _info: dict[str, int]) -> None:
        inside(np.arange(4.0))

    usual = gc.get_threshold()
    gc.callbacks.append(call)
    gc.set_threshold(300)
    try:
        yield
    finally:
        gc.callbacks.remove(call)
        gc.set_threshold(*usual)


def play(report: Report, seed: int, calls: int, threads: int) -> None:
    """One round: new functions and kinds, called by some threads at once."""
    rng = np.random.default_rng(seed)
    pairs = []
    for fun in FUNCTIONS:
        jitted = jit(fun)
        pairs += [(fun.__name__, fun, jitted, draw_kind(rng)) for _ in range(4)]

    def work(own: int) -> None:
        mine = np.random.default_rng([seed, own])
        for _ in range(calls // threads):
            name, fun, jitted, kind = pairs[mine.integers(len(pairs))]
            if mine.random() < MIXED:
                kind = pairs[mine.integers(len(pairs))][3]
            report.one_call(mine, name, fun, jitted, kind)

    settings = {
        "recycle": seed % 3 == 1,
        "native_calls": seed % 7 != 6,
        "num_threads": 1 + seed % 3,
    }
    busy = collections_that_call() if seed % 4 == 3 else contextlib.nullcontext()
    with config.override(**settings), busy:
        if threads == 1:
            work(0)
            return
        crew = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()


class Memory(NamedTuple):
    """What a process holds."""

    blocks: int
    kilobytes: int

    @classmethod
    def now(cls) -> Memory:
        """After a collection."""
        gc.collect()
        return cls(sys.getallocatedblocks(), allocated_bytes() // 1024)


def growth(calls: int, seed: int = 0) -> tuple[float, float]:
    """By how many objects and kilobytes a thousand calls of learnt signatures grow a process."""
    report = Report()
    play(report, seed, calls, 1)
    rounds = [Memory.now()]
    for _ in range(3):
        play(report, seed, calls, 1)
        rounds.append(Memory.now())
    blocks = min(b.blocks - a.blocks for a, b in itertools.pairwise(rounds))
    size = min(b.kilobytes - a.kilobytes for a, b in itertools.pairwise(rounds))
    return blocks * 1000 / calls, size * 1000 / calls


def main() -> None:
    """Play rounds until the number of calls is reached, and print what was counted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=100_000)
    options.add_argument("--round", type=int, default=5_000, help="calls of each round")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2, help="in every other round")
    chosen = options.parse_args()
    report, start = Report(), time.perf_counter()
    for k in range(chosen.calls // chosen.round):
        play(report, chosen.seed + k, chosen.round, chosen.threads if k % 2 else 1)
    print(f"fgrad {fgrad.__version__}, Python {sys.version.split()[0]}, NumPy {np.__version__}")
    print(", ".join(f"{name}: {n}" for name, n in sorted(report.counts.items())))
    print(f"{time.perf_counter() - start:.0f} s, now {Memory.now()}")
    blocks, size = growth(chosen.round)
    print(f"growth in 1,000 calls: {blocks:.2f} objects, {size:.2f} kB")
    print("\n".join(report.mistakes))
    sys.exit(bool(report.mistakes))


if __name__ == "__main__":
    main()
