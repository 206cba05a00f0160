"""L1. Primitives: the atoms of the IR, each with all of its mathematics in one object.

A slot is a rule or an explicit `Refusal`; a slot is written once.  The rules re-enter `bind`, so
every transform composes with every other.  An import that was interrupted runs its module again:
what one statement has written, that statement may write anew.

    type_rule(*avals, **params) -> Aval, or a tuple of them if `multiple`
    evaluate(*arrays, **params) -> array(s): the reference semantics and the eager path, in NumPy
    jvp(primals, tangents, outs, **params) -> tangent(s) of the outputs; a known-zero tangent is
        None, both ways; `outs` are the outputs that were already computed
    transpose(ct, wanted, *operands, **params) -> a cotangent, or None, for each operand: only for
        primitives that are linear (`linear_in`).  It may read the shape and dtype of a wanted
        operand, never its value.  `ct` is a tuple (with None for zero) if `multiple`
    batch(size, operands, dims, **params) -> (out(s), dim(s)): dims[i] is the batched axis or None

`reads` says which values the derivative in each operand reads: places of operands, or `OUT` for the
result(s).  Of all others a derivative rule may read the shape and dtype alone, and for elementwise
primitives nothing at all, so that a tape lets go of them while the function runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from fgrad.base.lazy_import import load
from fgrad.base.source import caller
from fgrad.errors import CheckError
from fgrad.ir.traits import Along, Refusal, Traits, given
from fgrad.typing import PyTree

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

Statement = tuple[str, int]


def registered(name: str, module: str | None) -> Primitive:
    """The primitive of a name, whose module is imported."""
    if module is not None:
        load(module)
    return REGISTRY[name]


def _statement() -> tuple[Statement | None, str | None]:
    """The file and line of the statement of a module that is running now, and the name of the
    module; None outside of one."""
    frame = caller()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    if frame is None:
        return None, None
    return (frame.f_code.co_filename, frame.f_lineno), frame.f_globals.get("__name__")


def reads_nothing(count: int) -> Reads:
    """The reads of a primitive whose derivatives read no value."""
    return ((),) * count


def reads_others(count: int) -> Reads:
    """The reads of a primitive that is linear in its first operand, the others being integers."""
    return (tuple(range(1, count)), *[()] * (count - 1))


class Moves(NamedTuple):
    """A linear primitive whose rules move and add elements and so do with bool arrays: whether its
    transpose and its jvp leave zeros where nothing is moved to, whether they add elements, and for
    which parameters."""

    transpose_gaps: bool
    jvp_gaps: bool
    transpose_adds: bool
    jvp_adds: bool
    holds_for: Rule


class Primitive:
    """A named operation with write-once rules.

    Arguments:
        name: the word that the printed IR uses; unique.
        traits: what it is, see traits.py; passes read the attributes, which are None if refused.
        params: the names of its static parameters, in printing order.
        linear_in: "all" (linear in all operands jointly), "each" (bilinear: in each one alone), a
            tuple of operand positions it is linear in jointly, a function that says so for the
            params, or None.
        multiple: whether it returns a tuple of outputs.
        scalar: the row of the scalar table that computes one element, for elementwise ones.
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
        self.owner: object = None  # of a user's: the function, whose `prim` this is
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
        # places(values, params): what is read along each axis, for those that only read: a range,
        #     or an integer array, all of which have one shape
        # supports(record, cts, parts) -> cotangents of operands with the supports that follow
        # selects: whether `pullback` and `jvp` take and give `Selected` values (ops/selected.py)
        # moved_back: the transpose, if it is linear in all operands and leaves no zeros in gaps
        # moves: for linear ones whose rules serve bool arrays too, see `Moves`
        # reorders(values, params): whether a result of operands in C order is not (tracing/layouts)
        # makes_order: whether the result lies in C order whatever the operands do
        # effect: whether it does more than compute, so that it runs once, in order, used or not
        self.save: Rule | None = None
        self.linearizes = False
        self.effect = False
        self.composition: Rule | None = None
        self.pullback: Rule | None = None
        self.selects = False
        self.supports: Rule | None = None
        self.moves: Moves | None = None
        self.moved_back: Rule | None = None
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

        The pattern is a number in binary: a leading 1, and a 1 for each operand that is traced.
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
        self.type_of = rule
        return rule

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
        return self._set("transpose", rule)

    def batch(self, rule: R) -> R:
        """Decorator: set the batching rule."""
        return self._set("batch", rule)

    def refuse(self, slot: str, why: str | Refusal) -> None:
        """Leave a slot empty on purpose."""
        refusal = why if isinstance(why, Refusal) else Refusal(why)
        self._set(slot, refusal)
        self.discrete = self.discrete or refusal is DISCRETE


def folds(along: Along) -> list[Primitive]:
    """The primitives that combine the elements along axes in this way."""
    return [p for p in REGISTRY.values() if p.fold is not None and p.fold.along is along]
