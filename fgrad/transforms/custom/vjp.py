"""L4. `custom_vjp`: functions with a user-defined vjp rule.

    custom_vjp : (a -> b), (a -> (b, r)), ((r, CT b) -> CT a) -> (a -> b)

In a trace that is differentiated `fwd` runs in place of the function, and its residuals are kept.
Forward derivatives are the transpose of `bwd`, where that is linear.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, overload

from fgrad import tree
from fgrad.base.frames import add_note
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import CustomRuleError, MissingRuleError, Row
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ops.families import batch_first
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.selected import plain
from fgrad.ops.shape import move_axis
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.control.common import known_values
from fgrad.transforms.core.batching import example_aval
from fgrad.transforms.core.derived_programs import zeros_of
from fgrad.transforms.core.linear import check_linear
from fgrad.transforms.core.outer_context import (
    HIDDEN,
    Beneath,
    evaluate_beneath,
    hiding,
    is_value,
    mapped,
)
from fgrad.transforms.core.tape import Tape, pull
from fgrad.transforms.core.wrap import as_value, is_weak
from fgrad.transforms.custom.call import (
    Batch,
    BatchedRules,
    Pushed,
    RuledFunction,
    Rules,
    UserRules,
    Values,
)
from fgrad.transforms.custom.function import Split, called, described, fitted, line_of, prefixed
from fgrad.typing import P, PyTree, R, R_co

collectives = lazy_module("fgrad.ops.collectives")


class CustomVjp(RuledFunction):
    """A function whose reverse derivative is given by `defvjp`."""

    what = "custom_vjp"
    lacks = "derivative"
    advice = (
        "def fwd(x):         return {0}(x), residuals",
        "def bwd(res, ct):   return (cotangent_of_x,)",
        "{0}.defvjp(fwd, bwd)",
    )
    fwd: Callable[..., PyTree] | None = None
    bwd: Callable[..., PyTree] | None = None
    symbolic_zeros = False

    def defvjp(
        self, fwd: Callable[..., PyTree], bwd: Callable[..., PyTree], symbolic_zeros: bool = False
    ) -> None:
        """Set the derivative.

        Arguments:
            fwd: a function of all arguments that returns `(result, residuals)`; residuals are any
                tree, with arrays or other objects.
            bwd: `bwd(*nondiff_args, residuals, cotangent)` returns a tuple with a cotangent for
                each argument that is not static: None for a zero, and for integers.
            symbolic_zeros: whether known zeros among the cotangents are given as None.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def rules_for(self, split: Split) -> VjpRules | None:
        """The rules for a call; None if they are not set."""
        return None if self.fwd is None else VjpRules(self, split)


