"""L6. The threads that share one item of a kernel: a warp, or a whole block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from fgrad.lower_cuda.emit.machine import WARP
from fgrad.lower_cuda.emit.team_text import Values, block_fold, warp_fold
from fgrad.lower_cuda.emit.text import BodyText

_WARP_BARRIER = "llvm.nvvm.bar.warp.sync"


class Team:
    """`size` threads whose numbers are `%x`.

    Folds of a block alternate between two pieces of shared memory.  A piece is written again by the
    next fold but one; the barrier of the fold between comes after all threads have read it, so no
    other is needed.  A fold in a loop meets its own piece again, and ends with a barrier.
    """

    def __init__(self, text: BodyText, size: int) -> None:
        self.text, self.size = text, size
        self.loops = 0  # how many loops surround the code being emitted; all threads run them
        self.folds: Counter[np.dtype] = Counter()

    def is_first(self) -> str:
        """An i1 that is true in the team's first thread."""
        return self.text.compare("eq", "i32", "%x", 0)

    def barrier(self) -> None:
        """Emit a barrier for the team; earlier writes are visible after it."""
        if self.size > WARP:
            self.text.barrier()
            return
        self.text.declare(f"declare void @{_WARP_BARRIER}(i32)")
        self.text.line(f"call void @{_WARP_BARRIER}(i32 -1)")

    def fold(self, value: str, dtype: np.dtype, join: Callable[[str, str], str]) -> str:
        """The values of all threads combined by `join`, in an order that is always the same."""

        def combine(_text: BodyText, a: Values, b: Values) -> Values:
            return (join(a[0], b[0]),)

        if self.size == WARP:
            return warp_fold(self.text, combine, (value,), [dtype])[0]
        self.folds[dtype] += 1
        name = f"fold_{dtype.kind}{dtype.itemsize}_{self.folds[dtype] % 2}_"
        (total,) = block_fold(
            self.text, name, combine, (value,), [dtype], self.size, again=self.loops > 0
        )
        return total
