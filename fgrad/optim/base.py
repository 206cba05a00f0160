"""L7. Gradient transformations: pairs of functions that turn gradients into updates.

    init(params) -> state            update(updates, state, params) -> (updates, state)

States and parameters are pytrees of arrays, so a step goes through `jit` and `grad` as it is.
Floating-point results keep the dtype of their parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, GradDtypeError
from fgrad.numpy.promote import as_array, convert, dtype_of, inexact, shape_of
from fgrad.ops.complex import complex_, imag, real, real_dtype
from fgrad.ops.elementwise import div, le, lit, select
from fgrad.optim.schedules import Schedule
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

Params: TypeAlias = PyTree
Updates: TypeAlias = PyTree
State: TypeAlias = PyTree
ScalarOrSchedule: TypeAlias = "float | Value | Schedule"


class GradientTransformation(NamedTuple):
    """An optimiser, or a part of one: `init(params)` and `update(updates, state, params=None)`."""

    init: Callable[[Params], State]
    update: Callable[..., tuple[Updates, State]]


class EmptyState(NamedTuple):
    """The state of a transformation that keeps nothing."""


class CountState(NamedTuple):
    """The number of steps that were made, an int64 scalar."""

    count: Value


def first_count() -> PyTree:
    """The step number before the first update."""
    return np.int64(0)


def in_dtype(x: ArrayLike, dtype: np.dtype, what: str) -> Value:
    """`x` with another dtype; a card where that drops imaginary parts."""
    x = as_array(x)
    if x.dtype.kind == "c" and dtype.kind != "c":
        raise GradDtypeError(
            f"optim: {what} is complex, but what it meets is {dtype}.",
            (("why", "the imaginary part would be dropped."), ("write", "np.real(x)")),
        )
    return convert(x, dtype)


def scaled(x: Value, factor: ArrayLike) -> Value:
    """`x` times a number, in the dtype of `x`."""
    return x * in_dtype(factor, x.dtype, "a factor")


def zero_updates(params: Params) -> Params:
    """Zeros of the shapes and dtypes of the parameters."""
    return tree.map(lambda p: np.zeros(shape_of(p), dtype_of(p))[()], params)


def squares_like(params: Params) -> Params:
    """Zeros for the squares of absolute values of gradients: real ones."""
    return tree.map(lambda p: np.zeros(shape_of(p), real_dtype(dtype_of(p)))[()], params)


def abs_square(x: ArrayLike) -> Value:
    """|x|^2, for complex numbers the sum of the squares of their parts."""
    x = as_array(x)
    if x.dtype.kind != "c":
        return x * x
    a, b = real(x), imag(x)
    return a * a + b * b


def value_at(value: ScalarOrSchedule, count: Value) -> PyTree:
    """A number, or the value of a schedule at a step."""
    return value(count) if callable(value) else value


def check_structure(updates: Updates, params: Params | None, name: str) -> None:
    """Refuse updates that do not have the structure of the parameters."""
    if params is None:
        raise ArgumentError(
            f"optim.{name} needs the parameters.",
            (("write", "updates, state = optimizer.update(gradients, state, params)"),),
        )
    if tree.structure(updates) != tree.structure(params):
        raise ArgumentError(
            f"optim.{name}: the gradients have structure {tree.structure(updates)}, "
            f"the parameters {tree.structure(params)}."
        )


def chosen_parts(x: PyTree, mask: PyTree) -> tuple[PyTree, PyTree]:
    """The parts of a tree that a mask is about, and the others; a card if it does not fit."""
    try:
        return tree.partition(x, mask)
    except ValueError as error:
        write = "a tree of bools like the parameters, with one bool for each part"
        raise ArgumentError(
            "optim.masked: the mask does not fit to the parameters.",
            (("why", str(error)), ("write", write)),
        ) from error


def apply_updates(params: Params, updates: Updates) -> Params:
    """The sum of parameters and updates, in the dtypes of the parameters.

    Arguments:
        params: a pytree of floating-point arrays.
        updates: a pytree of the same structure and shapes.

    Raises:
        ArgumentError: if the structures differ.

    Example:
        >>> apply_updates({"w": np.ones(2)}, {"w": np.array([1.0, -1.0])})
        {'w': array([2., 0.])}
    """
    check_structure(updates, params, "apply_updates")

    def add(p: ArrayLike, u: ArrayLike) -> Value:
        p = as_array(p)
        return p + in_dtype(u, p.dtype, "an update")

    return tree.map(add, params, updates)


def global_norm(updates: Updates) -> Value:
    """The Euclidean norm of all elements of a tree, a real number; its derivative at 0 is 0.

    Example:
        >>> global_norm({"a": np.array([3.0]), "b": 4.0})
        np.float64(5.0)
    """
    total: Any = np.float64(0.0)
    leaves = [inexact(x) for x in tree.leaves(updates)]
    if leaves:
        dtype = np.result_type(*[x.dtype for x in leaves])
        total = sum([np.sum(abs_square(convert(x, dtype))) for x in leaves])
    positive = total > 0
    return select(positive, np.sqrt(select(positive, total, lit(total, 1))), lit(total, 0))


@pickles_as_call
def identity() -> GradientTransformation:
    """The transformation that changes nothing.

    Example:
        >>> identity().update(2.0, identity().init(1.0))
        (2.0, EmptyState())
    """
    return stateless(lambda updates, params: updates)


@pickles_as_call
@also_takes(aliases={"f": "function"})
def stateless(
    function: Callable[[Updates, Params | None], Updates],
) -> GradientTransformation:
    """A transformation that is a function of updates and parameters alone.

    Example:
        >>> stateless(lambda updates, params: -updates).update(2.0, EmptyState())
        (-2.0, EmptyState())
    """

    def update(updates: Updates, state: State, params: Params | None = None) -> PyTree:
        return function(updates, params), state

    return GradientTransformation(lambda params: EmptyState(), update)


def taken(transformation: GradientTransformation, extra: Mapping[str, PyTree]) -> PyTree:
    """Those of some keywords that the `update` of a transformation takes, such as `value`."""
    if not extra:
        return {}
    parts = getattr(inspect.unwrap(transformation.update), "parts", None)
    if parts is not None:
        return {key: value for part in parts for key, value in taken(part, extra).items()}
    given = inspect.signature(transformation.update).parameters
    return {key: value for key, value in extra.items() if key in given}


def handing_on(
    update: Callable[..., PyTree], parts: Iterable[GradientTransformation]
) -> Callable[..., PyTree]:
    """The `update` of a transformation that hands keywords on to its parts."""
    update.parts = tuple(parts)  # type: ignore[attr-defined]
    return update


def check_taken(
    name: str, parts: Iterable[GradientTransformation], extra: Mapping[str, PyTree]
) -> None:
    """Refuse keywords that none of several transformations takes."""
    known = {key for part in parts for key in taken(part, extra)}
    for key in extra:
        if key not in known:
            raise ArgumentError(f"optim.{name}: no part takes the argument {key!r} of `update`.")


@pickles_as_call
def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """Transformations applied one after the other; the state is the tuple of their states.

    Keywords of `update` go to those parts that take them.

    Arguments:
        transformations: pairs of functions, in the order in which they are applied.

    Raises:
        ArgumentError: `update` is given a state of another number of transformations.

    Example:
        >>> optimizer = chain(clip_by_global_norm(1.0), scale(-0.1))
        >>> updates, state = optimizer.update(np.array([3.0, 4.0]), optimizer.init(np.zeros(2)))
        >>> updates
        array([-0.06, -0.08])
    """

    def init(params: Params) -> State:
        return tuple([t.init(params) for t in transformations])

    def update(
        updates: Updates, state: State, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        check_taken("chain", transformations, extra)
        if len(state) != len(transformations):
            raise ArgumentError(
                f"optim.chain: a state of {len(state)} parts for {len(transformations)} "
                "transformations."
            )
        states = []
        for transformation, part in zip(transformations, state, strict=True):
            more = taken(transformation, extra)
            updates, part = transformation.update(updates, part, params, **more)
            states.append(part)
        return updates, tuple(states)

    return GradientTransformation(init, handing_on(update, transformations))


@pickles_as_call
@also_takes(aliases={"step_size": "factor"})
def scale(factor: float) -> GradientTransformation:
    """Multiply by a number.

    Arguments:
        factor: the number.

    Example:
        >>> scale(2.0).update(np.array([1.0, 2.0]), EmptyState())
        (array([2., 4.]), EmptyState())
    """
    return stateless(lambda updates, _: tree.map(lambda u: scaled(as_array(u), factor), updates))


@pickles_as_call
def scale_by_learning_rate(
    learning_rate: ScalarOrSchedule, *, flip_sign: bool = True
) -> GradientTransformation:
    """Multiply by the negative of a number or of a schedule; by itself without `flip_sign`.

    Arguments:
        flip_sign: whether the sign changes, as for a descent.

    Example:
        >>> t = scale_by_learning_rate(0.5)
        >>> t.update(np.array([1.0, 2.0]), t.init(np.zeros(2)))[0]
        array([-0.5, -1. ])
    """

    def update(updates: Updates, state: CountState, params: Params | None = None) -> PyTree:
        rate = value_at(learning_rate, state.count)
        factor = -as_array(rate) if flip_sign else as_array(rate)
        new = tree.map(lambda u: scaled(as_array(u), factor), updates)
        return new, CountState(state.count + 1)

    return GradientTransformation(lambda params: CountState(first_count()), update)


@pickles_as_call
def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Shrink all updates by one factor so that their global norm is at most `max_norm`.

    Example:
        >>> clip_by_global_norm(1.0).update(np.array([3.0, 4.0]), EmptyState())[0]
        array([0.6, 0.8])
    """

    def clip(updates: Updates, _: Params | None) -> Updates:
        norm = global_norm(updates)
        limit = lit(norm, max_norm)
        inside = le(norm, limit)
        factor = select(inside, lit(norm, 1), div(limit, select(inside, lit(norm, 1), norm)))
        return tree.map(lambda u: scaled(as_array(u), factor), updates)

    return stateless(clip)


