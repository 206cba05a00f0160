"""L2. Function -> a copy of it that reads tracers in place of outer values.

    cfg = {"lr": 0.1}
    def step(w): return w - cfg["lr"] * w

A twin of `step` has the same code, and sees `cfg` as a view in which "lr" is a tracer.  Nothing
that other threads see is changed.  A twin is made of a function only if it leads to what is
replaced, and of each place that leads there it is known that code does nothing but go on from it
by a constant path (`world.py`): so a view needs no more than that.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Mapping, Set

from fgrad.base.closures import contents
from fgrad.base.kinds import is_dict, is_list, is_of_class, is_partial, is_static, is_tuple_like
from fgrad.trace import Tracer
from fgrad.tracing.outside.attributes import dict_of_class, is_trusted, is_wrapper, own_attributes
from fgrad.tracing.outside.watches import Key, PlaceKey
from fgrad.typing import PyTree


def carriers(chosen: Collection[Key], links: Mapping[Key, Set[int]]) -> set[int]:
    """Identities of all values that lead to some of those that are chosen."""
    found: set[int] = set()
    left: list[Key] = list(chosen)
    while left:
        for key in links.get(left.pop(), ()):
            if key not in found:
                found.add(key)
                left.append(key)
    return found


class StandIns:
    """Makes twins of functions and views of containers.

    Arguments:
        chosen: what is replaced: identities of arrays and places of numbers.
        on_the_way: the identities of all values that lead there.
        stand_in: makes what is put in the place of one of them.
    """

    def __init__(
        self,
        chosen: Collection[Key],
        on_the_way: Collection[int],
        stand_in: Callable[[Key], Tracer],
    ) -> None:
        self.chosen, self.on_the_way, self.stand_in = chosen, on_the_way, stand_in
        self.made: dict[int, PyTree] = {}  # twins, views and scopes, by what they are made of
        self.kept: list[object] = []  # whose identities these are

    def of(self, x: object, place: PlaceKey | None = None) -> PyTree:
        """What a function sees in place of a value."""
        if place is not None and place in self.chosen:
            return self.stand_in(place)
        if id(x) in self.chosen:
            return self.stand_in(id(x))
        if id(x) not in self.on_the_way:
            return x
        if isinstance(x, types.MethodType):
            return types.MethodType(self.of(x.__func__), self.of(x.__self__))
        if id(x) not in self.made:
            self.kept.append(x)
            if isinstance(x, types.FunctionType):
                self._twin(x)
            elif is_partial(x):
                self.made[id(x)] = functools.partial(self.of(x.func), *x.args, **x.keywords)
            elif is_wrapper(x):
                self.made[id(x)] = x.with_function(self.of(x.fun))
            elif is_dict(x) or is_list(x) or is_tuple_like(x):
                self.made[id(x)] = _Items(x, self)
            else:
                self.made[id(x)] = _Attributes(x, self)
        return self.made[id(x)]

    def _twin(self, fun: types.FunctionType) -> None:
        cells = [self._cell(cell) for cell in fun.__closure__ or ()]
        scope = fun.__globals__ if is_trusted(fun) else self._scope(fun.__globals__)
        twin = types.FunctionType(
            fun.__code__, scope, fun.__name__, fun.__defaults__, tuple([new for new, _ in cells])
        )
        twin.__kwdefaults__ = fun.__kwdefaults__
        twin.__dict__.update(fun.__dict__)
        twin.__qualname__, twin.__module__, twin.__doc__ = (
            fun.__qualname__, fun.__module__, fun.__doc__,
        )  # fmt: skip
        self.made[id(fun)] = twin  # before its cells are looked at, which may lead back to it
        if "__wrapped__" in twin.__dict__:
            twin.__dict__["__wrapped__"] = self.of(twin.__dict__["__wrapped__"])
        for new, old in cells:
            if new is not old:
                new.cell_contents = self.of(old.cell_contents, (id(old), "cell_contents"))

    def _cell(self, cell: types.CellType) -> tuple[types.CellType, types.CellType]:
        """A cell for the twin, and that of the function: the same if what is in it stays."""
        held = contents(cell, self)
        if held is self:  # a variable that has no value yet
            return cell, cell
        replaced = (id(cell), "cell_contents") in self.chosen
        replaced = replaced or id(held) in self.chosen or id(held) in self.on_the_way
        return (types.CellType() if replaced else cell), cell

    def _scope(self, names: dict[str, object]) -> _Scope:
        found = self.made.get(id(names))
        if found is None:
            self.kept.append(names)
            found = self.made[id(names)] = _Scope(names, self)
        return found

    def attribute(self, x: object, name: str, view: object) -> PyTree:
        """`x.name` as a view of `x` shows it."""
        if isinstance(x, types.ModuleType):
            return self.of(getattr(x, name), (id(vars(x)), name))
        own: Mapping[str, object] = {} if isinstance(x, type) else own_attributes(x)
        for owner in x.__mro__ if isinstance(x, type) else type(x).__mro__:
            found: object = vars(owner).get(name)
            if found is None or (name in own and not isinstance(found, property)):
                continue
            if isinstance(found, property) and not isinstance(x, type):
                return self.of(found.fget)(view)
            if isinstance(found, types.FunctionType):
                twin = self.of(found)
                return twin if isinstance(x, type) else types.MethodType(twin, view)
            if is_static(found):
                return self.of(found.__func__)
            if is_of_class(found):
                cls = x if isinstance(x, type) else type(x)
                return types.MethodType(self.of(found.__func__), self.of(cls))
            if isinstance(found, types.MemberDescriptorType):
                return self.of(getattr(x, name), (id(x), found))
            return self.of(getattr(x, name), (id(dict_of_class(owner)), name))
        return self.of(getattr(x, name), (id(own), name))


class _Scope(dict[str, object]):
    """The names of a module as twins find them."""

    def __init__(self, names: dict[str, object], stand_ins: StandIns) -> None:
        super().__init__(names)  # what the interpreter reads itself, such as `__name__`
        self.names, self.stand_ins = names, stand_ins

    def __getitem__(self, name: str) -> PyTree:
        return self.stand_ins.of(self.names[name], (id(self.names), name))


class _Items:
    """A view of a dictionary, list or tuple."""

    __slots__ = ("_fgrad_makes", "_fgrad_whole")

    def __init__(self, whole: PyTree, stand_ins: StandIns) -> None:
        self._fgrad_whole, self._fgrad_makes = whole, stand_ins

    def __getitem__(self, key: object) -> PyTree:
        return self._fgrad_makes.of(self._fgrad_whole[key], (id(self._fgrad_whole), key))

    def __setitem__(self, key: object, value: object) -> None:
        self._fgrad_whole[key] = value

    def __getattr__(self, name: str) -> PyTree:
        return getattr(self._fgrad_whole, name)


class _Attributes:
    """A view of an object, a class or a module."""

    __slots__ = ("_fgrad_makes", "_fgrad_whole")

    _fgrad_makes: StandIns
    _fgrad_whole: object

    def __init__(self, whole: PyTree, stand_ins: StandIns) -> None:
        object.__setattr__(self, "_fgrad_whole", whole)
        object.__setattr__(self, "_fgrad_makes", stand_ins)

    def __getattr__(self, name: str) -> PyTree:
        return self._fgrad_makes.attribute(self._fgrad_whole, name, self)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._fgrad_whole, name, value)

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        return self._fgrad_makes.attribute(self._fgrad_whole, "__call__", self)(*args, **kwargs)
