"""Bad input to functions of JAX's names: what JAX gives, or an error that is meant.

`python benchmarks/jax_altered_values.py` writes what JAX gives.  Where JAX refuses a call,
fgrad may take it: it promotes and broadcasts as NumPy does.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
from altered_cases import calls, candidates, summary
from keyword_cases import given
from sources import ROOT

import fgrad
from fgrad import tree
from fgrad.base.lazy_import import load
from fgrad.errors import FgradError

sys.path.insert(0, str(ROOT / "docs"))
MODULES = importlib.import_module("jax_names_tables").MODULES
OTHER = importlib.import_module("jax_names_tables").OTHER
GOLDEN = json.loads((ROOT / "tests" / "golden" / "jax_altered.json").read_text())
# Names with one meaning here and there.
PARTS = {name: name.rpartition(".")[::2] for name in GOLDEN if name not in OTHER}
NAMES = [name for name, (module, last) in PARTS.items() if hasattr(load(MODULES[module]), last)]

# Where a value is another one, and why: name, place and alteration.
DIFFERENT = {
    "*.conv* 1 nan": "the zeros of the padding times NaN are NaN",
    "*.conv* 1 inf": "the zeros of the padding times inf are NaN",
    "*_patches 0 *": "parts are copied, not multiplied by 0 and 1",
    "*.approx_* 0 nan": "NaN is the largest number, as in a sort",
    "jax.nn.* 0 inf": "the limit at infinity, where JAX has inf * 0",
    "jax.nn.* 0 uint8": "the numbers as floats, where JAX negates them as uint8",
    "jax.lax.zeta * inf": "as SciPy's",
    "*.eigh 0 bool": "JAX halves the sum of a bool matrix and its transpose",
}
# Where JAX has a value and this has an error, and why.
REFUSED = {
    "jax.nn.* 0 complex": "an activation of real numbers",
    "jax.nn.one_hot 0 float*": "labels are integers",
    "jax.lax.reduce_m* 0 complex": "complex numbers have no order",
    "jax.ops.segment_m* 0 complex": "complex numbers have no order",
    "jax.ops.segment_* *": "ids have the first axes of the data, and fit their dtype",
    "jax.lax.reduce_precision *": "formats that NumPy has",
    "jax.lax.select *": "the choice is a bool",
    "jax.lax.slice 0 narrow": "outside",
    "jax.lax.ragged_dot 0 axis more": "rows are a matrix",
    "jax.lax.conv* []45] empty": "no dilation is None",
    "jax.lax.concatenate 0 one": "a number is not joined",
    "jax.lax.broadcast_shapes *": "shapes are tuples of integers",
    "jax.lax.dynamic_update_*_dim 3 0.5": "an axis is an integer",
    "jax.lax.linalg.* 0 *": "no factors, as in NumPy",
    "jax.lax.logistic 0 complex": "as SciPy's",
    "jax.lax.cumlogsumexp 0 complex": "as NumPy's",
}
# What a function says that it does not take: the rest comes from the inside of one.
INSIDE = (
    AttributeError,
    KeyError,
    IndexError,
    ZeroDivisionError,
    AssertionError,
    UnboundLocalError,
)


def _listed(table: dict[str, str], name: str, place: int, how: str) -> bool:
    return any(fnmatchcase(f"{name} {place} {how}", pattern) for pattern in table)


def _at_prompt(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*[given(x, np.add) for x in args])


def _compiled(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The call with its arrays traced."""
    whole = [given(x, np.add) for x in args]
    traced = [k for k, x in enumerate(whole) if isinstance(x, (np.ndarray, np.generic))]

    def called(*arrays: Any) -> Any:
        now = dict(zip(traced, arrays, strict=True))
        return function(*[now.get(k, x) for k, x in enumerate(whole)])

    return fgrad.jit(called)(*[whole[k] for k in traced])


def _difference(mine: Any, theirs: Any) -> str:
    """What differs in shapes, in numbers, and in what is not a number."""
    if len(mine) != len(theirs):
        return f"{len(mine)} results, not {len(theirs)}"
    for (_, shape, nans, odd, sums), (_, size, wanted, others, values) in zip(
        mine, theirs, strict=True
    ):
        if shape != size:
            return f"shape {shape}, not {size}"
        if (nans, odd) != (wanted, others):
            return f"{nans} NaN and {odd} not finite, not {wanted} and {others}"
        if not np.allclose(sums, values, rtol=2e-3, atol=2e-3):
            return f"sums {sums}, not {values}"
    return ""


def _from_inside(error: Exception) -> bool:
    """Whether an error comes from lines of fgrad's that did not foresee the call."""
    if isinstance(error, FgradError) or not isinstance(error, INSIDE):
        return False
    return f"{ROOT.name}/fgrad/" in traceback.extract_tb(error.__traceback__)[-1].filename


def _wrong(
    name: str, run: Callable[..., Any], part: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    module, last = PARTS[name]
    function = getattr(load(MODULES[module]), last)
    for at, place, how, theirs in GOLDEN[name]:
        if not part(f"{name} {place} {how}"):
            continue
        args = next(a for p, h, a in calls(candidates(name)[at]) if (p, h) == (place, how))
        what = ""
        try:
            what = _difference(summary(run(function, args), tree.leaves), theirs) if theirs else ""
            what = "" if _listed(DIFFERENT, name, place, how) else what
        except Exception as error:
            refused = not theirs or _listed(REFUSED, name, place, how)
            if _from_inside(error) or not refused:
                what = f"{type(error).__name__}: {error}"
        if what:
            yield f"{place} {how}", what


def _check(name: str, run: Callable[..., Any], part: Callable[[str], bool]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wrong = list(_wrong(name, run, part))
    assert not wrong, "\n".join(f"{where}: {what}"[:200] for where, what in wrong)


@pytest.mark.parametrize("name", NAMES)
def test_at_the_prompt(name: str) -> None:
    _check(name, _at_prompt, lambda _: True)


@pytest.mark.parametrize("name", NAMES)
def test_compiled(name: str) -> None:
    """A quarter of the calls."""
    _check(name, _compiled, lambda key: zlib.crc32(key.encode()) % 4 == 0)


def test_there_are_many() -> None:
    assert len(NAMES) > 150 and sum(map(len, GOLDEN.values())) > 4000
