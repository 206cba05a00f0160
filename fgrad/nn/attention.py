"""L7. Attention (Vaswani et al. 2017, eq. 1): softmax(q k^T / sqrt(d)) v, with masks."""

from __future__ import annotations

import math
from itertools import zip_longest

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ShapeError
from fgrad.nn.probability import softmax
from fgrad.numpy.promote import as_array, inexact, promote, user_line
from fgrad.trace import Value
from fgrad.typing import ArrayLike


@also_takes("implementation", return_residual=False)
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
) -> Value:
    """For each query and head, the mean of the values, weighted by softmax(scale q . k + bias).

    Layout and arguments are those of `jax.nn.dot_product_attention`: heads stand before the last
    axis.

    Arguments:
        query: an array (..., T, N, H): T queries with N heads of H numbers.
        key: an array (..., S, K, H), where N is a multiple of K: groups of heads share keys.
        value: an array (..., S, K, V).
        bias: numbers that broadcast to (..., N, T, S), added to the products.
        mask: bools that broadcast to (..., N, T, S): which keys a query sees; a query that sees
            none gives 0.
        scale: the factor of the products; 1 / sqrt(H) if None.
        is_causal: whether query i sees keys 0 ... i only.
        query_seq_lengths, key_value_seq_lengths: integers (...): how many queries or keys of a
            sequence count; the others give 0, or are not seen.
        local_window_size: how many keys to the left and to the right of its own place a query sees.

    Returns:
        An array (..., T, N, V).

    Raises:
        ShapeError: if there are fewer than three axes, or lengths do not fit.

    Example:
        >>> q, k, v = np.zeros((1, 1, 2)), np.zeros((2, 1, 2)), np.array([[[1.0]], [[3.0]]])
        >>> dot_product_attention(q, k, v)
        array([[[2.]]])
    """
    query, key, value = promote([inexact(x) for x in (query, key, value)])
    _check_lengths(query.shape, key.shape, value.shape)
    *_, length, heads, size = query.shape
    shared = heads // key.shape[-2]
    query = query * (1 / math.sqrt(size) if scale is None else scale)
    query, key, value = [np.swapaxes(x, -2, -3) for x in (query, key, value)]
    if shared > 1:
        key, value = [np.repeat(x, shared, axis=-3) for x in (key, value)]
    scores = np.matmul(query, np.swapaxes(key, -1, -2))
    if bias is not None:
        scores = scores + as_array(bias).astype(scores.dtype)
    seen = _window(length, key.shape[-2], is_causal, local_window_size)
    for counts, axis in ((query_seq_lengths, -2), (key_value_seq_lengths, -1)):
        if counts is not None:
            counts = np.expand_dims(as_array(counts), (-1, -2, -3))
            place = np.arange(scores.shape[axis])
            seen.append((place[:, None] if axis == -2 else place) < counts)
    if mask is not None:
        seen.append(as_array(mask).astype(bool))
    where = None
    for part in seen:
        where = part if where is None else np.logical_and(where, part)
    return np.swapaxes(np.matmul(softmax(scores, where=where), value), -2, -3)


def _window(
    queries: int, keys: int, is_causal: bool, local: int | tuple[int, int] | None
) -> list[np.ndarray]:
    """The keys that queries see by their distance, as (queries, keys)."""
    left, right = (local, local) if isinstance(local, int) else local or (None, None)
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    right = min(right, 0) if is_causal and right is not None else 0 if is_causal else right
    seen: list[np.ndarray] = []
    if left is not None:
        seen.append(ahead >= -left)
    if right is not None:
        seen.append(ahead <= right)
    return seen


def _check_lengths(q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> None:
    fits = min(len(q), len(k), len(v)) >= 3 and q[-1] == k[-1] and k[-3:-1] == v[-3:-1]
    batches = zip_longest(q[-4::-1], k[-4::-1], v[-4::-1], fillvalue=1)
    fits = fits and all([len({n for n in sizes if n != 1}) <= 1 for sizes in batches])
    if not fits or not k[-2] or q[-2] % k[-2]:
        raise ShapeError(
            f"nn.dot_product_attention: query {q}, key {k} and value {v} do not fit: they are "
            "(..., T, N, H), (..., S, K, H) and (..., S, K, V), N a multiple of K.",
            (*user_line(), ("write", "x[..., None, :]     for one head, np.swapaxes(x, -2, -3)")),
        )
