"""One argument of calls of scipy.stats, integrate and sparse.linalg altered: SciPy's values, or an
error; others are in test_bad_arguments.py."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import scipy_calls
from scipy_tables import (
    ALTERED,
    MEANT,
    SLICES,
    arrays_of,
    differs,
    names_in,
    program,
    traced,
)

# Those that end in milliseconds, whatever they get.
FORMS = re.compile(
    r"st\.(?!boxcox_norm|yeojohnson_norm|\w+\.cdf)|si\.(trap|simp|romb|cumul|fixed)"
    r"|ss\.(cg|bicg|cgs|gmres|minres|qmr|lsqr|lsmr|tfqmr|spsolve|norm|inv|matrix_power)"
)
KINDS = [k for k in ALTERED if k not in ("float16", "bool", "uint8")]  # of half precision: rounding
ARRAYS, CONSTANTS = scipy_calls.ARRAYS, scipy_calls.CONSTANTS
CASES = [
    (line, name, kind)
    for line in scipy_calls.CALLS
    if FORMS.match(line)
    for name in names_in(line, ARRAYS)
    for kind in KINDS
    if ARRAYS[name].ndim or kind not in SLICES
]
# inf - inf and 0 inf, which NumPy's formulas and SciPy's have at different places; what SciPy's own
# code happens to give for infinities, one number, or nothing; imaginary parts that it drops.
JUDGED = {
    "infinite": ("st.lmoment", "st.moment", "st.t", "st.yeojohnson", "st.siegelslopes",
                 "st.Uniform", "st.Normal", "st.multivariate", "ss.", "st.wasserstein",
                 "st.circ", "st.pear"),
    "NaN": ("st.scoreatpercentile", "st.yeojohnson", "ss.matrix_power", "ss.norm"),
    "no rows": ("st.combine_pvalues",), "no columns": ("st.combine_pvalues",),
    "one number": ("st.dirichlet_multinomial",), "int64": ("st.Binomial",),
    "complex": ("st.directional_stats", "ss."),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_values_or_errors(kind: str) -> None:
    wrong = []
    for line, name, _ in [case for case in CASES if case[2] == kind][KINDS.index(kind) % 3 :: 3]:
        given = [
            ALTERED[kind](ARRAYS[n]) if n == name else np.copy(ARRAYS[n])
            for n in names_in(line, ARRAYS)
        ]
        try:
            wanted = arrays_of(program(line, ARRAYS, CONSTANTS, False)(*map(np.copy, given)))
        except Exception as error:  # SciPy's, of many classes
            wanted = error
        try:
            found = traced(program(line, ARRAYS, CONSTANTS, True), given)
        except MEANT:
            continue
        except Exception as error:  # which SciPy's own code raises
            wrong += [] if type(error) is type(wanted) else [f"{line} of {name}: {error!r}"]
            continue
        if not isinstance(wanted, Exception) and not line.startswith(JUDGED.get(kind, ())):
            text = differs(found, wanted, 1e-4)
            wrong += [f"{line} of {name}: {text}"] if text else []
    assert not wrong
