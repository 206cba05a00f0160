"""L6. What every trace needs: NumPy's functions for tracers, and loops that are rewritten.

`import fgrad` leaves it to the first trace: `fgrad.load` of a file with machine code does without,
and takes a ninth of the time.
"""

from __future__ import annotations

import fgrad.numpy  # noqa: F401
from fgrad.capture import entry  # noqa: F401
from fgrad.tracing.tables import deferred, essentials

deferred["fgrad.scipy.special"] = None  # what the ufuncs of `scipy.special` do to tracers


def loaded() -> None:
    """Nothing more: importing this module has done it."""


essentials.provide(loaded)
