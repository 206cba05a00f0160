"""L5. What a function asks the machine for while it is traced: entropy, errors, and the clock.

    np.random.default_rng().normal()    random.Random()    secrets.randbelow(6)    uuid.uuid4()
    np.errstate(divide="raise")         np.seterr(all="raise")

A generator without a seed draws other numbers in each call of the function, but a trace calls it
once, for all calls and all examples of a batch.  Times are often printed alone, so that they warn.
Errors of floating point numbers are those of NumPy's own operations: compiled code has none.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable

from fgrad.base.source import warn_user
from fgrad.errors import CaptureError, TracedOnceWarning
from fgrad.trace import Tracer, innermost
from fgrad.tracing.capturing import rolls
from fgrad.tracing.outside.draws import refused_draw
from fgrad.typing import PyTree

Function = Callable[..., PyTree]
_KINDS = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)

# By module and name, so that none of them is loaded for this.
SEEDED = frozenset({
    *[("numpy.random", name) for name in ("default_rng", "RandomState", "SeedSequence", "PCG64",
                                          "PCG64DXSM", "MT19937", "Philox", "SFC64")],
    ("random", "Random"),
})  # fmt: skip
DRAWS = frozenset({
    (os.urandom.__module__, "urandom"), ("uuid", "uuid1"), ("uuid", "uuid4"),
    *[("secrets", name) for name in ("token_bytes", "token_hex", "token_urlsafe", "randbelow")],
})  # fmt: skip
STATES = frozenset({("numpy", "errstate"), ("numpy", "seterr")})
CLOCKS = frozenset({
    *[("time", name + unit) for unit in ("", "_ns")
      for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")],
    *[("datetime", name) for name in ("now", "utcnow", "today")],
})  # fmt: skip


def asking(fun: PyTree) -> Function | None:
    """What is called in place of a function that asks the machine; None for all others."""
    kind = type(fun)
    if kind not in _KINDS and kind.__name__ != "cython_function_or_method":
        return None
    owner, name = getattr(fun, "__self__", None), fun.__name__
    if type(owner).__name__ == "SystemRandom":
        return functools.partial(_drawn, fun, f"random.SystemRandom().{name}()")
    holder = owner if isinstance(owner, type) else fun
    module = holder.__module__ or ""
    module = "numpy.random" if module.startswith("numpy.random.") else module
    key = module, name
    if key in SEEDED:
        return functools.partial(_made, fun, f"{_short(module)}.{name}()")
    if key in DRAWS:
        return functools.partial(_drawn, fun, f"{_short(module)}.{name}()")
    if key in STATES:
        return functools.partial(_raising, fun, f"np.{name}")
    if key in CLOCKS:
        of = f"{module}.{holder.__name__}" if holder is owner else module
        return functools.partial(_clock, fun, f"{of}.{name}()")
    return None


def _short(module: str) -> str:
    return {"numpy.random": "np.random", os.urandom.__module__: "os"}.get(module, module)


def _made(fun: Function, text: str, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Make a generator, with a seed."""
    given = [*args, *[kwargs[key] for key in ("seed", "entropy", "x") if key in kwargs]]
    if not given or given[0] is None:
        return _drawn(fun, f"{text}, without a seed", *args, **kwargs)
    if type(given[0]) is Tracer:
        return _drawn(fun, f"{text}, whose seed has no value yet", *args, **kwargs)
    return fun(*args, **kwargs)


def _drawn(fun: Function, text: str, *args: PyTree, **kwargs: PyTree) -> PyTree:
    if rolls():
        raise refused_draw(_traced(), text)
    return fun(*args, **kwargs)


def _clock(fun: Function, text: str, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Ask the clock, and say that this is done once."""
    if rolls():
        warn_user(
            f"{_traced()} asks {text} while it is traced: all calls have the time of the first; "
            "ask before the call, and pass the number",
            TracedOnceWarning,
        )
    return fun(*args, **kwargs)


def _raising(fun: Function, text: str, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """Set what becomes of errors of floating point numbers."""
    asked = next((x for x in (*args, *kwargs.values()) if x in ("raise", "call")), None)
    if asked is not None and rolls():
        card = CaptureError(
            f"{_traced()} asks for errors of floating point numbers.",
            (
                ("value", f"{text}(...={asked!r})"),
                ("why", "NumPy tells them of its own operations;"),
                ("why", "compiled code gives inf or nan, and goes on."),
                ("write", "with fgrad.debug.nans(): around the call, which raises"),
                ("write", "or np.where(x == 0, value, 1 / np.where(x == 0, 1, x))"),
            ),
        )
        card.final = True  # as plain Python it would go on too
        raise card
    return fun(*args, **kwargs)


def _traced() -> str:
    """The innermost trace that runs once for many calls, or for many examples."""
    builder = innermost()
    while builder is not None and builder.eager and builder.what != "vmap":
        builder = builder.outer
    return "a trace" if builder is None else f"{builder.what}({builder.name})"
