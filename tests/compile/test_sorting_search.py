"""What is made of sorts, against NumPy: membership, bisection, quantiles, bins; sorts in loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fgrad
from fgrad import lax


@pytest.mark.parametrize("code", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("count", [0, 1, 64, 65, 1000])
def test_membership(code: str, count: int) -> None:
    """Few members are compared one by one, many are sorted; NaN is no member."""
    rng = np.random.default_rng(count)
    x = rng.integers(0, 200, (30, 20)).astype(code)
    members = rng.integers(0, 200, count).astype(code)
    if code[0] == "f":
        x[0, :5], members[: count // 9] = np.nan, np.nan
        x[1, :5] = -0.0
    found, others = fgrad.jit(lambda x, m: (np.isin(x, m), np.isin(x, m, invert=True)))(x, members)
    np.testing.assert_array_equal(found, np.isin(x, members))
    np.testing.assert_array_equal(others, ~found)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64, 1000])
def test_bisection(n: int, side: str) -> None:
    """Of values on and between the elements, and NaN."""
    rng = np.random.default_rng(n)
    x = np.sort(rng.integers(0, 50, n)).astype("f8")
    values = np.append(rng.integers(-2, 104, 500) / 2, [np.nan, np.inf, -np.inf])
    found = fgrad.jit(lambda x, v: np.searchsorted(x, v, side))(x, values)
    np.testing.assert_array_equal(found, np.searchsorted(x, values, side))


def test_order_statistics() -> None:
    """Medians and quantiles of long and of many rows, with NaN."""
    rng = np.random.default_rng(0)
    for shape in ((9001,), (50, 33), (20, 200)):
        x = rng.standard_normal(shape)
        x.flat[:3] = np.nan
        found = fgrad.jit(lambda x: (np.median(x, axis=-1), np.nanmedian(x, axis=-1)))(x)
        np.testing.assert_allclose(found[0], np.median(x, axis=-1), rtol=1e-14)
        np.testing.assert_allclose(found[1], np.nanmedian(x, axis=-1), rtol=1e-14)
        found = fgrad.jit(lambda x: np.nanquantile(x, 0.3, axis=-1))(x)
        np.testing.assert_allclose(found, np.nanquantile(x, 0.3, axis=-1), rtol=1e-13)


def test_partitions() -> None:
    """All elements before the place are not greater, all after it are not less."""
    x = np.random.default_rng(0).standard_normal(500)
    values = fgrad.jit(lambda x: np.partition(x, 40))(x)
    places = fgrad.jit(lambda x: np.argpartition(x, 40))(x)
    for row in (values, x[places]):
        assert row[:40].max() <= row[40] <= row[40:].min()


def test_histogram_of_known_edges() -> None:
    """Counts in bins, the last one closed."""
    x = np.random.default_rng(0).standard_normal(5000)
    x[:3] = -3, 3, 4
    found, edges = fgrad.jit(lambda x: np.histogram(x, 20, (-3, 3)))(x)
    expected = np.histogram(x, 20, (-3, 3))
    np.testing.assert_array_equal(found, expected[0])
    np.testing.assert_allclose(edges, expected[1])


def test_sorts_in_a_loop_and_in_lanes() -> None:
    """The work memory of a sort is there in every turn of a loop; lanes are rows."""
    x = np.random.default_rng(0).standard_normal((5, 300))

    def turn(carry: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = np.sort(carry + row)
        return total, np.cumsum(total)[np.argsort(row)]

    last, rows = fgrad.jit(lambda x: lax.scan(turn, x[0], x))(x)
    carry, expected = x[0], []
    for row in x:
        carry, out = turn(carry, row)
        expected.append(out)
    np.testing.assert_array_equal(last, carry)
    np.testing.assert_allclose(rows, expected, rtol=1e-9)
    lanes = fgrad.jit(fgrad.vmap(lambda row: np.sort(row)[np.argmax(row)]))(x)
    ordered = np.sort(x, axis=1)
    np.testing.assert_array_equal(lanes, ordered[np.arange(5), np.argmax(x, axis=1)])


def test_sorts_come_from_the_disk_cache(tmp_path: Path) -> None:
    """A second process finds the code of sorts and walks."""
    script = (
        "import numpy as np, fgrad\n"
        "x = np.random.default_rng(0).standard_normal((3, 400)).astype('f4')\n"
        "f = fgrad.jit(lambda x: (np.sort(x), np.argsort(x), "
        "np.cumsum(x, 1), np.argmax(x, 1)))\n"
        "keys, order, total, place = f(x)\n"
        "assert (keys == np.sort(x)).all() and (place == x.argmax(1)).all()\n"
        "assert (order == np.argsort(x, kind='stable')).all()\n"
        "assert np.allclose(total, np.cumsum(x, 1), rtol=1e-3)\n"
    )
    environment = {"FGRAD_CACHE": "1", "FGRAD_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=120)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("code", ["f4", "f8", "i4", "i8", "u4", "u8", "i2", "f2"])
def test_native_bisection(code: str, side: str) -> None:
    """Tables and values of all lengths, with NaN, infinities and repeated elements."""
    rng = np.random.default_rng(0)
    search = fgrad.jit(lambda x, v: np.searchsorted(x, v, side))
    for n, m in ((1, 64), (2, 65), (3, 127), (64, 128), (1000, 3001), (5000, 40_000)):
        x = np.sort(rng.integers(0, 90, n)).astype(code)
        values = rng.integers(0, 99, m).astype(code)
        if code[0] == "f":
            values[: m // 9] += np.asarray(0.5, code)
            values[5:9] = np.nan, np.inf, -np.inf, -0.0
            x[n - n // 20 :] = np.nan
        if code in ("u4", "u8", "i8"):
            x[-1] = values[3] = np.iinfo(code).max
        np.testing.assert_array_equal(search(x, values), np.searchsorted(x, values, side))


def test_bisection_under_transforms() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=(6, 50)), axis=1)
    values = rng.normal(size=(6, 10, 20))
    expected = [np.searchsorted(a, v) for a, v in zip(x, values, strict=True)]
    search = np.searchsorted
    np.testing.assert_array_equal(fgrad.jit(fgrad.vmap(search))(x, values), expected)
    np.testing.assert_array_equal(fgrad.vmap(search)(x, values), expected)
    one = [np.searchsorted(x[0], v) for v in values]
    mapped = fgrad.vmap(search, in_axes=(None, 0))
    np.testing.assert_array_equal(fgrad.jit(mapped)(x[0], values), one)
    shared = [np.searchsorted(a, values[0]) for a in x]
    mapped = fgrad.vmap(search, in_axes=(0, None))
    np.testing.assert_array_equal(fgrad.jit(mapped)(x, values[0]), shared)
    twice = fgrad.vmap(fgrad.vmap(search, in_axes=(None, 0)))
    np.testing.assert_array_equal(
        fgrad.jit(twice)(x, np.repeat(values, 4, 2)), np.repeat(expected, 4, 2)
    )

    def f(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.sum(x[np.minimum(np.searchsorted(x, v), 49)] * v)

    g = fgrad.jit(fgrad.grad(f, argnums=(0, 1)))(x[0], values.ravel())
    at = np.minimum(np.searchsorted(x[0], values.ravel()), 49)
    np.testing.assert_allclose(g[0], np.bincount(at, values.ravel(), 50))
    np.testing.assert_allclose(g[1], x[0][at])


def test_bisection_in_a_loop() -> None:
    x, values = np.linspace(0.0, 1.0, 30), np.random.default_rng(0).random((7, 80))

    def run(x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return lax.scan(lambda c, v: (c + np.sum(x[np.searchsorted(x, v)]), c), 0.0, rows)

    expected = sum(x[np.searchsorted(x, v)].sum() for v in values)
    np.testing.assert_allclose(fgrad.jit(run)(x, values)[0], expected)
