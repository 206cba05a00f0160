"""Bad arguments of SciPy's functions in place of those of the tables of calls: compiled calls have
SciPy's values, or raise an error that is meant, never one from the inside of fgrad.

Each call gets some of the alterations, others than the calls beside it.
"""

from __future__ import annotations

import ast
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import scipy_array_cases
import scipy_calls
from scipy_tables import ALTERED, MEANT, SLICES

import fgrad

PLAIN, OWN = [
    {s: importlib.import_module(f"{top}.{name}") for s, name in scipy_calls.MODULES.items()}
    for top in ("scipy", "fgrad.scipy")
]
TABLES: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
    *[(c, scipy_calls.ARRAYS, scipy_calls.CONSTANTS) for c in scipy_calls.CALLS],
    *[(c, scipy_array_cases.ARRAYS, scipy_array_cases.CONSTANTS) for c in scipy_array_cases.CASES],
]
SEARCHES = ("so.", "si.", "ss.")  # seconds each, where nothing converges; test_unsolved.py
CALLS = [t for t in TABLES if not any([s in t[0] for s in SEARCHES])]


def _program(
    line: str, arrays: Mapping[str, Any], constants: Mapping[str, Any], own: bool
) -> tuple[Callable[..., Any], list[str]]:
    names = sorted({n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)} & {*arrays})
    scope = {"np": np, **constants, **(OWN if own else PLAIN)}
    return eval(f"lambda {', '.join(names)}: {line}", scope), names


def _arrays(found: Any) -> list[Any]:
    """The arrays of nested tuples, lists and result objects."""
    if hasattr(found, "statistic") and hasattr(found, "pvalue"):
        found = (found.statistic, found.pvalue)
    if not isinstance(found, (tuple, list)):
        return [found] if hasattr(found, "dtype") or isinstance(found, (int, float)) else []
    return [x for part in found for x in _arrays(part)]


def _outcome(call: Callable[[], Any], meant: tuple[type[Exception], ...]) -> Any:
    try:
        return _arrays(call())
    except meant as error:
        return error


def _compiled(f: Callable[..., Any], given: list[np.ndarray]) -> list[Any]:
    return fgrad.jit(lambda *xs: _arrays(f(*xs)))(*given)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _alterations(number: int, arrays: list[tuple[str, np.ndarray]]) -> list[tuple[str, str]]:
    """Two of the alterations of the arrays of a call."""
    every = [(n, k) for n, x in arrays for k in ALTERED if x.ndim or k not in SLICES]
    return [every[(5 * number + k * 17) % len(every)] for k in range(2)] if every else []


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda k: CALLS[k][0][:60])
def test_errors_are_meant(number: int) -> None:
    line, arrays, constants = CALLS[number]
    own, names = _program(line, arrays, constants, True)
    plain, _ = _program(line, arrays, constants, False)
    for name, kind in _alterations(number, [(n, arrays[n]) for n in names]):
        given = [ALTERED[kind](arrays[n]) if n == name else arrays[n] for n in names]
        try:
            _outcome(lambda g=given: _compiled(own, g), MEANT)
        except Exception as error:  # which SciPy's own code raises
            with pytest.raises(type(error)):
                plain(*given)


EXACT = ("no rows", "one number", "another axis", "int64", "shorter")  # SciPy's values for all
# SciPy's own choices: an empty result has one axis, powers are complex, a line through one value
# is NaN, one pixel has an image without axes.
JUDGED = (
    "sl.fiedler", "sl.fractional_matrix_power", "st.combine_pvalues", "st.dirichlet_multi",
    "sg.resample_poly(x, 5, 3, padtype='line')", "nd.distance_transform",
)  # fmt: skip
FORMS = ["sl.", "sf.", "sd.", "sp.", "sg.", "nd."]


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("form", FORMS)
def test_values_are_scipys(form: str, kind: str) -> None:
    """Of every third call, of which others each kind has."""
    lines = [c for c in CALLS if c[0].startswith(form) and not c[0].startswith(JUDGED)]
    for line, arrays, constants in lines[EXACT.index(kind) % 3 :: 3]:
        own, names = _program(line, arrays, constants, True)
        plain, _ = _program(line, arrays, constants, False)
        for name in [n for n in names if arrays[n].ndim][:1]:
            given = [ALTERED[kind](arrays[n]) if n == name else arrays[n] for n in names]
            wanted = _outcome(lambda g=given, f=plain: f(*g), (Exception,))
            found = _outcome(lambda g=given, f=own: _compiled(f, g), MEANT)
            if isinstance(wanted, Exception) or isinstance(found, Exception):
                continue
            assert [np.shape(x) for x in found] == [np.shape(x) for x in wanted], (line, name)
            for x, y in zip(found, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=f"{line} of {name}")
