"""L5. The disk cache of compiled code: a directory of small files named by content keys.

A file is the SHA-256 of its payload, then the payload; a file that does not match is ignored, and
so is any failure of the file system: a cache may forget but must not break a program.  Files are
written under another name and renamed, so that readers never see half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile

SIZE_LIMIT = 256 << 20
_DIGEST = 32


class DiskStore:
    """Payloads by key in `directory`; the oldest go when it outgrows `size_limit` bytes."""

    def __init__(self, directory: str, size_limit: int = SIZE_LIMIT) -> None:
        self.directory = directory
        self.size_limit = size_limit
        self._written = size_limit  # bytes since the last look at the directory

    def path(self, key: str) -> str:
        """The file of `key`."""
        return os.path.join(self.directory, key[-2:], key)

    def get(self, key: str) -> bytes | None:
        """The payload of `key`, or None if it is absent or damaged."""
        try:
            with open(self.path(key), "rb") as file:
                data = file.read()
        except OSError:
            return None
        payload = data[_DIGEST:]
        return payload if hashlib.sha256(payload).digest() == data[:_DIGEST] else None

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload`, if the file system lets us."""
        path = self.path(key)
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
        self._written += len(payload)
        if self._written > self.size_limit // 8:
            self._written = 0
            self.trim()

    def trim(self) -> None:
        """Delete the oldest files until three quarters of the limit are left."""
        files = []
        for folder, _, names in os.walk(self.directory):
            for name in names:
                with contextlib.suppress(OSError):
                    path = os.path.join(folder, name)
                    state = os.stat(path)
                    files.append((state.st_mtime, state.st_size, path))
        total = sum([size for _, size, _ in files])
        if total <= self.size_limit:
            return
        for _, size, path in sorted(files):
            if total <= self.size_limit * 3 // 4:
                return
            with contextlib.suppress(OSError):
                os.remove(path)
                total -= size
