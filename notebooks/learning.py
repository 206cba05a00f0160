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
# # Three ways to learn
#
# Fisher information and the natural gradient, learning to learn (MAML), and a policy that learns
# from rewards (REINFORCE), each beside what is known exactly.

# %%
import matplotlib.pyplot as plt
import numpy as np

import fgrad
from fgrad import nn, optim
from fgrad.scipy.special import gammaln, polygamma

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
rng = np.random.default_rng(0)

# %% [markdown]
# ## Fisher information, three times the same
#
# The covariance of the gradients of single observations, the mean Hessian of the negative
# log-likelihood, and the formula, for the shape and the scale of a gamma distribution. Its inverse
# is the covariance that a fit of maximum likelihood has: looked up by fitting 400 samples at once.

# %%
TRUE = np.array([3.0, 2.0])  # shape and scale


def log_likelihood(theta, x):
    shape, scale = theta
    return (shape - 1) * np.log(x) - x / scale - gammaln(shape) - shape * np.log(scale)


draws = rng.gamma(*TRUE, size=200_000)
scores = fgrad.per_sample_grad(log_likelihood)(TRUE, draws)
by_scores = scores.T @ scores / len(draws)
by_hessian = -fgrad.hessian(lambda t: np.mean(log_likelihood(t, draws)))(TRUE)
formula = np.array([[polygamma(1, TRUE[0]), 1 / TRUE[1]], [1 / TRUE[1], TRUE[0] / TRUE[1] ** 2]])
assert np.allclose(by_scores, formula, rtol=0.02) and np.allclose(by_hessian, formula, rtol=0.02)


@fgrad.jit
def fitted(sample):
    """Newton's method from a fit of the moments."""
    mean, variance = np.mean(sample), np.var(sample)
    theta = np.stack([mean**2 / variance, variance / mean])
    total = fgrad.grad(lambda t: np.mean(log_likelihood(t, sample)))
    for _ in range(12):
        theta = theta - np.linalg.solve(fgrad.jacfwd(total)(theta), total(theta))
    return theta


fits = fgrad.vmap(fitted)(draws.reshape(400, 500))
spread, bound = np.cov(fits.T), np.linalg.inv(formula) / 500
print("covariance of 400 fits", spread.round(5).tolist())
print("the bound of Cramer-Rao", bound.round(5).tolist())
assert np.allclose(spread, bound, rtol=0.25)

# %% [markdown]
# ## The natural gradient
#
# Steepest ascent goes where the likelihood rises most for a step of the parameters; the natural
# gradient $F^{-1} g$ where it rises most for a step between *distributions*, so it does not depend
# on the units of the parameters. Twelve steps of each.

# %%
sample = draws[:500]
slope = fgrad.jit(fgrad.grad(lambda t: np.mean(log_likelihood(t, sample))))


def fisher(theta):
    shape, scale = theta
    return np.array([[polygamma(1, shape), 1 / scale], [1 / scale, shape / scale**2]])


start, plain, natural = np.array([1.5, 5.0]), [], []
a = b = start
for _ in range(13):
    plain.append(a), natural.append(b)
    a = a + 2.0 * slope(a)
    b = b + 0.5 * np.linalg.solve(fisher(b), slope(b))
plain, natural, best = np.array(plain), np.array(natural), fitted(sample)
assert np.linalg.norm(natural[-1] - best) < 0.1 * np.linalg.norm(plain[-1] - best)

grid = np.stack(np.meshgrid(np.linspace(1, 4.5, 60), np.linspace(0.8, 6, 60)), axis=-1)
heights = fgrad.vmap(lambda t: np.mean(log_likelihood(t, sample)))(grid.reshape(-1, 2))
levels = heights.max() - np.array([2, 1, 0.5, 0.25, 0.1, 0.03, 0.01])
left, right = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")[1]
left.contour(grid[..., 0], grid[..., 1], heights.reshape(60, 60), levels, colors="0.7")
left.plot(*plain.T, ".-", label="gradient"), left.plot(*natural.T, ".-", label="natural")
left.plot(*best, "k+", ms=10), left.legend(), left.set(xlabel="shape", ylabel="scale")
right.plot(*fits.T, ".", ms=3, alpha=0.6, label="400 fits")
angle = np.linspace(0, 2 * np.pi, 100)
edge = TRUE + 2 * (np.linalg.cholesky(bound) @ np.stack([np.cos(angle), np.sin(angle)])).T
right.plot(*edge.T, "k", label="two deviations, Cramer-Rao"), right.legend()
_ = right.set(xlabel="shape", ylabel="scale")

