"""L5. Pass `mixed_precision_matmul`: 16-bit matrix products with float32 accumulation.

    convert[f16] (dot_general (convert[f32] a) (convert[f32] b))   ->   product[float16] a b

The sums stay in float32, which is rounded once.  bfloat16 is found in the words that
`legalize_bfloat16` made of it: the upper half of a float32, and the rounding to one.

Requires `canonical_dot`.  Leaves equations that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.legalize_bfloat16 import UINT16, Brain, rounded
from fgrad.compile.passes.patterns import Match, Pattern
from fgrad.compile.products.matrices import library_operands, wants_library
from fgrad.compile.products.views import VIEWS
from fgrad.ir.aval import FLOAT32, UINT32, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.traits import UNROUNDED
from fgrad.ir.walk import consumers, definitions, resolve_atom, resolve_operands
from fgrad.ops import primitives as prims
from fgrad.ops.product import product_p

FLOAT16 = np.dtype(np.float16)


class _Patterns(NamedTuple):
    """What `legalize_bfloat16` writes: a word made wide, a float32 rounded, the word of one."""

    wide: Pattern
    rounded: Pattern
    word: Pattern


@lru_cache
def _patterns() -> _Patterns:
    return _Patterns(
        Pattern(lambda x: Brain(word=x).wide, [UINT16]),
        Pattern(rounded, [FLOAT32]),
        Pattern(lambda x: Brain(x).word, [FLOAT32]),
    )


class Half(NamedTuple):
    """A value that is widened where it is read: the 16 bits, or the float32 that has no more; the
    name of its numbers, and the views of the wide one, the last one first."""

    value: Var
    name: str
    views: tuple[Eqn, ...]


def mixed_precision_matmul(program: Program) -> Program:
    """The program with products of 16-bit numbers where it had them widened."""
    defined = definitions(program.eqns)
    views = {v: eqn for v, eqn in defined.items() if eqn.prim in VIEWS}
    found: dict[Var, str] = {}
    for eqn in program.eqns:
        if eqn.prim is prims.dot_general and wants_library(eqn):
            operands = library_operands(eqn, views)
            # One that is no matrix is copied in the order of the one sum.
            matrices = (operands.left and operands.right) or len(eqn.params["contract"][0]) == 1
            halves = [half_of(x, defined) for x in eqn.inputs] if matrices else []
            names = [half.name for half in halves if half is not None]
            if len(names) == 2 and names[0] == names[1]:
                found[eqn.outputs[0]] = names[0]
    return _Rewriter(program, defined, found).run() if found else program


def half_of(atom: Atom, defined: Mapping[Var, Eqn]) -> Half | None:
    """What an operand is a view of, if that is a widened value."""
    views: list[Eqn] = []
    while isinstance(atom, Var) and atom in defined and defined[atom].prim in VIEWS:
        views.append(defined[atom])
        atom = defined[atom].inputs[0]
    if not isinstance(atom, Var) or atom not in defined:
        return None
    eqn = defined[atom]
    if eqn.prim is prims.convert:
        (source,) = eqn.inputs
        known = source.aval.dtype == FLOAT16 and atom.aval.dtype == FLOAT32
        return Half(source, "float16", tuple(views)) if known and isinstance(source, Var) else None
    match = _patterns().wide.match(atom, defined) if eqn.prim is prims.bitcast else None
    if match is not None and isinstance(match.operands[0], Var):
        return Half(match.operands[0], "bfloat16", tuple(views))
    return Half(atom, "bfloat16", tuple(views)) if _is_brain(atom, defined) else None


def _is_brain(atom: Atom, defined: Mapping[Var, Eqn]) -> bool:
    """Whether a float32 has the upper 16 bits alone: rounded, or chosen from such ones."""
    pending, seen, rounds = [atom], set(), False
    while pending:
        atom = pending.pop()
        if isinstance(atom, Lit):
            if atom.aval.dtype == FLOAT32 and int(atom.value.view(UINT32)) & 0xFFFF:
                return False
            continue
        eqn = defined.get(atom)
        if eqn is None:
            return False
        if atom in seen:
            continue
        seen.add(atom)
        if eqn.prim is prims.bitcast and _is_cut(eqn.inputs[0], defined):
            rounds = True
        elif eqn.prim in VIEWS or (eqn.prim.elementwise and eqn.prim.rounding in UNROUNDED):
            pending += [x for x in eqn.inputs if x.aval.dtype == FLOAT32]
        else:
            return False
    return rounds


def _is_cut(bits: Atom, defined: Mapping[Var, Eqn]) -> bool:
    """Whether the lower half of some bits is 0."""
    eqn = defined.get(bits) if isinstance(bits, Var) else None
    if eqn is None or bits.aval.dtype != UINT32 or eqn.prim not in (prims.and_, prims.shift_left):
        return False
    numbers = [int(x.value) for x in eqn.inputs if isinstance(x, Lit)]
    return numbers == [0xFFFF0000 if eqn.prim is prims.and_ else 16]


def on_half(half: Half, value: Atom) -> list[Eqn]:
    """The views, the first one first, of the 16 bits instead."""
    eqns: list[Eqn] = []
    for view in reversed(half.views):
        out = Var(Aval(view.outputs[0].aval.shape, value.aval.dtype))
        eqns.append(view._replace(inputs=(value,), outputs=(out,)))
        value = out
    return eqns


class _Rewriter:
    """One walk that writes the equations anew."""

    def __init__(
        self, program: Program, defined: Mapping[Var, Eqn], found: Mapping[Var, str]
    ) -> None:
        self.program, self.defined, self.found = program, defined, found
        self.readers = consumers(program.eqns)
        self.env: dict[Var, Atom] = {}
        self.eqns: list[Eqn] = []
        self.narrowed: dict[Var, Var] = {}  # results in 16 bits of products, by those in float32
        self.words: dict[Var, Var] = {}  # of roundings, by the float32 that they are
        self.gone: set[Var] = set()  # what roundings have computed
        self._find_roundings()

    def _find_roundings(self) -> None:
        """Which products are read by their rounding to bfloat16 alone."""
        for eqn in self.program.eqns:
            (out, *_) = eqn.outputs
            if eqn.prim is prims.bitcast and out.aval.dtype == FLOAT32:
                match = _patterns().rounded.match(out, self.defined)
                if match is not None and self._only_for(out, match):
                    (x,) = match.operands
                    word = Var(Aval(x.aval.shape, UINT16))
                    self.narrowed[x] = self.words[out] = word  # type: ignore[index]
                    self.gone.update([v for e in match.eqns for v in e.outputs if v is not out])

    def _only_for(self, out: Var, match: Match) -> bool:
        """Whether a product, and all that is computed of it, is for its rounding."""
        (x,) = match.operands
        if not isinstance(x, Var) or self.found.get(x) != "bfloat16":
            return False
        inside = {id(eqn) for eqn in match.eqns}
        inner = {x, *[v for eqn in match.eqns for v in eqn.outputs]} - {out}
        readers = [eqn for v in inner for eqn in self.readers.get(v, ())]
        return inner.isdisjoint(self.program.outputs) and all([id(e) in inside for e in readers])

    def run(self) -> Program:
        """The program; what was read as float32 before may still be."""
        for eqn in self.program.eqns:
            self.at = eqn = resolve_operands(eqn, self.env)
            (out, *_) = eqn.outputs
            if out in self.found:
                self.product(eqn)
            elif out in self.words:
                self.wide(out, self.words[out])
            elif out in self.gone or out in self.env:
                continue
            elif not self.is_word(eqn) and not self.is_spread(out):
                self.eqns.append(eqn)
        outputs = tuple([resolve_atom(a, self.env) for a in self.program.outputs])
        return self.program.replace(
            eqns=tuple(self.eqns), outputs=outputs, made_by="mixed_precision_matmul"
        )

    def product(self, eqn: Eqn) -> None:
        """The product, of 16-bit operands; its result too is rounded, if that is all it is for."""
        (out,), name = eqn.outputs, self.found[eqn.outputs[0]]
        inputs = tuple([self.half(x) for x in eqn.inputs])
        result = "float32"
        if out in self.narrowed:
            out, result = self.narrowed[out], "bfloat16"
        elif name == "float16" and (converted := self.converted(out)) is not None:
            out, result = Var(converted.aval.strong()), "float16"
            self.env[converted] = out
        params = Params(**eqn.params, operand=name, result=result, epilogue="")
        self.eqns.append(eqn._replace(prim=product_p, inputs=inputs, params=params, outputs=(out,)))

    def converted(self, out: Var) -> Var | None:
        """The float16 that a product is for, and for nothing else."""
        readers = self.readers.get(out, ())
        if len(readers) != 1 or out in self.program.outputs or readers[0].prim is not prims.convert:
            return None
        (found,) = readers[0].outputs
        return found if found.aval.dtype == FLOAT16 else None

    def half(self, atom: Atom) -> Atom:
        """The 16-bit operand, through the views of the wide one."""
        found = half_of(atom, self.defined)
        assert found is not None
        value = resolve_atom(found.value, self.env)
        if value.aval.dtype == FLOAT32:
            value = self.word(value)
        views = on_half(found, value)
        self.eqns += views
        return views[-1].outputs[0] if views else value

    def word(self, wide: Atom) -> Atom:
        """The word of a float32 that is a bfloat16; equal ones become one later."""
        bits = self.apply(prims.bitcast, UINT32, wide)
        upper = self.apply(prims.shift_right, UINT32, bits, Lit(np.uint32(16)))
        return self.apply(prims.convert, UINT16, upper)

    def wide(self, out: Var, word: Var) -> None:
        """A float32 is that of a word."""
        bits = self.apply(prims.convert, UINT32, word)
        shifted = self.apply(prims.shift_left, UINT32, bits, Lit(np.uint32(16)))
        params = Params(dtype=FLOAT32)
        at = self.at.loc, self.at.via
        self.eqns.append(Eqn(prims.bitcast, (shifted,), params, (out,), *at))

    def apply(self, prim: Primitive, dtype: np.dtype, *inputs: Atom) -> Var:
        """A new equation where the present one stands."""
        out = Var(Aval(inputs[0].aval.shape, dtype))
        params = {} if len(inputs) > 1 else {"dtype": dtype}
        at = self.at.loc, self.at.via
        self.eqns.append(Eqn(prim, inputs, Params(params), (out,), *at))
        return out

    def is_word(self, eqn: Eqn) -> bool:
        """The word of a rounded product is the product itself."""
        (out, *_) = eqn.outputs
        if eqn.prim is not prims.convert or out.aval.dtype != UINT16:
            return False
        match = _patterns().word.match(out, self.defined)
        word = None if match is None else self.words.get(match.operands[0])  # type: ignore[arg-type]
        if word is not None:
            self.env[out] = word
        return word is not None

    def is_spread(self, out: Var) -> bool:
        """A bias that is repeated is widened where it is read, not by a kernel of its own."""
        half = half_of(out, self.defined) if self.defined[out].prim is prims.broadcast else None
        if half is None or len(half.views) > 1 or half.value.aval.dtype != UINT16:
            return False
        (view,) = on_half(half, resolve_atom(half.value, self.env))
        self.eqns.append(view)
        self.wide(out, view.outputs[0])
        return True
