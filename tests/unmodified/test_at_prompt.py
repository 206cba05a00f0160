"""The probes of semantics as gradients at the prompt: those that compile themselves give what the
interpreter gives: numbers, types, errors, writes, texts and warnings."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from case import Case
from outcomes import Overtime, float_places, time_limit
from probes import Probe, functions_of

import fgrad
from fgrad.config import config

FACTORS = (1.0, 1.0, 1.0, 0.9, -1.0, 0.0, 1e3, 1.0)  # of the floats among the arguments
PROBES = list(functions_of("semantics"))


def loss_of(function: Callable[..., Any], places: tuple[int, ...] | None) -> Callable[..., Any]:
    """A number made of a result, or of the floats of a tuple at some places."""

    def of_one(*args: Any) -> Any:
        return np.sum(np.arctan(function(*args)))

    def of_several(*args: Any) -> Any:
        found = function(*args)
        return sum([np.sum(np.arctan(found[k])) for k in places or ()])

    return of_one if places is None else of_several


def scaled(args: tuple[Any, ...], places: tuple[int, ...], factor: float) -> tuple[Any, ...]:
    found = list(copy.deepcopy(args))
    for k in places:
        found[k] = fgrad.tree.map(lambda x: _scaled(x, factor), found[k])
    return tuple(found)


def _scaled(x: Any, factor: float) -> Any:
    y = x * factor
    return y.astype(x.dtype) if isinstance(x, np.ndarray) else type(x)(y)


def is_float(x: Any) -> bool:
    return isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", "") == "f"


def float_parts(function: Callable[..., Any], case: Case) -> tuple[int, ...] | bool | None:
    """Which parts of a result are floats; None if it is one, False if there are none."""
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        try:
            result = function(*copy.deepcopy(case.args))
        except Exception:
            return False
    if is_float(result):
        return None
    if type(result) in (tuple, list):
        return tuple([k for k, x in enumerate(result) if is_float(x)]) or False
    return False


def ends(probe: Probe, case: Case) -> bool:
    """Whether Python comes to an end for all factors: a gradient that does not records on and on,
    and takes the machine's memory."""
    places = float_places(case.args)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for factor in FACTORS:
            try:
                with time_limit(2):
                    probe.load()(*scaled(case.args, places, factor))
            except Overtime:
                return False
            except Exception:
                continue  # it is compared below
    return True


def outcomes(probe: Probe, case: Case, setting: int) -> list[Any]:
    """What calls of the gradient return, raise, print and write."""
    places = float_places(case.args)
    parts = float_parts(probe.load(), case)
    loss = loss_of(probe.load(), parts)  # type: ignore[arg-type]
    found: list[Any] = []
    with config.override(eager_compile=setting), time_limit(20):
        for factor in FACTORS:
            args = scaled(case.args, places, factor)
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    result = fgrad.value_and_grad(loss, places)(*args)
                except Exception as error:
                    result = (type(error).__name__, str(error))
            texts = [shown.getvalue(), *sorted({str(w.message) for w in caught})]
            found += [result, args, texts]
    return found


def difference(a: Any, b: Any) -> str:
    """Where two outcomes differ by more than rounding."""
    xs, tree_a = fgrad.tree.flatten(a)
    ys, tree_b = fgrad.tree.flatten(b)
    if tree_a != tree_b:
        return f"{tree_a} and {tree_b}"
    for x, y in zip(xs, ys, strict=True):
        if type(x) is not type(y):
            return f"{type(x)} and {type(y)}"
        if isinstance(x, (np.ndarray, np.generic)):
            same = x.dtype == y.dtype and x.shape == y.shape
            if not same or not np.allclose(x, y, 1e-7, 1e-9, equal_nan=True):
                return f"{x} and {y}"
        elif x != y and not (x != x and y != y):
            return f"{x!r} and {y!r}"
    return ""


@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_probes_at_the_prompt(probe: Probe) -> None:
    for case in probe.load().cases:  # type: ignore[attr-defined]
        if not float_places(case.args) or float_parts(probe.load(), case) is False:
            continue
        if not ends(probe, case):
            continue
        try:
            wanted = outcomes(probe, case, 0)
        except Overtime:  # a busy machine
            continue
        found = outcomes(probe, case, 2)
        for k, (x, y) in enumerate(zip(wanted, found, strict=True)):
            assert not difference(x, y), f"{k}: {difference(x, y)}"
