"""Reductions over axes without elements: compiled, batched and differentiated they give what they
give at the prompt, or raise as it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
import fgrad.scipy.special as special
from fgrad import lax, nn, tree
from fgrad.errors import FgradError
from fgrad.scipy import stats

Reduction = Callable[[Any, int], Any]
SHAPES = (
    ((0,), 0),
    ((2, 0), 1),
    ((2, 0), 0),
    ((0, 3), 0),
    ((0, 3), -1),
    ((0, 0), 0),
    ((2, 0, 3), 1),
)
DTYPES = ("float64", "float32", "float16", "int64", "bool", "complex128")


def _of_axes(f: Callable[..., Any]) -> Reduction:
    return lambda x, axis: f(x, (axis,))


def _of_places(f: Callable[..., Any]) -> Reduction:
    return lambda x, axis: f(x, axis, np.int64)


def _by_axis(f: Callable[..., Any], *rest: Any) -> Reduction:
    return lambda x, axis: f(x, *rest, axis=axis)


OF_NUMPY = (
    "sum", "prod", "max", "min", "amax", "amin", "mean", "std", "var", "median", "average", "any",
    "all", "argmax", "argmin", "ptp", "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanstd",
    "nanvar", "nanmedian", "nanargmax", "nanargmin", "count_nonzero", "cumsum", "cumprod",
    "nancumsum", "nancumprod", "sort", "argsort", "flip", "diff", "trapezoid", "cumulative_sum",
    "cumulative_prod",
)  # fmt: skip
OF_NN = ("softmax", "log_softmax", "logsumexp", "standardize", "glu", "rms_norm", "layer_norm")
OF_STATS = (
    "zscore", "gmean", "hmean", "skew", "kurtosis", "sem", "variation", "iqr", "entropy", "mode",
    "describe", "moment",
)  # fmt: skip
REDUCTIONS: dict[str, Reduction] = {
    **{name: _by_axis(getattr(fnp, name)) for name in OF_NUMPY},
    **{name: _by_axis(getattr(fnp, name), 0.3) for name in ("quantile", "nanquantile")},
    **{name: _by_axis(getattr(fnp, name), 30.0) for name in ("percentile", "nanpercentile")},
    "norm": _by_axis(fnp.linalg.norm),
    **{f"nn.{name}": _by_axis(getattr(nn, name)) for name in OF_NN if hasattr(nn, name)},
    **{f"special.{name}": _by_axis(getattr(special, name))
       for name in ("softmax", "log_softmax", "logsumexp")},
    **{f"lax.{name}": _by_axis(getattr(lax, name))
       for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")},
    **{f"lax.reduce_{name}": _of_axes(getattr(lax, f"reduce_{name}"))
       for name in ("sum", "prod", "max", "min")},
    **{f"lax.{name}": _of_places(getattr(lax, name))
       for name in ("argmax", "argmin")},
    **{f"stats.{name}": _by_axis(getattr(stats, name)) for name in OF_STATS},
    "stats.trim_mean": _by_axis(stats.trim_mean, 0.1),
}  # fmt: skip
CASES = [(name, shape, axis) for name in REDUCTIONS for shape, axis in SHAPES]


def outcome(call: Callable[[], Any]) -> list[np.ndarray] | Exception:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(x) for x in tree.leaves(call())]
        except (FgradError, TypeError, ValueError, IndexError, ArithmeticError) as error:
            return error


def agree(found: Any, wanted: Any) -> bool:
    """Equal values, or errors on both sides; a card may refuse what the prompt computes."""
    if isinstance(found, Exception):
        return isinstance(wanted, Exception) or isinstance(found, FgradError)
    if isinstance(wanted, Exception) or len(found) != len(wanted):
        return False
    return all(
        x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=True)
        for x, y in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize(("name", "shape", "axis"), CASES)
def test_compiled_as_at_the_prompt(name: str, shape: tuple[int, ...], axis: int) -> None:
    f = REDUCTIONS[name]
    wrong = []
    for dtype in DTYPES:
        if dtype == "float16" and name.startswith("stats."):
            continue  # SciPy's functions give float32 for some, here they stay float16
        x = np.zeros(shape, dtype)
        wanted = outcome(lambda x=x: f(x, axis))
        for dynamic in (False, True) if dtype == "float64" else (False,):
            compiled = fgrad.jit(lambda x: f(x, axis), dynamic=dynamic)
            found = outcome(lambda x=x, compiled=compiled: compiled(x))
            if not agree(found, wanted):
                wrong.append(f"{dtype} dynamic={dynamic}: {found}, not {wanted}"[:200])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_batched_as_at_the_prompt(name: str) -> None:
    f, wrong = REDUCTIONS[name], []
    for shape, axis in SHAPES:
        for dtype in ("float64", "int64"):
            x = np.zeros((2, *shape), dtype)
            one = outcome(lambda x=x, axis=axis: f(x[0], axis))
            found = outcome(lambda x=x, axis=axis: fgrad.vmap(f, (0, None))(x, axis))
            wanted = one if isinstance(one, Exception) else [np.stack([y, y]) for y in one]
            if isinstance(found, list) and name == "stats.describe":
                found[0] = np.broadcast_to(found[0], (2,))
            if not agree(found, wanted):
                wrong.append(f"{shape} {axis} {dtype}: {found}, not {wanted}"[:200])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_gradient_is_empty_or_refused(name: str) -> None:
    f, wrong = REDUCTIONS[name], []

    def total(x: Any, axis: int) -> Any:
        parts = [y for y in tree.leaves(f(x, axis)) if np.asarray(y).dtype.kind == "f"]
        return sum([np.sum(y) for y in parts], 0.0 * np.sum(x))

    for shape, axis in SHAPES:
        x = np.zeros(shape)
        prompt = outcome(lambda x=x, axis=axis: f(x, axis))
        plain = outcome(lambda x=x, axis=axis: fgrad.grad(total)(x, axis))
        both = outcome(
            lambda x=x, axis=axis: fgrad.jit(fgrad.grad(total), static_argnums=1)(x, axis)
        )
        for found in (plain, both):
            raised = isinstance(prompt, Exception)
            if isinstance(found, Exception):
                if not raised and not isinstance(found, FgradError):
                    wrong.append(f"{shape} {axis}: {found!r}"[:200])
            elif raised or found[0].shape != shape:
                wrong.append(f"{shape} {axis}: {found}, prompt {prompt}"[:200])
    assert not wrong, "\n".join(wrong)
