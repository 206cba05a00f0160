"""L5. The disk cache of compiled code: a directory of small files named by content keys, in 16
folders: to make a folder takes five times as long as to write a file.

A file is the CRC-32 and the length of the rest, then its key and its payload.  A file that does not
match is ignored, and so is any failure of the file system: a cache may forget but must not break a
program.  On a full disk nothing is written any more, with one warning.  Files are written under
another name and renamed, so that readers never see half of one.

What is read here is executed.  So each folder and file must be the user's own and writable by
nobody else, which is looked at through the descriptor that is read (`own_files.py`); and a file
holds its key, so that one that was moved to another name is not taken for it.  What is refused ends
the use of the cache for the process, with one warning.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.base.digest import digest
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import warn_user
from fgrad.compile.llvm.own_files import TEMPORARY, Folder, ForeignFileError, opened
from fgrad.errors import CacheWarning, Row, card
from fgrad.typing import PyTree

SIZE_LIMIT = 256 << 20
_HEAD = struct.Struct("<IQ")
_START = 0x66677264  # of the CRC, so that zeros match nothing
_USED_NOW = 3600.0  # seconds in which a file is not marked as used again
_LOOK_AGAIN = 3600.0  # seconds between two looks at the size of the directory, by any process
_STAMP = "last-look"
_SETTLED = 2_000_000_000  # nanoseconds after which another change has another time
_SLOW = 0.25  # seconds that reads and writes may take in the mean
_SLOW_AFTER = 8  # reads and writes before a folder is called slow
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the user's part of it, a file


class DiskStore:
    """Payloads by key in `directory`; what was not used for longest goes when it outgrows
    `size_limit` bytes."""

    def __init__(self, directory: str, size_limit: int = SIZE_LIMIT) -> None:
        self.directory = directory
        self.size_limit = size_limit
        self._written = 0  # bytes since the last look at the directory
        self._off = False  # refused, or too slow
        self._full = False
        self._uses = 0
        self._seconds = 0.0

    def path(self, key: str) -> str:
        """The file of `key`."""
        return os.path.join(self.directory, key[-1], key)

    def get(self, key: str) -> bytes | None:
        """The payload of `key`, or None if it is absent, damaged or not the user's own."""
        return self._attempt(self._read, key)

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload`, if the file system lets us."""
        if not self._full:
            self._attempt(self._write, key, payload)

    def trim(self) -> None:
        """Delete the files that were not used for longest until three quarters of the limit are
        left."""
        self._attempt(self._trim)

    def entries(self) -> list[StoredFile]:
        """The files of the cache, the one that was not used for longest first.

        Raises:
            OSError, ForeignFileError: if the folder cannot be read, or is not the user's own.
        """
        with opened(self.directory) as folder:
            return sorted([file for name in folder.names() for file in _entries(folder, name)])

    def remove(self, files: Sequence[StoredFile], nbytes: int | None = None) -> list[StoredFile]:
        """Delete files of the cache, all or until so many bytes are free; those that are gone.

        Raises:
            OSError, ForeignFileError: if the folder cannot be read, or is not the user's own.
        """
        gone: list[StoredFile] = []
        left = float("inf") if nbytes is None else nbytes
        with opened(self.directory) as folder:
            for file in files:
                if left <= 0:
                    break
                with contextlib.suppress(OSError), folder.inner(file.folder) as place:
                    place.remove(file.name)
                    gone.append(file)
                    left -= file.size
        return gone

    def _attempt(self, action: Callable[..., PyTree], *args: PyTree) -> Any:
        """What `action` gives; None where the file system fails or the cache is not used."""
        if self._off:
            return None
        start = time.perf_counter()
        try:
            return action(*args)
        except ForeignFileError as error:
            self._turn_off(
                "The cache of compiled code holds what others could have written.",
                ("what", f"{error}"),
                ("why", "code from the cache is executed, so others must not be able to write it."),
                ("write", f"rm -r {self.directory}    it is made anew; do not change its mode"),
            )
        except OSError as error:
            if error.errno in _FULL:
                self._stop_writing(error)
            return None
        finally:
            self._uses += 1
            self._seconds += time.perf_counter() - start
            if self._uses >= _SLOW_AFTER and self._seconds > _SLOW * self._uses:
                self._turn_off(
                    "The folder of the cache of compiled code is slow.",
                    ("what", f"{self._uses} files of {self.directory}: {self._seconds:.1f} s"),
                )

    def _stop_writing(self, error: OSError) -> None:
        if self._full:
            return
        self._full = True
        rows: tuple[Row, ...] = (
            ("what", f"{self.directory}: {error.strerror}"),
            ("write", "FGRAD_CACHE_DIR=folder      another folder, or make room"),
            ("now", "what this process compiles is not kept; results are right."),
        )
        headline = "There is no room for the cache of compiled code."
        warn_user(card(headline, rows, CacheWarning.__name__.lower()), CacheWarning)

    def _turn_off(self, headline: str, *rows: Row) -> None:
        if self._off:
            return
        self._off = True
        rows += (
            ("write", "FGRAD_CACHE_DIR=folder      another folder, which is yours alone"),
            ("now", "nothing is read from it or written to it until this process ends."),
        )
        warn_user(card(headline, rows, CacheWarning.__name__.lower()), CacheWarning)

    def _read(self, key: str) -> bytes | None:
        with opened(self.directory) as folder, folder.inner(key[-1]) as inner:
            data, state = inner.read(key)
            payload = _payload(key, data)
            if payload is not None and state.st_mtime < time.time() - _USED_NOW:
                with contextlib.suppress(OSError):
                    inner.mark_used(key)  # see `trim`
            return payload

    def _write(self, key: str, payload: bytes) -> None:
        with opened(self.directory, create=True) as folder:
            with folder.inner(key[-1], create=True) as inner:
                inner.write(key, _entry(key, payload))
            self._written += len(payload)
            if self._written > self.size_limit // 8 or _look_is_old(folder):
                self._written = 0
                self._trim()

    def _trim(self) -> None:
        files = self.entries()
        total = sum([file.size for file in files])
        if total > self.size_limit:
            self.remove(files, total - self.size_limit * 3 // 4)


class StoredFile(NamedTuple):
    """A file of the cache: when it was last used, its size and its place."""

    used: float
    size: int
    folder: str
    name: str


def _entries(folder: Folder, inner: str) -> list[StoredFile]:
    """The files of the cache in an inner folder.

    A file that was not made here, as where the cache is in a folder with other files, is no entry.
    """
    found: list[StoredFile] = []
    if len(inner) > 2:
        return found
    with contextlib.suppress(OSError, ForeignFileError), folder.inner(inner) as place:
        for name in place.names():
            if name.endswith(inner) or name.startswith(TEMPORARY):
                with contextlib.suppress(OSError):
                    state = place.state(name)
                    found.append(StoredFile(state.st_mtime, state.st_size, inner, name))
    return found


def _look_is_old(folder: Folder) -> bool:
    """Whether no process has looked at the directory's size for an hour; ours will now."""
    with contextlib.suppress(FileNotFoundError):
        if abs(time.time() - folder.state(_STAMP).st_mtime) < _LOOK_AGAIN:
            return False
    folder.write(_STAMP, b"")
    return True


def _entry(key: str, payload: bytes) -> bytes:
    """The contents of a file."""
    body = key.encode() + b"\n" + payload
    return _HEAD.pack(zlib.crc32(body, _START), len(body)) + body


def _payload(key: str, data: bytes) -> bytes | None:
    """The payload of a file; None if it is damaged, or of another key."""
    body = data[_HEAD.size :]
    if data[: _HEAD.size] != _HEAD.pack(zlib.crc32(body, _START), len(body)):
        return None
    name, _, payload = body.partition(b"\n")
    return payload if name == key.encode() else None


def python_files(folder: str, without: Sequence[str] = ()) -> list[str]:
    """The Python files in a folder, and in those in it that have other names than these."""
    found: list[str] = []
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.append(entry.path)
                elif entry.is_dir() and entry.name not in (*without, "__pycache__"):
                    waiting.append(entry.path)
    return sorted(found)


def contents(files: Sequence[str], store: DiskStore | None) -> str:
    """A hash of the contents of files, which are read where one of them may have changed since the
    store, if there is one, was told: any change of a file changes the time of its last change,
    which nobody can set.
    """
    states = [(file, os.stat(file)) for file in files]
    stamp = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for name, s in states]
    key = "d_" + digest(repr(stamp).encode())[:40]
    settled = max([s.st_ctime_ns for _, s in states], default=0) < time.time_ns() - _SETTLED
    known = store.get(key) if store is not None and os.name == "posix" and settled else None
    if known is not None:
        return known.decode()
    found = digest(*map(_read, files))
    if store is not None and os.name == "posix" and settled:
        store.put(key, found.encode())
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
