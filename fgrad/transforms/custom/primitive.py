"""L4. Primitives that users define: an operation in NumPy, and the rules that it has.

    @fgrad.primitive(out=lambda x: x)          evaluation, and the type of the result
    def cube(x): return x * x * x
    @cube.def_jvp                              derivative; likewise def_transpose, def_batch

Compiled code calls the NumPy function, unless `def_composition` says what it consists of.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import overload
from weakref import WeakValueDictionary

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.pickling import Recipe, reduced, take_names
from fgrad.errors import ArgumentError, CustomRuleError, MissingRuleError
from fgrad.ir import traits
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import REGISTRY, Primitive
from fgrad.ir.program import Program
from fgrad.ir.traits import Host
from fgrad.ops.families import batch_first, zeros_like
from fgrad.ops.shape import index, move_axis
from fgrad.trace import Value, bind, run, trace
from fgrad.tracing.capturing import user_form
from fgrad.transforms.control.chunks import cut, map_chunks
from fgrad.transforms.core.batching import example_aval
from fgrad.transforms.core.derived_programs import batched_program
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.core.shapes import ShapeDtype
from fgrad.transforms.core.wrap import as_value, function_name
from fgrad.transforms.custom.function import fitted, line_of
from fgrad.typing import PyTree, Rule

Values = Sequence[Value]
Maybe = Sequence[Value | None]  # None for a known zero


class Settings:
    """The static arguments of a call, and whose they are: code with them is not kept on disk."""

    def __init__(self, owner: CustomPrimitive, values: dict[str, PyTree]) -> None:
        self.owner, self.values = owner, values
        self.key = (id(owner), tuple(sorted(values.items())))
        hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[object, ...]:
        return Settings, (self.owner, self.values)


class CustomPrimitive:
    """An operation with rules; call it like a function of arrays, settings by keyword."""

    def __init__(
        self, evaluate: Callable[..., PyTree], name: str, out: Callable[..., PyTree]
    ) -> None:
        take_names(self, evaluate)
        self.name = self.__name__ = name
        self.mark = os.urandom(16)  # the same in all processes that it was sent to
        self.evaluate, self.out = evaluate, out
        self.jvp_rule: Callable[..., PyTree] | None = None
        self.transpose_rule: Callable[..., PyTree] | None = None
        self.linear_in: tuple[int, ...] = ()
        self.batch_rule: Callable[..., PyTree] | None = None
        self.composition: Callable[..., PyTree] | None = None
        self.prim = _primitive_of(self)
        _SENT[self.mark] = self

    def __reduce__(self) -> str | tuple[object, ...]:
        kept = {k: x for k, x in vars(self).items() if k not in ("prim", "__wrapped__")}
        return reduced(self, Recipe(_with_rules, (), kept))

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *operands: Value, **settings: object) -> PyTree:
        values = [as_value(x, f"an operand of {self.name}") for x in operands]
        try:
            params = Settings(self, settings)
        except TypeError:
            raise ArgumentError(
                f"primitive {self.name}: its settings must be hashable.",
                (("write", "tuples for lists; arrays are operands"),),
            ) from None
        outs = bind(self.prim, *values, settings=params)
        return outs[0] if self.single(values, settings) else tuple(outs)

    def single(self, values: Values, settings: dict[str, PyTree]) -> bool:
        """Whether there is one result, not a tuple."""
        return not isinstance(self._type([aval_of(x) for x in values], settings), tuple)

    def _type(self, avals: Sequence[Aval], settings: dict[str, PyTree]) -> PyTree:
        return self.out(*[a.strong() for a in avals], **settings)

    def avals(self, avals: Sequence[Aval], settings: dict[str, PyTree]) -> tuple[Aval, ...]:
        """The types of the results."""
        found = self._type(avals, settings)
        outs = _several(found)
        for y in outs:
            if not hasattr(y, "shape") or not hasattr(y, "dtype"):
                raise CustomRuleError(
                    f"The type rule of the primitive {self.name} must return shapes and dtypes.",
                    (
                        ("found", f"a {type(y).__name__}"),
                        line_of(self.out, "rule"),
                        ("write", "fgrad.ShapeDtype(shape, dtype), or one of its arguments"),
                    ),
                )
        return tuple([Aval(tuple(y.shape), np.dtype(y.dtype)) for y in outs])

    # Rules.

    def def_jvp(self, rule: Rule) -> Rule:
        """Set the derivative: `rule(primals, tangents, out, **settings)` gives the tangent of the
        result, or a tuple of them; a known-zero tangent is None, both ways."""
        self.jvp_rule = rule
        return rule

    @overload
    def def_transpose(self, rule: Rule, linear_in: Sequence[int] = ...) -> Rule: ...
    @overload
    def def_transpose(
        self, rule: None = None, linear_in: Sequence[int] = ...
    ) -> Callable[[Rule], Rule]: ...
    def def_transpose(
        self, rule: Callable[..., PyTree] | None = None, linear_in: Sequence[int] = (0,)
    ) -> PyTree:
        """Set the transpose of an operation that is linear in some operands, jointly:
        `rule(ct, *operands, **settings)` gives a tuple with a cotangent for each operand, or None.
        The values of the operands it is linear in are not known, only their shapes and dtypes."""
        if rule is None:
            return functools.partial(self.def_transpose, linear_in=linear_in)
        self.transpose_rule, self.linear_in = rule, tuple(linear_in)
        return rule

    def def_batch(self, rule: Rule) -> Rule:
        """Set the batching rule: `rule(size, operands, dims, **settings)` gives the result and its
        batched axis; `dims` are those of the operands, None where one is not batched.  Without
        this rule examples are computed one after the other."""
        self.batch_rule = rule
        return rule

    def def_composition(self, fun: Rule) -> Rule:
        """Set what compiled code runs: `fun(*operands, **settings)` in terms of traced functions.
        It also gives the derivative and the batching rule, if these are not set."""
        self.composition = fun

        def composition(avals: Sequence[Aval], settings: Settings) -> Program:
            return self.composed(avals, settings.values)

        self.prim.composition = composition
        return fun

    def composed(self, avals: Sequence[Aval], settings: dict[str, PyTree]) -> Program:
        """The composition as a program."""
        fun = self.composition
        assert fun is not None

        def flat(*xs: Value) -> list[Value]:
            return [as_value(y) for y in tree.leaves(user_form(fun)(*xs, **settings))]

        return trace(flat, [a.strong() for a in avals], self.name, "primitive").program

    def checked(self, results: PyTree, avals: Sequence[Aval]) -> tuple[Value, ...]:
        """Results of the evaluation, which must be of the type that was promised."""
        outs = results if is_tuple_like(results) else (results,)
        arrays: list[np.ndarray] = [np.asarray(y) for y in outs]
        for y, aval in zip(arrays, avals, strict=False):
            if (y.shape, y.dtype) != (aval.shape, aval.dtype) or len(arrays) != len(avals):
                raise CustomRuleError(
                    f"The primitive {self.name} gave a result of another type than it promised.",
                    (
                        ("found", ", ".join(f"{z.dtype}{z.shape}" for z in arrays)),
                        ("type", ", ".join(map(str, avals))),
                        line_of(self.evaluate, "defined"),
                        line_of(self.out, "out"),
                    ),
                )
        return tuple([y if y.ndim else y[()] for y in arrays])


_SENT: WeakValueDictionary[bytes, CustomPrimitive] = WeakValueDictionary()


def _with_rules(**kept: PyTree) -> CustomPrimitive:
    """The primitive that another process has sent, once."""
    found = _SENT.get(kept["mark"])
    if found is None:
        found = CustomPrimitive(kept["evaluate"], kept["name"], kept["out"])
        found.__dict__.update(kept)
        _SENT[found.mark] = found
    return found


@overload
def primitive(
    evaluate: Callable[..., PyTree], *, out: Callable[..., PyTree], name: str | None = None
) -> CustomPrimitive: ...
@overload
def primitive(
    evaluate: None = None, *, out: Callable[..., PyTree], name: str | None = None
) -> Callable[[Callable[..., PyTree]], CustomPrimitive]: ...
@also_takes()
def primitive(
    evaluate: Callable[..., PyTree] | None = None,
    *,
    out: Callable[..., PyTree],
    name: str | None = None,
) -> PyTree:
    """An operation of your own, with its rules.

    Arguments:
        evaluate: a function of NumPy arrays, with settings as keywords; compiled code calls it.
        out: the type rule: a function of anything with `shape` and `dtype` for each operand, and
            the settings, that returns such a thing for the result, or a tuple of them.
        name: the name in printed programs; by default the function's.

    Returns:
        A function with methods `def_jvp`, `def_transpose`, `def_batch` and `def_composition`.

    Raises:
        CustomRuleError: if a rule's result does not fit.
        MissingRuleError: where a transform needs a rule that was not given.

    Example:
        >>> import numpy as np, fgrad
        >>> @fgrad.primitive(out=lambda x: x)
        ... def cube(x):
        ...     return x * x * x
        >>> @cube.def_jvp
        ... def cube_jvp(primals, tangents, out):
        ...     return 3.0 * primals[0] ** 2 * tangents[0]
        >>> fgrad.jit(fgrad.grad(lambda x: np.sum(cube(x))))(np.array([1.0, 2.0]))
        array([ 3., 12.])
    """
    if evaluate is None:
        return functools.partial(primitive, out=out, name=name)
    return CustomPrimitive(evaluate, name or function_name(evaluate), out)


def _primitive_of(owner: CustomPrimitive) -> Primitive:
    """The primitive of the IR, under a name that neither fgrad nor another one has."""
    names = (f"custom.{owner.name}_{k}" if k else f"custom.{owner.name}" for k in itertools.count())
    name = next(n for n in names if n not in REGISTRY)

    def linear_in(_params: object) -> tuple[int, ...] | None:
        return owner.linear_in or None

    prim = Primitive(
        name,
        traits.calling(Host.CUSTOM),
        params=("settings",),
        linear_in=linear_in,
        multiple=True,
    )
    prim.owner = owner

    @prim.type_rule
    def _(*avals: Aval, settings: Settings) -> tuple[Aval, ...]:
        return owner.avals(avals, settings.values)

    @prim.evaluate
    def _(*operands: Value, settings: Settings) -> tuple[Value, ...]:
        avals = owner.avals([aval_of(x) for x in operands], settings.values)
        return owner.checked(owner.evaluate(*operands, **settings.values), avals)

    @prim.jvp
    def _(
        primals: Values, tangents: Maybe, outs: Values, settings: Settings
    ) -> tuple[Value | None, ...]:
        return _push(owner, primals, tangents, outs, settings.values)

    @prim.transpose
    def _(cts: Maybe, wanted: Sequence[bool], *operands: Value, settings: Settings) -> Maybe:
        return _pull(owner, cts, wanted, operands, settings.values)

    @prim.batch
    def _(
        size: int, operands: Values, dims: Sequence[int | None], settings: Settings
    ) -> tuple[Sequence[PyTree], Sequence[PyTree]]:
        return _batch(owner, prim, size, operands, dims, settings)

    return prim


def _several(found: PyTree) -> Sequence[PyTree]:
    return found if is_tuple_like(found) else (found,)


def _missing(owner: CustomPrimitive, what: str, method: str) -> MissingRuleError:
    return MissingRuleError(
        f"There is no {what} of the primitive {owner.name!r}.",
        (
            line_of(owner.evaluate, "defined"),
            ("write", f"@{owner.name}.{method}"),
            ("write", f"@{owner.name}.def_composition    what it consists of"),
        ),
    )


def _push(
    owner: CustomPrimitive,
    primals: Values,
    tangents: Sequence[Value | None],
    outs: Values,
    settings: dict[str, PyTree],
) -> tuple[Value | None, ...]:
    avals = [aval_of(y).strong() for y in outs]
    if owner.jvp_rule is None:
        if owner.composition is not None:
            return _push_composed(owner, primals, tangents, settings)
        known = [t is None or k in owner.linear_in for k, t in enumerate(tangents)]
        if owner.transpose_rule is None or not all(known):
            raise _missing(owner, "derivative", "def_jvp")
        given = [
            (zeros_like(x) if t is None else t) if k in owner.linear_in else x
            for k, (x, t) in enumerate(zip(primals, tangents, strict=True))
        ]
        found = bind(owner.prim, *given, settings=Settings(owner, settings))
        return tuple(found)
    out = outs[0] if owner.single(primals, settings) else tuple(outs)
    found = user_form(owner.jvp_rule)(tuple(primals), tuple(tangents), out, **settings)
    parts = found if is_tuple_like(found) else (found,)
    if len(parts) != len(outs):
        raise _misfit(
            owner.jvp_rule, owner, "jvp", f"{len(parts)} tangents, for {len(outs)} results"
        )
    return tuple(
        [
            fitted(t, a, lambda text: _misfit(owner.jvp_rule, owner, "jvp", text), "a tangent")
            for t, a in zip(parts, avals, strict=True)
        ]
    )


def _misfit(
    rule: Callable[..., PyTree] | None, owner: CustomPrimitive, what: str, found: str
) -> CustomRuleError:
    assert rule is not None
    return CustomRuleError(
        f"The {what} rule of the primitive {owner.name} does not fit.",
        (("found", found), line_of(rule, "rule")),
    )


def _push_composed(
    owner: CustomPrimitive,
    primals: Values,
    tangents: Sequence[Value | None],
    settings: dict[str, PyTree],
) -> tuple[Value | None, ...]:
    fun = owner.composition
    assert fun is not None
    where = [k for k, t in enumerate(tangents) if t is not None]

    def restricted(*xs: Value) -> PyTree:
        given = list(primals)
        for k, x in zip(where, xs, strict=True):
            given[k] = x
        return tuple(tree.leaves(user_form(fun)(*given, **settings)))

    moved = tuple([tangents[k] for k in where])
    return jvp(restricted, tuple([primals[k] for k in where]), moved)[1]


def _pull(
    owner: CustomPrimitive,
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    operands: Values,
    settings: dict[str, PyTree],
) -> Sequence[Value | None]:
    rule = owner.transpose_rule
    if rule is None:
        raise _missing(owner, "transpose", "def_transpose")
    avals = owner.avals([aval_of(x) for x in operands], settings)
    filled = [zeros_like(a) if ct is None else ct for ct, a in zip(cts, avals, strict=True)]
    ct = filled[0] if owner.single(operands, settings) else tuple(filled)
    given = [
        ShapeDtype(aval_of(x).shape, aval_of(x).dtype) if k in owner.linear_in else x
        for k, x in enumerate(operands)
    ]
    found = rule(ct, *given, **settings)
    parts = found if is_tuple_like(found) or is_list(found) else (found,)
    if len(parts) != len(operands):
        text = f"{len(parts)} cotangents, for {len(operands)} operands"
        raise _misfit(rule, owner, "transpose", text)
    return [
        fitted(p, aval_of(x), lambda text: _misfit(rule, owner, "transpose", text), "a cotangent")
        if w
        else None
        for p, x, w in zip(parts, operands, wanted, strict=True)
    ]


def _batch(
    owner: CustomPrimitive,
    prim: Primitive,
    size: int,
    operands: Values,
    dims: Sequence[int | None],
    settings: Settings,
) -> tuple[Sequence[PyTree], Sequence[PyTree]]:
    values = settings.values
    if owner.batch_rule is not None:
        out, dim = owner.batch_rule(size, tuple(operands), tuple(dims), **values)
        return (tuple(out), dim) if is_tuple_like(out) else ((out,), (dim,))
    inner = [
        aval_of(x) if d is None else example_aval(aval_of(x), d)
        for x, d in zip(operands, dims, strict=True)
    ]
    if owner.composition is not None:
        derived = batched_program(owner.composed(inner, values), size, tuple(dims))
        return tuple(run(derived.program, operands)), derived.dims
    batched = [move_axis(x, d, 0) for x, d in zip(operands, dims, strict=True) if d is not None]

    def one(blocks: Values) -> list[Value]:
        each = iter(blocks)
        given = [
            x if d is None else index(next(each), (0,)) for x, d in zip(operands, dims, strict=True)
        ]
        outs = bind(prim, *given, settings=settings)
        return [batch_first(1, y, None) for y in outs]

    found = map_chunks(one, batched, cut(size, 1, owner.name))
    return tuple(found), (0,) * len(found)
