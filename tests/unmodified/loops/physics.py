"""Physics: particles, waves, heat, random walks with given uniforms."""

# ruff: noqa

import math

import numpy as np
from case import case

R = np.random.default_rng(2)


@case(np.array([1.0, 0.5, 0.2]), 10.0, 28.0, 8.0 / 3.0, 0.01, 30)
def lorenz(state, sigma, rho, beta, dt, steps):
    x, y, z = state
    for _ in range(steps):
        dx = sigma * (y - x)
        dy = x * (rho - z) - y
        dz = x * y - beta * z
        x, y, z = x + dt * dx, y + dt * dy, z + dt * dz
    return x, y, z


@case(R.standard_normal((5, 3)), R.standard_normal((5, 3)), R.uniform(0.5, 1, 5), 0.01, 4)
def n_bodies(pos, vel, mass, dt, steps):
    n = pos.shape[0]
    for _ in range(steps):
        for i in range(n):
            ax, ay, az = 0.0, 0.0, 0.0
            for j in range(n):
                if i == j:
                    continue
                dx = pos[j, 0] - pos[i, 0]
                dy = pos[j, 1] - pos[i, 1]
                dz = pos[j, 2] - pos[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + 0.01
                f = mass[j] / (r2 * math.sqrt(r2))
                ax += f * dx
                ay += f * dy
                az += f * dz
            vel[i, 0] += dt * ax
            vel[i, 1] += dt * ay
            vel[i, 2] += dt * az
        for i in range(n):
            for k in range(3):
                pos[i, k] += dt * vel[i, k]
    energy = 0.0
    for i in range(n):
        energy += 0.5 * mass[i] * np.sum(vel[i] ** 2)
        for j in range(i + 1, n):
            energy -= mass[i] * mass[j] / np.sqrt(np.sum((pos[i] - pos[j]) ** 2) + 0.01)
    return energy


@case(R.uniform(0, 3, (6, 2)), 3.0, 1.2)
def lennard_jones_with_a_cutoff(pos, box, cutoff):
    e = 0.0
    n = len(pos)
    for i in range(n):
        for j in range(i + 1, n):
            r2 = 0.0
            for k in range(2):
                d = pos[i, k] - pos[j, k]
                d -= box * round(d / box)
                r2 += d * d
            if r2 < cutoff * cutoff:
                s = 1.0 / (r2 + 0.3)
                e += (s**6 - s**3) * 1e-3
    return e


@case(R.standard_normal(12), 0.1, 20)
def heat_in_a_rod(u, k, steps):
    for _ in range(steps):
        new = u.copy()
        for i in range(1, len(u) - 1):
            new[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1])
        u = new
    return u


@case(R.standard_normal((6, 7)), 0.2, 5)
def heat_in_a_plate_with_two_buffers(u, k, steps):
    v = u.copy()
    n, m = u.shape
    for t in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                v[i, j] = u[i, j] + k * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]
                )
        u, v = v, u
    return u


@case(R.standard_normal(10), R.standard_normal(10), 0.3, 12)
def wave_on_a_string(u, before, c, steps):
    n = len(u)
    after = np.zeros(n)
    for _ in range(steps):
        for i in range(1, n - 1):
            after[i] = 2 * u[i] - before[i] + c * c * (u[i + 1] - 2 * u[i] + u[i - 1])
        after[0] = after[n - 1] = 0.0
        before, u, after = u, after, before
    return u


@case(R.uniform(0.5, 1.5, 12), 0.2, 15)
def burgers_upwind(u, c, steps):
    n = len(u)
    for _ in range(steps):
        last = u[n - 1]
        for i in range(n - 1, 0, -1):
            if u[i] > 0:
                u[i] -= c * u[i] * (u[i] - u[i - 1])
            else:
                u[i] -= c * u[i] * (u[(i + 1) % n] - u[i])
        u[0] -= c * u[0] * (u[0] - last)
    return u


@case(R.uniform(0, 1, (6, 6)), R.uniform(0, 1, (6, 6)), 0.055, 0.062, 4)
def gray_scott(u, v, feed, kill, steps):
    n = u.shape[0]
    for _ in range(steps):
        uu, vv = np.zeros_like(u), np.zeros_like(v)
        for i in range(n):
            for j in range(n):
                lu = u[i - 1, j] + u[(i + 1) % n, j] + u[i, j - 1] + u[i, (j + 1) % n] - 4 * u[i, j]
                lv = v[i - 1, j] + v[(i + 1) % n, j] + v[i, j - 1] + v[i, (j + 1) % n] - 4 * v[i, j]
                r = u[i, j] * v[i, j] * v[i, j]
                uu[i, j] = u[i, j] + 0.16 * lu - r + feed * (1 - u[i, j])
                vv[i, j] = v[i, j] + 0.08 * lv + r - (feed + kill) * v[i, j]
        u, v = uu, vv
    return u, v


@case(np.array([[0.3, 0.8], [-0.4, 0.2]]), 1.3, 25)
def bouncing_balls(state, e, steps):
    for k in range(state.shape[0]):
        x, v = state[k]
        for _ in range(steps):
            v -= 9.81 * 0.02
            x += v * 0.02
            if x < -1.0:
                x = -2.0 - x
                v = -v / e
        state[k, 0] = x
        state[k, 1] = v
    return state


