"""Every row of the table, traced: same values, dtypes and shapes as NumPy."""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest
from op_cases import COMPLEX_CASES, OP_CASES, OpCase

from fgrad.ir.aval import aval_of
from fgrad.numpy.dispatch import TRACED
from fgrad.numpy.namespace import load_all
from fgrad.trace import Builder, concrete, run, trace

TOLERANCE = {"d": 1e-13, "D": 1e-13, "f": 1e-5, "e": 1e-2}


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.adler32(name.encode()))


def _leaves(out: Any) -> list[Any]:
    return [y for x in out for y in _leaves(x)] if isinstance(out, (tuple, list)) else [out]


def _agree(got: Any, expected: Any) -> None:
    for a, b in zip(_leaves(got), _leaves(expected), strict=True):
        a, b = np.asarray(concrete(a)), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        tolerance = TOLERANCE.get(b.dtype.char, 0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def _arguments(case: OpCase, dtype: str) -> list[Any]:
    args = case.args(_rng(case.name))
    return [
        x.astype(dtype)[()] if np.asarray(x).dtype.kind == "f" and dtype != "d" else x for x in args
    ]


PAIRS = [(case, dtype) for case in OP_CASES + COMPLEX_CASES for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), PAIRS, ids=[f"{c.name}-{d}" for c, d in PAIRS])
def test_traced_without_values(case: OpCase, dtype: str) -> None:
    if case.known:
        pytest.skip("needs values")
    args = _arguments(case, dtype)
    expected = case.fun(*args)
    program = trace(lambda *xs: _leaves(case.fun(*xs)), [aval_of(x) for x in args]).program
    _agree(run(program, args), expected)
    for out, value in zip(program.outputs, map(np.asarray, _leaves(expected)), strict=True):
        if hasattr(out, "aval"):
            assert (out.aval.shape, out.aval.dtype) == (value.shape, value.dtype)


@pytest.mark.parametrize(("case", "dtype"), PAIRS, ids=[f"{c.name}-{d}" for c, d in PAIRS])
def test_traced_with_values(case: OpCase, dtype: str) -> None:
    args = _arguments(case, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        builder = Builder("test", case.name, eager=True)
        with builder.running, builder:
            got = case.fun(*[builder.input(x) for x in args])
        _agree(got, case.fun(*args))


PRINTED_OR_WRITTEN = {
    "array2string", "array_repr", "array_str", "save", "savetxt", "savez", "savez_compressed",
}  # fmt: skip


def test_every_supported_name_has_a_row() -> None:
    """`np.linalg` and `np.fft` have tests of their own."""
    load_all()
    rows = {case.name for case in OP_CASES + COMPLEX_CASES}
    rows |= {name.split(".")[0] for name in rows}
    functions = {id(TRACED[name][1]) for name in rows if name in TRACED}
    missing = [
        name
        for name, (_, function) in TRACED.items()
        if name not in rows and id(function) not in functions and name not in PRINTED_OR_WRITTEN
    ]
    assert not [name for name in missing if not name.startswith(("linalg.", "fft."))]


def test_names_are_unique() -> None:
    names = [case.name for case in OP_CASES + COMPLEX_CASES]
    assert len(set(names)) == len(names)
