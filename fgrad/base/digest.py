"""L0. Hashes of contents.

`hashlib` loads OpenSSL, which takes 5 ms, a tenth of a process's first result: the function is
taken from the module that holds it alone.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter without it
    from hashlib import blake2b

_BYTES = 32


def digest(*parts: bytes | memoryview) -> str:
    """The hash of some bytes, in hexadecimal digits."""
    found = blake2b(digest_size=_BYTES)
    for part in parts:
        found.update(part)
    return found.hexdigest()
