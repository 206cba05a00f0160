"""L6. Kernels for the device: their loops in order, and the launches that they become."""

from __future__ import annotations

from functools import lru_cache

from fgrad.compile.kernel.ir import Kernel
from fgrad.lower_cuda.emit_body import emit_body
from fgrad.lower_cuda.forms import Piece, form_of, ordered, pieces
from fgrad.lower_cuda.library_calls import Calls, KernelCall, Place


def schedule(kernel: Kernel) -> Kernel:
    """The kernel as `launches` takes it."""
    return ordered(kernel)


@lru_cache(maxsize=4096)
def launches(kernel: Kernel) -> Calls:
    """What runs a scheduled kernel: places are its buffers that are no scratch, in order, and
    after them the scratch areas."""
    calls: list[KernelCall] = []
    scratch: list[int] = []
    given = [b.name for b in kernel.buffers if b.role != "scratch"]
    for piece in pieces(kernel):
        form = form_of(piece)
        body = emit_body(piece, form)
        places = [Place(given.index(name)) for name in _arguments(piece)]
        first = len(given) + len(scratch)
        places += [Place(first + k) for k in range(len(body.scratch))]
        scratch += body.scratch
        calls.append(KernelCall(body.text, form.grid, form.block, tuple(places)))
    return Calls(tuple(calls), tuple(scratch))


def _arguments(piece: Piece) -> list[str]:
    return [b.name for b in piece.kernel.buffers if b.role != "scratch"]