class WithVjp(Protocol[P, R_co]):
    """For type checkers: a `CustomVjp` that is called as the function of the user is."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def __get__(self, instance: object, owner: type | None = None) -> PyTree: ...
    def defvjp(
        self, fwd: Callable[..., PyTree], bwd: Callable[..., PyTree], symbolic_zeros: bool = False
    ) -> None: ...


@overload
def custom_vjp(
    fun: Callable[P, R],
    nondiff_argnums: int | Sequence[int] = ...,
    nondiff_argnames: str | Sequence[str] = ...,
) -> WithVjp[P, R]: ...
@overload
def custom_vjp(
    fun: None = None,
    nondiff_argnums: int | Sequence[int] = ...,
    nondiff_argnames: str | Sequence[str] = ...,
) -> Callable[[Callable[P, R]], WithVjp[P, R]]: ...
@also_takes()
def custom_vjp(
    fun: Callable[..., PyTree] | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    nondiff_argnames: str | Sequence[str] = (),
) -> PyTree:
    """A function whose derivative in reverse you write yourself.

    Arguments:
        fun: a function of pytrees of arrays.
        nondiff_argnums: positions of arguments that are settings: functions, strings, sizes.  `fwd`
            gets them in their places, `bwd` first.
        nondiff_argnames: the same by name.

    Returns:
        A function like `fun` with a method `defvjp(fwd, bwd)`.

    Raises:
        CustomRuleError: if a rule's result does not fit that of the function.

    Example: the identity, with its gradient clipped on the way back.
        >>> import numpy as np, fgrad
        >>> @fgrad.custom_vjp
        ... def clip_gradient(x):
        ...     return x
        >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))
        >>> fgrad.grad(lambda x: 5.0 * clip_gradient(x))(2.0)
        np.float64(1.0)
    """
    if fun is None:
        return functools.partial(
            custom_vjp, nondiff_argnums=nondiff_argnums, nondiff_argnames=nondiff_argnames
        )
    return CustomVjp(fun, nondiff_argnums, nondiff_argnames)


class Residuals(NamedTuple):
    """What `fwd` left: arrays, and how they are put together again."""

    arrays: list[Value]
    token: PyTree


class SavedVjp(NamedTuple):
    """The residuals of `fwd`, and the types of arguments and results."""

    residuals: Residuals
    ins: list[Aval]
    outs: list[Aval]


class ReverseRules(Rules):
    """`fwd` and `bwd` on flat values."""

    def forward(self, values: Values) -> tuple[list[Value], Residuals]:
        """Results and residuals, the first of which are the captured values."""
        raise NotImplementedError

    def backward(
        self, token: PyTree, arrays: Values, cts: Sequence[Value | None], avals: Sequence[Aval]
    ) -> list[Value | None]:
        """A cotangent for each leaf of the arguments; `avals` are those of the arguments."""
        raise NotImplementedError

    def zero_or(self, ct: Value | None, aval: Aval) -> Value | None:
        """The cotangent as the user's rule wants it."""
        raise NotImplementedError

    def save(
        self, values: Values, traced: Sequence[bool], program: Program | None
    ) -> tuple[Sequence[Value], SavedVjp]:
        """The results, and the residuals of `fwd`."""
        outs, residuals = self.forward(values)
        ins = [aval_of(x).strong() for x in values[self.n_captured :]]
        return tuple(outs), SavedVjp(residuals, ins, [aval_of(y).strong() for y in outs])

    def _saved(self, values: Values, program: Program | None, saved: SavedVjp | None) -> SavedVjp:
        if saved is not None:
            return saved
        known = values if program is None else known_values(values, program.in_avals)
        return self.save(known, (), program)[1]

    def pull(
        self, cts: Pushed, wanted: Sequence[bool], values: Values, program: PyTree, saved: PyTree
    ) -> Pushed:
        """The cotangents of the operands."""
        saved = self._saved(values, program, saved)
        dense = [None if ct is None else plain(ct) for ct in cts]
        given = [self.zero_or(ct, aval) for ct, aval in zip(dense, saved.outs, strict=True)]
        has = [ct is not None for ct in given]
        arrays, token = saved.residuals
        count = len(arrays)

        def backward(*inputs: Value) -> list[Value | None]:
            each = iter(inputs[count:])
            ts = [next(each) if h else None for h in has]
            found = self.backward(token, inputs[:count], ts, saved.ins)
            found_mask.extend([ct is not None for ct in found])
            return [ct for ct in found if ct is not None]

        found_mask: list[bool] = []
        inputs = [*arrays, *[ct for ct in given if ct is not None]]
        pulled = iter(evaluate_beneath(backward, inputs, self.name).leaves)
        return [
            *[None] * self.n_captured,
            *[next(pulled) if m else None for m in found_mask],
        ]

    def push(self, primals: Values, tangents: Pushed, program: PyTree, saved: PyTree) -> Pushed:
        """bwd is linear in the cotangent, ct -> bwd(r, ct); the tangent is its transpose."""
        saved = self._saved(primals, program, saved)
        tangents = tangents[self.n_captured :]
        builder = Beneath("custom_vjp", self.name)
        with builder.running, builder:
            arrays = [builder.input(x) for x in saved.residuals.arrays]
            cts = [builder.input(None, a) if a.dtype.kind in "fc" else None for a in saved.outs]
            given = [
                zeros_of(a) if ct is None else ct for ct, a in zip(cts, saved.outs, strict=True)
            ]
            pulled = self.backward(saved.residuals.token, arrays, given, saved.ins)
            lifted = [None if ct is None else builder.lift(ct) for ct in pulled]
            wanted = [k >= len(arrays) for k in range(len(builder.inputs))]
            tape = Tape(builder, lifted, wanted)
        builder.release()
        problem = check_linear(tape)
        if problem is not None:
            raise self._not_linear(problem)
        pushed = iter(pull(tape, list(tangents)))
        return [None if ct is None else next(pushed) for ct in cts]

    def _not_linear(self, problem: str) -> MissingRuleError:
        """The card for a forward derivative of a rule that cannot be transposed."""
        return MissingRuleError(
            f"The custom_vjp function {self.name} has no forward derivative.",
            (
                self.rule_line,
                ("why", f"bwd is not linear in the cotangent: {problem}."),
                (
                    "write",
                    "fgrad.grad(f) or fgrad.vjp(f, x)    reverse mode takes the rule as it is",
                ),
                (
                    "write",
                    "fgrad.custom_jvp                    a rule for both modes, if it is linear",
                ),
            ),
        )

    def over(self, batch: Batch) -> Rules:
        """The rules for a batch."""
        return BatchedVjpRules(self, batch)


