"""What is not supported says so, with the user's line and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import FgradError, ShapeError, UnsupportedNumpyError
from fgrad.ir.aval import Aval
from fgrad.trace import Tracer, trace

F64 = np.dtype(np.float64)


def _trace(fun: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    return trace(lambda *xs: [fun(*xs)], [Aval(s, F64) for s in shapes])


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "function": (lambda x: np.busday_offset(x, 1), "np.busday_offset does not take traced arrays"),
    "reduceat": (
        lambda x: np.add.reduceat(x, np.argsort(x)),
        r"add\.reduceat of a traced array does not take 'indices'",
    ),
    "strides": (lambda x: x.strides, "ndarray.strides"),
    "pad mode": (lambda x: np.pad(x, 1, lambda *_: None), "mode="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    fun, message = REFUSED[name]
    with pytest.raises(UnsupportedNumpyError, match=message) as error:
        _trace(fun, (3,))
    assert "test_cards.py:" in str(error.value)
    assert "  write  " in str(error.value)


MISFITS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "broadcast": (lambda x, y: x + y, ((3,), (4,))),
    "matmul": (lambda x, y: x @ y, ((2, 3), (2, 3))),
    "dot": (np.dot, ((2, 3), (2,))),
    "reshape": (lambda x: x.reshape(4, 2), ((3, 2),)),
    "concatenate": (lambda x, y: np.concatenate([x, y]), ((2, 3), (2, 4))),
    "einsum": (lambda x, y: np.einsum("ij,jk", x, y), ((2, 3), (2, 3))),
    "in place": (lambda x, y: x.__iadd__(y), ((3,), (2, 3))),
}


@pytest.mark.parametrize("name", MISFITS)
def test_shapes_that_do_not_fit(name: str) -> None:
    fun, shapes = MISFITS[name]
    with pytest.raises(ShapeError) as error:
        _trace(fun, *shapes)
    assert isinstance(error.value, ValueError)
    assert "test_cards.py:" in str(error.value)


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda x: np.sum(x, axis=3), np.exceptions.AxisError),
        (lambda x: np.max(x[:0]), ValueError),
        (lambda x: x.astype(int) ** -1, ValueError),
        (lambda x: np.matmul(x, 2.0), ValueError),
        (lambda x: np.transpose(x, (0, 1)), ValueError),
        (lambda x: x @ None, TypeError),
        (lambda x: x + "a", TypeError),
        (lambda x: x + object(), TypeError),
    ],
)
def test_errors_of_numpy(fun: Callable[[Any], Any], expected: type) -> None:
    with pytest.raises(expected) as error:
        _trace(fun, (3,))
    if isinstance(error.value, FgradError):
        assert "test_cards.py:" in str(error.value)


def test_comparison_with_none_is_python_s() -> None:
    program = _trace(lambda x: x * (2.0 if x is not None and x != None else 3.0), (3,))  # noqa: E711
    assert program.program.eqns[0].inputs[1].value == 2.0


BAD_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "axis": lambda x: np.max(x, axis=2),
    "axis of a method": lambda x: x.sum(axis=-2),
    "two axes": lambda x: np.sum(x[None], axis=(0, 0)),
    "einsum": lambda x: np.einsum("ij->i", x),
    "einsum labels": lambda x: np.einsum("i->j", x),
    "stack": lambda x: np.stack([x, x[:2]]),
    "concatenate": lambda x: np.concatenate([x, x[None]]),
    "pad": lambda x: np.pad(x, -1),
    "pad widths": lambda x: np.pad(x, ((1, 2), (3, 4))),
    "split": lambda x: np.split(x, 2),
    "reshape": lambda x: np.reshape(x, (2, -1)),
    "transpose": lambda x: x.transpose(0, 1),
    "take mode": lambda x: np.take(x, 0, mode="around"),
    "too many indices": lambda x: x[0, 0],
    "index": lambda x: x[1.5],
    "mask": lambda x: x[np.array([True, False])],
    "order": lambda x: np.diff(x, -1),
    "polynomial": lambda x: np.polyfit(x, x, -1),
    "bins": lambda x: np.histogram(x, 0),
    "cast": lambda x: x.astype(int, casting="safe"),
    "in place": lambda x: x.__setitem__(0, np.ones(2)),
    "empty": lambda x: np.argmax(x[:0]),
    "matmul": lambda x: x @ np.ones((2, 2)),
    "cross": lambda x: np.cross(x, np.ones(4)),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_show_the_line(name: str) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)) as error:
        _trace(BAD_ARGUMENTS[name], (3,))
    assert isinstance(error.value, FgradError)
    assert "test_cards.py:" in str(error.value)


def test_errors_are_fgrad_errors() -> None:
    for fun, _ in REFUSED.values():
        with pytest.raises(FgradError):
            _trace(fun, (3,))


def test_plain_arrays_go_to_numpy() -> None:
    x = np.arange(3.0)
    assert fnp.sum(x) == np.sum(x)
    assert isinstance(fnp.zeros(3), np.ndarray)
    assert fnp.float32 is np.float32
    assert fnp.pi == np.pi
    assert fnp.linalg.norm(x) == np.linalg.norm(x)
    np.testing.assert_array_equal(fnp.unique([2, 1, 2]), [1, 2])
    assert fnp.histogram2d(x, x)[0].shape == (10, 10)


def test_namespace_takes_lists_of_traced_values() -> None:
    program = _trace(lambda x: fnp.array([[x[0], 1], [2, x[1]]]) @ fnp.asarray(x[:2]), (3,)).program
    assert program.outputs[0].aval == Aval((2,), F64)
    _trace(lambda x: fnp.full((2, 2), x[0]), (3,))
    _trace(lambda x: fnp.concatenate([[x[0]], x]), (3,))


def test_methods_are_those_of_arrays() -> None:
    removed = {"itemset", "newbyteorder", "ptp", "tostring"}  # NumPy 2.0 to 2.2 only say so
    public = {n for n in dir(np.ndarray) if not n.startswith("_")} - removed
    assert public <= set(dir(Tracer)), sorted(public - set(dir(Tracer)))


def test_what_frompyfunc_makes_says_what_to_write() -> None:
    """Called, and by a method; what the card writes gives the same numbers."""

    def product(a: Any, b: Any) -> Any:
        return a * b + 1

    made = np.frompyfunc(product, 2, 1)
    for call in (lambda x: made(x, x), lambda x: made.reduce(x), lambda x: made.outer(x, x)):
        with pytest.raises(UnsupportedNumpyError, match=r"fgrad\.numpy\.vectorize\(f\)") as found:
            fgrad.jit(call)(np.arange(3.0))
        assert "np.frompyfunc(product, ...)" in str(found.value)
    written = fgrad.jit(lambda x: fnp.vectorize(product)(x, x))(np.arange(3.0))
    np.testing.assert_array_equal(written, made(np.arange(3.0), np.arange(3.0)).astype(float))
