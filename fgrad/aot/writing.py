"""L7. Exported files are written: sections, arrays once each, a head that says where they are."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence

import numpy as np

from fgrad.aot.files import ALIGNMENT, FORMAT, HEAD, MAGIC, crc_of
from fgrad.base.size_functions import at_present
from fgrad.ir.aval import Aval
from fgrad.typing import PyTree


class Writer:
    """The sections of a file that is being made."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.known: dict[int, int] = {}  # arrays by identity
        self.arrays: list[PyTree] = []
        self.kept: list[np.ndarray] = []

    def section(self, data: bytes) -> list[int]:
        """Add bytes; their place."""
        place = [self.size, len(data)]
        padded = data + bytes(-len(data) % ALIGNMENT)
        self.parts.append(padded)
        self.size += len(padded)
        return place

    def array(self, x: np.ndarray) -> int:
        """Add an array, once; its number."""
        found = self.known.get(id(x))
        if found is None:
            found = self.known[id(x)] = len(self.arrays)
            self.kept.append(x)
            data = np.ascontiguousarray(x).tobytes()
            self.arrays.append([x.dtype.str, list(x.shape), self.section(data)])
        return found


def write(path: str, head: dict[str, PyTree], writer: Writer) -> int:
    """Write a file in one step, so that no reader sees half of it; the bytes written."""
    text = json.dumps({**head, "arrays": writer.arrays}, separators=(",", ":")).encode()
    text += b" " * (-(HEAD.size + len(text)) % ALIGNMENT)
    rest = b"".join([text, *writer.parts])
    data = HEAD.pack(MAGIC, FORMAT, len(text), crc_of(len(text), rest)) + rest
    folder = os.path.dirname(os.path.abspath(path))
    handle, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return len(data)


def aval_words(avals: Sequence[Aval]) -> list[PyTree]:
    """Types as they stand in a head; sizes that may change as they are in the example."""
    return [[a.dtype.str, list(at_present(a.shape)), a.weak] for a in avals]
