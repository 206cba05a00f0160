"""L4. Check arguments and results of functions with custom rules, and of the rules."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Recipe, reduced, take_names
from fgrad.base.source import Loc
from fgrad.errors import ArgumentError, CustomRuleError, Row
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.order import Orders
from fgrad.ops.elementwise import convert
from fgrad.trace import Tracer, Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.closure_capture import settled
from fgrad.transforms.core.outer_context import is_value
from fgrad.transforms.core.wrap import as_value, check_callable, function_name, is_weak
from fgrad.typing import PyTree

KEYWORD_ONLY, VAR_KEYWORD = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
_MOST_TYPES = 256  # kinds of arguments whose results are remembered

Known = tuple[tree.TreeDef, tuple[Aval, ...], Orders]  # of results


class Split(NamedTuple):
    """Arguments of a call: all in order, with the static ones, and the others as leaves."""

    statics: dict[int, PyTree]
    total: int
    values: list[Value]
    treedef: tree.TreeDef
    weak: list[bool]

    def whole(self, leaves: Sequence[object]) -> list[PyTree]:
        """All arguments in order, with other leaves."""
        return merged(self.statics, tree.unflatten(self.treedef, leaves), self.total)


def merged(statics: dict[int, PyTree], rest: Iterable[PyTree], count: int) -> list[PyTree]:
    """The static arguments and the others in order."""
    others = iter(rest)
    return [statics[k] if k in statics else next(others) for k in range(count)]


class CustomFunction:
    """A function with rules: calls with keywords are put into order, static arguments apart."""

    what = "custom"
    __name__: str
    recipe: Recipe | None = None  # the call that made it, if that set the rules too

    def __init__(
        self,
        fun: Callable[..., PyTree],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        check_callable(fun, self.what)
        self.fun = fun
        self.name = function_name(fun)
        take_names(self, fun)
        self.__dict__.setdefault("__name__", self.name)
        self.signature = _signature(fun)
        self.arity = _arity(self.signature)
        self.nondiff = _positions(self, nondiff_argnums, nondiff_argnames)
        self.types: dict[object, Known] = {}

    def __repr__(self) -> str:
        return f"<{self.what} of {self.name}>"

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Call the function."""
        raise NotImplementedError

    def __reduce__(self) -> str | tuple[object, ...]:
        kept = {k: x for k, x in vars(self).items() if k not in _MADE_ANEW}
        return reduced(self, self.recipe or Recipe(_with_rules, (type(self),), kept))

    def __get__(self, instance: object, owner: type | None = None) -> PyTree:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def functions(self) -> list[Callable[..., PyTree]]:
        """The function and its rules."""
        return [x for x in vars(self).values() if callable(x)]

    def arguments(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Split:
        """The arguments of a call, checked."""
        ordered = self._ordered(args, kwargs)
        where = [k % len(ordered) if k < len(ordered) else k for k in self.nondiff]
        statics = {k: ordered[k] for k in where if k < len(ordered)}
        rest = tuple([x for k, x in enumerate(ordered) if k not in statics])
        leaves, treedef = tree.flatten(rest)
        values: list[Value] = []
        for k, x in enumerate(leaves):
            if not isinstance(x, (Tracer, float, int, complex)) and not hasattr(x, "__array__"):
                raise self._not_an_array(x, k, treedef, statics, len(ordered))
            values.append(as_value(x, f"an argument of {self.name}"))
        return Split(statics, len(ordered), values, treedef, [is_weak(x) for x in leaves])

    def _ordered(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> tuple[Value, ...]:
        """All arguments by position, with defaults."""
        if self.signature is None or (not kwargs and len(args) == self.arity):
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.what} {self.name}: {error}.") from None
        kinds = self.signature.parameters
        keyword = [n for n in bound.arguments if kinds[n].kind in (KEYWORD_ONLY, VAR_KEYWORD)]
        bound.apply_defaults()
        if keyword:
            names = ", ".join(keyword)
            raise ArgumentError(
                f"{self.what} {self.name}: the argument {names} can only be given by keyword.",
                (
                    ("why", "rules take all arguments by position."),
                    ("write", "a parameter without * before it; nondiff_argnames=... for settings"),
                ),
            )
        return bound.args

    def parameter(self, position: int) -> str:
        """The name of a parameter."""
        if self.signature is None:
            return f"argument {position}"
        names = list(self.signature.parameters)
        return repr(names[position]) if position < len(names) else f"argument {position}"

    def leaf_name(
        self, k: int, treedef: tree.TreeDef, statics: dict[int, PyTree], count: int
    ) -> str:
        """The name of a leaf of the arguments that are not static: `'x'['w']`."""
        path = tree.paths(tree.unflatten(treedef, range(treedef.num_leaves)))[k]
        head, _, rest = path[1:].partition("]")
        positions = [p for p in range(count) if p not in statics]
        return self.parameter(positions[int(head)]) + rest

    def _not_an_array(
        self, x: object, k: int, treedef: tree.TreeDef, statics: dict[int, PyTree], count: int
    ) -> CustomRuleError:
        name = self.leaf_name(k, treedef, statics, count)
        return CustomRuleError(
            f"The argument {name} of {self.what} {self.name} is not an array of numbers.",
            (
                ("value", f"it is a {type(x).__name__}"),
                line_of(self.fun, "defined"),
                ("why", "rules get derivatives of all arguments that are not static."),
                ("write", f"{self.what}({self.name}, nondiff_argnames=({name.split('[')[0]},))"),
            ),
        )

    def remember(self, key: object, found: Known) -> None:
        """Keep the type of a result."""
        if len(self.types) >= _MOST_TYPES:
            self.types.clear()
        self.types[key] = found


_MADE_ANEW = frozenset({"recipe", "signature", "types"})


def _with_rules(kind: type[CustomFunction], **kept: PyTree) -> CustomFunction:
    """A function with the rules that another one has."""
    made = kind.__new__(kind)
    made.__dict__.update(kept, signature=_signature(kept["fun"]), types={})
    return made


def _signature(fun: Callable[..., PyTree]) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def _arity(signature: inspect.Signature | None) -> int | None:
    """The number of positional parameters, if it is fixed."""
    kinds = [] if signature is None else [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    return len([k for k in kinds if k not in (KEYWORD_ONLY, VAR_KEYWORD)])


def _positions(
    function: CustomFunction, argnums: int | Sequence[int], argnames: str | Sequence[str]
) -> tuple[int, ...]:
    nums = [argnums] if isinstance(argnums, int) else list(argnums)
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    parameters = list(function.signature.parameters) if function.signature else []
    for name in names:
        if name not in parameters:
            raise ArgumentError(
                f"{function.what} {function.name}: nondiff_argnames={name!r}, but its arguments "
                f"are {', '.join(parameters)}."
            )
        nums.append(parameters.index(name))
    return tuple(dict.fromkeys([int(k) for k in nums]))


def line_of(fun: Callable[..., PyTree], label: str) -> Row:
    """Where a user's function is written."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is None:
        return label, function_name(fun)
    loc = Loc(code.co_filename, code.co_firstlineno, code.co_name)
    while loc.text().startswith("@"):
        loc = loc._replace(line=loc.line + 1)
    return label, f"{loc}:  {loc.text()}"


def described(x: object) -> str:
    """What a rule returned instead of a tuple."""
    if is_tuple_like(x) or is_list(x):
        return f"a {type(x).__name__} of {len(x)}"
    return f"one array, {aval_of(x).strong()}" if is_value(x) else f"a {type(x).__name__}"


def called(rule: Callable[..., PyTree], what: str, takes: str, *args: PyTree) -> PyTree:
    """The result of a user's rule; a card if it does not take these arguments."""
    try:
        return settled(user_form(rule)(*args))
    except TypeError:
        try:
            inspect.signature(rule).bind(*args)
        except TypeError as error:
            raise CustomRuleError(
                f"{what} does not take its arguments: {error}.",
                (line_of(rule, "rule"), ("write", takes)),
            ) from None
        except ValueError:
            pass
        raise


def prefixed(given: PyTree, whole: PyTree) -> list[PyTree] | None:
    """The leaves of a tree, None for those of `whole` below a None; None if they do not fit."""
    leaves, treedef = tree.flatten(given)
    if treedef == tree.structure(whole):
        return leaves
    marked = tree.map(_marked, given, is_leaf=_is_none)
    try:
        found = tree.broadcast_prefix(marked, whole, none_is_leaf=False)
    except (ValueError, TypeError):
        return None
    paths = [path for path, x in zip(tree.paths(whole), found, strict=True) if x is not _ZERO]
    return [None if x is _ZERO else x for x in found] if paths == tree.paths(given) else None


def _marked(x: PyTree) -> PyTree:
    return _ZERO if x is None else x


def _is_none(x: object) -> bool:
    return x is None


_ZERO = object()  # a None as a leaf; in `whole` None is an empty tree


def fitted(
    x: object, aval: Aval, refuse: Callable[[str], CustomRuleError], what: str
) -> Value | None:
    """A derivative of a value: None where that is discrete, else checked; weak ones convert."""
    if x is None or aval.dtype.kind not in "fc":
        return None
    value = as_value(x, what)
    found = aval_of(value)
    if found.shape != aval.shape:
        raise refuse(f"{found.strong()}, but the value is {aval.strong()}")
    if found.dtype != aval.dtype:
        weak = is_weak(x) and np.result_type(found.dtype, aval.dtype) == aval.dtype
        if not weak:
            raise refuse(f"{found.strong()}, but the value is {aval.strong()}")
        value = convert(value, aval.dtype)
    return value
