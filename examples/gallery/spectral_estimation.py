"""Spectral estimation: two tones in noise, closer than a bin of the transform.

    python examples/gallery/spectral_estimation.py

Welch's spectrum shows one peak. A model of two damped tones is fitted by least squares; its
amplitudes are solved for at each step, so that the derivative goes through that solution.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.optimize import least_squares
from fgrad.scipy.signal import welch

RATE, COUNT = 100.0, 400
TRUE = np.array([10.0, 10.3, 0.2, 0.4])  # frequencies, decays


def tones(p: Any, t: np.ndarray) -> Any:
    """The four columns: cosine and sine of each tone."""
    columns = []
    for k in range(2):
        decay = np.exp(-p[2 + k] * t)
        columns += [decay * np.cos(2 * np.pi * p[k] * t), decay * np.sin(2 * np.pi * p[k] * t)]
    return np.stack(columns, axis=1)


def main() -> None:
    """Measure with noise, look at the spectrum, and fit."""
    begin = time.perf_counter()
    rng = np.random.default_rng(2)
    t = np.arange(COUNT) / RATE
    signal = tones(TRUE, t) @ np.array([1.0, 0.3, -0.5, 0.8])
    seen = signal + 0.05 * rng.normal(size=COUNT)
    frequency, power = welch(seen, RATE, nperseg=256)
    peak = frequency[np.argmax(power)]
    print(f"Welch: a peak at {peak:.2f} Hz, bins of {frequency[1]:.2f} Hz")

    def residuals(p: Any) -> Any:
        columns = tones(p, t)
        amplitudes = np.linalg.lstsq(columns, seen, rcond=None)[0]
        return columns @ amplitudes - seen

    start = np.array([peak - 0.1, peak + 0.4, 0.3, 0.3])
    jacobian = fgrad.jacfwd(residuals)(start)
    step = 1e-6
    ends = [(residuals(start + step * e) - residuals(start - step * e)) for e in np.eye(4)]
    difference = np.stack(ends, axis=1) / (2 * step)
    wrong = np.max(abs(jacobian - difference)) / np.max(abs(jacobian))
    found = least_squares(residuals, start)
    covariance = np.linalg.inv(found.jac.T @ found.jac) * 0.05**2
    sigmas = (found.x - TRUE) / np.sqrt(np.diag(covariance))
    print(f"frequencies {found.x[:2].round(4)}, decays {found.x[2:].round(3)}")
    print(f"gradient error {wrong:.1e}, errors in standard deviations {sigmas.round(1)}")
    assert wrong < 1e-6 and np.all(abs(sigmas) < 4)

    def band(p: Any) -> Any:  # the power between two frequencies, through Welch's spectrum
        power = welch(tones(p, t) @ np.ones(4), RATE, nperseg=256)[1]
        return np.sum(power[20:32])

    slope = fgrad.grad(band)(TRUE)[2]
    e = np.array([0, 0, 1e-5, 0])
    assert abs(slope - (band(TRUE + e) - band(TRUE - e)) / 2e-5) < 1e-6 * abs(slope)
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
