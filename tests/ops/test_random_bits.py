"""Random bits: the published test vectors, and that only key and position count."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import check_batch, check_types, rng_of

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.ops.random_bits import (
    random_bits,
    random_bits_elementwise,
    random_bits_p,
    threefry2x32,
)

# Threefry-2x32, 20 rounds: (key, counter, result) of the known-answer tests of Random123
# (J. Salmon et al., 2011): zeros, ones, and digits of pi.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
KEYS = [np.array(k, np.uint32) for k in ((0, 0), (1, 2), (2**32 - 1, 2**31), (7, 7))]


@pytest.mark.parametrize(("key", "counter", "result"), KNOWN)
def test_known_answers(key, counter, result):
    x0, x1 = (np.array([c], np.uint32) for c in counter)
    threefry2x32(*[np.uint32(k) for k in key], x0, x1)
    assert (int(x0[0]), int(x1[0])) == result


def test_element_is_a_function_of_key_and_position():
    bits = random_bits(KEYS[1], (40000,))
    for i in (0, 1, 16383, 16384, 39999):
        x0, x1 = np.array([0], np.uint32), np.array([i], np.uint32)
        threefry2x32(*KEYS[1], x0, x1)
        assert bits[i] == (x0 ^ x1)[0]
    np.testing.assert_array_equal(random_bits(KEYS[1], (7, 11)).ravel(), bits[:77])
    assert random_bits(KEYS[1], ()) == bits[0]


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (3, 0)])
def test_types_and_batches(shape):
    for key in KEYS:
        check_types(lambda k: random_bits(k, shape), key)
        np.testing.assert_array_equal(random_bits_elementwise(key, shape), random_bits(key, shape))
    keys = np.stack(KEYS).reshape(2, 2, 2)
    check_types(lambda k: random_bits(k, shape), keys)
    np.testing.assert_array_equal(random_bits_elementwise(keys, shape), random_bits(keys, shape))
    for seed in range(3):
        check_batch(lambda k: random_bits(k, shape), KEYS, seed=str(seed))


def test_bits_are_balanced_and_uncorrelated():
    count = 1 << 16
    rng = rng_of("balance")
    for key in rng.integers(0, 2**32, (2, 2), dtype=np.uint32):
        bits = np.unpackbits(random_bits(key, (count,)).view(np.uint8)).reshape(count, 32)
        assert np.abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(count)
        signs = 2.0 * bits - 1
        for other in (signs, np.roll(signs, 1, 0)):
            correlation = signs.T @ other / count
            if other is signs:
                correlation -= np.eye(32)
            assert np.abs(correlation).max() < 5.5 / np.sqrt(count)


def test_errors():
    with pytest.raises(DtypeError, match="int64"):
        random_bits_p.type_of(aval_of(np.zeros(2, int)), shape=(3,))
    with pytest.raises(ShapeError, match="last axis"):
        random_bits_p.type_of(aval_of(np.zeros(3, np.uint32)), shape=(3,))
