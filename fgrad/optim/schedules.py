"""L7. Learning-rate schedules: functions of the step number.

A schedule takes an integer (or a traced integer scalar) and returns a float64 scalar; optimisers
convert it to the dtype of each parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.promote import as_array
from fgrad.ops.elementwise import convert, ge, lt, select
from fgrad.trace import Value
from fgrad.typing import ArrayLike

Schedule: TypeAlias = Callable[[Any], Value | np.float64]


def _count(step: ArrayLike) -> Value:
    """The step number as float64."""
    return convert(as_array(step), FLOAT64)


def _check_steps(name: str, steps: int) -> float:
    if steps <= 0:
        raise ArgumentError(f"optim.{name}: the number of steps must be positive, not {steps}.")
    return float(steps)


@pickles_as_call
def constant_schedule(value: float) -> Schedule:
    """The same value at every step.

    Example:
        >>> constant_schedule(0.1)(7)
        np.float64(0.1)
    """
    return lambda step: np.float64(value)


@pickles_as_call
def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From `init_value` to `end_value` in equal steps; constant afterwards.

    Arguments:
        init_value, end_value: the first and the last value.
        transition_steps: the steps between them.
        transition_begin: the step until which the first value stays.

    Example:
        >>> linear_schedule(1.0, 0.0, 4)(1)
        np.float64(0.75)
    """
    total = _check_steps("linear_schedule", transition_steps)

    def schedule(step: ArrayLike) -> Value:
        done = np.clip((_count(step) - transition_begin) / total, 0.0, 1.0)
        return init_value + (end_value - init_value) * done

    return schedule


@pickles_as_call
def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    *,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """init_value * decay_rate ** (step / transition_steps).

    Arguments:
        init_value: the value at step 0.
        transition_steps: in how many steps the value is multiplied by `decay_rate`.
        decay_rate: a positive factor.
        transition_begin: the step until which the first value stays.
        staircase: whether the exponent is rounded down to an integer.
        end_value: the value below which it does not fall, or to which it grows; None for none.

    Example:
        >>> exponential_decay(1.0, 10, 0.5)(20)
        np.float64(0.25)
    """
    total = _check_steps("exponential_decay", transition_steps)

    def schedule(step: ArrayLike) -> Value:
        exponent = np.maximum(_count(step) - transition_begin, 0.0) / total
        exponent = np.floor(exponent) if staircase else exponent
        value = init_value * np.float64(decay_rate) ** exponent
        if end_value is None:
            return value
        return (np.maximum if decay_rate < 1 else np.minimum)(value, end_value)

    return schedule


@pickles_as_call
def cosine_decay(init_value: float, decay_steps: int, alpha: float = 0.0) -> Schedule:
    """Half a cosine from `init_value` to `alpha * init_value` (Loshchilov and Hutter 2017, eq. 5).

    Arguments:
        init_value, alpha: the first value, and the share that is left.
        decay_steps: the steps until then.

    Example:
        >>> cosine_decay(1.0, 10)(5)
        np.float64(0.5)
    """
    total = _check_steps("cosine_decay", decay_steps)

    def schedule(step: ArrayLike) -> Value:
        done = np.minimum(_count(step) / total, 1.0)
        return init_value * ((1 - alpha) * 0.5 * (1 + np.cos(math.pi * done)) + alpha)

    return schedule


@pickles_as_call
def warmup_cosine_decay(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
) -> Schedule:
    """A linear rise to `peak_value`, then half a cosine to `end_value`.

    Arguments:
        init_value: the value at step 0.
        peak_value: the value at step `warmup_steps`.
        warmup_steps: the length of the rise.
        decay_steps: the length of the whole schedule, the rise included.
        end_value: the value from step `decay_steps` on.

    Raises:
        ArgumentError: if `peak_value` is 0, or the rise as long as the whole schedule.

    Example:
        >>> schedule = warmup_cosine_decay(0.0, 1.0, 10, 30)
        >>> schedule(5), schedule(10), schedule(30)
        (np.float64(0.5), np.float64(1.0), np.float64(0.0))
    """
    if peak_value == 0:
        raise ArgumentError("optim.warmup_cosine_decay: peak_value must not be 0.")
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = cosine_decay(peak_value, decay_steps - warmup_steps, end_value / peak_value)
    return join_schedules([rise, fall], [warmup_steps])


