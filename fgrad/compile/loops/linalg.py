"""L5. Factors and solutions of small matrices inside of a whole-loop kernel, written out.

Rows are exchanged by selections, so that pivots are LAPACK's.  A matrix that has no factors is
noted in a flag of the kernel, which raises after the loop what NumPy raises at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.compile.kernel.builder import UINT64
from fgrad.compile.loops.values import TooLarge, Value
from fgrad.compile.loops.writer import LoopRule, LoopWriter, mapped
from fgrad.ir.aval import BOOL, INT32, INT64
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn
from fgrad.ops import primitives as prims

LARGEST = 6  # rows and columns of a matrix that is written out


class _Arithmetic:
    """Scalar operations on ids of one dtype."""

    def __init__(self, w: LoopWriter, dtype: np.dtype) -> None:
        self.w, self.dtype = w, dtype

    def op(self, name: str, *ids: int) -> int:
        """One operation."""
        return self.w.b.op(name, self.dtype, *map(int, ids))

    def less(self, c: int, a: int, b: int) -> int:
        """c - a b."""
        return self.op("sub", c, self.op("mul", a, b))

    def test(self, name: str, *ids: int) -> int:
        """A comparison."""
        return self.w.b.op(name, BOOL, *map(int, ids))

    def choose(self, c: int, x: int, y: int) -> int:
        """x if c else y."""
        x, y = int(x), int(y)
        return x if x == y else self.w.b.op("select", self.w.b.dtype_of(x), c, x, y)

    def zero(self) -> int:
        """0."""
        return self.w.number(0, self.dtype)


def _stacks(*arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """The matrices of stacks of them."""
    flat = [a.reshape((math.prod(a.shape[:-2]), *a.shape[-2:])) for a in arrays]
    return list(zip(*flat, strict=True))


def _start(w: LoopWriter, eqn: Eqn) -> _Arithmetic:
    dtype = eqn.inputs[0].aval.dtype
    if eqn.inputs[0].aval.shape[-1] > LARGEST or dtype.char not in "fd":
        raise TooLarge
    return _Arithmetic(w, dtype)


def factor(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Packed factors of a^T with the exchanges of its rows: see `ops.linalg.factor`."""
    f, a = _start(w, eqn), w.operand(eqn.inputs[0])
    found = [_factor(f, one.T) for (one,) in _stacks(a)]
    packed = np.array([p.T for p, _ in found], np.int64).reshape(a.shape)
    pivots = np.array([p for _, p in found], np.int64).reshape(a.shape[:-1])
    return [packed, pivots]