# %% [markdown]
# ## Learning to learn: MAML
#
# A network meets sines of unknown height and phase, ten points of each. Trained on all of them it
# would learn their mean, zero; MAML (Finn et al., 2017) trains the *start* from which one step of
# gradient descent on ten points fits best. A gradient through a gradient, mapped over tasks.


# %%
def init(key):
    shapes = {"w1": (1, 40), "w2": (40, 40), "w3": (40, 1)}
    keys = fgrad.random.split(key, 3)
    weights = {
        name: fgrad.random.normal(k, shape) * np.sqrt(2 / shape[0])
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return {**weights, "b1": np.zeros(40), "b2": np.zeros(40), "b3": np.zeros(1)}


def model(params, x):
    x = nn.relu(x[:, None] @ params["w1"] + params["b1"])
    x = nn.relu(x @ params["w2"] + params["b2"])
    return (x @ params["w3"] + params["b3"])[:, 0]


def error(params, x, y):
    return np.mean((model(params, x) - y) ** 2)


def adapted(params, x, y, steps=1):
    for _ in range(steps):
        params = fgrad.tree.map(lambda p, g: p - 0.01 * g, params, fgrad.grad(error)(params, x, y))
    return params


def after_adapting(params, task):
    (x, y), (x_new, y_new) = task
    return error(adapted(params, x, y), x_new, y_new)


def tasks(count):
    height, phase = rng.uniform(1, 4, (count, 1)), rng.uniform(0, np.pi, (count, 1))
    x = rng.uniform(-4, 4, (2, count, 10))
    return [(part, height * np.sin(part + phase)) for part in x]


def trainer(objective, rate=3e-3):
    optimizer = optim.adam(rate)

    @fgrad.jit
    def step(params, state, batch):
        def mean(p):
            return np.mean(fgrad.vmap(objective, in_axes=(None, 0))(p, batch))

        value, slopes = fgrad.value_and_grad(mean)(params)
        updates, state = optimizer.update(slopes, state, params)
        return optim.apply_updates(params, updates), state, value

    params, values = init(fgrad.random.key(0)), []
    state = optimizer.init(params)
    for _ in range(4000):
        params, state, value = step(params, state, tasks(25))
        values.append(float(value))
    return params, values


meta, values = trainer(after_adapting)
joint, _ = trainer(lambda p, task: error(p, *task[0]))

test = tasks(300)
score = fgrad.jit(
    lambda p, steps: np.mean(fgrad.vmap(lambda t: error(adapted(p, *t[0], steps), *t[1]))(test)),
    static_argnums=1,
)
table = np.array([[score(p, k) for k in (0, 1, 2, 5, 10)] for p in (meta, joint)])
print("MAML          ", table[0].round(2), "\ntrained on all", table[1].round(2))
assert table[0, 1] < 0.5 * table[1, 1] and table[0, 1] < 0.5 * table[0, 0]

left, middle, right = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")[1]
left.plot(np.convolve(values, np.ones(50) / 50, "valid"), lw=0.8)
left.set(xlabel="step", ylabel="error after one step", ylim=(0, 5))
middle.plot([0, 1, 2, 5, 10], table[0], ".-", label="MAML")
middle.plot([0, 1, 2, 5, 10], table[1], ".-", label="trained on all"), middle.legend()
middle.set(xlabel="steps on ten points", ylabel="error of a new sine", ylim=(0, None))
line, x = np.linspace(-4, 4, 200), rng.uniform(-4, 4, 10)
y = 3.0 * np.sin(x + 1.0)
right.plot(line, 3.0 * np.sin(line + 1.0), "k:", label="the sine"), right.plot(x, y, "k.")
for k, width, label in ((0, 0.8, "0 steps"), (1, 1.5, "1 step"), (10, 1.5, "10 steps")):
    right.plot(line, model(adapted(meta, x, y, k), line), lw=width, label=label)
right.set(xlabel="x", title="a new sine by ten points"), right.legend(fontsize=8)

# %% [markdown]
# ## REINFORCE on a gridworld
#
# Five by five fields, a reward of 1 in a corner, a loss of 0.3 in a pit; one step in ten goes
# astray. The policy has a logit for each field and direction. REINFORCE estimates the gradient of
# the return from paths: the gradient of the log-probability of what was done, times the return that
# followed.
# The world is small, so the exact value is the solution of a linear system, and its gradient tells
# how good the estimates are.

# %%
SIDE, GAMMA, HORIZON = 5, 0.95, 40
GOAL, PITS = 24, np.array([7, 11, 18])
moves = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
field = np.stack(np.divmod(np.arange(25), SIDE), axis=1)
goes = np.clip(field[:, None] + moves, 0, SIDE - 1) @ [SIDE, 1]  # the field reached, (25, 4)
reward = np.where(np.arange(25) == GOAL, 1.0, np.where(np.isin(np.arange(25), PITS), -0.3, -0.01))
ends = (np.arange(25) == GOAL) | np.isin(np.arange(25), PITS)


def exact(logits):
    """The value of the first field, by the linear system of the values."""
    chance = 0.9 * nn.softmax(logits) + 0.1 / 4
    table = np.zeros((25, 25))
    for action in range(4):
        table = table + chance[:, action, None] * np.eye(25)[goes[:, action]]
    table = np.where(ends[:, None], 0.0, table)
    return np.linalg.solve(np.eye(25) - GAMMA * table, table @ reward)[0]


def episode(logits, key):
    """The fields visited, what was tried there, rewards, and whether it still went on."""

    def step(state, key):
        place, alive = state
        choose, slip, where = fgrad.random.split(key, 3)
        action = fgrad.random.categorical(choose, logits[place])
        astray = fgrad.random.uniform(slip) < 0.1
        new = goes[place, np.where(astray, fgrad.random.randint(where, (), 0, 4), action)]
        return (new, alive & ~ends[new]), (place, action, reward[new] * alive, alive)

    start = np.array(0), np.array(True)
    return fgrad.lax.scan(step, start, fgrad.random.split(key, HORIZON))[1]


def surrogate(logits, key, baseline):
    """Its gradient is the estimate of one path."""
    place, action, gained, alive = episode(fgrad.stop_gradient(logits), key)
    power = GAMMA ** np.arange(HORIZON)
    to_go = np.cumsum((power * gained)[::-1])[::-1]  # discounted to the first step
    score = nn.log_softmax(logits)[place, action]
    advantage = to_go - power * fgrad.stop_gradient(baseline)[place]
    return np.sum(alive * score * advantage), np.sum(power * gained)


@fgrad.jit
def estimates(logits, keys, baseline):
    one = fgrad.grad(surrogate, has_aux=True)
    return fgrad.vmap(one, in_axes=(None, 0, None))(logits, keys, baseline)


logits, baseline = np.zeros((25, 4)), np.zeros(25)
truth = fgrad.grad(exact)(logits)
many, _ = estimates(logits, fgrad.random.split(fgrad.random.key(1), 40_000), baseline)
cosine = np.sum(many.mean(axis=0) * truth) / np.linalg.norm(many.mean(axis=0))
cosine /= np.linalg.norm(truth)
print(f"40,000 paths against the exact gradient: cosine {cosine:.3f}")
assert cosine > 0.97


@fgrad.jit
def improve(logits, key):
    slopes, returns = estimates(logits, fgrad.random.split(key, 256), baseline)
    return logits + 4.0 * np.mean(slopes, axis=0), np.mean(returns)


by_paths, by_formula = [], []
other, climb = logits, fgrad.jit(fgrad.value_and_grad(exact))
for key in fgrad.random.split(fgrad.random.key(2), 400):
    logits, gained = improve(logits, key)
    value, slopes = climb(other)
    other = other + 4.0 * slopes
    by_paths.append(float(gained)), by_formula.append(float(value))
reached = exact(logits)
print(f"value of the start: REINFORCE {reached:.3f}, exact gradients {exact(other):.3f}")
assert reached > 0.9 * exact(other) > 0.3

left, right = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")[1]
left.plot(by_paths, lw=0.8, label="REINFORCE, 256 paths")
left.plot(by_formula, "k", lw=1, label="exact gradients")
left.set(xlabel="step", ylabel="return"), left.legend()
right.imshow(np.where(ends, reward, 0).reshape(5, 5), cmap="RdYlGn", vmin=-2, vmax=2)
direction = nn.softmax(logits) @ moves
right.quiver(field[:, 1], field[:, 0], direction[:, 1], -direction[:, 0] * 1.0, scale=8)
_ = right.set(title="the policy; green is the goal", xticks=[], yticks=[])
