"""L7. A function is traced with sizes as symbols, and its program leaves the process with them.

axes      [[[0, 0], [1, 0]]]    the first axes of the arguments' leaves 0 and 1 are the symbol 0
text      a: f64[{0}], ...      sizes stand by their number among those of `base/size_words.py`
guards    what must hold for other sizes
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence

from fgrad.aot.axes import Axes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_data import Writer, evaluated
from fgrad.base.size_words import BadNumbers, Written, checked, failing
from fgrad.base.sizes import LEAST, NotShared, Size, Sizes
from fgrad.compile.jit.dynamic import (
    Dynamic,
    Place,
    equal_axes,
    has_symbols,
    opened,
    wanted_axes,
    with_symbols,
)
from fgrad.compile.jit.dynamic import checked as checked_dynamic
from fgrad.compile.jit.entries import Entry, Traceable
from fgrad.errors import ExportError, FgradError

_EXPRESSION = re.compile(r"\{([^{}]*)\}")


class Symbols(NamedTuple):
    """The sizes of a trace that may change, and which axes they are."""

    sizes: Sizes
    axes: Sequence[Sequence[Place]]


class Text(NamedTuple):
    """The text of a program whose sizes are numbers, and these."""

    text: str
    written: Written
    values: Sequence[Size]

    def axes(self, symbols: Symbols) -> Axes:
        """Which axes are symbols, and the numbers of these."""
        return Axes(tuple([tuple(group) for group in symbols.axes]), self.written)


@contextlib.contextmanager
def traced_with_symbols(
    traceable: Traceable, dynamic: Dynamic, caller: str
) -> Iterator[tuple[Symbols, Entry]]:
    """What would be kept for arguments whose sizes may change, as long as these are symbols.

    Raises:
        ExportError: the program would be for one size all the same.
    """
    avals, names = traceable.avals, traceable.names
    wanted = wanted_axes(checked_dynamic(dynamic), avals, names)
    if wanted is None:
        raise ExportError(
            f"{caller}: dynamic={dynamic!r}, but no axis has changed: there is one example.",
            (("write", 'dynamic={"x": 0}    or dynamic=True for all axes'),),
        )
    axes = equal_axes(avals, wanted)
    named = isinstance(dynamic, Mapping)
    few = [place for place in wanted if avals[place[0]].shape[place[1]] < LEAST]
    if not axes or (named and few):
        raise ExportError(
            f"{caller}: an axis that may change has fewer than {LEAST} elements in the example.",
            (("write", f"an example whose {'axes in dynamic' if named else 'axes'} are longer"),),
        )
    sizes, symbolic = with_symbols(avals, axes)
    with opened(sizes):
        try:
            entry, captured = traceable.traced(symbolic)
        except NotShared as error:
            raise _one_size(caller, str(error)) from None
        except FgradError:
            raise
        except Exception as error:
            raise _one_size(caller, f"{type(error).__name__}: {error}") from error
        if captured:
            raise _one_size(caller, "the function closes over values of an open trace")
        if has_symbols(sizes, entry):
            raise _one_size(caller, "the structure of the result holds a length")
        _refuse_fixed(sizes, axes, names(), named, caller)
        yield Symbols(sizes, axes), entry


def _one_size(caller: str, why: str) -> ExportError:
    return ExportError(
        f"{caller}: the program would be for the lengths of the example alone.",
        (("why", why), ("write", "dynamic=False    a file for these lengths")),
    )


def _refuse_fixed(
    sizes: Sizes, axes: Sequence[Sequence[Place]], names: Sequence[str], named: bool, caller: str
) -> None:
    """Raise where a symbol that is wanted can have no other value, or none can."""
    fixed = [k for k in sizes.values if sizes.is_fixed(sizes.symbol(k))]
    if not fixed or (not named and len(fixed) < len(sizes.values)):
        return
    leaf, axis = axes[fixed[0]][0]
    text = sizes.symbol(fixed[0]).text()
    rows = [("used", f"{each.file}:{each.line}") for each in sizes.fixed if text in each.text]
    raise ExportError(
        f"{caller}: the program is for one length of axis {axis} of {names[leaf]}, "
        f"{sizes.values[fixed[0]]}.",
        (
            *dict.fromkeys(rows),
            ("why", "the function uses it as a number, or another axis of this length is fixed."),
            ("write", "dynamic=False, or an example in which no other axis has this length"),
        ),
    )


def numbered(text: str, symbols: Symbols, caller: str) -> Text:
    """The text of a program with the places of sizes for their expressions.

    Raises:
        ExportError: a file cannot hold one of them.
    """
    sizes = symbols.sizes
    writer = Writer(sizes)
    known = {number.text(): number for number in sizes.numbers.values()}

    def place(match: re.Match[str]) -> str:
        number = known.get(match[1])
        return match[0] if number is None else f"{{{writer.place(number.terms)}}}"

    text = _EXPRESSION.sub(place, text)
    written = writer.written()
    symbols_now = [sizes.symbol(k) for k in sizes.values]
    try:
        checked(len(symbols_now), written.numbers, written.guards)
        values = evaluated(written.numbers, symbols_now)
    except BadNumbers as error:
        raise _one_size(caller, str(error)) from None
    if failing(written.guards, values) is not None:
        raise _one_size(caller, "its guards are not those of the trace")
    return Text(text, written, values)
