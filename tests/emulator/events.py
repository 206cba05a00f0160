"""What a device that is not there was asked for, as its log and its graphs hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Launch(NamedTuple):
    """A kernel that ran."""

    function: int
    grid: int
    block: tuple[int, int]
    pointers: tuple[int, ...]


class Fill(NamedTuple):
    """Memory that was set to a word of 1 or 4 bytes, repeated."""

    pointer: int
    word: bytes
    count: int


class Move(NamedTuple):
    """A copy: "to device", "from device" or "on device"."""

    way: str
    to: int
    source: int
    nbytes: int


class Work(NamedTuple):
    """What a function of a library does."""

    do: Callable[[], None]


class Graph(NamedTuple):
    """A graph that was launched; its nodes follow in the log."""

    nodes: int


Event: TypeAlias = Launch | Fill | Move | Work | Graph
