"""In a subinterpreter fgrad refuses to be imported; its calls would wait for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import importlib, sys
name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
interpreters = importlib.import_module(name)
{first}
inner = '''
try:
    import fgrad
except ImportError as error:
    print(error, flush=True)
'''
interpreters.run_string(interpreters.create(), inner)
"""


@pytest.mark.parametrize("first", ["", "import fgrad"])
def test_subinterpreters_are_refused(first: str) -> None:
    command = [sys.executable, "-c", _CODE.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "this is a subinterpreter" in done.stdout and "ProcessPoolExecutor" in done.stdout


_PYPY = """
import sys, types
sys.implementation = types.SimpleNamespace(**{**vars(sys.implementation), "name": "pypy"})
del sys.modules["ctypes"].pythonapi  # which no other Python has
try:
    import fgrad
except ImportError as error:
    print(error)
"""


def test_other_pythons_are_refused() -> None:
    command = [sys.executable, "-c", "import ctypes" + _PYPY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fgrad works in CPython only, and this is pypy.")
