"""L5. Check memory before routines that do not report a failed allocation.

NumPy's Fourier transforms allocate, and note a `MemoryError` in the thread that runs them: one of
the pool's loses it, and Python finds it too late in the caller's.  So each piece of a transform
allocates as much before, for all threads, and gives it back:

    none left    the piece is not computed, and `note` keeps the address of its output
    afterwards   `check`, a step in the caller's thread, raises for this output

Another program that takes the last memory in between is not seen.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from fgrad.base.system import c_library
from fgrad.compile.host.program import Callback
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.config import config

LEAST = 1 << 20  # bytes that are asked for; of less, Python's own objects fail too
NOTE, CHECK, COUNT = "fgrad_short_note", "fgrad_short_check", "fgrad_short_count"
MALLOC, FREE = "fgrad_ask_memory", "fgrad_return_memory"  # LLVM removes pairs that it knows
DECLARATIONS = {
    f"declare ptr @{MALLOC}(i64)",
    f"declare void @{FREE}(ptr)",
    f"declare void @{NOTE}(ptr, i64, i64)",
}
_SHORT: set[int] = set()  # addresses of outputs
_COUNT = ctypes.c_int64(0)


def transform_bytes(points: int, item: int, pieces: int) -> int:
    """What threads need for transforms of a length, of complex numbers of `item` bytes, of which
    there are some pieces; 0 if it is not worth to ask.

    A prime factor p of n with p^2 > n takes Bluestein's way, by a transform of about 2 n points.
    """
    rest, largest, factor = points, 1, 2
    while factor * factor <= rest:
        while not rest % factor:
            rest, largest = rest // factor, factor
        factor += 1
    largest = max(largest, rest)
    needed = (16 if largest * largest > points else 3) * points * item
    return needed * min(config.num_threads, pieces) if needed > LEAST else 0


def guard_text(needed: int) -> str:
    """The text of block `call`, which goes on to `enough` or to `end`."""
    return f"""  %spare = call ptr @{MALLOC}(i64 {needed})
  %short = icmp eq ptr %spare, null
  call void @{FREE}(ptr %spare)
  br i1 %short, label %none_left, label %enough
none_left:
  call void @{NOTE}(ptr %bufs, i64 0, i64 0)
  br label %end
enough:
"""


@lru_cache
def note(buffers: int) -> Callback:
    """What keeps the address of the output, the last buffer."""

    def keep_output(*addresses: int) -> None:
        _SHORT.add(addresses[-1])
        _COUNT.value = len(_SHORT)

    return Callback(keep_output, buffers)


def guard_imports(buffers: int) -> dict[str, int]:
    """The addresses behind the names of the guard."""
    library = c_library()
    routines = {NOTE: note(buffers).address}
    for name, function in ((MALLOC, library.malloc), (FREE, library.free)):
        routines[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return routines


@lru_cache
def check(buffers: int) -> tuple[int, Callback]:
    """The step behind a transform, and what it calls if memory was short anywhere."""

    def raise_if_short(*addresses: int) -> None:
        if addresses[-1] in _SHORT:
            _SHORT.discard(addresses[-1])
            _COUNT.value = len(_SHORT)
            raise MemoryError("There is no memory for a Fourier transform.")

    def emit(symbol: str) -> tuple[str, set[str]]:
        return _CHECK.format(symbol=symbol), {
            f"@{COUNT} = external global i64",
            f"declare void @{CHECK}(ptr, i64, i64)",
        }

    callback = Callback(raise_if_short, buffers)
    imports = {COUNT: ctypes.addressof(_COUNT), CHECK: callback.address}
    return build_counted([Source(f"short {buffers}", emit)], imports, glue=True)[0], callback


_CHECK = f"""define void @{{symbol}}(ptr %bufs, i64 %lo, i64 %hi) #0 {{{{
entry:
  %count = load volatile i64, ptr @{COUNT}
  %none = icmp eq i64 %count, 0
  br i1 %none, label %end, label %ask
ask:
  call void @{CHECK}(ptr %bufs, i64 0, i64 0)
  br label %end
end:
  ret void
}}}}"""
