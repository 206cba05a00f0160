"""A Kalman filter and smoother for a moving point, with the likelihood of its measurements."""

import numpy as np


def model(dt, noise):
    F = np.eye(4)
    F[0, 2] = F[1, 3] = dt
    H = np.eye(2, 4)
    G = np.array([[dt**2 / 2, 0], [0, dt**2 / 2], [dt, 0], [0, dt]])
    Q = noise[0] ** 2 * (G @ G.T)
    R = noise[1] ** 2 * np.eye(2)
    return F, H, Q, R


def kalman_filter(measurements, noise, dt=0.1):
    F, H, Q, R = model(dt, noise)
    x = np.hstack([measurements[0], np.zeros(2)])
    P = np.diag([1.0, 1.0, 10.0, 10.0])
    means, covariances, log_likelihood = [], [], 0.0
    for z in measurements[1:]:
        x = F @ x
        P = F @ P @ F.T + Q
        innovation = z - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ innovation
        P = (np.eye(4) - K @ H) @ P
        _, logdet = np.linalg.slogdet(2 * np.pi * S)
        log_likelihood -= 0.5 * (innovation @ np.linalg.solve(S, innovation) + logdet)
        means.append(x)
        covariances.append(P)
    return means, covariances, log_likelihood


def smooth(means, covariances, noise, dt=0.1):
    F, _, Q, _ = model(dt, noise)
    result = [means[-1]]
    x = means[-1]
    for mean, P in zip(means[-2::-1], covariances[-2::-1], strict=True):
        predicted = F @ P @ F.T + Q
        C = np.linalg.solve(predicted, F @ P).T
        x = mean + C @ (x - F @ mean)
        result.insert(0, x)
    return np.stack(result)


def run(measurements, noise):
    means, covariances, log_likelihood = kalman_filter(measurements, noise)
    return log_likelihood, smooth(means, covariances, noise), np.trace(covariances[-1])


def arguments(rng):
    track = np.cumsum(rng.normal(size=(8, 2)), axis=0)
    return track + 0.1 * rng.normal(size=(8, 2)), np.array([0.7, 0.4])
