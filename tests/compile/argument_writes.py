"""Random functions that write into their arguments: all arrays end as NumPy leaves them.

    python tests/compile/argument_writes.py --count 10000 --seed 0

A function of one to four arrays writes into some, by slices, operators, `out=`, `np.add.at` and
views, and returns some.  It is called a few times, with other contents, memory and shapes: whole
arrays, strided and reversed parts, transposed ones, parts of one array that are apart or overlap,
read-only ones, in containers, which some functions change too.  All memory, containers and results
are compared with NumPy's after each call.  Inside of `checkpoint`, custom rules and branches, where
arguments are copies, what would be lost is refused.  Otherwise a call may be refused only where an
array that is written cannot be or shares memory with another one; then nothing has changed.
Numbers are small and whole, so that all results are exact.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import jit, tree
from fgrad.errors import ArgumentWriteError, InPlaceError

DTYPES = ("f8", "f4", "i8", "i4", "c16", "f8", "f8")
SHAPES: tuple[tuple[int, ...], ...] = ((5,), (3, 3), (2, 4), (), (0,), (6,), (1, 4))
NAMES = "abcd"


class Function(NamedTuple):
    """A drawn function: its text, its arguments' dtypes and ranks, and how it is called."""

    text: str
    fun: Callable[..., Any]
    dtypes: tuple[str, ...]
    ranks: tuple[int, ...]
    written: tuple[int, ...]
    container: str
    edit: Callable[..., Any] | None = None  # what it does to the container


# --- functions ------------------------------------------------------------------------------------


def draw_value(rng: np.random.Generator, own: str, count: int, ranks: tuple[int, ...]) -> str:
    """Something of the shape of an argument, or of none."""
    k = int(rng.integers(count))
    other = NAMES[k]
    choices = [str(rng.integers(1, 4)), f"{own} * 2", f"{own}.sum()", f"{own} + 1", f"{own}.copy()"]
    if ranks[k]:
        choices += [f"{other}.sum()", f"{other}.max(initial=1)", f"{own}[::-1]" if own else "1"]
    if ranks[k] == ranks[NAMES.index(own)]:
        choices += [other, f"{other} - 1", f"3 * {other}", f"{other}[...]"] * 2
    choice = choices[rng.integers(len(choices))]
    return choice if ranks[NAMES.index(own)] or "[" not in choice else f"{own} * 3"


STATEMENTS = (
    "{x} += {v}", "{x} -= {v}", "{x} *= 2", "{x}[...] = {v}", "np.add({x}, {v}, out={x})",
    "np.multiply({x}, {v}, out={x}, casting='unsafe')", "np.copyto({x}, {v}, casting='unsafe')",
    "{x}.fill(2)", "t = {x}[...]; t += 1", "np.negative({x}, out={x})",
)  # fmt: skip
LONG_STATEMENTS = (
    "u = {x}; {x} = {x} + 1; u += 1", "{x} = {x} * 1; {x} += 5",
    "{x}[1:] += {x}[:-1]", "{x}[::2] = 3", "{x}[1:] = {x}[:-1]", "t = {x}[1:]; t *= 2; {x} += 1",
    "{x}.T[...] += 1", "{x}[:1] = 7", "np.add.at({x}, slice(0, 1), 1)", "{x}[{x} == 2] = 5",
    "{x}[::-1][1:] += 2", "np.maximum({x}[1:], {x}[:-1], out={x}[1:])", "{x}.sort()",
    "{x}[...] = {x}[::-1]", "t = {x}.T; {x} += 1; t -= 3", "np.put({x}, [0], 4) if {x}.size else 0",
    "t = {x}.reshape(-1); t += 1; {x} *= 2", "t = {x}.ravel(); {x} += 1; t[:1] = 9",
    "t = {x}.T.reshape(-1); t += 1; {x} *= 2", "{x}.reshape({x}.shape[::-1])[...] = 4",
    "y = {x} + 0; t = y.reshape(-1); t[:1] = 5; {x}[...] = y",
    "{x}[-1:] += {x}[:1]", "t = {x}.ravel().copy(); t += 1; {x}[...] = t.reshape({x}.shape)",
)  # fmt: skip


EDITS = {
    "dict": (
        "p['k0'] = p['k0'] * 2", "p['new'] = p['k0'] + 1", "p.pop('k0')", "p.update(new=p['k0'])",
        "p['k0'] = 3", "p.clear()", "p.setdefault('l', []).append(p['k0'])", "p['k0'] += 1",
    ),
    "list": (
        "p.append(p[0] * 2)", "p[0] = p[0] + 1", "p.pop()", "p.clear()", "p.reverse()",
        "p.insert(0, p[-1])", "p[:] = p[:1] * 2", "p[0] += 1", "p.extend([p[0], 2.0])",
    ),
    "nested": (
        "p['first'] = p['first'] * 2", "p['rest'] = [p['first'], p['rest']]", "del p['rest']",
    ),
}  # fmt: skip


