"""Random little modules, whose functions read globals, closures, objects, dictionaries and helpers,
are jitted and called while all of that changes: each call must give what NumPy gives.

    python tests/compile/outside_programs.py --seed 0 --count 1000 [--threads 4]
"""

from __future__ import annotations

import argparse
import functools
import random
import re
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad.errors import RetraceWarning

SIZE = 4
X = np.linspace(-1.0, 2.0, SIZE)

# What a function may do with a number `n` from outside; some of it needs the number in the trace.
NUMBER_USES = (
    "x * {n}", "{n} * x - {n}", "x * (1 - {n})", "x / (2 * {n}**2 + 1)", "-{n} * x", "x + abs({n})",
    "np.where(x > 0, x, {n} * x)", "np.clip(x, -abs({n}), abs({n}))", "np.maximum(x, {n})",
    "x * np.full(4, {n})", "x * np.array([{n}, 1.0])[0]", "x * np.sqrt(abs({n}))", "x + {n} // 2",
    "x * math.exp(-abs({n}))", "x * ({n} if {n} > 0 else 2.0)", "x * float({n})", "x + {n} % 3",
    "sum([x for _ in range(int(abs({n})) + 1)])", "x * {{0.5: 2.0}}.get({n}, 3.0)",
    "x * len(str({n}))", "x * len('{{}}'.format({n}))",
    "x * (1.0 if isinstance({n}, float) else 2.0)",
    "x * (1.0 if type({n}) is float else 2.0)", "x * (1.0 if hasattr({n}, 'shape') else 2.0)",
    "x * (1.0 if np.isscalar({n}) else 2.0)", "x * np.ndim({n}) + {n}",
    "x + np.linspace(0, {n}, 4)",
    "x[int({n}) % 4] * x", "x * ({n} or 2.0)", "x + {n}.real", "x * np.float64({n})",
    "x + {n} * 1j",
    "x + (lambda s=0.5: s * {n})()", "x * [{n}, 2.0][1]", "({n}, x)[1] * {n}", "x * max({n}, 0.25)",
    "x * sum([{n}, {n}])", "functools.reduce(lambda a, b: a * b, [{n}, x])", "x + np.add({n}, 1)",
    "x + np.multiply({n}, [1.0, 2.0, 3.0, 4.0])", "x * np.dot([1.0, 2.0], [{n}, {n}])",
    "x + (note.append({n}) or {n})", "x * (lambda s: s.sum() if hasattr(s, 'sum') else s)({n})",
    "fgrad.lax.fori_loop(0, 3, lambda i, c: c * {n} + 1.0, x)", "fgrad.vmap(lambda a: a * {n})(x)",
    "fgrad.grad(lambda a: np.sum(a * a * {n}))(x)", "fgrad.jit(lambda a: a - {n})(x)",
    "swallow({n}, x)",
    "fgrad.checkpoint(lambda a: np.sin(a) * {n})(x)", "x * round({n}, 1)", "cases({n}, x)",
    "x.astype(np.float32) * {n}", "fgrad.lax.cond(x[0] > 0, lambda a: a * {n}, lambda a: a, x)",
    "np.stack([x, x * 0 + {n}]).sum(0)", "x * np.mean([{n}, 1.0])", "np.arange(4) * {n} + x",
    "np.arange(4).astype(np.int8) * {n} + x", "x ** 2 * {n} ** 2", "np.power(abs(x) + 1, {n})",
)  # fmt: skip

