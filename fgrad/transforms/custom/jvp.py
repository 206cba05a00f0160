"""L4. `custom_jvp`: functions with a user-defined jvp rule.

    custom_jvp : (a -> b), ((a, T a) -> (b, T b)) -> (a -> b)

In a trace that is differentiated the rule runs with the values of the primals and with unknown
tangents; what it does with these is recorded, and serves both modes, as any other jvp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Protocol, overload

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import CustomRuleError, Row
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program
from fgrad.ops.elementwise import add
from fgrad.ops.families import zeros_like
from fgrad.ops.selected import Tangent
from fgrad.trace import Builder, Tracer, Value, run
from fgrad.tracing.record import Record
from fgrad.transforms.control.common import known_values
from fgrad.transforms.core.derived_programs import covers
from fgrad.transforms.core.linear import check_linear
from fgrad.transforms.core.outer_context import Beneath, mapped
from fgrad.transforms.core.tape import Tape, pull_selected, push_selected
from fgrad.transforms.core.wrap import as_value, is_weak, outside
from fgrad.transforms.custom.call import (
    Batch,
    BatchedRules,
    Pushed,
    RuledFunction,
    Rules,
    UserRules,
    Values,
    custom_call_p,
)
from fgrad.transforms.custom.function import Split, called, described, fitted, line_of, prefixed
from fgrad.typing import EqnParams, P, PyTree, R, R_co, Rule


class CustomJvp(RuledFunction):
    """A function whose derivative is given by `defjvp` or `defjvps`."""

    what = "custom_jvp"
    lacks = "derivative"
    advice = (
        "@{0}.defjvp",
        "def {0}_jvp(primals, tangents):",
        "    return {0}(*primals), tangent_of_the_result",
    )
    rule: Callable[..., PyTree] | None = None
    symbolic_zeros = False
    shown: Callable[..., PyTree]  # the user's function that cards name as the rule

    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule:
        """Set the derivative: `jvp(*nondiff_args, primals, tangents) -> (out, tangent_out)`.

        Arguments:
            jvp: a function of two tuples with an item for each argument that is not static.  The
                tangent of an integer is zeros of its own dtype.
            symbolic_zeros: whether known zeros among the tangents are given as None.

        Returns:
            `jvp`, so that this serves as a decorator.
        """
        self.rule, self.symbolic_zeros = jvp, symbolic_zeros
        self.shown = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., PyTree] | None) -> None:
        """Set the derivative by a function for each argument; None where it is zero.

        Each is called as `jvp(tangent, out, *args)` and gives a tangent of the result.
        """
        if self.nondiff:
            raise CustomRuleError(
                f"custom_jvp {self.name}: defjvps cannot be used with static arguments.",
                (("write", f"@{self.name}.defjvp"),),
            )

        def rule(primals: tuple[PyTree, ...], tangents: tuple[PyTree, ...]) -> PyTree:
            if len(jvps) != len(primals):
                raise CustomRuleError(
                    f"defjvps got {len(jvps)} rules, but {self.name} has {len(primals)} arguments.",
                    (line_of(self.fun, "defined"), ("write", "None for an argument without one")),
                )
            out = self(*primals)
            total: PyTree = None
            for jvp, t in zip(jvps, tangents, strict=True):
                if jvp is not None and t is not None:
                    what, takes = f"A rule of {self.name}", "def rule(tangent, out, *arguments)"
                    part = called(jvp, what, takes, t, out, *primals)
                    total = part if total is None else tree.map(add, total, part)
            return out, tree.map(zeros_like, out) if total is None else total

        self.rule, self.symbolic_zeros = rule, True
        self.shown = next((jvp for jvp in jvps if jvp is not None), self.fun)

    def rules_for(self, split: Split) -> JvpRules | None:
        """The rules for a call; None if they are not set."""
        return None if self.rule is None else JvpRules(self, split)


class WithJvp(Protocol[P, R_co]):
    """For type checkers: a `CustomJvp` that is called as the function of the user is."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def __get__(self, instance: object, owner: type | None = None) -> PyTree: ...
    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule: ...
    def defjvps(self, *jvps: Callable[..., PyTree] | None) -> None: ...


