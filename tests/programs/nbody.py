"""Bodies that attract each other: leapfrog steps, energy, angular momentum."""

import numpy as np

G, SOFTENING = 1.0, 0.05


def acceleration(position, mass):
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inverse = (dx**2 + dy**2 + dz**2 + SOFTENING**2) ** (-1.5)
    a = np.hstack([G * (d * inverse) @ mass[:, None] for d in (dx, dy, dz)])
    return a


def energy(position, velocity, mass):
    kinetic = 0.5 * np.sum(mass[:, None] * velocity**2)
    separation = position[:, None] - position[None]
    r = np.sqrt(np.sum(separation**2, axis=-1) + SOFTENING**2)
    i, j = np.triu_indices(len(mass), k=1)
    return kinetic - G * np.sum((mass[:, None] * mass / r)[i, j])


def simulate(position, velocity, mass, dt, steps):
    velocity = velocity - np.average(velocity, axis=0, weights=mass)
    a = acceleration(position, mass)
    energies = []
    for _ in range(steps):
        velocity += a * dt / 2.0
        position = position + velocity * dt
        a = acceleration(position, mass)
        velocity += a * dt / 2.0
        energies.append(energy(position, velocity, mass))
    return position, velocity, np.stack(energies)


def run(position, velocity, mass):
    position, velocity, energies = simulate(position, velocity, mass, 0.02, 8)
    momentum = np.cross(position, mass[:, None] * velocity).sum(axis=0)
    return position, energies, momentum, np.ptp(energies)


def arguments(rng):
    return rng.normal(size=(5, 3)), 0.3 * rng.normal(size=(5, 3)), rng.uniform(0.5, 1.5, 5)
