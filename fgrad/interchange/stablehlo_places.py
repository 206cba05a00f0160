"""L7. Moving, folding, indexing and sorting as StableHLO.

An index that is out of bounds is the nearest that is in bounds, or zero (`fill`), or dropped by a
scatter, as the primitives have it; of updates of one place the last stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.interchange.composed import last_places
from fgrad.interchange.stablehlo_writer import Ref, Rule, Writer
from fgrad.interchange.traced import no_form
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Eqn
from fgrad.trace import trace

_FAR = 1 << 62


def _aval(eqn: Eqn) -> tuple[tuple[int, ...], np.dtype]:
    aval = eqn.outputs[0].aval
    return aval.shape, aval.dtype


# --- moving ---------------------------------------------------------------------------------------


def _broadcast(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.broadcast(xs[0], eqn.params["shape"], eqn.params["dims"])


def _permute(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.transpose(xs[0], eqn.params["axes"])


def _reshape(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.reshape(xs[0], eqn.params["shape"])


def _part(w: Writer, x: Ref, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Ref:
    shape = [max(0, -((a - b) // s)) for a, b, s in zip(start, stop, step, strict=True)]
    ranges = ", ".join([f"{a}:{b}:{s}" for a, b, s in zip(start, stop, step, strict=True)])
    out = Ref(w.fresh(), tuple(shape), x.dtype)
    w.line(f"{out.name} = stablehlo.slice {x.name} [{ranges}] : ({x.type}) -> {out.type}")
    return out


def _slice(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    shape, _ = _aval(eqn)
    p, (x,) = eqn.params, xs
    step = p["step"] or (1,) * len(shape)
    stop = [min(b, n) for b, n in zip(p["stop"], x.shape, strict=True)]
    start = [min(a, b) for a, b in zip(p["start"], stop, strict=True)]
    return _part(w, x, start, stop, step)


def _index(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), ints = xs, eqn.params["ints"]
    rest = x.shape[len(ints) :]
    part = _part(
        w, x, (*ints, *[0] * len(rest)), (*[i + 1 for i in ints], *rest), (1,) * len(x.shape)
    )
    return w.reshape(part, rest)


def _pad(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    p = eqn.params
    how = f", low = {list(p['low'])}, high = {list(p['high'])}, interior = {list(p['interior'])}"
    return w.op("stablehlo.pad", [xs[0], w.scalar(p["value"], xs[0].dtype)], *_aval(eqn), how)


def _reverse(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.op("stablehlo.reverse", xs, *_aval(eqn), f", dims = {list(eqn.params['axes'])}")


def _concatenate(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.op("stablehlo.concatenate", xs, *_aval(eqn), f", dim = {eqn.params['axis']}")


def _iota(w: Writer, eqn: Eqn, _xs: list[Ref]) -> Ref:
    shape, dtype = _aval(eqn)
    if dtype.kind == "b":
        return w.compare("NE", w.iota(shape, eqn.params["axis"]), w.scalar(0, INT64))
    return w.iota(shape, eqn.params["axis"], dtype)


def _unset(w: Writer, eqn: Eqn, _xs: list[Ref]) -> Ref:
    shape, dtype = _aval(eqn)
    return w.broadcast(w.scalar(0, dtype), shape, ())


# --- folding --------------------------------------------------------------------------------------


def _reduction(of_numbers: str, of_bools: str, neutral: Callable[[np.dtype], object]) -> Rule:
    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
        (x,), (shape, dtype) = xs, _aval(eqn)
        if dtype.kind == "c" and of_numbers in ("maximum", "minimum"):
            raise no_form(w.form, eqn, "complex numbers have no order there.")
        name = of_bools if dtype.kind == "b" else of_numbers
        first = w.scalar(neutral(dtype), dtype)
        out = Ref(w.fresh(), shape, dtype)
        w.line(
            f"{out.name} = stablehlo.reduce({x.name} init: {first.name}) applies stablehlo.{name} "
            f"across dimensions = {list(eqn.params['axes'])} : ({x.type}, {first.type}) "
            f"-> {out.type}"
        )
        return out

    return written


def _low(dtype: np.dtype) -> object:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -math.inf


def _high(dtype: np.dtype) -> object:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else math.inf


# --- indexing -------------------------------------------------------------------------------------


def _places(w: Writer, indices: Sequence[Ref]) -> list[Ref]:
    """Index arrays as int64; what that cannot hold is out of bounds all the same."""
    out: list[Ref] = []
    for i in indices:
        if i.dtype == np.uint64:
            i = w.hlo("stablehlo.minimum", i, w.scalar(_FAR, i.dtype))
        out.append(w.convert(i, INT64))
    return out


def _together(w: Writer, indices: Sequence[Ref]) -> Ref:
    """Index arrays along a new last axis."""
    shape = indices[0].shape
    parts = [w.reshape(i, (*shape, 1)) for i in indices]
    if len(parts) == 1:
        return parts[0]
    how = f", dim = {len(shape)}"
    return w.op("stablehlo.concatenate", parts, (*shape, len(parts)), INT64, how)


def _inside(w: Writer, indices: Sequence[Ref], lengths: Sequence[int]) -> Ref:
    """Where all indices are in bounds."""
    out: Ref | None = None
    for i, n in zip(indices, lengths, strict=True):
        ok = w.hlo(
            "stablehlo.and",
            w.compare("GE", i, w.scalar(0, INT64)),
            w.compare("LT", i, w.scalar(n, INT64)),
        )
        out = ok if out is None else w.hlo("stablehlo.and", out, ok)
    assert out is not None
    return out


def gathered(w: Writer, x: Ref, indices: Sequence[Ref], axes: Sequence[int]) -> Ref:
    """The elements at index arrays, which are clamped."""
    shape = indices[0].shape
    rest = [a for a in range(len(x.shape)) if a not in axes]
    sizes = [1 if a in axes else n for a, n in enumerate(x.shape)]
    offsets = [len(shape) + k for k in range(len(rest))]
    how = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, "
        f"collapsed_slice_dims = {list(axes)}, start_index_map = {list(axes)}, "
        f"index_vector_dim = {len(shape)}>, slice_sizes = array<i64: {', '.join(map(str, sizes))}>"
    )
    result = (*shape, *[x.shape[a] for a in rest])
    return w.generic("stablehlo.gather", [x, _together(w, indices)], [(result, x.dtype)], how)[0]


def _gather(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x, *indices), (shape, dtype) = xs, _aval(eqn)
    axes = eqn.params["axes"]
    lengths = [x.shape[a] for a in axes]
    if 0 in lengths or 0 in shape:
        return w.wide(w.scalar(0, dtype), shape)
    places = _places(w, indices)
    out = gathered(w, x, places, axes)
    if eqn.params["mode"] == "fill":
        inside = _inside(w, places, lengths)
        rank = len(inside.shape)
        wide = w.broadcast(inside, shape, range(rank)) if inside.shape != shape else inside
        out = w.select(wide, out, w.scalar(0, dtype))
    return out


_COMBINES = {
    "add": ("add", "or"), "mul": ("multiply", "and"), "min": ("minimum", "and"),
    "max": ("maximum", "or"),
}  # fmt: skip


def _scatter(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    x, updates, *indices = xs
    mode, axes = eqn.params["mode"], eqn.params["axes"]
    if x.dtype.kind == "c" and mode in ("min", "max"):
        raise no_form(w.form, eqn, "complex numbers have no order there.")
    if 0 in x.shape or 0 in updates.shape:
        return x
    places = _places(w, indices)
    if mode == "set" and math.prod(places[0].shape) > 1:
        places = _only_last(w, places, [x.shape[a] for a in axes])
    shape = places[0].shape
    windows = [len(shape) + k for k in range(len(x.shape) - len(axes))]
    how = (
        f"indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<"
        f"update_window_dims = {windows}, inserted_window_dims = {list(axes)}, "
        f"scatter_dims_to_operand_dims = {list(axes)}, index_vector_dim = {len(shape)}>, "
        "unique_indices = false"
    )
    old, new = Ref(w.fresh(), (), x.dtype), Ref(w.fresh(), (), x.dtype)

    def combined() -> list[Ref]:
        if mode == "set":
            return [new]
        return [w.hlo(f"stablehlo.{_COMBINES[mode][x.dtype.kind == 'b']}", old, new)]

    operands = [x, _together(w, places), updates]
    results = [(x.shape, x.dtype)]
    return w.generic("stablehlo.scatter", operands, results, how, [combined], [old, new])[0]


def _only_last(w: Writer, places: list[Ref], lengths: Sequence[int]) -> list[Ref]:
    """The index arrays, out of bounds where another update of the same place follows."""
    types = [Aval(i.shape, INT64) for i in places]
    program = trace(lambda *i: [last_places(i, tuple(lengths))], types, "last").program
    (last,) = w.body(program, places)
    return [w.select(last, places[0], w.scalar(-1, INT64)), *places[1:]]


def _dynamic_slice(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    sizes = f", sizes = {list(eqn.params['sizes'])}"
    return w.op("stablehlo.dynamic_slice", [xs[0], *_places(w, xs[1:])], *_aval(eqn), sizes)


def _dynamic_update(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    operands = [*xs[:2], *_places(w, xs[2:])]
    return w.generic("stablehlo.dynamic_update_slice", operands, [_aval(eqn)])[0]


# --- sorting --------------------------------------------------------------------------------------


def _before(w: Writer, x: Ref, y: Ref) -> Ref:
    """Whether x stands before y, NaN last."""
    less = w.compare("LT", x, y)
    if x.dtype.kind not in "fV":
        return less
    last = w.hlo("stablehlo.and", w.compare("EQ", x, x), w.compare("NE", y, y))
    return w.hlo("stablehlo.or", less, last)


def _sort(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    keys = eqn.params["num_keys"]
    if any([x.dtype.kind == "c" for x in xs[:keys]]):
        raise no_form(w.form, eqn, "complex numbers have no order there.")
    pairs = [(Ref(w.fresh(), (), x.dtype), Ref(w.fresh(), (), x.dtype)) for x in xs]

    def first() -> list[Ref]:
        found = _before(w, *pairs[keys - 1])
        for x, y in reversed(pairs[: keys - 1]):
            ahead, behind = _before(w, x, y), _before(w, y, x)
            tie = w.hlo("stablehlo.not", w.hlo("stablehlo.or", ahead, behind))
            found = w.hlo("stablehlo.or", ahead, w.hlo("stablehlo.and", tie, found))
        return [found]

    how = f"dimension = {eqn.params['axis']} : i64, is_stable = true"
    results = [(x.shape, x.dtype) for x in xs]
    arguments = [ref for pair in pairs for ref in pair]
    return w.generic("stablehlo.sort", xs, results, how, [first], arguments)


PLACES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
    "index": _index,
    "pad": _pad,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "iota": _iota,
    "unset": _unset,
    "reduce_sum": _reduction("add", "or", lambda _: 0),
    "reduce_prod": _reduction("multiply", "and", lambda _: 1),
    "reduce_max": _reduction("maximum", "or", _low),
    "reduce_min": _reduction("minimum", "and", _high),
    "reduce_any": _reduction("or", "or", lambda _: False),
    "reduce_all": _reduction("and", "and", lambda _: True),
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "sort": _sort,
}
