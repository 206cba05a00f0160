"""Keywords of SciPy's functions with values that SciPy takes: fgrad gives the same, or an error
that names the keyword; nothing is ignored in silence.

A function is called as in the shortest row of it in the tables of calls.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy_array_cases
import scipy_calls
from scipy_keyword_values import OTHERS, VALUES
from scipy_tables import PLAIN, arrays_of, differs, names_in, program, traced

# Searches take seconds, and have exact derivatives in place of SciPy's differences: test_options.py
# and test_keywords.py.
SEARCHES = ("so.", "si.solve_bvp", "si.odeint", "si.solve_ivp", "si.nsum", "ss.", "st.boxcox_norm")
WITHOUT_VALUES = {"sl.null_space", "sl.orth", "st.sigmaclip", "nd.extrema"}  # a card, see there
# By another keyword that the error names, and 0 / 0 of SciPy's own rounding errors.
UNNAMED = {
    ("sg.filtfilt", "irlen"), ("sl.cossin", "compute_u"), ("sl.cossin", "compute_vh"),
    ("sl.cossin", "q"), ("sl.eig_banded", "select_range"), ("sl.eigvals_banded", "select_range"),
    ("sl.eigh_tridiagonal", "select_range"), ("sl.eigvalsh_tridiagonal", "select_range"),
    ("sl.solve_circulant", "caxis"), ("sl.solve_circulant", "baxis"),
    ("sl.solve_circulant", "outaxis"), ("ip.make_splrep", "xb"), ("ip.make_splrep", "xe"),
    ("ip.make_splprep", "ub"), ("ip.make_splprep", "ue"), ("st.Logistic", "tol"),
    ("st.Logistic", "validation_policy"), ("st.Logistic", "cache_policy"),
    ("ip.RectSphereBivariateSpline", "pole_continuity"),
    ("ip.RectSphereBivariateSpline", "pole_values"), ("ip.RectSphereBivariateSpline", "pole_exact"),
    ("ip.bisplev", "dx"), ("ip.bisplev", "dy"), ("sg.czt", "w"), ("ip.interp1d", "fill_value"),
}  # fmt: skip
NOISE = {("sg.coherence", "window"), ("sg.spectrogram", "mode")}


class Row(NamedTuple):
    """A call of a table, with its arrays and constants."""

    line: str
    arrays: Mapping[str, Any]
    constants: Mapping[str, Any]


ROWS = [
    *[Row(c, scipy_calls.ARRAYS, scipy_calls.CONSTANTS) for c in scipy_calls.CALLS],
    *[
        Row(c, scipy_array_cases.ARRAYS, {**scipy_calls.CONSTANTS, **scipy_array_cases.CONSTANTS})
        for c in scipy_array_cases.CASES
    ],
]


def _calls(line: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(line)):
        f = node.func if isinstance(node, ast.Call) else None
        if not isinstance(f, ast.Attribute) or not isinstance(f.value, ast.Name):
            continue
        if isinstance(node, ast.Call) and f.value.id in PLAIN:
            yield f"{f.value.id}.{f.attr}", node


def _shortest() -> dict[str, Row]:
    found: dict[str, tuple[int, int, Row]] = {}
    for row in ROWS:
        for name, call in _calls(row.line):
            found[name] = min(
                found.get(name, (99, 0, row)),
                (len(call.keywords), len(row.line), row),
                key=lambda r: r[:2],
            )
    return {name: row for name, (_, _, row) in found.items()}


def _function(name: str) -> Callable[..., Any]:
    short, _, rest = name.partition(".")
    return getattr(PLAIN[short], rest)


def _keywords(name: str) -> list[str]:
    function = _function(name)
    if isinstance(function, np.ufunc) or hasattr(function, "numargs"):
        return []
    with contextlib.suppress(TypeError, ValueError):
        found = inspect.signature(function).parameters.values()
        return [p.name for p in found if p.default is not p.empty]
    return []


SHORTEST = _shortest()
CALLED = [k for k in sorted(SHORTEST) if _keywords(k) and not k.startswith(SEARCHES)]
CALLED = [k for k in CALLED if k not in WITHOUT_VALUES]


def _with(line: str, name: str, keyword: str, value: str) -> str:
    """The call of a function with a keyword, in place of what it had."""
    tree = ast.parse(line, mode="eval")
    parameters = [
        p.name
        for p in inspect.signature(_function(name)).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    for node in ast.walk(tree):
        found = isinstance(node, ast.Call) and [*_calls(ast.unparse(node))][:1]
        if found and isinstance(node, ast.Call) and found[0][0] == name:
            place = parameters.index(keyword) if keyword in parameters else len(node.args)
            new = ast.parse(value, mode="eval").body
            if place < len(node.args) and not any(isinstance(a, ast.Starred) for a in node.args):
                node.args[place] = new
            else:
                rest = [k for k in node.keywords if k.arg != keyword]
                node.keywords = [*rest, ast.keyword(keyword, new)]
            break
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with (
        warnings.catch_warnings(), np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        yield


def _taken(name: str, keyword: str) -> list[tuple[str, list[Any]]]:
    """A call that SciPy takes, and its arrays: of a value that changes them, if there is one."""
    row = SHORTEST[name]
    given = [row.arrays[n] for n in names_in(row.line, row.arrays)]
    usual = arrays_of(program(row.line, row.arrays, row.constants, False)(*given))
    others: list[tuple[str, list[Any]]] = []
    for value in VALUES.get(keyword, OTHERS):
        line = _with(row.line, name, keyword, value)
        given = [np.copy(row.arrays[n]) for n in names_in(line, row.arrays)]
        try:
            wanted = arrays_of(program(line, row.arrays, row.constants, False)(*given))
        except Exception:  # SciPy's, of many classes
            continue
        if differs(wanted, usual):
            return [(line, wanted)]
        others.append((line, wanted))
    return others[:1]


@pytest.mark.parametrize("name", CALLED)
def test_keywords_are_scipys(name: str) -> None:
    row, wrong = SHORTEST[name], []
    for keyword in _keywords(name):
        for line, wanted in _taken(name, keyword):
            given = [np.copy(row.arrays[n]) for n in names_in(line, row.arrays)]
            try:
                found = traced(program(line, row.arrays, row.constants, True), given)
            except Exception as error:
                if keyword not in str(error) and (name, keyword) not in UNNAMED:
                    wrong.append(f"{line}: {error}")
                continue
            text = differs(found, wanted)
            if text and (name, keyword) not in NOISE:
                wrong.append(f"{line}: {text}")
    assert not wrong
