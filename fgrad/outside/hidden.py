"""L2. Arrays from outside that a trace takes as inputs: `X` in `X @ w`, read at each call.

An array may stay an input, whatever numbers it has, only if the trace has read none of them: NumPy
computes `X @ np.ones(3)` at once, and its result is a constant.  Where the code does nothing with
an array but calculate, each run of such an instruction must have recorded the array.  Python's
tracing counts the runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Container
from types import CodeType, FrameType
from typing import Any, TypeAlias

import numpy as np

from fgrad.errors import FgradError
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import REGISTRY
from fgrad.outside.watches import Site, Watches
from fgrad.record import TracedProgram
from fgrad.source import here
from fgrad.trace import SMALL, STATE, Builder, Tracer, bind

Arrays: TypeAlias = "dict[int, tuple[np.ndarray, frozenset[Site]]]"


# From Python 3.12 on, instructions of a function that is called again may go unreported.
COUNTS = sys.version_info < (3, 12)


class Hidden:
    """The arrays that one trace may take as inputs; open it around the trace."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.builder: Builder | None = None
        self.recorded: Counter[tuple[int, Site]] = Counter()
        self.runs: Counter[Site] = Counter()
        self.codes: dict[int, tuple[CodeType, set[int]]] = {}
        for _, sites in arrays.values():
            for code, at in sites:
                self.codes.setdefault(id(code), (code, set()))[1].add(at)

    def __enter__(self) -> Hidden:
        self.before = STATE.hidden
        STATE.hidden = self
        if self.arrays:
            sys.settrace(self._called)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.arrays:
            sys.settrace(None)
        STATE.hidden = self.before

    def _called(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if id(frame.f_code) not in self.codes:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "opcode":
            code, places = self.codes[id(frame.f_code)]
            if frame.f_lasti in places:
                self.runs[code, frame.f_lasti] += 1
        return self._step

    def stand_in(self, x: np.ndarray) -> Tracer | None:
        """What stands for an array in the trace; None if it is none of these, or a part of one."""
        found, builder = self.arrays.get(id(x)), self.builder
        if found is None and isinstance(x.base, np.ndarray):
            found = self.arrays.get(id(x.base))
        if found is None or builder is None or not builder.live:
            return None
        whole = found[0]
        dims = tuple([k for k, n in enumerate(x.shape) if n > 1 and x.strides[k]])
        if x is not whole and not _only_repeats(x, whole, dims):
            return None
        if STATE.loc is None:
            self.recorded[id(whole), here()] += 1
        known = builder.captures.get(id(whole))
        tracer: Any = known[2] if known else None
        if tracer is None:
            tracer = builder.new(None, Aval(whole.shape, whole.dtype))
            builder.captures[id(whole)] = (whole, whole, tracer)  # type: ignore[assignment]
        if x is whole:
            return tracer
        flat = bind(REGISTRY["reshape"], tracer, shape=tuple([x.shape[k] for k in dims]))
        return bind(REGISTRY["broadcast"], flat, shape=x.shape, dims=dims)

    def proven(self) -> Arrays:
        """The arrays of which the trace has read no number."""
        return {key: found for key, found in self.arrays.items() if self._is_proven(key, found[1])}

    def _is_proven(self, key: int, sites: frozenset[Site]) -> bool:
        anywhere = sum([n for (k, _), n in self.recorded.items() if k == key])
        here_alone = sum([self.recorded[key, site] for site in sites])
        each = all([self.runs[site] == self.recorded[key, site] for site in sites])
        return each and anywhere == here_alone


def _only_repeats(x: np.ndarray, whole: np.ndarray, dims: tuple[int, ...]) -> bool:
    """Whether a view has the elements of an array in their order, repeated along new axes."""
    own = [(n, s) for n, s in zip(whole.shape, whole.strides, strict=True) if n > 1]
    same = x.dtype == whole.dtype and [(x.shape[k], x.strides[k]) for k in dims] == own
    return same and x.ctypes.data == whole.ctypes.data


def candidates(watches: Watches, moved: Container[int]) -> Arrays:
    """The arrays that a trace may take as inputs: those that are large, or were seen to change."""
    if sys.gettrace() is not None or not COUNTS:  # a debugger, or a tool for coverage
        return {}
    return {
        id(x): (x, frozenset([site for site in sites if site is not None]))
        for x, _, sites in watches.written()
        if None not in sites and _is_plain(x) and (x.nbytes > SMALL or id(x) in moved)
    }


def _is_plain(x: np.ndarray) -> bool:
    usable = type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned and x.ndim > 0
    return usable and x.dtype.isnative and x.dtype.kind in "fc"


def trace_with_inputs(
    trace: Callable[[Hidden], TracedProgram], arrays: Arrays
) -> tuple[TracedProgram, Arrays]:
    """A trace that takes as many of these arrays as inputs as it may, and these."""
    while True:
        hidden = Hidden(arrays)
        try:
            with hidden:
                traced = trace(hidden)
        except FgradError:
            if not arrays:
                raise
            arrays = {}  # rules of the user's own may want constants
            continue
        proven = hidden.proven()
        if len(proven) == len(arrays):
            return traced, arrays
        arrays = proven
