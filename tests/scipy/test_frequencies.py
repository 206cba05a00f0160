"""Complex frequencies of filters' responses, as SciPy takes them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.signal

import fgrad

W = np.array([0.3 + 0.1j, 0.7 - 0.2j, 1.1])
BA = ([1.0, 0.5, 0.2], [1.0, -0.3])
ZPK = scipy.signal.butter(3, 0.3, output="zpk")
CASES: dict[str, tuple[Any, ...]] = {
    "freqz": BA,
    "freqz_zpk": ZPK,
    "freqz_sos": (scipy.signal.butter(4, 0.3, output="sos"),),
    "freqs": BA,
    "freqs_zpk": ZPK,
    "group_delay": (BA,),
}


@pytest.mark.parametrize("name", CASES)
def test_complex_frequencies(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where SciPy leaves the imaginary parts out
        expected = getattr(scipy.signal, name)(*CASES[name], W)
        ours = getattr(importlib.import_module("fgrad.scipy.signal"), name)
        for found in (ours(*CASES[name], W), fgrad.jit(lambda w: ours(*CASES[name], w))(W)):
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12)
