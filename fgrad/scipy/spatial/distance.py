"""L7. `scipy.spatial.distance` with derivatives: one formula for each metric.

    import fgrad.scipy.spatial.distance as sd
    fgrad.grad(lambda x: sd.cdist(x, y).sum())(x)

A formula takes vectors in the last axis of both operands, so that `pdist` and `cdist` are the same
formulas of stacked vectors. Where two vectors are equal a distance has derivative 0. On plain
arrays these are SciPy's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops import checked
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import special as sp
from fgrad.scipy._either import either, others, refusal
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, P, PyTree, R

plain = lazy_module("scipy.spatial.distance")

__getattr__ = others(__name__, plain)

Formula: TypeAlias = Callable[..., Value]
Metric: TypeAlias = str | Callable[..., PyTree]


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


# --- formulas: vectors in the last axis


def _sum(x: PyTree, w: Value | None) -> Value:
    return np.sum(x if w is None else x * w, axis=-1)


def _root(x: Value) -> Value:
    """The square root, whose derivative at 0 is 0."""
    none = x == 0
    return np.where(none, 0.0, np.sqrt(np.where(none, 1.0, x)))


def _over(x: Value, y: Value) -> Value:
    """x / y, and 0 where y is 0."""
    none = y == 0
    return np.where(none, 0.0, x / np.where(none, 1.0, y))


def _minkowski(u: Value, v: Value, p: PyTree = 2, w: Value | None = None) -> Value:
    if not hasattr(p, "builder") and np.isinf(p):
        return _chebyshev(u, v, w)
    total = _sum(np.abs(u - v) ** p, w)
    none = total == 0
    return np.where(none, 0.0, np.where(none, 1.0, total) ** (1.0 / p))


def _chebyshev(u: Value, v: Value, w: Value | None = None) -> Value:
    away = np.abs(u - v)
    return np.max(away if w is None else np.where(w > 0, away, 0.0), axis=-1)


def _squared(u: Value, v: Value, w: Value | None = None) -> Value:
    return _sum((u - v) ** 2, w)


def _seuclidean(u: Value, v: Value, V: Value) -> Value:
    return _root(np.sum((u - v) ** 2 / V, axis=-1))


def _mahalanobis(u: Value, v: Value, VI: Value) -> Value:
    away = u - v
    return _root(np.sum((away @ VI) * away, axis=-1))


def _cosine(u: Value, v: Value, w: Value | None = None) -> Value:
    cosine = _sum(u * v, w) / np.sqrt(_sum(u * u, w) * _sum(v * v, w))
    return np.clip(1.0 - cosine, 0.0, 2.0)


def _correlation(u: Value, v: Value, w: Value | None = None, centered: bool = True) -> Value:
    if centered:
        total = u.shape[-1] if w is None else np.sum(w, axis=-1)
        u = u - (_sum(u, w) / total)[..., None]
        v = v - (_sum(v, w) / total)[..., None]
    return _cosine(u, v, w)


def _braycurtis(u: Value, v: Value, w: Value | None = None) -> Value:
    return _sum(np.abs(u - v), w) / _sum(np.abs(u + v), w)


def _canberra(u: Value, v: Value, w: Value | None = None) -> Value:
    return _sum(_over(np.abs(u - v), np.abs(u) + np.abs(v)), w)


def _hamming(u: Value, v: Value, w: Value | None = None) -> Value:
    other = (u != v) * 1.0
    total = u.shape[-1] if w is None else np.sum(w, axis=-1)
    return _sum(other, w) / total


def _jaccard(u: Value, v: Value, w: Value | None = None) -> Value:
    other, any_ = (u != 0) != (v != 0), (u != 0) | (v != 0)
    return _over(_sum(other * 1.0, w), _sum(any_ * 1.0, w))


def _counts(u: Value, v: Value, w: Value | None) -> tuple[Value, Value, Value, Value]:
    """How many are neither, in v alone, in u alone, in both."""
    pairs = ((1 - u) * (1 - v), (1 - u) * v, u * (1 - v), u * v)
    a, b, c, d = [_sum(pair, w) for pair in pairs]
    return a, b, c, d


def _yule(u: Value, v: Value, w: Value | None = None) -> Value:
    neither, right, left, both = _counts(u, v, w)
    half = left * right
    return _over(2.0 * half, np.where(half == 0, 1.0, both * neither + half))


def _dice(u: Value, v: Value, w: Value | None = None) -> Value:
    _, right, left, both = _counts(u, v, w)
    return (left + right) / (2.0 * both + left + right)


def _rogerstanimoto(u: Value, v: Value, w: Value | None = None) -> Value:
    neither, right, left, both = _counts(u, v, w)
    return 2.0 * (left + right) / (both + neither + 2.0 * (left + right))


def _russellrao(u: Value, v: Value, w: Value | None = None) -> Value:
    total = u.shape[-1] if w is None else np.sum(w, axis=-1)
    return (total - _counts(u, v, w)[3]) / total


def _sokalsneath(u: Value, v: Value, w: Value | None = None) -> Value:
    _, right, left, both = _counts(u, v, w)
    twice = 2.0 * (left + right)
    return twice / (both + twice)


def _jensenshannon(
    p: Value, q: Value, base: ArrayLike | None = None, axis: int = -1, keepdims: bool = False
) -> Value:
    p = p / np.sum(p, axis=axis, keepdims=True)
    q = q / np.sum(q, axis=axis, keepdims=True)
    middle = (p + q) / 2.0
    total = np.sum(sp.rel_entr(p, middle) + sp.rel_entr(q, middle), axis=axis, keepdims=keepdims)
    return _root(np.maximum(total / (2.0 if base is None else 2.0 * np.log(base)), 0.0))


FORMULAS: dict[str, Formula] = {
    "braycurtis": _braycurtis,
    "canberra": _canberra,
    "chebyshev": _chebyshev,
    "cityblock": lambda u, v, w=None: _sum(np.abs(u - v), w),
    "correlation": _correlation,
    "cosine": _cosine,
    "dice": _dice,
    "euclidean": lambda u, v, w=None: _root(_squared(u, v, w)),
    "hamming": _hamming,
    "jaccard": _jaccard,
    "jensenshannon": _jensenshannon,
    "mahalanobis": _mahalanobis,
    "minkowski": _minkowski,
    "rogerstanimoto": _rogerstanimoto,
    "russellrao": _russellrao,
    "seuclidean": _seuclidean,
    "sokalsneath": _sokalsneath,
    "sqeuclidean": _squared,
    "yule": _yule,
}
OF_TRUTH = frozenset(["dice", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule"])
_NAMES = {  # SciPy's further names of metrics
    "braycurtis": "bc", "canberra": "", "chebyshev": "chebychev cheby cheb ch",
    "cityblock": "cblock cb c", "correlation": "co", "cosine": "cos", "euclidean": "euclid eu e",
    "hamming": "matching hamm ha h", "jaccard": "jacc ja j", "jensenshannon": "js",
    "mahalanobis": "mahal mah", "minkowski": "mi m pnorm", "seuclidean": "se s",
    "sqeuclidean": "sqe sqeuclid",
}  # fmt: skip
ALIASES = {short: name for name, text in _NAMES.items() for short in text.split()}


# --- functions of two vectors


def _vector(name: str, x: ArrayLike) -> Value:
    value = as_operand(x)
    if value.dtype.kind == "c":
        raise DtypeError(f"scipy.spatial.distance.{name} takes real numbers.", user_line())
    if len(value.shape) != 1:
        raise ShapeError(
            f"scipy.spatial.distance.{name} takes vectors, not shape {value.shape}.",
            (*user_line(), ("write", "cdist(a, b), or fgrad.vmap")),
        )
    return inexact(value)


def _weights(name: str, w: ArrayLike | None) -> Value | None:
    """Weights, none of which is known to be negative."""
    if w is None:
        return None
    weights = _vector(name, w)
    plain_weights = concrete(weights)
    if plain_weights is not None and (np.asarray(plain_weights) < 0).any():
        write = ("write", "weights of at least 0")
        raise ArgumentError(
            f"scipy.spatial.distance.{name}: negative weights.", (*user_line(), write)
        )
    return weights


def _power(name: str, p: ArrayLike) -> None:
    """Refuse the power of a norm that is known to be 0 or less."""
    known = concrete(p)
    if known is not None and not np.asarray(known) > 0:
        raise ArgumentError(
            f"scipy.spatial.distance.{name}: p={known}.", (*user_line(), ("write", "p > 0"))
        )


def _weighted(name: str) -> Callable[..., Value]:
    """The function of two vectors and weights of this name."""

    def function(u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None) -> Value:
        return FORMULAS[name](_vector(name, u), _vector(name, v), w=_weights(name, w))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The distance `{name}` of two vectors, with weights `w`, as in SciPy."
    return _either(function)


_FIRST = ("braycurtis", "canberra", "chebyshev", "cityblock", "cosine", "dice", "euclidean",
          "hamming")  # fmt: skip
_LAST = ("jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "sqeuclidean", "yule")
braycurtis, canberra, chebyshev, cityblock, cosine, dice, euclidean, hamming = [
    _weighted(name)
    for name in [
        "braycurtis",
        "canberra",
        "chebyshev",
        "cityblock",
        "cosine",
        "dice",
        "euclidean",
        "hamming",
    ]
]
jaccard, rogerstanimoto, russellrao, sokalsneath, sqeuclidean, yule = [
    _weighted(name) for name in _LAST
]


@_either
def minkowski(u: ArrayLike, v: ArrayLike, p: ArrayLike = 2, w: ArrayLike | None = None) -> Value:
    """The p-norm of the difference of two vectors, with weights."""
    weights = _weights("minkowski", w)
    _power("minkowski", p)
    return _minkowski(_vector("minkowski", u), _vector("minkowski", v), p, weights)


@_either
def correlation(
    u: ArrayLike, v: ArrayLike, w: ArrayLike | None = None, centered: bool = True
) -> Value:
    """One minus the correlation of two vectors, with weights."""
    weights = _weights("correlation", w)
    return _correlation(_vector("correlation", u), _vector("correlation", v), weights, centered)


@_either
def seuclidean(u: ArrayLike, v: ArrayLike, V: ArrayLike) -> Value:
    """The distance of two vectors, each component in units of its deviation."""
    return _seuclidean(*[_vector("seuclidean", x) for x in (u, v, V)])


@_either
def mahalanobis(u: ArrayLike, v: ArrayLike, VI: ArrayLike) -> Value:
    """The distance of two vectors by the inverse of a covariance."""
    return _mahalanobis(
        _vector("mahalanobis", u), _vector("mahalanobis", v), np.atleast_2d(as_operand(VI))
    )


@_either
def jensenshannon(
    p: ArrayLike,
    q: ArrayLike,
    base: ArrayLike | None = None,
    *,
    axis: int = 0,
    keepdims: bool = False,
) -> Value:
    """The distance of Jensen and Shannon of two distributions."""
    return _jensenshannon(inexact(as_operand(p)), inexact(as_operand(q)), base, axis, keepdims)


# --- of many vectors


def _rows(name: str, x: ArrayLike) -> Value:
    value = as_operand(x)
    if len(value.shape) != 2:
        raise ShapeError(
            f"scipy.spatial.distance.{name} takes two dimensions, not shape {value.shape}.",
            user_line(),
        )
    if value.dtype.kind == "c":
        raise DtypeError(f"scipy.spatial.distance.{name} takes real numbers.", user_line())
    return value


def _metric(name: str, metric: Metric, all_rows: Value, given: dict[str, PyTree]) -> Formula:
    """The formula of a metric, with SciPy's defaults, which come from all vectors."""
    if callable(metric):
        own = user_form(metric)
        return lambda u, v: own(u, v, **given)
    wanted = metric.lower()
    key = ALIASES.get(wanted, wanted)
    if key not in FORMULAS:
        rows = (*user_line(), ("write", ", ".join(FORMULAS)))
        raise ArgumentError(f"scipy.spatial.distance.{name}: metric={metric!r}.", rows)
    options = {k: inexact(as_operand(v)) for k, v in given.items() if v is not None}
    if "w" in options:
        _weights(name, given["w"])
    if key == "seuclidean" and "V" not in options:
        options["V"] = np.var(all_rows, axis=0, ddof=1)
    if key == "mahalanobis" and "VI" not in options:
        spread = np.atleast_2d(np.cov(all_rows.T))
        options["VI"] = np.linalg.inv(spread).T
    if key == "minkowski" and "p" in given:
        options["p"] = given["p"]
        _power(name, given["p"])
    formula = FORMULAS[key]
    if key in OF_TRUTH:
        return lambda u, v: formula((u != 0) * 1.0, (v != 0) * 1.0, **options)
    return lambda u, v: formula(u, v, **options)


