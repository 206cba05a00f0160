"""L4. `custom_vmap`: functions with a user-defined batching rule.

custom_vmap : (a -> b), (n -> [a] -> [b]) -> (a -> b)

Derivatives are those of the function itself, in forward mode and in reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import CustomRuleError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ops.families import batch_first
from fgrad.ops.shape import index, move_axis
from fgrad.trace import Builder, Value, run
from fgrad.tracing.capturing import user_form
from fgrad.transforms.control.chunks import cut, map_chunks
from fgrad.transforms.control.common import known_values
from fgrad.transforms.core.closure_capture import settled
from fgrad.transforms.core.derived_programs import push_program
from fgrad.transforms.core.outer_context import batched_first, evaluate_beneath
from fgrad.transforms.core.tape import Tape, pull_selected
from fgrad.transforms.core.wrap import as_value
from fgrad.transforms.custom.call import Pushed, RuledFunction, UserRules, Values
from fgrad.transforms.custom.function import Split, described, line_of
from fgrad.typing import P, PyTree, R, R_co, Rule


class CustomVmap(RuledFunction):
    """A function whose batching rule is given by `def_vmap`."""

    what = "custom_vmap"
    lacks = "batching rule"
    advice = (
        "@{0}.def_vmap",
        "def {0}_vmap(axis_size, in_batched, *args):",
        "    return result, True",
    )
    rule: Callable[..., PyTree] | None = None

    def def_vmap(self, vmap_rule: Rule) -> Rule:
        """Set the rule: `vmap_rule(axis_size, in_batched, *args) -> (out, out_batched)`.

        `in_batched` is a list with a tree of booleans for each argument; batched axes are first.
        `out_batched` is a tree of booleans like the result, or one for a whole part of it.
        """
        self.rule = vmap_rule
        return vmap_rule

    def rules_for(self, split: Split) -> VmapRules | None:
        """The rules for a call; None if they are not set."""
        return None if self.rule is None else VmapRules(self, split)


class WithVmap(Protocol[P, R_co]):
    """For type checkers: a `CustomVmap` that is called as the function of the user is."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    def __get__(self, instance: object, owner: type | None = None) -> PyTree: ...
    def def_vmap(self, vmap_rule: Rule) -> Rule: ...


@also_takes()
def custom_vmap(fun: Callable[P, R]) -> WithVmap[P, R]:
    """A function whose behaviour under `vmap` you write yourself.

    Arguments:
        fun: a function of arrays, used where nothing is mapped.

    Example:
        >>> import numpy as np, fgrad
        >>> @fgrad.custom_vmap
        ... def row_sum(x):
        ...     return np.sum(x)
        >>> @row_sum.def_vmap
        ... def row_sum_vmap(axis_size, in_batched, x):
        ...     return np.sum(x, axis=-1), True
        >>> fgrad.vmap(row_sum)(np.ones((2, 3)))
        array([3., 3.])
    """
    return CustomVmap(fun)


@pickles_as_call
@also_takes()
def sequential_vmap(fun: Callable[P, R]) -> WithVmap[P, R]:
    """A function that `vmap` applies to one example after the other, in a loop.

    Arguments:
        fun: a function of arrays.

    Example:
        >>> import numpy as np, fgrad
        >>> f = fgrad.sequential_vmap(lambda x: x * x)
        >>> fgrad.vmap(f)(np.arange(3.0))
        array([0., 1., 4.])
    """
    mapped = CustomVmap(fun)

    def rule(axis_size: int, in_batched: PyTree, *args: PyTree) -> tuple[PyTree, PyTree]:
        leaves, treedef = tree.flatten(args)
        flags = tree.leaves(in_batched)
        batched = [as_value(x) for x, b in zip(leaves, flags, strict=True) if b]
        trees: list[tree.TreeDef] = []

        def one(blocks: Values) -> list[Value]:
            each = iter(blocks)
            given = [
                index(next(each), (0,)) if b else x for x, b in zip(leaves, flags, strict=True)
            ]
            outs, out_tree = tree.flatten(user_form(fun)(*tree.unflatten(treedef, given)))
            trees.append(out_tree)
            return [batch_first(1, as_value(y), None) for y in outs]

        found = map_chunks(one, batched, cut(axis_size, 1, "sequential_vmap"))
        return tree.unflatten(trees[-1], found), True

    mapped.def_vmap(rule)
    return mapped


