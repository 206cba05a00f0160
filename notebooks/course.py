# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A course in automatic differentiation: the longer parts
#
# [docs/course.md](../docs/course.md) has each idea in a few lines. Here are the parts that need a
# figure: what derivatives cost and how exact they are, Jacobians, an engine from scratch, digits,
# a generator with a gradient penalty, Q-learning.

# %%
import time
from collections import Counter
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fgrad
from fgrad import nn, optim

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## Exact, and at the price of a few evaluations
#
# Differences with a step h are wrong by about h (the curve) plus 1e-16 / h (the digits): nothing
# beats a step of 1e-8. The chain rule has no step. Differences need one evaluation for each
# argument.


# %%
def energy(x):
    return np.sum(np.sin(x[:-1]) * np.cos(x[1:])) + np.mean(np.exp(-(x**2)))


x = np.linspace(0.0, 3.0, 50)
exact = fgrad.grad(energy)(x)
wide = x.astype(np.longdouble)  # the derivative by hand, with more digits
by_hand = -2 * wide * np.exp(-(wide**2)) / 50
by_hand[:-1] += np.cos(wide[:-1]) * np.cos(wide[1:])
by_hand[1:] -= np.sin(wide[:-1]) * np.sin(wide[1:])
steps = 10.0 ** np.arange(-14, 0)
errors = [
    abs([(energy(x + h * e) - energy(x)) / h for e in np.eye(50)] - by_hand).max() for h in steps
]
error = float(abs(exact - by_hand).max())
assert error < 1e-15 and min(errors) > 1e-9
compiled, gradient = fgrad.jit(energy), fgrad.jit(fgrad.grad(energy))


def seconds(call, *args):
    call(*args)
    samples = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(20):
            call(*args)
        samples.append((time.process_time() - start) / 20)
    return np.median(samples)


sizes = [1_000, 10_000, 100_000]
points = [np.linspace(0.0, 3.0, n) for n in sizes]
ratios = [seconds(gradient, p) / seconds(compiled, p) for p in points]

left, right = plt.subplots(1, 2, figsize=(9, 3))[1]
left.loglog(steps, errors, "o-", label="differences")
left.axhline(error, color="C1", label="chain rule")
left.set(xlabel="step", ylabel="largest error", title="Exactness")
left.legend()
right.loglog(sizes, [n + 1 for n in sizes], "o-", label="differences")
right.loglog(sizes, ratios, "s-", label="reverse mode, measured")
right.set(xlabel="arguments", ylabel="time / time of the function", title="Price of a gradient")
right.legend()
plt.tight_layout()

# %% [markdown]
# ## Jacobians have shapes
#
# Softmax: diag(s) - s s'. LayerNorm: the same form with another vector. A running sum: a
# triangle, whose transpose the backward pass of a scan applies without ever building it.

# %%
v = np.sin(3.0 * np.arange(12.0))
functions = {"softmax": nn.softmax, "layer norm": nn.layer_norm, "cumsum": np.cumsum}
for axis, (name, function) in zip(
    plt.subplots(1, 3, figsize=(9, 3))[1], functions.items(), strict=True
):
    jacobian = fgrad.jacrev(function)(v)
    scale = abs(jacobian).max()
    axis.imshow(jacobian, cmap="RdBu", vmin=-scale, vmax=scale)
    axis.set(title=name, xlabel="argument", ylabel="result", xticks=range(0, 12, 2))
plt.tight_layout()

# %% [markdown]
# ## An engine from scratch, on arrays
#
# Each value remembers what it was made of and how to hand its gradient on: that is all of reverse
# mode.


# %%
class Node:
    def __init__(self, value, parents=()):
        self.value, self.parents, self.slope = np.asarray(value), parents, 0.0

    def __add__(self, other):
        def reduced(g):  # what was broadcast
            return g.sum(0) if other.value.ndim < g.ndim else g

        return Node(self.value + other.value, [(self, lambda g: g), (other, reduced)])

    def __matmul__(self, other):
        by_self = (self, lambda g: g @ other.value.T)
        return Node(self.value @ other.value, [by_self, (other, lambda g: self.value.T @ g)])

    def relu(self):
        return Node(np.maximum(self.value, 0), [(self, lambda g: g * (self.value > 0))])

    def cross_entropy(self, labels):
        rows = np.arange(len(labels))
        shifted = self.value - self.value.max(1, keepdims=True)
        odds = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
        hot = np.zeros_like(odds)
        hot[rows, labels] = 1.0
        pair = (self, lambda g: g * (odds - hot) / len(labels))
        return Node(-np.mean(np.log(odds[rows, labels])), [pair])

    def backward(self):
        order, seen = [], set()

        def visit(node):
            if id(node) not in seen:
                seen.add(id(node))
                for parent, _ in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.slope = np.float64(1.0)
        for node in reversed(order):
            for parent, pull in node.parents:
                parent.slope = parent.slope + pull(node.slope)


# %% [markdown]
# ## Digits: the engine, and the same network in fgrad
#
# Both start from the same weights and see the same batches, so their losses are the same numbers.

