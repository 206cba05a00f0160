"""The functions of benchmarks/sizes.py as users of PyTorch and Numba write them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

MOST_SIZES = 64  # that torch.compile compiles before it gives up


def function(library: str, case: str) -> Callable[..., Any] | None:
    """The compiled function of a case; None where it is not written so."""
    if library == "numba":
        source = _NUMBA.get(case)
        return None if source is None else importlib.import_module("numba").njit(source)
    torch = importlib.import_module("torch")
    torch._dynamo.config.recompile_limit = MOST_SIZES
    made = _TORCH.get(case)
    if made is None:
        return None
    compiled = torch.compile(made(torch))  # sizes become variables where they change

    def with_gradient(*args: Any) -> Any:
        leaves: list[Any] = []
        result = compiled(*_tensors(torch, args, leaves))
        if case in ("chain", "pairwise"):
            return result
        result.backward()
        return result.detach(), tuple([x.grad for x in leaves[:2]])

    return with_gradient


def _tensors(torch: Any, tree: Any, leaves: list[Any]) -> Any:
    """Arrays as tensors; those of floats want gradients, and are listed."""
    if isinstance(tree, (tuple, list)):
        return type(tree)([_tensors(torch, x, leaves) for x in tree])
    tensor = torch.from_numpy(np.asarray(tree))
    if tensor.dtype.is_floating_point:
        leaves.append(tensor.requires_grad_())
    return tensor


# --- PyTorch


def _torch_chain(torch: Any) -> Callable[..., Any]:
    def chain(x: Any) -> Any:
        y = torch.sin(x) * 2.0 + x
        return torch.tanh(torch.exp(-y * y) + x) * y + torch.sqrt(torch.abs(x) + 1.0)

    return chain


def _torch_network(torch: Any) -> Callable[..., Any]:
    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for w, b in layers[:-1]:
            x = torch.relu(x @ w + b)
        w, b = layers[-1]
        return torch.nn.functional.cross_entropy(x @ w + b, labels)

    return loss


def _torch_attention(torch: Any) -> Callable[..., Any]:
    def loss(q: Any, k: Any, v: Any) -> Any:
        p = torch.softmax(q @ k.transpose(-1, -2) / 32**0.5, -1)
        return ((p @ v) ** 2).sum()

    return loss


def _torch_pairwise(torch: Any) -> Callable[..., Any]:
    def sums(a: Any, b: Any) -> Any:
        d = a[:, None, :] - b[None, :, :]
        return torch.exp(-0.5 * (d * d).sum(-1)).sum(1)

    return sums


def _torch_pooled(torch: Any) -> Callable[..., Any]:
    def loss(w: Any, v: Any, x: Any, target: Any) -> Any:
        return (torch.tanh(x @ w).mean(0) @ v - target) ** 2

    return loss


_TORCH: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "chain": _torch_chain,
    "mlp": _torch_network,
    "attention": _torch_attention,
    "pairwise": _torch_pairwise,
    "ragged": _torch_pooled,
}


# --- Numba: the gradient by hand


def _numba_chain(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(x.size):
        y = math.sin(x[i]) * 2.0 + x[i]
        out[i] = math.tanh(math.exp(-y * y) + x[i]) * y + math.sqrt(abs(x[i]) + 1.0)
    return out


def _numba_pairwise(a: Any, b: Any) -> Any:
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            distance = 0.0
            for k in range(a.shape[1]):
                distance += (a[i, k] - b[j, k]) ** 2
            out[i] += math.exp(-0.5 * distance)
    return out


def _numba_pooled(w: Any, v: Any, x: Any, target: Any) -> Any:
    length = np.float32(x.shape[0])
    hidden = np.tanh(np.dot(x, w))
    pooled = np.sum(hidden, axis=0) / length
    error = np.dot(pooled, v) - target
    dv = np.float32(2) * error * pooled
    dh = (np.float32(2) * error / length) * v * (np.float32(1) - hidden * hidden)
    return error * error, (np.dot(x.T, dh), dv)


_NUMBA: dict[str, Callable[..., Any]] = {
    "chain": _numba_chain,
    "pairwise": _numba_pairwise,
    "ragged": _numba_pooled,
}
