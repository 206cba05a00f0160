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
# # One gradient for each example, put to work
#
# What gradients of single examples cost, beside a loop, torch.func and JAX where these are
# installed; which training examples matter, checked by leaving them out; labels that are wrong;
# how large a batch should be; and training with a guarantee of privacy.

# %%
import importlib.util
import json
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import norm
from sklearn.datasets import load_digits

import fgrad
from fgrad import nn

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
rng = np.random.default_rng(0)

# %% [markdown]
# ## Time and memory
#
# A network of the size used for MNIST, 784-256-10, and 128 images: their gradients are 128 times
# 203,530 numbers, 104 MB. Often only the norms are wanted, or a sum of clipped gradients:
# `per_sample_grad` never makes the large array then, and `chunk=` bounds what lives at once. Each
# way runs in a process of its own, which says by how much its peak of memory grew; 0 is less than
# what loading and compiling had taken before.

# %%
PROGRAM = """
import json, resource, statistics, sys, time
import numpy as np

way, rng = sys.argv[1], np.random.default_rng(0)
shapes = [(784, 256), (256,), (256, 10), (10,)]
params = [(0.05 * rng.normal(size=s)).astype(np.float32) for s in shapes]
x, y = rng.normal(size=(128, 784)).astype(np.float32), rng.integers(0, 10, 128)

if way == "torch.func":
    import torch
    params, x, y = [torch.tensor(p) for p in params], torch.tensor(x), torch.tensor(y)

    def loss(params, image, label):
        w1, b1, w2, b2 = params
        return torch.nn.functional.cross_entropy(torch.tanh(image @ w1 + b1) @ w2 + b2, label)

    work = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
elif way == "JAX":
    import jax

    def loss(params, image, label):
        w1, b1, w2, b2 = params
        return -jax.nn.log_softmax(jax.numpy.tanh(image @ w1 + b1) @ w2 + b2)[label]

    mapped = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
    work = lambda *args: jax.block_until_ready(mapped(*args))
else:
    import fgrad

    def loss(params, image, label):
        w1, b1, w2, b2 = params
        return -fgrad.nn.log_softmax(np.tanh(image @ w1 + b1) @ w2 + b2)[label]

    one = fgrad.jit(fgrad.grad(loss))
    work = {
        "a loop": lambda p, x, y: [np.stack(g) for g in zip(*map(one, [p] * len(x), x, y))],
        "all": fgrad.jit(fgrad.per_sample_grad(loss)),
        "norms_only": fgrad.jit(fgrad.per_sample_grad(loss, norms_only=True)),
        "clip": fgrad.jit(fgrad.per_sample_grad(loss, clip=1.0)),
        "clip, chunk=16": fgrad.jit(fgrad.per_sample_grad(loss, clip=1.0, chunk=16)),
    }[way]

small = x[:2], y[:2]
work(params, *small)  # what libraries load at their first use is not counted
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
times = []
for k in range(6):
    start = time.perf_counter()
    result = work(params, x, y)
    times.append(time.perf_counter() - start)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
scale = 1 if sys.platform == "darwin" else 1024
print(json.dumps([1e3 * statistics.median(times[1:]), grown * scale / 1e6]))
"""

ways = ["a loop", "all", "norms_only", "clip", "clip, chunk=16"]
peers = {"torch.func": "torch", "JAX": "jax"}
ways += [way for way, module in peers.items() if importlib.util.find_spec(module)]
costs = {}
for way in ways:
    command = [sys.executable, "-c", PROGRAM, way]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    costs[way] = json.loads(done.stdout.splitlines()[-1])
    print(f"{way:15} {costs[way][0]:8.1f} ms {costs[way][1]:8.0f} MB")
assert costs["norms_only"][1] < costs["all"][1]

figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained", sharey=True)
for part, axis in enumerate(axes):
    colors = ["C1" if way in peers else "0.6" if way == "a loop" else "C0" for way in ways]
    axis.barh(ways, [costs[way][part] for way in ways], color=colors)
    axis.set_xlabel(("time of 128 gradients [ms]", "growth of the peak of memory [MB]")[part])
axes[0].invert_yaxis(), axes[0].set_xscale("log")

# %% [markdown]
# ## Which examples matter? Checked by leaving them out
#
# Without example *i*, the loss of a test example changes by about $g_i \cdot H^{-1} g_t / n$, where
# $H$ is the Hessian of the training loss. For a model that trains in milliseconds that can be
# looked up: 60 of 300 digits are left out, one by one, and the model is trained again. Threes and
# eights, by regularised logistic regression.

# %%
digits = load_digits()
chosen = (digits.target == 3) | (digits.target == 8)
x_all = np.c_[digits.data[chosen] / 16, np.ones(chosen.sum())]
y_all = np.where(digits.target[chosen] == 8, 1.0, -1.0)
x, y, x_test, y_test = x_all[:300], y_all[:300], x_all[300:], y_all[300:]


