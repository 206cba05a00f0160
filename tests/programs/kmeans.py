"""Lloyd's k-means from farthest points, and how well the clusters are apart."""

import numpy as np


def farthest_points(points, k):
    chosen = [points[0]]
    distance = np.sum((points - points[0]) ** 2, axis=1)
    for _ in range(k - 1):
        chosen.append(points[np.argmax(distance)])
        distance = np.minimum(distance, np.sum((points - chosen[-1]) ** 2, axis=1))
    return np.stack(chosen)


def lloyd(points, centers, iterations):
    centers = centers.copy()
    for _ in range(iterations):
        d2 = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=-1)
        labels = d2.argmin(axis=1)
        for j in range(len(centers)):
            member = (labels == j)[:, np.newaxis]
            count = np.maximum(member.sum(), 1)
            centers[j] = (points * member).sum(axis=0) / count
    return centers, labels


def silhouette(points, labels, k):
    d = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1) + 1e-6)
    onehot = (labels[:, None] == np.arange(k)).astype(float)
    mean = d @ onehot / np.maximum(onehot.sum(axis=0), 1)
    own = np.take_along_axis(mean, labels[:, None], axis=1)[:, 0]
    other = np.where(onehot == 1, np.inf, mean).min(axis=1)
    return ((other - own) / np.maximum(own, other)).mean()


def run(points):
    k = 3
    centers, labels = lloyd(points, farthest_points(points, k), 4)
    inertia = ((points - centers[labels]) ** 2).sum()
    sizes = np.array([1.0, 1.0, 1.0]) * (labels[:, None] == np.arange(k)).sum(axis=0)
    return centers, labels, inertia, silhouette(points, labels, k), sizes


def arguments(rng):
    groups = [rng.normal(size=(6, 2)) * 0.4 + c for c in ([0, 0], [4, 1], [1, 5])]
    return (np.concatenate(groups),)
