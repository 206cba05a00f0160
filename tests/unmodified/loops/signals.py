"""Signals, images, statistics."""

# ruff: noqa

import math

import numpy as np
from case import case

R = np.random.default_rng(4)


@case(R.standard_normal(12), np.array([0.2, 0.3, 0.1]), np.array([1.0, -0.4, 0.2]))
def infinite_impulse_response(x, b, a):
    y = np.zeros_like(x)
    for n in range(len(x)):
        s = 0.0
        for k in range(len(b)):
            if n - k >= 0:
                s += b[k] * x[n - k]
        for k in range(1, len(a)):
            if n - k >= 0:
                s -= a[k] * y[n - k]
        y[n] = s / a[0]
    return y


@case(R.standard_normal(10), R.standard_normal(3))
def convolution(x, k):
    n, m = len(x), len(k)
    y = np.zeros(n + m - 1)
    for i in range(n):
        for j in range(m):
            y[i + j] += x[i] * k[j]
    return y


@case(R.standard_normal(12), 0.3)
def exponential_average(x, alpha):
    y = np.empty(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]
    return y


@case(R.standard_normal(15), 0.1, 0.5)
def kalman_of_one_state(z, q, r):
    x, p = 0.0, 1.0
    loglik = 0.0
    for k in range(len(z)):
        p = p + q
        s = p + r
        gain = p / s
        e = z[k] - x
        x = x + gain * e
        p = (1 - gain) * p
        loglik -= 0.5 * (math.log(2 * math.pi * s) + e * e / s)
    return loglik


@case(
    R.standard_normal((6, 2)),
    R.standard_normal((2, 2)) * 0.5,
    np.eye(2) * 0.3,
    np.array([1.0, 0.5]),
)
def kalman_with_matrices(z, f, q, h):
    x, p = np.zeros(2), np.eye(2)
    total = 0.0
    for k in range(z.shape[0]):
        x = f @ x
        p = f @ p @ f.T + q
        s = h @ p @ h + 0.4
        gain = p @ h / s
        e = z[k, 0] - h @ x
        x = x + gain * e
        p = p - np.outer(gain, h @ p)
        total += e * e / s + np.log(s)
    return total


@case(R.standard_normal(20) * 0.01, np.array([1e-4, 0.1, 0.8]))
def garch(returns, theta):
    omega, alpha, beta = theta[0], theta[1], theta[2]
    s2 = np.var(returns)
    loglik = 0.0
    for t in range(len(returns)):
        loglik += np.log(s2) + returns[t] ** 2 / s2
        s2 = omega + alpha * returns[t] ** 2 + beta * s2
    return loglik / len(returns)


@case(R.standard_normal((6, 5)))
def median_of_three_by_three(image):
    n, m = image.shape
    out = image.copy()
    window = np.zeros(9)
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            k = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    window[k] = image[i + a, j + b]
                    k += 1
            for p in range(1, 9):
                v, q = window[p], p - 1
                while q >= 0 and window[q] > v:
                    window[q + 1] = window[q]
                    q -= 1
                window[q + 1] = v
            out[i, j] = window[4]
    return out


@case(R.standard_normal((6, 6)), 0.5)
def bilateral_filter(image, sigma):
    n, m = image.shape
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            total, weight = 0.0, 0.0
            for a in range(max(0, i - 1), min(n, i + 2)):
                for b in range(max(0, j - 1), min(m, j + 2)):
                    w = math.exp(-((image[a, b] - image[i, j]) ** 2) / sigma)
                    total += w * image[a, b]
                    weight += w
            out[i, j] = total / weight
    return out


@case(R.uniform(0, 1, 20), 5, smooth=False)
def histogram(x, bins):
    counts = np.zeros(bins, np.int64)
    for v in x:
        k = int(v * bins)
        if 0 <= k < bins:
            counts[k] += 1
    return counts


@case(R.uniform(0, 1, 15), R.standard_normal(15), 4)
def weighted_histogram(x, w, bins):
    sums = np.zeros(bins)
    for k in range(len(x)):
        sums[min(int(x[k] * bins), bins - 1)] += w[k]
    return sums


@case(R.standard_normal(12))
def running_variance(x):
    mean, m2 = 0.0, 0.0
    for k, v in enumerate(x):
        delta = v - mean
        mean += delta / (k + 1)
        m2 += delta * (v - mean)
    return mean, m2 / (len(x) - 1)


