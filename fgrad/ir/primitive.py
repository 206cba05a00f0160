"""L1. Primitives: the atoms of the IR, each with all of its mathematics in one object.

Each slot holds a rule or an explicit `Refusal`, and is written once; only the statement that wrote
it may write it again, as when an interrupted import runs its module anew.  The rules re-enter
`bind`, so every transform composes with every other.

    type_rule(*avals, **params) -> Aval, or a tuple of them if `multiple`
    evaluate(*arrays, **params) -> array(s): the reference semantics and the eager path, in NumPy
    jvp(primals, tangents, outs, **params) -> tangent(s) of the outputs; a known-zero tangent is
        None, both ways; `outs` are the outputs that were already computed
    transpose(ct, wanted, *operands, **params) -> a cotangent, or None, for each operand; only for
        linear primitives (`linear_in`).  Of a wanted operand it reads the shape and dtype, never
        the value.  `ct` is a tuple (with None for zero) if `multiple`
    batch(size, operands, dims, **params) -> (out(s), dim(s)): dims[i] is the batched axis or None

`reads` says which values the derivative in each operand reads: places of operands, or `OUT` for the
result(s).  A tape does not keep the other values: of them a derivative rule may read only the shape
and dtype, and for elementwise primitives not even these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, TypeVar

from fgrad.base.lazy_import import load
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import caller
from fgrad.errors import CheckError, UnsupportedTypeError
from fgrad.ir.aval import STORED_INTEGERS, Aval, is_stored
from fgrad.ir.traits import Along, Refusal, Rounding, Traits, given
from fgrad.typing import DType, PyTree

Rule = Callable[..., PyTree]
R = TypeVar("R", bound=Rule)
Places = tuple[int, ...]
Reads = tuple[Places, ...]

OUT = -1  # the place of the result(s) in `reads`


class Opaque:
    """A parameter that compiled code does not depend on, such as a user's derivative rule."""

    __slots__ = ()


NOT_LINEAR = Refusal("is not linear in its operands, so it has no transpose")
DISCRETE = Refusal("has discrete results, so its derivative is zero")

REGISTRY: dict[str, Primitive] = {}

Statement = tuple[str, int]  # the file, and the instruction in its code


def registered(name: str, module: str | None) -> Primitive:
    """The primitive of a name, after its module is imported; this is how primitives unpickle."""
    if module is not None:
        load(module)
    return REGISTRY[name]


def _statement() -> tuple[Statement | None, str | None]:
    """The module-level statement that is being executed, and the name of its module; None twice if
    no module is being imported."""
    frame = caller()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    if frame is None:
        return None, None
    return (frame.f_code.co_filename, frame.f_lasti), frame.f_globals.get("__name__")


def reads_nothing(count: int) -> Reads:
    """The reads of a primitive whose derivatives read no value."""
    return ((),) * count


def reads_others(count: int) -> Reads:
    """The reads of a primitive that is linear in its first operand, the others being integers."""
    return (tuple(range(1, count)), *[()] * (count - 1))


class Moves(NamedTuple):
    """What the rules of a linear primitive that only moves and adds elements do.

    Such rules also apply to bool arrays: the supports of tangents and cotangents (ops/selected.py).
    """

    transpose_gaps: bool  # whether the transpose leaves zeros where nothing is moved to
    jvp_gaps: bool
    transpose_adds: bool  # whether the transpose adds elements
    jvp_adds: bool
    holds_for: Rule  # of the parameters: whether all this is true for them


