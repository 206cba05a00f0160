"""L5. Routines -> native code: what a step that is no kernel calls.

The modules that write them are loaded when a program has such a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.sizes import NotShared, is_symbolic
from fgrad.compile.host.program import Callback
from fgrad.compile.kernel.machine import CALL_CYCLES

if TYPE_CHECKING:
    from fgrad.compile.cpu.exchanges import Exchange
    from fgrad.compile.cpu.ufunc_loops import UfuncLoop
    from fgrad.compile.tasks.routines import (
        Evaluation,
        Gemm,
        MatrixRoutine,
        OneCall,
        RowWalk,
        SpecialFunction,
    )

if TYPE_CHECKING:
    from fgrad.compile.cpu import complex_parts as complex_loops
    from fgrad.compile.cpu import exchanges, lapack_factors, library, spare_memory, ufunc_loops
    from fgrad.compile.cpu import external as special
    from fgrad.compile.cpu.rows import search, sorting, top, walks
    from fgrad.compile.host import callback as callbacks
    from fgrad.compile.tasks import routines as tasks
else:
    callbacks = lazy_module("fgrad.compile.host.callback")
    complex_loops = lazy_module("fgrad.compile.cpu.complex_parts")
    exchanges = lazy_module("fgrad.compile.cpu.exchanges")
    lapack_factors = lazy_module("fgrad.compile.cpu.lapack_factors")
    library = lazy_module("fgrad.compile.cpu.library")
    search = lazy_module("fgrad.compile.cpu.rows.search")
    sorting = lazy_module("fgrad.compile.cpu.rows.sorting")
    spare_memory = lazy_module("fgrad.compile.cpu.spare_memory")
    special = lazy_module("fgrad.compile.cpu.external")
    top = lazy_module("fgrad.compile.cpu.rows.top")
    ufunc_loops = lazy_module("fgrad.compile.cpu.ufunc_loops")
    tasks = lazy_module("fgrad.compile.tasks.routines")
    walks = lazy_module("fgrad.compile.cpu.rows.walks")

# A routine of a step, or the loop in C that an `Evaluation` is on the CPU.
NativeTask: TypeAlias = "OneCall | SpecialFunction | UfuncLoop | Exchange"


class NativeRoutine(NamedTuple):
    """A routine in memory: its address, its range, the cycles of all of it if it may be shared
    among threads, and what notes its failures."""

    address: int
    extent: int
    cost: float
    callback: Callback | None
    table: tuple[int, ...] = ()  # the last buffer
    grain: int = 1  # pieces of the range are multiples of it


def native_routine(routine: NativeTask) -> NativeRoutine:
    """The code of a routine.

    Raises:
        NotShared: it is for one size, and sizes are symbols.
    """
    kind = type(routine).__name__
    if kind not in _TABLED and is_symbolic(routine):
        raise NotShared(f"{kind}: its code is for one size")
    return _NATIVE[type(routine).__name__](routine)


def task_of(name: str, fields: Sequence[object]) -> NativeTask:
    """A task by the name of its type."""
    home = {"UfuncLoop": ufunc_loops, "Exchange": exchanges}.get(name, tasks)
    return getattr(home, name)(*fields)


def _host_call(call: Evaluation) -> NativeRoutine:
    callback = callbacks.evaluation(call.eqn)
    return NativeRoutine(callback.address, 1, 0.0, callback)


def _product(gemm: Gemm) -> NativeRoutine:
    cut = library.pieces(gemm)
    address, table = library.product_code(gemm)
    return NativeRoutine(address, cut.count, cut.count * cut.cycles, None, table)


def _walk(spec: RowWalk) -> NativeRoutine:
    address, table = walks.row_walk(spec)
    return NativeRoutine(address, spec.pieces, spec.cycles, None, table)


def _matrix_routine(routine: MatrixRoutine) -> NativeRoutine:
    params = dict(routine.params)
    native = lapack_factors.LAPACK[routine.name](**params)
    cost = lapack_factors.cycles(routine.name, **params)
    grain = lapack_factors.together(routine.name, **params)
    return NativeRoutine(native.address, routine.batch, cost, native.failure, grain=grain)


def _special(f: SpecialFunction) -> NativeRoutine:
    return NativeRoutine(special.external(f), f.size, CALL_CYCLES * f.size, None)


def _ufunc(loop: UfuncLoop) -> NativeRoutine:
    failure = spare_memory.check(loop.buffers)[1] if loop.bytes_needed else None
    return NativeRoutine(ufunc_loops.ufunc_loop(loop), loop.size, loop.cycles, failure)


_TABLED = ("Gemm", "RowWalk")  # sizes are data of their code
_NATIVE: dict[str, Callable[[Any], NativeRoutine]] = {
    "Evaluation": _host_call,
    "Exchange": lambda task: NativeRoutine(exchanges.exchange_code(task), 1, 0.0, None),
    "Gemm": _product,
    "ComplexParts": lambda parts: NativeRoutine(
        complex_loops.complex_parts(parts), parts.size, 0.0, None
    ),
    "UfuncLoop": _ufunc,
    "SpecialFunction": _special,
    "MatrixRoutine": _matrix_routine,
    "RowSearch": lambda r: NativeRoutine(search.row_search(r), r.pieces, r.cycles, None),
    "RowTop": lambda r: NativeRoutine(top.row_top(r), r.pieces, r.cycles, None),
    "RowWalk": _walk,
    "RowSort": lambda r: NativeRoutine(sorting.sort_rows(r), r.pieces, r.cycles, None),
}
