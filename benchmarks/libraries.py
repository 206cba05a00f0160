"""The competitors as `Library`: fgrad, JAX, PyTorch, and eager NumPy in double precision."""

from __future__ import annotations

import importlib
import importlib.util
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad.ops import erf_gamma


class Library(NamedTuple):
    """One of the competitors, as workloads see it."""

    name: str
    np: ModuleType | Any  # numpy, jax.numpy, ...
    api: ModuleType | Any  # jit, grad, vmap, ...
    erf: Callable[..., Any]
    conv: Callable[[Any, Any], Any]  # x: (N, C, H, W), w: (O, C, h, w), no padding
    put: Callable[[Any], Any]  # a tree of NumPy arrays as the library likes to have it
    ready: Callable[[Any], Any]  # wait for a result
    add_at: Callable[[Any, Any, Any], Any] = lambda x, index, values: x.at[index].add(values)


def has(module: str) -> bool:
    """Whether a peer is installed."""
    return importlib.util.find_spec(module) is not None


def fgrad_library() -> Library:
    """fgrad on plain NumPy."""
    return Library("fgrad", np, fgrad, erf_gamma.erf, fgrad.nn.conv, lambda x: x, lambda x: x)


def reference_library() -> Library:
    """What results are compared with: the same in double precision; to be used with
    `fgrad.config.override(disable_jit=True)`, so that NumPy evaluates it."""

    def widened(tree: Any) -> Any:
        return fgrad.tree.map(lambda x: x.astype(np.float64) if x.dtype.kind == "f" else x, tree)

    return fgrad_library()._replace(name="reference", put=widened, add_at=_added)


def _added(x: Any, index: Any, values: Any) -> Any:
    x = np.array(x)
    np.add.at(x, index, values)
    return x


def numpy_library() -> Library:
    """NumPy as it is, for workloads that only compile."""
    api = types.SimpleNamespace(jit=lambda f: f)
    return fgrad_library()._replace(name="numpy", api=api)


def jax_library() -> Library | None:
    """JAX with synchronous dispatch and 64-bit types, or None if it is not installed."""
    if not has("jax"):
        return None
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv(x, w, (1, 1), "VALID")

    return Library(
        "jax", jax.numpy, jax, jax.scipy.special.erf, conv, jax.device_put, jax.block_until_ready
    )


def torch_library() -> Library | None:
    """PyTorch without a compiler: `autograd.grad`, and `torch.func` inside of `vmap`."""
    if not has("torch"):
        return None
    torch = importlib.import_module("torch")

    def put(tree: Any) -> Any:
        return fgrad.tree.map(torch.as_tensor, tree)

    return Library(
        "torch",
        _torch_numpy(torch),
        _TorchTransforms(torch),
        torch.special.erf,
        torch.nn.functional.conv2d,
        put,
        lambda x: x,
    )


def _torch_numpy(torch: Any) -> Any:
    """The functions of NumPy that the workloads for PyTorch use, where its own differ."""

    def clamped(a: Any, b: Any) -> Any:
        return torch.clamp(a, min=b) if isinstance(b, float) else torch.clamp(b, min=a)

    def smaller(a: Any, b: Any) -> Any:
        return torch.clamp(b, max=a)

    def transposed(x: Any, axes: Any) -> Any:
        return x.permute(axes)

    names = ("exp", "log", "log1p", "tanh", "sqrt", "sum", "mean", "arange")
    functions = {name: getattr(torch, name) for name in names}
    return types.SimpleNamespace(
        **functions, max=torch.amax, maximum=clamped, minimum=smaller, transpose=transposed
    )


class _TorchTransforms:
    """`jit`, `grad`, `value_and_grad` and `vmap` with JAX's meaning; nothing is compiled."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.mapped = 0

    def jit(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        return fun

    def vmap(self, fun: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
        inner = self.torch.func.vmap(fun, in_dims=in_axes)

        def call(*args: Any) -> Any:
            self.mapped += 1
            try:
                return inner(*args)
            finally:
                self.mapped -= 1

        return call

    def grad(self, fun: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
        def gradient(*args: Any) -> Any:
            if self.mapped:
                return self.torch.func.grad(fun, argnums)(*args)
            return self._gradient(fun, argnums, args)

        return gradient

    def _gradient(self, fun: Callable[..., Any], argnums: Any, args: tuple[Any, ...]) -> Any:
        chosen = (argnums,) if isinstance(argnums, int) else argnums
        args = tuple(
            fgrad.tree.map(lambda t: t.detach().requires_grad_(), x) if k in chosen else x
            for k, x in enumerate(args)
        )
        wanted = args[argnums] if isinstance(argnums, int) else tuple(args[k] for k in chosen)
        leaves, treedef = fgrad.tree.flatten(wanted)
        return fgrad.tree.unflatten(treedef, self.torch.autograd.grad(fun(*args), leaves))
