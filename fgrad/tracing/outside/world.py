"""L2. A function -> the globals, closures, containers and arrays on which its result depends.

The code of the function and of all functions that it can reach says which names it reads
(`reads`); these lead to values, and values to functions and containers again.  Where a path ends,
all that an object holds is taken for read: the items of containers, and of other objects the
attributes with a name that some code asks for.

A value is *exposed* if it may be reached in a way other than by a path of a function that leads to
it, all functions before it likewise.  Where that is not so, a trace may put something else in its
place (`stand_ins`): `links` say from which values each one is reached.
"""

from __future__ import annotations

import functools
import os
import sys
import types
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set

import numpy as np

from fgrad.base.closures import contents
from fgrad.base.containers import Contents
from fgrad.base.foreign import is_scipy_sparse, lists_of_sparse, shared_memory
from fgrad.base.kinds import (
    is_any,
    is_array,
    is_dict,
    is_frozenset,
    is_list,
    is_of_class,
    is_partial,
    is_plain_dict,
    is_plain_series,
    is_static,
    is_tuple_like,
    own_dict,
)
from fgrad.base.named_tuple import NamedTuple
from fgrad.tracing.outside.attributes import (
    METHODS,
    absent_names,
    asked_names,
    dict_of_class,
    has_usual_attributes,
    is_called_by_code,
    is_plain_key,
    is_trusted,
    is_wrapper,
    own_attributes,
    reads_dictionaries,
    relatives,
    slot,
    special_functions,
)
from fgrad.tracing.outside.held import (
    FUNCTIONS,
    GIVERS,
    LEAVES,
    NAMING,
    OF_MODULES,
    PLAIN,
    WRITTEN,
    Held,
    check_size,
    held_by,
)
from fgrad.tracing.outside.installed import can_note, has_run, is_installed
from fgrad.tracing.outside.reads import (
    FREE,
    GLOBAL,
    ITEM,
    LOCAL,
    WRITERS,
    Path,
    Step,
    binds_globals,
    reads_of,
)
from fgrad.tracing.outside.watches import (
    MISSING,
    MOST_ITEMS,
    Key,
    PlaceKey,
    Watches,
    is_number,
)

MOST_FUNCTIONS = 200  # of one installed package that are looked into
DEEPEST = 50  # functions of functions that are looked into at once, the others afterwards
_MEMBER = types.MemberDescriptorType

Bound = Mapping[str, object]  # parameters whose values are known


class World(NamedTuple):
    """What a function reads from outside, and how it gets there."""

    watches: Watches
    exposed: Set[Key]  # identities of objects, and places of numbers
    links: Mapping[Key, Set[int]]  # from these to the identities of those that lead to them
    looks: bool  # whether code asks for the class or identity of values, or keeps them outside
    found: list[tuple[str, object]]  # objects of some classes, with their paths
    skips: bool  # whether functions of installed packages were left out, which have not run yet


def world_of(
    fun: object,
    bound: Bound,
    called_back: Set[types.CodeType] = frozenset(),
    kinds: tuple[type, ...] = (),
) -> World:
    """What has to be as it is for a trace of `fun` to be right.

    Arguments:
        fun: what was traced.
        bound: its static arguments by the names of the parameters.
        called_back: code of functions that are called at each run, which may read anything.
        kinds: the classes of objects that are looked for.
    """
    walk = _walk(fun, bound, called_back, kinds)
    return World(walk.watches, walk.exposed, walk.links, walk.looks, walk.found, walk.skips)


def _walk(
    fun: object, bound: Bound, called_back: Set[types.CodeType], kinds: tuple[type, ...]
) -> _Walk:
    walk = _Walk(called_back, kinds)
    walk.start(fun, getattr(fun, "__name__", "function"), bound)
    walk.finish()
    return walk


