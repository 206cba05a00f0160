"""L7. Attention (Vaswani et al. 2017, eq. 1): softmax(q k^T / sqrt(d)) v, with masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.errors import ShapeError
from fgrad.nn.probability import softmax
from fgrad.numpy.promote import as_array, inexact, promote, user_line
from fgrad.trace import Value


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    bias: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Value:
    """For each query, the mean of the values, weighted by softmax(scale query . key + bias).

    Arguments:
        query: an array (..., n, d).
        key: an array (..., m, d).
        value: an array (..., m, e).
        mask: bools that broadcast to (..., n, m): which keys a query sees; a query that sees none
            gives 0.
        bias: numbers that broadcast to (..., n, m), added to the products.
        is_causal: whether query i sees keys 0 ... i only.
        scale: the factor of the products; 1 / sqrt(d) if None.

    Returns:
        An array (..., n, e).

    Raises:
        ShapeError: if there are fewer than two axes, or lengths do not fit.

    Example:
        >>> dot_product_attention(np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0], [3.0]]))
        array([[2.]])
    """
    query, key, value = promote([inexact(x) for x in (query, key, value)])
    _check_lengths(query.shape, key.shape, value.shape)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.matmul(query * scale, np.swapaxes(key, -1, -2))
    if bias is not None:
        scores = scores + as_array(bias).astype(scores.dtype)
    where = None if mask is None else as_array(mask).astype(bool)
    if is_causal:
        before = np.tri(query.shape[-2], key.shape[-2], dtype=bool)
        where = before if where is None else np.logical_and(where, before)
    return np.matmul(softmax(scores, where=where), value)


def _check_lengths(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(
            f"nn.dot_product_attention: query {q}, key {k} and value {v} do not fit: they are "
            "(..., n, d), (..., m, d) and (..., m, e).",
            user_line(),
        )
