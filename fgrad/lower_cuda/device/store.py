"""L6. The cache of cubins: a key -> a compiled kernel, in the same directory as the CPU's code.

The files are those of `fgrad.compile.llvm.store`, which says what they withstand.
"""

from __future__ import annotations

import marshal

from fgrad.base.digest import digest
from fgrad.compile.llvm import runtime
from fgrad.config import config
from fgrad.lower_cuda.device.cubin import Cubin, Resources


def key_of(text: str, words: tuple[object, ...]) -> str:
    """The name of what is made of a text under the conditions `words`."""
    return "c_" + digest(f"{words}\n{text}".encode())[:40]


def recall(key: str) -> Cubin | None:
    """The kernel with this key, if it is on disk."""
    payload = runtime.store().get(key) if config.cache else None
    if payload is None:
        return None
    image, entry, numbers = marshal.loads(payload)
    return Cubin(image, entry, Resources(*numbers))


def keep(key: str, cubin: Cubin) -> None:
    """Write a kernel to disk, if the disk lets us."""
    if config.cache:
        image, entry, numbers = cubin
        runtime.store().put(key, marshal.dumps((image, entry, tuple(numbers))))
