"""Arrays of others in odd memory: strides, byte orders, read-only, 0-d, empty, of 8 to 128 bits.

What NumPy's arrays calculate with, traced ones do, whoever owns the memory and however it lies.
"""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import FgradError, UnsupportedTypeError

BASE = np.arange(24.0).reshape(4, 6)


def _read_only() -> np.ndarray:
    x = BASE.copy()
    x.flags.writeable = False
    return x


MEMORY: dict[str, np.ndarray] = {
    "strided": BASE[::2, ::3],
    "backwards": BASE[::-1, ::-1],
    "transposed": BASE.T,
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "read-only": _read_only(),
    "swapped": BASE.astype(">f8"),
    "swapped integers": np.arange(4).astype(">i4"),
    "swapped complex": (np.arange(3) + 1j).astype(">c16"),
    "unaligned": np.frombuffer(b"x" + BASE.tobytes(), np.uint8)[1:].view(np.float64),
    "fortran": np.asfortranarray(BASE),
    "0-d": np.array(2.5),
    "empty": np.zeros((0, 3)),
    "empty rows": np.zeros((3, 0)),
    "half": BASE.astype(np.float16),
    "truth": BASE > 3,
    "bytes": BASE.astype(np.int8),
    "unsigned": BASE.astype(np.uint64),
    "single complex": (BASE + 1j).astype(np.complex64),
}


class Interface:
    """Memory by `__array_interface__` alone."""

    def __init__(self, x: np.ndarray) -> None:
        self.__array_interface__ = x.__array_interface__
        self.x = x


class Converted:
    """`__array__` alone."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.x if dtype is None else self.x.astype(dtype)


def _torch(x: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    return torch.as_tensor(x)


def _jax(x: np.ndarray) -> Any:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.numpy.asarray(x)


OWNERS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "interface": Interface,
    "converted": Converted,
    "memoryview": memoryview,
    **({"torch": _torch} if importlib.util.find_spec("torch") else {}),
    **({"jax": _jax} if importlib.util.find_spec("jax") else {}),
}
Way = tuple[Callable[[Any, np.ndarray], Any], Callable[[np.ndarray], Any]]
WAYS: dict[str, Way] = {
    "jit": (lambda x, a: fgrad.jit(lambda x: x + x)(x), lambda a: a + a),
    "tree": (lambda x, a: fgrad.jit(lambda d: d["x"][0] + 1)({"x": [x]}), lambda a: a + 1),
    "closed over": (
        lambda x, a: fgrad.jit(lambda y: y * x)(np.ones(a.shape)), lambda a: np.ones(a.shape) * a),
    "left": (
        lambda x, a: fgrad.jit(lambda y: x - y)(np.ones(a.shape)), lambda a: a - np.ones(a.shape)),
    "compared": (
        lambda x, a: fgrad.jit(lambda y: y != x)(np.ones(a.shape)),
        lambda a: np.ones(a.shape) != a),
    "stacked": (
        lambda x, a: fgrad.jit(lambda y: fnp.stack([fnp.asarray(x), y]))(np.ones(a.shape)),
        lambda a: np.stack([a, np.ones(a.shape)])),
    "selected": (
        lambda x, a: fgrad.jit(lambda y: np.where(y > 0, x, 0))(np.ones(a.shape)),
        lambda a: np.where(True, a, 0)),
    "gradient": (
        lambda x, a: fgrad.grad(lambda y: np.sum(np.abs(y * x)))(np.full(a.shape, 2.0)),
        lambda a: np.abs(a).astype(float)),
}  # fmt: skip


def made(owner: str, memory: str) -> Any:
    """An array of an owner; a skip where the owner has none in such memory."""
    try:
        return OWNERS[owner](MEMORY[memory])
    except (TypeError, ValueError, BufferError):
        pytest.skip("its library has none")


@pytest.mark.filterwarnings("ignore:.*not writable")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("owner", OWNERS)
def test_numbers_are_numpys(owner: str, memory: str, way: str) -> None:
    x, plain = made(owner, memory), MEMORY[memory]
    before = plain.copy()
    run, expect = WAYS[way]
    found, expected = np.asarray(run(x, plain)), expect(plain)
    assert found.shape == np.shape(expected) and found.dtype.isnative
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(plain, before)


def test_arrays_of_the_standard_library() -> None:
    x = array("d", [1.0, 2.0])
    np.testing.assert_array_equal(fgrad.jit(lambda y: y * x + x)(np.ones(2)), [2.0, 4.0])


class Owner:
    """Units, names: an array with operators of its own, which are asked."""

    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.ones(3)

    def __radd__(self, other: Any) -> str:
        return "its own"

    __rmul__ = __radd__


def test_operators_of_others_are_asked() -> None:
    seen = []
    fgrad.jit(lambda y: seen.append(y + Owner()) or y)(np.ones(3))
    assert seen == ["its own"]


class Function:
    """`__array_function__`: another library's version of NumPy's functions."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return NotImplemented


def test_functions_that_nobody_has_are_numpys_error() -> None:
    with pytest.raises(TypeError):
        fgrad.jit(lambda y: np.stack([y, Function()]))(np.ones(3))


@pytest.mark.parametrize("dtype", [np.longdouble])
@pytest.mark.parametrize("way", ["closed over", "left", "stacked", "selected"])
def test_wide_numbers_are_refused(way: str, dtype: Any) -> None:
    if np.dtype(dtype).itemsize == 8:
        pytest.skip("they are float64 here")
    x = np.ones(3, dtype)
    with pytest.raises(UnsupportedTypeError, match="Compiled code has no numbers"):
        WAYS[way][0](x, x)


@pytest.mark.parametrize("kind", ["U5", "O", "M8[D]", [("a", "f8")]])
@pytest.mark.parametrize("way", ["jit", "tree", "closed over", "left", "stacked", "gradient"])
def test_what_is_no_number_is_refused(way: str, kind: Any) -> None:
    x = np.zeros(3, kind)
    with pytest.raises((FgradError, TypeError)):
        WAYS[way][0](Converted(x), x)


def test_bfloat16_of_torch_comes_by_dlpack_or_a_card() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, dtype=torch.bfloat16)
    with pytest.raises(UnsupportedTypeError, match=r"x.float\(\)"):
        fgrad.jit(lambda x: x * 2)(x)


def test_results_are_taken_by_others() -> None:
    torch = pytest.importorskip("torch")
    for memory, x in MEMORY.items():
        y = fgrad.jit(lambda x: x * 1)(x)
        if not isinstance(y, np.ndarray):
            continue
        np.testing.assert_array_equal(torch.from_dlpack(y).numpy(), x, err_msg=memory)
