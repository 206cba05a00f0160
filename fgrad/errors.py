"""L0. The errors of fgrad: cards that say what, where, why and what to write instead.

A card has a first sentence and rows of aligned text; it never prints the contents of an array.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fgrad.base.lazy_import import names_shown
from fgrad.base.source import here, resolve

Row = tuple[str, str]


def card(headline: str, rows: Iterable[Row] = (), anchor: str = "") -> str:
    """The text of an error card; consecutive rows with the same label show it once."""
    rows = list(rows)
    if not rows:
        return headline
    lines = [headline, ""]
    last = ""
    for label, text in rows:
        shown = "" if label == last else label
        first, *rest = text.split("\n")
        lines.append(f"  {shown:<8}{first}")
        lines.extend(f"  {'':<8}{line}" for line in rest)
        last = label
    if anchor:
        lines.append(f"  {'more':<8}docs/errors.md#{anchor}")
    return "\n".join(lines)


class FgradError(Exception):
    """Base of all errors that fgrad raises on purpose.

    A `located` one shows the user's line, whether or not it is told to.
    """

    located: ClassVar[bool] = False

    def __init__(self, headline: str, rows: Iterable[Row] = ()) -> None:
        rows = tuple(rows)
        if self.located and not any([label == "used" for label, _ in rows]):
            loc = resolve(here())
            rows = (("used", f"{loc}:  {loc.text()}"), *rows)
        super().__init__(card(headline, rows, self.section()))
        self.headline = headline
        self.rows: tuple[Row, ...] = rows

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Say more, in front of what there is to write."""
        k = next((k for k, row in enumerate(self.rows) if row[0] == "write"), len(self.rows))
        self.rows = (*self.rows[:k], *rows, *self.rows[k:])
        self.args = (card(self.headline, self.rows, self.section()),)

    @classmethod
    def section(cls) -> str:
        """The section of docs/errors.md: that of the first class which stands in this module."""
        return next(c.__name__ for c in cls.__mro__ if c.__module__ == __name__).lower()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.headline, self.rows), self.__dict__


class UnpicklableError(FgradError, pickle.PicklingError):
    """A function that another process could not find by its name."""


class CheckError(FgradError):
    """An internal invariant is broken: a defect of fgrad, not of the user's program."""


class TracedBoolError(FgradError, TypeError):
    """Python needed True or False from a value that is not known yet."""


class TracedArrayError(FgradError, TypeError):
    """Python or NumPy needed the numbers of a traced array."""


class TracedIndexError(FgradError, IndexError):
    """Python needed an integer from a traced value, or an index has no static shape.

    It is no `TypeError`: NumPy would put words of its own in its place, as in `np.zeros(n)`.
    """


class BoundsError(FgradError, IndexError):
    """A known index lies outside of the array."""

    located = True


class LeakedTracerError(FgradError):
    """A traced value was used after its trace had ended."""


class UnsupportedNumpyError(FgradError, TypeError, NotImplementedError):
    """A NumPy function or argument that fgrad does not trace."""


class UnsupportedTypeError(FgradError, TypeError):
    """An argument that is not an array of numbers."""

    located = True


class NonScalarGradError(FgradError, TypeError):
    """`grad` of a function whose result is not a scalar."""


class GradDtypeError(FgradError, TypeError):
    """Differentiation with respect to, or of, a value that is not floating point."""

    located = True


class BatchSizeError(FgradError, ValueError):
    """The mapped axes of `vmap` have different sizes, or an axis does not exist."""

    located = True


class AxisNameError(FgradError, ValueError):
    """There is no axis of that name, or there is one already."""

    located = True


class VaryingError(FgradError, ValueError):
    """A value varies over a named axis where it must not, or does not where it must."""

    located = True


class MissingMpiError(FgradError, ImportError):
    """mpi4py, or the MPI library that it needs, is missing."""


class RankError(FgradError, RuntimeError):
    """The ranks of a program do not fit together, or to the way in which it was started."""

    located = True


