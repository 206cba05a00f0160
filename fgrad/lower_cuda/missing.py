"""L6. What of the CUDA toolchain is not installed: an import or a load that failed -> a card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.errors import MissingCudaError

INSTALL = "pip install 'fgrad[cuda]'"


@contextmanager
def needs(piece: str) -> Iterator[None]:
    """Within the block a failed import or load means that `piece` is missing."""
    try:
        yield
    except MissingCudaError:
        raise
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise missing(piece, f"{type(error).__name__}: {error}") from error


def missing(piece: str, found: str) -> MissingCudaError:
    """The card for a missing piece, with what was looked for."""
    return MissingCudaError(
        f"{piece} is needed to compile CUDA kernels.",
        [("found", found), ("write", f"{INSTALL:<31} in a terminal; no GPU is needed for it")],
    )
