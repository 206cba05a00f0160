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
# # Five problems of science, by gradients
#
# A Gaussian process with its marginal likelihood, Hamiltonian Monte Carlo with diagnostics, an
# option with its Greeks, a neural differential equation, and the conductivity of a rod from
# temperatures. All models are plain NumPy; each result is checked against what is known.

# %%
import matplotlib.pyplot as plt
import numpy as np

import fgrad
import fgrad.scipy.linalg as linalg
from fgrad import nn, optim
from fgrad.scipy.optimize import minimize
from fgrad.scipy.stats import norm

plt.rcParams.update({"figure.dpi": 80, "axes.spines.top": False, "axes.spines.right": False})
rng = np.random.default_rng(0)

# %% [markdown]
# ## A Gaussian process
#
# The length, the height and the noise of the kernel are those of the largest marginal likelihood:
# the gradient goes through a Cholesky factor. `minimize` takes the gradient by itself.

# %%
places = np.sort(rng.uniform(0, 10, 40))
heights = np.sin(places) + 0.2 * rng.normal(size=40)


def kernel(a, b, length, height):
    return height**2 * np.exp(-0.5 * ((a[:, None] - b[None, :]) / length) ** 2)


def evidence(logs):
    """The negative logarithm of the marginal likelihood."""
    length, height, noise = np.exp(logs)
    covariance = kernel(places, places, length, height) + noise**2 * np.eye(40)
    factor = np.linalg.cholesky(covariance)
    whitened = linalg.solve_triangular(factor, heights, lower=True)
    constant = 20 * np.log(2 * np.pi)
    return 0.5 * np.sum(whitened**2) + np.sum(np.log(np.diag(factor))) + constant


found = minimize(evidence, np.zeros(3), method="BFGS")
length, height, noise = np.exp(found.x)
assert 1.0 < length < 3.0 and 0.15 < noise < 0.27

new = np.linspace(-1, 11, 200)
inverse = np.linalg.inv(kernel(places, places, length, height) + noise**2 * np.eye(40))
across = kernel(new, places, length, height)
mean = across @ inverse @ heights
deviation = np.sqrt(height**2 - np.sum(across @ inverse * across, axis=1))

plt.figure(figsize=(7, 3))
plt.fill_between(new, mean - 2 * deviation, mean + 2 * deviation, alpha=0.2, label="95 %")
plt.plot(new, mean, label="mean"), plt.plot(new, np.sin(new), "k:", label="truth")
plt.plot(places, heights, "k.", ms=4), plt.xlabel("place")
plt.legend(), plt.title(f"length {length:.2f}, noise {noise:.2f} (truth 0.20)")
plt.tight_layout()

# %% [markdown]
# ## Hamiltonian Monte Carlo
#
# Four chains of a banana-shaped density, mapped by `vmap`, each step compiled with the gradient in
# it. R-hat compares the chains with each other: 1 says that they agree.


# %%
def log_density(z):
    return -0.5 * z[0] ** 2 - 0.5 * ((z[1] - z[0] ** 2) / 0.5) ** 2


def leapfrog(z, momentum, size, steps):
    slope = fgrad.grad(log_density)
    momentum = momentum + 0.5 * size * slope(z)
    for _ in range(steps):
        z = z + size * momentum
        momentum = momentum + size * slope(z)
    return z, momentum - 0.5 * size * slope(z)


def draw(z, key):
    first, second = fgrad.random.split(key)
    momentum = fgrad.random.normal(first, (2,))
    moved, after = leapfrog(z, momentum, 0.2, 12)
    gain = log_density(moved) - log_density(z) + 0.5 * np.sum(momentum**2 - after**2)
    accepted = np.log(fgrad.random.uniform(second)) < gain
    return np.where(accepted, moved, z), accepted


@fgrad.jit
def chain(z, keys):
    def step(z, key):
        z, accepted = draw(z, key)
        return z, (z, accepted)

    return fgrad.lax.scan(step, z, keys)[1]


