"""L2. A function -> the names, containers and arrays outside of it that its result depends on.

The code of the function and of all functions that it can reach says which names it reads
(`reads`); these lead to values, and values to functions and containers again.  Where a path ends,
all that an object holds is taken for read: the items of containers, and of other objects the
attributes with a name that some code asks for.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from fgrad.on_device import OnDevice
from fgrad.outside.reads import FREE, GLOBAL, ITEM, LOCAL, Path, Step, reads_of
from fgrad.outside.watches import MISSING, Site, Watches
from fgrad.trace import Tracer

MOST_ITEMS = 1024  # of one container
TRUSTED = frozenset({"numpy", "scipy", "fgrad", "optree"}) | sys.stdlib_module_names
_MEMBER = types.MemberDescriptorType
_METHODS = (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
_UNREAD = frozenset({"__repr__", "__str__", "__del__", "__reduce__", "__getstate__"})

Bound = Mapping[str, Any]  # parameters whose values are known


def is_trusted(x: Any) -> bool:
    """Whether a module, class or function belongs to a library that nobody changes."""
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] in TRUSTED and name != "__main__"


def world_of(fun: Any, bound: Bound, called_back: Set[types.CodeType] = frozenset()) -> Watches:
    """What has to be as it is for a trace of `fun` to be right.

    Arguments:
        fun: what was traced.
        bound: its static arguments by the names of the parameters.
        called_back: code of functions that are called at each run, which may read anything.
    """
    return _walk(fun, bound, called_back, ()).watches


def objects_read(fun: Any, bound: Bound, kinds: tuple[type, ...]) -> list[tuple[str, Any]]:
    """The objects of some classes that `fun` reads from outside, with their paths."""
    if type(fun) is types.FunctionType and not (fun.__closure__ or fun.__defaults__):
        reads = reads_of(fun.__code__)
        if not reads.inner and all([path.source == LOCAL for path in reads.paths]):
            return []
    return _walk(fun, bound, frozenset(), kinds).found


def _walk(fun: Any, bound: Bound, called_back: Set[types.CodeType], kinds: Any) -> _Walk:
    walk = _Walk(called_back, kinds)
    walk.see(fun, getattr(fun, "__name__", "function"), bound)
    walk.finish()
    return walk


class _Walk:
    """One look at the world."""

    def __init__(self, called_back: Set[types.CodeType], kinds: tuple[type, ...]) -> None:
        self.called_back = called_back
        self.kinds = kinds
        self.found: list[tuple[str, Any]] = []  # objects of these kinds
        self.watches = Watches()
        self.names: set[str] = set()
        self.seen: dict[Any, Any] = {}  # what was looked at, which keeps it and its identity
        self.site: Site | None = None  # the instruction that takes the value at a path's end
        self.called = False  # whether that value is called, and nothing else
        self.objects: list[tuple[Any, str]] = []  # whose attributes are read by name
        self.asked: set[tuple[int, str]] = set()

    def finish(self) -> None:
        """Look at the attributes of objects until no new name comes up."""
        count = -1
        while count != (len(self.names), len(self.objects)):
            count = len(self.names), len(self.objects)
            for x, path in list(self.objects):
                for name in sorted(self.names & _attribute_names(x)):
                    self.site = None
                    if (id(x), name) not in self.asked:
                        self.asked.add((id(x), name))
                        self.attribute(x, name, path, ())

    # Values.

    def see(self, x: Any, path: str, bound: Bound | None = None) -> None:
        """All of a value is read."""
        kind = type(x)
        site, self.site, self.called = self.site, None, False
        if isinstance(x, (Tracer, OnDevice, np.generic, np.ufunc, np.dtype)) or kind in _PLAIN:
            return
        if isinstance(x, np.ndarray):
            self.watches.array(x, path, site)
            return
        key = (id(x), tuple([(n, id(v)) for n, v in bound.items()]) if bound else ())
        if key in self.seen:
            return
        self.seen[key] = (x, bound)
        if isinstance(x, self.kinds):
            self.found.append((path, x))
        if isinstance(x, types.FunctionType):
            self.function(x, path, bound or {})
        elif isinstance(x, types.MethodType):
            self.method(x.__func__, x.__self__, path)
        elif isinstance(x, functools.partial):
            for k, part in enumerate((x.func, *x.args, *x.keywords.values())):
                self.see(part, f"{path}.args[{k}]" if k else path)
        elif isinstance(x, types.ModuleType):
            if not is_trusted(x):
                self.objects.append((x, path))
        elif isinstance(x, dict):
            self.mapping(x, path)
        elif isinstance(x, list):
            self.watches.sequence(x, path)
            self.items(x, path)
        elif isinstance(x, (tuple, frozenset)):
            self.items(x, path)
            self.instance(x, path)
        elif isinstance(x, type):
            self.type_(x, path)
        else:
            self.instance(x, path)

    def items(self, items: Sequence[Any] | frozenset[Any], path: str) -> None:
        if len(items) <= MOST_ITEMS:
            for k, item in enumerate(items):
                self.see(item, f"{path}[{k}]")

    def mapping(self, x: dict[Any, Any], path: str) -> None:
        if len(x) <= MOST_ITEMS:
            self.watches.keys(x, path)
            for key in list(x):
                self.item(x, key, f"{path}[{key!r}]", ())
        if type(x) is not dict:
            self.instance(x, path)

    def item(self, x: dict[Any, Any], key: Any, path: str, steps: Sequence[Step]) -> None:
        """`x[key]` of a dictionary is read."""
        value = dict.get(x, key, MISSING)
        self.watches.item(x, key, value, path)
        if value is not MISSING:
            self.follow(value, steps, path)

    def follow(self, x: Any, steps: Sequence[Step], path: str) -> None:
        """A path leads on from a value."""
        if not steps:
            called, self.called = self.called, False
            if called and _is_called_by_code(type(x)):
                self.attribute(x, "__call__", path, ())
            else:
                self.see(x, path)
            return
        (kind, name), *rest = steps
        if isinstance(x, np.ndarray):
            self.site = None  # a part of it, or a method
        if kind == ITEM:
            if isinstance(x, dict) and _is_plain_key(name):
                self.item(x, name, f"{path}[{name!r}]", rest)
            elif type(x) is tuple and type(name) is int and -len(x) <= name < len(x):
                self.follow(x[name], rest, f"{path}[{name}]")
            else:
                self.see(x, path)
            return
        if isinstance(x, (list, dict, set)) and name in _WRITERS:
            return
        known = isinstance(x, (types.ModuleType, type)) or not is_trusted(type(x))
        if not known or not _has_usual_attributes(x):
            self.see(x, path)
        self.attribute(x, name, path, rest)

    # Functions.

    def function(self, fun: types.FunctionType, path: str, bound: Bound) -> None:
        """What a function reads; of a library's, only what it closes over."""
        if is_trusted(fun) or fun.__code__.co_filename.startswith("<frozen"):
            for cell in fun.__closure__ or ():
                if callable(held := _held(cell)):
                    self.see(held, path)
            if "__wrapped__" in fun.__dict__:
                self.see(fun.__dict__["__wrapped__"], path)
            return
        if fun.__code__ in self.called_back:
            return
        self.watches.function(fun, path)
        for k, default in enumerate(fun.__defaults__ or ()):
            self.see(default, f"{path}.__defaults__[{k}]")
        if fun.__kwdefaults__:
            self.see(fun.__kwdefaults__, f"{path}.__kwdefaults__")
        cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True))
        self.code(fun.__code__, fun.__globals__, cells, dict(bound))

    def method(self, fun: Any, instance: Any, path: str) -> None:
        """A function whose first argument is known."""
        if isinstance(fun, types.FunctionType) and fun.__code__.co_argcount:
            self.see(fun, path, {fun.__code__.co_varnames[0]: instance})
        else:
            self.see(instance, path.rpartition(".")[0] or path)
            self.see(fun, path)

    def code(
        self,
        code: types.CodeType,
        scope: dict[str, Any],
        cells: Mapping[str, types.CellType],
        bound: Mapping[str, Any],
    ) -> None:
        """All paths of a code object, and of the functions that are made in it."""
        reads = reads_of(code)
        self.names |= reads.names
        for path in reads.paths:
            self.site = None if path.consumer is None else (code, path.consumer)
            self.path(path, scope, cells, bound)
        self.site = None
        inner = {name: value for name, value in bound.items() if name in code.co_cellvars}
        for made in reads.inner:
            if made in self.called_back:
                continue
            known = {n: c for n, c in cells.items() if n in made.co_freevars}
            self.code(made, scope, known, inner)

    def path(
        self,
        path: Path,
        scope: dict[str, Any],
        cells: Mapping[str, types.CellType],
        bound: Mapping[str, Any],
    ) -> None:
        source, name, steps, _, called = path
        self.called = called
        if source == FREE and name in cells:
            value = _held(cells[name])
            self.watches.cell(cells[name], value, name)
            if value is not MISSING:
                self.follow(value, steps, name)
        elif source in (LOCAL, FREE):
            if name in bound:
                self.follow(bound[name], steps, name)
        elif source == GLOBAL:
            if name in scope or not hasattr(_BUILTINS, name):
                self.item(scope, name, name, steps)
            else:
                self.watches.item(scope, name, MISSING, name)
        elif name in sys.modules:
            self.follow(sys.modules[name], steps, name)

    # Objects.

    def type_(self, cls: type, path: str) -> None:
        """A class that is called: its functions that make an instance."""
        if not is_trusted(cls):
            self.objects.append((cls, path))
            for name in ("__init__", "__new__", "__post_init__"):
                self.class_attribute(cls, name, path)

    def instance(self, x: Any, path: str) -> None:
        """An object that is passed on: all special functions of its class, and what is asked."""
        cls = type(x)
        if is_trusted(cls):
            for name in ("__wrapped__", "fun", "func"):
                held = getattr(x, "__dict__", {}).get(name)
                if callable(held):
                    self.see(held, path)
            return
        self.objects.append((x, path))
        for owner in cls.__mro__:
            if not is_trusted(owner):
                for name, held in list(vars(owner).items()):
                    if name.startswith("__") and isinstance(held, _METHODS) and name not in _UNREAD:
                        self.attribute(x, name, path, ())

    def attribute(self, x: Any, name: str, path: str, steps: Sequence[Step]) -> None:
        """`x.name` is read, as Python finds it: in the class, in the object, in the class."""
        where = f"{path}.{name}"
        if isinstance(x, types.ModuleType):
            if not is_trusted(x):
                self.item(vars(x), name, where, steps)
            return
        if isinstance(x, type):
            if not is_trusted(x):
                self.class_attribute(x, name, path, steps)
            return
        cls = type(x)
        if is_trusted(cls):
            return
        self.watches.type_(x, path)
        in_class = self.class_attribute(cls, name, path, steps, x)
        if isinstance(in_class, property):
            return
        if isinstance(in_class, _MEMBER):
            value = _slot(in_class, x)
            self.watches.slot(x, in_class, value, where)
            if value is not MISSING:
                self.follow(value, steps, where)
            return
        held = getattr(x, "__dict__", None)
        if type(held) is dict:
            self.watches.dict_of(x, held, path)
            self.item(held, name, where, steps)

    def class_attribute(
        self, cls: type, name: str, path: str, steps: Sequence[Step] = (), x: Any = MISSING
    ) -> Any:
        """What a class has under a name, for the object `x` of it if there is one."""
        where = f"{path}.{name}"
        for owner in cls.__mro__:
            if is_trusted(owner):
                continue
            held = dict_of_class(owner)
            value = held.get(name, MISSING)
            self.watches.item(held, name, value, where)
            if value is MISSING:
                continue
            if isinstance(value, _METHODS):
                self.functions_of(value, cls, where, x)
                self.overridden(cls, owner, name, path, x)
            elif not isinstance(value, _MEMBER):
                self.follow(value, steps, where)
            return value
        return MISSING

    def overridden(self, cls: type, owner: type, name: str, path: str, x: Any) -> None:
        """What `super()` may find."""
        above = cls.__mro__[cls.__mro__.index(owner) + 1 :]
        for other in above:
            value = vars(other).get(name)
            if isinstance(value, _METHODS) and not is_trusted(other):
                held = dict_of_class(other)
                self.watches.item(held, name, value, f"{path}.{name}")
                self.functions_of(value, cls, f"{path}.{name}", x)

    def functions_of(self, value: Any, cls: type, path: str, x: Any) -> None:
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property):
            value = value.func
        elif isinstance(value, (staticmethod, classmethod)):
            x = cls if isinstance(value, classmethod) else MISSING
            value = value.__func__
        if x is MISSING or not isinstance(value, types.FunctionType):
            self.see(value, path)
        elif value.__code__.co_argcount:
            self.see(value, path, {value.__code__.co_varnames[0]: x})
        else:
            self.see(value, path)


