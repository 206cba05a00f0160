"""Numbers of a byte and less of ml_dtypes: converted and moved as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import GradDtypeError, UnsupportedTypeError
from fgrad.ir.aval import STORED_FLOATS, STORED_INTEGERS

FLOATS = [np.dtype(getattr(ml_dtypes, name)) for name in STORED_FLOATS]
INTEGERS = [np.dtype(getattr(ml_dtypes, name)) for name in STORED_INTEGERS]
STORED = FLOATS + INTEGERS
WIDE = ["float32", "float64", "float16", "bfloat16", "int32", "int8", "bool", "complex64"]
RNG = np.random.default_rng(3)

MOVES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "reversed": lambda x: x[::-1],
    "turned": lambda x: x.T,
    "shaped": lambda x: x.reshape(4, 3),
    "row": lambda x: x[1],
    "number": lambda x: x[1, 2],
    "taken": lambda x: np.take(x, [0, 2, 0], 0),
    "stacked": lambda x: np.stack([x, x[::-1]]),
    "joined": lambda x: np.concatenate([x, x], 1),
    "rolled": lambda x: np.roll(x, 1, 0),
    "chosen": lambda x: np.where(np.array([True, False, True])[:, None], x, x[::-1]),
    "spread": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "repeated": lambda x: np.repeat(x, 2, 0),
    "branch": lambda x: lax.cond(True, lambda y: y, lambda y: y[::-1], x),
    "loop": lambda x: lax.scan(lambda c, v: (v, c), x[0], x)[1],
    "computed": lambda x: x.astype(np.float32) * 2,
    "promoted": lambda x: x * np.ones((3, 4)),
    "and back": lambda x: (x.astype(np.float32) * 0.5).astype(x.dtype),
}
COMPUTED: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "negative": lambda x: -x,
    "sum": lambda x: x.sum(),
    "largest": lambda x: x.max(),
    "sorted": lambda x: np.sort(x, 0),
    "compared": lambda x: x > x[::-1],
    "sine": np.sin,
    "bits": lambda x: x.view(np.uint8),
}


def values(dtype: np.dtype) -> np.ndarray:
    """All numbers of a dtype."""
    bits = next(int(c) for c in dtype.name if c.isdigit())
    if dtype in INTEGERS:
        return np.arange(1 << bits).astype(dtype)
    return np.arange(1 << bits, dtype=np.uint8).view(dtype)


def same(found: Any, wanted: Any) -> bool:
    """Whether arrays have one dtype and the same bits; any NaN is as good as another."""
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype in STORED:
        return np.array_equal(a.view(np.uint8), b.view(np.uint8))
    return np.array_equal(a.astype(complex), b.astype(complex), equal_nan=True)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_reading_is_numpys(dtype: np.dtype, name: str) -> None:
    wide, x = np.dtype(getattr(ml_dtypes, name, name)), values(dtype)
    if wide.kind in "iu":
        finite = x.astype(np.float32)
        x = x[np.isfinite(finite) & (np.abs(finite) < 100)]
    for f in (fgrad.jit(lambda x: x.astype(wide)), fgrad.vmap(lambda x: x.astype(wide))):
        assert same(f(x), x.astype(wide))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_writing_is_numpys(dtype: np.dtype, name: str) -> None:
    wide = np.dtype(getattr(ml_dtypes, name, name))
    if wide.kind in "fV" and dtype in FLOATS:
        numbers = values(dtype).astype(np.float32)
        middles = (numbers[1:] + numbers[:-1]) / 2
        spread = RNG.normal(size=1000) * 10 ** RNG.uniform(-8, 6, 1000)
        x = np.concatenate([numbers, middles, spread, [np.inf, -np.inf, np.nan, -0.0]])
    else:
        x = np.arange(-100, 100)
    with np.errstate(all="ignore"):
        x = x.astype(wide)
        assert same(fgrad.jit(lambda x: x.astype(dtype))(x), x.astype(dtype))


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_moves_are_numpys(dtype: np.dtype, name: str) -> None:
    x, f = np.resize(values(dtype)[1:], (3, 4)), MOVES[name]
    with np.errstate(all="ignore"):
        assert same(fgrad.jit(f)(x), f(x))


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_computing_is_numpys_or_refused(dtype: np.dtype, name: str) -> None:
    x, f = np.resize(values(dtype)[1:4], (3, 4)), COMPUTED[name]
    try:
        found = fgrad.jit(f)(x)
    except UnsupportedTypeError as error:
        assert f"numbers of dtype {dtype}" in str(error) and "astype" in str(error)
        return
    assert same(found, f(x))
    assert dtype in INTEGERS, "NumPy knows no wider one"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_derivatives_pass_through(dtype: np.dtype) -> None:
    def loss(w: Any) -> Any:
        return np.sum(w.astype(dtype).astype(np.float32) ** 2)

    w = np.linspace(-2, 2, 5).astype(np.float32)
    stored = w.astype(dtype).astype(np.float32)
    for slope in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss))):
        assert same(slope(w), (2 * stored).astype(dtype).astype(np.float32))
    leaf = fgrad.jit(fgrad.grad(lambda x: np.sum(x.astype(np.float32) ** 2)))(w.astype(dtype))
    assert same(leaf, (2 * stored).astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_no_derivative(dtype: np.dtype) -> None:
    def loss(w: Any) -> Any:
        return np.sum(w.astype(dtype).astype(float) * w)

    w = np.array([0.0, 1.0, 1.0])
    for slope in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss))):
        np.testing.assert_array_equal(slope(w), w.astype(dtype).astype(float))
    with pytest.raises(GradDtypeError, match=dtype.name):
        fgrad.grad(lambda x: np.sum(x.astype(float)))(w.astype(dtype))


def test_equal_bytes_of_other_dtypes_are_other_programs() -> None:
    words = np.arange(100, 120, dtype=np.uint8)
    for dtype in FLOATS[:7]:
        x = words.view(dtype)
        assert same(fgrad.jit(lambda x: x.astype(np.float32))(x), x.astype(np.float32))
        assert same(fgrad.jit(lambda y, x=x: y + x.astype(np.float32))(1.0), 1 + x.astype("f4"))


def test_weights_stay_stored_in_loops_and_updates() -> None:
    stored = np.dtype(ml_dtypes.float8_e4m3fn)
    layers = RNG.normal(size=(3, 8, 8)).astype(stored)

    def forward(x: Any, layers: Any) -> Any:
        return lax.scan(lambda c, w: (np.tanh(c @ w.astype(np.float32)), None), x, layers)[0].sum()

    x = RNG.normal(size=(4, 8)).astype(np.float32)
    wide = layers.astype(np.float32)
    wanted = fgrad.grad(forward)(x, wide)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.grad(forward))(x, layers), wanted, rtol=1e-4, atol=1e-5
    )

    @fgrad.jit
    def shrink(layers: Any) -> Any:
        layers[0] = (layers[0].astype(np.float32) * 0.5).astype(stored)
        return layers

    kept = layers.copy()
    assert same(shrink(kept), kept)
    assert same(kept[0], (wide[0] * 0.5).astype(stored)) and same(kept[1:], layers[1:])


@pytest.mark.parametrize("stored", STORED, ids=str)
def test_letters_shared_with_numpy_are_no_confusion(stored: np.dtype[Any]) -> None:
    """NumPy's own dtype of the same letter: two conversions in one program stay two."""
    same = [np.dtype(c) for c in np.typecodes["AllInteger"] + "efd" if c == stored.char]
    for own in same or [np.dtype(np.uint64)]:

        def both(x: Any, stored: Any = stored, own: Any = own) -> Any:
            return x.astype(stored).astype(np.float32) * 2 + x.astype(own).astype(np.float32)

        x = np.array([0.0, 1.0, 1.0], np.float32)
        np.testing.assert_array_equal(fgrad.jit(both)(x), both(x))
