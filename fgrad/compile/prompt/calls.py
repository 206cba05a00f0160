"""L5. Calls of `grad(f)` and its kin at the prompt: interpreted until that has cost as much as
compiling would, then compiled.

    at the first calls      what each costs is added up, by the code of f
    after `LOOK` seconds    f is looked into, once (capture/pure.py)
    from then on            costs are added up by what a call depends on (`outside`)
    after as long as        the call is compiled, and compared with the interpreted one
    compiling takes

Costs are told by the equations that were recorded, not by a clock: a program that runs again
compiles at the same call, and gives the same bits.  Any doubt, error, number that is not finite,
and setting for debugging leads to the interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import COMPILED, INTERPRETED, Recipe, Transformed, label_of
from fgrad.base.pickling import at_prompt as declared
from fgrad.base.system import Locked
from fgrad.capture.explain import why_interpreted as explained
from fgrad.compile.prompt.outside import Read, Refused, key_and_leaves
from fgrad.compile.prompt.program import Compiled, Form, compiled_call, same_results
from fgrad.compile.prompt.taking import Take, taker
from fgrad.config import config
from fgrad.trace import innermost
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

LOOK = 0.02  # seconds that calls of a function take before it is looked into
MOST_FUNCTIONS = 2048
MOST_KINDS = 64  # of calls of one function
MOST_COMPILED = 16
MOST_SHORT = 4
PATIENCE = 8  # calls in a row that must be interpreted after all, before all are
ALWAYS = 2  # the setting: compile at the second call


class Cost(NamedTuple):
    """What a call costs, by the equations that it recorded, see docs/design/decisions.md."""

    equations: int
    elements: int = 0  # of the arrays that it reads

    @property
    def seconds(self) -> float:
        """Interpreting it."""
        return 25e-6 + self.equations * (4.5e-6 + 0.5e-9 * self.elements)

    @property
    def compiling(self) -> float:
        """Compiling it, with a compiler that is not loaded yet."""
        return 0.09 + 0.1e-3 * self.equations


class Kind:
    """Calls of one function that depend on the same, but for numbers."""

    __slots__ = ("compiled", "failed", "seconds", "unchecked", "why")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.unchecked: Compiled | None = None  # not yet compared with the interpreter
        self.compiled: Compiled | None = None
        self.failed = 0  # calls in a row that had to be interpreted
        self.why = ""  # such calls are never compiled

    def pays(self, cost: Cost) -> bool:
        """Whether these calls, of which one more has a cost, have taken as long as compiling."""
        before, self.seconds = self.seconds, self.seconds + cost.seconds
        return before >= (0.0 if config.eager_compile == ALWAYS else cost.compiling) and before > 0

    def note_failure(self) -> None:
        """A compiled call had to be interpreted."""
        self.failed += 1
        if self.failed >= PATIENCE:
            self.why, self.compiled = "its results are not finite, or it raises", None


class Short(NamedTuple):
    """How calls of one transform are made that are like an earlier one."""

    make: Callable[..., PyTree]
    options: tuple[PyTree, ...]
    named: dict[str, PyTree]
    epoch: int
    take: Take
    kind: Kind


class History:
    """What is known of the calls of one function."""

    __slots__ = ("code", "kinds", "refused", "seconds", "short", "why")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.seconds = 0.0
        self.kinds: dict[tuple[PyTree, ...], Kind] = {}
        self.short: tuple[Short, ...] = ()
        self.refused = 0
        self.why = ""  # it is always interpreted

    def note_refusal(self, refused: Refused) -> None:
        """Look no more at a function that was refused again and again."""
        self.refused += 1
        hopeless = not self.kinds and self.refused >= PATIENCE
        if refused.final or hopeless:
            self.give_up(str(refused))

    def give_up(self, why: str) -> None:
        """Look at the function no more."""
        self.why = why
        INTERPRETED[id(self.code)] = self.code

    def kind_of(self, key: tuple[PyTree, ...]) -> Kind:
        """The calls with a key."""
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) >= MOST_KINDS:
                raise Refused("its calls are of many kinds", True)
            kind = self.kinds[key] = Kind()
        return kind


_HISTORIES: dict[int, History] = {}  # by the identity of the code
_COMPILING = Locked()


_NO_RECIPE = Recipe(declared.call, (), {})


def at_prompt(made: Transformed, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
    """The result of a call of what a transform made, compiled if that pays and is the same."""
    transform, given, named, _ = getattr(made, "recipe", _NO_RECIPE)
    fun: PyTree = given[0] if given else None
    if type(fun) is not FunctionType or transform not in COMPILED:
        fun = _transformed(made)
    history = None if fun is None else _HISTORIES.get(id(fun.__code__)) or history_of(fun.__code__)
    if fun is None or history is None or history.why or innermost() is not None or is_watched():
        return made.fun(*args, **kwargs)
    for make, options, words, epoch, take, kind in history.short:
        compiled = kind.compiled
        if make is not transform or epoch != config.epoch or given[0] is not fun:
            continue
        plain = len(given) == 1 and not (options or named or words)
        if compiled is not None and (plain or _are_same(options, given[1:], words, named)):
            leaves = take(fun, args, kwargs)
            outs = None if leaves is None else _outs(kind, compiled, leaves)
            if outs is not None:
                return compiled.result(outs) if outs[0] else made.fun(*args, **kwargs)
    if history.seconds < LOOK and config.eager_compile != ALWAYS:
        result, cost = interpreted(made, args, kwargs)
        history.seconds += cost.seconds
        return result
    try:
        read = key_and_leaves(fun, args, kwargs)
        form = _form(made)
        kind = history.kind_of((config.epoch, form, *read.key))
    except Refused as refused:
        history.note_refusal(refused)
        return made.fun(*args, **kwargs)
    return _Looked(history, kind, form, fun, made, args, kwargs, read).result()


declared.provide(at_prompt)


def interpreted(
    made: Transformed, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> tuple[PyTree, Cost]:
    """The interpreted result of a call, and what it cost."""
    state = THREAD.state
    before = state.recorded
    result = made.fun(*args, **kwargs)
    return result, Cost(state.recorded - before)


def _are_same(
    options: Sequence[PyTree],
    given: Sequence[PyTree],
    words: Mapping[str, PyTree],
    named: Mapping[str, PyTree],
) -> bool:
    """Whether a transform is given the very same options as before."""
    same = len(given) == len(options) and words.keys() == named.keys()
    same = same and all([x is y for x, y in zip(given, options, strict=True)])
    return same and all([x is words[name] for name, x in named.items()])


def _transformed(made: Transformed) -> FunctionType | None:
    """The function of which transforms made something; None if it is none, or by others."""
    fun: PyTree = made
    while type(fun) is Transformed:
        recipe = getattr(fun, "recipe", None)
        if recipe is None or recipe[0] not in COMPILED or not recipe[1]:
            return None
        fun = recipe[1][0]
    return fun if type(fun) is FunctionType else None


def history_of(code: CodeType) -> History:
    """What is known of the calls of a function."""
    history = _HISTORIES.get(id(code))
    if history is None:
        if len(_HISTORIES) >= MOST_FUNCTIONS:
            _HISTORIES.clear()
            INTERPRETED.clear()
        history = _HISTORIES[id(code)] = History(code)
    return history


_usual_errors: PyTree = None  # NumPy's own object for the usual `errstate`
_debugging: tuple[int, bool] = (-1, False)  # whether the settings with a number are for debugging


def is_watched() -> bool:
    """Whether somebody looks at what runs, or wants errors that compiled code does not raise."""
    if sys.gettrace() is not None or sys.getprofile() is not None or _is_monitored():
        return True
    epoch, found = _debugging
    if epoch != config.epoch:
        found = _is_debugging()
    return found or (_errors() is not _usual_errors and _has_unusual_errors())


_UMATH = sys.modules.get("numpy._core.umath")
# NumPy's own object for the present `errstate`; one that is always new where it has no such thing.
_errors: Callable[[], object] = getattr(getattr(_UMATH, "_extobj_contextvar", None), "get", object)


def _has_unusual_errors() -> bool:
    global _usual_errors
    if np.geterr() != _USUAL:
        return True
    _usual_errors = _errors()
    return False


def _is_debugging() -> bool:
    global _debugging
    plain = config.capture and config.checks and config.native_calls
    special = config.disable_jit or config.nans or config.infs or config.check_index
    found = bool(special or config.show or config.dump or not plain)
    _debugging = config.epoch, found
    return found


def _never() -> bool:
    return False


def _has_tools() -> bool:
    return any(map(_MONITORING.get_tool, range(6)))


_MONITORING: PyTree = getattr(sys, "monitoring", None)  # since Python 3.12
_is_monitored = _never if _MONITORING is None else _has_tools

_USUAL = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _form(made: Transformed) -> Form:
    """What is made of a function; in a key, so that its options have to be of one type."""
    steps = []
    fun: PyTree = made
    while type(fun) is Transformed:
        make, args, kwargs, _ = fun.recipe
        steps.append((make, args[1:], tuple(kwargs.items())))
        fun = args[0]
    form = Form(tuple(steps[::-1]))
    for _, options, named in steps:
        for x in (*options, *[x for _, x in named]):
            parts = x if type(x) is tuple else (x,)
            if not all([type(part) in (int, bool, type(None)) for part in parts]):
                raise Refused("its transform has options that are not numbers")
    return form


class _Looked(NamedTuple):
    """A call of a function that qualifies."""

    history: History
    kind: Kind
    form: Form
    fun: PyTree
    made: PyTree
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    read: Read

    def result(self) -> PyTree:
        """The result, compiled or interpreted; the latter may lead to the former."""
        kind = self.kind
        if kind.compiled is not None:
            compiled = kind.compiled
            outs = _outs(kind, compiled, self.read.leaves)
            if outs[0]:
                self.learn()
                return compiled.result(outs)
            return self.made.fun(*self.args, **self.kwargs)
        result, cost = interpreted(self.made, self.args, self.kwargs)
        if kind.why:
            return result
        elements = sum([x.size for x in self.read.leaves if type(x) is np.ndarray])
        pays = kind.pays(cost._replace(elements=elements))
        if pays and _COMPILING.lock.acquire(blocking=False):
            try:
                self.compile(result)
            except Refused as refused:
                kind.why, kind.unchecked = str(refused), None
                if all([k.compiled is None for k in self.history.kinds.values()]):
                    self.history.give_up(kind.why)
            finally:
                _COMPILING.lock.release()
        return result

    def compile(self, result: PyTree) -> None:
        """Compile calls of this kind, if this one gives the same result."""
        kind, read = self.kind, self.read
        if kind.unchecked is None:
            kinds = self.history.kinds.values()
            if sum([k.compiled is not None for k in kinds]) >= MOST_COMPILED:
                raise Refused("calls of many kinds are compiled already")
            kind.unchecked = compiled_call(
                self.fun, self.form, self.args, self.kwargs, read, label_of(self.made)
            )
        try:
            outs = kind.unchecked.outs(read.leaves)
            assert outs is not None
        except Exception as error:
            raise Refused(f"its compiled form raises {type(error).__name__}") from None
        if not outs[0]:
            kind.failed += 1
            if kind.failed >= PATIENCE:
                raise Refused("its results are not finite")
        elif same_results(result, kind.unchecked.result(outs), read.leaves):
            kind.compiled, kind.unchecked, kind.failed = kind.unchecked, None, 0
        else:
            raise Refused("its compiled form gives another result")

    def learn(self) -> None:
        """Make calls like this one without looking at all that they read."""
        recipe = self.made.recipe
        if recipe.args[0] is self.fun:
            take = taker(self.fun, self.args, self.kwargs)
            options = recipe.args[1:], recipe.kwargs, config.epoch
            short = Short(recipe.make, *options, take, self.kind)
            others = [x for x in self.history.short if x.kind is not self.kind]
            self.history.short = (short, *others)[:MOST_SHORT]


def _outs(kind: Kind, compiled: Compiled, leaves: Sequence[PyTree]) -> PyTree:
    """The outputs of a compiled call, of which the first says whether they count; None if the call
    is of another kind."""
    try:
        outs = compiled.outs(leaves)
    except Exception:  # the interpreter raises what is to be raised
        outs = (False,)
    if outs is None:
        return None
    if not outs[0]:
        kind.note_failure()
    elif kind.failed:
        kind.failed = 0
    return outs


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
