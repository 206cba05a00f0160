"""Relaxation and diffusion on a grid, with the neighbours as slices."""

import numpy as np


def jacobi(u, source, sweeps):
    for _ in range(sweeps):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - source[1:-1, 1:-1]
        )
        u = new
    return u


def red_black(u, sweeps, omega=1.5):
    rows, columns = np.indices(u.shape)
    for _ in range(sweeps):
        for colour in (0, 1):
            mask = ((rows + columns) % 2 == colour)[1:-1, 1:-1]
            middle = u[1:-1, 1:-1]
            mean = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
            u[1:-1, 1:-1] = np.where(mask, middle + omega * (mean - middle), middle)
    return u


def reaction_diffusion(a, b, feed, kill, steps):
    """Gray-Scott's model with periodic boundaries."""

    def laplacian(z):
        return sum(np.roll(z, s, axis) for s in (-1, 1) for axis in (0, 1)) - 4 * z

    for _ in range(steps):
        reaction = a * b**2
        a, b = (
            a + 0.16 * laplacian(a) - reaction + feed * (1 - a),
            b + 0.08 * laplacian(b) + reaction - (feed + kill) * b,
        )
    return a, b


def run(u, source):
    heat = jacobi(u, source, 6)
    relaxed = red_black(heat.copy(), 2)
    a, b = reaction_diffusion(1 - source**2, source**2, 0.04, 0.06, 5)
    gy, gx = np.gradient(relaxed)
    return heat, relaxed, a, b, np.sqrt(gx**2 + gy**2 + 1e-3).mean()


def arguments(rng):
    return rng.normal(size=(7, 8)), 0.3 * rng.normal(size=(7, 8))
