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
