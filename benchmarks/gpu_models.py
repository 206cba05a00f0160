"""Whole models for the GPU: their launches, and workloads that are large enough for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Workload
from libraries import Library
from workloads_arrays import jitted, normal
from workloads_models import MODELS

import fgrad

Call = Callable[[], Any]
SIZE = 1 << 26


def chain(count: int, lib: Library) -> Call:
    """A call of `count` launches: each sum needs all of what was before."""

    def f(x: Any) -> Any:
        for _ in range((count + 1) // 2):
            x = x * (1.0 / (1.0 + lib.np.sum(x * x)))
        return x if count % 2 == 0 else x + 1.0

    return jitted(lib, f if count > 1 else lambda x: x + 1.0, normal(1024, dtype=np.float32))


def plans(lib: Library) -> dict[str, str]:
    """The launches of the models, as text by name."""
    found: dict[str, str] = {}
    for workload in MODELS:
        described: list[str] = []
        api = _Describing(lib.api, described)
        try:
            workload.make(lib._replace(api=api))()
            found[workload.name] = "\n".join(described)
        except fgrad.errors.FgradError as error:
            found[workload.name] = f"refused: {str(error).splitlines()[0]}"
        print(f"\n--- {workload.name}\n{found[workload.name]}")
    return found


class _Describing:
    """fgrad, whose jitted functions tell their launches when they are first called."""

    def __init__(self, api: Any, texts: list[str]) -> None:
        self._api, self._texts = api, texts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def jit(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """fgrad.jit, with a description."""
        jitted = self._api.jit(fun, device="cuda")

        def call(*args: Any) -> Any:
            out = jitted(*args)
            if not self._texts:
                self._texts.append(self._api.inspect(jitted)(*args).describe())
            return out

        return call


# --- large workloads ------------------------------------------------------------------------------


def fused(lib: Library) -> Call:
    """Three arrays in, one out."""
    arrays = [normal(SIZE, dtype=np.float32, seed=k) for k in range(3)]
    return jitted(lib, lambda a, b, c: lib.np.exp(a) * b + c, *arrays)


def large_softmax(lib: Library) -> Call:
    """Rows of 1024."""

    def f(x: Any) -> Any:
        e = lib.np.exp(x - lib.np.max(x, 1)[:, None])
        return e / lib.np.sum(e, 1)[:, None]

    return jitted(lib, f, normal(65536, 1024, dtype=np.float32))


def large_sum(lib: Library) -> Call:
    """All of a large array."""
    return jitted(lib, lambda x: lib.np.sum(x), normal(SIZE, dtype=np.float32))


def large_transpose(lib: Library) -> Call:
    """8192 x 8192."""
    return jitted(lib, lambda x: lib.np.transpose(x, (1, 0)) * 2.0, normal(8192, 8192).astype("f4"))


LARGE = (
    Workload("exp(a)*b+c, 67M f32", None, fused, torch=True),
    Workload("softmax 65536x1024 f32", None, large_softmax, torch=True),
    Workload("sum, 67M f32", None, large_sum, torch=True),
    Workload("transpose 8192x8192 f32", None, large_transpose, torch=True),
)
