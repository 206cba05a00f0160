"""L5. Files and folders writable by the user only, checked on the open descriptor.

    with opened("/home/me/.cache/fgrad") as folder:    # refused if others could have written there
        with folder.inner("f") as inner:
            data = inner.read("k_...3f")

A check of a path says nothing about what the path leads to a moment later.  So each folder is
opened first, looked at through its descriptor, and all that is below is opened relative to that.
A file must be a regular one: links are not followed, and a pipe does not make the reader wait.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator

TEMPORARY = "tmp_"  # begins the name of a file that is not yet whole
_POSIX = os.open in os.supports_dir_fd and hasattr(os, "geteuid")
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


class ForeignFileError(Exception):
    """Somebody else owns a file or folder of the cache, or could have changed it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path
        self.why = why


class Folder:
    """A folder that is open; `handle` is None where the system knows no descriptors of folders."""

    def __init__(self, path: str, handle: int | None) -> None:
        self.path = path
        self.handle = handle

    def _at(self, name: str) -> str:
        return name if self.handle is not None else os.path.join(self.path, name)

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._at(name), flags, dir_fd=self.handle)

    @contextlib.contextmanager
    def inner(self, name: str, create: bool = False) -> Iterator[Folder]:
        """A folder in this one."""
        path = os.path.join(self.path, name)
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._at(name), 0o700, dir_fd=self.handle)
        if not _POSIX:
            yield Folder(path, None)
            return
        try:
            handle = self._open(name, _READ | _FOLDER | _NO_LINK | _AT_ONCE)
        except NotADirectoryError:
            raise ForeignFileError(path, "is no folder") from None
        with _checked(path, handle):
            yield Folder(path, handle)

    def read(self, name: str) -> tuple[bytes, os.stat_result]:
        """The contents of a file, and its state."""
        path = os.path.join(self.path, name)
        try:
            handle = self._open(name, _READ | _NO_LINK | _AT_ONCE)
        except OSError:
            if self.is_link(name):
                raise ForeignFileError(path, "is a link") from None
            raise
        try:
            state = os.fstat(handle)
            _refuse_foreign(path, state, stat.S_ISREG, "file")
            return os.read(handle, state.st_size), state
        finally:
            os.close(handle)

    def is_link(self, name: str) -> bool:
        """Whether a name in this folder is a symbolic link."""
        with contextlib.suppress(OSError):
            return stat.S_ISLNK(self.state(name).st_mode)
        return False

    def state(self, name: str) -> os.stat_result:
        """The state of a file, of a link itself if it is one."""
        return os.stat(self._at(name), dir_fd=self.handle, follow_symlinks=False)

    def write(self, name: str, data: bytes) -> None:
        """Write a file that appears at once and whole; nothing is left behind if that fails."""
        temporary = f"{TEMPORARY}{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0)
        handle = os.open(self._at(temporary), flags, 0o600, dir_fd=self.handle)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            here = {"src_dir_fd": self.handle, "dst_dir_fd": self.handle}
            os.replace(self._at(temporary), self._at(name), **here)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def remove(self, name: str) -> None:
        """Delete a file."""
        os.remove(self._at(name), dir_fd=self.handle)

    def mark_used(self, name: str) -> None:
        """Let the time of a file be now."""
        os.utime(self._at(name), dir_fd=self.handle, follow_symlinks=self.handle is None)

    def names(self) -> list[str]:
        """What is in this folder."""
        return os.listdir(self.path if self.handle is None else self.handle)


@contextlib.contextmanager
def opened(path: str, create: bool = False) -> Iterator[Folder]:
    """A folder by its path, which may lead through links; it must be the user's own."""
    if create:
        os.makedirs(path, mode=0o700, exist_ok=True)
    if not _POSIX:
        os.stat(path)
        yield Folder(path, None)
        return
    handle = os.open(path, _READ | _FOLDER | _AT_ONCE)
    with _checked(path, handle):
        yield Folder(path, handle)


@contextlib.contextmanager
def _checked(path: str, handle: int) -> Iterator[None]:
    """Close a folder at the end; refuse it if it is not the user's own."""
    try:
        _refuse_foreign(path, os.fstat(handle), stat.S_ISDIR, "folder")
        yield
    finally:
        os.close(handle)


def _refuse_foreign(
    path: str, state: os.stat_result, is_kind: Callable[[int], bool], kind: str
) -> None:
    """Raise unless `state` is of a file or folder that this user alone could have written."""
    if not is_kind(state.st_mode):
        raise ForeignFileError(path, f"is no {kind}")
    if not _POSIX:
        return
    if state.st_uid != os.geteuid():
        raise ForeignFileError(path, "belongs to another user")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ForeignFileError(path, "can be written by other users")
