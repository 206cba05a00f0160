"""Programs of some lines as people write them: models, simulations, algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import CUBE, SPD, B, K, M, N, P, S, X, Y, numbers

F32 = np.float32
XF, MF, SF = X.astype(F32), M.astype(F32), S.astype(F32)
LONG = numbers(24)


def logistic_regression(J: Any) -> Any:
    labels = (X > 0).astype(F32)
    rows = np.stack([XF, XF * XF, np.ones(6, F32)], 1)

    def loss(w: Any) -> Any:
        z = rows @ w
        return J.np.mean(J.np.logaddexp(0, z) - labels * z)

    return J.lax.fori_loop(
        0, 30, lambda i, w: w - J.grad(loss)(w) / (1 + 0.1 * i), np.zeros(3, F32)
    )


def life(J: Any) -> Any:
    board = (numbers(8, 8) > 0.4).astype(np.int32)

    def step(b: Any, _: Any) -> Any:
        around = sum(
            J.np.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        b = ((around == 3) | ((b == 1) & (around == 2))).astype(np.int32)
        return b, b.sum()

    return J.lax.scan(step, board, None, length=10)


def mandelbrot(J: Any) -> Any:
    c = np.linspace(-2, 0.5, 7)[None] + 1j * np.linspace(-1, 1, 5)[:, None]

    def step(i: Any, state: Any) -> Any:
        z, count = state
        inside = J.np.abs(z) < 2
        return J.np.where(inside, z * z + c, z), J.np.where(inside, i, count)

    return J.lax.fori_loop(0, 20, step, (J.np.zeros_like(c), np.zeros(c.shape, np.int32)))[1]


def roots(J: Any) -> Any:
    def root(a: Any) -> Any:
        return J.lax.while_loop(
            lambda x: J.np.abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), a
        )

    return J.vmap(root)(P)


def heat(J: Any) -> Any:
    def step(u: Any, _: Any) -> Any:
        inner = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return J.at(u)[1:-1].set(inner), None

    return J.grad(lambda u: J.np.sum(J.lax.scan(step, u, None, length=12)[0] ** 2))(LONG)


def attention(J: Any) -> Any:
    q, k, v = M[:3], M[1:], CUBE[0]
    scores = q @ k.T / J.np.sqrt(q.shape[-1])
    mask = J.np.tril(J.np.ones(scores.shape, bool), 1)
    return J.nn.softmax(J.np.where(mask, scores, -1e9), axis=-1) @ v[:3]


def kmeans(J: Any) -> Any:
    points = numbers(20, 2)

    def step(i: Any, centres: Any) -> Any:
        distances = J.np.sum((points[:, None] - centres) ** 2, -1)
        near = J.np.argmin(distances, 1)
        total = J.segment_sum(points, near, 3)
        count = J.segment_sum(J.np.ones(20), near, 3)
        return total / J.np.maximum(count, 1)[:, None]

    return J.lax.fori_loop(0, 8, step, points[:3])


def gaussian_process(J: Any) -> Any:
    def kernel(a: Any, b: Any, scale: Any) -> Any:
        return J.vmap(lambda x: J.vmap(lambda y: J.np.exp(-(((x - y) / scale) ** 2)))(b))(a)

    def evidence(scale: Any) -> Any:
        k = kernel(X, X, scale) + 0.1 * J.np.eye(6)
        factor = J.scipy.linalg.cho_factor(k, lower=True)
        fit = J.scipy.linalg.cho_solve(factor, Y)
        return 0.5 * Y @ fit + J.np.sum(J.np.log(J.np.diag(factor[0])))

    return J.value_and_grad(evidence)(0.7)


def leapfrog(J: Any) -> Any:
    def energy(q: Any) -> Any:
        return 0.5 * q @ SPD @ q

    def step(_: Any, state: Any) -> Any:
        q, p = state
        p = p - 0.05 * J.grad(energy)(q)
        q = q + 0.1 * p
        return q, p - 0.05 * J.grad(energy)(q)

    return J.lax.fori_loop(0, 10, step, (X[:4], Y[:4]))


def pendulum(J: Any) -> Any:
    def slope(y: Any) -> Any:
        return J.np.array([y[1], -9.81 * J.np.sin(y[0])])

    def rk4(y: Any, h: Any) -> Any:
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), y[0]

    return J.lax.scan(rk4, J.np.array([0.4, 0.0]), J.np.full(20, 0.05))[1]


def viterbi(J: Any) -> Any:
    steps, moves = numbers(7, 3), numbers(3, 3, start=9)

    def forward(best: Any, out: Any) -> Any:
        paths = best[:, None] + moves
        return J.np.max(paths, 0) + out, J.np.argmax(paths, 0)

    best, back = J.lax.scan(forward, steps[0], steps[1:])

    def walk(state: Any, row: Any) -> Any:
        return row[state], state

    first, states = J.lax.scan(walk, J.np.argmax(best), back, reverse=True)
    return J.np.max(best), J.np.concatenate([first[None], states])


def forward_algorithm(J: Any) -> Any:
    moves = J.nn.log_softmax(numbers(3, 3), axis=1)

    def step(alpha: Any, out: Any) -> Any:
        alpha = J.nn.logsumexp(alpha[:, None] + moves, axis=0) + out
        return alpha, None

    def likelihood(outs: Any) -> Any:
        return J.nn.logsumexp(J.lax.scan(step, outs[0], outs[1:])[0])

    return J.value_and_grad(likelihood)(numbers(6, 3, start=4))


def edit_distance(J: Any) -> Any:
    a, b = np.array([1, 2, 3, 1, 4]), np.array([2, 3, 1, 1])

    def row(last: Any, x: Any) -> Any:
        def cell(left: Any, given: Any) -> Any:
            diagonal, up, y = given
            best = J.np.minimum(J.np.minimum(left + 1, up + 1), diagonal + (x != y))
            return best, best

        first = last[0] + 1
        _, rest = J.lax.scan(cell, first, (last[:-1], last[1:], b))
        return J.np.concatenate([first[None], rest]), None

    return J.lax.scan(row, J.np.arange(5), a)[0]


def cross_entropy(J: Any) -> Any:
    def loss(logits: Any) -> Any:
        return -J.np.mean(J.np.sum(J.nn.one_hot(K, 5, dtype=F32) * J.nn.log_softmax(logits), -1))

    return J.value_and_grad(loss)(MF)


def accumulated(J: Any) -> Any:
    def loss(w: Any, x: Any) -> Any:
        return J.np.tanh(x @ w).sum()

    def add(total: Any, x: Any) -> Any:
        return J.tree.map(J.np.add, total, J.grad(loss)(np.ones(4), x)), None

    return J.lax.scan(add, J.np.zeros(4), S)[0]


def maml(J: Any) -> Any:
    def loss(w: Any, x: Any) -> Any:
        return J.np.mean((J.np.sin(w * x) - x) ** 2)

    def adapted(w: Any) -> Any:
        return loss(w - 0.1 * J.grad(loss)(w, X), Y)

    return J.grad(adapted)(0.8)


def per_example(J: Any) -> Any:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return (J.np.dot(J.np.tanh(p["w"] * x), p["w"]) + p["b"] - y) ** 2

    p = {"w": X[:4], "b": 0.1}
    return J.vmap(J.grad(loss), (None, 0, 0))(p, S, Y[:4])


def clipped(J: Any) -> Any:
    @J.custom_vjp
    def clip(x: Any) -> Any:
        return x

    clip.defvjp(lambda x: (x, None), lambda _, g: (J.np.clip(g, -1, 1),))
    return J.grad(lambda x: J.np.sum(clip(x) ** 3))(X)


def straight_through(J: Any) -> Any:
    def rounded(x: Any) -> Any:
        return x + J.stop_gradient(J.np.round(x) - x)

    return J.value_and_grad(lambda x: J.np.sum(rounded(x) * Y))(X)


def sinkhorn(J: Any) -> Any:
    cost = J.np.abs(X[:, None] - Y)

    def step(_: Any, fg: Any) -> Any:
        f, g = fg
        f = -0.5 * J.nn.logsumexp((g - cost) / 0.5, axis=1)
        return f, -0.5 * J.nn.logsumexp((f[:, None] - cost) / 0.5, axis=0)

    return J.lax.fori_loop(0, 15, step, (np.zeros(6), np.zeros(6)))


def fft_convolution(J: Any) -> Any:
    n = 16
    product = J.np.fft.rfft(X, n) * J.np.fft.rfft(Y, n)
    return J.np.fft.irfft(product, n)[:11]


def frames(J: Any) -> Any:
    def frame(k: Any) -> Any:
        return J.lax.dynamic_slice(LONG, (k,), (8,)) * J.np.hanning(8)

    return J.np.abs(J.np.fft.rfft(J.vmap(frame)(J.np.arange(0, 17, 4))))


def bilinear(J: Any) -> Any:
    def at(p: Any) -> Any:
        low = J.np.floor(p).astype(int)
        t = p - low
        i, j = low
        image = J.np.asarray(M)
        top = image[i, j] * (1 - t[1]) + image[i, j + 1] * t[1]
        bottom = image[i + 1, j] * (1 - t[1]) + image[i + 1, j + 1] * t[1]
        return top * (1 - t[0]) + bottom * t[0]

    places = np.array([[0.5, 1.5], [1.25, 2.75], [2.0, 3.0]])
    return J.vmap(at)(places), J.vmap(J.grad(at))(places)


def planets(J: Any) -> Any:
    q = numbers(5, 3)

    def potential(q: Any) -> Any:
        d = q[:, None] - q
        r = J.np.sqrt(J.np.sum(d * d, -1) + 0.01)
        return -0.5 * J.np.sum(1 / r)

    return J.grad(potential)(q)


def drawdown(J: Any) -> Any:
    wealth = J.np.cumprod(1 + 0.1 * LONG)
    return J.np.max(1 - wealth / J.lax.cummax(wealth))


def thomas(J: Any) -> Any:
    def solve(d: Any) -> Any:
        def down(c: Any, x: Any) -> Any:
            w, g = c
            low = 4.0 - w
            return (1.0 / low, (x - g) / low), (1.0 / low, (x - g) / low)

        _, (w, g) = J.lax.scan(down, (0.0, 0.0), d)

        def up(x: Any, row: Any) -> Any:
            x = row[1] - row[0] * x
            return x, x

        return J.lax.scan(up, 0.0, (w, g), reverse=True)[1]

    return solve(X), J.jacrev(solve)(X)


def conjugate_gradients(J: Any) -> Any:
    def step(state: Any) -> Any:
        x, r, p, k = state
        q = SPD @ p
        a = r @ r / (p @ q)
        new = r - a * q
        return x + a * p, new, new + new @ new / (r @ r) * p, k + 1

    def going(state: Any) -> Any:
        return (J.np.linalg.norm(state[1]) > 1e-9) & (state[3] < 20)

    b = X[:4]
    return J.lax.while_loop(going, step, (np.zeros(4), b, b, 0))[0]


def bisection(J: Any) -> Any:
    def half(_: Any, interval: Any) -> Any:
        low, high = interval
        middle = (low + high) / 2
        left = J.np.cos(middle) < middle
        return J.np.where(left, low, middle), J.np.where(left, middle, high)

    return J.lax.fori_loop(0, 40, half, (0.0, 1.0))


def matrix_prefixes(J: Any) -> Any:
    ms = numbers(6, 2, 2)
    return J.lax.associative_scan(lambda a, b: b @ a, ms)


def recurrence(J: Any) -> Any:
    a, b = 0.5 * X, Y
    return J.lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b))[1]


def gru(J: Any) -> Any:
    w, u = numbers(3, 4, 4, start=2), numbers(3, 4, start=7)

    def cell(h: Any, x: Any) -> Any:
        z = J.nn.sigmoid(w[0] @ h + u[0] * x)
        r = J.nn.sigmoid(w[1] @ h + u[1] * x)
        new = J.np.tanh(w[2] @ (r * h) + u[2] * x)
        h = (1 - z) * h + z * new
        return h, h

    return J.grad(lambda x: J.np.sum(J.lax.scan(cell, J.np.zeros(4), x)[1] ** 2))(X)


def lstm(J: Any) -> Any:
    w = numbers(16, 5).astype(F32)

    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = J.np.split(w @ J.np.append(h, x), 4)
        c = J.nn.sigmoid(f + 1) * c + J.nn.sigmoid(i) * J.np.tanh(g)
        h = J.nn.sigmoid(o) * J.np.tanh(c)
        return (h, c), h

    return J.lax.scan(cell, (J.np.zeros(4, F32), J.np.zeros(4, F32)), XF)


def convnet(J: Any) -> Any:
    image = numbers(1, 2, 8, 8).astype(F32)
    kernel = numbers(3, 2, 3, 3).astype(F32)

    def score(k: Any) -> Any:
        y = J.nn.relu(J.lax.conv_general_dilated(image, k, (1, 1), "SAME"))
        y = J.lax.reduce_window(y, -np.inf, J.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return J.np.mean(y, axis=(2, 3)).sum()

    return J.value_and_grad(score)(kernel)


def embedding(J: Any) -> Any:
    return J.grad(lambda table: J.np.sum(J.np.tanh(table[K]) ** 2))(M)


def rotary(J: Any) -> Any:
    x = numbers(4, 6)
    angles = J.np.arange(4)[:, None] / 100 ** (J.np.arange(0, 6, 2) / 6)
    even, odd = x[:, ::2], x[:, 1::2]
    cos, sin = J.np.cos(angles), J.np.sin(angles)
    return J.np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def masked_mean(J: Any) -> Any:
    lengths = J.np.array([2, 5, 1, 4])
    mask = J.np.arange(5) < lengths[:, None]
    return J.np.sum(J.np.where(mask, M, 0), 1) / lengths


def adam_by_hand(J: Any) -> Any:
    params = {"w": X, "b": (np.float64(0.5),)}

    def loss(p: Any) -> Any:
        return J.np.sum((p["w"] - Y) ** 2) + p["b"][0] ** 4

    def step(t: Any, state: Any) -> Any:
        p, m, v = state
        g = J.grad(loss)(p)
        m = J.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = J.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)

        def new(p: Any, m: Any, v: Any) -> Any:
            top, bottom = m / (1 - 0.9 ** (t + 1)), v / (1 - 0.999 ** (t + 1))
            return p - 0.1 * top / (J.np.sqrt(bottom) + 1e-8)

        return J.tree.map(new, p, m, v), m, v

    zeros = J.tree.map(J.np.zeros_like, params)
    return J.lax.fori_loop(0, 12, step, (params, zeros, zeros))[0]


def machine(J: Any) -> Any:
    codes = np.array([0, 1, 2, 0, 1, 3])
    moves = [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: -x, lambda x: x**2]

    def step(x: Any, code: Any) -> Any:
        x = J.lax.switch(code, moves, x)
        return x, x

    return J.lax.scan(step, 1.5, codes)


def sieve(J: Any) -> Any:
    def strike(i: Any, found: Any) -> Any:
        k = J.np.arange(50)
        composite = (k % i == 0) & (k > i) & found[i]
        return found & ~composite

    return J.lax.fori_loop(2, 8, strike, J.np.arange(50) > 1)


def normal_equations(J: Any) -> Any:
    t = np.linspace(0, 1, 6)
    basis = J.np.vander(t, 3)
    return J.np.linalg.lstsq(basis, X)[0], J.np.linalg.solve(basis.T @ basis, basis.T @ X)


def quantile_loss(J: Any) -> Any:
    def loss(q: Any) -> Any:
        d = X - q
        return J.np.mean(J.np.maximum(0.3 * d, -0.7 * d))

    return J.grad(loss)(0.21)


def elbo(J: Any) -> Any:
    def bound(p: Any) -> Any:
        mean, log_std = p
        z = mean + J.np.exp(log_std) * X
        return J.np.mean(J.scipy.stats.norm.logpdf(z, 1.0, 0.5)) + log_std

    return J.value_and_grad(bound)((0.2, -0.3))


def interpolated(J: Any) -> Any:
    grid = np.linspace(0, 1, 5)
    return J.grad(lambda f: J.np.sum(J.np.interp(P / 3, grid, f) ** 2))(M[0])


def histogram(J: Any) -> Any:
    k = J.np.clip(J.np.floor((LONG + 2) * 2), 0, 7).astype(np.int32)
    return J.at(J.np.zeros(8, np.int32))[k].add(1), J.np.bincount(k, length=8)


def running_statistics(J: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        n, mean, square = carry
        n = n + 1
        d = x - mean
        mean = mean + d / n
        return (n, mean, square + d * (x - mean)), mean

    return J.lax.scan(step, (0, 0.0, 0.0), LONG)


def countdown(J: Any) -> Any:
    return J.lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] + c[0]), (10, F32(0.5)))


def polynomial(J: Any) -> Any:
    coefficients = J.np.asarray(XF)
    return J.lax.fori_loop(0, 6, lambda i, c: c * F32(0.5) + i * coefficients[i], F32(1))


def filled_by_index(J: Any) -> Any:
    return J.lax.fori_loop(0, 6, lambda i, y: J.at(y)[i].set(i * y[i] + 1), XF)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{f.__name__.replace("_", " "): f for f in (
        logistic_regression, life, mandelbrot, roots, heat, attention, kmeans, gaussian_process,
        leapfrog, pendulum, viterbi, forward_algorithm, edit_distance, cross_entropy, accumulated,
        maml, per_example, clipped, straight_through, sinkhorn, fft_convolution, frames, bilinear,
        planets, drawdown, thomas, conjugate_gradients, bisection, matrix_prefixes, recurrence, gru,
        lstm, convnet, embedding, rotary, masked_mean, adam_by_hand, machine, sieve,
        normal_equations, quantile_loss, elbo, interpolated, histogram, running_statistics,
        countdown, polynomial, filled_by_index,
    )},
    "weak index": lambda J: J.lax.fori_loop(0, 5, lambda i, c: c + i, np.int32(0)),
    "weak index, traced end": lambda J: J.jit(
        lambda n, c: J.lax.fori_loop(0, n, lambda i, c: c + i * 1.5, c))(5, F32(0)),
    "relu of integers": lambda J: J.nn.relu(np.array([-2, 3], np.int32)),
    "hard tanh of integers": lambda J: J.nn.hard_tanh(np.array([-2, 0, 3], np.int32)),
    "take, filled": lambda J: J.np.take(X, np.array([0, 9, -1]), mode="fill", fill_value=-1.0),
    "take of rows": lambda J: J.np.take(M, np.array([1, 9]), axis=0, mode="fill"),
    "take along, filled": lambda J: J.np.take_along_axis(
        M, np.array([[0, 9]] * 4), 1, mode="fill", fill_value=0.0),
    "wide products": lambda J: J.np.matmul(MF, MF.T, preferred_element_type=np.float64),
    "small integers": lambda J: J.np.dot(
        np.full(9, 100, np.int8), np.full(9, 100, np.int8), preferred_element_type=np.int32),
    "einsum, wide": lambda J: J.np.einsum("ij,kj->ik", MF, MF, preferred_element_type=np.float64),
    "sum without promotion": lambda J: J.np.sum(K.astype(np.int32), promote_integers=False),
    "put": lambda J: J.np.put(X, np.array([0, 2]), np.array([9.0, 8.0]), inplace=False),
    "fill diagonal": lambda J: J.np.fill_diagonal(S, 0.0, inplace=False),
    "put along axis": lambda J: J.np.put_along_axis(
        M, np.array([[0], [1], [2], [3]]), 9.0, 1, inplace=False),
    "place": lambda J: J.np.place(X, B, np.array([1.0, 2.0, 3.0]), inplace=False),
    "symmetrized": lambda J: J.np.linalg.eigvalsh(S, symmetrize_input=True),
    "products of matrices": lambda J: J.np.linalg.multi_dot([M, N, N.T], precision="highest"),
    "reduce of a tree": lambda J: J.tree.reduce(
        lambda a, b: a + J.np.sum(b), {"a": X, "b": [Y]}, initializer=1.0),
}  # fmt: skip
