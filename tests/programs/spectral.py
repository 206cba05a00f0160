"""Spectral methods: a Korteweg-de Vries soliton, a Poisson equation, a spectrum of power."""

import numpy as np


def korteweg_de_vries(u, length, dt, steps):
    """Integrating factor and fourth-order Runge-Kutta in Fourier space."""
    n = u.size
    k = 2 * np.pi * np.fft.fftfreq(n, d=length / n)
    dealias = np.abs(k) < 2 / 3 * np.abs(k).max()
    half = np.exp(1j * k**3 * dt / 2)
    full = half**2

    def nonlinear(v):
        return -0.5j * k * dealias * np.fft.fft(np.real(np.fft.ifft(v)) ** 2)

    v = np.fft.fft(u)
    for _ in range(steps):
        a = dt * nonlinear(v)
        b = dt * nonlinear(half * (v + a / 2))
        c = dt * nonlinear(half * v + b / 2)
        d = dt * nonlinear(full * v + half * c)
        v = full * v + (full * a + 2 * half * (b + c) + d) / 6
    return np.fft.ifft(v).real


def poisson(f):
    """The periodic solution of laplace(u) = f with mean 0."""
    kx = np.fft.fftfreq(f.shape[0])[:, None] * 2 * np.pi
    ky = np.fft.rfftfreq(f.shape[1])[None, :] * 2 * np.pi
    k2 = kx**2 + ky**2
    k2[0, 0] = 1.0
    f_hat = np.fft.rfft2(f - f.mean())
    return np.fft.irfft2(-f_hat / k2, s=f.shape)


def power_spectrum(u):
    window = np.hanning(len(u))
    spectrum = np.abs(np.fft.rfft(u * window)) ** 2
    return spectrum / np.sum(window**2)


def run(u, f):
    length = 2 * np.pi
    moved = korteweg_de_vries(u, length, 1e-3, 6)
    potential = poisson(f)
    power = power_spectrum(moved)
    centroid = np.sum(np.arange(len(power)) * power) / np.sum(power)
    return moved, potential, np.log1p(power), centroid


def arguments(rng):
    x = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    return np.cos(x) + 0.2 * rng.normal(size=16), rng.normal(size=(6, 8))