def loss(w, image, sign):
    return nn.softplus(-sign * np.dot(w, image)) + 0.005 * np.dot(w, w)


def total(w, weights):
    return np.mean(weights * fgrad.vmap(loss, in_axes=(None, 0, 0))(w, x, y))


@fgrad.jit
def trained(weights):
    """Newton's method: eight steps are enough for all digits of a float64."""
    w = np.zeros(x.shape[1])
    for _ in range(8):
        w = w - np.linalg.solve(fgrad.hessian(total)(w, weights), fgrad.grad(total)(w, weights))
    return w


w = trained(np.ones(300))
gradients = fgrad.per_sample_grad(loss)(w, x, y)
doubtful = np.argmin(abs(x_test @ w))
test_gradient = fgrad.grad(loss)(w, x_test[doubtful], y_test[doubtful])
response = np.linalg.solve(fgrad.hessian(total)(w, np.ones(300)), test_gradient)
predicted = gradients @ response / 300

left_out = np.argsort(-abs(predicted))[:60]
weights = np.ones((60, 300))
weights[np.arange(60), left_out] = 0.0
retrained = fgrad.vmap(trained)(weights)
shift = [loss(v, x_test[doubtful], y_test[doubtful]) for v in retrained]
measured = np.array(shift) - loss(w, x_test[doubtful], y_test[doubtful])
agreement = np.corrcoef(predicted[left_out], measured)[0, 1]
assert agreement > 0.98

figure, axis = plt.subplots(figsize=(4, 3.4), layout="constrained")
axis.plot(predicted[left_out], measured, ".")
axis.axline((0, 0), slope=1, color="k", lw=0.7)
_ = axis.set(xlabel="predicted", ylabel="trained without it", title=f"r = {agreement:.4f}")
axis.locator_params(nbins=5)

# %% [markdown]
# ## Labels that are wrong
#
# One label in twenty is turned round. How much an example props up its own prediction,
# $g_i \cdot H^{-1} g_i$, finds them: whoever checks the labels in this order finds most of the
# wrong ones among the first few.

