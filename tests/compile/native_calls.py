"""What tests of native calls share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad import jit, tree
from fgrad.compile.entry.native import NativeCallable
from fgrad.compile.llvm.abi import LAYOUT
from fgrad.config import config

NEEDS_NATIVE = pytest.mark.skipif(
    LAYOUT is None or not config.native_calls, reason="calls are not native here"
)
X = np.linspace(-1.0, 2.0, 8, dtype=np.float32)


def learnt(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The jitted function, after calls like this have become native."""
    jitted = fun if isinstance(fun, NativeCallable) else jit(fun)
    before = len(jitted.native.signatures)
    for _ in range(2):
        jitted(*args, **kwargs)
    assert len(jitted.native.signatures) == before + 1
    return jitted


def counted(jitted: Any, *args: Any, **kwargs: Any) -> tuple[Any, int]:
    """The result of a call, and how often it went to Python."""
    calls = 0

    def watch(frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is type(jitted).__call__.__code__

    sys.setprofile(watch)
    try:
        result = jitted(*args, **kwargs)
    finally:
        sys.setprofile(None)
    return result, calls


def assert_same(a: Any, b: Any) -> None:
    """Equal structure, types, dtypes and numbers."""
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        assert type(x) is type(y)
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(x, y)


def outcome(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A result, or the type of the error."""
    try:
        return fun(*args, **kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)
