"""Functions of fgrad's in torch: values, derivatives of any kind and order, what torch checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedTypeError

torch = pytest.importorskip("torch")
from fgrad.interop.torch import as_torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")

X = np.array([0.5, -1.0, 2.0])
M = np.arange(9.0).reshape(3, 3) / 9 + np.eye(3)


def tensors(*arrays: Any) -> list[Any]:
    return [torch.tensor(a).requires_grad_(np.asarray(a).dtype.kind in "fc") for a in arrays]


Function = Callable[..., Any]
# fgrad's function, torch's, arguments.
SAME: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "elementwise": (lambda x: np.sin(x) * x, lambda x: torch.sin(x) * x, (X,)),
    "to a number": (lambda x: np.sum(x**3), lambda x: (x**3).sum(), (X,)),
    "two": (lambda a, x: np.tanh(a @ x), lambda a, x: torch.tanh(a @ x), (M, X)),
    "several results": (
        lambda x, y: (x * y, np.sum(x), y - x), lambda x, y: (x * y, x.sum(), y - x), (X, X + 1)),
    "integers beside": (
        lambda x, k: x[k] ** 2, lambda x, k: x[k] ** 2, (X, np.array([0, 2, 2]))),
    "integers returned": (
        lambda x: (np.argmax(x), np.max(x)), lambda x: (x.argmax(), x.max()), (X,)),
    "complex": (lambda z: np.abs(z * z + 1j) ** 2, lambda z: (z * z + 1j).abs() ** 2, (X + 2j,)),
    "complex from real": (
        lambda x: np.exp(1j * x) * x, lambda x: torch.exp(1j * x) * x, (X,)),
    "solve": (np.linalg.solve, torch.linalg.solve, (M, X)),
    "jitted": (fgrad.jit(lambda x: np.exp(x)), torch.exp, (X,)),
    "a gradient": (fgrad.grad(lambda x: np.sum(x**4)), lambda x: 4 * x**3, (X,)),
    "itself": (lambda x: x, lambda x: x.clone(), (X,)),
    "no elements": (lambda x: x * 2, lambda x: x * 2, (np.zeros(0),)),
}  # fmt: skip


def flat(outs: Any) -> list[Any]:
    return list(outs) if isinstance(outs, (tuple, list)) else [outs]


def numbers(outs: Any) -> list[np.ndarray]:
    return [y.detach().resolve_conj().numpy() for y in flat(outs)]


def weighted(outs: Any) -> Any:
    """A real number of which each element of the results has its own share."""
    kept = [y for y in flat(outs) if y.is_floating_point() or y.is_complex()]
    parts = [(torch.view_as_real(y) if y.is_complex() else y).reshape(-1) for y in kept]
    return sum((p * torch.linspace(1.0, 2.0, len(p), dtype=p.dtype)).sum() for p in parts)


@pytest.mark.parametrize("name", SAME)
def test_values_and_gradients_are_torchs(name: str) -> None:
    f, g, args = SAME[name]
    ours, theirs = tensors(*args), tensors(*args)
    found, expected = as_torch(f)(*ours), g(*theirs)
    for a, b in zip(numbers(found), numbers(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12)
    weighted(found).backward()
    weighted(expected).backward()
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)


FLOATS = [name for name in SAME if name not in ("integers returned", "no elements")]


@pytest.mark.parametrize("name", FLOATS)
def test_derivatives_pass_torchs_checks(name: str) -> None:
    f, _, args = SAME[name]
    assert torch.autograd.gradcheck(as_torch(f), tensors(*args), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(as_torch(f), tensors(*args))


def test_transforms_of_torch_compose() -> None:
    f = as_torch(lambda x, a: np.sum(np.sin(a * x) * x))
    g: Function = lambda x, a: (torch.sin(a * x) * x).sum()  # noqa: E731
    x, a = torch.tensor(X), torch.tensor(1.5, dtype=torch.float64)
    rows = torch.stack([x, 2 * x])
    transforms: dict[str, Function] = {
        "grad": lambda f: torch.func.grad(f, (0, 1))(x, a),
        "vmap": lambda f: torch.func.vmap(f, (0, None))(rows, a),
        "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(f), (0, None))(rows, a),
        "grad of vmap": lambda f: torch.func.grad(
            lambda rows: torch.func.vmap(f, (0, None))(rows, a).sum())(rows),
        "vmap of vmap": lambda f: torch.func.vmap(
            lambda a: torch.func.vmap(f, (0, None))(rows, a))(torch.stack([a, a + 1])),
        "jvp": lambda f: torch.func.jvp(f, (x, a), (x, a)),
        "jacrev": lambda f: torch.func.jacrev(torch.func.grad(f))(x, a),
        "hessian": lambda f: torch.func.hessian(f)(x, a),
    }  # fmt: skip
    for name, transform in transforms.items():
        for ours, theirs in zip(numbers(transform(f)), numbers(transform(g)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, err_msg=name)


def test_trees_and_settings() -> None:
    f = as_torch(lambda p, x, *, power, mode: {"y": p["w"] * x**power, "mode": (x.sum(),)})
    (w,) = tensors(X)
    out = f({"w": w}, torch.tensor(X), power=2, mode="plain")
    out["y"].sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), X**2)
    assert f({"w": w}, torch.tensor(X), power=3, mode="plain")["y"][2] == 16.0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_types_stay(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = torch.tensor([1.0, 2.0], dtype=getattr(torch, dtype), requires_grad=True)
    y = as_torch(lambda x: x * x)(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == x.dtype
    assert x.grad.tolist() == [2.0, 4.0]


def test_an_operand_that_was_written_into_is_noticed() -> None:
    x = torch.tensor(X).requires_grad_()
    inner = x * 1
    y = as_torch(lambda x: x * x)(inner)
    inner.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


def test_results_are_memory_of_their_own() -> None:
    x = torch.tensor(X)
    as_torch(lambda x: x)(x).add_(1)
    as_torch(lambda x: x[1:])(x).add_(1)
    np.testing.assert_array_equal(x.numpy(), X)


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    (x,) = tensors(X)
    with torch.no_grad():
        assert not as_torch(lambda x: x * x)(x).requires_grad
    again = as_torch(np.sin)(x).sum()
    again.backward(retain_graph=True)
    again.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(X))


def test_training_as_in_torch() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 1).double()
    loss = as_torch(lambda y, t: np.mean((np.squeeze(y) - t) ** 2))
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    x = torch.randn(64, 3, dtype=torch.float64)
    for _ in range(200):
        optimizer.zero_grad()
        value = loss(layer(x), x @ torch.tensor(X) + 1)
        value.backward()
        optimizer.step()
    assert value < 1e-3


# --- tensors as arguments -------------------------------------------------------------------------

TAKEN: dict[str, Function] = {
    "jit": lambda x: fgrad.jit(lambda x: x * 2)(x),
    "grad": lambda x: fgrad.grad(lambda x: np.sum(x * x))(x),
    "vmap": lambda x: fgrad.vmap(lambda x: x * 2)(x),
    "operand": lambda x: fgrad.grad(lambda y: np.sum(y * x))(X) * 2,
    "left operand": lambda x: fgrad.grad(lambda y: np.sum(x * y))(X) * 2,
    "closed over": lambda x: fgrad.jit(lambda y: y * x)(np.full(3, 2.0)),
    "stored": lambda x: fgrad.jit(lambda y: fgrad.at(y)[:].set(x))(X) * 2,
}


@pytest.mark.parametrize("name", TAKEN)
def test_tensors_are_arrays(name: str) -> None:
    found = TAKEN[name](torch.tensor(X))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, 2 * X)


@pytest.mark.parametrize("name", TAKEN)
def test_what_torch_does_not_give_away_is_refused(name: str) -> None:
    given = {
        "detach": torch.tensor(X, requires_grad=True),
        "cpu": torch.empty(3, dtype=torch.float64, device="meta"),
        "to_dense": torch.tensor(X).to_sparse(),
        "float": torch.tensor(X).to(torch.bfloat16),
        "resolve_conj": torch.tensor(X + 1j).conj(),
        "resolve_neg": torch.tensor(X + 1j).conj().imag,
    }
    for advice, x in given.items():
        with pytest.raises(UnsupportedTypeError, match=rf"x.{advice}\(\).*numpy\(\)"):
            TAKEN[name](x)


def test_a_tensor_outside_is_as_it_is_at_each_call() -> None:
    t = torch.tensor(X)
    f = fgrad.jit(lambda y: y + t)
    np.testing.assert_array_equal(f(X), 2 * X)
    t.add_(1)
    np.testing.assert_array_equal(f(X), 2 * X + 1)


def test_memory_goes_both_ways() -> None:
    y = fgrad.jit(lambda x: x * 2)(X)
    np.testing.assert_array_equal(np.from_dlpack(torch.from_dlpack(y)), 2 * X)
    assert torch.from_dlpack(y).data_ptr() == y.ctypes.data
