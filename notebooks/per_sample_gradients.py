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
# # A gradient for every digit
#
# A training step adds up what all examples of a batch want. Here we look at them one by one:
# which digits pull hardest at a small convolutional network, which of them pull in the same
# direction, and which training digits taught the network to read a given test digit.
#
# One line gives these per-sample gradients: `fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0))`.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import fgrad
from fgrad import nn

# %% [markdown]
# ## Data: 1,797 handwritten digits that come with scikit-learn

# %%
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
images = digits.images[order].astype(np.float32)[:, None] / np.float32(16)  # (N, 1, 8, 8)
labels = digits.target[order].astype(np.int64)
x_train, y_train, x_test, y_test = images[:1437], labels[:1437], images[1437:], labels[1437:]

# %% [markdown]
# ## A convolutional network
#
# Parameters are a dictionary of arrays. `logits` takes a batch; `loss` takes *one* image, which
# is all that `vmap` needs.


# %%
def init(key):
    shapes = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "dense": (16, 10)}
    keys = fgrad.random.split(key, len(shapes))
    scale = {"conv1": 0.5, "conv2": 0.2, "dense": 0.3}
    return {
        name: np.float32(scale[name]) * fgrad.random.normal(k, shape, np.float32)
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def logits(params, x):
    x = nn.relu(nn.conv(x, params["conv1"]))  # (N, 8, 6, 6)
    x = nn.max_pool(x, 2)  # (N, 8, 3, 3)
    x = nn.relu(nn.conv(x, params["conv2"]))  # (N, 16, 1, 1)
    return x[:, :, 0, 0] @ params["dense"]


def loss(params, image, label):
    return np.sum(nn.softmax_cross_entropy(logits(params, image[None]), label[None]))


def batch_loss(params, x, y):
    return np.mean(nn.softmax_cross_entropy(logits(params, x), y))


# %% [markdown]
# ## Training, compiled

# %%
optimizer = fgrad.optim.adam(5e-3)


@fgrad.jit
def step(params, state, x, y):
    value, gradient = fgrad.value_and_grad(batch_loss)(params, x, y)
    updates, state = optimizer.update(gradient, state, params)
    return fgrad.optim.apply_updates(params, updates), state, value


params = init(fgrad.random.key(1))
state, history, rng = optimizer.init(params), [], np.random.default_rng(1)
start = time.perf_counter()
for _ in range(30):
    for chosen in np.array_split(rng.permutation(1408), 22):  # 22 batches of 64
        params, state, value = step(params, state, x_train[chosen], y_train[chosen])
        history.append(value)
predictions = np.argmax(fgrad.jit(logits)(params, x_test), axis=1)
accuracy = np.mean(predictions == y_test)
print(f"{len(history)} steps in {time.perf_counter() - start:.1f} s, test accuracy {accuracy:.3f}")
assert accuracy > 0.93

# %%
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.semilogy(history, linewidth=0.8)
_ = axes.set(xlabel="step", ylabel="loss [nats]")
# %% [markdown]
# ## One gradient for each example
#
# `grad(loss)` is a function of one image. `vmap` turns it into a function of a batch, in which
# every image has its own copy of the gradient; `jit` compiles the whole of it.

# %%
per_sample = fgrad.jit(fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0)))
one = fgrad.jit(fgrad.grad(loss))


def flat(gradients):
    """All parameters of each example's gradient in one row."""
    return np.concatenate([g.reshape(len(g), -1) for g in fgrad.tree.leaves(gradients)], axis=1)


some = x_train[:128], y_train[:128]
together = flat(per_sample(params, *some))
alone = flat(
    fgrad.tree.map(
        lambda *g: np.stack(g), *[one(params, *pair) for pair in zip(*some, strict=True)]
    )
)
print(f"{together.shape[0]} gradients of {together.shape[1]} numbers")
print(f"largest difference from a Python loop: {np.max(np.abs(together - alone)):.1e}")
assert np.max(np.abs(together - alone)) < 1e-5 * max(1.0, np.max(np.abs(alone)))

# %% [markdown]
# ## Which digits pull hardest?
#
# Most test digits are read with confidence, and their gradients are tiny. A few outliers
# dominate a step, which is why private learning clips each gradient before it adds them up.

# %%
gradients = flat(per_sample(params, x_test, y_test))
norms = np.linalg.norm(gradients, axis=1)
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.hist(np.log10(norms + 1e-9), bins=40)
_ = axes.set(xlabel="log10 of the norm of a digit's gradient", ylabel="digits")
# %%
figure, rows = plt.subplots(1, 8, figsize=(9, 1.7), layout="constrained")
for axes, i in zip(rows, np.argsort(-norms), strict=False):
    axes.imshow(x_test[i, 0], cmap="gray_r")
    axes.set_title(f"{y_test[i]}, read as {predictions[i]}", fontsize=9)
    axes.axis("off")

# %% [markdown]
# ## Who pulls in the same direction?
#
# The cosine between the mean gradients of two classes, less what all classes have in common, at
# the network's random start. Digits of similar shape pull in similar directions (4 and 9, 0 and
# 6): what is learned from one helps to read the other. Others quarrel.

# %%
early = flat(per_sample(init(fgrad.random.key(1)), x_train[:512], y_train[:512]))
means = np.stack([early[y_train[:512] == k].mean(axis=0) for k in range(10)])
means -= means.mean(axis=0)
units = means / np.linalg.norm(means, axis=1, keepdims=True)
figure, axes = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
shown = axes.imshow(units @ units.T, cmap="RdBu_r", vmin=-1, vmax=1)
_ = axes.set(xticks=range(10), yticks=range(10), xlabel="digit", ylabel="digit")
_ = figure.colorbar(shown, label="cosine of mean gradients")
# %% [markdown]
# ## Who taught it this?
#
# A training example helps a test example if a step along its gradient lowers the test loss: to
# first order, if their gradients point the same way. For a digit that the network reads rightly
# but with some doubt, these are the training digits that helped most and those that hindered
# most.

# %%
doubtful = np.argsort(np.where(predictions == y_test, -norms, 0.0))[0]
teachers = flat(per_sample(params, x_train, y_train))
influence = teachers @ gradients[doubtful]
ranked = np.argsort(-influence)
chosen = [("test", x_test, doubtful, y_test)]
chosen += [("helped", x_train, i, y_train) for i in ranked[:4]]
chosen += [("hindered", x_train, i, y_train) for i in ranked[::-1][:4]]
figure, rows = plt.subplots(1, 9, figsize=(10, 1.7), layout="constrained")
for axes, (role, x, i, y) in zip(rows, chosen, strict=True):
    axes.imshow(x[i, 0], cmap="gray_r")
    axes.set_title(f"{role}: {y[i]}", fontsize=9)
    axes.axis("off")
