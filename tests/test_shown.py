"""What people see of fgrad: completion lists, reprs at a prompt, the beginning of help."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import MODULES, public

import fgrad

REPRS: dict[str, tuple[Callable[[], Any], str]] = {
    "program": (lambda: fgrad.make_program(np.sin)(1.0), "program sin(a: f64[]"),
    "profile": (lambda: fgrad.profile(np.sin)(np.ones(3)), "sin: "),
    "stages": (lambda: fgrad.inspect(np.sin)(np.ones(3)), "pass"),
    "table": (lambda: fgrad.trace_table(lambda x: x * x)(2.0), "node"),
    "view": (lambda: fgrad.view(np.sin)(1.0), "<view of sin: 1 equations"),
    "jitted": (lambda: fgrad.jit(np.sin), "<jit of sin>"),
    "gradient": (lambda: fgrad.grad(np.sin), "<grad(sin)>"),
    "shape": (lambda: fgrad.ShapeDtype((2,), float), "ShapeDtype((2,), float64)"),
}


@pytest.mark.parametrize("name", REPRS)
def test_reprs_say_what_it_is(name: str) -> None:
    make, text = REPRS[name]
    shown = repr(make())
    assert shown.startswith(text) and " object at 0x" not in shown


@pytest.mark.parametrize("module", MODULES)
def test_completion_shows_public_names_alone(module: str) -> None:
    found = importlib.import_module(module)
    shown = {name for name in dir(found) if not name.startswith("__")}
    extra = {name for name in shown if isinstance(getattr(found, name), types.ModuleType)}
    names = {name for name in shown - extra if name not in public(module)}
    plain = module.removeprefix("fgrad.")
    scipy = importlib.import_module(plain) if plain.startswith("scipy.") else None
    assert {name for name in names if not hasattr(scipy, name)} == set()
    assert set(public(module)) <= shown


def test_help_begins_with_what_users_need() -> None:
    first = (fgrad.__doc__ or "").splitlines()[:20]
    text = "\n".join(first)
    assert all(name in text for name in ("fgrad.jit", "grad,", "vmap", "custom_vjp", "debug.nans"))