def _as_doubles(x: Value) -> Value:
    return x.astype(np.float64)


@_either
def cdist(
    XA: ArrayLike,
    XB: ArrayLike,
    metric: Metric = "euclidean",
    *,
    out: None = None,
    **kwargs: PyTree,
) -> Value:
    """The distances of all rows of one matrix to all of another, by any of SciPy's metrics or a
    function of two vectors.

    Example:
        >>> cdist(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
        array([[5., 1.]])
    """
    _no_out("cdist", out)
    a, b = _as_doubles(_rows("cdist", XA)), _as_doubles(_rows("cdist", XB))
    if a.shape[1] != b.shape[1]:
        raise ShapeError(
            f"scipy.spatial.distance.cdist: rows of {a.shape[1]} and {b.shape[1]} numbers.",
            user_line(),
        )
    formula = _metric("cdist", metric, np.concatenate([a, b]), kwargs)
    if callable(metric):
        return vmap(vmap(formula, (None, 0)), (0, None))(a, b)
    return formula(a[:, None, :], b[None, :, :])


@_either
def pdist(
    X: ArrayLike, metric: Metric = "euclidean", *, out: None = None, **kwargs: PyTree
) -> Value:
    """The distances of the rows of a matrix to each other, row by row of the upper triangle.

    Example:
        >>> pdist(np.array([[0.0], [1.0], [3.0]]))
        array([1., 3., 2.])
    """
    _no_out("pdist", out)
    x = _as_doubles(_rows("pdist", X))
    formula = _metric("pdist", metric, x, kwargs)
    left, right = np.triu_indices(x.shape[0], 1)
    if callable(metric):
        return vmap(formula)(x[left], x[right])
    return formula(x[left], x[right])