@overload
def custom_jvp(
    fun: Callable[P, R],
    nondiff_argnums: int | Sequence[int] = ...,
    nondiff_argnames: str | Sequence[str] = ...,
) -> WithJvp[P, R]: ...
@overload
def custom_jvp(
    fun: None = None,
    nondiff_argnums: int | Sequence[int] = ...,
    nondiff_argnames: str | Sequence[str] = ...,
) -> Callable[[Callable[P, R]], WithJvp[P, R]]: ...
@also_takes()
def custom_jvp(
    fun: Callable[..., PyTree] | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    nondiff_argnames: str | Sequence[str] = (),
) -> PyTree:
    """A function whose derivative you write yourself, as a jvp; `grad` transposes it.

    Arguments:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are settings: functions, strings, sizes.  They
            are given to the rule first, before primals and tangents.
        nondiff_argnames: the same by name.

    Returns:
        A function like `fun` with methods `defjvp` and `defjvps`.

    Raises:
        CustomRuleError: if a rule's result does not fit that of the function.

    Example: a norm whose derivative at 0 is 0.
        >>> import numpy as np, fgrad
        >>> @fgrad.custom_jvp
        ... def norm(x):
        ...     return np.sqrt(np.sum(x * x))
        >>> @norm.defjvp
        ... def norm_jvp(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     y = norm(x)
        ...     return y, np.sum(x * t) / np.where(y > 0, y, 1.0)
        >>> fgrad.grad(norm)(np.zeros(2)), fgrad.grad(norm)(np.array([3.0, 4.0]))
        (array([0., 0.]), array([0.6, 0.8]))
    """
    if fun is None:
        return functools.partial(
            custom_jvp, nondiff_argnums=nondiff_argnums, nondiff_argnames=nondiff_argnames
        )
    return CustomJvp(fun, nondiff_argnums, nondiff_argnames)


class LinearRules(Rules):
    """A jvp on flat values: linearized once, pushed and pulled."""

    weak: Sequence[bool] = ()

    def linear(
        self, captured: Values, primals: Values, tangents: Sequence[Value | None]
    ) -> tuple[list[Value], list[Value | None]]:
        """Results and their tangents."""
        raise NotImplementedError

    def save(
        self, values: Values, traced: Sequence[bool], program: Program | None
    ) -> tuple[Sequence[Value], PyTree]:
        """The results, and the rule as a linear map."""
        return _linearized(values, traced, self)

    def push(self, primals: Values, tangents: Pushed, program: PyTree, saved: PyTree) -> Pushed:
        """The tangents of the results."""
        if saved is None:
            mask = [t is not None for t in tangents]
            saved = _linearized(_known(primals, program), mask, self)[1]
        given = [t for t, m in zip(tangents, saved.mask, strict=True) if m]
        return push_selected(saved.tape, given)

    def pull(
        self, cts: Pushed, wanted: Sequence[bool], values: Values, program: PyTree, saved: PyTree
    ) -> Pushed:
        """The cotangents of the operands."""
        wanted = _of_arguments(wanted, values, self)
        if saved is None or not covers(saved.mask, wanted):
            saved = _linearized(_known(values, program), wanted, self)[1]
        outs = saved.tape.outputs
        given = [None if k is None else ct for ct, k in zip(cts, outs, strict=True)]
        pulled = iter(pull_selected(saved.tape, given))
        return [next(pulled) if m else None for m in saved.mask]

    def over(self, batch: Batch) -> Rules:
        """The rules for a batch."""
        return BatchedJvpRules(self, batch)


