"""L6. Failed import or load of a CUDA library -> the card that names the missing package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.errors import MissingCudaError

INSTALL = "pip install 'fgrad[cuda]'       in a terminal; no GPU is needed for it"
_LINES = 8  # of what a library says that was not found: it may list whole directories


@contextmanager
def needs(piece: str) -> Iterator[None]:
    """Within the block, which imports and loads, a failure means that `piece` is missing."""
    try:
        yield
    except MissingCudaError:
        raise
    except Exception as error:
        name = f"the module {error.name}" if isinstance(error, ModuleNotFoundError) else piece
        raise missing(name, f"{type(error).__name__}: {error}") from error


def missing(piece: str, found: str, write: str = INSTALL) -> MissingCudaError:
    """The card for a missing piece, with what was found in its place."""
    lines = found.strip().splitlines()
    shown = [*lines[:_LINES], "..."] if len(lines) > _LINES else lines
    return MissingCudaError(
        f"To compile CUDA kernels, {piece} is needed.",
        [("found", "\n".join(shown)), ("write", write)],
    )