def draw_edit(rng: np.random.Generator, container: str) -> Callable[..., Any] | None:
    """A change of a container, for some functions."""
    if container not in EDITS or rng.random() < 0.5:
        return None
    lines = EDITS[container]
    scope: dict[str, Any] = {}
    exec(f"def edit(p):\n    {lines[int(rng.integers(len(lines)))]}\n", scope)
    return scope["edit"]


def draw_function(rng: np.random.Generator) -> Function:
    """A random function."""
    count = int(rng.integers(1, 5))
    dtype = DTYPES[rng.integers(len(DTYPES))]
    dtypes = tuple([dtype if rng.random() < 0.8 else "f8" for _ in range(count)])
    ranks = tuple([int(r) for r in rng.choice([0, 1, 1, 2, 2], size=count)])
    lines, written = [], set()
    for _ in range(int(rng.integers(1, 5))):
        k = int(rng.integers(count))
        x = NAMES[k]
        kinds = STATEMENTS + LONG_STATEMENTS * bool(ranks[k])
        line = kinds[rng.integers(len(kinds))]
        if dtypes[k] == "c16" and ("maximum" in line or "sort" in line):
            line = "{x} += 1"
        value = draw_value(rng, x, count, ranks)
        if dtypes[k] == "c16" or "c16" in dtypes:
            value = value if ".max" not in value else "1"
        lines.append(line.format(x=x, v=value))
        written.add(k)
    returned = [NAMES[k] for k in range(count) if rng.random() < 0.4]
    returned += [f"{NAMES[int(rng.integers(count))]} * 2"] * int(rng.integers(0, 2))
    lines.append(f"return ({', '.join(returned)}{',' * bool(returned)})")
    text = f"def f({', '.join(NAMES[:count])}):\n" + "".join([f"    {line}\n" for line in lines])
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "<drawn>", "exec"), scope)
    container = str(rng.choice(["plain", "plain", "dict", "list", "nested"]))
    edit = draw_edit(rng, container)
    return Function(text, scope["f"], dtypes, ranks, tuple(sorted(written)), container, edit)


# --- arguments ------------------------------------------------------------------------------------


class Arguments(NamedTuple):
    """The memory of a call, and how its arguments are taken from it."""

    memory: list[np.ndarray]
    views: list[Callable[[list[np.ndarray]], np.ndarray]]

    def copied(self) -> Arguments:
        """The same with memory of its own."""
        return self._replace(memory=[x.copy() for x in self.memory])

    def arrays(self) -> list[np.ndarray]:
        """The arguments."""
        return [view(self.memory) for view in self.views]


def draw_arguments(rng: np.random.Generator, f: Function) -> Arguments:
    """Arguments of the kinds that a function takes."""
    memory: list[np.ndarray] = []
    views: list[Callable[[list[np.ndarray]], np.ndarray]] = []
    shape_of_rank = {r: [s for s in SHAPES if len(s) == r] for r in (0, 1, 2)}
    shapes = {r: s[rng.integers(len(s))] for r, s in shape_of_rank.items()}
    for dtype, rank in zip(f.dtypes, f.ranks, strict=True):
        shape = shapes[rank]
        size = int(np.prod(shape))
        shared = [k for k, x in enumerate(memory) if x.dtype == dtype and x.size >= 2 * size + 2]
        if shared and rng.random() < 0.25:
            k = int(rng.choice(shared))
        else:
            k = len(memory)
            memory.append(rng.integers(0, 4, size=3 * size + 4).astype(dtype))
        views.append(draw_view(rng, k, shape, size))
    return Arguments(memory, views)


def draw_view(
    rng: np.random.Generator, k: int, shape: tuple[int, ...], size: int
) -> Callable[[list[np.ndarray]], np.ndarray]:
    """An array of a shape that lies somehow in memory `k`."""
    start, kind = int(rng.integers(0, size + 2)), int(rng.integers(0, 16))

    def view(memory: list[np.ndarray]) -> np.ndarray:
        line = memory[k]
        if kind == 0:
            x = line[start : start + 2 * size : 2]
            x = x if x.size == size else line[: 2 * size : 2]
            return (
                x.reshape(shape)
                if len(shape) != 2
                else line[start : start + size].reshape(shape[::-1]).T
            )
        if kind == 1 and shape:
            return line[start : start + size].reshape(shape)[(slice(None, None, -1),) * len(shape)]
        if kind == 2 and shape:
            x = line[start : start + size].reshape(shape)
            x.flags.writeable = False
            return x
        if kind == 3:
            return line[:size].reshape(shape)
        if kind == 4:
            return line[line.size - size :].reshape(shape)
        return line[start : start + size].reshape(shape)

    return view


