"""L7. Losses of sequences and of groups: connectionist temporal classification, NT-Xent.

Forward probabilities of CTC (Graves et al. 2006), with a blank between labels, y_n the n-th label:

    emit(t, n)  = P(t, y_n) (emit(t-1, n) + open(t-1, n-1))
    blank(t, n) = P(t, blank) (blank(t-1, n) + emit(t-1, n))
    open(t, n)  = blank(t, n) + emit(t, n), without the latter where y_(n+1) = y_n

The names and arguments are those of optax.
"""

from __future__ import annotations

import numpy as np

from fgrad import lax
from fgrad.errors import DtypeError, ShapeError
from fgrad.nn.probability import log_softmax, logsumexp, one_hot
from fgrad.numpy.promote import as_array, convert, inexact, user_line
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree


def ctc_loss_with_forward_probs(
    logits: ArrayLike,
    logit_paddings: ArrayLike,
    labels: ArrayLike,
    label_paddings: ArrayLike,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> tuple[Value, Value, Value]:
    """`ctc_loss`, and the logarithms of the forward probabilities at each time.

    Arguments:
        logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon: as in `ctc_loss`.

    Returns:
        The losses (examples), those of blanks (times, examples, labels + 1), and of labels
        (times, examples, labels).

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> logits, none = np.zeros((1, 2, 3)), np.zeros((1, 2))
        >>> loss, blanks, emitted = ctc_loss_with_forward_probs(logits, none, [[1]], none[:, :1])
        >>> blanks.shape, emitted.shape
        ((2, 1, 2), (2, 1, 1))
    """
    x, y = _sequences(logits, logit_paddings, labels, label_paddings)
    examples, _, classes = x.shape
    if not -classes <= blank_id < classes:
        raise ShapeError(f"nn.ctc_loss: blank_id={blank_id} of {classes} classes.", user_line())
    never = x.dtype.type(log_epsilon)
    count = y.shape[1]
    absent, over = [convert(as_array(v), x.dtype) for v in (label_paddings, logit_paddings)]
    logs = np.transpose(log_softmax(x), (1, 0, 2))
    of_labels = np.einsum("tbk,bnk->tbn", logs, one_hot(y, classes, x.dtype))
    same = np.pad((y[:, :-1] == y[:, 1:]).astype(x.dtype), [(0, 0), (0, 1)])

    def joined(blank: Value, emit: Value) -> Value:
        return np.concatenate([blank[:, :1], np.logaddexp(blank[:, 1:], emit)], axis=-1)

    def step(state: PyTree, given: PyTree) -> PyTree:
        blank, emit = state
        of_label, of_blank, past = given
        opened = joined(blank, emit + never * same)
        new = np.logaddexp(opened[:, :-1] + of_label, emit + of_label)
        rest = joined(opened + of_blank, emit + of_blank + never * (1 - same))
        past = past[:, None]
        kept = past * blank + (1 - past) * rest, past * emit + (1 - past) * new
        return kept, kept

    start = np.full((examples, count + 1), never)
    first = np.concatenate([np.zeros((examples, 1), x.dtype), start[:, 1:]], axis=1)
    scanned = (of_labels, logs[:, :, blank_id, None], np.transpose(over))
    _, (blanks, emitted) = lax.scan(step, (first, start[:, 1:]), scanned)
    last = joined(blanks[-1], emitted[-1])
    blanks = np.concatenate([blanks[:-1], last[None]])
    ends = one_hot((count - np.sum(absent, axis=1)).astype(np.int64), count + 1, x.dtype)
    return -np.sum(last * ends, axis=1), blanks, emitted


def _sequences(
    logits: ArrayLike, logit_paddings: ArrayLike, labels: ArrayLike, label_paddings: ArrayLike
) -> tuple[Value, Value]:
    """The checked scores and labels."""
    x, y = inexact(logits), as_array(labels)
    if y.dtype.kind not in "iu" or x.dtype.kind != "f":
        raise DtypeError(
            f"nn.ctc_loss takes real logits and integer labels, not {x.dtype} and {y.dtype}.",
            user_line(),
        )
    shapes = [as_array(v).shape for v in (logit_paddings, label_paddings)]
    fits = len(x.shape) == 3 and len(y.shape) == 2 and x.shape[0] == y.shape[0]
    if not fits or shapes != [x.shape[:2], y.shape] or not x.shape[1]:
        raise ShapeError(
            f"nn.ctc_loss: logits of shape {x.shape}, labels of shape {y.shape}, paddings of "
            f"shapes {shapes[0]} and {shapes[1]}.",
            (*user_line(), ("write", "(b, t, k), (b, n), (b, t) and (b, n)")),
        )
    return x, y


def ctc_loss(
    logits: ArrayLike,
    logit_paddings: ArrayLike,
    labels: ArrayLike,
    label_paddings: ArrayLike,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> Value:
    """-log of the probability of a sequence of labels, over all ways to place it in time.

    Arguments:
        logits: scores of classes (examples, times, classes), of which one is the blank.
        logit_paddings: (examples, times): 1 where a time is not there, 0 elsewhere.
        labels: integers (examples, labels).
        label_paddings: (examples, labels): 0 for labels, then 1 where there is none.
        blank_id: the class of blanks.
        log_epsilon: stands for the logarithm of 0.

    Returns:
        The losses (examples).

    Raises:
        ShapeError, DtypeError: if shapes or dtypes do not fit.

    Example:
        >>> none = np.zeros((1, 2))
        >>> ctc_loss(np.zeros((1, 2, 3)), none, [[1]], none[:, :1]).round(6)
        array([1.098612])
    """
    return ctc_loss_with_forward_probs(
        logits, logit_paddings, labels, label_paddings, blank_id=blank_id, log_epsilon=log_epsilon
    )[0]


def ntxent(embeddings: ArrayLike, labels: ArrayLike, temperature: ArrayLike = 0.07) -> Value:
    """The contrastive loss of Chen et al. (2020): the mean of -log of the probability of a pair
    with one label against all pairs with another one.

    Arguments:
        embeddings: real vectors (examples, features).
        labels: a label of each example (examples).
        temperature: what cosines are divided by.

    Raises:
        ShapeError: if shapes do not fit.

    Example:
        >>> ntxent(np.array([[1.0], [2.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])).round(6)
        np.float64(1.098612)
    """
    x, y = inexact(embeddings), as_array(labels)
    if len(x.shape) != 2 or y.shape != x.shape[:1] or x.dtype.kind != "f":
        raise ShapeError(
            f"nn.ntxent: {x.dtype} embeddings of shape {x.shape}, labels of shape {y.shape}.",
            (*user_line(), ("write", "real embeddings (n, features) and labels (n,)")),
        )
    square = np.sum(x * x, axis=1, keepdims=True)
    least = np.finfo(x.dtype).eps
    some = square > least**2
    unit = x / np.where(some, np.sqrt(np.where(some, square, 1)), least)
    scores = unit @ unit.T / convert(as_array(temperature), x.dtype)
    alike = y[:, None] == y[None, :]
    others = logsumexp(scores, axis=1, keepdims=True, where=np.logical_not(alike))
    pairs = np.logical_and(alike, ~np.eye(x.shape[0], dtype=bool))
    terms = np.where(pairs, np.logaddexp(scores, others) - scores, 0)
    return np.sum(terms) / np.sum(pairs).astype(x.dtype)