@pickles_as_call
def clip_by_value(max_delta: float) -> GradientTransformation:
    """Clip each element of the updates to [-max_delta, max_delta].

    Raises:
        GradDtypeError: for complex updates, which have no order.

    Example:
        >>> clip_by_value(1.0).update(np.array([3.0, -0.5]), EmptyState())[0]
        array([ 1. , -0.5])
    """

    def clip(u: ArrayLike) -> Value:
        u = as_array(u)
        if u.dtype.kind == "c":
            raise GradDtypeError(
                f"optim.clip_by_value: the updates are {u.dtype}, which has no order.",
                (
                    ("write", "optim.clip_by_global_norm(max_norm)"),
                    (
                        "write",
                        "optim.split_real_and_imaginary(optim.clip_by_value(d)) for the parts",
                    ),
                ),
            )
        return np.clip(u, -max_delta, max_delta)

    return stateless(lambda updates, _: tree.map(clip, updates))


@pickles_as_call
def split_real_and_imaginary(inner: GradientTransformation) -> GradientTransformation:
    """A transformation to which complex numbers are pairs of real ones, as in PyTorch.

    Without it the steps of `adam` and others depend on |g| and the direction of a complex g alone.

    Arguments:
        inner: the transformation.  Keywords of `update` go to it: `grad` as pairs, a function of
            parameters, such as `value_fn`, as one of pairs.

    Example:
        >>> split_real_and_imaginary(clip_by_value(1.0)).update(3 - 0.5j, EmptyState())[0]
        np.complex128(1-0.5j)
    """

    def split(whole: PyTree) -> PyTree:
        return tree.map(_parts, whole)

    def update(
        updates: Updates, state: State, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        leaves, treedef = tree.flatten(updates)

        def join(parts: PyTree) -> PyTree:
            found = iter(tree.leaves(parts))
            joined = [_joined([next(found) for _ in _parts(x)]) for x in leaves]
            return tree.unflatten(treedef, joined)

        def given(name: str, x: PyTree) -> PyTree:
            """A keyword of `update` as the transformation sees it: `grad`, `value_fn`, `value`."""
            if callable(x):
                return lambda parts, *args, **kwargs: x(join(parts), *args, **kwargs)
            return split(x) if name == "grad" else x

        parts = None if params is None else split(params)
        more = {name: given(name, x) for name, x in extra.items()}
        new, state = inner.update(split(updates), state, parts, **more)
        return join(new), state

    return GradientTransformation(
        lambda params: inner.init(split(params)), handing_on(update, [inner])
    )


def _parts(x: ArrayLike) -> tuple[Value, ...]:
    x = as_array(x)
    return (real(x), imag(x)) if x.dtype.kind == "c" else (x,)


def _joined(parts: list[Value]) -> Value:
    return complex_(*parts) if len(parts) == 2 else parts[0]


@pickles_as_call
def add_decayed_weights(
    weight_decay: float, mask: PyTree | Callable[[Params], PyTree] = None
) -> GradientTransformation:
    """Add `weight_decay` times the parameters to the updates.

    Arguments:
        weight_decay: the factor.
        mask: a pytree of bools with the structure of the parameters, or a function of the
            parameters that returns one: where to decay; None for everywhere.

    Returns:
        A transformation whose `update` needs the parameters.

    Raises:
        ArgumentError: if `update` is called without parameters.

    Example:
        >>> add_decayed_weights(0.1).update(np.zeros(1), EmptyState(), np.array([2.0]))[0]
        array([0.2])
    """

    def decay(updates: Updates, params: Params | None) -> Updates:
        check_structure(updates, params, "add_decayed_weights")
        chosen = mask(params) if callable(mask) else mask
        if chosen is None:
            chosen = tree.map(lambda p: True, params)

        def add(u: ArrayLike, p: ArrayLike, wanted: bool) -> Value:
            u = as_array(u)
            return u + scaled(in_dtype(p, u.dtype, "a parameter"), weight_decay) if wanted else u

        return tree.map(add, updates, params, chosen)

    return stateless(decay)


def decoupled(
    inner: GradientTransformation,
    weight_decay: float,
    mask: PyTree | Callable[[Params], PyTree],
    learning_rate: ScalarOrSchedule,
) -> GradientTransformation:
    """A rule, decayed weights, and the rate (Loshchilov and Hutter 2019, algorithm 2)."""
    decay = add_decayed_weights(weight_decay, mask)
    return chain(inner, decay, scale_by_learning_rate(learning_rate))
