"""L7. Results that have more fields than they are unpacked to, as SciPy's.

t, p = ttest_1samp(x, 0.0)                  its df is a field alone
slope, intercept, r, p, error = linregress(x, y)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

from fgrad.trace import Value


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


@dataclass(frozen=True)
class TTest(Unpacked):
    """What a t-test returns inside of a transform."""

    statistic: Value
    pvalue: Value
    df: Value
    length: ClassVar[int] = 2


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
