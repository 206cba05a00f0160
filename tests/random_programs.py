"""Random well-typed programs and arguments for them, as a hypothesis strategy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.ops import dot, elementwise, index, reduce, shape
from fgrad.trace import trace

F64, F32, I64, BOOL = (np.dtype(t) for t in (np.float64, np.float32, np.int64, np.bool_))
UNARY = ["sin", "tanh", "exp", "neg", "abs_", "floor", "logistic", "sign"]
BINARY = ["add", "sub", "mul", "max_", "min_"]
COMPARE = ["lt", "ge", "eq", "ne"]
SHAPES = [(), (1,), (3,), (4, 3), (2, 3, 4), (3, 1), (6,), (12,), (0,), (5, 5)]

Draw = Callable[[Any], Any]
Pool = list[Any]


@st.composite
def programs(
    draw: Draw, max_equations: int = 12, shapes: Sequence[tuple[int, ...]] = SHAPES
) -> tuple[Program, list[Any]]:
    """A program and arguments for it, which have some of these shapes."""
    limit = 4 * max(1024, *[math.prod(shape) for shape in shapes])
    count = draw(st.integers(1, 3))
    avals = [
        Aval(draw(st.sampled_from(shapes)), draw(st.sampled_from([F64, F64, F32, I64])))
        for _ in range(count)
    ]
    constant = np.linspace(-1.0, 1.0, 12).reshape(4, 3)

    def body(*inputs: Any) -> list[Any]:
        pool: Pool = list(inputs)
        for _ in range(draw(st.integers(1, max_equations))):
            step = draw(st.sampled_from(STEPS))
            result = step(draw, pool, constant)
            if result is not None and math.prod(result.shape) <= limit:
                pool.append(result)
        outs = draw(st.lists(st.sampled_from(range(len(pool))), min_size=1, max_size=3))
        return [*[pool[k] for k in outs], pool[-1]]

    program = trace(body, avals, "random", copy_consts=True).program
    seed = draw(st.integers(0, 1000))
    return program, [argument(aval, seed + k) for k, aval in enumerate(avals)]


def argument(aval: Aval, seed: int) -> Any:
    """An array or NumPy scalar of an aval."""
    rng = np.random.default_rng(seed)
    real = aval.dtype.kind == "f"
    x = rng.normal(size=aval.shape) if real else rng.integers(-4, 5, aval.shape)
    return np.asarray(x).astype(aval.dtype)[()]


def _pick(draw: Draw, pool: Pool, accept: Callable[[Any], bool]) -> Any:
    fitting = [x for x in pool if accept(x)]
    return draw(st.sampled_from(range(len(fitting)))) if fitting else None, fitting


def _one(draw: Draw, pool: Pool, accept: Callable[[Any], bool] = lambda x: True) -> Any:
    k, fitting = _pick(draw, pool, accept)
    return None if k is None else fitting[k]


def _is_float(x: Any) -> bool:
    return x.dtype.kind == "f"


def _unary(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, _is_float)
    if x is None:
        return None
    x = elementwise.clip(x, x.dtype.type(-5), x.dtype.type(5))
    return getattr(elementwise, draw(st.sampled_from(UNARY)))(x)


def _binary(draw: Draw, pool: Pool, c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.dtype.kind in "fi")
    if x is None:
        return None
    name = draw(st.sampled_from(BINARY))
    if draw(st.booleans()):
        y = x.dtype.type(draw(st.sampled_from([0, 1, 2, -1, 3])))
    elif x.shape == c.shape and x.dtype == c.dtype:
        y = c
    else:
        y = _one(draw, pool, lambda v: v.shape == x.shape and v.dtype == x.dtype)
    return getattr(elementwise, name)(x, y)


def _divide(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, _is_float)
    if x is None:
        return None
    y = elementwise.add(elementwise.abs_(x), x.dtype.type(1))
    return elementwise.div(x, y)


def _select(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.dtype.kind in "fi")
    if x is None:
        return None
    y = _one(draw, pool, lambda v: v.shape == x.shape and v.dtype == x.dtype)
    cond = getattr(elementwise, draw(st.sampled_from(COMPARE)))(x, y)
    return elementwise.select(cond, y, x.dtype.type(2))


def _convert(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool)
    if x.dtype.kind == "f":
        x = elementwise.clip(x, x.dtype.type(-100), x.dtype.type(100))
    return elementwise.convert(x, draw(st.sampled_from([F64, F32, I64])))


def _broadcast(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim < 3)
    if x is None:
        return None
    new = draw(st.lists(st.integers(0, x.ndim), min_size=1, max_size=2))
    shape_, dims = list(x.shape), list(range(x.ndim))
    for at in new:
        shape_.insert(at, draw(st.integers(1, 4)))
        dims = [d + (d >= at) for d in dims]
    return shape.broadcast(x, tuple(shape_), tuple(dims))


def _spread_row(draw: Draw, pool: Pool, _c: Any) -> Any:
    """x - reduce(x) along the last axes: the pattern of softmax and layer norms."""
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.size and v.dtype.kind == "f")
    if x is None:
        return None
    kept = draw(st.integers(0, x.ndim - 1))
    axes = tuple(range(kept, x.ndim))
    fun = draw(st.sampled_from([reduce.reduce_sum, reduce.reduce_max, reduce.reduce_min]))
    row = fun(x, axes)
    return elementwise.sub(x, shape.broadcast(row, x.shape, tuple(range(kept))))


def _reshape(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool)
    n = math.prod(x.shape)
    options = [(n,), (1, n), (n, 1), x.shape[::-1]]
    options += [(n // k, k) for k in (2, 3, 4) if n % k == 0 and n]
    return shape.reshape(x, draw(st.sampled_from(options)))


def _permute(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool)
    return shape.permute(x, draw(st.permutations(range(x.ndim))))


def _slice(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool)
    bounds = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in x.shape]
    step = tuple(draw(st.integers(1, 2)) for _ in x.shape)
    return shape.slice_(x, tuple(a for a, _ in bounds), tuple(b for _, b in bounds), step)


def _pad(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.dtype.kind != "b" and all(n >= 1 for n in v.shape))
    if x is None:
        return None
    low, high = (tuple(draw(st.integers(-1, 2)) for _ in x.shape) for _ in range(2))
    gap = tuple(draw(st.integers(0, 1)) for _ in x.shape)
    spread = [n + (n - 1) * g for n, g in zip(x.shape, gap, strict=True)]
    if any(n + a + b < 0 for n, a, b in zip(spread, low, high, strict=True)):
        return None
    return shape.pad(x, low, high, gap, draw(st.integers(0, 2)))


def _reverse(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1)
    return None if x is None else shape.reverse(x, (draw(st.integers(0, x.ndim - 1)),))


def _index(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.shape[0] > 0)
    return None if x is None else shape.index(x, (draw(st.integers(0, x.shape[0] - 1)),))


def _concatenate(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1)
    if x is None:
        return None
    y = _one(draw, pool, lambda v: v.shape == x.shape and v.dtype == x.dtype)
    return shape.concatenate([x, y, x], draw(st.integers(0, x.ndim - 1)))


def _iota(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.dtype.kind in "fi")
    if x is None:
        return None
    return elementwise.add(x, shape.iota(x.shape, x.dtype, draw(st.integers(0, x.ndim - 1))))


def _reduce(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.dtype.kind in "fi" and v.size)
    if x is None:
        return None
    axes = draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))
    name = draw(st.sampled_from(["reduce_sum", "reduce_max", "reduce_min"]))
    return getattr(reduce, name)(x, tuple(sorted(axes)))


def _arg(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.size)
    if x is None:
        return None
    name = draw(st.sampled_from(["argmax", "argmin"]))
    return getattr(reduce, name)(x, draw(st.integers(0, x.ndim - 1)))


def _cumulative(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.dtype.kind in "fi")
    if x is None:
        return None
    name = draw(st.sampled_from(["cumsum", "cummax"]))
    return getattr(reduce, name)(x, draw(st.integers(0, x.ndim - 1)), draw(st.booleans()))


def _dot(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.dtype.kind == "f")
    if x is None:
        return None
    y = _one(draw, pool, lambda v: v.shape == x.shape and v.dtype == x.dtype)
    axes = draw(st.permutations(range(x.ndim)))
    nb = draw(st.integers(0, x.ndim))
    nc = draw(st.integers(0, x.ndim - nb))
    batch, contract = tuple(axes[:nb]), tuple(axes[nb : nb + nc])
    return dot.dot_general(x, y, (contract, contract), (batch, batch))


def _gather(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.size)
    if x is None:
        return None
    axis = draw(st.integers(0, x.ndim - 1))
    where = _one(draw, pool, lambda v: v.dtype == I64)
    if where is None:
        where = np.array([0, 2, 1, 0])
    where = elementwise.clip(where, np.int64(0), np.int64(5))
    return index.gather(x, (where,), (axis,), draw(st.sampled_from(["clip", "fill"])))


def _scatter(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.size and v.dtype.kind in "fi")
    if x is None:
        return None
    where = np.array([0, 2, 0, 1])
    rest = x.shape[1:]
    updates = shape.full((4, *rest), 2, x.dtype)
    updates = elementwise.add(updates, shape.iota(updates.shape, x.dtype, 0))
    mode = draw(st.sampled_from(["set", "add", "max"]))
    return index.scatter(x, (where,), updates, (0,), mode)


def _dynamic(draw: Draw, pool: Pool, _c: Any) -> Any:
    x = _one(draw, pool, lambda v: v.ndim >= 1 and v.size)
    if x is None:
        return None
    start = _one(draw, pool, lambda v: v.dtype == I64 and v.ndim == 0)
    starts = [np.int64(draw(st.integers(0, 3))) if start is None else start for _ in x.shape]
    sizes = tuple(draw(st.integers(1, n)) for n in x.shape)
    part = index.dynamic_slice(x, starts, sizes)
    return index.dynamic_update(x, part, [np.int64(0)] * x.ndim) if draw(st.booleans()) else part


STEPS = [
    _unary, _unary, _binary, _binary, _binary, _divide, _select, _convert, _broadcast, _spread_row,
    _spread_row, _reshape, _reshape, _permute, _slice, _pad, _reverse, _index, _concatenate, _iota,
    _reduce, _reduce, _arg, _cumulative, _dot, _gather, _scatter, _dynamic,
]  # fmt: skip
