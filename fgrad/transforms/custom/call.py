"""L4. Calls of functions with rules of the user's: one primitive, which holds the function as a
program, and the rules for it.

    z = custom_call[program, rules] c, y     c: what they close over; y: leaves of the arguments

In a trace that is differentiated the user's rule runs at once, beneath it, in place of the
function, and there is no program; in a trace without values (`jit`, `vmap`) the equation holds the
function as a program, and the rule for later.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Generic, TypeVar

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import (
    CustomRuleError,
    Row,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
    UnsupportedNumpyError,
)
from fgrad.ir import traits
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.order import Orders
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program, Var
from fgrad.ir.traits import Holds
from fgrad.ops.families import batch_first
from fgrad.ops.selected import Tangent
from fgrad.ops.shape import index
from fgrad.trace import Builder, Tracer, Value, bind, innermost, lasting
from fgrad.tracing.axes import varies
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower
from fgrad.tracing.readout import DIFFERENTIATING
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.arguments import refuse_edits, watched
from fgrad.transforms.core.closure_capture import Variable, closing, may_close, variables_of
from fgrad.transforms.core.outer_context import (
    HIDDEN,
    Beneath,
    Call,
    Traced,
    batched_first,
    closure_card,
    derivatives,
    doubtful,
    evaluate_beneath,
    hiding,
    origin_of,
    trace_beneath,
)
from fgrad.transforms.custom.function import CustomFunction, Split, line_of, merged
from fgrad.typing import EqnParams, PyTree

custom_call_p = Primitive(
    "custom_call", traits.holding(Holds.CALL), params=("program", "rules"), multiple=True
)

_UNTRACEABLE = (TracedArrayError, TracedBoolError, TracedIndexError, UnsupportedNumpyError)

DEEPEST = 2  # rules of one code that are tried inside of each other

Values = Sequence[Value]
Pushed = Sequence[Tangent]
Inner = TypeVar("Inner", bound="Rules")


class Batch(NamedTuple):
    """What a call is batched along.

    `operands` and `results` say which may differ between examples: all, but for those that are the
    same along an axis with a name, which have one value and one cotangent.
    """

    size: int
    dims: tuple[int | None, ...]
    axis: str | None
    operands: tuple[bool, ...]
    results: tuple[bool, ...]

    @classmethod
    def of(cls, program: Program, size: int, dims: Sequence[int | None]) -> Batch:
        """A batch along the axis whose batching rules run."""
        axis = THREAD.state.mapped

        def differ(avals: Sequence[Aval]) -> tuple[bool, ...]:
            return tuple([axis is None or axis in aval.varies for aval in avals])

        operands, results = differ(program.in_avals), differ(program.out_avals)
        return cls(size, tuple(dims), axis, operands, results)

    def differs(self, x: Value) -> bool:
        """Whether a value of one example may differ between examples."""
        return self.axis is None or self.axis in varies(x)

    @staticmethod
    def dims_of(differ: Sequence[bool]) -> list[int | None]:
        """The batched axes of results."""
        return [0 if d else None for d in differ]

    def first(self, x: Value, dim: int | None, differs: bool) -> Value:
        """A result with its batched axis first, if it has one."""
        if differs:
            return batch_first(self.size, x, dim)
        return x if dim is None else index(batch_first(self.size, x, dim), (0,))


class Rules(Call):
    """The rules for one call; the equation's operands are `n_captured` values that the function and
    its rules close over, then the leaves of its arguments."""

    name = "custom"
    n_captured = 0
    origins: Sequence[str] = ()  # of the operands that the function itself closes over
    differentiates = True  # whether they give the derivative, and not only the form for a batch

    @property
    def rule_line(self) -> Row:
        """Where the user's rule is written."""
        raise NotImplementedError

    def save(
        self, values: Values, traced: Sequence[bool], program: Program | None
    ) -> tuple[Sequence[Value], PyTree]:
        """The results, and what a derivative of them needs."""
        raise NotImplementedError

    def push(self, primals: Values, tangents: Pushed, program: PyTree, saved: PyTree) -> Pushed:
        """The tangents of the results."""
        raise NotImplementedError

    def pull(
        self, cts: Pushed, wanted: Sequence[bool], values: Values, program: PyTree, saved: PyTree
    ) -> Pushed:
        """The cotangents of the operands."""
        raise NotImplementedError

    def over(self, batch: Batch) -> Rules:
        """The rules for a batch, the results of which have their batched axis first."""
        raise NotImplementedError

    def batch(
        self, size: int, operands: Values, dims: Sequence[int | None], program: Program
    ) -> tuple[Values, Sequence[int | None]]:
        """The results of a batch, and where their batched axes are."""
        batch = Batch.of(program, size, dims)
        derived = batched_first(program, size, tuple(dims), batch.results)
        outs = bind(custom_call_p, *operands, program=derived, rules=self.over(batch))
        return outs, batch.dims_of(batch.results)

    def refuse_captured(self, wanted: Sequence[bool]) -> None:
        """Raise where a derivative is asked for of what a custom function closes over."""
        for want, origin in zip(wanted, self.origins, strict=False):
            if want:
                raise closure_card(self.name, (("value", origin), self.rule_line))


