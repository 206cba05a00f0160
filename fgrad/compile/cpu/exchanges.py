"""L5. Native steps of collectives: one call of the MPI library, by address, without Python.

    psum[axis=data] x       MPI_Allreduce(x, out, count, type, MPI_SUM, the communicator of `data`)
                            of two ranks and some KB: MPI_Sendrecv(x, the other rank, out), out += x

Two ranks that exchange what they have send one message each; an allreduce sends two, of halves, and
takes twice as long.
Handles are numbers in MPICH and addresses of this process in Open MPI, so that code reads them from
a table (`tracing/ranks.py`) whose address is given when it is loaded: compiled programs may lie on
the disk.  Around the call it notes in the table where this rank waits, for the thread that watches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.blocks import each_loop
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.ir.program import Eqn, Var
from fgrad.ops import primitives as prims
from fgrad.tracing import ranks
from fgrad.tracing.ranks import AXES, LIBRARY

MOST = (1 << 31) - 1  # of C's int, in which MPI counts
PAIR = 1 << 13  # bytes from which two ranks exchange their operands and add
TABLE = "fgrad_ranks"


class Exchange(NamedTuple):
    """A collective on arrays of a size: the name of its primitive, that of the axis, its places."""

    name: str
    axis: str
    places: int
    dtype: np.dtype
    size: int  # of the operand
    pairs: tuple[tuple[int, int], ...] = ()


def exchange(eqn: Eqn) -> Exchange | None:
    """The collective of an equation, if the library has it for these arrays."""
    p = eqn.params
    if LIBRARY.native is None or p["axis"] not in AXES:
        return None
    if eqn.prim is prims.axis_index:
        return Exchange("axis_index", p["axis"], p["places"], eqn.outputs[0].aval.dtype, 1)
    x, out = eqn.inputs[0].aval, eqn.outputs[0].aval
    found = Exchange(eqn.prim.name, p["axis"], p["places"], x.dtype, x.size, p.get("perm", ()))
    sums = eqn.prim is prims.psum or eqn.prim is prims.psum_scatter
    fits = max(x.size, out.size) * x.dtype.itemsize <= MOST and x.size > 0
    fits = fits and isinstance(eqn.inputs[0], Var) and found.name in _CALLS
    return found if fits and (not sums or _number(x.dtype)[0] in ranks.NUMBERS) else None


def _number(dtype: np.dtype) -> tuple[str, int]:
    """The code of the real numbers of which an element consists, and how many they are."""
    if dtype.kind == "c":
        return f"f{dtype.itemsize // 2}", 2
    return f"{dtype.kind}{dtype.itemsize}", 1


def exchange_code(task: Exchange) -> int:
    """The address of a step; its buffers are the operand, if there is one, and the result."""
    native, number = LIBRARY.native, AXES[task.axis].number
    assert native is not None
    handle = {4: "i32", 8: "ptr"}[native.handle]
    if task.name == "axis_index":
        function, lines, types = "", _place_text(number), ()
    else:
        function, values = _CALLS[task.name](task, number)
        lines, types = _call_text(task, function, values, handle), values.types(handle)

    def emit(symbol: str) -> tuple[str, set[str]]:
        text = f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\n{lines}  ret void\n}}"
        text = text.replace("@HERE", f"@{symbol}")
        declared = {f"@{TABLE} = external global i64"}
        if function:
            declared.add(f"declare i32 @fgrad_{function}({', '.join(types)})")
        tables = _tables(task) if task.name == "ppermute" else []
        return text, declared | {t.replace("@HERE", f"@{symbol}") for t in tables}

    imports = {TABLE: native.table}
    if function:
        imports[f"fgrad_{function}"] = native.functions[function]
    text, declared = emit("f")  # which names the places of the table: versions differ
    content = f"exchange {tuple(task)} {text} {sorted(declared)}"
    return build_counted([Source(content, emit)], imports, glue=True)[0]


class _Values(NamedTuple):
    """The arguments of a call: words as `int 3` or `buffer 0`, and `handle 5` of the table."""

    words: tuple[tuple[str, int | str], ...]

    def types(self, handle: str) -> tuple[str, ...]:
        """Their LLVM types."""
        kinds = {"int": "i32", "rank": "i32", "buffer": "ptr", "status": "ptr", "handle": handle}
        return tuple([kinds[kind] for kind, _ in self.words])


def _allreduce(task: Exchange, axis: int) -> tuple[str, _Values]:
    code, per = _number(task.dtype)
    words = (
        ("buffer", 0), ("buffer", 1), ("int", task.size * per), ("handle", ranks.NUMBERS[code]),
        ("handle", ranks.SUM), ("handle", ranks.communicator(axis)),
    )  # fmt: skip
    return "MPI_Allreduce", _Values(words)


def _sum(task: Exchange, axis: int) -> tuple[str, _Values]:
    return _sendrecv(task, axis, "other", "other", 1) if _is_pair(task) else _allreduce(task, axis)


def _is_pair(task: Exchange) -> bool:
    """Whether it is a sum of what two ranks exchange."""
    return task.name == "psum" and task.places == 2 and task.size * task.dtype.itemsize >= PAIR


def _reduce_scatter(task: Exchange, axis: int) -> tuple[str, _Values]:
    _, (a, b, (_, count), *rest) = _allreduce(task, axis)[0], _allreduce(task, axis)[1].words
    assert isinstance(count, int)
    return "MPI_Reduce_scatter_block", _Values((a, b, ("int", count // task.places), *rest))


def _gather(task: Exchange, axis: int, function: str = "MPI_Allgather") -> tuple[str, _Values]:
    size = task.size * task.dtype.itemsize
    count = size if function == "MPI_Allgather" else size // task.places
    each = (("int", count), ("handle", ranks.BYTE))
    words = (("buffer", 0), *each, ("buffer", 1), *each, ("handle", ranks.communicator(axis)))
    return function, _Values(words)


def _all_to_all(task: Exchange, axis: int) -> tuple[str, _Values]:
    return _gather(task, axis, "MPI_Alltoall")


def _sendrecv(
    task: Exchange, axis: int, to: str = "to", source: str = "from", tag: int = 0
) -> tuple[str, _Values]:
    """The tag keeps sums and permutations apart, which would be taken for each other else."""
    each = (("int", task.size * task.dtype.itemsize), ("handle", ranks.BYTE))
    words = (
        ("buffer", 0), *each, ("rank", to), ("int", tag),
        ("buffer", 1), *each, ("rank", source), ("int", tag),
        ("handle", ranks.communicator(axis)), ("status", 0),
    )  # fmt: skip
    return "MPI_Sendrecv", _Values(words)


_CALLS: dict[str, Callable[[Exchange, int], tuple[str, _Values]]] = {
    "psum": _sum,
    "psum_scatter": _reduce_scatter,
    "all_gather": _gather,
    "all_to_all": _all_to_all,
    "ppermute": _sendrecv,
}


def _word(name: str, place: int, kind: str = "i64") -> str:
    """%name = the word of the table at a place."""
    at = f"  %at_{name} = getelementptr i64, ptr @{TABLE}, i64 {place}\n"
    return f"{at}  %{name} = load {kind}, ptr %at_{name}\n"


def _buffer(number: int) -> str:
    return (
        f"  %place{number} = getelementptr ptr, ptr %bufs, i64 {number}\n"
        f"  %buffer{number} = load ptr, ptr %place{number}\n"
    )


def _place_text(axis: int) -> str:
    """The result is the place of this rank."""
    text = _buffer(0) + _word("index", ranks.position(axis))
    return text + "  store i64 %index, ptr %buffer0\n"


def _call_text(task: Exchange, function: str, values: _Values, handle: str) -> str:
    """The call, and the notes around it."""
    text = _buffer(0) + _buffer(1)
    if task.name == "ppermute":
        text += _neighbours(task)
    if _is_pair(task):
        text += _word("index", ranks.position(AXES[task.axis].number))
        text += "  %here = trunc i64 %index to i32\n  %other = sub i32 1, %here\n"
    arguments: list[str] = []
    for (kind, value), given in zip(values.words, values.types(handle), strict=True):
        if kind == "handle":
            if f"%h{value} =" not in text:
                text += _word(f"h{value}", int(value), handle)
            arguments.append(f"{given} %h{value}")
        elif kind == "status":
            at = f"getelementptr (i64, ptr @{TABLE}, i64 {ranks.STATUS})"
            arguments.append(f"{given} {at}")
        else:
            name = {"int": f"{value}", "rank": f"%{value}", "buffer": f"%buffer{value}"}[kind]
            arguments.append(f"{given} {name}")
    inside = ranks.MEETINGS.index(task.name)
    notes = (
        f"  store i64 {task.size * task.dtype.itemsize}, ptr "
        f"getelementptr (i64, ptr @{TABLE}, i64 {ranks.BYTES})\n"
        + _word("begun", ranks.BEGUN)
        + "  %now = add i64 %begun, 1\n  store volatile i64 %now, ptr %at_begun\n"
        f"  %at_inside = getelementptr i64, ptr @{TABLE}, i64 {ranks.INSIDE}\n"
        f"  store volatile i64 {inside}, ptr %at_inside\n"
    )
    call = f"  %status = call i32 @fgrad_{function}({', '.join(arguments)})\n"
    added = _added(task) if _is_pair(task) else ""
    return f"{text}{notes}{call}  store volatile i64 0, ptr %at_inside\n{added}"


def _added(task: Exchange) -> str:
    """The operand is added to what the other rank has: first vectors, then what is left.

    The sum of two numbers is the same at both ranks, whichever comes first.
    """
    code, per = _number(task.dtype)
    bits = 8 * int(code[1:])
    kind = {"f4": "float", "f8": "double"}.get(code, f"i{bits}")
    lanes, count = 512 // bits, task.size * per

    def each(label: str, kind: str, first: int) -> str:
        text = f"  %{label}_k = add i64 %{label}_i, {first}\n"
        for k in (0, 1):
            text += (
                f"  %{label}_at{k} = getelementptr {kind}, ptr %buffer{k}, i64 %{label}_k\n"
                f"  %{label}_x{k} = load {kind}, ptr %{label}_at{k}, align {bits // 8}\n"
            )
        return text + (
            f"  %{label}_y = {'f' * (code[0] == 'f')}add {kind} %{label}_x0, %{label}_x1\n"
            f"  store {kind} %{label}_y, ptr %{label}_at1, align {bits // 8}\n"
        )

    whole = count // lanes
    vectors = each_loop("vector", str(whole), each("vector", f"<{lanes} x {kind}>", 0), "single")
    rest = each_loop("single", str(count % lanes), each("single", kind, whole * lanes), "added")
    return f"  br label %vector\n{vectors}{rest}added:\n"


def _tables(task: Exchange) -> list[str]:
    """For each rank the one that it sends to, and that it receives from; -1 for none."""
    to, source = {a: b for a, b in task.pairs}, {b: a for a, b in task.pairs}
    found: list[str] = []
    for name, pairs in (("to", to), ("from", source)):
        items = ", ".join([f"i32 {pairs.get(k, -1)}" for k in range(task.places)])
        found.append(f"@HERE_{name} = private constant [{task.places} x i32] [{items}]")
    return found


def _neighbours(task: Exchange) -> str:
    """%to and %from; what no rank sends is zero."""
    axis = AXES[task.axis].number
    text = _word("index", ranks.position(axis)) + _word("none", ranks.NOBODY)
    text += "  %nobody = trunc i64 %none to i32\n"
    for name in ("to", "from"):
        text += (
            f"  %at_{name} = getelementptr i32, ptr @HERE_{name}, i64 %index\n"
            f"  %given_{name} = load i32, ptr %at_{name}\n"
            f"  %no_{name} = icmp slt i32 %given_{name}, 0\n"
            f"  %{name} = select i1 %no_{name}, i32 %nobody, i32 %given_{name}\n"
        )
    size = task.size * task.dtype.itemsize
    return (
        text + "  br i1 %no_from, label %clear, label %meet\nclear:\n"
        f"  call void @llvm.memset.p0.i64(ptr %buffer1, i8 0, i64 {size}, i1 false)\n"
        "  br label %meet\nmeet:\n"
    )