@case(R.standard_normal(9))
def bubble_sort(x):
    x = x.copy()
    n = len(x)
    swapped = True
    while swapped:
        swapped = False
        for i in range(n - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
        n -= 1
    return x


@case(R.standard_normal((8, 2)), R.standard_normal((3, 2)), 3)
def k_means_by_loops(points, centers, turns):
    n, k = len(points), len(centers)
    centers = centers.copy()
    for _ in range(turns):
        sums, counts = np.zeros((k, 2)), np.zeros(k)
        for i in range(n):
            best, at = 1e30, 0
            for c in range(k):
                d = (points[i, 0] - centers[c, 0]) ** 2 + (points[i, 1] - centers[c, 1]) ** 2
                if d < best:
                    best, at = d, c
            sums[at] += points[i]
            counts[at] += 1
        for c in range(k):
            if counts[c] > 0:
                centers[c] = sums[c] / counts[c]
    return centers


@case(R.standard_normal(8), R.standard_normal((3, 3)) * 0.4, R.standard_normal(3))
def recurrent_network(x, w, v):
    h = np.zeros(3)
    loss = 0.0
    for t in range(len(x) - 1):
        new = np.zeros(3)
        for i in range(3):
            s = v[i] * x[t]
            for j in range(3):
                s += w[i, j] * h[j]
            new[i] = math.tanh(s)
        h = new
        loss += (h[0] - x[t + 1]) ** 2
    return loss


@case(R.standard_normal((5, 3)), np.array([0, 1, 1, 0, 1]), np.array([0.1, -0.2, 0.3]), 0.1, 2)
def perceptron_passes(x, y, w, rate, epochs):
    errors = 0
    for _ in range(epochs):
        for i in range(len(y)):
            s = 0.0
            for j in range(len(w)):
                s += x[i, j] * w[j]
            guess = 1 if s > 0 else 0
            if guess != y[i]:
                errors += 1
                for j in range(len(w)):
                    w[j] += rate * (y[i] - guess) * x[i, j]
    return w, errors


@case(R.uniform(0, 1, 8), R.uniform(0, 1, 8))
def shoelace_area(x, y):
    s = 0.0
    j = len(x) - 1
    for i in range(len(x)):
        s += (x[j] + x[i]) * (y[j] - y[i])
        j = i
    return 0.5 * abs(s)


@case(0.4, 0.3, np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]), smooth=False)
@case(1.4, 0.3, np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0, 1.0]), smooth=False)
def point_in_polygon(px, py, xs, ys):
    inside = False
    j = len(xs) - 1
    for i in range(len(xs)):
        if (ys[i] > py) != (ys[j] > py):
            if px < (xs[j] - xs[i]) * (py - ys[i]) / (ys[j] - ys[i]) + xs[i]:
                inside = not inside
        j = i
    return inside


@case(np.array([104, 101, 108, 108, 111], np.uint8))
def checksum(data):
    crc = 0xFFFF
    for b in data:
        cur = 0xFF & int(b)
        for _ in range(8):
            if (crc & 1) ^ (cur & 1):
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            cur >>= 1
    return ~crc & 0xFFFF


@case(R.standard_normal(8), R.standard_normal(8))
def fourier_by_butterflies(re, im):
    n = len(re)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            re[i], re[j] = re[j], re[i]
            im[i], im[j] = im[j], im[i]
    length = 2
    while length <= n:
        for start in range(0, n, length):
            for k in range(length // 2):
                angle = -2 * math.pi * k / length
                c, s = math.cos(angle), math.sin(angle)
                p, q = start + k, start + k + length // 2
                tr = re[q] * c - im[q] * s
                ti = re[q] * s + im[q] * c
                re[q], im[q] = re[p] - tr, im[p] - ti
                re[p], im[p] = re[p] + tr, im[p] + ti
        length *= 2
    return re, im


@case(np.array([[0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]), 4)
def game_of_life(cells, steps):
    n, m = cells.shape
    for _ in range(steps):
        new = np.zeros_like(cells)
        for i in range(n):
            for j in range(m):
                alive = 0
                for a in (-1, 0, 1):
                    for b in (-1, 0, 1):
                        if (a, b) != (0, 0):
                            alive += cells[(i + a) % n, (j + b) % m]
                if alive == 3 or (alive == 2 and cells[i, j] == 1):
                    new[i, j] = 1
        cells = new
    return cells


@case(R.standard_normal(16), 2)
def haar_wavelet(x, levels):
    y = x.copy()
    n = len(x)
    for _ in range(levels):
        t = y[:n].copy()
        for i in range(n // 2):
            y[i] = (t[2 * i] + t[2 * i + 1]) / math.sqrt(2)
            y[n // 2 + i] = (t[2 * i] - t[2 * i + 1]) / math.sqrt(2)
        n //= 2
    return y
