"""A third backend, with arrays of its own: jit, traces and NumPy know the contract alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import pytest

import fgrad
from fgrad.compile.backend import BACKENDS
from fgrad.compile.cpu.executable import Executable
from fgrad.compile.jit import eager_device  # noqa: F401 - the operators of arrays on devices
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.tracing.on_device import DEVICES, OnDevice


class Toy(OnDevice):
    """An array in the memory of a device that NumPy does not reach."""

    __slots__ = ("name", "values")

    def __init__(self, values: np.ndarray, name: str = "toy") -> None:
        self.values, self.name = values, name
        self.shape, self.dtype = values.shape, values.dtype
        self.given_away, self.lifted = False, None

    @property
    def device(self) -> str:
        return self.name

    def numpy(self) -> np.ndarray:
        return self.values.copy()

    def require(self) -> None:
        pass

    def reshaped(self, shape: tuple[int, ...]) -> Toy:
        return Toy(self.values.reshape(shape), self.name)

    def rows(self, start: int, stop: int) -> Toy:
        return Toy(self.values[start:stop], self.name)


def toy(x: object, dtype: np.dtype | None = None) -> Toy:
    return x if isinstance(x, Toy) else Toy(np.asarray(x, dtype, order="C"))


class ToyProgram:
    """The program of the CPU, on the arrays of the device."""

    def __init__(self, inner: Executable) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, args: Sequence[Toy]) -> list[Toy]:
        assert all(type(x) is Toy for x in args)
        return [toy(np.asarray(x)) for x in self.inner([x.values for x in args])]

    def seen_as(self, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> ToyProgram:
        return ToyProgram(self.inner.seen_as(in_avals, out_avals))

    def native_call(self) -> None:
        return None

    def failed(self, code: int) -> NoReturn:
        raise AssertionError(code)


@pytest.fixture(autouse=True)
def _devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cpu = BACKENDS["cpu"]
    backend = cpu._replace(
        build=lambda program, plan: ToyProgram(cpu.build(program, plan)),  # type: ignore[arg-type]
        stored=lambda _program, _donated, compiled: compiled(),
        on_host=False,
        steps=None,
    )
    loaded: Any = BACKENDS
    monkeypatch.setitem(loaded._loaded, "toy", backend)
    monkeypatch.setitem(DEVICES, "toy", toy)
    monkeypatch.setitem(DEVICES, "other", toy)
    yield


X = np.linspace(0.1, 1.0, 6).reshape(2, 3)


def loss(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


def steps(x: Any) -> Any:
    return fgrad.lax.scan(lambda c, _: (np.cos(c), None), x, None, length=3)[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.sin(x) + x[0],
        lambda x: 2.0 + X * x,
        lambda x: fgrad.at(x)[0].set(1.0) @ x.T,
        lambda x: np.flip(x).reshape(-1)[::2],
        fgrad.grad(loss),
        fgrad.jit(loss),
        fgrad.jit(fgrad.grad(loss)),
        fgrad.grad(fgrad.jit(loss)),
        fgrad.vmap(fgrad.jit(loss)),
        fgrad.jit(steps),
        fgrad.grad(lambda x: np.sum(fgrad.jit(steps)(x))),
    ],
)
def test_arrays_of_any_device(call: Callable[..., Any]) -> None:
    for _ in range(3):
        found = call(toy(X))
        assert type(found) is Toy
        np.testing.assert_allclose(found.values, call(X))


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f))])
def test_functions_for_a_device_take_arrays_to_it(wrap: Callable[..., Any]) -> None:
    found = wrap(fgrad.jit(loss, device="toy"))(X)
    assert type(found) is Toy
    np.testing.assert_allclose(found.values, wrap(loss)(X))


def test_steps_are_timed_on_the_host() -> None:
    found = fgrad.profile(fgrad.jit(loss, device="toy"))(X)
    assert len(found.steps) == 1


@pytest.mark.parametrize("call", [lambda x, y: x + y, fgrad.jit(lambda x, y: x + y)])
def test_arrays_of_two_devices_do_not_meet(call: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="Arrays on 'toy' and on 'other' meet"):
        call(toy(X), Toy(X, "other"))
