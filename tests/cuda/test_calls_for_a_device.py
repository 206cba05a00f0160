"""Functions that were jitted for a device, within transforms, loops and other jitted functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_arrays import V, X, check
from emulator.driver import StubDriver
from real_device import stub_device

import fgrad
from fgrad import device_put, grad, hessian, jacfwd, jacrev, jvp, lax, linearize, vjp, vmap
from fgrad.errors import ArgumentError, NanError

jit: Any = fgrad.jit


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubDriver]:
    with stub_device() as made:
        yield made


def curve(x: Any) -> Any:
    return np.tanh(x) * x


def loss(x: Any) -> Any:
    return np.sum(np.tanh(x) ** 2)


def pulled(f: Callable[[Any], Any], x: Any) -> Any:
    out, pullback = vjp(f, x)
    return out, pullback(x)


def scanned(f: Callable[[Any], Any], x: Any) -> Any:
    return lax.scan(lambda c, t: (f(c + t), f(t)), x[0], x)


def repeated(f: Callable[[Any], Any], x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))


OF_A_SCALAR: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "grad": lambda f, x: grad(f)(x),
    "value_and_grad": lambda f, x: fgrad.value_and_grad(f)(x),
    "hessian": lambda f, x: hessian(f)(x),
    "vmap of grad": lambda f, x: vmap(grad(f))(np.stack([x, x + 1])),
    "jit of grad": lambda f, x: jit(grad(f))(x),
    "of a number": lambda f, x: grad(f)(2.0),
    "in float32": lambda f, x: grad(f)(x.astype(np.float32)),
    "two arguments": lambda f, x: grad(lambda x, y: f(x * y), argnums=(0, 1))(x, x + 1),
}
OF_ARRAYS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "vmap": lambda f, x: vmap(f)(np.stack([x, x + 1])),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "vjp": pulled,
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "linearize": lambda f, x: linearize(f, x)[1](x),
    "amid the host's": lambda f, x: grad(lambda x: np.sum(np.sin(f(x * 2)) * x))(x),
    "within a jit": lambda f, x: jit(lambda x: f(x) + 1)(x),
    "twice": lambda f, x: [jit(lambda x: f(f(x)))(y) for y in (x, x)],
    "grad of a jit": lambda f, x: grad(jit(lambda x: np.sum(f(x))))(x),
    "trees": lambda f, x: jit(lambda t: f(t["x"]))({"x": x}),
    "scan": scanned,
    "grad of a scan": lambda f, x: grad(lambda x: np.sum(scanned(f, x)[1]))(x),
    "while": repeated,
    "branch": lambda f, x: lax.cond(True, f, lambda x: x, x),
}


@pytest.mark.parametrize("name", [*OF_A_SCALAR, *OF_ARRAYS])
def test_transforms_of_calls_run_on_the_device(name: str) -> None:
    apply, f = (OF_A_SCALAR | OF_ARRAYS)[name], loss if name in OF_A_SCALAR else curve
    tolerance = 1e-6 if name == "in float32" else 1e-12
    check(apply(jit(f, device="cuda"), V), apply(f, V), tolerance)


def test_arrays_of_both_memories() -> None:
    f = jit(curve, device="cuda")
    found = grad(lambda x, y: np.sum(f(x) * y), argnums=(0, 1))(V, device_put(V))
    check(found, grad(lambda x, y: np.sum(curve(x) * y), argnums=(0, 1))(V, V))


def test_calls_for_the_cpu_run_there() -> None:
    f = jit(curve, device="cpu")
    x = device_put(X)
    trees = jit(lambda t: f(t[0]))
    for out in (f(x), jit(lambda x: f(x))(x), trees([x]), trees([x])):
        assert type(out) is np.ndarray
        np.testing.assert_allclose(out, curve(X), 1e-12)
    value, pullback = vjp(f, x)
    assert type(value) is np.ndarray
    np.testing.assert_allclose(np.asarray(pullback(X)[0]), vjp(curve, X)[1](X)[0], 1e-12)


def test_inspect_follows_the_calls() -> None:
    f = jit(curve, device="cuda")
    assert "1 kernels in 1 launches" in fgrad.inspect(lambda x: f(x) + 1)(X).describe()


@pytest.mark.parametrize(
    ("inner", "outer"), [(("cuda",), "cpu"), (("cpu",), "cuda"), (("cpu", "cuda"), None)]
)
def test_one_program_runs_on_one_device(inner: tuple[str, ...], outer: str | None) -> None:
    functions = [jit(curve, device=device) for device in inner]

    def total(x: Any) -> Any:
        return sum([f(x) for f in functions])

    with pytest.raises(ArgumentError, match="for another device") as caught:
        jit(total, device=outer)(X)
    text = str(caught.value)
    assert all([f"jit(curve, device={device!r})" in text for device in inner])
    assert "test_calls_for_a_device.py" in text
    if outer is None:
        np.testing.assert_allclose(np.asarray(total(X)), 2 * curve(X), 1e-12)


def test_nan_are_found_in_calls() -> None:
    f = jit(lambda x: np.sum(np.log(x)), device="cuda")
    with fgrad.debug.nans(), np.errstate(invalid="ignore"):
        check(grad(f)(np.abs(V)), 1 / np.abs(V))
        with pytest.raises(NanError, match="log produced a NaN"):
            grad(f)(V)
