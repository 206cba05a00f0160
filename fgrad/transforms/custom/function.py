"""L4. What functions with rules of the user's have in common: their arguments, and where they run.

A call of such a function is one equation.  In a trace that is differentiated the user's rule runs
at once, beneath it, in place of the function; in a trace without values (`jit`, `vmap`) the
equation holds the function as a program, and the rule for later.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.source import Loc
from fgrad.errors import (
    ArgumentError,
    CustomRuleError,
    Row,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
    UnsupportedNumpyError,
)
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.order import Orders
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program, Var
from fgrad.ops.elementwise import convert
from fgrad.trace import Builder, Tracer, Value, innermost, lasting
from fgrad.tracing.readout import DIFFERENTIATING
from fgrad.transforms.core.arguments import refuse_edits, watched
from fgrad.transforms.core.closure_capture import Closed, tracers_of
from fgrad.transforms.core.outer_context import (
    HIDDEN,
    Beneath,
    Call,
    Traced,
    doubtful,
    evaluate_beneath,
    hiding,
    is_value,
    origin_of,
    present,
    trace_beneath,
)
from fgrad.transforms.core.wrap import as_value, check_callable, function_name, is_weak

KEYWORD_ONLY, VAR_KEYWORD = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
_UNTRACEABLE = (TracedArrayError, TracedBoolError, TracedIndexError, UnsupportedNumpyError)
_MOST_TYPES = 256  # kinds of arguments whose results are remembered

Known = tuple[tree.TreeDef, tuple[Aval, ...], Orders]  # of results


class Split(NamedTuple):
    """Arguments of a call: all in order, with the static ones, and the others as leaves."""

    statics: dict[int, Any]
    count: int
    values: list[Value]
    treedef: tree.TreeDef
    weak: list[bool]

    def whole(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments in order, with other leaves."""
        return merged(self.statics, tree.unflatten(self.treedef, leaves), self.count)


def merged(statics: dict[int, Any], rest: Sequence[Any], count: int) -> list[Any]:
    """The static arguments and the others in order."""
    others = iter(rest)
    return [statics[k] if k in statics else next(others) for k in range(count)]


class CustomFunction:
    """A function with rules: calls with keywords are put into order, static arguments apart."""

    what = "custom"

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        check_callable(fun, self.what)
        self.fun = fun
        self.name = function_name(fun)
        self.__name__ = self.name
        self.__doc__ = fun.__doc__
        self.__wrapped__ = fun
        try:
            self.signature: inspect.Signature | None = inspect.signature(fun)
        except (TypeError, ValueError):
            self.signature = None
        self.arity = _arity(self.signature)
        self.nondiff = _positions(self, nondiff_argnums, nondiff_argnames)
        self.types: dict[Any, Known] = {}

    def __repr__(self) -> str:
        return f"<{self.what} of {self.name}>"

    @hides_own_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Split:
        """The arguments of a call, checked."""
        ordered = self._ordered(args, kwargs)
        where = [k % len(ordered) if k < len(ordered) else k for k in self.nondiff]
        statics = {k: ordered[k] for k in where if k < len(ordered)}
        rest = tuple([x for k, x in enumerate(ordered) if k not in statics])
        leaves, treedef = tree.flatten(rest)
        values = []
        for k, x in enumerate(leaves):
            if not isinstance(x, (Tracer, float, int, complex)) and not hasattr(x, "__array__"):
                raise self._not_an_array(x, k, treedef, statics, len(ordered))
            values.append(as_value(x, f"an argument of {self.name}"))
        return Split(statics, len(ordered), values, treedef, [is_weak(x) for x in leaves])

    def _ordered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
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

    def leaf_name(self, k: int, treedef: tree.TreeDef, statics: dict[int, Any], count: int) -> str:
        """The name of a leaf of the arguments that are not static: `'x'['w']`."""
        path = tree.paths(tree.unflatten(treedef, range(treedef.num_leaves)))[k]
        head, _, rest = path[1:].partition("]")
        positions = [p for p in range(count) if p not in statics]
        return self.parameter(positions[int(head)]) + rest

    def _not_an_array(
        self, x: Any, k: int, treedef: tree.TreeDef, statics: dict[int, Any], count: int
    ) -> CustomRuleError:
        name = self.leaf_name(k, treedef, statics, count)
        return CustomRuleError(
            f"The argument {name} of {self.what} {self.name} is not an array of numbers.",
            (
                ("value", f"it is a {type(x).__name__}"),
                line_of(self.fun, "defined"),
                ("why", "rules get derivatives of all arguments that are not marked as static."),
                ("write", f"{self.what}({self.name}, nondiff_argnames=({name.split('[')[0]},))"),
            ),
        )

    def reached(self) -> list[Any]:
        """The user's functions."""
        return [x for x in vars(self).values() if callable(x)]

    def remember(self, key: Any, found: Known) -> None:
        """Keep the type of a result."""
        if len(self.types) >= _MOST_TYPES:
            self.types.clear()
        self.types[key] = found


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