HEAD = """
import functools, math, types
import numpy as np
import fgrad

note, count = [], 0

def swallow(n, x):
    try:
        return x * float(n)
    except Exception:
        return x - 100.0

def cases(n, x):
    match n:
        case float(): return x * n
        case int(): return x + n
    return x - n

class Counted:
    calls = 0
    def __init__(self, w): self.w = w; self.seen = {'n': 0}
    def apply(self, x):
        global count
        count += 1
        self.calls += 1
        self.seen['n'] += 1
        return x * self.w

class Layer:
    rate = 0.5
    def __init__(self, w, b): self.w = w; self.b = b
    def __call__(self, x): return self.forward(x)
    def forward(self, x): return x * self.w + self.b * self.rate
    @property
    def scale(self): return 2.0 * self.b
    @staticmethod
    def half(x): return 0.5 * x
    @classmethod
    def rated(cls, x): return x * cls.rate

class Slotted:
    __slots__ = ("k", "m")
    def __init__(self, k, m): self.k = k; self.m = m
    def apply(self, x): return x * self.k + self.m

class Sub(Layer):
    def forward(self, x): return super().forward(x) - self.b

class Indirect:
    def __init__(self, **kept): self.kept = kept
    def __getattr__(self, name):
        if name == "kept": raise AttributeError(name)
        return self.kept[name]

def make_counter(v):
    def get(x): return x * v
    def put(new):
        nonlocal v
        v = new
    return get, put

def make_pair(a):
    b = 1.0
    def outer(x):
        def inner(y): return y * a + b
        return inner(x) + sum([inner(z) for z in (x, 2.0)])
    def put(new):
        nonlocal b
        b = new
    return outer, put
"""


