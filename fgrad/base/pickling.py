"""L0. Functions that transforms return: called like plain ones, pickled as the call that made them.

    vmap(f, in_axes=1)               pickles as    vmap, (f,), {"in_axes": 1}
    @grad                            pickles as    the name `loss` of its module, which leads to it
    def loss(w): ...

So it can be pickled if the function that was transformed can: by name with pickle, by value with
cloudpickle and what is made of it (joblib, dask, Ray).  Compiled code is not in a pickle; the cache
on disk has it.
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fgrad.base.frames import shorten
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.provided import Provided
from fgrad.base.source import is_own_file
from fgrad.config import config
from fgrad.errors import UnpicklableError
from fgrad.typing import P, PyTree, R

# Calls of these at the prompt may compile themselves.
COMPILED: set[Callable[..., PyTree]] = set()
# The code of functions for which they never do, by its identity.
INTERPRETED: dict[int, types.CodeType] = {}
at_prompt: Provided[Callable[..., PyTree]] = Provided("fgrad.compile.prompt.calls.at_prompt")


class Recipe(NamedTuple):
    """The call that makes a function, or the field of the result that it is."""

    make: Callable[..., PyTree]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    field: str | None = None


class Transformed:
    """The result of a transform.

    Arguments:
        fun: a closure that does the work.
        of: the function that was transformed, which gives its name and documentation.
        label: how cards call it.
    """

    __slots__ = ("fun", "of", "prefix", "recipe", "work", "__dict__", "__weakref__")

    fun: Callable[..., PyTree]
    recipe: Recipe
    prefix: str  # of the label, and what makes `fun`, where both are made when they are asked for
    work: Callable[[], Callable[..., PyTree]] | None

    def __init__(self, fun: Callable[..., PyTree], of: Callable[..., PyTree], label: str) -> None:
        self.fun, self.of, self.work = fun, of, None
        named(self, of, label)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        try:
            if config.eager_compile and id(getattr(self.of, "__code__", 0)) not in INTERPRETED:
                return at_prompt.call(self, args, kwargs)
            if self.work is not None:
                self.fun, self.work = self.work(), None
            return self.fun(*args, **kwargs)
        except Exception as error:
            shorten(error)
            if sys.version_info >= (3, 11):
                raise
            raise error  # Python 3.10 would raise it with the traceback of before

    def __getattr__(self, name: str) -> PyTree:
        """What `transformed_later` has left for later."""
        if name == "fun" and self.work is not None:
            self.fun, self.work = self.work(), None
            return self.fun
        if name in _LATER and "__label__" not in self.__dict__:
            own = dict(self.__dict__)
            named(self, self.of, f"{self.prefix}({label_of(self.of)})")
            self.__dict__.update(own)
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{label_of(self)}>"

    def __get__(
        self, instance: object, owner: type | None = None
    ) -> Transformed | types.MethodType:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[object, ...]:
        return reduced(self, self.recipe)

    def with_function(self, fun: Callable[..., PyTree]) -> Transformed:
        """The same with another closure."""
        made = Transformed(fun, self, label_of(self))
        made.__wrapped__ = self.__wrapped__  # type: ignore[attr-defined]
        made.recipe = self.recipe
        return made


_LATER = frozenset({"__label__", "__name__", "__qualname__", "__wrapped__"})


def transformed_later(
    work: Callable[[], Callable[..., PyTree]], of: Callable[..., PyTree], prefix: str
) -> Transformed:
    """The same, whose closure, names and label are made when they are first asked for: a gradient
    at the prompt that is compiled never does, and is made in half of the time."""
    made = Transformed.__new__(Transformed)
    made.work, made.of, made.prefix = work, of, prefix
    made.__module__ = getattr(of, "__module__", made.__module__)
    made.__doc__ = getattr(of, "__doc__", None)
    return made


def named(wrapper: Any, of: Callable[..., object], label: str) -> None:
    """Copy a function's name and documentation to its transformed form, and set its card label."""
    take_names(wrapper, of)
    wrapper.__label__ = label


def take_names(wrapper: Callable[..., object], of: Callable[..., object]) -> None:
    """Copy a function's names and documentation to its transformed form."""
    functools.update_wrapper(wrapper, of, _NAMES, ())


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")


def label_of(fun: object) -> str:
    """The user's name for a function: `grad(loss)` for what is made of `loss`."""
    return getattr(fun, "__label__", None) or getattr(fun, "__name__", None) or type(fun).__name__


