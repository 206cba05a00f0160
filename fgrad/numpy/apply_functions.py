"""L4. Python functions applied to parts of arrays: lanes, axes, elements.

`vectorize` calls its function once for each element where values are known, as NumPy does, so that
`if` works in it; where they are not it is mapped over all elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy.arrange import moveaxis, stack
from fgrad.numpy.dispatch import OWN, has_tracer, implements
from fgrad.numpy.promote import (
    as_array,
    broadcast_shapes,
    broadcast_to,
    convert,
    normalize_axis,
    reshape,
    shape_of,
)
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import through
from fgrad.tracing.on_device import device_among
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, DTypeLike, PyTree, ShapeLike


@implements("apply_along_axis")
def apply_along_axis(
    func1d: Callable[..., ArrayLike], axis: int, arr: ArrayLike, *args: ArrayLike, **kwargs: object
) -> Value:
    """A function applied to each lane, one after the other; `fgrad.vmap` does all at once."""
    x = as_array(arr)
    axis = normalize_axis(axis, len(x.shape))
    lanes = moveaxis(x, axis, -1)
    lead = lanes.shape[:-1]
    if not math.prod(lead):
        raise ArgumentError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [as_array(user_form(func1d)(lanes[i], *args, **kwargs)) for i in np.ndindex(*lead)]
    joined = stack(results)
    joined = reshape(joined, (*lead, *joined.shape[1:]))
    inner = len(joined.shape) - len(lead)
    source = tuple(range(len(lead), len(joined.shape)))
    return moveaxis(joined, source, tuple(range(axis, axis + inner)))


@implements("apply_over_axes")
def apply_over_axes(func: Callable[[Value, int], Value], a: ArrayLike, axes: ShapeLike) -> Value:
    """A reduction applied to one axis after the other."""
    x = as_array(a)
    for i in axes if isinstance(axes, (tuple, list)) else (axes,):
        axis = normalize_axis(i, max(len(x.shape), 1))
        y = user_form(func)(x, axis)
        x = y if len(y.shape) == len(x.shape) else np.expand_dims(y, axis)
    return x


class vectorize:
    """`np.vectorize` whose function may be given traced arrays.

    Arguments:
        pyfunc: a function of scalars, or of arrays if there is a `signature`.
        otypes: dtypes of the results, as in NumPy.
        excluded: positions and names of arguments that are passed on as they are.
        signature: the axes of arguments and results, such as "(m,n),(n)->(m)".

    Example:
        >>> import fgrad.numpy as np, fgrad
        >>> ramp = np.vectorize(lambda x: x if x > 0 else 0.0)
        >>> fgrad.grad(lambda x: ramp(x).sum())(np.array([-1.0, 2.0]))
        array([0., 1.])
    """

    def __init__(
        self,
        pyfunc: Callable[..., PyTree],
        otypes: str | Iterable[DTypeLike] | None = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.otypes = otypes
        self.excluded = set(excluded or ())
        self.signature = signature
        self.plain = np.vectorize(
            pyfunc, otypes, doc=doc, excluded=excluded, cache=cache, signature=signature
        )
        self.__doc__ = self.plain.__doc__

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> Value | tuple[Value, ...]:
        if not has_tracer(args) and not has_tracer(kwargs.values()):
            device = device_among((*args, *kwargs.values()))
            if device is not None:
                return through(device, self, args, kwargs)
            return self.plain(*args, **kwargs)
        places = [i for i in range(len(args)) if i not in self.excluded]
        names = [n for n in kwargs if n not in self.excluded]
        values = [as_array(args[i]) for i in places] + [as_array(kwargs[n]) for n in names]

        def call(*parts: ArrayLike) -> PyTree:
            given = list(args)
            for i, part in zip(places, parts, strict=False):
                given[i] = part
            named = dict(zip(names, parts[len(places) :], strict=True))
            return user_form(self.pyfunc)(*given, **{**kwargs, **named})

        outs = _over_elements(call, values, self._cores(len(values)))
        if self.otypes is not None:
            kinds = [np.dtype(t) for t in self.otypes]
            parts = outs if isinstance(outs, tuple) else (outs,)
            cast = tuple([convert(p, k) for p, k in zip(parts, kinds, strict=True)])
            return cast if isinstance(outs, tuple) else cast[0]
        return outs

    def _cores(self, count: int) -> list[int]:
        """How many axes of each argument the function takes."""
        if self.signature is None:
            return [0] * count
        left = self.signature.replace(" ", "").split("->")[0]
        groups = left.strip("()").split("),(")
        cores = [len([n for n in group.split(",") if n]) for group in groups]
        if len(cores) != count:
            raise ArgumentError(
                f"wrong number of positional arguments: expected {len(cores)}, got {count}",
            )
        return cores


def _over_elements(
    call: Callable[..., PyTree],
    values: Sequence[Value],
    cores: Sequence[int],
) -> Value | tuple[Value, ...]:
    """A function mapped over all axes but the last `cores` of its arguments, broadcast."""
    shapes = [shape_of(x) for x in values]
    leads = [s[: len(s) - c] for s, c in zip(shapes, cores, strict=True)]
    lead = broadcast_shapes(*leads)
    total = math.prod(lead)
    flat = []
    for x, s, own in zip(values, shapes, leads, strict=True):
        core = s[len(own) :]
        wide = broadcast_to(reshape(x, (1,) * (len(lead) - len(own)) + s), (*lead, *core))
        flat.append(reshape(wide, (total, *core)))
    if total and all(concrete(x) is not None for x in flat):
        results = [call(*[x[k] for x in flat]) for k in range(total)]
        several = isinstance(results[0], tuple)
        columns = list(zip(*results, strict=True)) if several else [results]
        outs = [stack([as_array(y) for y in column]) for column in columns]
    else:
        mapped = vmap(call)(*flat)
        several = isinstance(mapped, tuple)
        outs = list(mapped) if several else [mapped]
    shaped = tuple([reshape(y, (*lead, *y.shape[1:])) for y in outs])
    return shaped if several else shaped[0]


OWN["vectorize"] = vectorize
