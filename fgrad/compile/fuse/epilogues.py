"""L5. GPU pass `join`: fuse bias and activation into the GEMM call.

    product p = dot_general a b; loop y = max (add p (broadcast bias)) 0     ->   product[relu] y

Requires `fuse`.  A loop group becomes an epilogue if it is one as a whole: it reads a product that
nobody else reads, and has one result.  So there is always a group less.  A bias is exact; others
are only taken if they are allowed, as a library's are not: relu drops NaN, gelu is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.fuse.partition import Fusion
from fgrad.compile.passes.legalize_bfloat16 import UINT16, Brain, rounded
from fgrad.compile.passes.mixed_precision_matmul import half_of, on_half
from fgrad.compile.passes.patterns import Pattern
from fgrad.compile.products.matrices import product_of
from fgrad.compile.products.views import Layout, collapsed, view_of
from fgrad.compile.tasks.steps import Group
from fgrad.ir.aval import FLOAT32
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import elementwise as ew
from fgrad.ops.product import product_p
from fgrad.trace import Value


def with_epilogues(fusion: Fusion, program: Program, allowed: bool) -> Fusion:
    """The groups with epilogues; inexact ones if they are `allowed`."""
    return _Joiner(fusion, program, allowed).run()


class _Joiner:
    """One traversal of the groups."""

    def __init__(self, fusion: Fusion, program: Program, allowed: bool) -> None:
        self.groups, self.virtual = fusion.groups, dict(fusion.virtual)
        self.program, self.allowed = program, allowed
        self.made = definitions(program.eqns)

    def run(self) -> Fusion:
        """Drop groups that nothing reads any more, such as the widening of a bias."""
        readers = self.readers(self.groups)
        joined: dict[int, Group | None] = {}
        for group in self.groups:
            eqn = group.eqns[0]
            found = readers.get(eqn.outputs[0], [])
            if group.kind == "library" and eqn.prim.contracts and len(found) == 1:
                product = None if id(found[0]) in joined else self.joined(eqn, found[0])
                if product is not None:
                    joined[id(group)] = None
                    joined[id(found[0])] = Group("library", (product,), product.outputs)
        groups = [g for g in [joined.get(id(g), g) for g in self.groups] if g is not None]
        if joined:
            read = {*self.readers(groups), *self.program.outputs}
            groups = [g for g in groups if g.kind != "loop" or not read.isdisjoint(g.outputs)]
        return Fusion(groups, self.virtual)

    def readers(self, groups: Sequence[Group]) -> dict[Var, list[Group]]:
        """The groups that read each variable, also through what has no buffer."""
        readers: dict[Var, list[Group]] = {}
        for group in groups:
            inside = {v for eqn in group.eqns for v in eqn.outputs}
            seen: set[Var] = set()
            pending = [a for eqn in group.eqns for a in eqn.inputs]
            while pending:
                atom = pending.pop()
                if isinstance(atom, Var) and atom not in seen and atom not in inside:
                    seen.add(atom)
                    if atom in self.virtual:
                        pending += self.virtual[atom].inputs
                    else:
                        readers.setdefault(atom, []).append(group)
        return readers

    def joined(self, product: Eqn, group: Group) -> Eqn | None:
        """The product with the group as its epilogue; None if it is no epilogue."""
        numbers, (out,) = _numbers(product), product.outputs
        if numbers is None or group.kind != "loop" or len(group.outputs) != 1:
            return None
        (result,) = group.outputs
        if out in self.program.outputs or out.aval.strong() != result.aval.strong():
            return None
        for form in _forms(numbers.result, self.allowed):
            match = form.pattern.match(result, self.made, out)
            if match is None:
                continue
            inside = {id(eqn) for eqn in match.eqns}
            bias = [self.bias(x, product, numbers.result) for x in match.operands[1:]]
            if None not in bias and all([id(e) in inside for e in group.eqns]):
                params = {name: product.params[name] for name in ("contract", "batch")}
                params |= {**numbers._asdict(), "epilogue": form.epilogue}
                return product._replace(
                    prim=product_p, inputs=(*product.inputs, *bias), params=Params(params),
                    outputs=(result,),
                )  # fmt: skip
        return None

    def bias(self, atom: Atom, product: Eqn, number: str) -> Atom | None:
        """A bias as the product reads it: a number for each column, neighbours in memory."""
        if number == "bfloat16":
            half = half_of(atom, self.made)
            if half is None or half.name != number:
                return None
            views = on_half(half, half.value)
            self.virtual.update({eqn.outputs[0]: eqn for eqn in views})
            atom = views[-1].outputs[0] if views else half.value
        view = view_of(atom, self.virtual)
        # A row of the product itself is not there before the call.
        if view is None or view.source in product.outputs:
            return None
        first = len(view.shape) - len(product_of(product).b_free)
        if any([n > 1 and s for n, s in zip(view.shape[:first], view.strides, strict=False)]):
            return None
        columns = range(first, len(view.shape))
        return atom if collapsed(Layout(*view[1:]), columns) == 1 else None


class _Numbers(NamedTuple):
    """The numbers that a product reads and writes, by name."""

    operand: str
    result: str


def _numbers(product: Eqn) -> _Numbers | None:
    """The numbers of a product without an epilogue; None if it has one."""
    if product.prim is not product_p:
        name = product.outputs[0].aval.dtype.name
        return _Numbers(name, name)
    plain = len(product.inputs) == 2 and not product.params["epilogue"]
    return _Numbers(product.params["operand"], product.params["result"]) if plain else None


# --- forms of epilogues ---------------------------------------------------------------------------


class _Form(NamedTuple):
    """An epilogue, and how programs write it."""

    epilogue: str
    pattern: Pattern


@lru_cache
def _forms(number: str, allowed: bool) -> tuple[_Form, ...]:
    """The epilogues for results in numbers of a name."""
    return tuple(_brain_forms(allowed) if number == "bfloat16" else _float_forms(number, allowed))


def _float_forms(number: str, allowed: bool) -> Iterator[_Form]:
    dtype = np.dtype(number)
    yield _Form("", Pattern(ew.add, [dtype, dtype]))
    for name, functions in _ACTIVATIONS.items() if allowed else ():
        for act in functions:
            yield _Form(name, Pattern(act, [dtype]))
            yield _Form(name, Pattern(_after_sum(act), [dtype, dtype]))


def _after_sum(act: Callable[[Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, b: act(ew.add(x, b))


def _brain_forms(allowed: bool) -> Iterator[_Form]:
    """The same of words and a bias that was made wide, but for gelu, which is rounded after each of
    its operations."""

    def total(x: Value, b: Value) -> Value:
        return rounded(ew.add(Brain(word=x).wide, b))

    yield _Form("", Pattern(lambda x, b: Brain(total(x, b)).word, [UINT16, FLOAT32]))
    if allowed:
        yield _Form("relu", Pattern(lambda x: Brain(_relu(Brain(word=x).wide)).word, [UINT16]))
        relu = Pattern(lambda x, b: Brain(_relu(total(x, b))).word, [UINT16, FLOAT32])
        yield _Form("relu", relu)


def _relu(x: Value) -> Value:
    return ew.max_(x, ew.lit(x, 0))


def _gelu(x: Value) -> Value:
    """As `nn.gelu` has it: x logistic(2 c (x + 0.044715 x^3))."""
    inside = ew.not_(ew.gt(ew.abs_(x), ew.lit(x, 25)))
    near = ew.select(inside, x, ew.lit(x, 0))
    cubic = ew.add(near, ew.mul(ew.mul(near, ew.mul(near, near)), ew.lit(x, 0.044715)))
    middle = ew.mul(near, ew.logistic(ew.mul(cubic, ew.lit(x, 2 * _C))))
    return ew.select(inside, middle, ew.select(ew.gt(x, ew.lit(x, 0)), x, ew.lit(x, 0)))


def _gelu_by_tanh(x: Value) -> Value:
    """As papers have it: 0.5 x (1 + tanh(c (x + 0.044715 x^3)))."""
    cubic = ew.add(x, ew.mul(ew.mul(ew.mul(x, x), x), ew.lit(x, 0.044715)))
    tanh = ew.tanh(ew.mul(cubic, ew.lit(x, _C)))
    return ew.mul(ew.mul(x, ew.lit(x, 0.5)), ew.add(tanh, ew.lit(x, 1)))


_C = math.sqrt(2 / math.pi)
_ACTIVATIONS = {"relu": (_relu,), "gelu": (_gelu, _gelu_by_tanh)}
