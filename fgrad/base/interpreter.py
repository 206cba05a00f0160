"""L0. Refuse import into a subinterpreter, where calls would deadlock or crash the process.

NumPy does not support them, and machine code that calls back into Python takes the lock of the main
interpreter.
"""

from __future__ import annotations

import ctypes

_WORDS = """fgrad works in the main interpreter of a process only, and this is a subinterpreter.

  why     NumPy does not support subinterpreters, and compiled code calls back into the main one.
  write   WSGIApplicationGroup %{GLOBAL}      under mod_wsgi
  write   concurrent.futures.ProcessPoolExecutor or ThreadPoolExecutor instead of interpreters"""


def number_of_this_interpreter() -> int:
    """0 for the main interpreter of the process, else a number above."""
    api = ctypes.pythonapi
    state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyInterpreterState_Get", api))()
    number = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    return number(("PyInterpreterState_GetID", api))(state)


if number_of_this_interpreter() != 0:
    raise ImportError(_WORDS)
