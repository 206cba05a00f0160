"""Every row of the table on a device that is not there: kernels are emulated with NVIDIA's
libdevice, libraries do their work on the host, and results are compared with NumPy's.

Every row runs in float64; some also in float32, with complex arguments, their gradients and their
vmapped programs; and the kernels of some are compiled for the device.  FGRAD_CUDA_ALL=1 does all
of this for all rows.
"""

from __future__ import annotations

import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from emulator.driver import StubDriver
from op_cases import COMPLEX_CASES, OP_CASES, OpCase
from real_device import IS_REAL, real_device_or
from test_complex import CASES as HOLOMORPHIC
from test_complex import complex_arguments

import fgrad
from fgrad.config import config
from fgrad.errors import UnsupportedDeviceError
from fgrad.lower_cuda.device.cubin import Resources
from fgrad.lower_cuda.device.driver import Function
from fgrad.lower_cuda.device.toolchain import compile_body

ALL = os.environ.get("FGRAD_CUDA_ALL") == "1"
ROWS = [case for case in (*OP_CASES, *COMPLEX_CASES) if not case.known]
TOLERANCE = {"d": 1e-9, "f": 2e-5}
# What a GPU has no form of: a card names it, and on the host it is right.
REFUSED = {"scatter of complex128, complex128, int64"}


class Measured(StubDriver):
    """A stub that compiles each kernel for the device too, where `compiles`."""

    def __init__(self) -> None:
        super().__init__()
        self.compiles = False
        self.resources: list[Resources] = []

    def _build(self, body: str, arity: int, threads: int) -> Function:
        if self.compiles:
            self.resources.append(compile_body(body, arity, threads, self.arch).resources)
        return super()._build(body, arity, threads)


@pytest.fixture(scope="module")
def device() -> Iterator[Measured]:
    """A stub, or the machine's device."""
    made = Measured()
    with real_device_or(made):
        yield made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy's warnings about special values are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        yield


class Run(NamedTuple):
    """A function and its arguments."""

    fun: Callable[..., Any]
    args: list[Any]


def arguments(case: OpCase, dtype: str) -> list[Any]:
    """The arguments of a row, floats in the given precision."""
    args = case.args(np.random.default_rng(zlib.adler32(case.name.encode())))
    return [np.asarray(x).astype(dtype)[()] if np.asarray(x).dtype.kind == "f" else x for x in args]


def is_smooth(case: OpCase) -> bool:
    """Whether a row has a gradient."""
    return bool(case.differentiable and case.order)


def gradient(case: OpCase, dtype: str) -> Run:
    """The gradient of a smooth scalar of all floating results."""
    args = arguments(case, dtype)
    which = tuple([i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"])

    def loss(*xs: Any) -> Any:
        outs = [y for y in fgrad.tree.leaves(case.fun(*xs)) if y.dtype.kind == "f"]
        return sum(np.sum(np.sin(y + 0.1 * k)) for k, y in enumerate(outs))

    return Run(fgrad.grad(loss, argnums=which), args)


def batch(case: OpCase, dtype: str) -> Run:
    """The row for three lanes at once."""
    args = arguments(case, dtype)
    others = case.args(np.random.default_rng(5))
    lanes = [
        np.stack([x, np.asarray(y).astype(np.asarray(x).dtype), x])
        for x, y in zip(args, others, strict=True)
    ]
    return Run(fgrad.vmap(case.fun), lanes)


def check(run: Run, rtol: float) -> None:
    """The device's results are those of the eager function.

    Where NumPy's dtype depends on values, that of the results is the one of the CPU's jit.
    """
    wanted = fgrad.tree.leaves(run.fun(*run.args))
    found = fgrad.tree.leaves(fgrad.jit(run.fun, device="cuda")(*run.args))
    for k, (got, want) in enumerate(zip(found, wanted, strict=True)):
        got, want = got.numpy(), np.asarray(want)
        assert got.shape == want.shape
        if got.dtype != want.dtype:
            assert got.dtype == fgrad.tree.leaves(fgrad.jit(run.fun)(*run.args))[k].dtype
        if want.dtype.kind in "fc":
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            np.testing.assert_allclose(got, want, rtol, rtol * scale)
        else:
            np.testing.assert_array_equal(got, want)


def chosen(cases: list[OpCase], kept: int) -> list[OpCase]:
    """All rows, or in the short run one of `kept`."""
    return cases if ALL else cases[::kept]


def check_row(run: Run, rtol: float) -> None:
    """The results are right; where a card names what a GPU has no form of, with the host's help."""
    try:
        check(run, rtol)
    except UnsupportedDeviceError as error:
        assert str(error).partition(" does not")[0] in REFUSED
        with config.override(host_fallback=True):
            check(run, rtol)


@pytest.mark.parametrize("case", ROWS, ids=lambda c: c.name)
def test_values(device: Measured, case: OpCase) -> None:
    check_row(Run(case.fun, arguments(case, "d")), TOLERANCE["d"])


@pytest.mark.parametrize("case", chosen(ROWS, 16), ids=lambda c: c.name)
def test_values_in_single_precision(device: Measured, case: OpCase) -> None:
    check_row(Run(case.fun, arguments(case, "f")), TOLERANCE["f"])


@pytest.mark.parametrize("dtype", "df" if ALL else "d")
@pytest.mark.parametrize(
    "case", chosen([c for c in ROWS if is_smooth(c)], 16), ids=lambda c: c.name
)
def test_gradients(device: Measured, case: OpCase, dtype: str) -> None:
    check_row(gradient(case, dtype), 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", "df" if ALL else "d")
@pytest.mark.parametrize("case", chosen(ROWS[1:], 16), ids=lambda c: c.name)
def test_batches(device: Measured, case: OpCase, dtype: str) -> None:
    check_row(batch(case, dtype), TOLERANCE[dtype])


@pytest.mark.parametrize("case", chosen([c for c in HOLOMORPHIC if not c.known], 16),
                         ids=lambda c: c.name)  # fmt: skip
def test_complex_values(device: Measured, case: OpCase) -> None:
    check_row(Run(case.fun, complex_arguments(case)), TOLERANCE["d"])


@pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA has no toolchain for it")
@pytest.mark.parametrize("case", chosen(ROWS, 48),
                         ids=lambda c: c.name)  # fmt: skip
@pytest.mark.skipif(IS_REAL, reason="the stub measures what is compiled")
def test_cubins(device: Measured, case: OpCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels of a row and of its gradient can be compiled, and spill no registers."""
    monkeypatch.setattr(device, "compiles", True)
    check_row(Run(case.fun, arguments(case, "f")), TOLERANCE["f"])
    if is_smooth(case):
        check_row(gradient(case, "f"), 10 * TOLERANCE["f"])
    assert not any([found.spill_bytes for found in device.resources])
