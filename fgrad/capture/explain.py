"""L5. `explain_capture`: the source of a function, and what became of each loop and branch."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import Transformed, label_of, pickles_as_call
from fgrad.base.provided import Provided
from fgrad.base.source import USERS, owner_of
from fgrad.capture.convert import known_of
from fgrad.capture.notes import NOTES, Note
from fgrad.config import config
from fgrad.errors import CheckError, FgradError
from fgrad.ir.aval import aval_of
from fgrad.trace import trace
from fgrad.tracing.capturing import capturing, reason_of, user_form, without_value
from fgrad.transforms.core.wrap import as_value, function_name, is_weak
from fgrad.typing import PyTree

# Why gradients of a function at the prompt are interpreted; nothing if they compile themselves.
why_interpreted: Provided[Callable[..., str]] = Provided(
    "fgrad.compile.prompt.calls.why_interpreted"
)

_WORDS = {
    "rolled": "one loop of the program",
    "unrolled": "written out step by step",
    "branch": "one branch is computed",
    "plain": "its own loops and branches stay as they are",
}


_CONSTANTS = "its integers are constants, as it needs their values: each is compiled by itself"


class _Explained(Transformed):
    """What `explain_capture` returns; it says how it is called where it is shown itself."""

    def __repr__(self) -> str:
        """What can be said without arguments."""
        name, why = label_of(self.of), _why_plain(self.of)
        return (
            f"{name} {f'stays as it is: {why}' if why else 'is rewritten under jit'}\n"
            "what becomes of its loops and branches is told for arguments:\n"
            f"    print(fgrad.explain_capture({name})({_arguments(self.of)}))"
        )


def _users_function(fun: Callable[..., object]) -> object:
    """The function that a transform was given, or that a method is of."""
    while isinstance(fun, Transformed):
        fun = fun.of
    fun = inspect.unwrap(fun)
    return getattr(fun, "__func__", fun)


def _why_plain(fun: Callable[..., object]) -> str:
    """Why a function stays as it is, whatever its arguments are; nothing if it does not."""
    inner = _users_function(fun)
    if type(inner) is not FunctionType:
        is_compiled = isinstance(inner, (BuiltinFunctionType, np.ufunc, type(np.sum)))
        return "it has no Python code" if is_compiled else ""
    if owner_of(inner.__code__.co_filename) != USERS:
        return "it is of an installed package"
    return known_of(inner).why


def _arguments(fun: Callable[..., object]) -> str:
    """The arguments of a call, as far as they must be given."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return "*args"
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    marks = {inspect.Parameter.VAR_POSITIONAL: "*{0}", inspect.Parameter.KEYWORD_ONLY: "{0}={0}"}
    return ", ".join([marks.get(p.kind, "{0}").format(p.name) for p in needed])


@pickles_as_call
@also_takes()
def explain_capture(fun: Callable[..., object]) -> Callable[..., str]:
    """What becomes of the loops and branches of a function under `jit`.

    Arguments:
        fun: a function of arrays.

    Returns:
        A function of its arguments that returns the lines of source with loops and branches on
        traced values, each with what became of it.  A loop that is not listed runs step by step:
        it has less than 5 steps, or walks a list.  The last line says whether gradients of the
        function at the prompt compile themselves, and why not.  Printed without a call it says
        how to call it.

    Example:
        >>> import numpy as np, fgrad
        >>> def total(x):
        ...     s = 0.0
        ...     for v in x:
        ...         if v > 0:
        ...             s += v
        ...     return s
        >>> print(fgrad.explain_capture(total)(np.ones(10)))  # doctest: +SKIP
        total
          3  for v in x:      rolled: one loop of the program; carries s
          4  if v > 0:        branch: one branch is computed
        at the prompt: compiled once its calls have taken as long as that takes
    """
    given, fun = fun, getattr(fun, "fun", fun)

    def explained(*args: object, **kwargs: object) -> str:
        text, refused = _told(fun, args, kwargs, is_static=lambda x: False)
        if refused and any([_is_integer(x) for x in (*args, *kwargs.values())]):
            constant, still = _told(fun, args, kwargs, is_static=_is_integer)
            if not still:
                text = f"{constant}\n{_CONSTANTS}"
        return f"{text}\n{_at_prompt(why_interpreted.call(fun, args, kwargs))}"

    return _Explained(explained, given, "explain_capture")


def _told(
    fun: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    is_static: Callable[[object], bool],
) -> tuple[str, str]:
    """What became of each loop and branch, and why the function cannot be captured, if it cannot.

    Arguments:
        is_static: which arguments have values while the function is traced.
    """
    traced = [None if is_static(x) else x for x in args]
    named = {name: x for name, x in kwargs.items() if not is_static(x)}
    leaves, treedef = tree.flatten((traced, named))
    avals = [aval_of(x if is_weak(x) else as_value(x, "an argument")) for x in leaves]

    def flat(*tracers: PyTree) -> list[PyTree]:
        given, named = tree.unflatten(treedef, tracers)
        given = [x if is_static(x) else t for x, t in zip(args, given, strict=True)]
        user_form(fun)(*given, **{**kwargs, **named})
        return []

    saved, NOTES.kept = NOTES.kept, []
    try:
        refused = _refusal(lambda: trace(flat, avals, function_name(fun), "jit"))
        return _text(function_name(fun), NOTES.kept, refused), refused
    finally:
        NOTES.kept = saved


def _is_integer(x: object) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _at_prompt(why: str) -> str:
    """What `grad(fun)(...)` and the like do at the prompt."""
    if why:
        return f"at the prompt: interpreted, as {why}"
    if not config.eager_compile:
        return (
            "at the prompt: interpreted; it would be compiled under fgrad.config.eager_compile = 1"
        )
    return "at the prompt: compiled once its calls have taken as long as that takes"


def _refusal(run: Callable[[], object]) -> str:
    """Why a function cannot be captured; nothing if it can."""
    try:
        with capturing(True):
            run()
    except CheckError:
        raise
    except FgradError as error:
        return reason_of(error)
    except NameError as error:
        found = without_value(error)
        if not isinstance(found, FgradError):
            raise
        return reason_of(found)
    return ""


def _text(name: str, notes: list[Note], refused: str) -> str:
    """The lines, in the order of the source."""
    found: dict[tuple[str, int], dict[str, Note]] = {}
    for note in notes:
        kind = note.what if note.what in ("branch", "plain") else "loop"
        found.setdefault((note.loc.file, note.loc.line), {})[kind] = note
    lines = [name]
    places = sorted(found)
    width = max([len(linecache.getline(*place).strip()) for place in places], default=0)
    for file, line in places:
        source = linecache.getline(file, line).strip()
        for note in found[file, line].values():
            lines.append(f"{line:5}  {source:{width}}  {_said(note)}")
            source = ""
    if refused:
        lines.append(f"{name} is traced as it is, as it cannot be captured: {refused}")
    return "\n".join(lines)


def _said(note: Note) -> str:
    words = f"{note.what}: {_WORDS[note.what]}"
    return f"{words}; {note.why}" if note.why else words
