"""Whatever way leads to what a compiled function reads from outside, a change is seen."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from way_programs import PROGRAMS

import fgrad
from fgrad.errors import RetraceWarning

IMPORTS = (
    "abc, array, collections, contextlib, contextvars, copy, ctypes, dataclasses, enum, fractions,"
    " functools, itertools, operator, os, threading, types, typing, weakref"
)
X = np.arange(1.0, 4.0)


def _module(name: str, folder: Path) -> Any:
    """A module of its own with the program's code, in a file."""
    path = folder / "program.py"
    path.write_text(f"import {IMPORTS}\nimport numpy as np\nFACTOR = 2.0\n{PROGRAMS[name]}")
    module: Any = types.ModuleType(f"outside_program_{list(PROGRAMS).index(name)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_seen(name: str, tmp_path: Path) -> None:
    module = _module(name, tmp_path)
    change = getattr(module, "SET", None) or (lambda value: setattr(module, "FACTOR", value))
    ours = fgrad.jit(module.f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for value in (2.0, 3.0, 3.0, 5.0, 2.0, 2.0):
            change(value)
            np.testing.assert_allclose(ours(X), module.f(X))


def test_threads_have_values_of_their_own() -> None:
    held = threading.local()
    held.factor = 2.0
    ours = fgrad.jit(lambda x: x * held.factor)
    np.testing.assert_array_equal(ours(X), 2.0 * X)
    found: list[np.ndarray] = []

    def other() -> None:
        held.factor = 5.0
        found.append(ours(X))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], 5.0 * X)
    np.testing.assert_array_equal(ours(X), 2.0 * X)