keys = fgrad.random.split(fgrad.random.key(1), (4, 2000))
samples, accepted = fgrad.vmap(chain)(rng.normal(size=(4, 2)), keys)
kept = samples[:, 200:]
within = np.mean(np.var(kept, axis=1, ddof=1), axis=0)
between = np.var(np.mean(kept, axis=1), axis=0, ddof=1)
r_hat = np.sqrt(1 + between / within)
assert np.all(r_hat < 1.02) and accepted.mean() > 0.8
assert abs(kept[..., 0].std() - 1.0) < 0.1 and abs(kept[..., 1].mean() - 1.0) < 0.15

left, right = plt.subplots(1, 2, figsize=(8, 3))[1]
left.plot(*kept[:, ::5].reshape(-1, 2).T, ".", ms=2)
title = f"accepted {accepted.mean():.0%}, R-hat {r_hat.max():.3f}"
left.set(title=title, xlabel="first coordinate", ylabel="second")
for row in kept:
    right.plot(row[:300, 1], lw=0.7)
right.set(title="the chains", xlabel="step", ylabel="second coordinate")
plt.tight_layout()

# %% [markdown]
# ## An option, with its Greeks
#
# One million paths; delta, vega, rho and theta are one gradient, by the same draws. For a European
# call all of them are known by a formula, which is differentiated here too.

# %%
draws = rng.normal(size=1_000_000)


def monte_carlo(price, volatility, rate, years):
    drift = (rate - 0.5 * volatility**2) * years
    ends = price * np.exp(drift + volatility * np.sqrt(years) * draws)
    return np.exp(-rate * years) * np.mean(np.maximum(ends - 100.0, 0.0))


def formula(price, volatility, rate, years):
    spread = volatility * np.sqrt(years)
    d = (np.log(price / 100.0) + (rate + 0.5 * volatility**2) * years) / spread
    return price * norm.cdf(d) - 100.0 * np.exp(-rate * years) * norm.cdf(d - spread)


market = (105.0, 0.2, 0.03, 1.0)
greeks = fgrad.jit(fgrad.value_and_grad(monte_carlo, argnums=(0, 1, 2, 3)))
value, sampled = greeks(*market)
exact_value, exact = fgrad.value_and_grad(formula, argnums=(0, 1, 2, 3))(*market)
assert abs(value - exact_value) < 0.1 and np.allclose(sampled, exact, rtol=0.02)
for name, *pair in zip(("delta", "vega", "rho", "minus theta"), sampled, exact, strict=True):
    print(f"{name:12} {pair[0]:9.4f} by paths  {pair[1]:9.4f} by the formula")

prices = np.linspace(60.0, 150.0, 46)
slope = fgrad.grad(formula)
delta = fgrad.vmap(lambda p: slope(p, 0.2, 0.03, 1.0))(prices)
gamma = fgrad.vmap(lambda p: fgrad.grad(slope)(p, 0.2, 0.03, 1.0))(prices)
plt.figure(figsize=(6, 3))
plt.plot(prices, delta, label="delta")
plt.plot(prices, 20 * gamma, label="20 gamma")
plt.plot(market[0], sampled[0], "o", label="delta by paths")
plt.xlabel("price"), plt.legend()
plt.tight_layout()

# %% [markdown]
# ## A neural differential equation
#
# A network is the right-hand side of an equation, and learns the field of a damped pendulum from
# paths alone: the gradient goes through all steps of a Runge-Kutta method.


# %%
def pendulum(z):
    return np.stack([z[1], -np.sin(z[0]) - 0.2 * z[1]])


def solved(field, z, dt, steps):
    path = []
    for _ in range(steps):
        k1 = field(z)
        k2 = field(z + 0.5 * dt * k1)
        k3 = field(z + 0.5 * dt * k2)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + field(z + dt * k3))
        path.append(z)
    return np.stack(path)


def learned(params, z):
    return np.tanh(z @ params["w1"] + params["b1"]) @ params["w2"]