def _factor(f: _Arithmetic, m: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """l and u in place of m, the row with the largest element of a column becoming the next."""
    w, n = f.w, len(m)
    m = np.array(m)
    pivots = []
    for k in range(n):
        best, row = f.op("abs", m[k, k]), w.number(k, INT32)
        for i in range(k + 1, n):
            size = f.op("abs", m[i, k])
            better = f.test("gt", size, best)
            best = f.choose(better, size, best)
            row = f.choose(better, w.number(i, INT32), row)
        pivots.append(row)
        _exchange(f, m, k, row)
        for i in range(k + 1, n):
            m[i, k] = f.op("div", m[i, k], m[k, k])
            for j in range(k + 1, n):
                m[i, j] = f.less(m[i, j], m[i, k], m[k, j])
    return m, pivots


def _exchange(f: _Arithmetic, m: np.ndarray, k: int, row: int) -> None:
    """Rows k and `row` change places; `row` is at least k."""
    first = np.array(m[k])
    for i in range(k + 1, len(m)):
        hit = f.test("eq", row, f.w.number(i, INT32))
        m[k] = mapped(lambda p, q, hit=hit: f.choose(hit, p, q), m[i], m[k])
        m[i] = mapped(lambda p, q, hit=hit: f.choose(hit, p, q), first, m[i])


def _lower(f: _Arithmetic, a: np.ndarray, b: np.ndarray, unit: bool) -> np.ndarray:
    """x with l x = b, for the lower triangle of a."""
    x = np.array(b)
    for i in range(len(a)):
        for c in range(x.shape[1]):
            for j in range(i):
                x[i, c] = f.less(x[i, c], a[i, j], x[j, c])
            if not unit:
                x[i, c] = f.op("div", x[i, c], a[i, i])
    return x


def _upper(f: _Arithmetic, a: np.ndarray, b: np.ndarray, unit: bool) -> np.ndarray:
    return _lower(f, a[::-1, ::-1], b[::-1], unit)[::-1]


def lu_solve(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """x with op(a) x = b, where a^T = p l u: see `ops.linalg.lu_solve`."""
    f = _start(w, eqn)
    packed, b = w.operand(eqn.inputs[1]), w.operand(eqn.inputs[3])
    pivots = w.operand(eqn.inputs[2])
    rows = pivots.reshape((math.prod(pivots.shape[:-1]), pivots.shape[-1]))
    out = []
    for (p, x), row in zip(_stacks(packed, b), rows, strict=True):
        _check(f, p)
        x, n = np.array(x), len(p)
        if eqn.params["trans"]:
            for k in range(n):
                _exchange(f, x, k, int(row[k]))
            x = _upper(f, p.T, _lower(f, p.T, x, True), False)
        else:
            x = np.array(_upper(f, p, _lower(f, p, x, False), True))
            for k in reversed(range(n)):
                _exchange(f, x, k, int(row[k]))
        out.append(x)
    return [np.array(out, np.int64).reshape(b.shape)]


def _check(f: _Arithmetic, a: np.ndarray) -> None:
    """Note that a diagonal holds a 0."""
    for k in range(len(a)):
        f.w.note("Singular matrix", f.test("eq", a[k, k], f.zero()))


def triangular_solve(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """x with op(a) x = b, for one triangle of a."""
    f, p = _start(w, eqn), eqn.params
    a, b = w.operand(eqn.inputs[0]), w.operand(eqn.inputs[1])
    out = []
    for one, x in _stacks(a, b):
        if not p["unit"]:
            _check(f, one)
        turned = one.T if p["trans"] else one
        solve = _lower if p["lower"] != p["trans"] else _upper
        out.append(solve(f, turned, x, p["unit"]))
    return [np.array(out, np.int64).reshape(b.shape)]


def cholesky(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """l with l l^T = a, of which the lower triangle is read."""
    f, a = _start(w, eqn), w.operand(eqn.inputs[0])
    out = [_cholesky(f, one) for (one,) in _stacks(a)]
    return [np.array(out, np.int64).reshape(a.shape)]


def _cholesky(f: _Arithmetic, a: np.ndarray) -> np.ndarray:
    n = len(a)
    low = np.full((n, n), f.zero(), np.int64)
    for j in range(n):
        rest = int(a[j, j])
        for k in range(j):
            rest = f.less(rest, low[j, k], low[j, k])
        good = f.test("gt", rest, f.zero())
        f.w.note("Matrix is not positive definite", f.w.b.op("not", BOOL, good))
        low[j, j] = f.op("sqrt", rest)
        for i in range(j + 1, n):
            rest = int(a[i, j])
            for k in range(j):
                rest = f.less(rest, low[i, k], low[j, k])
            low[i, j] = f.op("div", rest, low[j, j])
    return low


def checked(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """The operand; what has not passed is noted."""
    x, passed = w.operand(eqn.inputs[0]), w.operand(eqn.inputs[1])
    for k in dict.fromkeys(np.ravel(passed)):
        w.note(eqn.params["error"], w.b.op("not", BOOL, int(k)))
    return [x]


def required(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Truth values; that one is false is noted."""
    passed = w.operand(eqn.inputs[0])
    for k in dict.fromkeys(map(int, np.ravel(passed))):
        w.note(eqn.params["error"], w.b.op("not", BOOL, k))
    return [passed]


def _clipped(w: LoopWriter, x: int, dtype: np.dtype, low: int | None, high: int | None) -> int:
    if dtype == INT64 and low == 0 and high is not None:  # negative ones are large without sign
        least = w.b.op("min", UINT64, w.b.op("convert", UINT64, x), w.number(high, UINT64))
        return w.b.op("convert", INT64, least)
    x = x if low is None else w.b.op("max", dtype, x, w.number(low, dtype))
    return x if high is None else w.b.op("min", dtype, x, w.number(high, dtype))


def in_range(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Integers brought into range, which those that were outside have changed for."""
    n, dtype = w.operand(eqn.inputs[0]), eqn.inputs[0].aval.dtype
    low, high, error = (eqn.params[name] for name in ("low", "high", "error"))
    inside = {}
    for x in dict.fromkeys(map(int, np.ravel(n))):
        if low is not None and high is not None and w.assumed(w.place(x), low, high + 1):
            inside[x] = x
            continue
        clipped = _clipped(w, x, dtype, low, high)
        inside[x] = clipped
        if low is not None and high is not None:
            w.ranges[clipped] = low, high
        moved = w.b.op("xor", dtype, clipped, x)
        w.note_nonzero(error, moved if dtype == INT64 else w.b.op("convert", INT64, moved))
    return [np.array([inside[int(x)] for x in np.ravel(n)], np.int64).reshape(np.shape(n))]


LINALG_RULES: Mapping[Primitive, LoopRule] = {
    prims.checked: checked,
    prims.in_range: in_range,
    prims.required: required,
    prims.factor: factor,
    prims.lu_solve: lu_solve,
    prims.triangular_solve: triangular_solve,
    prims.cholesky: cholesky,
}