# %%
wrong = rng.choice(300, 15, replace=False)
truth = y.copy()
y = np.where(np.isin(np.arange(300), wrong), -y, y)
w = trained(np.ones(300))
gradients = fgrad.per_sample_grad(loss)(w, x, y)
inner = np.linalg.solve(fgrad.hessian(total)(w, np.ones(300)), gradients.T).T
own = np.sum(gradients * inner, axis=1)
order = np.argsort(-own)
found = np.cumsum(np.isin(order, wrong)) / 15
assert found[29] > 0.8

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(np.arange(1, 301), found, label="by influence on itself")
left.plot([1, 300], [0, 1], "k:", label="by chance")
left.set(xlabel="labels checked", ylabel="share of the wrong ones found"), left.legend()
first = np.pad(x[order[:12], :64].reshape(2, 6, 8, 8), ((0, 0), (0, 0), (3, 0), (1, 1)))
sheet = first.transpose(0, 2, 1, 3).reshape(22, 60)  # a gap above each for its label
right.imshow(sheet, cmap="gray_r"), right.axis("off")
for k, i in enumerate(order[:12]):
    place = (10 * (k % 6) + 3.5, 11 * (k // 6) + 2.0)
    right.text(*place, "8" if y[i] > 0 else "3", color="C3", weight="bold")
_ = right.set_title("the first twelve, and their labels (red)")

# %% [markdown]
# ## How large should a batch be?
#
# The noise scale, the variance of single gradients over the square of their mean, is the size of a
# batch whose noise is as large as its signal. It grows during training: small batches are enough at
# first.

# %%
images, labels = (digits.data / 16).astype(np.float32), digits.target


def init(key):
    first, second = fgrad.random.split(key)
    return {
        "w1": 0.15 * fgrad.random.normal(first, (64, 48), np.float32),
        "b1": np.zeros(48, np.float32),
        "w2": 0.15 * fgrad.random.normal(second, (48, 10), np.float32),
        "b2": np.zeros(10, np.float32),
    }


def logits(params, image):
    return np.tanh(image @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def cost(params, image, label, weight=1.0):
    return weight * nn.softmax_cross_entropy(logits(params, image), label)


@fgrad.jit
def signal_and_noise(params):
    rows = fgrad.per_sample_grad(cost)(params, images[:1024], labels[:1024])
    flat = np.concatenate([g.reshape(1024, -1) for g in fgrad.tree.leaves(rows)], axis=1)
    mean = np.mean(flat, axis=0)
    return np.sum(mean**2), np.sum((flat - mean) ** 2) / 1024


@fgrad.jit
def descend(params, x, y):
    mapped = fgrad.vmap(cost, in_axes=(None, 0, 0))
    slopes = fgrad.grad(lambda p: np.mean(mapped(p, x, y)))(params)
    return fgrad.tree.map(lambda p, g: p - np.float32(0.3) * g, params, slopes)


params, scales = init(fgrad.random.key(0)), []
for k in range(241):
    if k % 20 == 0:
        signal, noise = signal_and_noise(params)
        scales.append((k, noise / signal))
    batch = rng.integers(0, 1024, 64)
    params = descend(params, images[batch], labels[batch])
steps, sizes = np.array(scales).T
assert np.median(sizes[-4:]) > 5 * sizes[0]

figure, axis = plt.subplots(figsize=(5, 2.8), layout="constrained")
axis.semilogy(steps, sizes, ".-")
_ = axis.set(xlabel="step", ylabel="noise scale [examples]")

# %% [markdown]
# ## Training with a guarantee of privacy
#
# DP-SGD draws each example with probability $q$, clips its gradient, and adds noise of $\sigma$
# times the bound to the sum. What an observer of all steps can learn about one person is bounded by
# $(\varepsilon, \delta)$. The accountant below adds up Rényi divergences of the sampled Gaussian
# mechanism (Mironov et al., 2019), at integer orders.

# %%
ORDERS = np.arange(2, 257)


def divergence(order, q, sigma):
    k = np.arange(order + 1)
    choices = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    drawn = k * np.log(q) + np.where(k == order, 0.0, (order - k) * np.log1p(-min(q, 1 - 1e-16)))
    return logsumexp(choices + drawn + k * (k - 1) / (2 * sigma**2)) / (order - 1)


def epsilon(q, sigma, steps, delta=1e-5):
    spent = steps * np.array([divergence(a, q, sigma) for a in ORDERS])
    return np.min(spent + np.log1p(-1 / ORDERS) - (np.log(delta) + np.log(ORDERS)) / (ORDERS - 1))


def exact_delta(eps, sigma):
    """One step that draws everyone: what the Gaussian mechanism has (Balle and Wang, 2018)."""
    half = 1 / (2 * sigma)
    return norm.cdf(half - eps * sigma) - np.exp(eps) * norm.cdf(-half - eps * sigma)


assert np.isclose(divergence(8, 1 - 1e-15, 2.0), 8 / (2 * 2.0**2))
for sigma in (1.0, 2.0, 5.0):  # never less than the truth, and not by far
    assert exact_delta(epsilon(1 - 1e-15, sigma, 1), sigma) <= 1e-5
    assert exact_delta(0.85 * epsilon(1 - 1e-15, sigma, 1), sigma) > 1e-5
print(f"60 epochs of MNIST, batches of 256, sigma 1.1: {epsilon(256 / 6e4, 1.1, 14063):.2f}")

# %% [markdown]
# The sizes of the batches are random; they are padded to one size with examples of weight 0, whose
# gradients are 0, so that one compiled step serves all of them.

# %%
Q, STEPS, ROOM = 96 / 1437, 200, 160
x, y, x_test, y_test = images[:1437], labels[:1437], images[1437:], labels[1437:]
bounded = fgrad.per_sample_grad(cost, clip=1.0)


@fgrad.jit
def private_step(params, x, y, weights, key, sigma):
    total = bounded(params, x, y, weights)
    keys = fgrad.tree.unflatten(
        fgrad.tree.structure(total), list(fgrad.random.split(key, len(fgrad.tree.leaves(total))))
    )

    def moved(p, g, key):
        noisy = g + sigma * fgrad.random.normal(key, g.shape, np.float32)
        return p - noisy / np.float32(96)

    return fgrad.tree.map(moved, params, total, keys)


def accuracy_of(sigma, seed):
    params, draws = init(fgrad.random.key(seed)), np.random.default_rng(seed)
    for key in fgrad.random.split(fgrad.random.key(seed + 100), STEPS):
        drawn = np.flatnonzero(draws.random(1437) < Q)
        assert len(drawn) <= ROOM
        batch = np.zeros(ROOM, int)
        batch[: len(drawn)] = drawn
        weights = (np.arange(ROOM) < len(drawn)).astype(np.float32)
        params = private_step(params, x[batch], y[batch], weights, key, np.float32(sigma))
    return np.mean(np.argmax(logits(params, x_test), axis=1) == y_test)


sigmas = [0.0, 0.7, 1.0, 2.0, 4.0, 8.0]
reached = np.array([[accuracy_of(sigma, seed) for seed in range(3)] for sigma in sigmas])
prices = [epsilon(Q, sigma, STEPS) for sigma in sigmas[1:]]
for sigma, price, row in zip(sigmas, [np.inf, *prices], reached, strict=True):
    print(f"sigma {sigma:3.1f}  epsilon {price:6.2f}  accuracy {row.mean():.3f}")
assert reached[0].mean() > 0.86 and reached[0].mean() > reached[-1].mean() + 0.1

figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.errorbar(prices, reached[1:].mean(axis=1), np.ptp(reached[1:], axis=1) / 2, fmt=".-")
axis.axhline(reached[0].mean(), color="k", ls=":", label="clipped, no noise")
axis.set(xscale="log", xlabel=r"$\varepsilon$ at $\delta = 10^{-5}$", ylabel="test accuracy")
_ = axis.legend(loc="lower right")
