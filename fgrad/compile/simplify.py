"""L5. Pass `simplify`: local laws of algebra, applied where they match.

`EXACT` holds laws that keep every result to the last bit, but for the sign of zero and the order in
which equal terms are added; `FASTMATH` the laws of real numbers, applied on request.  A law is a
function whose docstring is the law; it returns what stands for the equation's result, or None.
`APPLIED` counts how often each law was used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad.compile.cse import atom_key
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import resolve_atom, substitute

APPLIED: Counter[str] = Counter()


class Law(NamedTuple):
    """A law and the primitives it rewrites, by name; "elementwise": all with a scalar row."""

    apply: Callable[[Rewriter, Eqn], Atom | None]
    prims: str

    @property
    def name(self) -> str:
        """The name of the law's function."""
        return self.apply.__name__


def simplify(program: Program, fastmath: bool = False) -> Program:
    """The program with the laws applied in one walk.

    Requires nothing.  Ensures that no law of the tables matches, where operands come from equations
    of the program; equations that are no longer read stay, for `dce`.
    """
    return Rewriter(_FAST if fastmath else _EXACT).run(program)


class Rewriter:
    """The new equations so far, and what old variables became."""

    def __init__(self, laws: dict[str, list[Law]]) -> None:
        self.laws = laws
        self.env: dict[Var, Atom] = {}
        self.eqns: list[Eqn] = []
        self.defined: dict[Var, Eqn] = {}
        self.like: Eqn | None = None

    def run(self, program: Program) -> Program:
        before = sum(APPLIED.values())
        for eqn in program.eqns:
            self.like = eqn
            eqn = substitute(eqn, self.env)
            new = None if eqn.prim.multiple else self.rewritten(eqn)
            if new is None:
                self.append(eqn)
            else:
                self.env[eqn.outputs[0]] = new
        if sum(APPLIED.values()) == before:
            return program
        outputs = tuple([resolve_atom(a, self.env) for a in program.outputs])
        return program.replace(eqns=tuple(self.eqns), outputs=outputs, made_by="simplify")

    def append(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        if not eqn.prim.multiple:
            self.defined[eqn.outputs[0]] = eqn

    def rewritten(self, eqn: Eqn) -> Atom | None:
        for law in self.laws.get(eqn.prim.name, ()):
            new = law.apply(self, eqn)
            if new is not None and new.aval.shape == eqn.outputs[0].aval.shape:
                APPLIED[law.name] += 1
                return new
        return None

    def make(self, name: str, *inputs: Atom, **params: Any) -> Atom:
        """The result of a new equation, simplified in its turn."""
        prim = REGISTRY[name]
        aval = prim.type_of(*[x.aval for x in inputs], **params)
        like = self.like
        assert like is not None
        eqn = Eqn(prim, inputs, Params(params), (Var(aval),), like.loc, like.via)
        new = self.rewritten(eqn)
        if new is None:
            self.append(eqn)
            return eqn.outputs[0]
        return new

    def source(self, atom: Atom, *names: str) -> Eqn | None:
        """The equation of an atom, if its primitive is one of `names`."""
        eqn = self.defined.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.prim.name in names else None

    def full(self, number: Atom, shape: tuple[int, ...]) -> Atom:
        """A scalar repeated to a shape."""
        return self.make("broadcast", number, shape=shape, dims=()) if shape else number


def _number(atom: Atom) -> Any:
    """The Python number of a literal, or None."""
    return atom.value.item() if isinstance(atom, Lit) else None


def _lit(value: Any, dtype: np.dtype) -> Lit:
    return Lit(dtype.type(value))


def _is_float(atom: Atom) -> bool:
    return atom.aval.dtype.kind in "fc"


def _same(x: Atom, y: Atom) -> bool:
    return atom_key(x) == atom_key(y)


# --- moving elements


def drop_identity(r: Rewriter, e: Eqn) -> Atom | None:
    """move(x) -> x, where nothing moves"""
    x, p, shape = e.inputs[0], e.params, e.inputs[0].aval.shape
    still = {
        "permute": lambda: p["axes"] == tuple(range(len(shape))),
        "reshape": lambda: p["shape"] == shape,
        "broadcast": lambda: p["shape"] == shape,
        "slice": lambda: p["stop"] == shape and not any(p["start"]) and set(p["step"]) <= {1},
        "pad": lambda: not any(p["low"] + p["high"] + p["interior"]),
        "reverse": lambda: all([shape[a] == 1 for a in p["axes"]]),
        "index": lambda: not p["ints"],
        "convert": lambda: p["dtype"] == x.aval.dtype,
        "concatenate": lambda: len(e.inputs) == 1,
        "stop_gradient": lambda: True,
    }
    return x if still[e.prim.name]() else None


def compose_permutes(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(permute(x, a), b) -> permute(x, a[b])"""
    inner = r.source(e.inputs[0], "permute")
    if inner is None:
        return None
    axes = tuple([inner.params["axes"][b] for b in e.params["axes"]])
    return r.make("permute", inner.inputs[0], axes=axes)


def compose_reshapes(r: Rewriter, e: Eqn) -> Atom | None:
    """reshape(reshape(x)) -> reshape(x)"""
    inner = r.source(e.inputs[0], "reshape")
    return None if inner is None else r.make("reshape", inner.inputs[0], shape=e.params["shape"])


def permute_as_reshape(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(x) -> reshape(x), where only axes of length 1 move"""
    shape, axes = e.inputs[0].aval.shape, e.params["axes"]
    long = [a for a in axes if shape[a] != 1]
    if long != sorted(long):
        return None
    return r.make("reshape", e.inputs[0], shape=e.outputs[0].aval.shape)


def compose_broadcasts(r: Rewriter, e: Eqn) -> Atom | None:
    """broadcast(broadcast(x, a), b) -> broadcast(x, b[a])"""
    inner = r.source(e.inputs[0], "broadcast")
    if inner is None:
        return None
    dims = tuple([e.params["dims"][d] for d in inner.params["dims"]])
    return r.make("broadcast", inner.inputs[0], shape=e.params["shape"], dims=dims)


def move_scalar(r: Rewriter, e: Eqn) -> Atom | None:
    """move(broadcast(scalar)) -> broadcast(scalar)"""
    inner = r.source(e.inputs[0], "broadcast")
    if inner is None or inner.inputs[0].aval.shape or len(e.inputs) > 1:
        return None
    return r.full(inner.inputs[0], e.outputs[0].aval.shape)


def permute_broadcast(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(broadcast(x)) -> broadcast(permute(x))"""
    inner = r.source(e.inputs[0], "broadcast")
    if inner is None:
        return None
    place = {a: k for k, a in enumerate(e.params["axes"])}
    dims = [place[d] for d in inner.params["dims"]]
    order = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    x = r.make("permute", inner.inputs[0], axes=order)
    return r.make("broadcast", x, shape=e.outputs[0].aval.shape, dims=tuple(sorted(dims)))


def compose_slices(r: Rewriter, e: Eqn) -> Atom | None:
    """slice(slice(x)) -> slice(x)"""
    inner = r.source(e.inputs[0], "slice")
    if inner is None:
        return None
    start, stop, step = [], [], []
    outer = zip(e.params["start"], e.outputs[0].aval.shape, e.params["step"], strict=True)
    bounds = zip(
        inner.params["start"], inner.params["step"], inner.inputs[0].aval.shape, strict=True
    )
    for (a, n, s), (b, t, length) in zip(outer, bounds, strict=True):
        first = min(b + a * t, length)
        start.append(first)
        step.append(s * t)
        stop.append(first + (n - 1) * s * t + 1 if n else first)
    return r.make("slice", inner.inputs[0], start=tuple(start), stop=tuple(stop), step=tuple(step))


def undo_reverse(r: Rewriter, e: Eqn) -> Atom | None:
    """reverse(reverse(x)) -> x"""
    inner = r.source(e.inputs[0], "reverse")
    same = inner is not None and set(inner.params["axes"]) == set(e.params["axes"])
    return inner.inputs[0] if same and inner is not None else None


def undo_convert(r: Rewriter, e: Eqn) -> Atom | None:
    """convert(convert(x, wider), dtype of x) -> x"""
    inner = r.source(e.inputs[0], "convert")
    if inner is None:
        return None
    x, wide, last = inner.inputs[0], e.inputs[0].aval.dtype, e.params["dtype"]
    if not np.can_cast(x.aval.dtype, wide):
        return None
    return r.make("convert", x, dtype=last)


def static_slice(r: Rewriter, e: Eqn) -> Atom | None:
    """dynamic_slice(x, known starts) -> slice(x)"""
    x, *starts = e.inputs
    numbers = [_number(s) for s in starts]
    if any(n is None for n in numbers):
        return None
    sizes = e.params["sizes"]
    first = [
        min(max(n, 0), length - size)
        for n, length, size in zip(numbers, x.aval.shape, sizes, strict=True)
    ]
    stop = tuple([a + size for a, size in zip(first, sizes, strict=True)])
    return r.make("slice", x, start=tuple(first), stop=stop, step=(1,) * len(first))


# --- elementwise


def broadcast_literal(r: Rewriter, e: Eqn) -> Atom | None:
    """f(x, broadcast(c)) -> f(x, c), for a literal c"""
    found = [r.source(a, "broadcast") for a in e.inputs]
    literal = [
        b.inputs[0] if b is not None and isinstance(b.inputs[0], Lit) else a
        for a, b in zip(e.inputs, found, strict=True)
    ]
    if all(a is b for a, b in zip(literal, e.inputs, strict=True)):
        return None
    if all(isinstance(a, Lit) for a in literal):
        return r.full(r.make(e.prim.name, *literal, **e.params), e.outputs[0].aval.shape)
    return r.make(e.prim.name, *literal, **e.params)


def hoist_broadcast(r: Rewriter, e: Eqn) -> Atom | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), of equal shapes and axes"""
    found = [r.source(a, "broadcast") for a in e.inputs if not isinstance(a, Lit)]
    if not found or any(b is None for b in found):
        return None
    first = found[0]
    assert first is not None
    for b in found:
        assert b is not None
        if b.params["dims"] != first.params["dims"]:
            return None
    inner = iter([b.inputs[0] for b in found if b is not None])
    x = r.make(
        e.prim.name, *[a if isinstance(a, Lit) else next(inner) for a in e.inputs], **e.params
    )
    return r.make("broadcast", x, shape=e.outputs[0].aval.shape, dims=first.params["dims"])


def fold_literals(r: Rewriter, e: Eqn) -> Atom | None:
    """f(c) -> the number"""
    if not all(isinstance(a, Lit) for a in e.inputs):
        return None
    with np.errstate(all="ignore"):
        value = e.prim.evaluate_rule(*[a.value for a in e.inputs], **e.params)  # type: ignore[union-attr]
    return _lit(value, e.outputs[0].aval.dtype)


def literal_last(r: Rewriter, e: Eqn) -> Atom | None:
    """c + x -> x + c"""
    x, y = e.inputs
    if not isinstance(x, Lit) or isinstance(y, Lit):
        return None
    return r.make(e.prim.name, y, x)


def add_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x + (-0.0) -> x and x - 0.0 -> x; for integers x + 0 -> x and x - 0 -> x"""
    x, y = e.inputs
    if _number(y) != 0 or y.aval.dtype.kind == "b":
        return None
    if not _is_float(y):
        return x
    if y.aval.dtype.kind == "c":
        return None
    negative = math.copysign(1.0, _number(y)) < 0
    return x if negative == (e.prim.name == "add") else None


def multiply_one(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 1 -> x and x / 1 -> x"""
    x, y = e.inputs
    return x if _number(y) == 1 and y.aval.dtype.kind != "b" else None


def multiply_minus_one(r: Rewriter, e: Eqn) -> Atom | None:
    """x * -1 -> -x"""
    x, y = e.inputs
    return r.make("neg", x) if _number(y) == -1 and x.aval.dtype.kind in "if" else None


def multiply_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 0 -> 0, for integers"""
    x, y = e.inputs
    if _number(y) != 0 or x.aval.dtype.kind not in "iu":
        return None
    return r.full(y, e.outputs[0].aval.shape)


def double_negation(r: Rewriter, e: Eqn) -> Atom | None:
    """-(-x) -> x and not not x -> x"""
    inner = r.source(e.inputs[0], e.prim.name)
    return None if inner is None else inner.inputs[0]


def add_negative(r: Rewriter, e: Eqn) -> Atom | None:
    """x + (-y) -> x - y, (-x) + y -> y - x and x - (-y) -> x + y"""
    x, y = e.inputs
    right = r.source(y, "neg")
    if right is not None:
        return r.make("sub" if e.prim.name == "add" else "add", x, right.inputs[0])
    left = r.source(x, "neg") if e.prim.name == "add" else None
    return None if left is None else r.make("sub", y, left.inputs[0])


def negative_factor(r: Rewriter, e: Eqn) -> Atom | None:
    """(-x) * c -> x * (-c) and (-x) / c -> x / (-c)"""
    inner, c = r.source(e.inputs[0], "neg"), _number(e.inputs[1])
    if inner is None or c is None or e.inputs[1].aval.dtype.kind not in "f":
        return None
    return r.make(e.prim.name, inner.inputs[0], _lit(-c, e.inputs[1].aval.dtype))


def negative_factors(r: Rewriter, e: Eqn) -> Atom | None:
    """(-x) * (-y) -> x * y"""
    left, right = (r.source(a, "neg") for a in e.inputs)
    if left is None or right is None:
        return None
    return r.make(e.prim.name, left.inputs[0], right.inputs[0])


def negate_product(r: Rewriter, e: Eqn) -> Atom | None:
    """-(x * c) -> x * (-c)"""
    inner = r.source(e.inputs[0], "mul", "div")
    c = None if inner is None else _number(inner.inputs[1])
    if inner is None or c is None or inner.inputs[1].aval.dtype.kind not in "f":
        return None
    return r.make(inner.prim.name, inner.inputs[0], _lit(-c, inner.inputs[1].aval.dtype))


def divide_power_of_two(r: Rewriter, e: Eqn) -> Atom | None:
    """x / 2**k -> x * 2**-k"""
    x, y = e.inputs
    c = _number(y)
    if c is None or y.aval.dtype.kind != "f" or not math.isfinite(c) or c == 0:
        return None
    if abs(math.frexp(c)[0]) != 0.5 or not 2.0**-14 <= abs(c) <= 2.0**14:
        return None
    return r.make("mul", x, _lit(1 / c, y.aval.dtype))


def small_power(r: Rewriter, e: Eqn) -> Atom | None:
    """x ** 1 -> x, x ** 2 -> x x, x ** 3 -> x x x, x ** 4 -> (x x)(x x), x ** -1 -> 1 / x"""
    x, y = e.inputs
    c = _number(y)
    if isinstance(x, Lit) or c not in (1, 2, 3, 4, -1):
        return None
    if c == -1:
        return r.make("div", _lit(1, x.aval.dtype), x) if _is_float(x) else None
    square = r.make("mul", x, x) if c > 1 else x
    if c == 4:
        return r.make("mul", square, square)
    return r.make("mul", square, x) if c == 3 else square


def half_power(r: Rewriter, e: Eqn) -> Atom | None:
    """x ** -0.5 -> sqrt(1 / (x + 0)) and x ** -1.5 -> t sqrt(t) with t = 1 / (x + 0);
    x ** 0.5 -> sqrt(x + 0) and x ** 1.5 -> x sqrt(x), but inf at -inf"""
    x, y = e.inputs
    c, dtype = _number(y), x.aval.dtype
    if isinstance(x, Lit) or dtype.kind != "f" or c not in (0.5, 1.5, -0.5, -1.5):
        return None
    base = r.make("add", x, _lit(0.0, dtype))
    if c < 0:
        base = r.make("div", _lit(1, dtype), base)
    root = r.make("sqrt", base)
    out = r.make("mul", base, root) if abs(c) == 1.5 else root
    if c < 0:
        return out
    infinite = r.make("eq", x, _lit(-math.inf, dtype))
    return r.make("select", infinite, _lit(math.inf, dtype), out)


def masked_by_number(r: Rewriter, e: Eqn) -> Atom | None:
    """masked_mul(t, c) -> t * c, masked_div(t, c) -> t / c, for a finite c that is not 0 below"""
    c = _number(e.inputs[1])
    if c is None or isinstance(c, complex) or not math.isfinite(c):
        return None
    if e.prim.name == "masked_mul":
        return r.make("mul", *e.inputs)
    return r.make("div", *e.inputs) if c else None


def select_known(r: Rewriter, e: Eqn) -> Atom | None:
    """select(True, x, y) -> x, select(False, x, y) -> y and select(c, x, x) -> x"""
    c, x, y = e.inputs
    chosen = None
    if isinstance(c, Lit):
        chosen = x if c.value else y
    elif _same(x, y):
        chosen = x
    return None if chosen is None or chosen.aval.shape != e.outputs[0].aval.shape else chosen


def select_not(r: Rewriter, e: Eqn) -> Atom | None:
    """select(not c, x, y) -> select(c, y, x)"""
    inner = r.source(e.inputs[0], "not")
    return None if inner is None else r.make("select", inner.inputs[0], e.inputs[2], e.inputs[1])


def idempotent(r: Rewriter, e: Eqn) -> Atom | None:
    """max(x, x) -> x, and so for min, and, or"""
    return e.inputs[0] if _same(*e.inputs) else None


# --- reductions


def reduce_nothing(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(x, axes of length 1) -> reshape(x)"""
    x = e.inputs[0]
    if any(x.aval.shape[a] != 1 for a in e.params["axes"]):
        return None
    return r.make("reshape", x, shape=e.outputs[0].aval.shape)


def compose_reductions(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(reduce(x, a), b) -> reduce(x, a and b)"""
    inner = r.source(e.inputs[0], e.prim.name)
    if inner is None:
        return None
    done = inner.params["axes"]
    left = [a for a in range(inner.inputs[0].aval.ndim) if a not in done]
    axes = tuple(sorted([*done, *[left[b] for b in e.params["axes"]]]))
    return r.make(e.prim.name, inner.inputs[0], axes=axes)


def reduce_repeated(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce_sum(broadcast(x), new axes) -> n x; reduce_max(...) -> x, and so for min, any, all"""
    inner = r.source(e.inputs[0], "broadcast")
    if inner is None:
        return None
    dims, axes, x = inner.params["dims"], e.params["axes"], inner.inputs[0]
    new = [a for a in axes if a not in dims]
    if not new or math.prod([e.inputs[0].aval.shape[a] for a in axes]) == 0:
        return None
    times = math.prod([e.inputs[0].aval.shape[a] for a in new])
    own = tuple([dims.index(a) for a in axes if a in dims])
    if own:
        x = r.make(e.prim.name, x, axes=own)
    left = [a for a in range(e.inputs[0].aval.ndim) if a not in axes]
    kept = [left.index(d) for d in dims if d not in axes]
    if e.prim.name == "reduce_sum":
        if x.aval.dtype.kind == "b":
            return None
        x = r.make("mul", x, _lit(times, x.aval.dtype))
    return r.make("broadcast", x, shape=e.outputs[0].aval.shape, dims=tuple(kept))


def reduce_permuted(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(permute(x)) -> permute(reduce(x))"""
    inner = r.source(e.inputs[0], "permute")
    if inner is None:
        return None
    order = inner.params["axes"]
    axes = tuple(sorted([order[a] for a in e.params["axes"]]))
    kept = [order[a] for a in range(len(order)) if a not in e.params["axes"]]
    rank = sorted(kept)
    x = r.make(e.prim.name, inner.inputs[0], axes=axes)
    return r.make("permute", x, axes=tuple([rank.index(a) for a in kept]))


# --- laws of real numbers


def add_float_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x + 0.0 -> x and x - 0.0 -> x"""
    return e.inputs[0] if _number(e.inputs[1]) == 0 else None


def subtract_itself(r: Rewriter, e: Eqn) -> Atom | None:
    """x - x -> 0"""
    x, y = e.inputs
    return r.full(_lit(0, x.aval.dtype), x.aval.shape) if _same(x, y) else None


def multiply_float_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 0.0 -> 0.0"""
    if _number(e.inputs[1]) != 0:
        return None
    return r.full(_lit(0, e.inputs[1].aval.dtype), e.outputs[0].aval.shape)


def merge_factors(r: Rewriter, e: Eqn) -> Atom | None:
    """(x * a) * b -> x * (a b)"""
    inner, b = r.source(e.inputs[0], "mul"), _number(e.inputs[1])
    a = None if inner is None else _number(inner.inputs[1])
    if inner is None or a is None or b is None:
        return None
    return r.make("mul", inner.inputs[0], _lit(a * b, e.inputs[1].aval.dtype))


def divide_number(r: Rewriter, e: Eqn) -> Atom | None:
    """x / c -> x * (1 / c)"""
    c = _number(e.inputs[1])
    if not c:
        return None
    return r.make("mul", e.inputs[0], _lit(1 / c, e.inputs[1].aval.dtype))


def undo_exp(r: Rewriter, e: Eqn) -> Atom | None:
    """log(exp(x)) -> x and exp(log(x)) -> x"""
    inner = r.source(e.inputs[0], "exp" if e.prim.name == "log" else "log")
    return None if inner is None else inner.inputs[0]


def negate_difference(r: Rewriter, e: Eqn) -> Atom | None:
    """-(x - y) -> y - x"""
    inner = r.source(e.inputs[0], "sub")
    return None if inner is None else r.make("sub", inner.inputs[1], inner.inputs[0])


_REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min reduce_any reduce_all"

EXACT: tuple[Law, ...] = (
    Law(drop_identity, "permute reshape broadcast slice pad reverse index convert concatenate "
                       "stop_gradient"),
    Law(fold_literals, "elementwise"),
    Law(compose_permutes, "permute"),
    Law(compose_reshapes, "reshape"),
    Law(compose_broadcasts, "broadcast"),
    Law(move_scalar, "permute reshape slice reverse index"),
    Law(permute_broadcast, "permute"),
    Law(permute_as_reshape, "permute"),
    Law(compose_slices, "slice"),
    Law(undo_reverse, "reverse"),
    Law(undo_convert, "convert"),
    Law(static_slice, "dynamic_slice"),
    Law(broadcast_literal, "elementwise"),
    Law(hoist_broadcast, "elementwise"),
    Law(literal_last, "add mul max min and or xor"),
    Law(add_zero, "add sub"),
    Law(multiply_one, "mul div"),
    Law(multiply_minus_one, "mul"),
    Law(multiply_zero, "mul"),
    Law(double_negation, "neg not"),
    Law(add_negative, "add sub"),
    Law(negative_factors, "mul div"),
    Law(negative_factor, "mul div"),
    Law(negate_product, "neg"),
    Law(divide_power_of_two, "div"),
    Law(small_power, "pow"),
    Law(half_power, "pow"),
    Law(masked_by_number, "masked_mul masked_div"),
    Law(select_known, "select"),
    Law(select_not, "select"),
    Law(idempotent, "max min and or"),
    Law(reduce_nothing, _REDUCTIONS),
    Law(compose_reductions, _REDUCTIONS),
    Law(reduce_repeated, "reduce_sum reduce_max reduce_min reduce_any reduce_all"),
    Law(reduce_permuted, _REDUCTIONS),
)  # fmt: skip

FASTMATH: tuple[Law, ...] = (
    Law(add_float_zero, "add sub"),
    Law(subtract_itself, "sub"),
    Law(multiply_float_zero, "mul"),
    Law(merge_factors, "mul"),
    Law(divide_number, "div"),
    Law(undo_exp, "log exp"),
    Law(negate_difference, "neg"),
)

_Table: TypeAlias = "dict[str, list[Law]]"


class _ByPrimitive(dict[str, "list[Law]"]):
    """The laws of a primitive in the order of the tables, found at first use."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        super().__init__()
        self.all = laws

    def get(self, name: str, default: Any = ()) -> list[Law]:  # type: ignore[override]
        found = super().get(name)
        if found is None:
            kinds = {name} | ({"elementwise"} if REGISTRY[name].scalar is not None else set())
            found = self[name] = [law for law in self.all if kinds & set(law.prims.split())]
        return found


_EXACT: _Table = _ByPrimitive(EXACT)
_FAST: _Table = _ByPrimitive(EXACT + FASTMATH)