# %%
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images, labels = digits.data[order] / 16.0, digits.target[order]
x_train, y_train, x_test, y_test = images[:1400], labels[:1400], images[1400:], labels[1400:]
rng = np.random.default_rng(1)
start_weights = [
    rng.normal(size=(64, 64)) * np.sqrt(2 / 64), np.zeros(64),
    rng.normal(size=(64, 10)) * np.sqrt(2 / 64), np.zeros(10),
]  # fmt: skip
batches = [rng.integers(0, 1400, 100) for _ in range(150)]


def engine_step(weights, x, y):
    w1, b1, w2, b2 = nodes = [Node(w) for w in weights]
    loss = ((Node(x) @ w1 + b1).relu() @ w2 + b2).cross_entropy(y)
    loss.backward()
    return loss.value, [n.value - 0.3 * n.slope for n in nodes]


def logits(weights, x):
    w1, b1, w2, b2 = weights
    return nn.relu(x @ w1 + b1) @ w2 + b2


def loss(weights, x, y):
    return np.mean(nn.softmax_cross_entropy(logits(weights, x), y))


@fgrad.jit
def fgrad_step(weights, x, y):
    value, slopes = fgrad.value_and_grad(loss)(weights, x, y)
    return value, [w - 0.3 * s for w, s in zip(weights, slopes, strict=True)]


def train(step):
    weights, losses = start_weights, []
    for batch in batches:
        value, weights = step(weights, x_train[batch], y_train[batch])
        losses.append(float(value))
    return weights, np.array(losses)


_, by_engine = train(engine_step)
weights, by_fgrad = train(fgrad_step)
accuracy = np.mean(np.argmax(logits(weights, x_test), 1) == y_test)
assert np.allclose(by_engine, by_fgrad, rtol=1e-9) and accuracy > 0.93

plt.figure(figsize=(5, 3))
plt.semilogy(by_engine, lw=4, alpha=0.4, label="engine")
plt.semilogy(by_fgrad, "k", lw=1, label="fgrad")
plt.xlabel("step"), plt.ylabel("loss"), plt.legend()
plt.title(f"{accuracy:.1%} of unseen digits are read")
plt.tight_layout()

# %% [markdown]
# ## What a wrong digit would have to look like
#
# A gradient by the *input*: which pixels speak for the label that the network gives (red), and
# which against it (blue).

# %%
wrong = np.flatnonzero(np.argmax(logits(weights, x_test), 1) != y_test)[:4]
saliency = fgrad.jit(fgrad.vmap(fgrad.grad(lambda x, k: logits(weights, x)[k]), in_axes=(0, 0)))
given = np.argmax(logits(weights, x_test[wrong]), 1)
slopes = saliency(x_test[wrong], given)
figure, axes = plt.subplots(2, 4, figsize=(7, 3.8))
for k, i in enumerate(wrong):
    axes[0, k].imshow(x_test[i].reshape(8, 8), cmap="gray_r")
    axes[0, k].set_title(f"{y_test[i]}, read as {given[k]}", fontsize=9)
    axes[1, k].imshow(slopes[k].reshape(8, 8), cmap="RdBu_r")
for axis in axes.flat:
    axis.axis("off")
plt.tight_layout()

# %% [markdown]
# ## A generator with a gradient penalty (WGAN-GP)
#
# The critic's loss contains the norm of the critic's gradient by its input: a gradient within
# what is differentiated. The generator learns to put its points onto a ring.


# %%
def init(key, shape):
    keys = fgrad.random.split(key, len(shape) - 1)
    sizes = pairwise(shape)
    return [
        {"w": fgrad.random.normal(k, (n, m)) * np.sqrt(2 / n), "b": np.zeros(m)}
        for k, (n, m) in zip(keys, sizes, strict=True)
    ]


def network(params, x):
    for layer in params[:-1]:
        x = nn.leaky_relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def critic_loss(critic, real, fake, mix):
    between = mix * real + (1 - mix) * fake
    slopes = fgrad.vmap(fgrad.grad(lambda x: network(critic, x)[0]))(between)
    penalty = np.mean((np.sqrt(np.sum(slopes**2, axis=1) + 1e-12) - 1.0) ** 2)
    return np.mean(network(critic, fake)) - np.mean(network(critic, real)) + 10.0 * penalty


optimizer = optim.adam(1e-3, b1=0.5, b2=0.9)


@fgrad.jit
def critic_step(critic, state, generator, noise, real, mix):
    fake = fgrad.stop_gradient(network(generator, noise))
    slopes = fgrad.grad(critic_loss)(critic, real, fake, mix)
    updates, state = optimizer.update(slopes, state, critic)
    return optim.apply_updates(critic, updates), state


@fgrad.jit
def generator_step(generator, state, critic, noise):
    slopes = fgrad.grad(lambda g: -np.mean(network(critic, network(g, noise))))(generator)
    updates, state = optimizer.update(slopes, state, generator)
    return optim.apply_updates(generator, updates), state


def ring(n):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(n, 2))


