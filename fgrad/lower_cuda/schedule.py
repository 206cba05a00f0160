"""L6. Kernels for the device: their loops in order, and the launches that they become."""

from __future__ import annotations

from functools import lru_cache

from fgrad.compile.kernel.ir import Kernel
from fgrad.lower_cuda.emit_body import emit_body
from fgrad.lower_cuda.forms import Piece, form_of, ordered, pieces
from fgrad.lower_cuda.library_calls import Calls, KernelCall, Place
from fgrad.lower_cuda.two_passes import two_passes


def schedule(kernel: Kernel) -> Kernel:
    """The kernel as `launches` takes it."""
    return ordered(kernel)


@lru_cache(maxsize=4096)
def launches(kernel: Kernel) -> Calls:
    """What runs a scheduled kernel: places are its buffers that are no scratch, in order, and
    after them the scratch areas."""
    writer = _Writer([b.name for b in kernel.buffers if b.role != "scratch"])
    for piece in pieces(kernel):
        passes = two_passes(piece)
        if passes is None:
            writer.add(piece)
            continue
        for part in passes.parts:
            writer.area(part.size * part.dtype.itemsize, part.name)
        for half in (passes.first, passes.second):
            for inner in pieces(half):
                writer.add(inner)
    return Calls(tuple(writer.calls), tuple(writer.scratch))


class _Writer:
    """Collects launches and the areas that they need."""

    def __init__(self, given: list[str]) -> None:
        self.places = {name: Place(k) for k, name in enumerate(given)}
        self.given = len(given)
        self.calls: list[KernelCall] = []
        self.scratch: list[int] = []

    def area(self, size: int, name: str = "") -> Place:
        """A new scratch area."""
        place = Place(self.given + len(self.scratch))
        self.scratch.append(size)
        if name:
            self.places[name] = place
        return place

    def add(self, piece: Piece) -> None:
        """The launch of a piece."""
        form = form_of(piece)
        body = emit_body(piece, form)
        names = [b.name for b in piece.kernel.buffers if b.role != "scratch"]
        places = [self.places[name] for name in names]
        places += [self.area(size) for size in body.scratch]
        self.calls.append(KernelCall(body.text, form.grid, form.block, tuple(places)))
