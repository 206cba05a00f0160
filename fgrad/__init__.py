"""fgrad: differentiate, vectorise and compile NumPy programs.

    import numpy as np
    import fgrad

    def loss(w, x, y):
        return np.mean((np.tanh(x @ w) - y) ** 2)

    step = fgrad.jit(fgrad.value_and_grad(loss))

derivatives      grad, value_and_grad, jvp, vjp, jacfwd, jacrev, hessian, per_sample_grad
batches, code    vmap, jit; plain loops and branches are compiled
rules, memory    custom_vjp, custom_jvp, custom_root, checkpoint, stop_gradient
what it became   make_program, view, profile, explain_retrace, explain_capture, explain_zero
files, C         export, load, export_c, stablehlo, onnx
functions        numpy, scipy, lax, nn, optim, random, sparse, tree
when it fails    debug.print, debug.nans, errors; `python -m fgrad explain NanError`

help(fgrad.grad) has its arguments and an example; `python -m fgrad` has commands.  Names are
loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fgrad.base  # noqa: F401  (which refuses other Pythons)
from fgrad.base.lazy_import import PROVIDERS as _PROVIDERS
from fgrad.base.lazy_import import load as _load
from fgrad.config import config

if TYPE_CHECKING:  # for editors and type checkers; else loaded when first used
    from fgrad import checkpoint_policies as checkpoint_policies
    from fgrad import debug as debug
    from fgrad import distributed as distributed
    from fgrad import errors as errors
    from fgrad import lax as lax
    from fgrad import nn as nn
    from fgrad import numpy as numpy
    from fgrad import optim as optim
    from fgrad import parallel as parallel
    from fgrad import random as random
    from fgrad import scipy as scipy
    from fgrad import sparse as sparse
    from fgrad import testing as testing
    from fgrad import tree as tree
    from fgrad.aot.c import export_c
    from fgrad.aot.load import load
    from fgrad.aot.save import export
    from fgrad.capture.explain import explain_capture
    from fgrad.capture.unroll import unroll
    from fgrad.compile.jit.costs import cost_analysis
    from fgrad.compile.jit.inspect import inspect, make_program
    from fgrad.compile.jit.jitted import jit
    from fgrad.compile.jit.profile import profile
    from fgrad.compile.jit.texts import explain_retrace
    from fgrad.interchange.onnx import onnx
    from fgrad.interchange.stablehlo import stablehlo
    from fgrad.lower_cuda.device.array import DeviceArray, block_until_ready, device_get, device_put
    from fgrad.numpy.at_indexing import at
    from fgrad.tools.trace_table import trace_table
    from fgrad.tools.view import view
    from fgrad.transforms.checkpoint.checkpoint import checkpoint, remat
    from fgrad.transforms.checkpoint.names import checkpoint_name
    from fgrad.transforms.core.linear import linear_transpose
    from fgrad.transforms.core.linearize import jvp, linearize, vjp
    from fgrad.transforms.core.shapes import ShapeDtype, eval_shape, typeof
    from fgrad.transforms.custom.callback import io_callback, pure_callback
    from fgrad.transforms.custom.implicit import closure_convert, custom_linear_solve, custom_root
    from fgrad.transforms.custom.jvp import custom_jvp
    from fgrad.transforms.custom.primitive import primitive
    from fgrad.transforms.custom.vjp import custom_vjp
    from fgrad.transforms.custom.vmap import custom_vmap, sequential_vmap
    from fgrad.transforms.explain import explain_zero
    from fgrad.transforms.functionalize import functionalize
    from fgrad.transforms.grad import grad, value_and_grad
    from fgrad.transforms.hooks import grad_wrt_tags, tag, tap
    from fgrad.transforms.jacobian import hessian, jacfwd, jacrev
    from fgrad.transforms.per_sample import per_sample_grad
    from fgrad.transforms.stop import stop_gradient
    from fgrad.transforms.vmap import vmap

__version__ = "0.1.0"

_LAZY = {
    "DeviceArray": "fgrad.lower_cuda.device.array",
    "ShapeDtype": "fgrad.transforms.core.shapes",
    "at": "fgrad.numpy.at_indexing",
    "block_until_ready": "fgrad.lower_cuda.device.array",
    "checkpoint": "fgrad.transforms.checkpoint.checkpoint",
    "checkpoint_name": "fgrad.transforms.checkpoint.names",
    "closure_convert": "fgrad.transforms.custom.implicit",
    "cost_analysis": "fgrad.compile.jit.costs",
    "custom_jvp": "fgrad.transforms.custom.jvp",
    "custom_linear_solve": "fgrad.transforms.custom.implicit",
    "custom_root": "fgrad.transforms.custom.implicit",
    "custom_vjp": "fgrad.transforms.custom.vjp",
    "custom_vmap": "fgrad.transforms.custom.vmap",
    "device_get": "fgrad.lower_cuda.device.array",
    "device_put": "fgrad.lower_cuda.device.array",
    "eval_shape": "fgrad.transforms.core.shapes",
    "explain_capture": "fgrad.capture.explain",
    "explain_retrace": "fgrad.compile.jit.texts",
    "explain_zero": "fgrad.transforms.explain",
    "export": "fgrad.aot.save",
    "export_c": "fgrad.aot.c",
    "functionalize": "fgrad.transforms.functionalize",
    "grad": "fgrad.transforms.grad",
    "grad_wrt_tags": "fgrad.transforms.hooks",
    "hessian": "fgrad.transforms.jacobian",
    "inspect": "fgrad.compile.jit.inspect",
    "io_callback": "fgrad.transforms.custom.callback",
    "jacfwd": "fgrad.transforms.jacobian",
    "jacrev": "fgrad.transforms.jacobian",
    "jit": "fgrad.compile.jit.jitted",
    "jvp": "fgrad.transforms.core.linearize",
    "linear_transpose": "fgrad.transforms.core.linear",
    "linearize": "fgrad.transforms.core.linearize",
    "load": "fgrad.aot.load",
    "make_program": "fgrad.compile.jit.inspect",
    "onnx": "fgrad.interchange.onnx",
    "per_sample_grad": "fgrad.transforms.per_sample",
    "primitive": "fgrad.transforms.custom.primitive",
    "profile": "fgrad.compile.jit.profile",
    "pure_callback": "fgrad.transforms.custom.callback",
    "remat": "fgrad.transforms.checkpoint.checkpoint",
    "sequential_vmap": "fgrad.transforms.custom.vmap",
    "stablehlo": "fgrad.interchange.stablehlo",
    "stop_gradient": "fgrad.transforms.stop",
    "tag": "fgrad.transforms.hooks",
    "tap": "fgrad.transforms.hooks",
    "trace_table": "fgrad.tools.trace_table",
    "typeof": "fgrad.transforms.core.shapes",
    "unroll": "fgrad.capture.unroll",
    "value_and_grad": "fgrad.transforms.grad",
    "view": "fgrad.tools.view",
    "vjp": "fgrad.transforms.core.linearize",
    "vmap": "fgrad.transforms.vmap",
}
_MODULES = (
    "checkpoint_policies",
    "debug",
    "distributed",
    "errors",
    "lax",
    "nn",
    "numpy",
    "optim",
    "parallel",
    "random",
    "scipy",
    "sparse",
    "testing",
    "tree",
)


_PROVIDERS["cpu"] = "fgrad.compile.cpu.backend"
_PROVIDERS["cuda"] = "fgrad.lower_cuda.backend"


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(_load(_LAZY[name]), name)
    elif name in _MODULES:
        value = _load(f"fgrad.{name}")
    else:
        raise AttributeError(f"module 'fgrad' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *[name for name in globals() if name.startswith("__")]})


__all__ = [
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