class Primitive:
    """A named operation with write-once rules.

    Arguments:
        name: the word that the printed IR uses; unique.
        traits: what it is, see traits.py; passes read the attributes, which are None if refused.
        params: the names of its static parameters, in the order of printing.
        linear_in: "all" (jointly linear in all operands), "each" (bilinear), the places of the
            operands in which it is jointly linear, a function of the params that returns them, or
            None.
        multiple: whether it returns a tuple of outputs.
        scalar: for elementwise ones, the operation of the scalar table on one element.
        reads: which values the derivative in each operand reads, or a function of the number of
            operands that says so; if it is None, nothing for `linear_in="all"`, the other operand
            for "each", and everything for all others.
    """

    SLOTS = ("type_rule", "evaluate", "jvp", "transpose", "batch")

    def __init__(
        self,
        name: str,
        traits: Traits,
        params: tuple[str, ...] = (),
        linear_in: str | tuple[int, ...] | Rule | None = None,
        multiple: bool = False,
        scalar: str | None = None,
        reads: Reads | Callable[[int], Reads] | None = None,
    ) -> None:
        self.defined, self.module = _statement()
        if name in REGISTRY and (self.defined is None or REGISTRY[name].defined != self.defined):
            raise CheckError(f"primitive {name!r} is defined twice")
        self.name = name
        self.traits = traits
        self.movement = given(traits.movement)
        self.fold = given(traits.fold)
        self.holds = given(traits.holds)
        self.host = given(traits.host)
        self.cost = given(traits.cost)
        self.rounding = given(traits.rounding)
        self.elementwise, self.commutative = traits.elementwise, traits.commutative
        self.contracts, self.addresses = traits.contracts, traits.addresses
        self.finite = traits.finite
        self.algorithm = given(traits.algorithm)
        self.flops_over_n3 = given(traits.flops_over_n3)
        self.operator = given(traits.operator)
        self.constants = given(traits.constants)
        self.across = given(traits.across)
        self.meets_axes = self.across is not None or self.holds is not None
        self.params = params
        self.linear_in = linear_in
        self.multiple = multiple
        self.scalar = scalar
        self.reads = reads
        self.unread: dict[int, Places] = {}  # see `unread_by`
        self.rules: dict[str, Rule | Refusal] = {}
        self.written: dict[str, Statement | None] = {}
        self.maps: tuple[Rule | None, ...] = ()  # elementwise derivative maps, one for each operand
        # harmless(k, values): whether the map of operand k makes zero of zero; None if never
        self.harmless: Rule | None = None
        self.owner: object = None  # of a user's primitive: the function that has it as `prim`
        # Read on every eager call, so plain attributes; filled by the setters below.
        self.evaluate_rule: Rule = self._missing("evaluate")
        self.type_of: Rule = self._missing("type_rule")
        self.discrete = False
        # Optional, for primitives that hold a program, and for speed:
        # save(values, traced, params) -> (outs, residuals): evaluation in a differentiated trace;
        #     the residuals become the parameter "saved" of the record, and no other value is read
        # linearizes: whether `save` serves forward derivatives too
        # pullback(cts, wanted, values, outs, params) -> cotangents: instead of jvp and transpose;
        #     NotImplemented where these shall serve
        # composition(avals, **params) -> Program: what compiled code runs in its place
        # accumulate(buffer, ct, values, params): add the transpose of ct in place, in NumPy
        # places(values, params): what is read along each axis, for those that only read: `Places`
        #     (ops/places.py), or an integer array, all of which have one shape
        # supports(record, cts, parts) -> cotangents of operands with the supports that follow
        # selects: whether `pullback` and `jvp` take and give `Selected` values (ops/selected.py)
        # moved_back: the transpose, if it is linear in all operands and leaves no zeros in gaps;
        # each_back: if it is linear in each of them
        # moves: for linear ones whose rules serve bool arrays too, see `Moves`
        # reorders(values, params): whether a result of operands in C order is not (tracing/layouts)
        # makes_order: whether the result lies in C order whatever the operands do
        # effect: whether it does more than compute, so that it runs once, in order, used or not
        # checks: whether it raises for some values, so that it runs, used or not
        self.save: Rule | None = None
        self.linearizes = False
        self.effect = self.checks = False
        self.composition: Rule | None = None
        self.pullback: Rule | None = None
        self.selects = False
        self.supports: Rule | None = None
        self.moves: Moves | None = None
        self.moved_back: Rule | None = None
        self.each_back: Rule | None = None
        self.accumulate: Rule | None = None
        self.places: Rule | None = None
        self.reorders: Rule | None = None
        self.makes_order = False
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        if self.owner is not None:
            return getattr, (self.owner, "prim")
        return registered, (self.name, self.module)

    def unread_by(self, pattern: int) -> Places:
        """The places of the values that no derivative reads.

        Arguments:
            pattern: the binary digits 1, and for each operand 1 if it is traced, else 0.
        """
        found = self.unread.get(pattern)
        if found is None:
            found = self.unread[pattern] = self._unread_by([c == "1" for c in f"{pattern:b}"[1:]])
        return found

    def _unread_by(self, traced: list[bool]) -> Places:
        reads, count = self.reads, len(traced)
        if reads is None and self.linear_in == "all":
            reads = reads_nothing
        elif reads is None and self.linear_in == "each":
            reads = ((1,), (0,))
        if callable(reads):
            reads = reads(count)
        if reads is None:
            return ()
        read = {k for places, wanted in zip(reads, traced, strict=True) if wanted for k in places}
        return tuple([k for k in (*range(count), OUT) if k not in read])

    def _missing(self, slot: str) -> Rule:
        def missing(*_args: object, **_params: object) -> NoReturn:
            raise CheckError(f"primitive {self.name!r} has no {slot}")

        return missing

    def _set(self, slot: str, rule: R | Refusal) -> R:
        here, _ = _statement()
        if slot in self.rules and (here is None or self.written[slot] != here):
            raise CheckError(f"slot {slot!r} of primitive {self.name!r} is written twice")
        self.rules[slot], self.written[slot] = rule, here
        return rule  # type: ignore[return-value]

    def type_rule(self, rule: R) -> R:
        """Decorator: set the type rule, which is the checker's rule too."""
        self._set("type_rule", rule)
        self.type_of = rule if self._takes_stored() else self._of_wide(rule)
        return rule

    def _takes_stored(self) -> bool:
        """Whether it takes numbers that can only be moved and converted."""
        return self.holds is not None or self.rounding is Rounding.COPIES or self.name == "convert"

    def _of_wide(self, rule: Rule) -> Rule:
        """A type rule that refuses such numbers."""

        @functools.wraps(rule)
        def type_of(*avals: Aval, **params: object) -> PyTree:
            for aval in avals:
                if is_stored(aval.dtype):
                    raise _stored_numbers(self.name, aval.dtype)
            return rule(*avals, **params)

        return type_of

    def evaluate(self, rule: R) -> R:
        """Decorator: set the NumPy evaluation."""
        self._set("evaluate", rule)
        self.evaluate_rule = rule
        return rule

    def jvp(self, rule: R) -> R:
        """Decorator: set the derivative."""
        return self._set("jvp", rule)

    def transpose(self, rule: R) -> R:
        """Decorator: set the transpose of the linear part."""
        if self.linear_in == "all" and not (self.moves and self.moves.transpose_gaps):
            self.moved_back = rule
        if self.linear_in == "each" and not self.multiple:
            self.each_back = rule
        return self._set("transpose", rule)

    def batch(self, rule: R) -> R:
        """Decorator: set the batching rule."""
        return self._set("batch", rule)

    def refuse(self, slot: str, why: str | Refusal) -> None:
        """Write the reason why a slot has no rule."""
        refusal = why if isinstance(why, Refusal) else Refusal(why)
        self._set(slot, refusal)
        self.discrete = self.discrete or refusal is DISCRETE


def _stored_numbers(name: str, dtype: DType) -> UnsupportedTypeError:
    wide = "np.int8" if dtype.name in STORED_INTEGERS else "np.float32"
    return UnsupportedTypeError(
        f"{name} does not take numbers of dtype {dtype}.",
        (
            ("why", "numbers of 8 bits and less are stored: converted, indexed and moved."),
            ("write", f"x.astype({wide})      the numbers to compute with"),
            ("write", f"y.astype({dtype.name!r})".ljust(25) + "the result, to be stored"),
        ),
    )


def folds(along: Along) -> list[Primitive]:
    """The primitives that fold elements along axes in this way: reductions, cumulative ones, ..."""
    return [p for p in REGISTRY.values() if p.fold is not None and p.fold.along is along]
