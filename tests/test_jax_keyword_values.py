"""Keywords of JAX's functions mean here what they mean there, or are refused by a card.

`python benchmarks/jax_keyword_values.py` writes what JAX gives.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from keyword_cases import CANDIDATES, SPECIAL, VALUES, given, measured, value_of
from sources import ROOT

from fgrad import tree
from fgrad.base.lazy_import import load
from fgrad.errors import FgradError

sys.path.insert(0, str(ROOT / "docs"))
MODULES = importlib.import_module("jax_names_tables").MODULES
GOLDEN = json.loads((ROOT / "tests" / "golden" / "jax_keyword_values.json").read_text())
TYPED = {"dtype", "preferred_element_type"}

# What is otherwise here, and why.
DIFFERENT: dict[tuple[str, str], str] = {
    ("jax.lax.linalg.eigh", "lower"): "an eigenvector has either sign",
    ("jax.nn.standardize", "mean"): "the variance about it, JAX's algorithm='stable'",
}


def found(name: str, at: int, keyword: str, place: int) -> Any:
    module, _, last = name.rpartition(".")
    function = getattr(load(MODULES[module]), last)
    args = (SPECIAL.get(name) or CANDIDATES)[at]
    options = {keyword: value_of(VALUES[keyword][place], args)}
    return measured(function(*[given(x, np.add) for x in args], **options), tree.leaves)


def difference(keyword: str, mine: Any, theirs: Any) -> str:
    """What differs in shapes, numbers, and, where the keyword says them, dtypes."""
    if len(mine) != len(theirs):
        return f"{len(mine)} results, not {len(theirs)}"
    for (dtype, shape, numbers), (wanted, size, values) in zip(mine, theirs, strict=True):
        if keyword in TYPED and dtype != wanted:
            return f"dtype {dtype}, not {wanted}"
        if shape != size:
            return f"shape {shape}, not {size}"
        exact = np.allclose(numbers, values, rtol=1e-4, atol=1e-5, equal_nan=True)
        if len(numbers) != len(values) or not exact:
            return f"{numbers}, not {values}"
    return ""


@pytest.mark.parametrize("name", GOLDEN)
def test_keywords(name: str) -> None:
    wrong = []
    for at, keyword, place, theirs in GOLDEN[name]:
        if (name, keyword) in DIFFERENT:
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                what = difference(keyword, found(name, at, keyword, place), theirs)
            except FgradError as error:
                what = "" if keyword in str(error) else f"{type(error).__name__}: {error}"
            except TypeError as error:  # of NumPy's own ufuncs, such as lax.sin
                what = "" if f"keyword argument '{keyword}'" in str(error) else str(error)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
        if what:
            wrong.append(f"{keyword}={VALUES[keyword][place]!r}: {what}"[:300])
    assert not wrong, "\n".join(wrong)


def test_there_are_many() -> None:
    assert sum(map(len, GOLDEN.values())) > 250
