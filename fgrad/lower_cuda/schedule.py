"""L6. Kernels -> kernels with ordered loops -> GPU launches."""

from __future__ import annotations

from functools import lru_cache

from fgrad.compile.kernel.ir import Buffer, Kernel
from fgrad.compile.tasks.routines import RowSort
from fgrad.config import config
from fgrad.ir.aval import INT64
from fgrad.lower_cuda.emit.body import emit_body
from fgrad.lower_cuda.emit.calls import Address, Calls, KernelCall
from fgrad.lower_cuda.emit.forms import Piece, form_of, ordered, pieces
from fgrad.lower_cuda.emit.scatter import (
    FEW,
    Scatter,
    atomic,
    by_columns,
    in_order,
    is_atomic,
    match_scatter,
)
from fgrad.lower_cuda.emit.two_passes import two_passes
from fgrad.lower_cuda.library.sort import sort_calls


def schedule(kernel: Kernel) -> Kernel:
    """Order the kernel's loops for `launches`."""
    return ordered(kernel)


def launches(kernel: Kernel) -> Calls:
    """The launches of a scheduled kernel; places number its non-scratch buffers in order, then
    the scratch areas."""
    return _launches(kernel, config.atomics)


@lru_cache(maxsize=4096)
def _launches(kernel: Kernel, atomics: bool) -> Calls:
    writer = _Writer([b.name for b in kernel.buffers if b.role != "scratch"])
    for piece in pieces(kernel):
        found = match_scatter(piece)
        if found is not None:
            writer.scatter(found, atomics)
        else:
            writer.piece(piece)
    return Calls(tuple(writer.calls), tuple(writer.scratch))


class _Writer:
    """Collects launches and their scratch areas."""

    def __init__(self, given: list[str]) -> None:
        self.places = {name: Address(k) for k, name in enumerate(given)}
        self.given = len(given)
        self.calls: list[KernelCall] = []
        self.scratch: list[int] = []

    def area(self, size: int) -> Address:
        """A new scratch area."""
        self.scratch.append(size)
        return Address(self.given + len(self.scratch) - 1)

    def buffer(self, buffer: Buffer) -> Address:
        """A new scratch area for a buffer."""
        place = self.places[buffer.name] = self.area(buffer.size * buffer.dtype.itemsize)
        return place

    def piece(self, piece: Piece) -> None:
        """The launches of a piece: two for a long reduction."""
        passes = two_passes(piece)
        if passes is None:
            self.launch(piece)
            return
        for part in passes.parts:
            self.buffer(part)
        self.kernel(passes.first)
        self.kernel(passes.second)

    def kernel(self, kernel: Kernel, atomic: bool = False) -> None:
        """The launches of a kernel, each piece unchanged."""
        for piece in pieces(ordered(kernel)):
            self.launch(piece._replace(atomic=atomic))

    def launch(self, piece: Piece) -> None:
        """The launch of a piece."""
        form = form_of(piece)
        body = emit_body(piece, form)
        names = [b.name for b in piece.kernel.buffers if b.role != "scratch"]
        places = [self.places[name] for name in names]
        places += [self.area(size) for size in body.scratch]
        self.calls.append(KernelCall(body.text, form.grid, form.block, tuple(places)))

    def scatter(self, found: Scatter, atomics: bool) -> None:
        """The launches of a scatter."""
        if found.count <= FEW:
            self.kernel(by_columns(found))
        elif is_atomic(found, atomics):
            self.kernel(atomic(found), True)
        else:
            self.in_order(found)

    def in_order(self, found: Scatter) -> None:
        """Compute keys, sort them, and reduce runs of equal keys."""
        parts = in_order(found)
        places = [self.buffer(b) for b in (parts.keys, parts.ordered, parts.numbers)]
        self.kernel(parts.first)
        calls = sort_calls(RowSort(INT64, 1, found.count, (None,), True, 1))
        first = self.given + len(self.scratch)
        self.scratch += calls.scratch
        for call in calls.calls:
            assert isinstance(call, KernelCall)
            moved = [
                p._replace(number=first + p.number - len(places))
                if p.number >= len(places)
                else places[p.number]._replace(offset=p.offset, step=p.step)
                for p in call.places
            ]
            self.calls.append(call._replace(places=tuple(moved)))
        self.kernel(parts.second)