class BatchedRules(Rules, Generic[Inner]):
    """Rules for a batch; results that differ between examples have their batched axis first."""

    def __init__(self, inner: Inner, batch: Batch) -> None:
        self.inner, self.over_what, self.size = inner, batch, batch.size
        self.dims = batch.dims
        self.name, self.n_captured = inner.name, inner.n_captured
        self.origins = inner.origins

    @property
    def rule_line(self) -> Row:
        """Where the user's rule is written."""
        return self.inner.rule_line


class UserRules(Rules):
    """The rules for a call of the user's function."""

    out_tree: tree.TreeDef | None = None
    expected: tuple[Aval, ...] | None = None
    orders: Orders | None = None  # which results lie in C order; None if that is not known
    handles: Sequence[Tracer] | None = None  # what is closed over, once the call was recorded

    def __init__(self, owner: RuledFunction, split: Split) -> None:
        self.owner = owner
        self.name = owner.name
        self.split = split._replace(values=[])
        self.weak = split.weak
        self.variables = variables_of(owner.functions)

    def primal(self, *inputs: Value) -> PyTree:
        """The function itself."""
        rest = tree.unflatten(self.split.treedef, inputs)
        watch = watched(rest)
        with derivatives("stopped" if self.owner.stops else HIDDEN.derivatives):
            out = user_form(self.owner.fun)(*merged(self.split.statics, rest, self.split.total))
            builder = innermost()
            if self.owner.stops and builder is not None:  # what comes from outside is stopped here
                out = tree.map(partial(_lifted, builder), out)
        refuse_edits(self.name, watch, out)
        return out

    def try_rule(self, inputs: Sequence[Tracer], builder: Builder) -> None:
        """Run the user's rule on unknown values of a trace that is thrown away."""

    def standing(self, captured: Sequence[PyTree]) -> AbstractContextManager[object]:
        """Context of a rule, in which these inputs stand for what is closed over."""
        for variable in self.variables:
            if variable.rebound:
                raise self._rebound_card(variable)
        builder = innermost()
        if self.handles is None or builder is None:
            return nullcontext()
        return closing(builder, self.handles, captured, rule=True)

    def _rebound_card(self, variable: Variable) -> CustomRuleError:
        return CustomRuleError(
            f"{self.name} closes over {variable.name}, which was bound anew after the call.",
            (
                self.rule_line,
                ("why", "the rule runs later than the function, and would read the new value."),
                ("write", f"pass {variable.name} as an argument of {self.name}"),
                (
                    "write",
                    f"def make({variable.name}): ...    a function that makes {self.name}, and is",
                ),
                ("write", "called for each value: then each has a variable of its own"),
            ),
        )

    def with_types(self, values: Values) -> None:
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

    def seen(self, values: Values, traced: Traced) -> None:
        """Take the type of the result from a trace."""
        self.out_tree = traced.treedef
        self.expected = tuple([a.strong() for a in traced.program.out_avals])
        self.orders = traced.orders
        key = self._key(values)
        if key is not None:
            self.owner.remember(key, (self.out_tree, self.expected, self.orders))

    def _key(self, values: Values) -> Hashable | None:
        statics = tuple(self.split.statics.items())
        key = (self.split.treedef, tuple([aval_of(x) for x in values]), *self.weak, statics)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def leaf_name(self, k: int) -> str:
        """The name of an operand, for messages."""
        return self.owner.leaf_name(k, self.split.treedef, self.split.statics, self.split.total)