def misfit(params, starts, paths):
    made = fgrad.vmap(lambda z: solved(lambda z: learned(params, z), z, 0.1, 20))(starts)
    return np.mean((made - paths) ** 2)


starts = rng.uniform(-1.5, 1.5, size=(32, 2))
paths = fgrad.jit(fgrad.vmap(lambda z: solved(pendulum, z, 0.1, 20)))(starts)
params = {
    "w1": 0.5 * rng.normal(size=(2, 32)), "b1": np.zeros(32), "w2": 0.1 * rng.normal(size=(32, 2)),
}  # fmt: skip
optimizer = optim.adam(1e-2)
state = optimizer.init(params)


@fgrad.jit
def step(params, state):
    value, slopes = fgrad.value_and_grad(misfit)(params, starts, paths)
    updates, state = optimizer.update(slopes, state, params)
    return optim.apply_updates(params, updates), state, value


losses = []
for _ in range(800):
    params, state, value = step(params, state)
    losses.append(float(value))
assert losses[-1] < 1e-3 * losses[0]

unseen = np.array([1.2, 0.0])
truth = solved(pendulum, unseen, 0.1, 100)
made = solved(lambda z: learned(params, z), unseen, 0.1, 100)
assert abs(made[:60] - truth[:60]).max() < 0.2
left, right = plt.subplots(1, 2, figsize=(8, 3))[1]
left.semilogy(losses), left.set(xlabel="step", ylabel="loss")
right.plot(*truth.T, "k", lw=1)
right.plot(*made.T, "--")
right.set(xlabel="angle", ylabel="speed", title="dashed: the network, five times as long")
plt.tight_layout()

# %% [markdown]
# ## The conductivity of a rod from temperatures
#
# Heat flows through a rod of unknown conductivity; seven thermometers are read over time. The
# simulation is a loop over places and times as one would write it, and the gradient by the 20
# conductivities goes through all of its steps.

# %%
CELLS, TIMES = 20, 1500
middle = (np.arange(CELLS) + 0.5) / CELLS
true_conductivity = 0.15 + 0.2 * (middle > 0.35) * (middle < 0.65)
thermometers = np.arange(1, CELLS, 3)


def temperatures(conductivity):
    heat = np.zeros(CELLS)
    seen = np.zeros((TIMES, len(thermometers)))
    for t in range(TIMES):
        flow = np.zeros(CELLS + 1)
        flow[0] = conductivity[0] * (1.0 - heat[0])  # the left end is held at 1, the right at 0
        for i in range(1, CELLS):
            between = 0.5 * (conductivity[i - 1] + conductivity[i])
            flow[i] = between * (heat[i - 1] - heat[i])
        flow[CELLS] = conductivity[CELLS - 1] * heat[CELLS - 1]
        heat = heat + flow[:-1] - flow[1:]
        seen[t] = heat[thermometers]
    return seen


measured = fgrad.jit(temperatures)(true_conductivity)
measured = measured + 0.001 * rng.normal(size=measured.shape)


def mismatch(logs):
    conductivity = 0.48 * nn.sigmoid(logs)
    rough = np.sum(np.sqrt(np.diff(conductivity) ** 2 + 1e-4))  # jumps are cheap, noise is not
    return np.sum((temperatures(conductivity) - measured) ** 2) / 0.001**2 / 100 + 20.0 * rough


fitted = minimize(mismatch, np.full(CELLS, -0.7), method="L-BFGS-B", options={"maxiter": 300})
conductivity = 0.48 * nn.sigmoid(fitted.x)
error = np.sqrt(np.mean((conductivity - true_conductivity) ** 2))
assert error < 0.02

left, right = plt.subplots(1, 2, figsize=(8, 3))[1]
left.plot(measured, lw=0.8), left.set(xlabel="time", ylabel="temperature", title="what is measured")
right.step(middle, true_conductivity, "k", where="mid", label="truth")
right.step(middle, conductivity, where="mid", label=f"found, error {error:.3f}")
right.set(xlabel="place", ylim=(0, 0.5)), right.legend()
plt.tight_layout()
