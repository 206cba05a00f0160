"""L5. The disk cache of compiled code: a directory of small files named by content keys.

A file is the CRC-32 and the length of its payload, then the payload; a file that does not match is
ignored, and so is any failure of the file system: a cache may forget but must not break a program.
Files are written under another name and renamed, so that readers never see half of one.

What is read here is executed, so the directory must be the user's own and writable by nobody else;
otherwise it is left alone, with one warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import tempfile
import time
import warnings
import zlib
from collections.abc import Sequence

SIZE_LIMIT = 256 << 20
_HEAD = struct.Struct("<IQ")
_START = 0x66677264  # of the CRC, so that zeros match nothing
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_USED_NOW = 3600.0  # seconds in which a file is not marked as used again
_LOOK_AGAIN = 3600.0  # seconds between two looks at the size of the directory, by any process
_STAMP = "last-look"
_SETTLED = 2_000_000_000  # nanoseconds after which another change has another time


class DiskStore:
    """Payloads by key in `directory`; what was not used for longest goes when it outgrows
    `size_limit` bytes."""

    def __init__(self, directory: str, size_limit: int = SIZE_LIMIT) -> None:
        self.directory = directory
        self.size_limit = size_limit
        self._written = 0  # bytes since the last look at the directory
        self._usable: bool | None = None  # None: not looked at yet

    def path(self, key: str) -> str:
        """The file of `key`."""
        return f"{self.directory}{os.sep}{key[-2:]}{os.sep}{key}"

    def get(self, key: str) -> bytes | None:
        """The payload of `key`, or None if it is absent or damaged."""
        if not self.usable():
            return None
        path = self.path(key)
        try:
            handle = os.open(path, _READ)
            try:
                state = os.fstat(handle)
                data = os.read(handle, state.st_size)
            finally:
                os.close(handle)
        except OSError:
            return None
        payload = data[_HEAD.size :]
        if _head(payload) != data[: _HEAD.size]:
            return None
        if state.st_mtime < time.time() - _USED_NOW:
            with contextlib.suppress(OSError):
                os.utime(path)  # see `trim`
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload`, if the file system lets us."""
        with contextlib.suppress(OSError):
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            if not self.usable(missing=False):
                return
            path = self.path(key)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _write(path, _head(payload) + payload)
            self._written += len(payload)
            if self._written > self.size_limit // 8 or self._look_is_old():
                self._written = 0
                self.trim()

    def usable(self, missing: bool = True) -> bool:
        """Whether the directory is ours alone; one that is `missing` can do no harm."""
        if self._usable is None:
            try:
                state = os.stat(self.directory)
            except OSError:
                return missing
            self._usable = _is_own(state)
            if not self._usable:
                warnings.warn(
                    f"the cache directory {self.directory} belongs to another user or can be "
                    "written by others; compiled code is neither read from it nor kept there. "
                    f"Run `chmod 700 {self.directory}`, or set FGRAD_CACHE_DIR.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self._usable

    def _look_is_old(self) -> bool:
        """Whether no process has looked at the directory's size for an hour; ours will now."""
        stamp = os.path.join(self.directory, _STAMP)
        with contextlib.suppress(FileNotFoundError):
            if abs(time.time() - os.stat(stamp).st_mtime) < _LOOK_AGAIN:
                return False
        with open(stamp, "wb"):
            os.utime(stamp)
        return True

    def trim(self) -> None:
        """Delete the files that were not used for longest until three quarters of the limit are
        left."""
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


def _head(payload: bytes) -> bytes:
    """What stands before a payload."""
    return _HEAD.pack(zlib.crc32(payload, _START), len(payload))


def contents(files: Sequence[str], store: DiskStore) -> str:
    """A hash of the contents of files, which are read where one of them may have changed since the
    store was told: any change of a file changes the time of its last change, which nobody can set.
    """
    states = [(file, os.stat(file)) for file in files]
    stamp = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in states]
    key = "d_" + hashlib.sha256(repr(stamp).encode()).hexdigest()[:40]
    settled = max([s.st_ctime_ns for _, s in states], default=0) < time.time_ns() - _SETTLED
    known = store.get(key) if os.name == "posix" and settled else None
    if known is not None:
        return known.decode()
    digest = hashlib.sha256()
    for file in files:
        digest.update(_read(file))
    if os.name == "posix" and settled:
        store.put(key, digest.hexdigest().encode())
    return digest.hexdigest()


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _is_own(state: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):
        return True
    return state.st_uid == os.getuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _write(path: str, data: bytes) -> None:
    """Write a file that appears at once and whole; nothing is left behind if that fails."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
