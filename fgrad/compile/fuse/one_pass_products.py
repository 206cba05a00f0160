"""L5. Pass `one_pass_products`: a large matrix is read once for products from both sides.

A library reads the matrix for each product with a vector, and memory sets the pace.  As sums they
share a kernel, with what is computed for each row in between (`columns.py`): the gradient of a
linear model walks the data once.

    t = dot(A, x)             t = reduce_sum[axes=(1,)] (A * x)     one kernel:
    r = f(t)            ->    r = f(t)                              each row gives its t,
    y = dot(r, A)             y = reduce_sum[axes=(0,)] (A * r)     then adds to y

Requires `canonical_dot`.  Ensures the same results up to rounding.  Pairs are left alone where the
product by columns is needed for the one by rows, or needs rows at other places.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.fuse.columns import COLUMNS_PER_ROW, MOST_COLUMNS
from fgrad.compile.kernel.affine import row_major
from fgrad.compile.passes.writer import Writer
from fgrad.compile.products.matrices import product_of
from fgrad.compile.products.views import VIEWS, view_of
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims

LEAST_BYTES = 1 << 23  # of a matrix; smaller ones are still near for the second product
LEAST_ROWS = 512  # fewer do not pay for the partial sums of their blocks
LEAST_COLUMNS = 64
_ROWS, _COLUMNS = 0, 1  # the axis of the matrix along which results are


class _Side(NamedTuple):
    """A product of a matrix in memory with a vector."""

    matrix: Var
    shape: tuple[int, int]
    vector: Var
    along: int


def one_pass_products(program: Program) -> Program:
    """The program with pairs of products as sums."""
    made = definitions([e for e in program.eqns if e.prim in VIEWS])
    sides = {k: side for k, e in enumerate(program.eqns) if (side := _side(e, made)) is not None}
    pairs = _pairs(program, sides) if len(sides) > 1 else set()
    if not pairs:
        return program
    writer = Writer()
    for k, eqn in enumerate(program.eqns):
        if k in pairs:
            _write_sum(writer, eqn, sides[k])
        else:
            writer.eqns.append(eqn)
    return program.replace(eqns=tuple(writer.eqns), made_by="one_pass_products")


def _side(eqn: Eqn, made: Mapping[Var, Eqn]) -> _Side | None:
    """The equation as a product of all of a large matrix in memory with a vector, if it is one."""
    if eqn.prim is not prims.dot_general:
        return None
    p = product_of(eqn)
    if p.batch != 1 or (p.m == 1) == (p.n == 1):
        return None
    (ca, cb), (ba, _) = eqn.params["contract"], eqn.params["batch"]
    whole, vector = eqn.inputs if p.n == 1 else eqn.inputs[::-1]
    free, summed = (p.a_free, ca) if p.n == 1 else (p.b_free, cb)
    large = whole.aval.size * whole.aval.dtype.itemsize >= LEAST_BYTES
    view = view_of(whole, made) if large and not ba and whole.aval.dtype.kind == "f" else None
    if view is None or len(free) != 1 or len(summed) != 1 or not isinstance(vector, Var):
        return None
    sizes = tuple([whole.aval.shape[axis[0]] for axis in (free, summed)])
    strides = tuple([view.strides[axis[0]] for axis in (free, summed)])
    if view.offset or view.source.aval.size != whole.aval.size:
        return None
    for along in (_ROWS, _COLUMNS):
        shape = (sizes[0], sizes[1]) if along == _ROWS else (sizes[1], sizes[0])
        ordered = strides if along == _ROWS else strides[::-1]
        if ordered == row_major(shape) and _pays(*shape):
            return _Side(view.source, shape, vector, along)
    return None


def _pays(rows: int, columns: int) -> bool:
    """Whether sums over rows and columns share a kernel, and gain by it."""
    enough = rows >= max(LEAST_ROWS, columns // COLUMNS_PER_ROW)
    return enough and LEAST_COLUMNS <= columns <= MOST_COLUMNS


def _pairs(program: Program, sides: Mapping[int, _Side]) -> set[int]:
    """The products that find a partner."""
    paired: set[int] = set()
    for k, rows in sides.items():
        if rows.along != _ROWS:
            continue
        for j, columns in sides.items():
            same = (columns.matrix, columns.shape) == (rows.matrix, rows.shape)
            free = columns.along == _COLUMNS and not {j, k} & paired
            if same and free and _in_order(program, k, j):
                paired |= {j, k}
    return paired


def _in_order(program: Program, rows: int, columns: int) -> bool:
    """Whether each row's part of a product by columns needs, of a product by rows, that row alone,
    and the product by rows nothing of that by columns."""
    if columns < rows:
        return not _depends(program, columns, rows)
    first, last = program.eqns[rows], program.eqns[columns]
    count = first.outputs[0].aval.size
    at_row, elsewhere = set(first.outputs), set[Var]()
    for eqn in program.eqns[rows + 1 : columns]:
        read = {x for x in eqn.inputs if isinstance(x, Var)}
        if read & elsewhere:
            elsewhere.update(eqn.outputs)
        elif read & at_row:
            plain = eqn.prim.elementwise or eqn.prim is prims.reshape
            kept = plain and all([v.aval.size == count for v in eqn.outputs])
            (at_row if kept else elsewhere).update(eqn.outputs)
    return not elsewhere & {x for x in last.inputs if isinstance(x, Var)}


def _depends(program: Program, first: int, last: int) -> bool:
    """Whether an equation needs the results of an earlier one."""
    found = set(program.eqns[first].outputs)
    for eqn in program.eqns[first + 1 : last]:
        if not found.isdisjoint([x for x in eqn.inputs if isinstance(x, Var)]):
            found.update(eqn.outputs)
    return not found.isdisjoint([x for x in program.eqns[last].inputs if isinstance(x, Var)])


def _write_sum(writer: Writer, eqn: Eqn, side: _Side) -> None:
    """The product as a sum of products."""
    writer.like = eqn
    other = 1 - side.along
    matrix, vector = side.matrix, side.vector
    if matrix.aval.shape != side.shape:
        matrix = writer.apply(prims.reshape, matrix, shape=side.shape)
    if vector.aval.ndim != 1:
        vector = writer.apply(prims.reshape, vector, shape=(vector.aval.size,))
    spread = writer.apply(prims.broadcast, vector, shape=side.shape, dims=(other,))
    product = writer.apply(prims.mul, matrix, spread)
    writer.result(eqn, writer.apply(prims.reduce_sum, product, axes=(other,)))