def packed(container: str, arrays: list[np.ndarray]) -> tuple[Any, ...]:
    """Arguments in a container."""
    if container == "dict":
        return ({f"k{n}": x for n, x in enumerate(arrays)},)
    if container == "list":
        return (list(arrays),)
    if container == "nested":
        return ({"first": arrays[0], "rest": tuple(arrays[1:])},)
    return tuple(arrays)


def unpacking(f: Function) -> Callable[..., Any]:
    """The function of the packed arguments."""
    if f.container == "plain":
        return f.fun

    def fun(packed: Any) -> Any:
        out = f.fun(*tree.leaves(packed))
        if f.edit is not None:
            f.edit(packed)
        return out

    return fun


# --- ways to call ---------------------------------------------------------------------------------


def ways(f: Function) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What must leave the same arrays and results: names, and functions of packed arguments."""
    fun = unpacking(f)
    jitted = jit(fun)
    yield "jit", jitted
    yield "jit in jit", jit(lambda *args: jitted(*args))
    beside = fgrad.value_and_grad(lambda z, *args: (z * z, jitted(*args)), has_aux=True)
    yield "jit beside grad", lambda *args: beside(2.0, *args)[0][1]
    inside = fgrad.value_and_grad(jit(lambda z, *args: (z * z, fun(*args))), has_aux=True)
    yield "jit in grad", lambda *args: inside(2.0, *args)[0][1]
    around = jit(fgrad.value_and_grad(lambda z, *args: (z * z, fun(*args)), has_aux=True))
    yield "grad in jit", lambda *args: around(2.0, *args)[0][1]
    lanes = np.arange(3.0)

    def mapped(*args: Any) -> Any:
        def one(z: Any, *rest: Any) -> Any:
            return z, fun(*rest)

        axes = (0,) + (None,) * len(args)
        return fgrad.vmap(one, in_axes=axes, out_axes=(0, None))(lanes, *args)[1]

    yield "vmap", mapped
    if 0 in f.ranks or is_reshaped(f):  # numbers in a body; copies, which lie in C order
        return
    for name, body in BODIES.items():
        made = body(fun)
        yield name, made
        yield f"{name} in jit", jit(made)


def custom_jvp(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a rule of its own."""
    made = fgrad.custom_jvp(fun)
    made.defjvp(lambda primals, tangents: (made(*primals), None))
    return made