critic = init(fgrad.random.key(1), (2, 32, 32, 1))
generator = init(fgrad.random.key(2), (2, 32, 32, 2))
critic_state, generator_state = optimizer.init(critic), optimizer.init(generator)
noise_shown = rng.normal(size=(400, 2))
shown = {0: network(generator, noise_shown)}
for k in range(1, 1501):
    for _ in range(3):
        given = rng.normal(size=(64, 2)), ring(64), rng.uniform(size=(64, 1))
        critic, critic_state = critic_step(critic, critic_state, generator, *given)
    noise = rng.normal(size=(64, 2))
    generator, generator_state = generator_step(generator, generator_state, critic, noise)
    if k in (150, 1500):
        shown[k] = network(generator, noise_shown)

radius = np.sqrt(np.sum(shown[1500] ** 2, axis=1))
assert abs(np.median(radius) - 1.0) < 0.25
panels = plt.subplots(1, 3, figsize=(9, 3), sharey=True)[1]
for axis, (k, made) in zip(panels, shown.items(), strict=True):
    axis.plot(*ring(400).T, ".", ms=2, alpha=0.4, label="real")
    axis.plot(*made.T, ".", ms=2, label="made")
    axis.set(title=f"after {k} steps", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
axis.legend()
plt.tight_layout()

# %% [markdown]
# ## Q-learning on a gridworld
#
# A 5 x 5 field with a goal in one corner and a pit in the middle. The target `r + 0.95 max Q(s')`
# is computed by a slowly moving average of the weights and counts as a constant. All places are
# one batch: `vmap` walks from all of them at once.

# %%
SIZE, GOAL, PIT = 5, (4, 4), (2, 2)
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
places = np.array([(i, j) for i in range(SIZE) for j in range(SIZE)])


def moved(place, move):
    after = np.clip(place + move, 0, SIZE - 1)
    at_goal = np.all(after == np.array(GOAL), axis=-1)
    in_pit = np.all(after == np.array(PIT), axis=-1)
    return after, 1.0 * at_goal - 1.0 * in_pit, at_goal | in_pit


seen = np.eye(SIZE * SIZE)  # the network sees the place as one of 25
after, reward, over = moved(places[:, None, :], MOVES[None, :, :])
after_index = after[..., 0] * SIZE + after[..., 1]


def q_values(params, x):
    return network(params, x)


def q_loss(params, target_params, k, action):
    following = np.max(q_values(target_params, seen[after_index[k, action]]), axis=1)
    target = reward[k, action] + 0.95 * following * (1.0 - over[k, action])
    chosen = np.take_along_axis(q_values(params, seen[k]), action[:, None], axis=1)[:, 0]
    return np.mean((chosen - fgrad.stop_gradient(target)) ** 2)


learner = optim.adam(3e-3)


@fgrad.jit
def q_step(params, average, state, k, action):
    value, slopes = fgrad.value_and_grad(q_loss)(params, average, k, action)
    updates, state = learner.update(slopes, state, params)
    params = optim.apply_updates(params, updates)
    average = fgrad.tree.map(lambda old, new: 0.98 * old + 0.02 * new, average, params)
    return params, average, state, value


params = init(fgrad.random.key(3), (SIZE * SIZE, 64, 4))
average, state, losses = params, learner.init(params), []
for _ in range(1500):
    k, action = rng.integers(0, SIZE * SIZE, 64), rng.integers(0, 4, 64)
    params, average, state, value = q_step(params, average, state, k, action)
    losses.append(float(value))

best = np.argmax(q_values(params, seen), axis=1)


def walk(k):
    for length in range(20):
        if over[k, best[k]]:
            return length + 1 if reward[k, best[k]] > 0 else -1
        k = after_index[k, best[k]]
    return -1


ends = [k for k in range(SIZE * SIZE) if tuple(places[k]) not in (GOAL, PIT)]
lengths = {k: walk(k) for k in ends}
straight = {k: int(np.sum(np.abs(places[k] - np.array(GOAL)))) for k in ends}
assert all(lengths[k] == straight[k] for k in ends), Counter(lengths.values())

left, right = plt.subplots(1, 2, figsize=(8, 3.2))[1]
left.semilogy(np.convolve(losses, np.ones(25) / 25, mode="valid"))
left.set(xlabel="step", ylabel="loss, mean of 25")
values = np.max(q_values(params, seen), axis=1).reshape(SIZE, SIZE)
values[GOAL] = values[PIT] = np.nan  # where a walk has ended there is nothing to learn
right.imshow(values, cmap="viridis")
for k in ends:
    i, j = places[k]
    di, dj = MOVES[best[k]]
    right.arrow(j - 0.15 * dj, i - 0.15 * di, 0.3 * dj, 0.3 * di, head_width=0.15, color="w")
for (i, j), name in ((GOAL, "goal"), (PIT, "pit")):
    right.text(j, i, name, ha="center", va="center", fontsize=8)
right.set(title="value of each place, best move", xticks=[], yticks=[])
plt.tight_layout()

# %% [markdown]
# From every place the learned moves lead to the goal by a shortest way around the pit.
