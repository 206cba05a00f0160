"""Statements that write into arrays, each run by NumPy, eagerly and compiled.

Every line ends with the array that it leaves; `x` is a matrix unless the line names another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

RNG = np.random.default_rng(11)
ARRAYS: dict[str, Any] = {
    "x": RNG.normal(size=(3, 4)),
    "v": RNG.normal(size=6),
    "i": RNG.integers(-5, 9, (3, 4)),
    "c": RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4)),
    "s": RNG.normal(size=(3, 3)),
    "t": RNG.normal(size=(7, 3)),
    "p": RNG.uniform(0.5, 2.0, (3, 4)),
    "n": np.where(RNG.normal(size=(3, 4)) > 0, np.nan, 1.0),
}

STATEMENTS = """
x.fill(3.5)
i.fill(3.5)
x.sort()
x.sort(axis=0)
v.partition(1)
x.flat[3] = 7.0
x.flat[::2] = 1
x.flat = [1, 2, 3]
x = np.float64(1.0) * sum(q for q in x.flat)
x.put([0, 3, -1], [9.0, 8.0])
np.put(x, [0, 30], [9.0, 8.0], mode="clip")
np.put(x, [0, 30], [9.0, 8.0], mode="wrap")
np.put(x, [1, 1, 1], [1, 2, 3])
np.put(x[1], [0], 5.0)
np.place(x, x > 0, [1.0, 2.0, 3.0])
np.putmask(x, x > 0, [1.0, 2.0])
np.putmask(i, i > 0, i * 2)
np.copyto(x, x[::-1])
np.copyto(x, x * 2, where=x > 0)
np.copyto(i, 1.5, casting="unsafe")
np.copyto(x[0], x[1])
np.fill_diagonal(x, [1, 2, 3])
np.fill_diagonal(t, 5, wrap=True)
np.put_along_axis(x, np.array([[0], [1], [2]]), 9.0, 1)
np.put_along_axis(x, np.argmax(x, 0)[None], 0.0, 0)
np.put_along_axis(x, np.array([1, 5]), [7.0, 8.0], None)
np.add.at(x, [0, 0, 1], 1.0)
np.subtract.at(x, ([0, 0], [1, 1]), 2.0)
np.multiply.at(x, [1, 1], 3.0)
np.divide.at(x, [1, 1], 3.0)
np.maximum.at(x, [0, 0], [[1.0] * 4, [2.0] * 4])
np.power.at(p, [1, 1], 2)
np.negative.at(x, [0, 0, 1])
np.add.at(i, [0], 1.5)
np.bitwise_xor.at(i, [0, 0, 1], 3)
np.add.at(x, x > 0, 1.0)
np.add(x, 1, out=x)
np.add(i, 1.5, out=i, casting="unsafe")
np.multiply(x, 2, out=x, where=x > 0)
np.sqrt(np.abs(x), out=x, where=x > 0)
x = np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)
np.clip(x, -1, 1, out=x)
x.clip(-0.5, 0.5, out=x)
np.sum(x, axis=0, out=x[0])
x.sum(axis=0, out=x[1])
np.cumsum(x, axis=1, out=x)
np.exp(x, x)
np.matmul(x, x.T @ x, out=x)
np.maximum.accumulate(x, axis=0, out=x)
np.add.reduce(x, axis=0, out=x[2])
np.einsum("ij->i", x, out=x[:, 0])
r = x.real; r[0] = 5
r = c.real; r[0] = 5
c.imag[1] = 2
c.real = 3
c.imag = c.real
np.imag(c)[:] = 0
c.real[0] += 1
t = x.T; t[0] = 1
t = x.reshape(-1); t[2] = 4
t = x.ravel(); t += 1
t = x.flatten(); t += 1
t = x[::-1, ::2]; t *= 2
t = x[1]; t[:] = t[::-1]
x[1:] = x[:-1]
x[:, 1:] += x[:, :-1]
x[[0, 1]] = x[[1, 0]]
x[[0, 0]] += 1
x[x > 0] = 0
x[x > 0] += x[x > 0] ** 2
x[(x > 0) & (x < 1)] = np.nan
n[np.isnan(n)] = 0
x[0], x[1] = x[1].copy(), x[0].copy()
x[...] = 0
x[None, 1] = 2
x[-1] -= x[0]
x **= 2
i //= 2
i %= 3
i <<= 1
i ^= i
s @= s
a, b = np.split(x, 2, axis=1); a[:] = b
x[np.ix_([0, 2], [1, 3])] = 0
x[x.argmax(0), np.arange(4)] = 0
x[np.triu_indices(3)] = 0
x[True] = 5.0
x[False] = 5.0
x[0, 0] = x[1, 1] = 5
x[0:2, 1:3] = [[1, 2], [3, 4]]
z = np.zeros_like(x); z[x > 0] = 1; x = z
z = np.swapaxes(x, 0, 1); z[1] = 0
z = np.squeeze(x[:1]); z[:] = 0
z = np.rot90(x); z[0] = 0
z = x.view(); z[0] = 3
z = x.T.reshape(-1); z[0] = 100
z = x.T.ravel(); z[0] = 100
z = x.T.reshape(12); x[0] = 5; x = x + z.sum()
z = x[::2].ravel(); z[0] = 9
z = x[1:].ravel(); z[0] = 9
z = x.reshape(12, order="F"); z[0] = 9
z = x[:, ::2].reshape(2, 3); z[0] = 9
z = x[::2].reshape(2, 2, 2); z[0] = 9
z = x.T.flat; z[0] = 1
z = x.T.reshape(2, 2, 3); z[0, 0] = 7
np.nan_to_num(n, copy=False)
""".strip().splitlines()


def _compiled(line: str) -> tuple[Callable[[Any], Any], np.ndarray]:
    """The line as a function of the array that it is about, and that array."""
    assigned = line.rsplit(";", 1)[-1].split("=")[0].strip()
    names = [n for n in ARRAYS if n != "x" and _mentions(line, n)]
    name = names[0] if names and "x" not in _words(line) else "x"
    result = assigned if assigned == "x" else name
    scope: dict[str, Any] = {}
    body = "\n    ".join(part.strip() for part in line.split(";"))
    exec(f"import numpy as np\ndef f({name}):\n    {body}\n    return {result}", scope)
    return scope["f"], ARRAYS[name]


def _words(line: str) -> set[str]:
    return {w for w in "".join(ch if ch.isalnum() else " " for ch in line).split()}


def _mentions(line: str, name: str) -> bool:
    return name in _words(line)


@pytest.mark.parametrize("line", STATEMENTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_statement(line: str) -> None:
    fun, x = _compiled(line)
    expected, before = np.asarray(fun(x.copy())), x.copy()
    for found in (fgrad.functionalize(fun)(x)[0], fgrad.jit(fun)(x.copy())):
        found = np.asarray(found)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(x, before)