_PLAIN = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range}
    | {types.BuiltinFunctionType, types.CodeType}
)
_WRITERS = frozenset({"append", "extend", "insert", "add", "update", "clear", "discard"})
_BUILTINS: Any = sys.modules["builtins"]


def _is_plain_key(key: Any) -> bool:
    return type(key) in (str, int, bool, float, bytes, type(None)) or (
        type(key) is tuple and all([_is_plain_key(part) for part in key])
    )


def _has_usual_attributes(x: Any) -> bool:
    """Whether no code of the user's own answers when an attribute is asked for."""
    cls = type(x)
    usual = cls.__getattribute__ in (
        object.__getattribute__,
        type.__getattribute__,
        types.ModuleType.__getattribute__,
    )
    return usual and not hasattr(cls, "__getattr__")


def _is_called_by_code(cls: type) -> bool:
    """Whether a call of an object runs a function of its class, which says what it reads."""
    found = [vars(owner)["__call__"] for owner in cls.__mro__ if "__call__" in vars(owner)]
    return bool(found) and isinstance(found[0], types.FunctionType) and not is_trusted(cls)


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _slot(member: Any, x: Any) -> Any:
    try:
        return member.__get__(x)
    except AttributeError:
        return MISSING


def dict_of_class(cls: type) -> dict[str, Any]:
    """The dictionary behind `cls.__dict__`."""
    (held,) = [d for d in gc.get_referents(cls.__dict__) if isinstance(d, dict)]
    return held


def _attribute_names(x: Any) -> set[str]:
    """The names of an object's attributes."""
    found: set[str] = set(getattr(x, "__dict__", ()))
    for owner in type(x).__mro__ if not isinstance(x, type) else x.__mro__:
        if not is_trusted(owner):
            found |= set(vars(owner))
    return found
