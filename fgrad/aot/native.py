"""L7. Native calls of loaded functions: as those of jitted ones, without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fgrad import tree
from fgrad.aot.files import made
from fgrad.aot.trusted import Form, TrustedCode, TrustedExecutable
from fgrad.base.lazy_import import lazy_module
from fgrad.compile.entry.native import NativeCallable, NativeCalls, native_class
from fgrad.compile.entry.table import Parameters, Results, Signature, Work
from fgrad.compile.host.program import Callback
from fgrad.compile.host.threads import pool_address, share_address
from fgrad.compile.llvm.interrupts import POLL
from fgrad.compile.llvm.runtime import signal_functions
from fgrad.config import config
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.aot import libraries
    from fgrad.aot.load import Loaded
else:
    libraries = lazy_module("fgrad.aot.libraries")


@native_class
class NativeLoaded(NativeCallable):
    """A loaded function whose calls go to native code first."""

    __slots__ = ("calls", "loaded")

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.calls = NativeCalls()

    def __call__(self, *args: PyTree) -> PyTree:
        return self.loaded.call_in_python(args)

    def learnt(self, form: Form, args: tuple[PyTree, ...]) -> Signature | None:
        """What makes calls like this one native from now on; None if they are not."""
        executable: Any = form.executable
        if not self.calls.wants(executable):
            return None
        if isinstance(executable, TrustedExecutable):
            work = _work(executable, attach(executable.code))
        else:
            work = executable.work(form.typed())
        treedef = tree.structure((args, {}))
        parameters = Parameters(args, {}, treedef, {}, executable.in_avals)
        count = len(executable.out_avals)
        out_tree = tree.structure(made(self.loaded.results, range(count)))
        results = Results(executable.out_avals, out_tree, config.recycle, list(range(count)))
        return self.calls.learn(self, parameters, results, work)

    def forget(self, form: Form) -> None:
        """Make such calls in Python again."""
        signatures = [] if form.signature is None else [form.signature]
        self.calls.forget(self, signatures, form.executable)


def attach(code: TrustedCode) -> list[Callback]:
    """Let code share its work among threads, its loops look for signals, and its failures be noted
    by the functions that are returned."""
    if code.callbacks is None:
        several = config.num_threads > 1
        share, pool = (share_address(), pool_address()) if several else (0, 0)
        callbacks = [libraries.failure(message) for message in code.messages]
        notes = (ctypes.c_void_p * len(callbacks))(*[c.address for c in callbacks])
        code.keep += [notes, callbacks]
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
        at = ctypes.addressof(notes) if callbacks else 0
        kind(code.attach)(share, pool, signal_functions()[POLL], at)
        code.callbacks = callbacks
    return code.callbacks


def _reraise(callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.reraise()


def _work(executable: TrustedExecutable, callbacks: Sequence[Callback]) -> Work:
    inputs, consts = len(executable.in_avals), len(executable.consts)
    count = inputs + consts + len(executable.out_avals) + 1
    place = list(range(count))
    for position, slot in enumerate(executable.order):
        place[slot] = position
    first = inputs + consts
    return Work(
        run=executable.address,
        table=executable.table,
        extent=executable.extent,
        slots=count,
        inputs=place[:inputs],
        outputs=place[first : count - 1],
        arena=(place[-1], executable.arena_bytes),
        constants=list(zip(place[inputs:first], executable.const_pointers, strict=True)),
        fills=[(place[first + k], x.ctypes.data, x.nbytes) for k, x in executable.fills],
        lends=(),
        release=executable.is_long or bool(callbacks),
        after=(lambda: _reraise(callbacks)) if callbacks else None,
        keep=executable,
    )