class Module:
    """The source of a module, and statements that change what its function reads."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = 0
        self.lines: list[str] = []
        self.changes: list[Callable[[], str]] = []
        self.helpers: list[str] = []

    def name(self, prefix: str) -> str:
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    def number(self) -> str:
        values = ("0.5", "2.0", "3", "-1.5", "True", "0.0", "-0.0", "1", "np.float32(1.5)", "1.0")
        return self.rng.choice(values)

    def array(self) -> str:
        return self.rng.choice(
            (
                f"np.arange({SIZE}.0)",
                f"np.full({SIZE}, {self.number()})",
                f"np.ones({SIZE}, np.float32)",
                f"np.arange({2 * SIZE}.0)[::2]",
                f"np.arange({SIZE})",
                f"np.arange({SIZE}) % 2 == 0",
                "np.array(2.0)",
            )
        )

    def value(self) -> str:
        return self.number() if self.rng.random() < 0.5 else self.array()

    def rebind(self, place: str, value: Callable[[], str] | None = None) -> None:
        """Changes of a place that holds a number or an array."""
        make = value or self.value
        self.changes.append(lambda: f"{place} = {make()}")
        self.changes.append(
            lambda: f"if isinstance({place}, np.ndarray): {place}[...] = {self.number()}"
        )
        self.changes.append(
            lambda: (
                f"if getattr({place}, 'ndim', 0): "
                f"{place}[{self.rng.randrange(SIZE)}] = {self.number()}"
            )
        )

    # What a function may read: each makes something, and gives an expression in `x`.

    def use_global(self) -> str:
        name = self.name("g")
        self.lines.append(f"{name} = {self.value()}")
        self.rebind(name)
        return f"x * {name}"

    def use_plainly(self) -> str:
        """NumPy computes with an array while the function is traced."""
        name = self.name("p")
        self.lines.append(f"{name} = {self.array()}")
        self.rebind(name, self.array)
        return self.rng.choice(
            (
                f"x * np.mean({name})",
                f"x + np.sum(np.ravel({name})[1:])",
                f"(x if np.max({name}) > 1 else -x)",
                f"x * len(np.nonzero({name})[0])",
                f"np.where({name} > 0.5, x, 0.0)",
                f"x * float(np.ravel({name})[0])",
            )
        )

    def use_recurrence(self) -> str:
        """An instruction that calculates with plain numbers first, with traced ones later."""
        name, fun = self.name("r"), self.name("k")
        self.lines.append(f"{name} = {self.array()}")
        self.lines.append(
            f"def {fun}(x):\n  a = 1.0\n  for i in range(3): a = {name} * a + (x if i else 0.5)\n"
            "  return a"
        )
        self.rebind(name, self.array)
        return f"{fun}(x)"

    def use_twice(self) -> str:
        """A helper that is called with traced and with plain numbers."""
        name, fun = self.name("r"), self.name("k")
        sign = self.rng.choice("+-*/@")
        self.lines.append(f"{name} = np.arange(1.0, {SIZE + 1}.0)")
        self.lines.append(f"def {fun}(x): return x {sign} {name}")
        self.rebind(name, lambda: f"np.arange(1.0, {SIZE + 1}.0) * {self.rng.randint(1, 4)}")
        plain = self.rng.choice(
            (f" + {fun}(np.ones({SIZE}))", f" + np.sum({fun}(np.ones({SIZE})))", "")
        )
        return f"{fun}(x){plain}"

    def use_matrix(self) -> str:
        name = self.name("z")
        self.lines.append(f"{name} = np.arange({SIZE * SIZE}.0).reshape({SIZE}, {SIZE})")
        self.rebind(name, lambda: f"np.ones(({SIZE}, {SIZE})) * {self.rng.randint(1, 4)}")
        self.changes.append(lambda: f"{name} *= 0.5")
        return self.rng.choice(
            (
                f"{name} @ x",
                f"x @ {name}",
                f"{name}.T @ x",
                f"{name}[1] * x",
                f"np.sum({name} * x, axis=0)",
                f"np.dot({name}, x)",
                f"np.linalg.solve({name} @ {name}.T + 50.0 * np.eye({SIZE}), x)",
                f"np.sum(np.stack([x] * {SIZE}) - {name}, axis=1)",
            )
        )

    def use_dict(self) -> str:
        name = self.name("d")
        self.lines.append(
            f"{name} = {{'a': {self.value()}, 'in': {{'b': {self.value()}}}, 3: 1.0}}"
        )
        self.rebind(f"{name}['a']")
        self.rebind(f"{name}['in']['b']")
        self.changes.append(lambda: f"{name}[3] = {self.number()}")
        self.changes.append(lambda: f"{name} = {{'a': 1.0, 'in': {{'b': {self.value()}}}, 3: 2.0}}")
        self.changes.append(lambda: f"{name}['in'] = {{'b': {self.value()}}}")
        return self.rng.choice(
            (
                f"x * {name}['a'] + {name}['in']['b']",
                f"x * {name}.get('a', 1.0) + {name}[3]",
                f"functools.reduce(lambda a, b: a * b, [{name}['a'], {name}[3]], x)",
                f"x * len({name}) + {name}.get('new', 0.0)",
            )
        )

    def use_items(self) -> str:
        name = self.name("i")
        self.lines.append(f"{name} = {{'a': {self.value()}, 'b': {self.value()}}}")
        self.rebind(f"{name}['a']")
        self.changes.append(lambda: f"{name}['{self.rng.choice('bcd')}'] = {self.value()}")
        self.changes.append(lambda: f"{name}.pop('{self.rng.choice('bcd')}', None)")
        return f"functools.reduce(lambda a, b: a * 0.5 + b, {name}.values(), x)"

    def use_list(self) -> str:
        name = self.name("l")
        self.lines.append(f"{name} = [{self.value()}, {self.value()}]")
        self.rebind(f"{name}[0]")
        self.changes.append(lambda: f"{name}.append({self.value()})")
        self.changes.append(lambda: f"{name}[1:] = []")
        self.changes.append(lambda: f"{name}.insert(0, {self.number()})")
        self.changes.append(lambda: f"{name} = [{self.value()}]")
        return f"functools.reduce(lambda a, b: a * 0.5 + b, {name}, x)"

    def use_tuple(self) -> str:
        name = self.name("t")
        self.lines.append(f"{name} = ({self.array()}, ({self.number()}, [{self.value()}]))")
        self.rebind(f"{name}[1][1][0]")
        self.changes.append(lambda: f"{name} = ({self.value()}, ({self.number()}, [2.0]))")
        return f"x * {name}[0] + {name}[1][0] * {name}[1][1][0]"

    def use_object(self) -> str:
        name, kind = self.name("o"), self.rng.choice(("Layer", "Sub"))
        self.lines.append(f"{name} = {kind}({self.value()}, {self.number()})")
        self.rebind(f"{name}.w")
        self.rebind(f"{name}.b", self.number)
        for change in (
            lambda: f"{name} = {self.rng.choice(('Layer', 'Sub'))}({self.value()}, 1.0)",
            lambda: f"{name}.rate = {self.number()}",
            lambda: f"{name}.__dict__.pop('rate', None)",
            lambda: f"Layer.rate = {self.number()}",
            lambda: f"{name}.__dict__ = {{'w': {self.value()}, 'b': {self.number()}}}",
            lambda: f"{name}.forward = lambda x: x * {self.number()}",
            lambda: f"{name}.__dict__.pop('forward', None)",
            lambda: f"{name}.unread = {self.number()}",
            lambda: f"{name}.__class__ = {self.rng.choice(('Layer', 'Sub'))}",
        ):
            self.changes.append(change)
        return self.rng.choice(
            (
                f"{name}(x)",
                f"{name}.forward(x)",
                f"x * {name}.scale + {name}.half(x)",
                f"{name}.rated(x)",
                f"x * {name}.w + getattr({name}, 'late', 1.0)",
                f"(lambda q: q.w * x)({name})",
                f"functools.reduce(lambda a, f: f(a), [{name}, {name}.forward], x)",
            )
        )

    def use_slots(self) -> str:
        name = self.name("s")
        self.lines.append(f"{name} = Slotted({self.value()}, {self.number()})")
        self.rebind(f"{name}.k")
        self.rebind(f"{name}.m")
        self.changes.append(lambda: f"{name} = Slotted({self.value()}, 1.0)")
        return self.rng.choice((f"{name}.apply(x)", f"x * {name}.k + {name}.m"))

    def use_indirect(self) -> str:
        name = self.name("a")
        self.lines.append(f"{name} = Indirect(w={self.value()})")
        self.rebind(f"{name}.kept['w']")
        self.changes.append(lambda: f"{name} = Indirect(w={self.value()})")
        return f"x * {name}.w"

    def use_closure(self) -> str:
        name = self.name("c")
        maker = self.rng.choice(("make_counter", "make_pair"))
        self.lines.append(f"{name}, put_{name} = {maker}({self.value()})")
        self.changes.append(lambda: f"put_{name}({self.value()})")
        self.changes.append(lambda: f"{name}, put_{name} = {maker}({self.value()})")
        return f"{name}(x)"

    def use_partial(self) -> str:
        name, number = self.name("q"), self.name("n")
        self.lines.append(f"{number} = {self.number()}")
        self.lines.append(f"def h_{name}(a, x, b=1.0): return a * x + b * {number}")
        self.lines.append(f"{name} = functools.partial(h_{name}, {self.value()})")
        self.rebind(number, self.number)
        self.changes.append(lambda: f"{name} = functools.partial(h_{name}, {self.value()}, b=2.0)")
        return f"{name}(x)"

    def use_default(self) -> str:
        name, array = self.name("w"), self.name("e")
        self.lines.append(f"{array} = {self.array()}")
        self.lines.append(f"def {name}(x, w={array}, *, k={array}): return x * w + k")
        self.rebind(array, self.array)
        self.changes.append(lambda: f"{name}.__defaults__ = ({self.value()},)")
        return f"{name}(x)"

    def use_module(self) -> str:
        name = self.name("m")
        self.lines.append(f"{name} = types.ModuleType('{name}'); {name}.k = {self.value()}")
        self.rebind(f"{name}.k")
        return f"x * {name}.k"

    def use_swept(self) -> str:
        """A number that changes often, in one of the places where a number may be."""
        name, first = self.name("v"), self.swept()
        place, text = self.rng.choice(
            (
                (name, f"{name} = {first}"),
                (f"{name}['k']", f"{name} = {{'k': {first}}}"),
                (f"{name}['k']['l']", f"{name} = {{'k': {{'l': {first}}}}}"),
                (f"{name}.w", f"{name} = Layer({first}, 1.0)"),
                (f"{name}.k", f"{name} = Slotted({first}, 1.0)"),
                (f"{name}[0].w", f"{name} = [Layer({first}, 1.0)]"),
                (f"{name}[1]", f"{name} = [0.0, {first}]"),
                ("Layer.rate", f"Layer.rate = {first}"),
            )
        )
        self.lines.append(text)
        for _ in range(4):
            self.changes.append(lambda: f"{place} = {self.swept()}")
        way, fun = self.rng.randrange(4), self.name("u")
        uses = [self.rng.choice(NUMBER_USES).format(n="n") for _ in range(self.rng.randint(1, 2))]
        body = " + ".join([f"({use})" for use in uses])
        if way == 0:
            self.lines.append(f"def {fun}(x):\n  n = {place}\n  return {body}")
        elif way == 1:
            self.lines.append(f"def {fun}(x): return (lambda n: {body})({place})")
        elif way == 2:
            self.lines.append(f"def {fun}(x): return " + re.sub(r"\bn\b", place, body))
        else:
            self.lines.append(f"def b_{fun}(n, x): return {body}")
            self.lines.append(f"def {fun}(x): return b_{fun}({place}, x)")
        return f"{fun}(x)"

    def swept(self) -> str:
        return self.rng.choice(("0.5", "1.5", "-0.75", "0.25", "3.0", "2", "np.float64(0.5)", "1"))

    def use_swept_again(self) -> str:
        return self.use_swept()

    def use_counted(self) -> str:
        """What the function itself counts up."""
        name = self.name("n")
        self.lines.append(f"{name} = Counted({self.value()})")
        self.rebind(f"{name}.w")
        self.changes.append(lambda: f"count = {self.rng.randrange(9)}")
        return f"{name}.apply(x)"

    def use_kept(self) -> str:
        """Arrays in containers, which NumPy may calculate with."""
        name = self.name("y")
        place, text = self.rng.choice(
            (
                (f"{name}['X']", f"{name} = {{'X': {self.array()}}}"),
                (f"{name}[0]", f"{name} = [{self.array()}]"),
                (f"{name}.w", f"{name} = Layer({self.array()}, 1.0)"),
                (f"{name}['s'].k", f"{name} = {{'s': Slotted({self.array()}, 1.0)}}"),
            )
        )
        self.lines.append(text)
        self.rebind(place, self.array)
        self.changes.append(lambda: f"{place} = {place} * 0.5 if {place}.ndim else {place}")
        use = self.rng.choice(
            (
                "x + {p}", "x * {p}.T", "np.dot({p}, x) + x", "x @ ({p} * x) + x", "x * {p}.sum()",
                "x * {p}[0] if {p}.ndim else x", "np.maximum({p}, x)",
                "np.where({p} > 0.5, x, {p})",
                "x * len({p}) if {p}.ndim else x", "x + np.sort(np.ravel({p}))[0]",
                "x * {p}.mean()",
                "x * (1.0 if {p}.max() > 1 else 2.0)", "x + {p}.astype(np.float32)",
                "x + {p}.copy()",
                "x * {p}.dtype.itemsize", "x * np.asarray({p})", "(lambda a: x + a)({p})",
                "sum([x + a for a in np.ravel({p})])", "x * {p}.tolist()[0] if {p}.ndim else x",
                "np.add(x, {p}) * 2", "x * np.cumsum({p})[-1]", "np.multiply({p}, x) - {p}",
                "x * isinstance({p}, np.ndarray)", "np.concatenate([x, np.ravel({p})])[:4]",
            )
        )  # fmt: skip
        return use.format(p=place)

    def use_builtin(self) -> str:
        self.changes.append(lambda: "def max(*xs): return xs[0]")
        self.changes.append(lambda: "if 'max' in globals(): del max")
        return "x * max(1.0, 2.0)"

    def use_helper(self) -> str:
        if not self.helpers:
            return self.use_global()
        return f"{self.rng.choice(self.helpers)}(x)"

    def helper(self) -> None:
        """A function of its own, which may call earlier ones, and may be defined again."""
        name = self.name("h")
        bodies = [self.expression(1) for _ in range(2)]
        self.lines.append(f"def {name}(x): return {bodies[0]}")
        self.changes.append(lambda: f"def {name}(x): return {self.rng.choice(bodies)}")
        self.changes.append(
            lambda: f"{name}.__code__ = (lambda x: {self.rng.choice(bodies)}).__code__"
        )
        self.helpers.append(name)

    def expression(self, terms: int) -> str:
        uses = [getattr(self, n) for n in dir(self) if n.startswith("use_")]
        return " + ".join([f"({self.rng.choice(uses)()})" for _ in range(terms)])

    def source(self) -> str:
        for _ in range(self.rng.randrange(3)):
            self.helper()
        body = self.expression(self.rng.randint(1, 3))
        return "\n".join([HEAD, *self.lines, f"def f(x): return {body}"])


def outcome(call: Callable[[], Any]) -> Any:
    """A result, or the class of what was raised."""
    try:
        return np.asarray(call())
    except Exception as error:
        return type(error).__name__


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    same = a.shape == b.shape and a.dtype == b.dtype
    return same and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


def check(seed: int, steps: int = 12, threads: int = 0) -> str | None:
    """What went wrong with one module; None if nothing did."""
    module = Module(seed)
    source = module.source()
    scope = vars(types.ModuleType(f"module_{seed}"))
    exec(source, scope)
    f = scope["f"]
    way = module.rng.randrange(5)
    plain = fgrad.grad(lambda x: np.sum(x * f(x))) if way == 4 else f
    jitted = {
        0: lambda: fgrad.jit(f),
        1: lambda: fgrad.jit(lambda x: scope["f"](x)),
        2: lambda: fgrad.jit(behind_a_partial(f)),
        3: lambda: fgrad.jit(fgrad.jit(f)),
        4: lambda: fgrad.jit(plain),
    }[way]()
    done: list[str] = []
    for _ in range(steps):
        for _ in range(module.rng.randint(0, 2)):
            change = module.rng.choice(module.changes) if module.changes else None
            text = change() if change else ""
            try:
                exec(text, scope)
            except Exception:
                continue
            done.append(text)
        expected = outcome(lambda: plain(X))
        wrong = _calls(jitted, expected, threads)
        if wrong is not None:
            history = "\n".join(done)
            return f"seed {seed}, way {way}: {wrong}\n{source}\n--- changes\n{history}"
    return None


def behind_a_partial(f: Any) -> Any:
    """The function behind one more call."""
    return functools.wraps(f)(functools.partial(f))


def _calls(jitted: Any, expected: Any, threads: int) -> str | None:
    found: list[Any] = []

    def calls() -> None:
        for _ in range(3):
            found.append(outcome(lambda: jitted(X)))

    if threads:
        workers = [threading.Thread(target=calls) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    else:
        calls()
    for actual in found:
        if not agree(actual, expected):
            return f"{actual!r} instead of {expected!r}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore", RetraceWarning)
    wrong = 0
    with np.errstate(all="ignore"):
        for seed in range(given.seed, given.seed + given.count):
            found = check(seed, threads=given.threads)
            if found is not None:
                wrong += 1
                print(found, flush=True)
    print(f"{given.count} modules, {wrong} wrong")


if __name__ == "__main__":
    main()
