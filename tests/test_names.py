"""The public names: a name appears or goes only together with this list."""

from __future__ import annotations

import inspect
import types

import pytest

import fgrad

PUBLIC = [
    "DeviceArray",
    "ShapeDtype",
    "at",
    "block_until_ready",
    "checkpoint",
    "checkpoint_name",
    "closure_convert",
    "config",
    "cost_analysis",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "custom_vmap",
    "device_get",
    "device_put",
    "eval_shape",
    "explain_capture",
    "explain_retrace",
    "explain_zero",
    "export",
    "export_c",
    "functionalize",
    "grad",
    "grad_wrt_tags",
    "hessian",
    "inspect",
    "io_callback",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "load",
    "make_program",
    "numpy",
    "onnx",
    "per_sample_grad",
    "primitive",
    "profile",
    "pure_callback",
    "remat",
    "sequential_vmap",
    "stablehlo",
    "stop_gradient",
    "tag",
    "tap",
    "trace_table",
    "tree",
    "typeof",
    "unroll",
    "value_and_grad",
    "view",
    "vjp",
    "vmap",
]
MODULES = [
    "checkpoint_policies",
    "debug",
    "distributed",
    "errors",
    "lax",
    "nn",
    "optim",
    "parallel",
    "random",
    "scipy",
    "sparse",
    "testing",
]

# A public function must not hide a module of the package.
RESERVED = {"trace", "compile"}


def test_public_names() -> None:
    assert sorted(fgrad.__all__) == PUBLIC
    assert not RESERVED & {name for name in fgrad.__all__ if callable(getattr(fgrad, name))}


@pytest.mark.parametrize("name", MODULES)
def test_library_modules(name: str) -> None:
    module = getattr(fgrad, name)
    assert isinstance(module, types.ModuleType)
    assert name in dir(fgrad)


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in ("config", "numpy", "tree")])
def test_public_functions_say_what_they_do(name: str) -> None:
    text = inspect.getdoc(getattr(fgrad, name)) or ""
    first = text.split("\n\n")[0]
    assert first.endswith((".", ":")), f"fgrad.{name}: the docstring starts with a sentence"
    assert ">>>" in text, f"fgrad.{name}: the docstring has an example"


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gradient'"):
        fgrad.gradient  # noqa: B018
