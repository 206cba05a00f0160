"""Phylogeny: the lengths of a tree's branches from sequences, by Felsenstein's pruning.

    python examples/gallery/phylogeny.py

Likelihoods of the four bases go from the leaves to the root; along a branch they are multiplied by
the exponential of Kimura's rate matrix. Lengths and rates are those of the greatest likelihood.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.linalg import expm
from fgrad.scipy.optimize import minimize

# Nodes 0 ... 4 are the leaves; each row is (parent, child, child), from the leaves to the root.
JOINS = ((5, 0, 1), (6, 3, 4), (7, 2, 6), (8, 5, 7))
LENGTHS = np.array([0.1, 0.25, 0.3, 0.15, 0.2, 0.12, 0.08, 0.1])
KAPPA = 3.0  # how much likelier transitions (A-G, C-T) are
SITES = 2000


def rates(kappa: Any) -> Any:
    """Kimura's rates, one change for each unit of length."""
    q = np.ones((4, 4))
    for i, j in ((0, 1), (2, 3)):  # A, G, C, T
        q[i, j] = kappa
        q[j, i] = kappa
    for i in range(4):
        q[i, i] = 0.0
        q[i, i] = -np.sum(q[i])
    return q / (kappa + 2.0)


def evolved(rng: np.random.Generator) -> np.ndarray:
    """Sequences at the leaves, drawn from root to leaves."""
    bases = np.zeros((9, SITES), int)
    bases[8] = rng.integers(0, 4, SITES)
    steps = [expm(t * rates(KAPPA)) for t in LENGTHS]
    for parent, *children in reversed(JOINS):
        for child in children:
            chance = steps[child][bases[parent]].cumsum(axis=1)
            draw = rng.random((SITES, 1))
            bases[child] = np.minimum((draw > chance).sum(axis=1), 3)
    return bases[:5]


def log_likelihood(p: Any, leaves: np.ndarray) -> Any:
    """Of the logarithms of eight lengths, and of kappa."""
    lengths, q = np.exp(p[:8]), rates(np.exp(p[8]))
    partial = {k: np.eye(4)[leaves[k]] for k in range(5)}
    for parent, left, right in JOINS:
        steps = [expm(lengths[k] * q) for k in (left, right)]
        partial[parent] = (partial[left] @ steps[0].T) * (partial[right] @ steps[1].T)
    return np.sum(np.log(partial[8].mean(axis=1)))


def main() -> None:
    """Draw sequences, and find the tree's lengths again."""
    begin = time.perf_counter()
    leaves = evolved(np.random.default_rng(5))

    def loss(p: Any) -> Any:
        return -log_likelihood(p, leaves) / SITES

    start = np.full(9, np.log(0.2))
    gradient, e, step = fgrad.grad(loss)(start), np.cos(np.arange(9)), 1e-5
    difference = (loss(start + step * e) - loss(start - step * e)) / (2 * step)
    wrong = abs(gradient @ e - difference) / abs(difference)
    found = minimize(loss, start, method="L-BFGS-B", options={"ftol": 1e-13})
    lengths, kappa = np.exp(found.x[:8]), np.exp(found.x[8])
    # The root's place on its branch is not determined: only the sum of the two lengths is.
    sums = np.append(lengths[[0, 1, 2, 3, 4, 6]], lengths[5] + lengths[7])
    true = np.append(LENGTHS[[0, 1, 2, 3, 4, 6]], LENGTHS[5] + LENGTHS[7])
    print(f"lengths {sums.round(3)}, kappa {kappa:.2f}")
    print(f"gradient error {wrong:.1e}, error of the lengths {np.max(abs(sums - true)):.3f}")
    assert wrong < 1e-6 and np.max(abs(sums - true)) < 0.05 and abs(kappa - KAPPA) < 0.5
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