class VjpRules(UserRules, ReverseRules):
    """The user's rules on flat values."""

    owner: CustomVjp

    @property
    def rule_line(self) -> Row:
        """Where `bwd` is written."""
        assert self.owner.bwd is not None
        return line_of(self.owner.bwd, "bwd")

    def try_rule(self, inputs: Sequence[Tracer], builder: Builder) -> None:
        """Run `fwd`, and `bwd` with unknown cotangents."""
        assert self.owner.fwd is not None
        out, residuals = user_form(self.owner.fwd)(*self.split.whole(inputs))

        def unknown(y: object) -> Tracer:
            return builder.input(None, aval_of(y).strong())

        self._bwd(residuals, tree.map(unknown, out))

    def forward(self, values: Values) -> tuple[list[Value], Residuals]:
        """Results and residuals, the first of which are the captured values."""
        counts: list[int] = []
        n = self.n_captured
        assert self.owner.fwd is not None

        def flat(*inputs: Value) -> PyTree:
            with self.standing(inputs[:n]):
                return from_arguments(inputs[n:])

        def from_arguments(inputs: Values) -> PyTree:
            args = self.split.whole(inputs)
            what, takes = f"fwd of {self.name}", f"def fwd({self._names(range(self.split.total))})"
            out, residuals = self._pair(called(self.owner.fwd, what, takes, *args))
            leaves, out_tree = tree.flatten(out)
            if self.out_tree is not None and out_tree != self.out_tree:
                raise self.refuse_fwd(
                    f"must return the result of {self.name} first",
                    f"it has structure {out_tree}, but {self.name} returns {self.out_tree}",
                )
            self.out_tree = out_tree
            counts.append(len(leaves))
            return [as_value(x, f"a result of fwd of {self.name}") for x in leaves], residuals

        weak = [*map(is_weak, values[:n]), *self.weak] if self.weak else ()
        found = evaluate_beneath(flat, values, self.name, weak)
        outs, kept = found.leaves[: counts[0]], found.leaves[counts[0] :]
        self._check(outs)
        plain = [None if is_value(x) else (x,) for x in kept]
        arrays = [*values[:n], *[x for x in kept if is_value(x)]]
        return outs, Residuals(arrays, (plain, found.treedef, HIDDEN.builders))

    def _pair(self, found: object) -> tuple[PyTree, PyTree]:
        if not (is_tuple_like(found) or is_list(found)) or len(found) != 2:
            raise self.refuse_fwd(
                "must return a pair (result, residuals)", f"it is {described(found)}"
            )
        return found[0], found[1]

    def _check(self, outs: Values) -> None:
        for k, (y, aval) in enumerate(zip(outs, self.expected or (), strict=False)):
            if not aval_of(y).fits(aval):
                assert self.out_tree is not None
                path = tree.paths(tree.unflatten(self.out_tree, range(len(outs))))[k]
                raise self.refuse_fwd(
                    f"must return the result of {self.name} first",
                    f"result{path} is {aval_of(y).strong()}, but {self.name} returns {aval}",
                )

    def refuse_fwd(self, headline: str, found: str) -> CustomRuleError:
        """The card for a `fwd` whose result does not fit."""
        assert self.owner.fwd is not None
        rows = (("found", found), line_of(self.owner.fwd, "fwd"))
        return CustomRuleError(f"fwd of the custom_vjp function {self.name} {headline}.", rows)

    def backward(
        self, token: PyTree, arrays: Values, cts: Sequence[Value | None], avals: Sequence[Aval]
    ) -> list[Value | None]:
        """A cotangent for each leaf of the arguments; `avals` are those of the arguments."""
        plain, treedef, hidden = token
        each = iter(arrays[self.n_captured :])
        kept = [next(each) if x is None else x[0] for x in plain]
        count = treedef.num_leaves - len(kept)
        _, residuals = tree.unflatten(treedef, [*[0] * count, *kept])
        assert self.out_tree is not None
        ct = tree.unflatten(self.out_tree, cts)
        with hiding(*hidden), self.standing(arrays[: self.n_captured]):
            return self._cotangents(self._bwd(residuals, ct), avals)

    def _bwd(self, residuals: object, ct: object) -> PyTree:
        """What the user's `bwd` returns."""
        bwd = self.owner.bwd
        assert bwd is not None
        statics = [x for _, x in sorted(self.split.statics.items())]
        names = self._names(sorted(self.split.statics))
        takes = f"def bwd({names}{', ' * bool(names)}residuals, cotangent)"
        try:
            return called(bwd, f"bwd of {self.name}", takes, *statics, residuals, ct)
        except Exception as error:
            add_note(error, f"in bwd of the custom_vjp function {self.name}:  {takes}")
            raise

    def _names(self, positions: Iterable[int]) -> str:
        return ", ".join([self.owner.parameter(k).strip("'") for k in positions])

    def _cotangents(self, found: object, avals: Sequence[Aval]) -> list[Value | None]:
        positions = [k for k in range(self.split.total) if k not in self.split.statics]
        names = ", ".join(map(self.owner.parameter, positions))
        if not (is_tuple_like(found) or is_list(found)):
            raise self.refuse_bwd(
                f"must return a tuple with a cotangent for each of {names}",
                f"it is {described(found)}",
            )
        if len(found) != len(positions):
            raise self.refuse_bwd(
                f"must return a cotangent for each of {names}",
                f"it returned {len(found)}, for {len(positions)} arguments",
            )
        whole = tree.unflatten(self.split.treedef, range(len(avals)))
        parts: list[PyTree] = []
        for k, given, arg in zip(positions, found, whole, strict=True):
            part = prefixed(given, arg)
            if part is None:
                raise self.refuse_bwd(
                    "must return cotangents with the structure of the arguments",
                    f"that of {self.owner.parameter(k)} is {tree.structure(given)}, "
                    f"but the argument is {tree.structure(arg)}",
                )
            parts += part
        return [
            self._cotangent(ct, aval, k)
            for k, (ct, aval) in enumerate(zip(parts, avals, strict=True))
        ]

    def _cotangent(self, ct: object, aval: Aval, k: int) -> Value | None:
        def refuse(text: str) -> CustomRuleError:
            return self.refuse_bwd(
                "must return cotangents like the arguments",
                f"that of {self.leaf_name(k)} is {text}",
            )

        found = fitted(ct, aval, refuse, f"a cotangent from bwd of {self.name}")
        missing = found.aval.varies - aval.varies if type(found) is Tracer else ()
        for name in sorted(missing):  # the argument has one value, and so one cotangent
            found = collectives.psum(found, name)
        return found

    def refuse_bwd(self, headline: str, found: str) -> CustomRuleError:
        """The card for a `bwd` whose result does not fit."""
        rows = (("found", found), self.rule_line)
        return CustomRuleError(f"bwd of the custom_vjp function {self.name} {headline}.", rows)

    def zero_or(self, ct: Value | None, aval: Aval) -> Value | None:
        """The cotangent as the user's rule wants it."""
        return zeros_of(aval) if ct is None and not self.owner.symbolic_zeros else ct


