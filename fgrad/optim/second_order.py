"""L7. L-BFGS, and searches along lines: optimisers that call the loss again.

    optimizer = lbfgs()
    value, gradient = fgrad.value_and_grad(loss)(params)
    updates, state = optimizer.update(
        gradient, state, params, value=value, grad=gradient, value_fn=loss
    )

With s and y the last changes of parameters and gradients, rho = 1 / <s, y> and V = 1 - rho y s^T,
the inverse Hessian is H = V^T H' V + rho s s^T, begun with <s, y> / <y, y> (Nocedal and Wright
2006, algorithm 7.4).  A step t along u is taken where the loss decreases enough and its slope is
small:

    f(t) <= f(0) + slope_rtol t f'(0)        |f'(t)| <= curv_rtol |f'(0)|

The names and arguments are those of optax.  <a, b> is the real part for complex parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad import lax, tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError
from fgrad.numpy.promote import as_array, convert, dtype_of
from fgrad.ops.complex import real_dtype
from fgrad.optim.base import (
    GradientTransformation,
    Params,
    ScalarOrSchedule,
    Updates,
    chain,
    check_structure,
    first_count,
    scale,
    scale_by_learning_rate,
    scaled,
    zero_updates,
)
from fgrad.optim.wrappers import chosen
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.grad import value_and_grad
from fgrad.typing import ArrayLike, PyTree

Loss = Callable[..., PyTree]


def _inner(a: PyTree, b: PyTree) -> PyTree:
    """The real part of the inner product of two trees."""
    parts = [
        np.sum(np.real(np.conj(x) * y)) for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True)
    ]
    return sum(parts[1:], parts[0]) if parts else np.float64(0.0)


def _plus(a: PyTree, factor: ArrayLike, b: PyTree) -> PyTree:
    """a + factor b, in the dtypes of `a`."""
    return tree.map(
        lambda x, y: as_array(x) + scaled(convert(as_array(y), dtype_of(x)), factor), a, b
    )


# --- the inverse Hessian ------------------------------------------------------------------------


class LbfgsState(NamedTuple):
    """The number of steps, the last parameters and gradients, and their changes before, in arrays
    with one more axis, the oldest first; `weights` are 1 / <s, y>."""

    count: Value
    params: Params
    updates: Updates
    diff_params: PyTree
    diff_updates: PyTree
    weights: Value


@pickles_as_call
def scale_by_lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True
) -> GradientTransformation:
    """Gradients times the inverse Hessian that follows from the last steps; needs the parameters.

    Arguments:
        memory_size: how many steps are kept.
        scale_init_precond: whether the inverse Hessian before them is <s, y> / <y, y> and not 1,
            and the first step at most 1 long.

    Raises:
        ArgumentError: if `memory_size` is not positive.

    Example:
        >>> t = scale_by_lbfgs()
        >>> w = np.array([3.0, 4.0])
        >>> t.update(w, t.init(w), w)[0]
        array([0.6, 0.8])
    """
    if memory_size < 1:
        raise ArgumentError(f"optim.scale_by_lbfgs: memory_size={memory_size}.")

    def init(params: Params) -> LbfgsState:
        none = zero_updates(params)
        many = tree.map(lambda p: np.zeros((memory_size, *np.shape(p)), dtype_of(p)), params)
        kinds = [real_dtype(dtype_of(p)) for p in tree.leaves(params)]
        weights = np.zeros(memory_size, np.result_type(*kinds) if kinds else np.float64)
        return LbfgsState(first_count(), none, none, many, many, weights)

    def update(updates: Updates, state: LbfgsState, params: Params | None = None) -> PyTree:
        check_structure(updates, params, "scale_by_lbfgs")
        later = state.count > 0
        s, y = [
            tree.map(lambda x, x0: np.where(later, x - x0, 0 * x), new, old)
            for new, old in ((params, state.params), (updates, state.updates))
        ]
        curvature, size = _inner(y, s), _inner(y, y)
        weight = np.where(curvature == 0, 0, 1 / np.where(curvature == 0, 1, curvature))
        memory = [
            tree.map(_pushed, kept, new)
            for kept, new in (
                (state.diff_params, s), (state.diff_updates, y), (state.weights, weight)
            )
        ]  # fmt: skip
        first: PyTree = 1.0
        if scale_init_precond:
            norm = np.sqrt(_inner(updates, updates))
            short = 1 / np.maximum(norm, 1)
            first = np.where(
                later, np.where(size > 0, curvature / np.where(size > 0, size, 1), 1), short
            )
        step = _times_inverse(updates, memory, first)
        return step, LbfgsState(state.count + 1, params, updates, *memory)

    return GradientTransformation(init, update)


def _pushed(kept: Value, new: ArrayLike) -> Value:
    """The memory without its oldest entry, and with a new one."""
    return np.concatenate([kept[1:], convert(as_array(new), kept.dtype)[None]])


def _times_inverse(gradient: PyTree, memory: PyTree, first: PyTree) -> PyTree:
    """The inverse Hessian times a gradient, by two loops over the memory."""

    def back(q: PyTree, given: PyTree) -> PyTree:
        s, y, rho = given
        alpha = rho * _inner(s, q)
        return _plus(q, -alpha, y), alpha

    def forth(q: PyTree, given: PyTree) -> PyTree:
        (s, y, rho), alpha = given
        return _plus(q, alpha - rho * _inner(y, q), s), None

    start = tree.map(as_array, gradient)
    q, alphas = lax.scan(back, start, tuple(memory), reverse=True)
    q = tree.map(lambda x: scaled(x, first), q)
    return lax.scan(forth, q, (tuple(memory), alphas))[0]


# --- searches along lines -----------------------------------------------------------------------


class LinesearchState(NamedTuple):
    """The last rate, and the value and gradient of the loss where it led; the value is infinite
    before the first step."""

    learning_rate: PyTree
    value: PyTree
    grad: Updates


class _Trial(NamedTuple):
    """A rate, and the value, the gradient and the slope there."""

    rate: PyTree
    value: PyTree
    grad: PyTree
    slope: PyTree


class _Line:
    """The loss along a line."""

    def __init__(
        self, loss: Loss, params: Params, direction: Updates, value: ArrayLike, grad: Updates
    ) -> None:
        self.loss, self.params, self.direction = loss, params, direction
        dtypes = [real_dtype(dtype_of(p)) for p in tree.leaves(params)]
        self.dtype = np.result_type(as_array(value).dtype, *dtypes)
        slope = _inner(grad, direction)
        self.start = self._trial(0.0, value, grad, slope)

    def _trial(self, rate: ArrayLike, value: ArrayLike, grad: PyTree, slope: ArrayLike) -> _Trial:
        numbers = [convert(as_array(x), self.dtype) for x in (rate, value, slope)]
        return _Trial(numbers[0], numbers[1], tree.map(as_array, grad), numbers[2])

    def at(self, rate: Value) -> _Trial:
        """The loss at a rate."""
        value, grad = value_and_grad(self.loss)(_plus(self.params, rate, self.direction))
        return self._trial(rate, value, grad, _inner(grad, self.direction))

    def decreases(self, there: _Trial, rtol: float) -> Value:
        """Whether the loss is low enough; NaN is not."""
        return there.value <= self.start.value + rtol * there.rate * self.start.slope


def _searching(
    name: str, initial: float, search: Callable[[_Line, Value], _Trial]
) -> GradientTransformation:
    """The transformation that makes a step of the rate that `search` finds."""

    def init(params: Params) -> LinesearchState:
        kinds = [real_dtype(dtype_of(p)) for p in tree.leaves(params)]
        dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        return LinesearchState(dtype.type(initial), dtype.type(math.inf), zero_updates(params))

    def update(
        updates: Updates,
        state: LinesearchState,
        params: Params | None = None,
        *,
        value: ArrayLike,
        grad: Updates,
        value_fn: Loss,
    ) -> PyTree:
        check_structure(updates, params, name)
        line = _Line(user_form(value_fn), params, updates, value, grad)
        found = search(line, convert(as_array(state.learning_rate), line.dtype))
        step = tree.map(lambda u: scaled(as_array(u), found.rate), updates)
        kept = LinesearchState(found.rate, found.value, found.grad)
        return step, tree.map(lambda x, old: convert(x, dtype_of(old)), kept, state)

    return GradientTransformation(init, update)


@pickles_as_call
@also_takes("verbose", atol=0.0, rtol=0.0, store_grad=False)
def scale_by_backtracking_linesearch(
    max_backtracking_steps: int,
    slope_rtol: float = 1e-4,
    decrease_factor: float = 0.8,
    increase_factor: float = 1.5,
    max_learning_rate: float = 1.0,
) -> GradientTransformation:
    """Updates times a rate at which the loss decreases enough, found by making it smaller.

    `update` takes `value=`, `grad=` and `value_fn=`; see `lbfgs`.

    Arguments:
        max_backtracking_steps: how often the rate may be made smaller.
        slope_rtol: what decrease is enough, as a part of the one that the slope promises.
        decrease_factor: by what the rate is multiplied.
        increase_factor: by what the last rate is multiplied to begin with.
        max_learning_rate: the largest rate.

    Example:
        >>> t = scale_by_backtracking_linesearch(20)
        >>> f = lambda w: 2 * w**2
        >>> w = np.float64(1.0)
        >>> t.update(-4.0, t.init(w), w, value=f(w), grad=4.0, value_fn=f)[0].round(6)
        np.float64(-1.6384)
    """

    def search(line: _Line, last: Value) -> _Trial:
        first = line.at(np.minimum(last * increase_factor, max_learning_rate).astype(line.dtype))

        def going(state: PyTree) -> Value:
            count, there = state
            return np.logical_and(
                count < max_backtracking_steps, np.logical_not(line.decreases(there, slope_rtol))
            )

        def smaller(state: PyTree) -> PyTree:
            count, there = state
            return count + 1, line.at(there.rate * line.dtype.type(decrease_factor))

        return lax.while_loop(going, smaller, (np.int64(0), first))[1]

    return _searching("scale_by_backtracking_linesearch", max_learning_rate, search)


@pickles_as_call
@also_takes("verbose", tol=0.0, approx_dec_rtol=1e-06, stepsize_precision=1e-05)
def scale_by_zoom_linesearch(
    max_linesearch_steps: int,
    max_learning_rate: float | None = None,
    *,
    increase_factor: float = 2.0,
    slope_rtol: float = 1e-4,
    curv_rtol: float = 0.9,
    initial_guess_strategy: str = "keep",
) -> GradientTransformation:
    """Updates times a rate at which the loss is low and flat enough (the strong Wolfe conditions).

    The rate grows until a minimum lies below it, and the interval is cut until one is found; of
    all rates that were tried the best is taken if none fulfils the conditions.  `update` takes
    `value=`, `grad=` and `value_fn=`; see `lbfgs`.

    Arguments:
        max_linesearch_steps: the most evaluations of the loss.
        max_learning_rate: the largest rate.
        increase_factor: by what the rate grows.
        slope_rtol, curv_rtol: see the top of this module.
        initial_guess_strategy: "one", or "keep" for the last rate.

    Raises:
        ArgumentError: if there is no such `initial_guess_strategy`.

    Example:
        >>> t = scale_by_zoom_linesearch(20)
        >>> f = lambda w: 2 * w**2
        >>> w = np.float64(1.0)
        >>> t.update(-4.0, t.init(w), w, value=f(w), grad=4.0, value_fn=f)[0].round(6)
        np.float64(-1.0)
    """
    if initial_guess_strategy not in ("one", "keep"):
        raise ArgumentError(
            f"optim.scale_by_zoom_linesearch: initial_guess_strategy={initial_guess_strategy!r}.",
            (("write", '"one" or "keep"'),),
        )
    most = math.inf if max_learning_rate is None else max_learning_rate

    def search(line: _Line, last: Value) -> _Trial:
        start, dtype = line.start, line.dtype
        guess = last if initial_guess_strategy == "keep" else dtype.type(1.0)
        guess = np.minimum(np.where(guess > 0, guess, 1), most).astype(dtype)
        open_ = start._replace(rate=dtype.type(math.inf))

        def going(state: PyTree) -> Value:
            count, _low, _high, _best, _next, done = state
            return np.logical_and(count < max_linesearch_steps, np.logical_not(done))

        def step(state: PyTree) -> PyTree:
            count, low, high, best, rate, _done = state
            there = line.at(rate)
            lower = line.decreases(there, slope_rtol)
            flat = np.abs(there.slope) <= curv_rtol * np.abs(start.slope)
            done = np.logical_and(lower, np.logical_or(flat, rate >= most))
            rises = np.logical_or(np.logical_not(lower), there.slope > 0)
            low, high = chosen(rises, low, there), chosen(rises, there, high)
            lowest = chosen(there.value < best.value, there, best)
            best = chosen(done, there, lowest)
            return count + 1, low, high, best, following(low, high), done

        def following(low: _Trial, high: _Trial) -> Value:
            """Where the slope would vanish if it were linear, well inside of the interval."""
            bounded = np.isfinite(high.rate)
            width = np.where(bounded, high.rate - low.rate, 0)
            turn = np.where(high.slope > low.slope, high.slope - low.slope, 1)
            part = np.where(high.slope > 0, np.clip(-low.slope / turn, 0.1, 0.9), 0.5)
            inside = low.rate + width * part
            return np.where(bounded, inside, np.minimum(low.rate * increase_factor, most)).astype(
                dtype
            )

        first = (np.int64(0), start, open_, start, guess, np.bool_(False))
        return lax.while_loop(going, step, first)[3]

    return _searching("scale_by_zoom_linesearch", 1.0, search)


@pickles_as_call
def lbfgs(
    learning_rate: ScalarOrSchedule | None = None,
    memory_size: int = 10,
    scale_init_precond: bool = True,
    linesearch: GradientTransformation | str | None = "zoom",
) -> GradientTransformation:
    """L-BFGS (Liu and Nocedal 1989) with a search along the line of each step, for whole data sets.

    Its `update` takes the value and the gradient of the loss, and the loss itself, by name.

    Arguments:
        learning_rate: what steps are multiplied by before the search; 1 if None.
        memory_size, scale_init_precond: see `scale_by_lbfgs`.
        linesearch: the search, None for none; "zoom" is `scale_by_zoom_linesearch(20)` from rate 1.

    Raises:
        ArgumentError: if there is no such `linesearch`.

    Example:
        >>> import fgrad
        >>> loss = lambda w: np.sum((w - 3.0) ** 4 + w**2)
        >>> optimizer = lbfgs()
        >>> @fgrad.jit
        ... def step(w, state):
        ...     value, grad = fgrad.value_and_grad(loss)(w)
        ...     updates, state = optimizer.update(
        ...         grad, state, w, value=value, grad=grad, value_fn=loss
        ...     )
        ...     return w + updates, state
        >>> w = np.zeros(2)
        >>> state = optimizer.init(w)
        >>> for _ in range(10):
        ...     w, state = step(w, state)
        >>> w.round(6)
        array([2., 2.])
    """
    by_rate = scale(-1.0) if learning_rate is None else scale_by_learning_rate(learning_rate)
    if isinstance(linesearch, str):
        if linesearch != "zoom":
            raise ArgumentError(f"optim.lbfgs: linesearch={linesearch!r}.")
        linesearch = scale_by_zoom_linesearch(20, initial_guess_strategy="one")
    searches = [] if linesearch is None else [linesearch]
    return chain(scale_by_lbfgs(memory_size, scale_init_precond), by_rate, *searches)


@pickles_as_call
def value_and_grad_from_state(value_fn: Loss) -> Callable[..., tuple[Value, Updates]]:
    """The value and gradient of a loss, of which the last search has left both in the state.

    Arguments:
        value_fn: the loss, a function of parameters and other arguments.

    Returns:
        A function of the parameters, of other arguments, and of `state=` by name.

    Raises:
        ArgumentError: if no search along lines has left a value in the state.

    Example:
        >>> import fgrad
        >>> f = lambda w: np.sum(w**2)
        >>> state = lbfgs().init(np.ones(2))
        >>> value_and_grad_from_state(f)(np.ones(2), state=state)
        (np.float64(2.0), array([2., 2.]))
    """

    def from_state(params: Params, *args: PyTree, state: PyTree) -> tuple[Value, Updates]:
        found = [s for s in _linesearches(state)]
        if not found:
            raise ArgumentError("optim.value_and_grad_from_state: no search has left a value.")
        kept = found[0]
        return lax.cond(
            np.isfinite(kept.value),
            lambda: (as_array(kept.value), kept.grad),
            lambda: tree.map(
                lambda x, like: convert(as_array(x), dtype_of(like)),
                value_and_grad(user_form(value_fn))(params, *args),
                (kept.value, kept.grad),
            ),
        )

    return from_state


def _linesearches(state: PyTree) -> list[LinesearchState]:
    if isinstance(state, LinesearchState):
        return [state]
    if isinstance(state, tuple):
        return [found for part in state for found in _linesearches(part)]
    return []
