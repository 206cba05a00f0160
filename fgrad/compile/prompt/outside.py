"""L5. What a call of a function depends on: its arguments, and what the function and those that it
calls read outside, as a key and as leaves.

    def loss(w):                                 key: its code, a float, an array (3, 2), ...
        return rate * np.sum((X @ w) ** 2)       leaves: rate, X, w

Arrays and numbers with a fraction are leaves: inputs of the compiled program, whatever their values
are.  All else is part of the key: integers, texts, modules, functions, the kinds of containers.
`read` runs in each call; `Twin` makes the same function of other leaves, in the same order.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterator
from types import FunctionType

import numpy as np

from fgrad.base.closures import contents
from fgrad.capture.pure import Place, Reads, is_known, is_known_module, pure_reads
from fgrad.typing import PyTree

MOST_PARTS = 256  # of a key


class Refused(Exception):
    """The call is interpreted; the text says why.  `final` says that all later ones are too."""

    def __init__(self, why: str, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class _Missing:
    """What stands for a name that is not there: a builtin's, or a variable without value."""


MISSING = _Missing()
FRACTIONS = frozenset({float, complex, np.float64, np.float32, np.complex128, np.complex64})
_STATIC = frozenset({int, bool, str, bytes, type(None), type(Ellipsis)})
_KINDS = "biufc"


class Read:
    """The key and the leaves of a call."""

    __slots__ = ("key", "leaves", "seen")

    def __init__(self) -> None:
        self.key: list[PyTree] = []
        self.leaves: list[PyTree] = []
        self.seen: dict[int, int] = {}  # functions, by their identities

    def value(self, x: PyTree) -> None:
        """One value that the call depends on."""
        kind, key = type(x), self.key
        if kind is np.ndarray:
            flags = x.flags
            if x.dtype.kind not in _KINDS or not x.dtype.isnative:
                raise Refused(f"it is given an array of dtype {x.dtype}")
            if not (flags.c_contiguous and flags.aligned):
                raise Refused("it is given an array that is not contiguous")
            key += (x.dtype, x.shape)
            self.leaves.append(x)
        elif kind in FRACTIONS:
            key.append(kind)
            self.leaves.append(x)
        elif kind in _STATIC:
            key += (kind, x)
        elif kind is FunctionType:
            self.function(x)
        elif kind is tuple or kind is list:
            self.check_size(x)
            key += (kind, len(x))
            for part in x:
                self.value(part)
        elif kind is dict:
            self.check_size(x)
            key += (kind, len(x))
            for name, part in x.items():
                if type(name) is not str:
                    raise Refused("it is given a dictionary whose keys are not texts")
                key.append(name)
                self.value(part)
        elif isinstance(x, types.ModuleType) and is_known_module(x):
            key.append(x)
        elif is_known(x) or (isinstance(x, np.generic) and x.dtype.kind in "biu"):
            key += (kind, x)
        else:
            raise Refused(f"it reads {_described(x)}")

    def check_size(self, x: PyTree) -> None:
        """Refuse what is too large to be looked at in each call."""
        if len(self.key) + len(x) > MOST_PARTS:
            raise Refused("it reads containers of many values")

    def function(self, fun: FunctionType) -> None:
        """A function, with what it reads."""
        key = self.key
        before = self.seen.get(id(fun))
        if before is not None:
            key.append(before)
            return
        self.seen[id(fun)] = len(self.seen)
        reads = pure_reads(fun)
        if reads.why:
            raise Refused(f"{fun.__name__}: {reads.why}", True)
        key.append(id(reads.code))
        scope, modules = fun.__globals__, reads.modules
        for name in reads.names:
            x = scope.get(name, MISSING)
            if x is MISSING:
                _check_builtin(name, reads)
                key.append(x)
            else:
                self.outside(name, x, modules)
        if fun.__closure__:
            for name, cell in zip(reads.code.co_freevars, fun.__closure__, strict=True):
                self.outside(name, contents(cell, MISSING), modules)
        for path in reads.paths:
            _check_path(path, modules)
        self.given(fun)

    def given(self, fun: FunctionType) -> None:
        """The default values of a function."""
        if fun.__defaults__:
            self.value(fun.__defaults__)
        if fun.__kwdefaults__:
            self.value(fun.__kwdefaults__)

    def outside(self, name: str, x: object, modules: dict[str, types.ModuleType]) -> None:
        """What a name stands for."""
        known = modules.get(name)
        if known is not None or isinstance(x, types.ModuleType):
            if x is not known:
                raise Refused(f"{name} stood for another module")
            self.key.append(x)
        elif x is MISSING:
            raise Refused(f"{name} has no value")
        else:
            self.value(x)