class InPlaceError(FgradError, TypeError):
    """An assignment into a traced array that fgrad cannot carry out correctly."""


class ArgumentWriteError(FgradError, ValueError):
    """A function writes into an argument that is read-only, or shares memory with another one."""

    located = True


class LostDerivativeError(FgradError):
    """A traced value was about to become a plain number where its derivative would be lost.

    Not a TypeError: NumPy replaces those that it meets while it stores into an array.
    """


class RandomStateError(FgradError):
    """A traced function drew random numbers from a stateful generator."""

    located = True
    final = True  # as plain Python the function would draw as well


class MissingRuleError(FgradError, NotImplementedError):
    """A primitive has no rule for the transform that was asked for."""


class StaticArgumentError(FgradError, ValueError, TypeError):
    """A static argument of `jit` cannot be hashed, or does not exist."""

    located = True


class ArgumentError(FgradError, TypeError, ValueError):
    """An argument does not fit: a value, a position, an axis or a tree structure."""

    located = True


class AxisError(FgradError, np.exceptions.AxisError):
    """An axis that an array does not have."""

    located = True

    def __init__(self, axis: int, ndim: int, rows: Iterable[Row] = ()) -> None:
        super().__init__(f"axis {axis} is out of bounds for array of dimension {ndim}", rows)
        self.axis = axis
        self.ndim = ndim

    def __str__(self) -> str:
        return card(self.headline, self.rows, "axiserror" if self.rows else "")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.axis, self.ndim, self.rows), self.__dict__


class CaptureError(FgradError, TypeError):
    """A loop or branch on traced values that cannot be recorded once for all of its runs.

    After a `final` one the function is not traced as plain Python either.
    """

    located = True
    final = False


class TooManyStepsError(CaptureError):
    """A loop that is written out step by step makes a program that is too large."""

    final = True


class TracedTextError(CaptureError):
    """The text of a traced value was asked for in a loop or a branch."""

    final = True


class PythonNumberError(FgradError, ArithmeticError):
    """A number of Python's that compiled code cannot have: of more than 64 bits, or of a kind that
    depends on values."""

    located = True


class ShapeError(FgradError, ValueError):
    """The shapes of operands do not fit together."""

    located = True


class DtypeError(FgradError, TypeError):
    """The dtypes of operands do not fit the operation."""

    located = True


class CustomRuleError(FgradError, TypeError, ValueError):
    """A user-defined derivative or batching rule returned a result that does not fit."""


class ExportError(FgradError, ValueError):
    """A function that no file can hold, or a file that is not what it should be."""


class MissingCudaError(FgradError, ImportError):
    """A part of the CUDA toolchain is not installed."""


class DeviceError(FgradError, RuntimeError):
    """There is no GPU or no driver, or something failed on it."""

    located = True


class UnsupportedDeviceError(FgradError, TypeError, NotImplementedError):
    """An operation has no GPU implementation."""


class UnsupportedFormatError(FgradError, TypeError, NotImplementedError):
    """A text or file format has no form of an operation."""


class DeviceMemoryError(FgradError, MemoryError):
    """The GPU is out of memory."""

    located = True


class NanError(FgradError, FloatingPointError):
    """An operation produced NaN or infinity from finite inputs; see `fgrad.debug.nans`."""


class MemoryBudgetWarning(UserWarning):
    """A gradient does not fit into the memory budget."""


class LostWriteWarning(UserWarning):
    """A function writes into a copy that a transform made of its argument."""


class TracedOnceWarning(UserWarning):
    """A function asks for the time while it is traced, once for all calls."""


class RankWarning(UserWarning):
    """The ranks of a program work, but not as they should."""


class RetraceWarning(UserWarning):
    """A jitted function was traced again, more often than `max_traces` allows."""


class CacheWarning(RuntimeWarning):
    """The cache of compiled code is not used: others could have written there, it is slow, or
    there is no room."""


__dir__ = names_shown(__name__, hidden=("card",))
