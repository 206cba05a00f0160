"""Plain SciPy under transforms: a right result, or a card at the end, whose advice works.

SciPy calls back, catches what the callback raises, and raises errors of its own; C code clears
them.  The user sees the card.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy_programs import MODULES, PROGRAMS

import fgrad
import fgrad.scipy
from fgrad.errors import FgradError

WAYS: dict[str, Callable[..., Any]] = {"grad": fgrad.grad, "jit": fgrad.jit}
ADVISED = re.compile(r"^  write   fgrad\.scipy\.([\w.]+)    SciPy's function", re.MULTILINE)
PLAIN = {short: importlib.import_module(f"scipy.{name}") for short, name in MODULES.items()}


def _program(line: str, modules: dict[str, Any]) -> Callable[[Any], Any]:
    return eval(f"lambda a: {line}", {"np": np, **modules})


def _with_own(line: str, path: str) -> Callable[[Any], Any]:
    """The program with fgrad's function in place of SciPy's."""
    module = next(m for m in sorted(MODULES.values(), key=len)[::-1] if path.startswith(m + "."))
    name = path.removeprefix(module + ".").partition(".")[0]
    own = getattr(importlib.import_module(f"fgrad.scipy.{module}"), name)
    short = next(k for k, m in MODULES.items() if m == module)
    plain = PLAIN[short]
    called = re.search(rf"\b{short}\.(\w+)", line)
    assert called and called[1] == name, f"the card for {line} names {path}"
    return _program(line, {**PLAIN, short: SimpleNamespace(**{**vars(plain), name: own})})


def _expected(line: str, way: str) -> Any:
    f = _program(line, PLAIN)
    return f(2.0) if way == "jit" else (f(2 + 1e-5) - f(2 - 1e-5)) / 2e-5


@pytest.fixture
def uncollected() -> Iterator[None]:
    """SciPy 1.18's codes for `ode` go on with the error of a callback set, which the garbage
    collector would find to be its own."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("line", PROGRAMS)
def test_right_or_a_card_that_helps(line: str, way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = WAYS[way](_program(line, PLAIN))(2.0)
        except Exception as error:
            printed = "".join(traceback.format_exception(error))
            assert isinstance(error, FgradError) or "was given a traced array" in printed
            assert "write   " in "".join(printed.splitlines(keepends=True)[-10:])
            advised = ADVISED.search(printed)
            if advised is None:
                return
            try:
                found = WAYS[way](_with_own(line, advised[1]))(2.0)
            except FgradError as second:  # an option that is not for traced arrays: it says so
                assert ADVISED.search(str(second)) is None
                return
        np.testing.assert_allclose(found, _expected(line, way), rtol=2e-3, atol=1e-4)


OWN = sorted(m.name for m in pkgutil.walk_packages(fgrad.scipy.__path__, "fgrad.scipy."))


@pytest.mark.parametrize("module", OWN)
def test_special_names_are_not_taken_from_scipy(module: str) -> None:
    """A module that takes SciPy's `__all__` says that all of these names are its own."""
    found = importlib.import_module(module)
    before = sorted(n for n in vars(found) if n.startswith("__"))
    assert not hasattr(found, "__unknown__")
    getattr(found, "__all__", None)
    assert sorted(n for n in vars(found) if n.startswith("__")) == before
