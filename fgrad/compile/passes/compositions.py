"""L5. Primitives -> compositions of primitives that have kernels or native steps.

    sort a, axis=0            permute, sort along the last axis, permute
    solve a, b                factor a, lu_solve
    eigh of float32           convert to float64, eigh, convert back

An expansion is traced once for each signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from fgrad.compile.passes.fourier import expanded
from fgrad.compile.passes.split_scatter import in_parts
from fgrad.ir.aval import FLOAT32, INT32, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Params, Program
from fgrad.ops import primitives as prims
from fgrad.ops.complex import complex_, imag, is_complex, real
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import add, convert, isnan, mul
from fgrad.ops.linalg_compositions import COMPOSITIONS
from fgrad.ops.random_bits import random_bits_elementwise
from fgrad.ops.shape import move_axis
from fgrad.ops.sort import sort
from fgrad.trace import Value, bind, trace


@lru_cache(maxsize=256)
def _random_bits(key: Aval, shape: tuple[int, ...]) -> Program:
    return trace(lambda k: [random_bits_elementwise(k, shape)], [key], "random_bits").program


@lru_cache(maxsize=256)
def _sort(avals: tuple[Aval, ...], axis: int, num_keys: int) -> Program | None:
    """Sorts of rows by one key: the axis last, and the keys stably from the last to the first."""
    last = avals[0].ndim - 1
    if any([x.dtype.kind == "c" for x in avals]):
        return _sort_of_parts(avals, axis, num_keys)
    if axis == last and num_keys == 1:
        return None

    def rows(*operands: Value) -> list[Value]:
        moved = [move_axis(x, axis, last) for x in operands]
        for k in reversed(range(num_keys)):
            others = [j for j in range(len(moved)) if j != k]
            found = dict(
                zip([k, *others], sort([moved[j] for j in (k, *others)], last), strict=True)
            )
            moved = [found[j] for j in range(len(moved))]
        return [move_axis(x, last, axis) for x in moved]

    return trace(rows, avals, "sort").program


def _sort_of_parts(avals: tuple[Aval, ...], axis: int, num_keys: int) -> Program:
    """Complex keys ascend by real, then by imaginary part; after all others those with NaN in the
    imaginary, the real, both parts."""

    def parts(*operands: Value) -> list[Value]:
        flat: list[Value] = []
        for k, x in enumerate(operands):
            if k < num_keys and is_complex(x):
                re, im = isnan(real(x)), isnan(imag(x))
                flat.append(add(mul(convert(re, INT32), INT32.type(2)), convert(im, INT32)))
            flat += [real(x), imag(x)] if is_complex(x) else [x]
        keys = num_keys + 2 * sum([is_complex(x) for x in operands[:num_keys]])
        found = iter(sort(flat, axis, keys))
        outs: list[Value] = []
        for k, x in enumerate(operands):
            if k < num_keys and is_complex(x):
                next(found)
            outs.append(complex_(next(found), next(found)) if is_complex(x) else next(found))
        return outs

    return trace(parts, avals, "sort").program


FLOAT16 = np.dtype(np.float16)


def _of_half(eqn: Eqn) -> Program:
    """Products of float16 as those of float32, rounded once, as in NumPy."""
    a, b = [x.aval.strong() for x in eqn.inputs]
    return _product_of_half(a, b, eqn.params)


@lru_cache(maxsize=256)
def _product_of_half(a: Aval, b: Aval, params: Params) -> Program:
    def product(x: Value, y: Value) -> list[Value]:
        out = dot_general(convert(x, FLOAT32), convert(y, FLOAT32), **params)
        return [convert(out, FLOAT16)]

    return trace(product, [a, b], "dot_general").program


def _by_factors(eqn: Eqn) -> Program | None:
    """A composition of triangular factors, which are native steps."""
    a = eqn.inputs[0].aval
    return _composed(eqn) if a.dtype.kind in "fc" and a.size else None


def _composed(eqn: Eqn) -> Program:
    avals = tuple([x.aval.strong() for x in eqn.inputs])
    return _composition(COMPOSITIONS[eqn.prim], eqn.prim.name, avals, eqn.params)


def _in_double(eqn: Eqn) -> Program | None:
    """Vectors of matrices in single precision from those in double precision, as in NumPy."""
    a = eqn.inputs[0].aval
    wide = np.result_type(a.dtype, np.float64)
    if a.dtype == wide:
        native = eqn.prim in COMPOSITIONS and vectors_are_native(a) and a.size
        return _composed(eqn) if native else None
    if not vectors_are_native(Aval(a.shape, wide)) or not a.size:
        return None
    return _narrowed(eqn.prim, a.strong(), eqn.params, tuple([v.aval.dtype for v in eqn.outputs]))


@lru_cache(maxsize=256)
def _narrowed(prim: Primitive, a: Aval, params: Params, dtypes: tuple[np.dtype, ...]) -> Program:
    def wide(x: Value) -> list[Value]:
        outs = bind(prim, convert(x, np.result_type(a.dtype, np.float64)), **params)
        results = outs if prim.multiple else (outs,)
        return [convert(y, dtype) for y, dtype in zip(results, dtypes, strict=True)]

    return trace(wide, [a], prim.name).program


@lru_cache(maxsize=256)
def _composition(
    function: Callable[..., Sequence[Value]], name: str, avals: tuple[Aval, ...], params: Params
) -> Program:
    return trace(lambda *xs: function(*xs, **params), avals, name).program


def _sorted(eqn: Eqn) -> Program | None:
    avals = tuple([x.aval.strong() for x in eqn.inputs])
    return _sort(avals, eqn.params["axis"], eqn.params["num_keys"])


EXPANSIONS: dict[Primitive, Callable[[Eqn], Program | None]] = {
    prims.scatter: in_parts,
    **dict.fromkeys((prims.solve, prims.slogdet, prims.det), _by_factors),
    **dict.fromkeys((prims.eigh, prims.svd, prims.pinv, prims.cofactor), _in_double),
    prims.fft: lambda eqn: expanded(eqn.inputs[0].aval.strong(), **eqn.params),
    prims.dot_general: lambda eqn: _of_half(eqn) if eqn.inputs[0].aval.dtype == FLOAT16 else None,
    prims.random_bits: lambda eqn: _random_bits(eqn.inputs[0].aval, eqn.params["shape"]),
    prims.sort: _sorted,
}


def vectors_are_native(a: Aval) -> bool:
    """Whether singular vectors and eigenvectors of a matrix come from a native step.

    In single precision rounding would choose other signs than NumPy, which computes in double.
    """
    return a.dtype.char in "dD"
