"""L5. Messages of `jit`: reasons for a retrace, and rejected arguments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.base.foreign import holds_array
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import label_of
from fgrad.compile.jit.entries import Arguments
from fgrad.compile.jit.static_arguments import Static
from fgrad.errors import StaticArgumentError, UnsupportedTypeError
from fgrad.ir.aval import DTYPE_NAMES
from fgrad.transforms.core.wrap import SMALL_NUMBERS, dataclass_advice, is_small


def _described(arguments: Arguments) -> list[str]:
    """A line for each leaf of the arguments, and for each static one."""
    treedef, avals, statics = arguments
    paths = tree.paths(tree.unflatten(treedef, range(len(avals))))
    lines = [f"{path}: {aval}" for path, aval in zip(paths, avals, strict=True)]
    return [*lines, *[f"static {where!r}: {static.value!r}" for where, static in statics]]


@also_takes()
def explain_retrace(fun: Any) -> str:
    """Why a jitted function was traced as often as it was: what changed from trace to trace.

    Arguments:
        fun: what `jit` returned.

    Example:
        >>> import numpy as np
        >>> from fgrad import jit
        >>> f = jit(lambda x: x + 1)
        >>> _ = f(np.zeros(2)), f(np.zeros(3))
        >>> print(explain_retrace(f))
        lambda was traced 2 times
          trace 2: [0][0]: f64[2] -> f64[3]
    """
    entries = list({id(e): e for e in list(fun.entries.values()) if e.is_traced}.values())
    name = label_of(fun.fun).strip("<>")
    lines = [f"{name} was traced {len(entries)} time{'s' * (len(entries) != 1)}"]
    described = [_described(entry.arguments) for entry in entries]
    for k in range(1, len(entries)):
        before, after = described[k - 1 : k + 1]
        changed = [
            f"{a} -> {b.partition(': ')[2]}"
            for a, b in zip(before, after, strict=False)
            if a != b and a.partition(": ")[0] == b.partition(": ")[0]
        ]
        what = ", ".join(changed) or "the structure of the arguments or the settings changed"
        lines.append(f"  trace {k + 1}: {what}")
    return "\n".join([*lines, *[f"  {line}" for line in fun.sizes.described()]])


def unsupported(name: str, x: Any, path: str) -> UnsupportedTypeError:
    """The card for an argument that is no array of numbers."""
    if is_small(getattr(x, "dtype", None)):
        headline = f"The argument {path} of jit({name}) has numbers of dtype {x.dtype}."
        return UnsupportedTypeError(headline, SMALL_NUMBERS)
    kind = type(x).__name__ + (f" of dtype {x.dtype}" if hasattr(x, "dtype") else "")
    kind += " of more than 64 bits" if type(x) is int else ""
    return UnsupportedTypeError(
        f"An argument of jit({name}) is not an array of numbers.",
        (
            ("value", f"{path} is a {kind}"),
            ("why", "compiled code knows bool, integer, float and complex arrays only."),
            *dataclass_advice(x, path),
            ("write", f"jit({name}, static_argnames={path.split('[')[0].split('.')[0]!r})"),
            ("write", "    the argument is a constant: the function is traced for each value"),
            ("write", "or close over the object instead of passing it."),
        ),
    )


def result_array(name: str, x: object) -> np.ndarray:
    """A result as an array; what only has elements, as a subclass of list, is refused."""
    if isinstance(x, (np.ndarray, np.generic, int, float, complex)) or holds_array(x):
        array = np.asarray(x)
        if array.dtype.name in DTYPE_NAMES:
            return array
    kind = type(x).__name__
    rows = [("value", f"it is a {kind}"), ("write", "return arrays and containers of them")]
    if isinstance(x, (list, tuple, dict)):
        rows.append(("write", f"fgrad.tree.register_node({kind}, flatten, unflatten)"))
    headline = f"A result of jit({name}) is not an array of numbers."
    raise UnsupportedTypeError(headline, tuple(rows))


def unhashable(name: str, statics: Sequence[tuple[Hashable, Static]]) -> StaticArgumentError:
    """The card for a static argument that cannot be hashed."""
    headline = f"A static argument of jit({name}) cannot be hashed."
    for where, static in statics:
        try:
            hash(static.value)
        except TypeError:
            return StaticArgumentError(
                headline,
                (
                    ("value", f"argument {where!r} is a {type(static.value).__name__}"),
                    ("why", "static arguments are part of the cache key of compiled code."),
                    ("write", "a tuple for a list, a frozen dataclass for a dict"),
                    ("write", "or pass an array as an ordinary, traced argument."),
                    ("write", "lambda x: x[mask]     closes over an array that is a constant"),
                ),
            )
    return StaticArgumentError(headline)


def traced_often(fun: Any) -> str:
    """The warning about a function with many kinds of arguments."""
    name = label_of(fun.fun).strip("<>")
    lines = [x for x in explain_retrace(fun).split("\n") if x.startswith("  trace ")]
    last = lines[-1].partition(": ")[2]
    return (
        f"{name} was traced {fun.traces} times; each time costs a trace, the compiler's passes and "
        f"memory, even where machine code is shared; the last time was for {last}. "
        f"fgrad.explain_retrace tells all of them; sizes that differ from call to call may be "
        f"padded to a few, and jit({name}, max_traces=n) moves this warning."
    )


def changes_often(fun: str, times: int, path: str | None) -> str:
    """The warning about a function that is traced again and again."""
    return (
        f"{fun} was traced again {times} times because what it reads from outside changed, "
        f"last {path}: pass it to {fun} as an argument."
    )


def identifier(name: str) -> str:
    """A function's name as that of a program."""
    return name.strip("<>") or "function"