def _lifted(builder: Builder, x: PyTree) -> PyTree:
    return builder.lift(x) if type(x) is Tracer else x


class RuledFunction(CustomFunction):
    """A function with rules of the user's."""

    stops = False  # whether what it closes over counts as a constant
    lacks = ""  # what it has not before the rule is set
    advice: Sequence[str] = ()  # how the rule is set

    def rules_for(self, split: Split) -> UserRules | None:
        """The rules for a call; None if they are not set."""
        raise NotImplementedError

    @hides_own_frames
    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        split = self.arguments(args, kwargs)
        rules = self.rules_for(split)
        if rules is None:
            raise CustomRuleError(
                f"The {self.what} function {self.name} has no {self.lacks} yet.",
                (
                    line_of(self.fun, "defined"),
                    *[("write", line.format(self.name)) for line in self.advice],
                ),
            )
        outs = apply(rules, split.values)
        assert rules.out_tree is not None
        return tree.unflatten(rules.out_tree, map(lower, outs))


def apply(rules: UserRules, values: Values) -> list[Value]:
    """The results of a call, as one equation of each trace that it belongs to."""
    values = [lasting(x) for x in values]
    tracers = [x for x in values if type(x) is Tracer]
    if not tracers:
        return _plain(rules, values)
    (builder,) = _innermost(tracers)
    own = [x for x in tracers if x.builder is builder]
    if within(builder) or not rules.differentiates:
        return _by_program(rules, values)
    known = builder.eager and all([x.value is not None for x in own])
    if known and builder.what in DIFFERENTIATING:
        with hiding(builder):
            rules.with_types([beneath(x, builder) for x in values])
            params: dict[str, object] = {"program": None, "rules": rules}
            return list(builder.record(custom_call_p, values, params))
    abstract = isinstance(builder, Beneath) and builder.abstract
    if known and builder.what != "vmap" and not abstract:
        with hiding(builder):
            return apply(rules, [beneath(x, builder) for x in values])
    return _by_program(rules, values)


def _innermost(values: Values) -> list[Builder]:
    """The trace that records an equation of these operands, if there is one."""
    builders = [x.builder for x in values if type(x) is Tracer]
    return [max(builders, key=lambda b: b.level)] if builders else []


def within(builder: Builder) -> bool:
    """Whether a trace inside of this one is open, whose values a function may close over."""
    inner = innermost()
    while inner is not None and inner in HIDDEN.builders:
        inner = inner.outer
    return inner is not None and inner.level > builder.level


def beneath(x: Value, builder: Builder) -> Value:
    """A value in the context that encloses a trace, where it is known."""
    known = x.value if type(x) is Tracer and x.builder is builder else x
    assert known is not None
    return known


def _plain(rules: UserRules, values: Values) -> list[Value]:
    """No argument is traced; the function may close over a traced value all the same."""
    found = evaluate_beneath(rules.primal, values, rules.name, rules.weak, whole=True)
    rules.out_tree = found.treedef
    if innermost() is not None and any([type(x) is Tracer for x in found.leaves]):
        return _by_program(rules, values)
    pairs = zip(found.leaves, found.orders, strict=True)
    return [x if in_order else doubtful(x) for x, in_order in pairs]


def _by_program(rules: UserRules, values: Values) -> list[Value]:
    found = recorded(rules, values)
    operands = [*found.captured, *values]
    hidden = _innermost(operands) if rules.differentiates else []
    with hiding(*hidden):
        params = {"program": found.program, "rules": rules}
        return rules.bound(found.results, custom_call_p, operands, **params)


class Recorded(NamedTuple):
    """The function as a program, what it and its rules close over, which are the first operands,
    and its results if all are known."""

    program: Program
    captured: list[Value]
    results: list[Value] | None


