"""L4. Hooks: observe intermediate values and cotangents, and differentiate by them.

y = tap(x, on_cotangent=lambda ct: np.clip(ct, -1, 1))       y = x; its gradient is clipped
tag(h, "hidden");   grad_wrt_tags(loss)(w)["hidden"]         dloss/dh
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import pickles_as_call
from fgrad.config import without_jit
from fgrad.errors import ArgumentError, CustomRuleError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import NOT_LINEAR, Opaque, Primitive
from fgrad.ops.elementwise import add
from fgrad.trace import Value, bind
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.closure_capture import held
from fgrad.transforms.core.wrap import as_value, function_name, named_like
from fgrad.transforms.custom.function import line_of
from fgrad.transforms.custom.vjp import CustomVjp
from fgrad.transforms.grad import grad
from fgrad.transforms.vmap import vmap
from fgrad.typing import EqnParams, P, PyTree, T


class Hook(Opaque):
    """What happens to a cotangent; compiled code of the forward pass does not depend on it."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable[[PyTree], PyTree]) -> None:
        self.fun = fun

    def __call__(self, ct: Value) -> Value:
        out = self.fun(ct)
        if out is None:
            return ct
        out = as_value(out, f"the result of {function_name(self.fun)}")
        if (out.shape, out.dtype) != (ct.shape, ct.dtype):
            raise CustomRuleError(
                "tap: on_cotangent changed the type of the cotangent.",
                (
                    ("found", f"{out.dtype}{out.shape}"),
                    ("type", f"{ct.dtype}{ct.shape}"),
                    line_of(self.fun, "by"),
                ),
            )
        return out


tap_p = Primitive(
    "tap",
    traits.COPIES,
    params=("hook",),
    scalar="stop_gradient",
)


@tap_p.type_rule
def _(x: Aval, hook: Hook) -> Aval:
    return x


@tap_p.evaluate
def _(x: Value, hook: Hook) -> Value:
    return x


@tap_p.jvp
def _(_primals: object, tangents: Sequence[Value | None], _out: object, hook: Hook) -> Value | None:
    return tangents[0]


tap_p.refuse("transpose", NOT_LINEAR)


@tap_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], hook: Hook
) -> tuple[Value, int | None]:
    (d,) = dims
    return bind(tap_p, operands[0], hook=Hook(vmap(hook, in_axes=d, out_axes=d))), d


def _pull(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> Sequence[Value | None]:
    (ct,) = cts if isinstance(cts, (tuple, list)) else (cts,)
    return (None if ct is None else params["hook"](ct),)


tap_p.pullback = _pull


@also_takes()
def tap(
    x: T,
    name: str | None = None,
    on_value: Callable[[PyTree], PyTree] | None = None,
    on_cotangent: Callable[[PyTree], PyTree] | None = None,
) -> T:
    """`x` itself, with hooks on its value and on the gradient that comes back to it.

    Arguments:
        x: a pytree of arrays.
        name: shown if a hook fails.
        on_value: called with each array when it is made; its result does not matter.
        on_cotangent: called with each array's cotangent in reverse mode.  It returns the one that
            goes on (of the same shape and dtype), or None for no change.  Both are traced like all
            else: `fgrad.debug.print` shows numbers in compiled code.  What a hook closes over
            counts as a constant.

    Raises:
        CustomRuleError: if a hook changes the type of a cotangent.

    Example: the reversal of a gradient.
        >>> import fgrad
        >>> fgrad.grad(lambda x: fgrad.tap(x, on_cotangent=lambda ct: -ct) ** 2)(3.0)
        np.float64(-6.0)
    """

    def one(leaf: object) -> Value:
        value = as_value(leaf, f"the operand of tap {name or ''}")
        if on_value is not None:
            on_value(value)
        if on_cotangent is None:
            return value
        if held(on_cotangent):
            return _with_closure(on_cotangent)(value)
        return bind(tap_p, value, hook=Hook(on_cotangent))

    return tree.map(one, x)


def _with_closure(on_cotangent: Callable[[PyTree], PyTree]) -> Callable[[PyTree], PyTree]:
    """The identity with a hook that reads traced values: these are operands of a custom rule."""

    def same(x: PyTree) -> PyTree:
        return x

    def forward(x: PyTree) -> tuple[PyTree, None]:
        return x, None

    def backward(_residuals: None, ct: Value) -> tuple[PyTree]:
        return (Hook(on_cotangent)(ct),)

    identity = CustomVjp(same)
    identity.defvjp(forward, backward)
    identity.name = f"tap with {function_name(on_cotangent)}"
    return identity


# --- tags -----------------------------------------------------------------------------------------


class _Collector:
    """What tags do while `grad_wrt_tags` runs a function: they are noted, or added to."""

    def __init__(self, added: dict[str, Value] | None) -> None:
        self.added = added
        self.found: dict[str, Value] = {}

    def meet(self, name: str, x: Value) -> Value:
        if self.added is None:
            known = self.found.setdefault(name, np.zeros(x.shape, x.dtype)[()])
            if (known.shape, known.dtype) != (x.shape, x.dtype):
                raise ArgumentError(
                    f"tag: {name!r} names arrays of types {known.dtype}{known.shape} and "
                    f"{x.dtype}{x.shape}.",
                    (("write", "a name for each"),),
                )
            return x
        return add(x, self.added[name])


class _Collectors(threading.local):
    innermost: _Collector | None = None


_COLLECTORS = _Collectors()


@contextmanager
def _collecting(collector: _Collector) -> Generator[None]:
    saved, _COLLECTORS.innermost = _COLLECTORS.innermost, collector
    try:
        with without_jit.block():  # programs have no tags in them
            yield
    finally:
        _COLLECTORS.innermost = saved


def collecting_tags() -> bool:
    """Whether functions must run themselves, since their tags are looked for."""
    return _COLLECTORS.innermost is not None


@also_takes()
def tag(x: T, name: str) -> T:
    """`x` itself, under a name for `grad_wrt_tags`; free where nobody asks.

    Example:
        >>> tag(2.0, "two")
        2.0
    """
    collector = _COLLECTORS.innermost
    if collector is None:
        return x
    met: PyTree = collector.meet(name, as_value(x, f"the operand of tag {name!r}"))
    return met


@pickles_as_call
@also_takes()
def grad_wrt_tags(fun: Callable[P, PyTree]) -> Callable[P, dict[str, PyTree]]:
    """The gradients of a scalar function with respect to the intermediate results that it tags.

    Arguments:
        fun: a function that calls `tag`.  It runs once more, to find the tags.

    Returns:
        A function of the same arguments that returns a dictionary by name.  A name that is met
        several times, or in a mapped function, has the sum of the gradients.

    Example:
        >>> import fgrad
        >>> def f(x):
        ...     a = fgrad.tag(x * 3.0, "a")
        ...     return a * a
        >>> fgrad.grad_wrt_tags(f)(1.0)
        {'a': np.float64(6.0)}
    """

    def gradients(*args: PyTree, **kwargs: PyTree) -> dict[str, Value]:
        first = _Collector(None)
        with _collecting(first):
            user_form(fun)(*args, **kwargs)

        def perturbed(added: dict[str, Value]) -> PyTree:
            with _collecting(_Collector(added)):
                return user_form(fun)(*args, **kwargs)

        return grad(perturbed)(first.found) if first.found else {}

    return named_like(gradients, fun, "grad_wrt_tags")
