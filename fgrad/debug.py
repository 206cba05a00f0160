"""L7. Debug running programs: print, breakpoints, and the origin of NaN.

fgrad.debug.print("x = {x}", x=x)     under every transform, compiled or not
with fgrad.debug.nans(): ...          the first operation that makes a NaN, and your line
"""

from __future__ import annotations

import bdb
import builtins
import pdb
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CellType
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.lazy_import import names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc, here, resolve
from fgrad.base.system import Shared
from fgrad.config import config
from fgrad.errors import ArgumentError, BoundsError, NanError
from fgrad.ir.primitive import REGISTRY, Primitive
from fgrad.numpy.bounds import index_watchers
from fgrad.numpy.promote import user_line
from fgrad.trace import Value
from fgrad.tracing.fastpath import DOORS
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.custom.callback import debug_callback as callback
from fgrad.typing import PyTree

__all__ = ["breakpoint", "callback", "check_index", "nans", "print"]


def print(fmt: str, /, *args: PyTree, ordered: bool = True, **kwargs: PyTree) -> None:
    """Print values when the program runs, not when it is traced.

    Arguments:
        fmt: a format string, as for `str.format`.
        args, kwargs: what it shows: pytrees of arrays, and of other objects as they are now.
        ordered: accepted for JAX's sake; lines come in the order of the program.

    Raises:
        ArgumentError: if the format does not fit the arguments.

    Example:
        >>> import fgrad
        >>> @fgrad.jit
        ... def f(x):
        ...     fgrad.debug.print("x = {}", x)
        ...     return x + 1.0
        >>> _ = f(2.0)
        x = 2.0
    """
    _check_format(fmt, args, kwargs)

    def show(*xs: object, **named: object) -> None:
        builtins.print(fmt.format(*xs, **named), flush=True)

    callback(show, *args, **kwargs)