class BatchedVjpRules(BatchedRules[ReverseRules], ReverseRules):
    """Rules for a batch."""

    def forward(self, values: Values) -> tuple[list[Value], Residuals]:
        """Results and residuals."""
        counts: list[PyTree] = []
        batch = self.over_what

        def flat(*inputs: Value) -> list[Value]:
            outs, residuals = self.inner.forward(inputs)
            kept = residuals.arrays
            counts.extend([len(outs), residuals.token, [batch.differs(x) for x in kept]])
            return [*outs, *kept]

        given = list(zip(values, self.dims, batch.operands, strict=True))
        pairs = mapped(flat, self.size, given, self.name, batch.axis)
        count, token, apart = counts
        differ = zip(pairs[:count], batch.results, strict=True)
        outs = [batch.first(y, d, k) for (y, d), k in differ]
        kept = pairs[count:]
        return outs, Residuals([x for x, _ in kept], (token, [d for _, d in kept], apart))

    def backward(
        self, token: PyTree, arrays: Values, cts: Sequence[Value | None], avals: Sequence[Aval]
    ) -> list[Value | None]:
        """A cotangent for each leaf of the arguments."""
        inner_token, res_dims, res_apart = token
        dims, count, batch = self.dims[self.n_captured :], len(arrays), self.over_what
        apart = batch.operands[self.n_captured :]
        active = [ct is not None for ct in cts]
        inner = [
            example_aval(a, d, batch.axis if differs else None)
            for a, d, differs in zip(avals, dims, apart, strict=True)
        ]
        has: list[bool] = []

        def flat(*inputs: Value) -> list[Value]:
            given = iter(inputs[count:])
            ts = [next(given) if a else None for a in active]
            found = self.inner.backward(inner_token, inputs[:count], ts, inner)
            has.extend([x is not None for x in found])
            return [x for x in found if x is not None]

        values = [*arrays, *[ct for ct in cts if ct is not None]]
        differ = [d for d, a in zip(batch.results, active, strict=True) if a]
        all_dims = [*res_dims, *batch.dims_of(differ)]
        inputs = list(zip(values, all_dims, [*res_apart, *differ], strict=True))
        found = iter(mapped(flat, self.size, inputs, self.name, batch.axis))
        return [
            self._placed(*next(found), to, differs) if h else None
            for h, to, differs in zip(has, dims, apart, strict=True)
        ]

    def _placed(self, ct: Value, dim: int | None, to: int | None, differs: bool) -> Value:
        """A cotangent with its batched axis where the argument has it, else summed; that of an
        argument that is the same along a named axis is the sum already."""
        if not differs and dim is None:
            return ct
        ct = batch_first(self.size, ct, dim)
        return reduce_sum(ct, (0,)) if to is None else move_axis(ct, 0, to)

    def zero_or(self, ct: Value | None, aval: Aval) -> Value | None:
        """The cotangent as the user's rule wants it."""
        return self.inner.zero_or(ct, aval)