class VmapRules(UserRules):
    """The user's rule on flat values."""

    owner: CustomVmap
    differentiates = False

    def save(
        self, values: Values, traced: Sequence[bool], program: PyTree
    ) -> tuple[Sequence[Value], PyTree]:
        """The results alone: derivatives run the program again."""
        return self.evaluated(program, values), None

    def push(self, primals: Values, tangents: Pushed, program: PyTree, saved: PyTree) -> Pushed:
        """The tangents of the results, by the program."""
        return push_program(program, primals, tangents, run)

    def pull(
        self, cts: Pushed, wanted: Sequence[bool], values: Values, program: PyTree, saved: PyTree
    ) -> Pushed:
        """Run the program again, and pull back."""
        builder = Builder("vjp", program.name, eager=True, saves=True)
        with builder.running, builder:
            inputs = [builder.input(x, None) for x in known_values(values, program.in_avals)]
            results = [builder.lift(y) for y in run(program, inputs)]
            tape = Tape(builder, results, wanted)
        builder.release()
        pulled = iter(pull_selected(tape, cts, release=True))
        return [next(pulled) if want else None for want in wanted]

    def batch(
        self, size: int, operands: Values, dims: Sequence[int | None], program: Program
    ) -> tuple[Values, Sequence[int | None]]:
        """By the user's rule; by the function, if what it closes over differs between examples."""
        n = self.n_captured
        if any([d is not None for d in dims[:n]]):
            outs = run(batched_first(program, size, tuple(dims)), operands)
            return outs, [0] * len(outs)
        values = [
            x if d is None else move_axis(x, d, 0)
            for x, d in zip(operands[n:], dims[n:], strict=True)
        ]
        pairs = self.batched(size, [d is not None for d in dims[n:]], [*operands[:n], *values])
        return [y for y, _ in pairs], [0 if b else None for _, b in pairs]

    def batched(self, size: int, flags: Sequence[bool], values: Values) -> list[tuple[Value, bool]]:
        """The results of a batch, and which of them are batched; the first values are captured."""
        n = self.n_captured
        rule, treedef = self.owner.rule, self.split.treedef
        assert rule is not None
        found_flags: list[bool] = []
        found_tree: list[tree.TreeDef] = []

        def flat(*inputs: Value) -> PyTree:
            in_batched = list(tree.unflatten(treedef, flags))
            with self.standing(inputs[:n]):
                found = settled(
                    user_form(rule)(size, in_batched, *tree.unflatten(treedef, inputs[n:]))
                )
            if not (is_tuple_like(found) or is_list(found)) or len(found) != 2:
                raise self.refuse(
                    "must return a pair (result, which parts are batched)",
                    f"it is {described(found)}",
                )
            out, out_batched = found
            leaves, out_tree = tree.flatten(out)
            found_tree.append(out_tree)
            if out_tree != self.out_tree:
                raise self.refuse(
                    f"must return the result of {self.name} first",
                    f"it has structure {out_tree}, but {self.name} returns {self.out_tree}",
                )
            try:
                found_flags.extend(map(bool, tree.broadcast_prefix(out_batched, out)))
            except (ValueError, TypeError):
                raise self.refuse(
                    "must say which parts of the result are batched",
                    f"its flags are {out_batched}, but the result has structure {out_tree}",
                ) from None
            return [as_value(x, f"a result of the rule of {self.name}") for x in leaves]

        outs = evaluate_beneath(flat, values, self.name).leaves
        for k, (y, aval, b) in enumerate(zip(outs, self.expected or (), found_flags, strict=True)):
            expected = Aval((size, *aval.shape), aval.dtype) if b else aval
            if not aval_of(y).fits(expected):
                raise self.refuse(
                    "must return the results of all examples",
                    f"result {k} is {aval_of(y).strong()}, but it must be {expected}",
                )
        return list(zip(outs, found_flags, strict=True))

    def refuse(self, headline: str, found: str) -> CustomRuleError:
        """The card for a rule whose result does not fit."""
        assert self.owner.rule is not None
        return CustomRuleError(
            f"The batching rule of {self.name} {headline}.",
            (("found", found), line_of(self.owner.rule, "rule")),
        )
