"""Steps without a form on a device that run on the CPU, where the user allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special as plain
from device_arrays import V, W, check
from emulator.driver import StubDriver
from real_device import stub_device

import fgrad
import fgrad.scipy.linalg as matrices
import fgrad.scipy.special as special
from fgrad import device_put, grad, lax, vmap
from fgrad.config import config
from fgrad.errors import UnsupportedDeviceError
from fgrad.ops.checked import require, text_of

jit: Any = fgrad.jit
A = np.abs(V) + 0.5
MATRIX = W[:2] @ W[:2].T / 4 + np.eye(2)


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubDriver]:
    with stub_device() as made:
        yield made


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    with config.override(host_fallback=True):
        yield


def in_a_scan(x: Any) -> Any:
    def body(carry: Any, t: Any) -> tuple[Any, Any]:
        carry = special.kv(2.0, carry + t)
        return carry, carry * t

    return lax.scan(body, x[0], x)


def in_a_while(x: Any) -> Any:
    def body(carry: Any) -> Any:
        return carry[0] + 1, special.kv(2.0, carry[1] + 1)

    return lax.while_loop(lambda carry: carry[0] < 3, body, (0, x))


def in_a_branch(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda x: special.expn(2, x), lambda x: x * 2, x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "amid kernels": lambda x: np.sum(np.exp(special.poch(x, 0.5)) * np.sin(x)),
    "twice": lambda x: special.kv(x, special.poch(x, 0.5)),
    "gradient": grad(lambda x: np.sum(special.poch(x, 2 * x) ** 2)),
    "batch": vmap(lambda a: special.poch(a, A)),
    "batch of gradients": vmap(grad(lambda a: special.poch(a, a + 1))),
    "scan": in_a_scan,
    "gradient of a scan": grad(lambda x: np.sum(in_a_scan(x)[1])),
    "while": in_a_while,
    "branch": in_a_branch,
    "matrices": lambda x: matrices.expm(MATRIX * x[0]),
    "gradient of matrices": grad(lambda x: np.sum(matrices.sqrtm(MATRIX * x[0]) ** 3)),
    "empty": lambda x: special.poch(x[:0], 1.0),
    "nothing": lambda x: (special.kv(2.0, 0.5) + 0 * x[0], x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f = PROGRAMS[name]
    on_device = jit(f, device="cuda")
    for x in (A, A + 0.25, A):
        check(on_device(x), f(x))


def test_operators_of_arrays() -> None:
    x = device_put(A)
    check(plain.kv(2.0, x), plain.kv(2.0, A))
    check(grad(lambda x: np.sum(special.kv(2.0, x)))(x), plain.kvp(2.0, A))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_other_dtypes(dtype: type) -> None:
    x = (np.eye(2) + 0.5).astype(dtype)
    check(jit(matrices.expm, device="cuda")(x), matrices.expm(x), 1e-5)


def test_operations_of_the_users() -> None:
    @fgrad.primitive(out=lambda x: x)
    def cube(x: np.ndarray) -> np.ndarray:
        assert type(x) is np.ndarray
        return x * x * x

    check(jit(lambda x: cube(x + 1) * 2, device="cuda")(A), 2 * (A + 1) ** 3)


def test_descriptions_name_what_runs_on_the_host() -> None:
    f = jit(lambda x: np.exp(special.kv(2.0, x)), device="cuda")
    (line,) = [s for s in fgrad.inspect(f)(A).describe().split("\n") if "on the host" in s]
    assert line.startswith("kv on the host") and "64 B" in line
    assert "test_host_fallback.py" in line


def test_what_is_raised_on_the_host_reaches_the_caller() -> None:
    @fgrad.primitive(out=lambda x: x)
    def refuse(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("not today")

    f = jit(lambda x: refuse(x) + 1, device="cuda")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="not today"):
            f(A)


def test_what_is_asserted_is_not_passed_over() -> None:
    def positive(x: np.ndarray) -> np.ndarray:
        require(x > 0, text_of(AssertionError("x > 0")))
        return x * 2 + 1

    f = jit(positive, device="cuda")
    check(f(A), A * 2 + 1)
    with pytest.raises(AssertionError, match="x > 0"):
        f(-A)
    with config.override(host_fallback=False), pytest.raises(UnsupportedDeviceError):
        f(A)


def test_without_the_setting_it_is_a_card() -> None:
    f = jit(lambda x: special.kv(2.0, x), device="cuda")
    f(A)
    with config.override(host_fallback=False):
        with pytest.raises(UnsupportedDeviceError, match="host_fallback") as caught:
            f(A)
        assert "test_host_fallback.py" in str(caught.value)
    check(f(A), plain.kv(2.0, A))