def pickles_as_call(make: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function that makes functions, or named tuples of them: they are pickled as
    the call that made them."""

    # What `also_takes` calls where there are no keywords.
    plainly: Callable[..., PyTree] = getattr(make, "plainly", make)

    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        result: PyTree = make(*args, **kwargs) if kwargs else plainly(*args)
        recipe = tuple.__new__(Recipe, (made, args, kwargs, None))
        if type(result) is not Transformed:
            return with_recipe(result, recipe)
        result.recipe = recipe
        return result  # type: ignore[return-value]

    return made


def with_recipe(result: PyTree, recipe: Recipe) -> PyTree:
    """The result of a call, with the call recorded as its recipe."""
    if isinstance(result, types.FunctionType):
        label = recipe.make.__name__ + (f".{recipe.field}" if recipe.field else "")
        result = Transformed(result, result, label)
    if isinstance(result, tuple):
        fields = zip(result._fields, result, strict=True)  # type: ignore[attr-defined]
        return type(result)(*[with_recipe(f, recipe._replace(field=name)) for name, f in fields])
    if hasattr(type(result), "recipe"):
        result.recipe = recipe
    return result


def remade(
    make: Callable[..., PyTree],
    args: Iterable[object],
    kwargs: dict[str, object],
    field: str | None,
) -> PyTree:
    """Execute a recipe."""
    made = make(*args, **kwargs)
    return made if field is None else getattr(made, field)


def reduced(x: Callable[..., object], recipe: Recipe) -> str | tuple[object, ...]:
    """What pickle writes for a function: its name if that leads to it, else its recipe.

    Raises:
        UnpicklableError: another process could not find a function by its name.
    """
    pickler = _pickler()
    if _at(x) is x and not pickler.sends(x):
        return x.__qualname__
    make, args, kwargs, field = recipe
    if pickler.by_name:
        for part in (*args, *kwargs.values()):
            for function in _named_parts(part):
                if _steps_to(function) is None:
                    raise _unpicklable(x, function)
    args = tuple([_below_its_name(part, pickler) for part in args])
    kwargs = {key: _below_its_name(part, pickler) for key, part in kwargs.items()}
    return remade, (make, args, kwargs, field)


# --- names


def _at(x: object) -> object:
    """What the module and name of a function, or class, lead to; None if to nothing."""
    found: object = sys.modules.get(getattr(x, "__module__", None) or "")
    for name in (getattr(x, "__qualname__", None) or "").split("."):
        found = getattr(found, name, None)
    return found


def _steps_to(function: object) -> int | None:
    """How often what its name leads to must be unwrapped to find a function; None if it is not
    found."""
    found, steps = _at(function), 0
    while found is not function:
        found, steps = getattr(found, "__wrapped__", None), steps + 1
        if found is None or steps > _DEEPEST:
            return None
    return steps


_DEEPEST = 100  # more is a circle


class _Below:
    """A function whose name leads to what was made of it, as the unwrapped form of that."""

    def __init__(self, function: object, steps: int) -> None:
        self.function, self.steps = function, steps

    def __reduce__(self) -> tuple[object, ...]:
        return unwrapped, (_at(self.function), self.steps)


def _below_its_name(x: object, pickler: _Pickler) -> object:
    if not isinstance(x, types.FunctionType) or pickler.sends(x):
        return x
    steps = _steps_to(x)
    return _Below(x, steps) if steps else x


def unwrapped(x: Any, steps: int) -> object:
    """The function below a number of wrappers."""
    for _ in range(steps):
        x = x.__wrapped__
    return x


def _named_parts(x: object) -> Iterator[object]:
    """The functions and classes in an argument that pickle would write by name."""
    if isinstance(x, (types.FunctionType, type)):
        yield x
    elif isinstance(x, types.MethodType):
        yield x.__self__ if isinstance(x.__self__, type) else type(x.__self__)
    elif isinstance(x, functools.partial):
        for part in (x.func, *x.args, *x.keywords.values()):
            yield from _named_parts(part)
    elif callable(x) and type(x).__reduce__ is object.__reduce__ and type(x) not in _REDUCERS:
        yield type(x)


_REDUCERS = copyreg.dispatch_table


# --- who pickles


class _Pickler(NamedTuple):
    by_name: bool  # functions are written by name, or not at all
    modules: frozenset[str] = frozenset()  # those whose functions it writes by value

    def sends(self, x: object) -> bool:
        """Whether a function is written by value, though its name may lead to it."""
        module: str = getattr(x, "__module__", None) or ""
        while module and module not in self.modules:
            module = module.rpartition(".")[0]
        return bool(module)


def _pickler() -> _Pickler:
    """What is known of the pickler that asks: the nearest frame that is not fgrad's is its own, if
    it is written in Python (cloudpickle, dill), or calls one that is not; `copy` needs no names."""
    frame = sys._getframe(1)
    while is_own_file(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    if frame.f_globals.get("__name__") == "copy":
        return _Pickler(False)
    pickler = frame.f_locals.get("self")
    if not isinstance(pickler, (pickle.Pickler, pickle._Pickler)):  # type: ignore[attr-defined]
        return _Pickler(True)
    plain = pickle._Pickler.save_global  # type: ignore[attr-defined]
    dispatch = getattr(pickler, "dispatch", {})
    by_value = hasattr(pickler, "reducer_override")
    by_value = by_value or dispatch.get(types.FunctionType, plain) is not plain
    return _Pickler(False, _modules_by_value(pickler)) if by_value else _Pickler(True)


def _modules_by_value(pickler: object) -> frozenset[str]:
    """Modules pickled by value: the script, and those registered with cloudpickle."""
    found = {"__main__"}
    for cls in type(pickler).__mro__:
        listed = getattr(sys.modules.get(cls.__module__), "list_registry_pickle_by_value", None)
        found |= listed() if listed is not None else set()
    return frozenset(found)


def _unpicklable(x: object, function: object) -> UnpicklableError:
    name = getattr(function, "__qualname__", "function")
    code = getattr(function, "__code__", None)
    place = f" in {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    kind = "class" if isinstance(function, type) else "function"
    return UnpicklableError(
        f"{label_of(x)} cannot be pickled: it is made of a {kind} that has no name elsewhere.",
        (
            ("value", f"{name}{place}"),
            ("why", f"pickle writes the name of a {kind}; the process that reads it imports the"),
            ("why", f"module and looks there: {function.__module__}.{name} is not found."),
            ("write", f"def or class at the top of a module, for {name}"),
            ("write", "cloudpickle.dumps(...), or joblib, which write functions by value"),
        ),
    )
