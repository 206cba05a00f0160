"""L7. Native calls of loaded functions: as those of jitted ones, without Python."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from fgrad import tree
from fgrad.aot.trees import made
from fgrad.aot.trusted import TrustedExecutable
from fgrad.compile.entry.native import NativeCallable, NativeCalls, native_class
from fgrad.compile.entry.table import Parameters, Results, Work
from fgrad.compile.host.threads import pool_address, share_address
from fgrad.compile.llvm.interrupts import POLL
from fgrad.compile.llvm.runtime import signal_functions
from fgrad.config import config
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.aot.load import Loaded


@native_class
class NativeLoaded(NativeCallable):
    """A loaded function whose calls go to native code first."""

    __slots__ = ("calls", "loaded")

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.calls = NativeCalls()

    def __call__(self, *args: PyTree) -> PyTree:
        return self.loaded.call_in_python(args)


def native_calls(loaded: Any, args: tuple[PyTree, ...]) -> NativeLoaded | None:
    """What makes calls like this one natively."""
    executable = loaded._executable
    if isinstance(executable, TrustedExecutable):
        attach(executable)
        if executable.words.messages:
            return None  # a failure is raised in Python
        work = _work(executable)
    else:
        work = executable.work(loaded.program)
    found = NativeLoaded(loaded)
    treedef = tree.structure((args, {}))
    parameters = Parameters(args, {}, treedef, {}, executable.in_avals)
    count = len(executable.out_avals)
    out_tree = tree.structure(made(loaded._results, range(count)))
    results = Results(executable.out_avals, out_tree, config.recycle, list(range(count)))
    return found if found.calls.learn(found, parameters, results, work) is not None else None


def attach(executable: TrustedExecutable) -> None:
    """Let the code share its work among threads, and its loops look for signals."""
    several = config.num_threads > 1
    share, pool = (share_address(), pool_address()) if several else (0, 0)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
    kind(executable.attach)(share, pool, signal_functions()[POLL])


def _work(executable: TrustedExecutable) -> Work:
    words = executable.words
    inputs, consts = len(executable.in_avals), len(executable.consts)
    count = inputs + consts + len(executable.out_avals) + 1
    place = list(range(count))
    for position, slot in enumerate(words.order):
        place[slot] = position
    first = inputs + consts
    return Work(
        run=executable.address,
        table=0 if words.order else executable.attach,  # which the code does not read
        extent=words.extent,
        slots=count,
        inputs=place[:inputs],
        outputs=place[first : count - 1],
        arena=(place[-1], executable.arena_bytes),
        constants=list(zip(place[inputs:first], executable.const_pointers, strict=True)),
        fills=[(place[first + k], x.ctypes.data, x.nbytes) for k, x in executable.fills],
        lends=(),
        release=words.long,
        after=None,
        keep=executable,
    )
