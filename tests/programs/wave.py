"""The wave equation on a string and Burgers' equation, with arrays that are written in place."""

import numpy as np


def string(u, speed, dx, dt, steps):
    """Leapfrog in time, with one fixed and one absorbing end."""
    c2 = (speed * dt / dx) ** 2
    previous = u.copy()
    u[1:-1] += 0.5 * c2[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
    for step in range(steps):
        new = np.zeros_like(u)
        new[1:-1] = 2 * u[1:-1] - previous[1:-1] + c2[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        r = speed[-1] * dt / dx
        new[-1] = u[-2] + (r - 1) / (r + 1) * (new[-2] - u[-1])
        new[0] = 0.0
        new[3] += 0.1 * np.sin(0.3 * step)
        previous[:] = u
        u[...] = new
    return u, previous


def burgers(u, nu, dx, dt, steps):
    """Upwind convection and central diffusion, periodic."""
    flux = np.empty_like(u)
    for _ in range(steps):
        forward, backward = np.roll(u, -1) - u, u - np.roll(u, 1)
        flux[:] = np.where(u > 0, u * backward, u * forward) / dx
        u -= dt * flux
        u += nu * dt / dx**2 * (forward - backward)
    return u


def energy(u, previous, speed, dx, dt):
    velocity = (u - previous) / dt
    strain = np.diff(u) / dx
    tension = 0.5 * (speed[1:] ** 2 + speed[:-1] ** 2)
    return 0.5 * dx * (np.sum(velocity**2) + np.dot(tension, strain**2))


def run(u0, speed, nu):
    dx, dt = 0.1, 0.04
    u, previous = string(u0.copy(), speed, dx, dt, 10)
    smooth = burgers(1.0 + 0.2 * u0, nu, dx, 0.02, 8)
    profile = np.interp(np.linspace(0, 1, 5), np.linspace(0, 1, len(u)), u)
    return u, energy(u, previous, speed, dx, dt), smooth, profile, np.trapezoid(smooth, dx=dx)


def arguments(rng):
    x = np.linspace(0, 1, 12)
    return np.exp(-40 * (x - 0.5) ** 2), 1 + 0.2 * rng.uniform(size=12), np.float64(0.03)