class _Walk:
    """One look at the world."""

    def __init__(self, called_back: Set[types.CodeType], kinds: tuple[type, ...]) -> None:
        self.called_back = called_back
        self.kinds = kinds
        self.found: list[tuple[str, object]] = []  # objects of these kinds
        self.watches = Watches()
        self.names: set[str] = set()
        self.perhaps: set[str] = set()  # those that objects are asked for which may not have them
        self.seen: dict[object, object] = {}  # what was looked at, which keeps it and its identity
        self.called = False  # whether the value at a path's end is called, and nothing else
        self.counted = False  # whether something in it is counted up, and nothing else
        self.objects: list[tuple[object, str]] = []  # whose attributes are read by name
        self.asked: set[tuple[int, str]] = set()
        self.looks = False
        self.open = False  # whether what is reached now is exposed
        self.parent = 0  # the identity of what leads there
        self.exposed: set[Key] = set()
        self.links: dict[Key, set[int]] = {}
        self.whole = not can_note()  # whether functions are looked into before they have run
        self.skips = False
        self.looked_into: Counter[str] = Counter()  # functions of installed packages
        self.depth = 0
        self.deep: list[tuple[types.FunctionType, Bound, bool, int]] = []  # with open and parent

    def start(self, fun: object, path: str, bound: Bound) -> None:
        """What is traced: it is called."""
        if is_called_by_code(type(fun)):
            self.link(id(fun))
            self.parent = id(fun)
            self.attribute(fun, "__call__", path, ())
        else:
            self.see(fun, path, bound)

    def finish(self) -> None:
        """Look at the attributes of objects until no new name comes up."""
        count: tuple[int, int] | None = None
        while self.deep or count != (len(self.names), len(self.objects)):
            while self.deep:
                fun, bound, self.open, self.parent = self.deep.pop()
                self.body(fun, bound)
            self.open = True
            count = len(self.names), len(self.objects)
            for x, path in list(self.objects):
                self.all_names(x, path)
                for name in sorted(asked_names(x, self.names) | absent_names(x, self.perhaps)):
                    if (id(x), name) not in self.asked:
                        self.asked.add((id(x), name))
                        self.attribute(x, name, path, ())

    def all_names(self, x: object, path: str) -> None:
        """Where code reads dictionaries of attributes, which attributes there are."""
        if not reads_dictionaries(self.names):
            return
        if isinstance(x, type):
            self.watches.keys(dict_of_class(x), path)
        elif is_plain_dict(held := own_dict(x)) and not isinstance(x, NAMING):
            self.watches.keys(held, path)

    # Values.

    def link(self, key: Key) -> None:
        """Something, by its identity or place, is reached from what is looked at now."""
        self.links.setdefault(key, set()).add(self.parent)
        if self.open:
            self.exposed.add(key)

    def number(self, key: PlaceKey, value: object, steps: Sequence[Step]) -> None:
        """A number is read in a place."""
        if is_number(value):
            self.link(key)
            if steps:  # its attributes
                self.exposed.add(key)

    def see(self, x: object, path: str, bound: Bound | None = None) -> None:
        """All of a value is read."""
        kind = type(x)
        self.called = False
        if kind in weakref.ProxyTypes:  # what it stands for may be gone
            self.looks = True
            return
        if is_any(x, LEAVES) or kind in PLAIN:
            return
        before = self.open, self.parent
        self.open = self.open or not (is_any(x, FUNCTIONS) or is_wrapper(x))
        self.link(id(x))
        self.parent = id(x)
        array = x if is_array(x) else shared_memory(x)
        if array is not None:
            self.array(array, path)
        else:
            key = (id(x), tuple([(n, id(v)) for n, v in bound.items()]) if bound else ())
            if (key, self.open) not in self.seen:
                self.seen[key, self.open] = (x, bound)
                self.parts(x, path, bound)
        self.open, self.parent = before

    def array(self, x: np.ndarray, path: str) -> None:
        """The numbers of an array, the mask of one that has one, or its objects."""
        held = own_dict(x)
        if is_plain_dict(held) and "_mask" in held:
            self.item(held, "_mask", f"{path}.mask", ())
            x = np.ndarray.view(x, np.ndarray)
        self.watches.array(x, path)
        if x.dtype == object:
            self.items(list(x.flat), path)

    def parts(self, x: object, path: str, bound: Bound | None) -> None:
        """What a value consists of, apart from plain ones."""
        if isinstance(x, self.kinds):
            self.found.append((path, x))
        if isinstance(x, types.FunctionType):
            self.function(x, path, bound or {})
        elif isinstance(x, types.MethodType):
            self.method(x.__func__, x.__self__, path)
        elif (held := held_by(x)) is not None:
            self.holding(x, held, path)
        elif is_partial(x):
            self.objects.append((x, path))
            self.see(x.func, path)
            for k, part in enumerate((*x.args, *x.keywords.values())):
                self.exposing(part, f"{path}.args[{k}]")
        elif is_wrapper(x):
            self.see(x.fun, path)
        elif isinstance(x, types.ModuleType):
            if not is_trusted(x):
                self.objects.append((x, path))
        elif is_scipy_sparse(x):
            check_size(held_lists := lists_of_sparse(x), path)
            self.items(held_lists, path)
            self.instance(x, path)
        elif is_dict(x):
            self.mapping(x, path)
        elif is_list(x):
            self.watches.sequence(x, path)
            self.items(x, path)
        elif is_tuple_like(x) or is_frozenset(x):
            self.items(x, path)
            self.instance(x, path)
        elif isinstance(x, type):
            self.type_(x, path)
        else:
            self.instance(x, path)

    def holding(self, x: object, held: Held, path: str) -> None:
        """A value of Python's library that holds others."""
        if held.read is not None:
            self.watches.shown(x, held.read, path)
        self.items(held.inside, path)
        self.instance(x, path)

    def items(self, items: Collection[object], path: str) -> None:
        if len(items) <= MOST_ITEMS:
            for k, item in enumerate(items):
                self.see(item, f"{path}[{k}]")

    def mapping(self, x: Contents, path: str) -> None:
        if len(x) <= MOST_ITEMS:
            self.watches.keys(x, path)
            for key in list(x):
                self.item(x, key, f"{path}[{key!r}]", ())
        if type(x) is not dict:
            self.instance(x, path)

    def item(self, x: Contents, key: object, path: str, steps: Sequence[Step]) -> None:
        """`x[key]` of a dictionary is read."""
        value = Contents.get(x, key, MISSING)
        self.watches.item(x, key, value, path)
        if value is not MISSING:
            self.number((id(x), key), value, steps)
            self.follow(value, steps, path)

    def follow(self, x: object, steps: Sequence[Step], path: str) -> None:
        """A path leads on from a value."""
        before = self.open, self.parent
        if not steps:
            called, self.called = self.called, False
            if called and is_called_by_code(type(x)):
                self.link(id(x))
                self.parent = id(x)
                self.attribute(x, "__call__", path, ())
            elif not self.counted:
                self.see(x, path)
        else:
            if is_array(x) or shared_memory(x) is not None:
                self.see(x, path)  # a part of it, or a method
            else:
                self.link(id(x))
                self.parent = id(x)
            self.lead(x, steps[0], steps[1:], path)
        self.open, self.parent = before

    def lead(self, x: object, step: Step, rest: Sequence[Step], path: str) -> None:
        """One step of a path, and those behind it."""
        kind, name = step
        if kind == ITEM:
            if is_plain_dict(x) and is_plain_key(name):
                self.item(x, name, f"{path}[{name!r}]", rest)
            elif is_plain_series(x) and type(name) is int and -len(x) <= name < len(x):
                if is_list(x):
                    self.watches.sequence(x, path)
                self.follow(x[name], rest, f"{path}[{name}]")
            else:
                self.see(x, path)
            return
        if is_any(x, WRITTEN) and name in WRITERS:
            return
        known = isinstance(x, (types.ModuleType, type)) or not is_trusted(type(x))
        if not known or not has_usual_attributes(x):
            self.see(x, path)
            self.open = True
        self.attribute(x, name, path, rest)

    # Functions.

    def function(self, fun: types.FunctionType, path: str, bound: Bound) -> None:
        """What a function reads; of a library's, only what it closes over."""
        if fun is os.getenv:
            self.see(os.environ, path)
        if is_trusted(fun) or fun.__code__.co_filename.startswith("<frozen"):
            for cell in fun.__closure__ or ():
                held = contents(cell)
                if is_list(held) or is_tuple_like(held) or is_dict(held):
                    self.callables(held, path)
                elif callable(held):
                    self.see(held, path)
            if "__wrapped__" in fun.__dict__:
                self.see(fun.__dict__["__wrapped__"], path)
            return
        if fun.__code__ in self.called_back or self.is_enough(fun):
            return
        self.watches.function(fun, path)
        self.objects.append((fun, path))
        for k, default in enumerate(fun.__defaults__ or ()):
            self.exposing(default, f"{path}.__defaults__[{k}]")
        if fun.__kwdefaults__:
            self.exposing(fun.__kwdefaults__, f"{path}.__kwdefaults__")
        if self.depth >= DEEPEST:
            self.deep.append((fun, bound, self.open, self.parent))
        else:
            self.body(fun, bound)

    def body(self, fun: types.FunctionType, bound: Bound) -> None:
        """What the code of a function reads."""
        cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or (), strict=True))
        before = self.open
        self.depth += 1
        self.open = before or binds_globals(fun.__code__)
        self.code(fun.__code__, fun.__globals__, cells, dict(bound))
        self.open = before
        self.depth -= 1

    def is_enough(self, fun: types.FunctionType) -> bool:
        """Whether a function belongs to an installed package, and has not run (`installed`), or
        many of its package were looked into."""
        if not is_installed(fun.__code__.co_filename):
            return False
        if not self.whole and not has_run(fun.__code__):
            self.skips = True
            return True
        package = (fun.__module__ or "").partition(".")[0]
        self.looked_into[package] += 1
        return self.looked_into[package] > MOST_FUNCTIONS

    def exposing(self, x: object, path: str) -> None:
        """A value is read in a way in which nothing can be put in its place."""
        before, self.open = self.open, True
        self.see(x, path)
        self.open = before

    def method(self, fun: object, instance: object, path: str) -> None:
        """A function whose first argument is known."""
        if isinstance(fun, types.FunctionType) and fun.__code__.co_argcount:
            self.see(fun, path, {fun.__code__.co_varnames[0]: instance})
        else:
            self.exposing(instance, path.rpartition(".")[0] or path)
            self.see(fun, path)

    def code(
        self,
        code: types.CodeType,
        scope: dict[str, object],
        cells: Mapping[str, types.CellType],
        bound: Mapping[str, object],
    ) -> None:
        """All paths of a code object, and of the functions that are made in it."""
        reads = reads_of(code)
        self.names |= reads.names
        self.perhaps |= reads.perhaps
        self.looks |= reads.looks
        before = self.open
        self.open = before or not reads.is_body
        for path in reads.paths:
            self.path(path, scope, cells, bound)
        inner = {name: value for name, value in bound.items() if name in code.co_cellvars}
        for made in reads.inner:
            if made in self.called_back:
                continue
            known = {n: c for n, c in cells.items() if n in made.co_freevars}
            self.code(made, scope, known, inner)
        self.open = before

    def path(
        self,
        path: Path,
        scope: dict[str, object],
        cells: Mapping[str, types.CellType],
        bound: Mapping[str, object],
    ) -> None:
        source, name, steps, self.called, self.counted, keeps = path
        if keeps and (source == GLOBAL or name in bound or name in cells):
            self.looks = True
        if source == FREE and name in cells:
            value = contents(cells[name], MISSING)
            self.watches.cell(cells[name], value, name)
            if value is not MISSING:
                self.number((id(cells[name]), "cell_contents"), value, steps)
                self.follow(value, steps, name)
        elif source in (LOCAL, FREE):
            if name in bound:
                self.follow(bound[name], steps, name)
        elif source == GLOBAL:
            if name in scope or not hasattr(_BUILTINS, name):
                self.item(scope, name, name, steps)
            else:
                self.watches.item(scope, name, MISSING, name)
                if name in _OF_SCOPE and not is_installed(str(scope.get("__file__", ""))):
                    self.exposing(scope, name)
                if name == "super":  # it finds the object by itself
                    for x in bound.values():
                        self.exposing(x, name)
        elif name in sys.modules:
            before, self.open = self.open, True
            self.follow(sys.modules[name], steps, name)
            self.open = before
        self.called = self.counted = False

    # Objects.

    def type_(self, cls: type, path: str) -> None:
        """A class that is called: its special functions, of which some make an instance and some
        are called with it."""
        if not is_trusted(cls):
            self.objects.append((cls, path))
            for name in (*special_functions(cls), *special_functions(type(cls))):
                self.attribute(cls, name, path, ())

    def instance(self, x: object, path: str) -> None:
        """An object that is passed on: all special functions of its class, and what is asked."""
        cls = type(x)
        if is_trusted(cls):
            self.looks |= isinstance(x, GIVERS)
            self.callables(own_attributes(x), path)
            return
        self.objects.append((x, path))
        for name in special_functions(cls):
            self.attribute(x, name, path, ())

    def callables(self, x: Contents | Collection[object], path: str) -> None:
        """The functions in a container or object of a library's, such as rules of derivatives."""
        for held in list(x.values() if is_dict(x) else x):
            parts = held if is_tuple_like(held) or is_list(held) else ()
            if callable(held) or any(map(callable, parts)):
                self.exposing(held, path)

    def attribute(self, x: object, name: str, path: str, steps: Sequence[Step]) -> None:
        """`x.name` is read, as Python finds it: in the class, in the object, in the class."""
        where = f"{path}.{name}"
        relative = relatives(x, name)
        if relative is not MISSING:
            self.follow(relative, steps, where)
        elif name == "__dict__":
            self.objects.append((x, path))  # whose attributes are all asked for
        if isinstance(x, (types.ModuleType, types.FunctionType)) or is_partial(x):
            if is_partial(x) or not is_trusted(x):
                self.item(vars(x), name, where, steps)
            elif isinstance(x, types.ModuleType) and (x.__name__, name) in OF_MODULES:
                self.follow(getattr(x, name), steps, where)
            return
        if isinstance(x, type):
            if not is_trusted(x):
                self.class_attribute(x, name, path, steps)
            if not is_trusted(type(x)):
                before, self.open = self.open, True
                self.class_attribute(type(x), name, path, steps, x)
                self.open = before
            return
        cls = type(x)
        if is_trusted(cls):
            return
        self.watches.type_(x, path)
        in_class = self.class_attribute(cls, name, path, steps, x)
        if isinstance(in_class, property):
            return
        if isinstance(in_class, _MEMBER):
            value = slot(in_class, x)
            self.watches.slot(x, in_class, value, where)
            if value is not MISSING:
                self.number((id(x), in_class), value, steps)
                self.follow(value, steps, where)
            return
        held = own_dict(x)
        if is_plain_dict(held):
            self.watches.dict_of(x, held, path)
            self.item(held, name, where, steps)

    def class_attribute(
        self, cls: type, name: str, path: str, steps: Sequence[Step] = (), x: object = MISSING
    ) -> object:
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
            if is_any(value, METHODS):
                self.functions_of(value, cls, where, x)
                self.overridden(cls, owner, name, path, x)
            elif not isinstance(value, _MEMBER):
                self.number((id(held), name), value, steps)
                self.follow(value, steps, where)
            return value
        return MISSING

    def overridden(self, cls: type, owner: type, name: str, path: str, x: object) -> None:
        """What `super()` may find."""
        above = cls.__mro__[cls.__mro__.index(owner) + 1 :]
        for other in above:
            value: object = vars(other).get(name)
            if is_any(value, METHODS) and not is_trusted(other):
                held = dict_of_class(other)
                self.watches.item(held, name, value, f"{path}.{name}")
                before, self.open = self.open, True
                self.functions_of(value, cls, f"{path}.{name}", x)
                self.open = before

    def functions_of(self, value: object, cls: type, path: str, x: object) -> None:
        before = self.open
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property):
            value, self.open = value.func, True
        elif is_static(value):
            x, value = MISSING, value.__func__
        elif is_of_class(value):
            x, value = cls, value.__func__
        if x is MISSING or not isinstance(value, types.FunctionType):
            self.see(value, path)
        elif value.__code__.co_argcount:
            self.see(value, path, {value.__code__.co_varnames[0]: x})
        else:
            self.see(value, path)
        self.open = before


_BUILTINS = sys.modules["builtins"]
_OF_SCOPE = frozenset({"globals", "eval", "exec"})  # read names of a module that code does not name
