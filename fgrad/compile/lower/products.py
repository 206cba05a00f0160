"""L5. Products of matrices -> calls of `gemm`, or of a product with an epilogue."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from fgrad.compile.kernel.affine import row_major
from fgrad.compile.products.matrices import library_operands, product_of
from fgrad.compile.products.views import Layout, collapsed, view_of
from fgrad.compile.tasks.routines import FusedProduct, Gemm
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.program import Eqn, Var
from fgrad.ops import primitives as prims


def product_step(eqn: Eqn, virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """The calls of `gemm` for a product whose operands are matrices of buffers.

    A `product` has the names of its numbers and its epilogue besides, and perhaps a bias.
    """
    p = product_of(eqn)
    left, right, outer = library_operands(eqn, virtual)
    assert left is not None and right is not None
    (out,) = eqn.outputs
    sizes = tuple([eqn.inputs[0].aval.shape[i] for i in eqn.params["batch"][0]])
    steps = [*_batch_steps(eqn, virtual), tuple([p.m * p.n * s for s in row_major(sizes)])]
    inner = [i for i in range(len(sizes)) if i not in outer]
    between = collapsed(Layout(0, sizes, steps[2]), inner)
    gemm = Gemm(
        left.source.aval.dtype, p.m, p.n, p.k, math.prod([sizes[i] for i in inner]),
        left.leading, right.leading, p.n, left.trans, right.trans,
        left.batch_stride, right.batch_stride, between or p.m * p.n,
    )  # fmt: skip
    widths = [v.aval.dtype.itemsize for v in (left.source, right.source, out)]
    calls = []
    for at in itertools.product(*[range(sizes[i]) for i in outer]):
        moved = [sum([i * s[k] for i, k in zip(at, outer, strict=True)]) for s in steps]
        places = (left.offset + moved[0], right.offset + moved[1], moved[2])
        calls.append(tuple([w * place for w, place in zip(widths, places, strict=True)]))
    args = (left.source, right.source, out)
    if eqn.prim is prims.dot_general:
        return LibraryStep(gemm, args, tuple(calls))
    bias = [view_of(x, virtual) for x in eqn.inputs[2:]]
    kept = [v.source for v in bias if v is not None]
    starts = tuple([v.offset * v.source.aval.dtype.itemsize for v in bias if v is not None])
    names = [eqn.params[name] for name in ("operand", "result", "epilogue")]
    fused = FusedProduct(gemm, names[0], names[1], names[2], starts)
    return LibraryStep(fused, (*args, *kept), tuple(calls))


def _batch_steps(eqn: Eqn, virtual: Mapping[Var, Eqn]) -> list[tuple[int, ...]]:
    """How far apart the operands of a batch are, along each of its axes."""
    steps = []
    for x, axes in zip(eqn.inputs, eqn.params["batch"], strict=False):
        view = view_of(x, virtual)
        assert view is not None
        steps.append(tuple([view.strides[i] for i in axes]))
    return steps
