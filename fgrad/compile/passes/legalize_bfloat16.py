"""L5. Pass `legalize_bfloat16`: bfloat16 arrays -> words of 16 bits, computed with in float32.

    z = mul a b        z = word(round(wide(a) * wide(b)))

A bfloat16 is the upper half of a float32, so a word is made wide by a shift.  Every operation that
makes new numbers rounds them to the nearest bfloat16, ties to even, as NumPy with ml_dtypes does
after each of its own; in a kernel they stay in float32 registers, and sums are rounded once.

Numbers of one byte and less are only moved and converted, see `stored`.

Requires that calls are inlined.  Ensures that no value is bfloat16 or smaller: inputs and outputs
that were are uint16 or uint8, whose buffers hold the same bits.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fgrad.compile.passes import stored
from fgrad.ir.aval import FIRST_FOREIGN, FLOAT32, UINT32, Aval, is_bfloat16, is_stored
from fgrad.ir.program import Eqn, Lit, Program, Var
from fgrad.ir.traits import UNROUNDED, Rounding
from fgrad.ops import elementwise as ew
from fgrad.ops import primitives as prims
from fgrad.trace import Value, bind, trace
from fgrad.tracing.thread_state import THREAD

UINT8 = np.dtype(np.uint8)
UINT16 = np.dtype(np.uint16)
_HALF = 16  # bits of a word


class Brain:
    """A bfloat16 value as a word, as a float32 that is one, or both."""

    __slots__ = ("_wide", "_word")

    def __init__(self, wide: Any = None, word: Any = None) -> None:
        self._wide, self._word = wide, word

    @property
    def wide(self) -> Value:
        """The number in float32."""
        if self._wide is None:
            bits = ew.convert(self._word, UINT32)
            self._wide = ew.bitcast(ew.shift_left(bits, ew.lit(bits, _HALF)), FLOAT32)
        return self._wide

    @property
    def word(self) -> Value:
        """Its bits, the upper ones of the float32."""
        if self._word is None:
            bits = ew.bitcast(self._wide, UINT32)
            self._word = ew.convert(ew.shift_right(bits, ew.lit(bits, _HALF)), UINT16)
        return self._word

    @property
    def has_word(self) -> bool:
        """Whether the word is there already."""
        return self._word is not None


Operand: TypeAlias = Any  # a Brain, or the value of another dtype


def rounded(x: Value) -> Value:
    """The nearest bfloat16 of a float32, ties to even; NaN stays NaN."""
    bits = ew.bitcast(x, UINT32)
    odd = ew.and_(ew.shift_right(bits, ew.lit(bits, _HALF)), ew.lit(bits, 1))
    up = ew.add(ew.add(bits, ew.lit(bits, 0x7FFF)), odd)
    quiet = ew.or_(bits, ew.lit(bits, 0x400000))
    kept = ew.and_(ew.select(ew.isnan(x), quiet, up), ew.lit(bits, 0xFFFF0000))
    return ew.bitcast(kept, FLOAT32)


def words_aval(aval: Aval) -> Aval:
    """What stands for a value."""
    if is_stored(aval.dtype):
        return Aval(aval.shape, UINT8)
    return Aval(aval.shape, UINT16) if is_bfloat16(aval.dtype) else aval


def has_bfloat(program: Program) -> bool:
    """Whether a program has values in bfloat16, or in numbers that are only stored."""
    values = [*program.inputs, *[v for v, _ in program.consts]]
    values += [v for eqn in program.eqns for v in eqn.outputs]
    return any([v.aval.dtype.num >= FIRST_FOREIGN for v in values])


def legalize_bfloat16(program: Program) -> Program:
    """The program on words."""
    if not has_bfloat(program):
        return program

    def flat(*inputs: Value) -> list[Value]:
        env: dict[Var, Operand] = {
            v: Brain(word=x) if is_bfloat16(v.aval.dtype) else x
            for v, x in zip(program.inputs, inputs, strict=True)
        }
        env.update({v: _known(x) for v, x in program.consts})
        for eqn in program.eqns:
            THREAD.state.loc, THREAD.state.via = eqn.loc, eqn.via
            operands = [_known(a.value) if type(a) is Lit else env[a] for a in eqn.inputs]  # type: ignore[index]
            env.update(zip(eqn.outputs, _apply(eqn, operands), strict=True))
        outs = [_known(a.value) if type(a) is Lit else env[a] for a in program.outputs]  # type: ignore[index]
        return [_word(x) for x in outs]

    avals = [words_aval(a) for a in program.in_avals]
    with np.errstate(all="ignore"):
        traced = trace(flat, avals, program.name, program.made_by)
    return traced.program.replace(made_by="legalize_bfloat16")


def _known(x: Any) -> Operand:
    """A constant."""
    if is_stored(x.dtype):
        return np.asarray(x).view(UINT8)[()]
    if not is_bfloat16(x.dtype):
        return x
    word = np.asarray(x).view(UINT16)
    return Brain(np.asarray(x).astype(np.float32)[()], word if word.ndim else word[()])


def _word(x: Operand) -> Value:
    return x.word if isinstance(x, Brain) else x


def _wide(x: Operand) -> Value:
    return x.wide if isinstance(x, Brain) else x


def _apply(eqn: Eqn, operands: list[Operand]) -> list[Operand]:
    """The results of one equation."""
    prim, params = eqn.prim, eqn.params
    if prim is prims.convert:
        return [_convert(operands[0], eqn.inputs[0].aval.dtype, params["dtype"])]
    if prim is prims.bitcast:
        return [_bitcast(operands[0], params["dtype"])]
    as_words = any([_holds_program(p) for p in params.values()]) or (
        prim.rounding is Rounding.COPIES
        and all([not isinstance(x, Brain) or x.has_word for x in operands])
    )
    params = {k: _without_bfloat(p) for k, p in params.items()}
    out = bind(eqn.prim, *[(_word if as_words else _wide)(x) for x in operands], **params)
    results = []
    for var, x in zip(eqn.outputs, out if eqn.prim.multiple else (out,), strict=True):
        if not is_bfloat16(var.aval.dtype):
            results.append(x)
        elif as_words:
            results.append(Brain(word=x))
        else:
            results.append(Brain(x if prim.rounding in UNROUNDED else rounded(x)))
    return results


def _convert(x: Operand, given: np.dtype, dtype: np.dtype) -> Operand:
    """By float32, as ml_dtypes converts."""
    if is_stored(given):
        return _convert(stored.number(x, given), stored.WIDE, dtype)
    if is_stored(dtype):
        return stored.word(_wide(x), dtype)
    if not is_bfloat16(dtype):
        return ew.convert(_wide(x), dtype)
    return x if isinstance(x, Brain) else Brain(rounded(ew.convert(x, FLOAT32)))


def _bitcast(x: Operand, dtype: np.dtype) -> Operand:
    if is_bfloat16(dtype):
        return x if isinstance(x, Brain) else Brain(word=ew.bitcast(x, UINT16))
    return ew.bitcast(_word(x), dtype)


def _holds_program(param: object) -> bool:
    parts = param if isinstance(param, tuple) else (param,)
    return any([isinstance(p, Program) for p in parts])


def _without_bfloat(param: object) -> object:
    """A parameter for words: programs on words, and float32 for the dtype itself."""
    if isinstance(param, Program):
        return legalize_bfloat16(param)
    if isinstance(param, tuple):
        return tuple([_without_bfloat(p) for p in param])
    if isinstance(param, np.dtype) and is_bfloat16(param):
        return FLOAT32
    return param