def _check_format(fmt: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """A card at once, with the user's line, instead of an error inside of the program."""
    if not isinstance(fmt, str):
        raise ArgumentError(
            f"debug.print: the first argument is a format string, not {type(fmt).__name__}.",
            (*user_line(), ("write", 'fgrad.debug.print("x = {x}", x=x)')),
        )
    count = 0
    for name in _field_names(fmt):
        first = name.split(".")[0].split("[")[0]
        known = int(first) < len(args) if first.isdigit() else first in kwargs
        if not first:
            known, count = count < len(args), count + 1
        if not known:
            raise ArgumentError(
                f"debug.print: there is nothing for {{{name}}} of {fmt!r}.",
                (*user_line(), ("write", 'fgrad.debug.print("x = {x}", x=x)')),
            )


def _field_names(fmt: str) -> list[str]:
    """The names in a format string, also in its format specifications: `{x:{width}}`."""
    names: list[str] = []
    for _, name, spec, _ in string.Formatter().parse(fmt):
        if name is not None:
            names += [name, *_field_names(spec or "")]
    return names


def breakpoint(**values: Any) -> None:
    """Stop in the debugger when the program runs; what you name can be looked at there.

    Quitting the debugger ends the program, as `pdb` does.

    Example: `fgrad.debug.breakpoint(x=x, total=total)`; in pdb, `p x`.

    Arguments:
        values: what can be looked at, by name.

    Example:
        >>> import fgrad
        >>> @fgrad.jit
        ... def f(x):
        ...     fgrad.debug.breakpoint(x=x)  # doctest: +SKIP
        ...     return x + 1.0
    """
    loc = resolve(here())

    def stop(**values: object) -> None:
        _Debugger().look(loc, values)

    callback(stop, **values)


class _Debugger(pdb.Pdb):
    """Stops once, at the user's line, with values as the variables there."""

    left = False

    def look(self, loc: Loc, values: dict[str, object]) -> None:
        """Stop at a statement that does nothing and stands in the user's line."""
        self.prompt = "(fgrad) "
        code = compile("\n" * (loc.line - 1) + "pass", loc.file, "exec")
        tracer = sys.gettrace()
        try:
            self.run(code, values)
        finally:
            sys.settrace(tracer)
        if self.left:
            raise bdb.BdbQuit

    def set_quit(self) -> None:
        """The user asked to leave: `run` alone would go on with the program."""
        self.left = True
        super().set_quit()


# --- indices --------------------------------------------------------------------------------------


@contextmanager
def check_index() -> Iterator[None]:
    """Raise where a traced index is out of bounds, also where compiled code clips it otherwise.

    Captured functions check their indices in any case; bodies of `fgrad.lax` and functions that
    are not captured do so inside of the block, in which functions are traced anew.

    Returns:
        A context manager.

    Raises:
        BoundsError: with your line, after the compiled program has run.

    Example:
        >>> import numpy as np, fgrad
        >>> f = fgrad.jit(lambda x, i: x[i], capture=False)
        >>> f(np.arange(3.0), 7)
        np.float64(2.0)
        >>> try:
        ...     with fgrad.debug.check_index():
        ...         f(np.arange(3.0), 7)
        ... except IndexError as error:
        ...     print(str(error).splitlines()[0])
        index 7 is out of bounds for axis 0 with size 3
    """
    with _INDEX_CHECKS.block():
        yield


@contextmanager
def _checking_index() -> Iterator[None]:
    index_watchers.append(_watch_index)
    try:
        with config.override(check_index=True):
            yield
    finally:
        index_watchers.remove(_watch_index)


def _watch_index(i: Value, axis: int, length: int) -> None:
    line = user_line()

    def check(known: np.ndarray) -> None:
        wrong = (known < -length) | (known >= length)
        if np.any(wrong):
            first = np.asarray(known)[wrong].flat[0] if np.ndim(known) else known
            text = f"index {first} is out of bounds for axis {axis} with size {length}"
            raise BoundsError(text, line)

    callback(check, i)


# --- nans -----------------------------------------------------------------------------------------


@contextmanager
def nans(infs: bool = True) -> Iterator[None]:
    """Raise where an operation, forward or backward, produces a NaN from operands without one, or
    an infinity from finite operands.

    Compiled functions run equation by equation meanwhile, and all threads are watched.

    Arguments:
        infs: whether infinities raise too.

    Returns:
        A context manager.

    Raises:
        NanError: with your line, the operation and its operands.

    Example:
        >>> import numpy as np, fgrad
        >>> try:
        ...     with fgrad.debug.nans():
        ...         fgrad.grad(lambda x: np.sqrt(x) * 0.0)(-1.0)
        ... except FloatingPointError as error:
        ...     print(str(error).splitlines()[0])
        sqrt produced a NaN.
    """
    with ExitStack() as stack:
        stack.enter_context(_NAN_WATCH.block())
        if infs:
            stack.enter_context(_INF_WATCH.block())
        yield


@contextmanager
def _watching_infs() -> Iterator[None]:
    with config.override(infs=True):
        yield


@contextmanager
def _watching_nans() -> Iterator[None]:
    with config.override(nans=True):
        before = _watch()
        try:
            yield
        finally:
            _restore(before)


_INDEX_CHECKS, _NAN_WATCH = Shared(_checking_index), Shared(_watching_nans)
_INF_WATCH = Shared(_watching_infs)


Place: TypeAlias = tuple[Primitive | CellType, Callable[..., PyTree]]  # with the rule in it


def _watch() -> list[Place]:
    """Have every evaluation checked; what was there before, to be put back."""
    before: list[Place] = []
    for prim, cell in _door_cells():
        before.append((cell, cell.cell_contents))
        cell.cell_contents = _checked(prim, cell.cell_contents)
    # What is inside of programs is looked at, not what holds them.
    for prim in [p for p in REGISTRY.values() if p.holds is None]:
        before.append((prim, prim.evaluate_rule))
        prim.evaluate_rule = _checked(prim, prim.evaluate_rule)
    return before


def _door_cells() -> list[tuple[Primitive, CellType]]:
    """The cells in which the fast path keeps their evaluations."""
    return [
        (prim, door.__closure__[door.__code__.co_freevars.index("evaluate")])  # type: ignore[attr-defined]
        for prim, door in DOORS
    ]


def _restore(before: list[Place]) -> None:
    for place, rule in before:
        if isinstance(place, Primitive):
            place.evaluate_rule = rule
        else:
            place.cell_contents = rule


def _checked(prim: Primitive, evaluate: Callable[..., PyTree]) -> Callable[..., PyTree]:
    def checked(*operands: Value, **params: object) -> PyTree:
        with np.errstate(all="ignore"):  # what is found raises, with the user's line
            out = evaluate(*operands, **params)
        if not config.nans:
            return out
        made = out if prim.multiple else (out,)
        given = [*operands, *[np.asarray(v) for v in params.values() if isinstance(v, float)]]
        for kind in (NAN, INFINITY) if config.infs else (NAN,):
            if any(map(kind.found, made)) and not any(map(kind.excuses, given)):
                raise _nan_error(prim, operands, next(x for x in made if kind.found(x)), kind)
        return out

    return checked


class _Kind(NamedTuple):
    """What is looked for in results, and which operands excuse it."""

    what: str
    short: str
    test: Callable[[PyTree], PyTree]  # of the elements of a result
    cause: Callable[[PyTree], PyTree]  # of the elements of an operand

    def found(self, x: object) -> bool:
        """Whether it is in a result."""
        return _has_floats(x) and bool(self.test(x).any())

    def excuses(self, x: object) -> bool:
        """Whether an operand explains it, so that this operation is not where it began."""
        return _has_floats(x) and bool(np.any(self.cause(x)))


NAN = _Kind("a NaN", "NaN", np.isnan, np.isnan)
INFINITY = _Kind("an infinity", "infinite", np.isinf, lambda x: ~np.isfinite(x))


def _has_floats(x: object) -> bool:
    return getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def _nan_error(prim: Primitive, operands: Sequence[Value], out: Value, kind: _Kind) -> NanError:
    """The card: the operation, the line, and the operands where the first one is."""
    backward = "vjp" in THREAD.state.via
    loc = resolve(THREAD.state.loc or here())
    place = tuple([int(k) for k in np.argwhere(kind.test(out))[0]])
    rows = [("where", f"{loc}:  {loc.text()}")]
    if backward:
        rows.append(("pass", "backward: the derivative of this line"))
    count = int(kind.test(out).sum())
    rows.append(("result", f"{out.dtype}{out.shape}, {count} {kind.short}, the first at {place}"))
    for k, x in enumerate(operands):
        x = np.asarray(x)
        shown = x[place] if x.shape == out.shape else _summary(x)
        rows.append((f"arg {k}", f"{x.dtype}{x.shape}: {shown}"))
    rows.append(("write", "np.where(ok, x, 1.0) as its operand, with ok = x > 0 or the like"))
    if kind is INFINITY:
        rows.append(("write", "fgrad.debug.nans(infs=False)    if infinities are what you want"))
    return NanError(f"{prim.name} produced {kind.what}.", rows)


def _summary(x: np.ndarray) -> str:
    if x.size <= 4:
        return np.array2string(x)
    return f"from {x.min()} to {x.max()}" if x.dtype.kind in "fiu" else "..."


__dir__ = names_shown(__name__)
