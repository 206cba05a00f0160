"""Filters of images: blur, edges, sharpening, a median, a bilateral filter, thresholds."""

import numpy as np


def gaussian_kernel(sigma, radius):
    x = np.arange(-radius, radius + 1)
    k = np.exp(-0.5 * (x / sigma) ** 2)
    return k / k.sum()


def blur(image, sigma):
    k = gaussian_kernel(sigma, 2)
    padded = np.pad(image, 2, mode="reflect")
    rows = np.apply_along_axis(lambda r: np.convolve(r, k, mode="valid"), 1, padded)
    return np.apply_along_axis(lambda c: np.convolve(c, k, mode="valid"), 0, rows)


def correlate(image, kernel):
    h, w = kernel.shape
    padded = np.pad(image, ((h // 2,), (w // 2,)), mode="edge")
    out = np.zeros_like(image)
    for i in range(h):
        for j in range(w):
            out += kernel[i, j] * padded[i : i + image.shape[0], j : j + image.shape[1]]
    return out


def sobel(image):
    k = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
    return np.hypot(correlate(image, k), correlate(image, k.T) + 1e-3)


def median_filter(image):
    padded = np.pad(image, 1, mode="symmetric")
    windows = [
        padded[i : i + image.shape[0], j : j + image.shape[1]] for i in range(3) for j in range(3)
    ]
    return np.median(np.stack(windows), axis=0)


def bilateral(image, sigma):
    padded = np.pad(image, 1, mode="wrap")
    total, weights = np.zeros_like(image), np.zeros_like(image)
    for i in range(3):
        for j in range(3):
            part = padded[i : i + image.shape[0], j : j + image.shape[1]]
            w = np.exp(-((part - image) ** 2) / (2 * sigma**2) - ((i - 1) ** 2 + (j - 1) ** 2) / 2)
            total += w * part
            weights += w
    return total / weights


def stretch(image):
    low, high = np.percentile(image, [5, 95])
    return np.clip((image - low) / (high - low), 0.0, 1.0)


def run(image, sigma):
    soft = blur(image, sigma)
    sharp = image + 0.7 * (image - soft)
    mask = image > image.mean()
    painted = image.copy()
    painted[mask] = 0.5 * painted[mask]
    return (
        sharp,
        sobel(soft),
        median_filter(image),
        bilateral(image, sigma),
        stretch(soft),
        painted,
        np.flipud(np.rot90(image))[::2, ::2].sum(),
    )


def arguments(rng):
    y, x = np.mgrid[0:7, 0:6]
    return np.sin(x / 2) * np.cos(y / 3) + 0.1 * rng.normal(size=(7, 6)), np.float64(0.9)