class JvpRules(UserRules, LinearRules):
    """The user's rule on flat values."""

    owner: CustomJvp
    weak: Sequence[bool]

    @property
    def rule_line(self) -> Row:
        """Where the user's rule is written."""
        return line_of(self.owner.shown, "rule")

    def try_rule(self, inputs: Sequence[Tracer], builder: Builder) -> None:
        """Run the rule with unknown tangents."""
        tangents = [builder.input(None, x.aval.strong()) for x in inputs]
        self._call(inputs, tangents)

    def linear(
        self, captured: Values, primals: Values, tangents: Sequence[Value | None]
    ) -> tuple[list[Value], list[Value | None]]:
        """Results and their tangents."""
        with self.standing(captured):
            return self._linear(primals, tangents)

    def _call(self, primals: Values, tangents: Pushed) -> PyTree:
        """What the user's rule returns."""
        assert self.owner.rule is not None
        statics = [x for _, x in sorted(self.split.statics.items())]
        if not self.owner.symbolic_zeros:
            tangents = [
                zeros_like(x) if t is None else t for x, t in zip(primals, tangents, strict=True)
            ]
        treedef = self.split.treedef
        args = tree.unflatten(treedef, primals), tree.unflatten(treedef, tangents)
        names = "".join([f"{self.owner.parameter(k)[1:-1]}, " for k in sorted(self.split.statics)])
        takes = f"def rule({names}primals, tangents)"
        return called(self.owner.rule, f"The jvp rule of {self.name}", takes, *statics, *args)

    def _linear(
        self, primals: Values, tangents: Sequence[Tangent]
    ) -> tuple[list[Value], list[Value | None]]:
        found = self._call(primals, tangents)
        if not (is_tuple_like(found) or is_list(found)) or len(found) != 2:
            raise self.refuse(
                "must return a pair (result, tangent of the result)", f"it is {described(found)}"
            )
        out, pushed = found
        leaves, out_tree = tree.flatten(out)
        if self.out_tree is not None and out_tree != self.out_tree:
            raise self.refuse(
                f"must return the result of {self.name} first",
                f"it has structure {out_tree}, but {self.name} returns {self.out_tree}",
            )
        self.out_tree = out_tree
        outs = [as_value(x, f"a result of the rule of {self.name}") for x in leaves]
        self._check(outs, out_tree)
        parts = prefixed(pushed, out)
        if parts is None:
            raise self.refuse(
                "must return a tangent with the structure of the result",
                f"it has structure {tree.structure(pushed)}, but the result has {out_tree}",
            )
        return outs, [
            self._tangent(t, y, k, out_tree)
            for k, (t, y) in enumerate(zip(parts, outs, strict=True))
        ]

    def _check(self, outs: Values, out_tree: tree.TreeDef) -> None:
        avals = [aval_of(y).strong() for y in outs]
        if self.expected is None:
            return
        for k, (found, aval) in enumerate(zip(avals, self.expected, strict=True)):
            if not found.fits(aval):
                raise self.refuse(
                    f"must return the result of {self.name} first",
                    f"result{_path(out_tree, k)} is {found}, but {self.name} returns {aval}",
                )

    def _tangent(self, t: object, y: Value, k: int, out_tree: tree.TreeDef) -> Value | None:
        def refuse(text: str) -> CustomRuleError:
            return self.refuse(
                "must return a tangent like the result",
                f"the tangent of result{_path(out_tree, k)} is {text}",
            )

        return fitted(t, aval_of(y), refuse, f"a tangent from the rule of {self.name}")

    def refuse(self, headline: str, found: str) -> CustomRuleError:
        """The card for a rule whose result does not fit."""
        return CustomRuleError(
            f"The jvp rule of {self.name} {headline}.", (("found", found), self.rule_line)
        )


def _path(treedef: tree.TreeDef, k: int) -> str:
    """Where a leaf is in a result: empty for the only one."""
    return tree.paths(tree.unflatten(treedef, range(treedef.num_leaves)))[k]


class BatchedJvpRules(BatchedRules[LinearRules], LinearRules):
    """Rules for a batch."""

    def linear(
        self, captured: Values, primals: Values, tangents: Sequence[Value | None]
    ) -> tuple[list[Value], list[Value | None]]:
        """Results and their tangents."""
        n, count, batch = len(captured), len(captured) + len(primals), self.over_what
        active = [t is not None for t in tangents]
        has: list[bool] = []

        def both(*values: Value) -> list[Value]:
            given = iter(values[count:])
            ts = [next(given) if a else None for a in active]
            outs, pushed = self.inner.linear(values[:n], list(values[n:count]), ts)
            has.extend([t is not None for t in pushed])
            return [*outs, *[t for t in pushed if t is not None]]

        values = [*captured, *primals, *[t for t in tangents if t is not None]]
        kinds = list(zip(self.dims, batch.operands, strict=True))
        kinds += [kind for kind, a in zip(kinds[n:], active, strict=True) if a]
        inputs = [(v, *kind) for v, kind in zip(values, kinds, strict=True)]
        pairs = mapped(both, self.size, inputs, self.name, batch.axis)
        differ = [*batch.results, *[d for d, h in zip(batch.results, has, strict=True) if h]]
        found = [batch.first(y, d, k) for (y, d), k in zip(pairs, differ, strict=True)]
        pushed = iter(found[len(has) :])
        return found[: len(has)], [next(pushed) if h else None for h in has]