def branch(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function as both sides of a branch."""
    return lambda *args: fgrad.lax.cond(np.add(1, 1) > 1, fun, fun, *args)


BODIES = {"checkpoint": fgrad.checkpoint, "custom_jvp": custom_jvp, "cond": branch}


# --- the comparison -------------------------------------------------------------------------------


def is_reshaped(f: Function) -> bool:
    """Whether it depends on how arguments lie whether a part of them is a view."""
    return any([s in f.text for s in ("reshape(-1)", "ravel(); ", ".shape[::-1])")])


def may_be_refused(f: Function, arrays: list[np.ndarray]) -> bool:
    """Whether a written argument is read-only or shares memory."""
    if is_reshaped(f) and not all([x.flags.c_contiguous for x in arrays]):
        return True
    for k in f.written:
        if not arrays[k].flags.writeable:
            return True
        if any([np.shares_memory(arrays[k], x) for j, x in enumerate(arrays) if j != k]):
            return True
    return False


def same(a: Any, b: Any) -> bool:
    """Equal numbers, shapes and dtypes."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def changes_nothing(f: Function, arrays: list[Any]) -> bool:
    """Whether a write into read-only memory changes nothing, which NumPy refuses too."""
    fixed = [k for k, x in enumerate(arrays) if not x.flags.writeable]
    own = [
        text.format(NAMES[k]) in f.text
        for k in fixed
        for text in ("{0}[...] = {0}[", "{0}[...] = {0}.copy()", "np.copyto({0}, {0}")
    ]
    return any([*own, *[not arrays[k].size for k in fixed]])


def compare_results(result: Any, wanted: Any, arguments: list[list[Any]]) -> str:
    """What is wrong with results; an argument among NumPy's is that argument among ours."""
    leaves, wanted_leaves = tree.leaves(result), tree.leaves(wanted)
    if len(leaves) != len(wanted_leaves):
        return "another structure"
    arrays, numpys = arguments
    for a, b in zip(leaves, wanted_leaves, strict=True):
        if not same(a, b):
            return f"result {a!r}, NumPy {b!r}"
        own = [k for k, x in enumerate(numpys) if x is b and isinstance(x, np.ndarray)]
        if own and not any([a is arrays[k] for k in own]):
            return "a returned argument is another object"
    return ""


def compare(
    f: Function, call: Callable[..., Any], given: Arguments, objects: bool, copies: bool = False
) -> str:
    """One call: what is wrong with it, "refused" or nothing; `objects` are compared too.  Where
    arguments are `copies` it may be refused."""
    expected, found = given.copied(), given.copied()
    arrays, numpys = found.arrays(), expected.arrays()
    try:
        numpy_args = packed(f.container, numpys)
        wanted = unpacking(f)(*numpy_args)
    except (ValueError, TypeError) as error:
        wanted = error
    refusable = copies or may_be_refused(f, arrays)
    own_args = packed(f.container, arrays)
    try:
        result = call(*own_args)
    except (ArgumentWriteError, InPlaceError) as error:
        untouched = all([same(a, b) for a, b in zip(found.memory, given.memory, strict=True)])
        if not untouched:
            return f"refused, and arguments changed: {error}"
        return "refused" if refusable or isinstance(wanted, Exception) else f"refused: {error}"
    except (ValueError, TypeError) as error:
        return "" if isinstance(wanted, Exception) else f"raised {error!r}"
    if copies and may_be_refused(f, arrays):  # copies share nothing, and can be written
        return ""
    if isinstance(wanted, Exception):
        return "" if changes_nothing(f, arrays) else f"no {wanted!r}"
    pairs = list(zip(found.memory, expected.memory, strict=True))
    if copies:  # what is returned is written in the copy alone
        returned = f.text.rpartition("return (")[2]
        lost = [k for k in f.written if f"{NAMES[k]}," not in returned]
        pairs = [(arrays[k], numpys[k]) for k in lost]
    for k, (a, b) in enumerate(pairs):
        if not same(a, b):
            return f"memory {k}:\n{a}\nNumPy:\n{b}"
    if f.edit is not None:
        a, b = tree.flatten(own_args), tree.flatten(numpy_args)
        alike = a[1] == b[1] and (
            copies or all([same(x, y) for x, y in zip(a[0], b[0], strict=True)])
        )
        if not alike:
            return f"container {own_args}\nNumPy: {numpy_args}"
    return compare_results(result, wanted, [arrays, numpys] if objects else [[], []])


class Report:
    """Counts, and the first mistakes."""

    def __init__(self, way: str = "") -> None:
        self.way = way
        self.counts: Counter[str] = Counter()
        self.mistakes: list[str] = []

    def one(self, seed: int, number: int, threads: int = 1) -> None:
        """One drawn function, called in all ways."""
        rng = np.random.default_rng([seed, number])
        f = draw_function(rng)
        drawn = [draw_arguments(rng, f) for _ in range(2)]
        for name, call in ways(f):
            if self.way and name != self.way:
                continue
            calls = [*drawn, *drawn, drawn[0]] if name == "jit" else drawn
            for given in calls:
                copies = name.split(" ")[0] in BODIES
                wrong = compare(f, call, given, name == "jit", copies)
                self.note(seed, number, name, f, wrong)
        if threads > 1:
            self.threaded(seed, number, f, drawn, threads)

    def threaded(
        self, seed: int, number: int, f: Function, drawn: list[Arguments], threads: int
    ) -> None:
        """Some threads call one jitted function, each with arrays of its own."""
        jitted = jit(unpacking(f))

        def work() -> None:
            for given in itertools.chain(drawn, drawn):
                self.note(seed, number, "threads", f, compare(f, jitted, given, False))

        crew = [threading.Thread(target=work) for _ in range(threads)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()

    def note(self, seed: int, number: int, name: str, f: Function, wrong: str) -> None:
        self.counts["calls"] += 1
        if wrong == "refused":
            self.counts["refused"] += 1
        elif wrong:
            self.counts["mistakes"] += 1
            self.counts[f"mistakes: {name}"] += 1
            if len(self.mistakes) < 20:
                self.mistakes.append(
                    f"seed {seed}, number {number}, {name}, {f.dtypes}, {f.container}\n"
                    f"{f.text}{wrong}"
                )


def main() -> int:
    """Draw functions, call them, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="functions")
    parser.add_argument("--first", type=int, default=0, help="number of the first function")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way", default="", help="only this way to call")
    parser.add_argument("--threads", type=int, default=2, help="in every tenth function")
    given = parser.parse_args()
    report = Report(given.way)
    for number in range(given.first, given.first + given.count):
        report.one(given.seed, number, given.threads if number % 10 == 0 else 1)
    print("\n\n".join(report.mistakes))
    print(dict(report.counts))
    return int(report.counts["mistakes"] > 0)


if __name__ == "__main__":
    sys.exit(main())