@case(np.array([0.7, -0.1]), 1.0, 0.05, 20)
def pendulum_by_runge_kutta(y, g, h, steps):
    def f(q, p):
        return p, -g * math.sin(q)

    q, p = y[0], y[1]
    for _ in range(steps):
        k1q, k1p = f(q, p)
        k2q, k2p = f(q + h / 2 * k1q, p + h / 2 * k1p)
        k3q, k3p = f(q + h / 2 * k2q, p + h / 2 * k2p)
        k4q, k4p = f(q + h * k3q, p + h * k3p)
        q += h / 6 * (k1q + 2 * k2q + 2 * k3q + k4q)
        p += h / 6 * (k1p + 2 * k2p + 2 * k3p + k4p)
    return q, p


@case(0.3, 2.0, 3e-3)
def adaptive_steps(y, end, tolerance):
    t, h, n = 0.0, 0.1, 0
    while t < end and n < 200:
        if t + h > end:
            h = end - t
        k1 = -y + math.sin(3 * t)
        k2 = -(y + h * k1) + math.sin(3 * (t + h))
        error = abs(h * (k2 - k1) / 2)
        if error < tolerance:
            t += h
            y += h * (k1 + k2) / 2
            h *= 1.3
        else:
            h *= 0.5
        n += 1
    return y, n


@case(
    np.array([1, -1, 1, 1, -1, 1, -1, -1, 1]).reshape(3, 3),
    R.uniform(0, 1, 40),
    R.integers(0, 9, 40),
    0.4,
)
def ising_with_given_uniforms(spins, uniforms, sites, beta):
    n = spins.shape[0]
    accepted = 0
    for k in range(len(uniforms)):
        i, j = divmod(sites[k], n)
        s = spins[i - 1, j] + spins[(i + 1) % n, j] + spins[i, j - 1] + spins[i, (j + 1) % n]
        de = 2 * spins[i, j] * s
        if de <= 0 or uniforms[k] < math.exp(-beta * de):
            spins[i, j] = -spins[i, j]
            accepted += 1
    return spins, accepted


@case(0.2, R.standard_normal(30), R.uniform(0, 1, 30), 0.8)
def metropolis_with_given_numbers(x, normals, uniforms, width):
    total = 0.0
    logp = -0.5 * x * x
    for k in range(len(normals)):
        y = x + width * normals[k]
        logq = -0.5 * y * y
        if math.log(uniforms[k]) < logq - logp:
            x, logp = y, logq
        total += x
    return total / len(normals)


@case(100.0, 0.2, 0.05, 105.0, R.standard_normal((6, 8)))
def option_on_paths(s0, sigma, r, strike, z):
    paths, steps = z.shape
    dt = 1.0 / steps
    total = 0.0
    for p in range(paths):
        s, mean = s0, 0.0
        for t in range(steps):
            s *= math.exp((r - 0.5 * sigma * sigma) * dt + sigma * math.sqrt(dt) * z[p, t])
            mean += s
        mean /= steps
        if mean > strike:
            total += mean - strike
    return math.exp(-r) * total / paths


@case(1.0, 0.5, 3.0, R.uniform(0, 1, 40))
def gillespie_with_given_uniforms(birth, death, end, uniforms):
    t, n, area = 0.0, 3, 0.0
    k = 0
    while k < len(uniforms) - 1:
        rate = birth + death * n
        dt = -math.log(uniforms[k]) / rate
        if t + dt > end:
            area += n * (end - t)
            break
        area += n * dt
        t += dt
        if uniforms[k + 1] * rate < birth:
            n += 1
        else:
            n -= 1
        k += 2
    return area, n


@case(np.linspace(-2, 0.5, 5), np.linspace(-1, 1, 4), 20, smooth=False)
def mandelbrot(xs, ys, limit):
    counts = np.zeros((len(ys), len(xs)), np.int64)
    for j in range(len(ys)):
        for i in range(len(xs)):
            zr = zi = 0.0
            n = 0
            while n < limit and zr * zr + zi * zi < 4.0:
                zr, zi = zr * zr - zi * zi + xs[i], 2 * zr * zi + ys[j]
                n += 1
            counts[j, i] = n
    return counts


@case(0.3 + 0.2j, -0.4 + 0.5j, 9)
def julia_orbit(z, c, n):
    r = 0.0
    for _ in range(n):
        z = z * z + c
        r += abs(z)
    return r, z


@case(np.array([0.5, 0.1]), R.standard_normal((8, 2)), 0.3)
def leapfrog_trajectory(q, p, h):
    total = 0.0
    for k in range(p.shape[0]):
        v = p[k].copy()
        for _ in range(3):
            v -= 0.5 * h * q**3
            q = q + h * v
            v -= 0.5 * h * q**3
        total += np.sum(v * v) / 2 + np.sum(q**4) / 4
    return total


@case(R.uniform(0, 1, (5, 5)), R.uniform(0, 1, 6))
def ray_through_a_grid(density, start):
    x, y = 0.2 + start[0] * 0.1, 0.3 + start[1] * 0.1
    dx, dy = 0.37 + 0.1 * start[2], 0.21 + 0.1 * start[3]
    depth = 0.0
    while 0 <= x < 5 and 0 <= y < 5:
        i, j = int(x), int(y)
        fx, fy = x - i, y - j
        depth += density[i, j] * (1 + fx * fy)
        x += dx
        y += dy
    return math.exp(-depth * 0.1)
