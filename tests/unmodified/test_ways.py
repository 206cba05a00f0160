"""Whatever way leads to what a compiled function reads from outside, a change is seen."""

from __future__ import annotations

import itertools
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
NUMBER = itertools.count()


def _module(source: str, folder: Path) -> Any:
    """A module of its own with a program's code, in a file."""
    path = folder / "program.py"
    path.write_text(f"import {IMPORTS}\nimport numpy as np\nFACTOR = 2.0\n{source}")
    module: Any = types.ModuleType(f"outside_program_{next(NUMBER)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_seen(name: str, tmp_path: Path) -> None:
    module = _module(PROGRAMS[name], tmp_path)
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


SPECIAL = {
    "__call__(self, x): return x * FACTOR": "Made()(x)",
    "__add__(self, x): return x * FACTOR": "Made() + x[0]",
    "__mul__(self, x): return x * FACTOR": "Made() * 2.0 * x",
    "__neg__(self): return FACTOR": "-Made() * x",
    "__getitem__(self, k): return FACTOR": "Made()[0] * x",
    "__len__(self): return int(FACTOR)": "len(Made()) * x",
    "__bool__(self): return FACTOR > 2.5": "(x if Made() else -x)",
    "__iter__(self): return iter([FACTOR])": "[k * x for k in Made()][0]",
    "__enter__(self): return FACTOR\n def __exit__(self, *_): pass": "entered(x)",
    "__contains__(self, k): return k < FACTOR": "(x if 3.0 in Made() else -x)",
    "__float__(self): return FACTOR": "float(Made()) * x",
    "__eq__(self, other): return FACTOR > 2.5": "(x if Made() == 1 else -x)",
    "__getattr__(self, name): return FACTOR": "Made().anything * x",
    "f(self): 0\nclass M(type):\n def __call__(cls): return FACTOR\nclass B(metaclass=M): 0": (
        "B() * x"
    ),
    "__get__(self, x, cls): return FACTOR\nclass Other:\n held = Made()": "Other().held * x",
    "__class_getitem__(cls, k): return FACTOR": "Made[0] * x",
    "__new__(cls): return FACTOR": "Made() * x",
    "__array__(self, *_, **__): return np.full(3, FACTOR)": "x * np.asarray(Made())",
}


@pytest.mark.parametrize("function", SPECIAL)
def test_special_functions_of_objects_that_are_made_are_looked_at(
    function: str, tmp_path: Path
) -> None:
    source = f"""
class Made:
 def {function}
def entered(x):
  with Made() as k:
    return k * x
def f(x):
  return {SPECIAL[function]}
"""
    module = _module(source, tmp_path)
    ours = fgrad.jit(module.f)
    for factor in (2.0, 3.0, 5.0):
        module.FACTOR = factor
        np.testing.assert_array_equal(ours(X), module.f(X))