@pickles_as_call
def join_schedules(schedules: list[Schedule], boundaries: list[int]) -> Schedule:
    """One schedule after the other; each counts its steps from its boundary.

    Arguments:
        schedules: functions of the number of steps.
        boundaries: the steps at which the next one begins.

    Raises:
        ArgumentError: if there is not one boundary less than schedules.

    Example:
        >>> schedule = join_schedules([constant_schedule(1.0), constant_schedule(2.0)], [5])
        >>> schedule(4), schedule(5)
        (np.float64(1.0), np.float64(2.0))
    """
    if len(boundaries) != len(schedules) - 1:
        raise ArgumentError(
            f"optim.join_schedules: {len(schedules)} schedules need {len(schedules) - 1} "
            f"boundaries, not {len(boundaries)}."
        )

    def schedule(step: ArrayLike) -> Value:
        count = _count(step)
        value = as_array(schedules[0](count))
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            elapsed = np.maximum(count - boundary, 0.0)
            value = select(lt(count, np.float64(boundary)), value, as_array(later(elapsed)))
        return value

    return schedule


@pickles_as_call
def piecewise_constant(init_value: float, boundaries_and_scales: Mapping[int, float]) -> Schedule:
    """`init_value`, multiplied by a scale from each boundary on.

    Arguments:
        boundaries_and_scales: for each boundary, a number of steps, the scale from there on.

    Example:
        >>> schedule = piecewise_constant(1.0, {10: 0.1, 20: 0.5})
        >>> schedule(9), schedule(10), schedule(25)
        (np.float64(1.0), np.float64(0.1), np.float64(0.05))
    """

    def schedule(step: ArrayLike) -> Value | np.float64:
        count, value = _count(step), np.float64(init_value)
        for boundary, scale in sorted(boundaries_and_scales.items()):
            reached = ge(count, np.float64(boundary))
            value = value * select(reached, np.float64(scale), np.float64(1.0))
        return value

    return schedule


@pickles_as_call
def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """From `init_value` to `end_value` as (1 - t)^power, between two steps.

    Arguments:
        transition_begin, transition_steps: the step where it begins, and how many it takes.

    Example:
        >>> polynomial_schedule(1.0, 0.0, 2.0, 4)(2)
        np.float64(0.25)
    """
    total = _check_steps("polynomial_schedule", transition_steps)

    def schedule(step: ArrayLike) -> Value:
        done = np.clip((_count(step) - transition_begin) / total, 0.0, 1.0)
        return (init_value - end_value) * (1.0 - done) ** power + end_value

    return schedule


@pickles_as_call
def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Schedule:
    """A linear rise to `peak_value`, which stays.

    Arguments:
        init_value, peak_value: the first value, and the last.
        warmup_steps: the steps between them.

    Example:
        >>> warmup_constant_schedule(0.0, 1.0, 4)(9)
        np.float64(1.0)
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


@pickles_as_call
def warmup_exponential_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: float,
    *,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """A linear rise to `peak_value`, then `exponential_decay`.

    Arguments:
        init_value, peak_value, warmup_steps: the rise.
        transition_steps, decay_rate, transition_begin, staircase, end_value: as in
            `exponential_decay`, counted from the end of the rise.

    Example:
        >>> warmup_exponential_decay_schedule(0.0, 1.0, 4, 2, 0.5)(6)
        np.float64(0.5)
    """
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = exponential_decay(
        peak_value,
        transition_steps,
        decay_rate,
        transition_begin=transition_begin,
        staircase=staircase,
        end_value=end_value,
    )
    return join_schedules([rise, fall], [warmup_steps])


@pickles_as_call
def sgdr_schedule(cosine_kwargs: Iterable[Mapping[str, float]]) -> Schedule:
    """Warm restarts (Loshchilov and Hutter 2017): `warmup_cosine_decay` again and again.

    Arguments:
        cosine_kwargs: the arguments of each one.

    Example:
        >>> one = {"init_value": 0.0, "peak_value": 1.0, "warmup_steps": 2, "decay_steps": 4}
        >>> sgdr_schedule([one, one])(6)
        np.float64(1.0)
    """
    settings = [dict(given) for given in cosine_kwargs]
    ends = [int(sum([s["decay_steps"] for s in settings[: k + 1]])) for k in range(len(settings))]
    parts = [warmup_cosine_decay(**given) for given in settings]  # type: ignore[arg-type]
    return join_schedules(parts, ends[:-1])
