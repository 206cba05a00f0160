"""Losses of sequences and groups: sums over all alignments, PyTorch's and optax's figures."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import nn

RNG = np.random.default_rng(2)
LOGITS = RNG.normal(size=(3, 5, 4))
LABELS = np.array([[1, 2, 2], [3, 1, 0], [2, 2, 1]])
SHORT = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1]])  # 1 where there is no label
LATE = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 1, 1]])


def _by_alignments(logits: Any, late: Any, labels: Any, short: Any, blank: int) -> Any:
    """The sum over all sequences of classes that collapse to the labels."""
    steps, wanted = int(np.sum(late == 0)), tuple(labels[short == 0])
    logs = nn.log_softmax(logits)
    totals = []
    for path in itertools.product(range(logits.shape[1]), repeat=steps):
        collapsed = [a for a, _ in itertools.groupby(path)]
        if tuple([a for a in collapsed if a != blank]) == wanted:
            totals.append(sum(logs[t, a] for t, a in enumerate(path)))
    return -nn.logsumexp(np.stack(totals))


@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_is_a_sum_over_alignments(blank: int) -> None:
    labels = LABELS if blank == 0 else (LABELS + 1) % 3
    losses = nn.ctc_loss(LOGITS, LATE, labels, SHORT, blank_id=blank)
    rows = zip(LOGITS, LATE, labels, SHORT, strict=True)
    np.testing.assert_allclose(losses, [_by_alignments(*r, blank) for r in rows], rtol=1e-10)


def test_derivatives_of_ctc() -> None:
    def total(x: Any) -> Any:
        return np.sum(nn.ctc_loss(x, LATE, LABELS, SHORT))

    def wanted(x: Any) -> Any:
        rows = zip(LATE, LABELS, SHORT, strict=True)
        return sum(_by_alignments(x[k], *r, 0) for k, r in enumerate(rows))

    slope = fgrad.grad(wanted)(LOGITS)
    np.testing.assert_allclose(fgrad.grad(total)(LOGITS), slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(total))(LOGITS), slope, rtol=1e-9, atol=1e-12)
    assert np.all(slope[LATE == 1] == 0)


def test_forward_probabilities_have_the_shapes_of_optax() -> None:
    losses, blanks, emitted = nn.ctc_loss_with_forward_probs(
        LOGITS.astype(np.float32), LATE, LABELS, SHORT
    )
    assert (losses.dtype, blanks.shape, emitted.shape) == (np.float32, (5, 3, 4), (5, 3, 3))


def test_contrast_of_pairs() -> None:
    x, y = RNG.normal(size=(6, 3)), np.array([0, 0, 1, 1, 2, 0])

    def by_pairs(x: Any) -> Any:
        unit = x / np.sqrt(np.sum(x * x, axis=1, keepdims=True))
        s = unit @ unit.T / 0.5
        found = []
        for i, j in itertools.permutations(range(6), 2):
            if y[i] == y[j]:
                below = np.exp(s[i, j]) + sum(np.exp(s[i, k]) for k in range(6) if y[k] != y[i])
                found.append(-np.log(np.exp(s[i, j]) / below))
        return sum(found) / len(found)

    assert nn.ntxent(x, y, 0.5) == pytest.approx(by_pairs(x))
    slope = fgrad.jit(fgrad.grad(lambda x: nn.ntxent(x, y, 0.5)))(x)
    np.testing.assert_allclose(slope, fgrad.grad(by_pairs)(x), rtol=1e-9)


@pytest.mark.parametrize(
    "arguments",
    [
        (LOGITS[0], LATE, LABELS, SHORT), (LOGITS, LATE[:, :4], LABELS, SHORT),
        (LOGITS, LATE, LABELS[:2], SHORT[:2]), (LOGITS, LATE, LABELS, SHORT[:, :2]),
        (LOGITS, LATE, LABELS * 1.0, SHORT), (LOGITS * 1j, LATE, LABELS, SHORT),
        (LOGITS[:, :0], LATE[:, :0], LABELS, SHORT),
    ],
)  # fmt: skip
def test_what_ctc_refuses(arguments: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="ctc_loss"):
        nn.ctc_loss(*arguments)


@pytest.mark.parametrize("x, y", [(LOGITS, LABELS), (LOGITS[0], LABELS[0]), (1j * LOGITS[0], [0])])
def test_what_ntxent_refuses(x: Any, y: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="ntxent"):
        nn.ntxent(x, y)
