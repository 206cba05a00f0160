"""L5. A call -> a generated function that gives the leaves of calls with its key, None for others:
`read` in a fifth of its time.

    def loss(w): return rate * np.sum((X @ w) ** 2)

    def take(fun, args, kwargs):
        ...
        if scope.get("np") is not held_0: return None
        x1 = scope["rate"]
        if type(x1) is not float: return None
        x2 = scope["X"]
        ...
        return x1, x2, x3

The native call looks at shapes and dtypes of arrays, and at the types of numbers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType, ModuleType

import numpy as np

from fgrad.capture.pure import pure_reads
from fgrad.compile.prompt.outside import FRACTIONS, MISSING
from fgrad.typing import PyTree

Take = Callable[
    [FunctionType, "tuple[PyTree, ...]", "dict[str, PyTree]"], "tuple[PyTree, ...] | None"
]


class _Writer:
    """Writes the function, in the order of `outside.Read`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, object] = {}
        self.leaves: list[str] = []
        self.seen: dict[int, str] = {}  # functions, by their identities
        self.count = 0

    def new(self, text: str) -> str:
        """A variable."""
        name = f"x{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def held(self, x: object) -> str:
        """A name for a value."""
        name = f"held_{len(self.scope)}"
        self.scope[name] = x
        return name

    def need(self, test: str) -> None:
        """Calls for which something does not hold are of another kind."""
        self.lines.append(f"if not ({test}): return None")

    def value(self, x: PyTree, text: str) -> None:
        kind = type(x)
        if kind is FunctionType:
            self.function(x, text)
            return
        name = self.new(text)
        if kind is np.ndarray:
            self.leaves.append(name)
            if x.ndim > 1:
                self.need(f"type({name}) is {self.held(kind)} and {name}.flags.c_contiguous")
        elif kind in FRACTIONS:
            self.leaves.append(name)
        elif kind in (tuple, list):
            self.need(f"type({name}) is {kind.__name__} and len({name}) == {len(x)}")
            for k, part in enumerate(x):
                self.value(part, f"{name}[{k}]")
        elif kind is dict:
            self.need(f"type({name}) is dict and tuple({name}) == {self.held(tuple(x))}")
            for key, part in x.items():
                self.value(part, f"{name}[{key!r}]")
        else:
            same = self.held(x)
            by_value = kind in (int, str) or isinstance(x, np.generic)
            equal = f" or (type({name}) is {self.held(kind)} and {name} == {same})"
            self.need(f"{name} is {same}{equal if by_value else ''}")

    def function(self, fun: FunctionType, text: str) -> None:
        before = self.seen.get(id(fun))
        if before is not None:
            self.need(f"{text} is {before}")
            return
        name = self.seen[id(fun)] = self.new(text)
        reads = pure_reads(fun)
        self.need(f"type({name}) is {self.held(FunctionType)}")
        self.need(f"{name}.__code__ is {self.held(reads.code)}")
        if reads.names:
            scope = self.new(f"{name}.__globals__")
        for word in reads.names:
            x = fun.__globals__.get(word, MISSING)
            if x is MISSING:
                self.need(f"{word!r} not in {scope}")
                same = self.held(reads.builtins[word])
                self.need(f"{self.held(builtins)}.{word} is {same}")
            elif isinstance(x, ModuleType):
                self.need(f"{scope}.get({word!r}) is {self.held(x)}")
            else:
                self.value(x, f"{scope}[{word!r}]")
        if fun.__closure__:
            cells = self.new(f"{name}.__closure__")
            for k, cell in enumerate(fun.__closure__):
                self.value(cell.cell_contents, f"{cells}[{k}].cell_contents")
        for word, names, held in reads.paths:
            owner = self.held(reads.modules[word])
            self.need(f"{owner}.{'.'.join(names)} is {self.held(held)}")
        for part in ("__defaults__", "__kwdefaults__"):
            given = getattr(fun, part)
            if given:
                self.value(given, f"{name}.{part}")
            else:
                self.need(f"not {name}.{part}")


def taker(fun: FunctionType, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Take:
    """The function that gives the leaves of calls like this one."""
    writer = _Writer()
    writer.function(fun, "fun")
    writer.value(args, "args")
    if kwargs:
        writer.value(kwargs, "kwargs")
    else:
        writer.need("not kwargs")
    body = "\n".join([f"    {line}" for line in writer.lines])
    found = "".join([f"{leaf}, " for leaf in writer.leaves])
    text = (
        f"def take(fun, args, kwargs):\n  try:\n{body}\n    return ({found})\n"
        "  except (KeyError, ValueError, AttributeError):\n    return None\n"
    )
    exec(compile(text, f"{__file__}: take", "exec"), writer.scope)
    return writer.scope["take"]  # type: ignore[return-value]