def recorded(rules: UserRules, values: Values) -> Recorded:
    """Trace the function of a call, and find what it and its rules close over."""
    ruled, what = rules.differentiates, rules.owner.what
    traced = trace_beneath(
        rules.primal, values, rules.name, what, rules.weak, ruled=ruled, closed=True
    )
    rules.seen(values, traced)
    program, n = traced.program, len(traced.captured)
    rules.origins = [] if rules.owner.stops else [origin_of(x) for x in traced.handles]
    found = list(zip(traced.handles, traced.captured, strict=True))
    known = set(map(id, traced.handles))
    found += [(x, value) for x, value in closed_over(rules, values) if id(x) not in known]
    if len(found) > n:
        extra = [Var(aval_of(x).strong()) for x, _ in found[n:]]
        program = program.replace(inputs=(*program.inputs[:n], *extra, *program.inputs[n:]))
    rules.handles, rules.n_captured = [x for x, _ in found], len(found)
    return Recorded(program, [value for _, value in found], traced.results)


def closed_over(rules: UserRules, values: Values) -> list[tuple[Tracer, Value]]:
    """The tracers that the user's rules read around their arguments, and what these are here.

    The rules run on unknown values, and what they record is thrown away; where one needs values it
    is left there, and a card comes when it asks for what was not found.  A rule that calls its own
    function does not run again for that, and one that makes another such function (derivatives of
    integrals are integrals) no more than `DEEPEST` times.
    """
    owner = rules.owner
    reached = [*owner.functions, *rules.split.statics.values()]
    alike = [other for other in HIDDEN.trying if _code_of(other) == _code_of(owner)]
    if owner in alike or len(alike) >= DEEPEST or not any(map(may_close, reached)):
        return []
    builder = Beneath("custom rule", rules.name, abstract=True)
    builder.eager = False  # nothing is computed, and what acts is thrown away too
    saved, HIDDEN.trying = HIDDEN.trying, (*HIDDEN.trying, owner)
    try:
        with builder.running, builder, derivatives("open"):
            weak = rules.weak or [False] * len(values)
            inputs = [builder.example(x, w) for x, w in zip(values, weak, strict=True)]
            with closing(builder), suppress(Exception):
                rules.try_rule(inputs, builder)
        return [(handle, value) for handle, value, _, _ in builder.captures.values()]
    finally:
        HIDDEN.trying = saved
        builder.release()


def _code_of(owner: CustomFunction) -> list[object]:
    """The code of a function and of its rules."""
    return [getattr(x, "__code__", None) for x in owner.functions]


# --- the primitive


@custom_call_p.type_rule
def _(*_avals: Aval, program: Program, rules: Rules) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in program.out_avals])


@custom_call_p.evaluate
def _(*operands: Value, program: Program, rules: Rules) -> tuple[Value, ...]:
    return rules.evaluated(program, operands)


@custom_call_p.jvp
def _(
    primals: Values, tangents: Pushed, outs: object, *,
    program: Program | None, rules: Rules, saved: object = None,
) -> Pushed:  # fmt: skip
    rules.refuse_captured([t is not None for t in tangents])
    return tuple(rules.push(primals, tangents, program, saved))


def _pullback(
    cts: Pushed, wanted: Sequence[bool], values: Values, _outs: object, params: EqnParams
) -> Pushed:
    rules: Rules = params["rules"]
    rules.refuse_captured(wanted)
    return rules.pull(cts, wanted, values, params["program"], params.get("saved"))


def _save(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[Sequence[Value], PyTree]:
    return params["rules"].save(values, traced, params["program"])


@custom_call_p.batch
def _(
    size: int, operands: Values, dims: Sequence[int | None], *,
    program: Program, rules: Rules, saved: object = None,
) -> tuple[Values, Sequence[int | None]]:  # fmt: skip
    return rules.batch(size, operands, dims, program)


custom_call_p.save = _save
custom_call_p.linearizes = True
custom_call_p.pullback = _pullback
custom_call_p.selects = True
custom_call_p.refuse("transpose", "is transposed by its rule")
