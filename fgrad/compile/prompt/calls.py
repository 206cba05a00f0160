"""L5. Calls of `grad(f)` and its kin at the prompt: interpreted until that has cost as much as
compiling would, then compiled.

    at the first calls          the time of each is added up, by the code of f
    after `LOOK` seconds        f is looked into, once (capture/pure.py)
    from then on                times are added up by what a call depends on (`outside`)
    after as long as it takes   the call is compiled, and compared with the interpreted one

PyTree doubt, error, number that is not finite, and setting for debugging leads to the interpreter.
"""

from __future__ import annotations

import sys
from threading import Lock
from time import perf_counter
from types import CodeType, FunctionType

import numpy as np

from fgrad.base.pickling import COMPILED, Transformed, label_of
from fgrad.base.pickling import at_prompt as declared
from fgrad.capture.explain import why_interpreted as explained
from fgrad.compile.prompt.outside import Refused, key_and_leaves
from fgrad.compile.prompt.program import Compiled, Form, compiled, same_results
from fgrad.config import config
from fgrad.trace import innermost
from fgrad.typing import PyTree

LOOK = 0.02  # seconds that calls of a function take before it is looked into
MOST_FUNCTIONS = 2048
MOST_KINDS = 64  # of calls of one function
MOST_COMPILED = 16
PATIENCE = 8  # calls in a row that must be interpreted after all, before all are
FIXED, FACTOR = (
    0.045,
    12.0,
)  # compiling takes FIXED s and FACTOR calls, see docs/design/decisions.md
ALWAYS = 2  # the setting: compile at the second call


class Kind:
    """Calls of one function that depend on the same, but for numbers."""

    __slots__ = ("calls", "compiled", "failed", "seconds", "why")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self.compiled: Compiled | None = None
        self.failed = 0  # calls in a row that had to be interpreted
        self.why = ""  # such calls are never compiled

    def pays(self) -> bool:
        """Whether these calls have taken as long as compiling would."""
        if config.eager_compile == ALWAYS:
            return self.calls > 0
        return self.seconds > FIXED + FACTOR * self.seconds / max(self.calls, 1)


class History:
    """What is known of the calls of one function."""

    __slots__ = ("code", "kinds", "refused", "seconds", "why")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.seconds = 0.0
        self.kinds: dict[tuple[PyTree, ...], Kind] = {}
        self.refused = 0
        self.why = ""  # it is always interpreted

    def note_refusal(self, refused: Refused) -> None:
        """Look no more at a function that was refused again and again."""
        self.refused += 1
        hopeless = not self.kinds and self.refused >= PATIENCE
        if refused.final or hopeless:
            self.why = str(refused)


_HISTORIES: dict[int, History] = {}  # by the identity of the code
_COMPILING = Lock()


