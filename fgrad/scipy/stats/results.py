"""L7. Results that have more fields than they are unpacked to, as SciPy's, and intervals.

t, p = ttest_1samp(x, 0.0)                  its df is a field alone
slope, intercept, r, p, error = linregress(x, y)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.numpy.promote import as_operand
from fgrad.scipy import special as sp
from fgrad.scipy._either import refusal
from fgrad.trace import Value
from fgrad.typing import ArrayLike


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: Value
    high: Value


def between(low: Value, high: Value, alternative: str, least: float, most: float) -> Interval:
    """An interval of two ends, or of one where the other is the least or the greatest number."""
    if alternative == "less":
        low = np.full(np.shape(high), least)[()]
    elif alternative == "greater":
        high = np.full(np.shape(low), most)[()]
    return Interval(low, high)


def tail_of(confidence_level: ArrayLike, alternative: str) -> Value:
    """The probability below an upper end."""
    level = as_operand(confidence_level)
    return np.add(0.5, np.multiply(0.5, level)) if alternative == "two-sided" else level


class Unpacked:
    """A dataclass that is a sequence of its first fields."""

    length: ClassVar[int]

    def _values(self) -> tuple[Value, ...]:
        named = fields(self)[: self.length]  # type: ignore[arg-type]
        return tuple([getattr(self, field.name) for field in named])

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values())

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int | slice) -> Value | tuple[Value, ...]:
        return self._values()[place]


@tree.register_dataclass
@dataclass(frozen=True)
class TTest(Unpacked):
    """What a t-test returns inside of a transform."""

    statistic: Value
    pvalue: Value
    df: Value
    _estimate: Value = field(repr=False)
    _error: Value = field(repr=False)
    _alternative: str = field(repr=False, metadata={"static": True})
    length: ClassVar[int] = 2

    def confidence_interval(self, confidence_level: ArrayLike = 0.95) -> Interval:
        """The ends of the interval in which the mean, or the difference of means, lies.

        Arguments:
            confidence_level: the probability that it does.

        Example:
            >>> import fgrad, fgrad.scipy.stats as st
            >>> def low(x):
            ...     return st.ttest_1samp(x, 0.0).confidence_interval().low
            >>> float(fgrad.jit(low)(np.array([1.0, 2.0, 4.0])).round(6))
            -1.46125
        """
        side = self._alternative
        reach = sp.stdtrit(self.df, tail_of(confidence_level, side)) * self._error
        ends = self._estimate - reach, self._estimate + reach
        return between(*ends, side, -np.inf, np.inf)


@tree.register_dataclass
@dataclass(frozen=True)
class Correlation(Unpacked):
    """What `pearsonr` and `pointbiserialr` return inside of a transform."""

    statistic: Value
    pvalue: Value
    _samples: int = field(default=0, repr=False, metadata={"static": True})
    _alternative: str = field(default="", repr=False, metadata={"static": True})
    length: ClassVar[int] = 2

    @property
    def correlation(self) -> Value:
        """SciPy's older name of `statistic`."""
        return self.statistic

    def confidence_interval(
        self, confidence_level: ArrayLike = 0.95, method: object = None
    ) -> Interval:
        """The ends of the interval in which the correlation lies, by Fisher's transformation.

        Arguments:
            confidence_level: the probability that it does.
            method: as in SciPy, of plain arrays alone.

        Example:
            >>> import fgrad, fgrad.scipy.stats as st
            >>> def high(x):
            ...     return st.pearsonr(x, np.arange(5.0)).confidence_interval().high
            >>> float(fgrad.jit(high)(np.array([1.0, 2.0, 4.0, 3.0, 5.0])).round(6))
            0.993438
        """
        if method is not None or not self._alternative:
            what = "confidence_interval of pointbiserialr, or with method="
            raise refusal(what, "it has no traced form.", "pearsonr(x, y).confidence_interval()")
        if self._samples <= 3:
            ones = np.ones(np.shape(self.statistic))[()]
            return Interval(-ones, ones)
        middle, side = np.arctanh(self.statistic), self._alternative
        reach = sp.ndtri(tail_of(confidence_level, side)) / np.sqrt(self._samples - 3.0)
        return between(np.tanh(middle - reach), np.tanh(middle + reach), side, -1.0, 1.0)


@tree.register_dataclass
@dataclass(frozen=True)
class Line(Unpacked):
    """What `linregress` returns inside of a transform."""

    slope: Value
    intercept: Value
    rvalue: Value
    pvalue: Value
    stderr: Value
    intercept_stderr: Value
    length: ClassVar[int] = 5