def line_of(fun: Callable[..., Any], label: str) -> Row:
    """Where a user's function is written."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is None:
        return label, function_name(fun)
    loc = Loc(code.co_filename, code.co_firstlineno, code.co_name)
    while loc.text().startswith("@"):
        loc = loc._replace(line=loc.line + 1)
    return label, f"{loc}:  {loc.text()}"


def described(x: Any) -> str:
    """What a rule returned instead of a tuple."""
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    return f"one array, {aval_of(x).strong()}" if is_value(x) else f"a {type(x).__name__}"


def called(rule: Callable[..., Any], what: str, takes: str, *args: Any) -> Any:
    """The result of a user's rule; a card if it does not take these arguments."""
    try:
        return rule(*args)
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


class Rules(Call):
    """The rules for one call; the equation's operands are `n_captured` values that the function and
    its rules close over, then the leaves of its arguments."""

    name = "custom"
    n_captured = 0
    closed: Sequence[Closed] = ()
    origins: Sequence[str] = ()  # of the operands that the function itself closes over
    out_tree: Any = None
    expected: tuple[Aval, ...] | None = None
    orders: Orders | None = None  # which results lie in C order; None if that is not known
    weak: Sequence[bool] = ()
    differentiates = True  # whether they give the derivative, and not only the form for a batch

    def primal(self, *inputs: Value) -> Any:
        """The function itself."""
        raise NotImplementedError

    @property
    def rule_line(self) -> Row:
        """Where the user's rule is written."""
        raise NotImplementedError


class UserRules(Rules):
    """The rules for a call of the user's function."""

    def __init__(self, owner: CustomFunction, split: Split) -> None:
        self.owner = owner
        self.name = owner.name
        self.split = split._replace(values=[])
        self.weak = split.weak

    def primal(self, *inputs: Value) -> Any:
        """The function itself."""
        rest = tree.unflatten(self.split.treedef, inputs)
        watch = watched(rest)
        out = self.owner.fun(*merged(self.split.statics, rest, self.split.count))
        refuse_edits(self.name, watch, out)
        return out

    def with_types(self, values: Sequence[Value]) -> None:
        """Find the type of the result, which rules are checked against: the function is traced
        once for each kind of arguments."""
        key = self._key(values)
        found = None if key is None else self.owner.types.get(key)
        if found is None:
            try:
                traced = trace_beneath(
                    self.primal, values, self.name, "custom", self.weak, ruled=True
                )
            except _UNTRACEABLE:
                return  # the rule may do without values all the same
            self.seen(values, traced)
        else:
            self.out_tree, self.expected, self.orders = found

    def seen(self, values: Sequence[Value], traced: Traced) -> None:
        """Take the type of the result from a trace."""
        self.out_tree = traced.treedef
        self.expected = tuple([a.strong() for a in traced.program.out_avals])
        self.orders = traced.orders
        key = self._key(values)
        if key is not None:
            self.owner.remember(key, (self.out_tree, self.expected, self.orders))

    def _key(self, values: Sequence[Value]) -> Any:
        statics = tuple(self.split.statics.items())
        key = (self.split.treedef, tuple([aval_of(x) for x in values]), *self.weak, statics)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def leaf_name(self, k: int) -> str:
        """The name of an operand, for messages."""
        return self.owner.leaf_name(k, self.split.treedef, self.split.statics, self.split.count)