def at_prompt(made: Transformed, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
    """The result of a call of what a transform made, compiled if that pays and is the same."""
    fun = _transformed(made)
    if fun is None or innermost() is not None:
        return made.fun(*args, **kwargs)
    history = history_of(fun.__code__)
    if history.why or _watched():
        return made.fun(*args, **kwargs)
    if history.seconds < LOOK and config.eager_compile != ALWAYS:
        start = perf_counter()
        result = made.fun(*args, **kwargs)
        history.seconds += perf_counter() - start
        return result
    return _looked_into(history, fun, made, args, kwargs)


declared.provide(at_prompt)


def _transformed(made: Transformed) -> FunctionType | None:
    """The function of which transforms made something; None if it is none, or by others."""
    fun: PyTree = made
    while type(fun) is Transformed:
        recipe = getattr(fun, "recipe", None)
        if recipe is None or recipe.make not in COMPILED or not recipe.args:
            return None
        fun = recipe.args[0]
    return fun if type(fun) is FunctionType else None


def history_of(code: CodeType) -> History:
    """What is known of the calls of a function."""
    history = _HISTORIES.get(id(code))
    if history is None:
        if len(_HISTORIES) >= MOST_FUNCTIONS:
            _HISTORIES.clear()
        history = _HISTORIES[id(code)] = History(code)
    return history


def _watched() -> bool:
    """Whether somebody looks at what runs, or wants errors that compiled code does not raise."""
    return (
        sys.gettrace() is not None
        or sys.getprofile() is not None
        or _is_debugging()
        or np.geterr() != _USUAL
    )


def _is_debugging() -> bool:
    plain = config.capture and config.checks and config.native_calls
    special = config.disable_jit or config.nans or config.infs or config.check_index
    return bool(special or config.show or config.dump or not plain)


_USUAL = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _looked_into(
    history: History,
    fun: FunctionType,
    made: Transformed,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> PyTree:
    """The result of a call of a function that may qualify."""
    try:
        form = _form(made)
        read = key_and_leaves(fun, args, kwargs)
        key = (config.epoch, form, *read.key)
        kind = history.kinds.get(key)
    except (Refused, TypeError) as refused:
        history.note_refusal(refused if isinstance(refused, Refused) else Refused(str(refused)))
        return made.fun(*args, **kwargs)
    if kind is None:
        if len(history.kinds) >= MOST_KINDS:
            history.why = "its calls are of many kinds"
            return made.fun(*args, **kwargs)
        kind = history.kinds[key] = Kind()
    if kind.compiled is not None:
        outs = _outs(kind, read.leaves)
        return made.fun(*args, **kwargs) if outs is None else kind.compiled.result(outs)
    start = perf_counter()
    result = made.fun(*args, **kwargs)
    kind.seconds += perf_counter() - start
    if not kind.why and kind.pays() and _COMPILING.acquire(blocking=False):
        try:
            _compile(
                history,
                kind,
                compiled(fun, form, args, kwargs, read, label_of(made)),
                read.leaves,
                result,
            )
        except Refused as refused:
            kind.why = str(refused)
        finally:
            _COMPILING.release()
    kind.calls += 1
    return result


def _form(made: Transformed) -> Form:
    steps = []
    fun: PyTree = made
    while type(fun) is Transformed:
        make, args, kwargs, _ = fun.recipe
        steps.append((make, args[1:], tuple(kwargs.items())))
        fun = args[0]
    return Form(tuple(steps[::-1]))


def _outs(kind: Kind, leaves: list[PyTree]) -> PyTree:
    """The outputs of a compiled call; None if it must be interpreted."""
    assert kind.compiled is not None
    try:
        outs = kind.compiled.outs(leaves)
    except Exception:
        outs = None  # the interpreter raises what is to be raised
    if outs is not None:
        kind.failed = 0
        return outs
    kind.failed += 1
    if kind.failed >= PATIENCE:
        kind.why, kind.compiled = "its results are not finite, or raise", None
    return None


def _compile(
    history: History, kind: Kind, found: Compiled, leaves: list[PyTree], result: PyTree
) -> None:
    """Compile calls of a kind from now on, if this one gives the same result."""
    try:
        outs = found.outs(leaves)
    except Exception as error:
        raise Refused(f"its compiled form raises {type(error).__name__}") from None
    if outs is None:
        raise Refused("its results are not finite")
    if not same_results(result, found.result(outs), leaves):
        raise Refused("its compiled form gives another result")
    if sum([k.compiled is not None for k in history.kinds.values()]) >= MOST_COMPILED:
        raise Refused("calls of many kinds are compiled already")
    kind.compiled = found


def why_interpreted(fun: PyTree, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> str:
    """Why gradients of a function by such arguments are interpreted at the prompt; nothing if they
    are compiled when that pays."""
    while type(fun) is Transformed and fun.recipe.args:
        fun = fun.recipe.args[0]
    if type(fun) is not FunctionType:
        return f"it is an object of class {type(fun).__name__}, and no function"
    try:
        read = key_and_leaves(fun, args, kwargs)
    except Refused as refused:
        return str(refused)
    history = _HISTORIES.get(id(fun.__code__))
    if history is None or history.code is not fun.__code__:
        return ""
    alike = [kind for key, kind in history.kinds.items() if key[2:] == tuple(read.key)]
    return history.why or next((kind.why for kind in alike if kind.why), "")


explained.provide(why_interpreted)
