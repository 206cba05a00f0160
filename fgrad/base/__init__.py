"""L0. What any module may use: late imports, locks, tracebacks, lines, foreign containers.

The first import of it refuses where fgrad cannot be right: in a subinterpreter, and under another
Python.  In a subinterpreter calls would deadlock or crash the process: NumPy does not support them,
and machine code that calls back into Python takes the lock of the main interpreter.  Other Pythons
than CPython (PyPy, GraalPy) have no API of C that machine code could call.
"""

from __future__ import annotations

import ctypes
import sys

_OTHER_PYTHON = """fgrad works in CPython only, and this is {name}.

  why     its compiled functions call the C API of CPython, and read NumPy's arrays in memory.
  write   python3 -m pip install fgrad      with a Python from python.org, conda or your system"""
_SUBINTERPRETER = """\
fgrad works in the main interpreter of a process only, and this is a subinterpreter.

  why     NumPy does not support subinterpreters, and compiled code calls back into the main one.
  write   WSGIApplicationGroup %{GLOBAL}      under mod_wsgi
  write   concurrent.futures.ProcessPoolExecutor or ThreadPoolExecutor instead of interpreters"""


def number_of_this_interpreter() -> int:
    """0 for the main interpreter of the process, else a number above."""
    # By index each is an object of its own, unlike the attribute, whose types others may set.
    state, number = [ctypes.pythonapi[f"PyInterpreterState_Get{part}"] for part in ("", "ID")]
    state.restype, number.restype, number.argtypes = (
        ctypes.c_void_p,
        ctypes.c_int64,
        [ctypes.c_void_p],
    )
    return int(number(state()))


if sys.implementation.name != "cpython":
    raise ImportError(_OTHER_PYTHON.format(name=sys.implementation.name))
if number_of_this_interpreter() != 0:
    raise ImportError(_SUBINTERPRETER)