def _check_builtin(name: str, reads: Reads) -> None:
    known = reads.builtins.get(name, MISSING)
    if known is MISSING:
        raise Refused(f"it reads {name}, which is not known to be without effects", True)
    if getattr(builtins, name, None) is not known:
        raise Refused(f"{name} is another function than it was")


def _check_path(path: Place, modules: dict[str, types.ModuleType]) -> None:
    name, names, known = path
    x: PyTree = modules[name]
    for part in names:
        x = getattr(x, part, MISSING)
    if x is not known:
        raise Refused(f"{name}.{'.'.join(names)} is another function than it was")


def _described(x: object) -> str:
    name = getattr(x, "__name__", None)
    if name is None:
        return f"an object of class {type(x).__name__}"
    return f"{name}, which is not known to be without effects"


class Twin:
    """The arguments and functions of a call made anew of other leaves; see `Read` for the order."""

    def __init__(self, leaves: Iterator[PyTree]) -> None:
        self.leaves = leaves
        self.held: list[object] = []  # what must live as long as the key is used
        self.made: dict[int, FunctionType] = {}
        self.scopes: dict[int, dict[str, PyTree]] = {}  # globals of functions, by their identities
        self.outside: list[object] = []  # the containers of the function's own, made anew

    def value(self, x: PyTree) -> PyTree:
        """The twin of one value."""
        kind = type(x)
        if kind is np.ndarray or kind in FRACTIONS:
            return next(self.leaves)
        if kind is FunctionType:
            return self.function(x)
        if kind is tuple or kind is list:
            return kind([self.value(part) for part in x])
        if kind is dict:
            return {name: self.value(part) for name, part in x.items()}
        self.held.append(x)
        return x

    def function(self, fun: FunctionType) -> FunctionType:
        """The twin of a function, which finds the other leaves where it reads."""
        made = self.made.get(id(fun))
        if made is not None:
            return made
        reads = pure_reads(fun)
        self.held += (reads.code, fun.__globals__)
        scope = self.scopes.get(id(fun.__globals__))
        if scope is None:
            scope = self.scopes[id(fun.__globals__)] = dict(fun.__globals__)
        cells = tuple([types.CellType() for _ in fun.__closure__ or ()])
        made = FunctionType(reads.code, scope, fun.__name__, None, cells)
        made.__qualname__, made.__module__ = fun.__qualname__, fun.__module__
        self.made[id(fun)] = made
        for name in reads.names:
            x = fun.__globals__.get(name, MISSING)
            if x is not MISSING:
                scope[name] = self.read(x)
        for cell, old in zip(cells, fun.__closure__ or (), strict=True):
            cell.cell_contents = self.read(old.cell_contents)
        if fun.__defaults__:
            made.__defaults__ = self.read(fun.__defaults__)
        if fun.__kwdefaults__:
            made.__kwdefaults__ = self.read(fun.__kwdefaults__)
        return made

    def forget(self) -> None:
        """Break the reference cycles of functions and what they read."""
        for scope in self.scopes.values():
            scope.clear()
        for made in self.made.values():
            for cell in made.__closure__ or ():
                del cell.cell_contents
        self.made.clear()
        self.outside.clear()

    def read(self, x: PyTree) -> PyTree:
        """The twin of what a name or a parameter stands for."""
        found = self.value(x)
        self.outside.append(found)
        return found


def key_and_leaves(fun: FunctionType, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Read:
    """What a call depends on.

    Raises:
        Refused: it must be interpreted.
    """
    read = Read()
    read.function(fun)
    read.value(args)
    if kwargs:
        read.value(kwargs)
    return read