class _Tangents(Beneath):
    """A builder in which tangents alone are unknown.

    A custom function of a tangent must be linear there, so that it counts as what it computes:
    a rule may call its own function on the tangent.
    """

    __slots__ = ()

    def record(
        self, prim: Primitive, operands: Sequence[PyTree], params: dict[str, object]
    ) -> PyTree:
        """Append an equation; of a custom function of tangents, its program's."""
        program = _program_of_jvp(prim, params)
        tangents = [x for x in operands if type(x) is Tracer and self.lift(x).value is None]
        if program is not None and tangents:
            return tuple(run(program, operands))
        return super().record(prim, operands, params)


class SavedJvp(NamedTuple):
    """The rule as a linear map of the tangents of some operands."""

    tape: Tape
    mask: tuple[bool, ...]


def _of_arguments(mask: Sequence[bool], values: Values, rules: LinearRules) -> list[bool]:
    """The mask without what the function closes over, and without integers."""
    return [
        m and k >= rules.n_captured and x.dtype.kind in "fc"
        for k, (m, x) in enumerate(zip(mask, values, strict=True))
    ]


def _linearized(
    values: Values, mask: Sequence[bool], rules: LinearRules
) -> tuple[tuple[Value, ...], SavedJvp]:
    """Run the rule at known primals and record what it does with the tangents."""
    n = rules.n_captured
    wanted = _of_arguments(mask, values, rules)
    weak = rules.weak or [is_weak(x) for x in values[n:]]
    builder = _Tangents("custom_jvp", rules.name)
    try:
        with builder.running, builder:
            captured = [builder.input(v, None, is_weak(v)) for v in values[:n]]
            primals = [builder.input(v, None, w) for v, w in zip(values[n:], weak, strict=True)]
            tangents = [
                builder.input(None, aval_of(x).strong()) if w else None
                for x, w in zip(values[n:], wanted[n:], strict=True)
            ]
            results, pushed = rules.linear(captured, primals, tangents)
            outs: list[PyTree] = [outside(builder, y) for y in results]
            if any([y is None for y in outs]):
                raise CustomRuleError(
                    f"The result of the jvp rule of {rules.name} depends on the tangents.",
                    (rules.rule_line, ("why", "the first of the pair is the value alone.")),
                )
            lifted = [None if t is None else builder.lift(t) for t in pushed]
            tape = Tape(builder, lifted, [k >= len(values) for k in range(len(builder.inputs))])
    finally:
        builder.release()
    problem = check_linear(tape)
    if problem is not None:
        raise CustomRuleError(
            f"The jvp rule of {rules.name} is not linear in the tangents.",
            (("found", problem), rules.rule_line),
        )
    active = tape.active
    tape.records = [_with_values(r) for r in tape.records if any([active[k] for k in r.outs])]
    return tuple(outs), SavedJvp(tape, tuple(wanted))


def _with_values(record: Record) -> Record:
    """Zeros for the tangents in equations that hold programs, which run them to be pushed."""
    if record.prim.pullback is None:
        return record
    values, results = [
        [zeros_like(x) if isinstance(x, Aval) else x for x in part]
        for part in (record.values, record.results)
    ]
    return record._replace(values=values, results=results)


def _program_of_jvp(prim: Primitive, params: EqnParams) -> Program | None:
    """The program of an equation that has a jvp of the user's."""
    has_jvp = prim is custom_call_p and isinstance(params["rules"], LinearRules)
    return params["program"] if has_jvp else None


def _known(values: Values, program: Program | None) -> Values:
    return values if program is None else known_values(values, program.in_avals)
