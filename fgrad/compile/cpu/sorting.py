"""L5. Native library steps that sort rows: stable merge sort with NumPy's order, NaN last.

A row's keys and positions are copied into work memory, sorted in runs by insertion, and the runs
are merged pass by pass between two halves of it; then keys are copied out and payloads gathered by
position.  All keys that compare equal keep their order, so that `argsort` is NumPy's
`kind="stable"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fgrad.compile.cpu.frame import memory_type
from fgrad.compile.cpu.runtime import Source, build

RUN = 16  # elements sorted by insertion
_INT64 = np.dtype(np.int64)


class Sort(NamedTuple):
    """The parameters of `sort_rows`; a payload of None is the position itself."""

    dtype: np.dtype
    rows: int
    columns: int
    payloads: tuple[np.dtype | None, ...]
    keys_out: bool


def sort_rows(dtype: np.dtype, rows: int, columns: int, payloads: Sequence[np.dtype] = ()) -> int:
    """The address of a step that sorts each row of a matrix, and payloads of its shape alike.

    Buffers: keys, payloads, sorted keys, sorted payloads; range: [0, rows).  Inputs and outputs may
    not overlap.
    """
    dtypes = tuple([np.dtype(p) for p in payloads])
    return _build(Sort(np.dtype(dtype), rows, columns, dtypes, True))


def argsort_rows(dtype: np.dtype, rows: int, columns: int) -> int:
    """The address of a step that writes the int64 positions which sort each row of a matrix.

    Buffers: keys, positions; range: [0, rows).
    """
    return _build(Sort(np.dtype(dtype), rows, columns, (None,), False))


def _build(spec: Sort) -> int:
    return build([Source(f"sort {tuple(spec)}", lambda symbol: _emit(symbol, spec))])[0]


def _less(name: str, a: str, b: str, dtype: np.dtype) -> str:
    """The text of `name = a < b` in sorting order: NaN is larger than everything but NaN."""
    kind = memory_type(dtype)
    if dtype.kind != "f":
        return f"  {name} = icmp {'slt' if dtype.kind == 'i' else 'ult'} {kind} {a}, {b}\n"
    return (
        f"  {name}.below = fcmp olt {kind} {a}, {b}\n"
        f"  {name}.number = fcmp ord {kind} {a}, {a}\n"
        f"  {name}.nan = fcmp uno {kind} {b}, {b}\n"
        f"  {name}.last = and i1 {name}.number, {name}.nan\n"
        f"  {name} = or i1 {name}.below, {name}.last\n"
    )


def _at(name: str, base: str, index: str, kind: str) -> str:
    return f"  {name} = getelementptr {kind}, ptr {base}, i64 {index}\n"


def _load(name: str, base: str, index: str, kind: str) -> str:
    return _at(f"{name}.at", base, index, kind) + f"  {name} = load {kind}, ptr {name}.at\n"


def _store(name: str, value: str, base: str, index: str, kind: str) -> str:
    return _at(f"{name}.at", base, index, kind) + f"  store {kind} {value}, ptr {name}.at\n"


def _emit(symbol: str, spec: Sort) -> tuple[str, set[str]]:
    """The function: for each row, fill the work memory, sort runs, merge, write out."""
    declarations = {
        "declare ptr @malloc(i64)",
        "declare void @free(ptr)",
        "declare ptr @memcpy(ptr, ptr, i64)",
        "declare i64 @llvm.smin.i64(i64, i64)",
    }
    count, size = spec.columns, spec.dtype.itemsize
    keys = -(-count * size // 64) * 64
    inputs = [spec.dtype, *[p for p in spec.payloads if p is not None]]
    outputs = ([spec.dtype] if spec.keys_out else []) + [p or _INT64 for p in spec.payloads]
    text = [f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\nentry:\n"]
    if count == 0:
        return text[0] + "  ret void\n}", set()
    text += [_load(f"%buf{k}", "%bufs", str(k), "ptr") for k in range(len(inputs + outputs))]
    text.append(f"  %work = call ptr @malloc(i64 {2 * keys + 16 * count})\n")
    for name, offset in (
        ("%keys0", 0),
        ("%keys1", keys),
        ("%places0", 2 * keys),
        ("%places1", 2 * keys + 8 * count),
    ):
        text.append(_at(name, "%work", str(offset), "i8"))
    text.append("  %any = icmp slt i64 %lo, %hi\n  br i1 %any, label %row, label %done\n")
    text.append("row:\n  %r = phi i64 [ %lo, %entry ], [ %r.next, %written ]\n")
    text.append(f"  %first = mul i64 %r, {count}\n")
    text += [
        _at(f"%row{k}", f"%buf{k}", "%first", memory_type(d))
        for k, d in enumerate(inputs + outputs)
    ]
    text.append(f"  %filled = call ptr @memcpy(ptr %keys0, ptr %row0, i64 {count * size})\n")
    text.append(_runs(spec))
    text += [_merge_passes(spec), _write(spec, len(inputs))]
    text.append("done:\n  call void @free(ptr %work)\n  ret void\n}")
    return "".join(text), declarations


def _runs(spec: Sort) -> str:
    """Number the positions and sort each run of RUN elements by insertion."""
    kind = memory_type(spec.dtype)
    return (
        "  br label %insert\n"
        "insert:\n  %i = phi i64 [ 0, %row ], [ %i.next, %inserted ]\n"
        + _load("%key", "%keys0", "%i", kind)
        + f"  %begin = and i64 %i, {-RUN}\n  br label %shift\n"
        "shift:\n  %j = phi i64 [ %i, %insert ], [ %j.next, %move ]\n"
        "  %more = icmp sgt i64 %j, %begin\n  br i1 %more, label %compare, label %inserted\n"
        "compare:\n  %j.next = sub i64 %j, 1\n"
        + _load("%before", "%keys0", "%j.next", kind)
        + _less("%smaller", "%key", "%before", spec.dtype)
        + "  br i1 %smaller, label %move, label %inserted\nmove:\n"
        + _load("%place", "%places0", "%j.next", "i64")
        + _store("%moved", "%before", "%keys0", "%j", kind)
        + _store("%moved.place", "%place", "%places0", "%j", "i64")
        + "  br label %shift\ninserted:\n"
        + _store("%put", "%key", "%keys0", "%j", kind)
        + _store("%put.place", "%i", "%places0", "%j", "i64")
        + "  %i.next = add i64 %i, 1\n"
        f"  %i.more = icmp slt i64 %i.next, {spec.columns}\n"
        "  br i1 %i.more, label %insert, label %merge\n"
    )


def _merge_passes(spec: Sort) -> str:
    """Merge neighbouring runs, twice as long in each pass, between the halves of the work
    memory."""
    kind, count, size = memory_type(spec.dtype), spec.columns, spec.dtype.itemsize
    swapped = "".join(
        [
            f"  %{x} = phi ptr [ %{start}, %merge ], [ %{other}, %paired ]\n"
            for x, other, start in (
                ("k0", "k1", "keys0"),
                ("k1", "k0", "keys1"),
                ("p0", "p1", "places0"),
                ("p1", "p0", "places1"),
            )
        ]
    )
    return (
        "merge:\n  br label %pass\n"
        f"pass:\n  %width = phi i64 [ {RUN}, %merge ], [ %wider, %paired ]\n"
        + swapped
        + f"  %unsorted = icmp slt i64 %width, {count}\n  %wider = shl i64 %width, 1\n"
        "  br i1 %unsorted, label %pair, label %write\n"
        "pair:\n  %s = phi i64 [ 0, %pass ], [ %end, %paired ]\n"
        "  %s.mid = add i64 %s, %width\n  %s.end = add i64 %s, %wider\n"
        f"  %mid = call i64 @llvm.smin.i64(i64 %s.mid, i64 {count})\n"
        f"  %end = call i64 @llvm.smin.i64(i64 %s.end, i64 {count})\n"
        "  br label %head\n"
        "head:\n  %a = phi i64 [ %s, %pair ], [ %a.next, %take ]\n"
        "  %b = phi i64 [ %mid, %pair ], [ %b.next, %take ]\n"
        "  %o = phi i64 [ %s, %pair ], [ %o.next, %take ]\n"
        "  %a.more = icmp slt i64 %a, %mid\n  %b.more = icmp slt i64 %b, %end\n"
        "  %both = and i1 %a.more, %b.more\n  br i1 %both, label %take, label %rest\ntake:\n"
        + _load("%left", "%k0", "%a", kind)
        + _load("%right", "%k0", "%b", kind)
        + _less("%second", "%right", "%left", spec.dtype)
        + f"  %least = select i1 %second, {kind} %right, {kind} %left\n"
        "  %from = select i1 %second, i64 %b, i64 %a\n"
        + _load("%from.place", "%p0", "%from", "i64")
        + _store("%to", "%least", "%k1", "%o", kind)
        + _store("%to.place", "%from.place", "%p1", "%o", "i64")
        + "  %step = zext i1 %second to i64\n  %b.next = add i64 %b, %step\n"
        "  %other = sub i64 1, %step\n  %a.next = add i64 %a, %other\n"
        "  %o.next = add i64 %o, 1\n  br label %head\n"
        "rest:\n  %source = select i1 %a.more, i64 %a, i64 %b\n"
        "  %left.over = sub i64 %end, %o\n"
        + _at("%rest.keys", "%k0", "%source", kind)
        + _at("%rest.places", "%p0", "%source", "i64")
        + _at("%out.keys", "%k1", "%o", kind)
        + _at("%out.places", "%p1", "%o", "i64")
        + f"  %key.bytes = mul i64 %left.over, {size}\n  %place.bytes = mul i64 %left.over, 8\n"
        "  %c0 = call ptr @memcpy(ptr %out.keys, ptr %rest.keys, i64 %key.bytes)\n"
        "  %c1 = call ptr @memcpy(ptr %out.places, ptr %rest.places, i64 %place.bytes)\n"
        "  br label %paired\n"
        f"paired:\n  %pairs.more = icmp slt i64 %end, {count}\n"
        "  br i1 %pairs.more, label %pair, label %pass\n"
    )


def _write(spec: Sort, inputs: int) -> str:
    """Copy the sorted keys out and gather the payloads by position."""
    text, count = "write:\n", spec.columns
    target = inputs
    if spec.keys_out:
        size = count * spec.dtype.itemsize
        text += f"  %kept = call ptr @memcpy(ptr %row{target}, ptr %k0, i64 {size})\n"
        target += 1
    source = 1
    text += "  br label %gather0\n"
    for k, dtype in enumerate(spec.payloads):
        kind = memory_type(dtype or _INT64)
        text += (
            f"gather{k}:\n  br label %one{k}\none{k}:\n"
            f"  %g{k} = phi i64 [ 0, %gather{k} ], [ %g{k}.next, %one{k} ]\n"
            + _load(f"%g{k}.place", "%p0", f"%g{k}", "i64")
        )
        value = f"%g{k}.place"
        if dtype is not None:
            text += _load(f"%g{k}.value", f"%row{source}", f"%g{k}.place", kind)
            value = f"%g{k}.value"
            source += 1
        text += (
            _store(f"%g{k}.out", value, f"%row{target + k}", f"%g{k}", kind)
            + f"  %g{k}.next = add i64 %g{k}, 1\n"
            f"  %g{k}.more = icmp slt i64 %g{k}.next, {count}\n"
            f"  br i1 %g{k}.more, label %one{k}, label %gather{k + 1}\n"
        )
    return text + (
        f"gather{len(spec.payloads)}:\n  br label %written\nwritten:\n"
        "  %r.next = add i64 %r, 1\n  %r.more = icmp slt i64 %r.next, %hi\n"
        "  br i1 %r.more, label %row, label %done\n"
    )