def apply(prim: Primitive, rules: UserRules, values: Sequence[Value]) -> list[Any]:
    """The results of a call, as one equation of each trace that it belongs to."""
    values = [lasting(x) for x in values]
    tracers = [x for x in values if type(x) is Tracer]
    if not tracers:
        return _plain(prim, rules, values)
    (builder,) = _innermost(tracers)
    own = [x for x in tracers if x.builder is builder]
    if within(builder):
        return _by_program(prim, rules, values)
    known = builder.eager and all([x.value is not None for x in own])
    if known and builder.what in DIFFERENTIATING:
        with hiding(builder):
            rules.with_types([beneath(x, builder) for x in values])
            return list(builder.record(prim, values, {"program": None, "rules": rules}))
    abstract = isinstance(builder, Beneath) and builder.abstract
    if known and builder.what != "vmap" and not abstract:
        with hiding(builder):
            return apply(prim, rules, [beneath(x, builder) for x in values])
    return _by_program(prim, rules, values)


def _innermost(values: Sequence[Value]) -> list[Builder]:
    """The trace that records an equation of these operands, if there is one."""
    builders = [x.builder for x in values if type(x) is Tracer]
    return [max(builders, key=lambda b: b.level)] if builders else []


def within(builder: Builder) -> bool:
    """Whether a trace inside of this one is open, whose values a function may close over."""
    inner = innermost()
    while inner is not None and inner in HIDDEN.builders:
        inner = inner._outer
    return inner is not None and inner.level > builder.level


def beneath(x: Value, builder: Any) -> Value:
    """A value in the context that encloses a trace."""
    return x.value if type(x) is Tracer and x.builder is builder else x


def _plain(prim: Primitive, rules: UserRules, values: Sequence[Value]) -> list[Any]:
    """No argument is traced; the function may close over a traced value all the same."""
    found = evaluate_beneath(rules.primal, values, rules.name, rules.weak, whole=True)
    rules.out_tree = found.treedef
    if innermost() is not None and any([type(x) is Tracer for x in found.leaves]):
        return _by_program(prim, rules, values)
    pairs = zip(found.leaves, found.orders, strict=True)
    return [x if in_order else doubtful(x) for x, in_order in pairs]


def _by_program(prim: Primitive, rules: UserRules, values: Sequence[Value]) -> list[Any]:
    found = recorded(rules, values, "custom")
    operands = [*found.captured, *values]
    with hiding(*_innermost(operands)):
        return rules.bound(found.results, prim, operands, program=found.program, rules=rules)


class Recorded(NamedTuple):
    """The function as a program, what it and its rules close over, which are the first operands,
    and its results if all are known."""

    program: Program
    captured: list[Value]
    results: list[Any] | None


def recorded(rules: UserRules, values: Sequence[Value], what: str) -> Recorded:
    """Trace the function of a call."""
    ruled = rules.differentiates
    traced = trace_beneath(rules.primal, values, rules.name, what, rules.weak, ruled=ruled)
    rules.seen(values, traced)
    program, captured, closed = traced.program, list(traced.captured), list(traced.closed)
    rules.origins = [origin_of(handle) for handle, _ in closed]
    for x in tracers_of([*rules.owner.reached(), *rules.split.statics.values()]):
        value = present(x)
        if value is not None and all([handle is not x for handle, _ in closed]):
            closed.append(Closed(x, len(captured)))
            captured.append(value)
    extra = [Var(aval_of(x).strong()) for x in captured[len(traced.captured) :]]
    if extra:
        inputs, n = program.inputs, len(traced.captured)
        program = program.replace(inputs=(*inputs[:n], *extra, *inputs[n:]))
    rules.closed, rules.n_captured = closed, len(captured)
    return Recorded(program, captured, traced.results)


def prefixed(given: Any, whole: Any) -> list[Any] | None:
    """The leaves of a tree, None for those of `whole` below a None; None if they do not fit."""
    leaves, treedef = tree.flatten(given)
    if treedef == tree.structure(whole):
        return leaves
    marked = tree.map(lambda x: _ZERO if x is None else x, given, is_leaf=lambda x: x is None)
    try:
        found = tree.broadcast_prefix(marked, whole, none_is_leaf=False)
    except (ValueError, TypeError):
        return None
    paths = [path for path, x in zip(tree.paths(whole), found, strict=True) if x is not _ZERO]
    return [None if x is _ZERO else x for x in found] if paths == tree.paths(given) else None


_ZERO = object()  # a None as a leaf; in `whole` None is an empty tree


def fitted(x: Any, aval: Aval, refuse: Callable[[str], CustomRuleError], what: str) -> Value | None:
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