def _no_out(name: str, out: None) -> None:
    if out is not None:
        raise refusal(f"scipy.spatial.distance.{name} with out", "it is written.", f"{name}(...)")


def _require_distances(x: Value) -> None:
    symmetric = ValueError("Distance matrix 'X' must be symmetric.")
    checked.require(np.all(x == np.transpose(x)), checked.text_of(symmetric))
    zero = ValueError("Distance matrix 'X' diagonal must be zero.")
    checked.require(np.all(np.diagonal(x) == 0), checked.text_of(zero))


@_either
def squareform(X: ArrayLike, force: str = "no", checks: bool = True) -> Value:
    """The symmetric matrix of the distances in a vector, or the other way round.

    Raises:
        ValueError: a matrix is not symmetric, or its diagonal not zero, unless `checks` is False.

    Example:
        >>> squareform(np.array([1.0, 3.0, 2.0]))
        array([[0., 1., 3.],
               [1., 0., 2.],
               [3., 2., 0.]])
    """
    x = as_operand(X)
    rank = len(x.shape)
    wanted = force.lower()
    if wanted in ("tomatrix", "tovector") and rank != (1 if wanted == "tomatrix" else 2):
        raise ShapeError(f"squareform: force={force!r} for shape {x.shape}.", user_line())
    if rank == 2:
        if x.shape[0] != x.shape[1]:
            raise ShapeError(
                f"squareform: the matrix of shape {x.shape} is not square.", user_line()
            )
        if checks:
            _require_distances(stop_gradient(x))
        return x[np.triu_indices(x.shape[0], 1)]
    if rank != 1:
        raise ShapeError(f"squareform takes a vector or a matrix, not {x.shape}.", user_line())
    n = (1 + math.isqrt(1 + 8 * x.shape[0])) // 2
    if n * (n - 1) // 2 != x.shape[0]:
        raise ShapeError(f"squareform: no matrix has {x.shape[0]} distances.", user_line())
    left, right = np.triu_indices(n, 1)
    which = np.full((n, n), x.shape[0])
    which[left, right] = which[right, left] = np.arange(x.shape[0])
    return np.concatenate([x, np.zeros(1, x.dtype)])[which]


@_either
def directed_hausdorff(
    u: ArrayLike, v: ArrayLike, rng: object = 0, *, seed: object = None
) -> tuple[PyTree, PyTree, PyTree]:
    """The greatest distance of a row of u to the nearest row of v, and which rows these are."""
    away = cdist(u, v)
    nearest = np.min(away, axis=1)
    row = np.argmax(nearest)
    return np.max(nearest), row, np.argmin(away, axis=1)[row]


__dir__ = names_shown(__name__)
