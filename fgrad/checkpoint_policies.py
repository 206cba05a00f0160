"""L7. Which values a checkpoint keeps, for `fgrad.checkpoint(f, policy=...)`; the names are JAX's.

A policy is a function `(primitive, *operand_avals, **params) -> bool` that says of each equation
whether its results are kept; your own may look at `primitive.name`.

Arguments:
    prim, params: what a policy is given: a primitive, and the parameters of its equation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.base.lazy_import import names_shown
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import MissingRuleError
from fgrad.ir.primitive import Primitive
from fgrad.ops import primitives as prims
from fgrad.transforms.checkpoint.names import NAME

Policy = Callable[..., bool]


def everything_saveable(_prim: Primitive, *_avals: object, **_params: object) -> bool:
    """Keep all: no memory is saved.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.everything_saveable
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """
    return True


def nothing_saveable(_prim: Primitive, *_avals: object, **_params: object) -> bool:
    """Keep nothing but the arguments: the default.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.nothing_saveable
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """
    return False


def dots_saveable(prim: Primitive, *_avals: object, **_params: object) -> bool:
    """Keep the results of matrix products and convolutions.

    Example:
        >>> import numpy as np, fgrad
        >>> keep = fgrad.checkpoint_policies.dots_saveable
        >>> f = fgrad.checkpoint(lambda w, x: np.sum(np.tanh(x @ w)), policy=keep)
        >>> fgrad.grad(f)(np.zeros((2, 1)), np.ones((3, 2)))
        array([[3.],
               [3.]])
    """
    return prim.contracts


checkpoint_dots = dots_saveable


def dots_with_no_batch_dims_saveable(prim: Primitive, *_avals: object, **params: Any) -> bool:
    """Keep the results of matrix products without batch axes: those with weights.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.dots_with_no_batch_dims_saveable
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """
    return prim is prims.dot_general and not params["batch"][0]


checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


@pickles_as_call
def save_only_these_names(*names: str) -> Policy:
    """Keep what `checkpoint_name` gave one of these names.

    Arguments:
        names: names that `fgrad.checkpoint_name` gave.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.save_only_these_names("inner")
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """

    def policy(prim: Primitive, *_avals: object, **params: object) -> bool:
        return prim is NAME and params["name"] in names

    return policy


@pickles_as_call
def save_any_names_but_these(*names: str) -> Policy:
    """Keep what `checkpoint_name` gave another name than these.

    Arguments:
        names: names that `fgrad.checkpoint_name` gave.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.save_any_names_but_these("inner")
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """

    def policy(prim: Primitive, *_avals: object, **params: object) -> bool:
        return prim is NAME and params["name"] not in names

    return policy


@pickles_as_call
def save_anything_except_these_names(*names: str) -> Policy:
    """Keep all but what `checkpoint_name` gave one of these names.

    Arguments:
        names: names that `fgrad.checkpoint_name` gave.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.save_anything_except_these_names("inner")
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """

    def policy(prim: Primitive, *_avals: object, **params: object) -> bool:
        return prim is not NAME or params["name"] not in names

    return policy


@pickles_as_call
def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Keep what one of two policies keeps.

    Arguments:
        first, second: policies.

    Example:
        >>> import fgrad, numpy as np
        >>> policy = fgrad.checkpoint_policies.dots_saveable
        >>> policy = fgrad.checkpoint_policies.save_from_both_policies(policy, policy)
        >>> def f(x):
        ...     return np.sin(fgrad.checkpoint_name(np.sin(x), "inner"))
        >>> fgrad.grad(fgrad.checkpoint(f, policy=policy))(0.0)
        np.float64(1.0)
    """

    def policy(prim: Primitive, *avals: object, **params: object) -> bool:
        return first(prim, *avals, **params) or second(prim, *avals, **params)

    return policy


def offload_dot_with_no_batch_dims(*_args: object, **_params: object) -> Policy:
    """Refused: there is no second memory to move values to.

    Example:
        >>> import fgrad
        >>> try:
        ...     fgrad.checkpoint_policies.offload_dot_with_no_batch_dims()
        ... except fgrad.errors.MissingRuleError as error:
        ...     print(type(error).__name__)
        MissingRuleError
    """
    raise _no_offload("offload_dot_with_no_batch_dims", "dots_with_no_batch_dims_saveable")


def save_and_offload_only_these_names(*_args: object, **_params: object) -> Policy:
    """Refused: there is no second memory to move values to.

    Example:
        >>> import fgrad
        >>> try:
        ...     fgrad.checkpoint_policies.save_and_offload_only_these_names()
        ... except fgrad.errors.MissingRuleError as error:
        ...     print(type(error).__name__)
        MissingRuleError
    """
    raise _no_offload("save_and_offload_only_these_names", "save_only_these_names(...)")


def _no_offload(name: str, instead: str) -> MissingRuleError:
    return MissingRuleError(
        f"checkpoint_policies.{name} is not supported.",
        (
            ("why", "arrays are in main memory already; there is nowhere to offload them."),
            ("write", f"fgrad.checkpoint_policies.{instead}"),
        ),
    )


__dir__ = names_shown(__name__)
