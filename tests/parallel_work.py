"""Functions that other processes find by name."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import fgrad


@fgrad.jit
def cube(x: Any) -> Any:
    return x**3


slope = fgrad.jit(fgrad.grad(cube))


class Unsendable(Exception):
    def __init__(self, one: object, two: object) -> None:
        super().__init__(f"{one} and {two}")


def fails(x: Any) -> Any:
    if x == 5:
        raise ValueError("five is refused")
    if x == 7:
        raise Unsendable(1, lambda: 2)
    return x


TRACED: list[int] = []


@fgrad.jit
def counted(x: Any) -> Any:
    TRACED.append(1)
    return x + 1


def traces(x: Any) -> tuple[int, int, int]:
    """The process, how often it has traced, and its threads."""
    counted(np.float64(x))
    return os.getpid(), len(TRACED), fgrad.config.num_threads
