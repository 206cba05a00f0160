"""Programs as StableHLO text: JAX's compiler parses and runs it, the values are those of `jit`."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from interchange_programs import COMPLEX, MODELS, Model
from op_cases import COMPLEX_CASES, OP_CASES, OpCase

import fgrad
from fgrad.errors import UnsupportedFormatError

REFUSED = {"eigvals", "pinv"}  # what it has no form of, beside checks


def run_text(text: str, args: list[Any]) -> list[np.ndarray]:
    """The results of a module, compiled by XLA."""
    jax = pytest.importorskip("jax")
    extend = pytest.importorskip("jax.extend.backend")
    client = pytest.importorskip("jax._src.lib").xla_client
    backend = extend.get_backend("cpu")
    options, devices = client.CompileOptions(), backend.local_devices()[:1]
    if not hasattr(backend, "compile_and_load"):
        pytest.skip("this jaxlib loads programs in another way")
    loaded = backend.compile_and_load(text, devices, options)
    with jax.enable_x64(True):
        given = [jax.device_put(np.asarray(x), backend.local_devices()[0]) for x in args]
        outs = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
        return [np.asarray(out[0]) for out in outs]


def same(found: list[Any], expected: list[Any]) -> None:
    """Equal types, and values to rounding."""
    for a, b in zip(found, map(np.asarray, expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype.kind not in "fc":
            assert np.array_equal(a, b)
            continue
        tolerance = 1e-4 if b.dtype.char in "fF" else 1e-10
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check(model: Model) -> None:
    """The text gives what the compiled function gives."""
    text = fgrad.stablehlo(model.fun, checks=model.checks)(*model.args)
    expected = fgrad.tree.leaves(fgrad.jit(model.fun)(*model.args))
    same(run_text(text, fgrad.tree.leaves(model.args)), expected)


@pytest.mark.parametrize("name", MODELS | COMPLEX)
def test_models(name: str) -> None:
    check((MODELS | COMPLEX)[name])


CASES = [c for c in OP_CASES + COMPLEX_CASES if not c.known]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_operations(case: OpCase) -> None:
    args = case.args(np.random.default_rng(zlib.adler32(case.name.encode())))
    try:
        check(Model(case.fun, args))
    except UnsupportedFormatError as error:
        first = str(error).split("\n")[0]
        assert first.endswith("checks of values.") or first.split()[-1].rstrip(".") in REFUSED
