"""L0. Keywords that a function's namesake in JAX, optax or SciPy has, and this one has not.

@also_takes("unroll", out_sharding=None)
def normal(key, shape=()): ...

normal(key, unroll=4)               the same: a hint, which changes no result
normal(key, out_sharding=None)      the same: the one value that means what is done here
normal(key, out_sharding=other)     ArgumentError: it is never ignored in silence
normal(key, shap=(3,))              ArgumentError, which names shape: nothing has such a name
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from fgrad.base.lazy_import import lazy_module

if TYPE_CHECKING:
    import difflib

    from fgrad import errors
else:  # which `load` of a trusted file does not need
    difflib = lazy_module("difflib")
    errors = lazy_module("fgrad.errors")

F = TypeVar("F", bound=Callable[..., object])

_ANY_KEYWORD = 8  # inspect.CO_VARKEYWORDS
# Packages that are no part of a public name.
_INSIDE = {"aot", "capture", "compile", "interchange", "lower_cuda", "ops", "tools", "transforms"}

REFUSED = object()  # in the place of the one value that is taken: there is none

_WHY: dict[str, tuple[str, str]] = {  # why, and what to write
    "out_sharding": ("results lie in one piece.", "fgrad.distributed for arrays in parts"),
    "sharding": ("results lie in one piece.", "fgrad.distributed for arrays in parts"),
    "in_shardings": ("arguments lie in one piece.", "fgrad.distributed for arrays in parts"),
    "out_shardings": ("results lie in one piece.", "fgrad.distributed for arrays in parts"),
    "spmd_axis_name": ("the mapped axis lies in one piece.", "fgrad.distributed.shard_map"),
    "axis_index_groups": (
        "a collective works over a whole axis.", "two axes, by vmap in vmap, and the name of one"),
    "allow_int": (
        "integers have no derivative.", "argnums, or fgrad.tree.partition, to leave them out"),
    "donate_argnames": ("arguments are donated by their places.", "donate_argnums=..."),
    "static_argnames": ("arguments are static by their places.", "static_argnums=..."),
    "backend": ("the device is chosen by name.", 'device="cuda", or nothing for the CPU'),
    "operand": ("operands follow the functions.", "cond(pred, f, g, operand)"),
    "subset_by_index": ("all of them are computed.", "a slice of the result, such as w[:k]"),
    "where": ("SciPy's function has no mask.", "fgrad.nn.logsumexp(x, where=mask)"),
    "impl": ("there is one generator, Philox.", "fgrad.random.key(seed)"),
    "seed": ("noise is drawn by a key.", "key=fgrad.random.key(seed)"),
    "tol": ("the tolerance has SciPy's names.", "rtol=..., atol=..."),
    "inplace": ("NumPy's function writes into its argument.", "inplace=False for a new array"),
}  # fmt: skip


def also_takes(
    *hints: str, aliases: Mapping[str, str] | None = None, **only: object
) -> Callable[[F], F]:
    """Decorator: the function takes keywords of its namesake, and refuses what it cannot do.

    A keyword that neither has is refused with the names that are nearest to it.

    Arguments:
        hints: keywords that change no result; any value is taken.
        aliases: other names of its own keywords.
        only: keywords with the one value that means what the function does; `REFUSED` for none.

    Raises:
        ArgumentError: from the function, for another value, or another keyword.

    Example:
        >>> @also_takes("unroll", aliases={"start": "x"}, out_sharding=None)
        ... def double(x):
        ...     return 2 * x
        >>> double(start=2, unroll=4, out_sharding=None)
        4
    """
    other = {**dict.fromkeys(hints), **dict.fromkeys(aliases or ()), **only}.keys()

    def decorate(function: F) -> F:
        own = _parameters(function)

        @functools.wraps(function)
        def taking(*args: object, **kwargs: object) -> object:
            if kwargs:
                if not other.isdisjoint(kwargs):
                    kwargs = own_keywords(
                        _public_name(function), kwargs, hints, aliases or {}, only
                    )
                if own and not own.issuperset(kwargs):
                    raise _unknown(_public_name(function), kwargs, own)
            return function(*args, **kwargs)

        known: Any = taking
        known.other_keywords, known.refused_keywords = frozenset(other), tuple(only)
        known.plainly = function
        return taking  # type: ignore[return-value]

    return decorate


def _parameters(function: Callable[..., object]) -> frozenset[str]:
    """The names of a function's parameters; nothing where it takes any keyword."""
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _ANY_KEYWORD:
        return frozenset()
    code = function.__code__
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _public_name(function: Callable[..., object]) -> str:
    """The name by which users call a function: fgrad.grad, fgrad.nn.softmax."""
    package = function.__module__.rpartition(".")[0]
    inside = package.split(".")[1:2]
    return f"{'fgrad' if inside and inside[0] in _INSIDE else package}.{function.__name__}"


def _unknown(name: str, kwargs: Mapping[str, object], own: frozenset[str]) -> errors.ArgumentError:
    """The card for a keyword that nothing has."""
    keyword = next(k for k in kwargs if k not in own)
    near = difflib.get_close_matches(keyword, sorted(own), 2, 0.6) or sorted(own)
    write = " or ".join([f"{k}=..." for k in near])
    return errors.ArgumentError(f"{name} has no keyword {keyword}.", (("write", write),))


def own_keywords(
    name: str,
    kwargs: Mapping[str, object],
    hints: tuple[str, ...],
    aliases: Mapping[str, str],
    only: Mapping[str, object],
) -> dict[str, object]:
    """The keywords of a call that are the function's own; a card for one that it cannot do."""
    own: dict[str, object] = {}
    for keyword, value in kwargs.items():
        if keyword in only:
            if not _same(value, only[keyword]):
                raise refused(name, keyword, value)
        elif keyword not in hints:
            own[aliases.get(keyword, keyword)] = value
    return own


def _same(value: object, expected: object) -> bool:
    """Whether a value is the one that is taken; 1 is not True."""
    return value is expected or (type(value) is type(expected) and bool(value == expected))


def refused(name: str, keyword: str, value: object) -> errors.ArgumentError:
    """The card for a keyword of another library's function."""
    shown = f"={value!r}" if type(value) in (bool, int, float, str) else ""
    default = ("the function of that name elsewhere has it, this one has not.", f"no {keyword}")
    why, write = _WHY.get(keyword, default)
    return errors.ArgumentError(
        f"{name} does not take {keyword}{shown}.", (("why", why), ("write", write))
    )


# Of `jax.jit`.
takes_jit_settings = also_takes(
    "keep_unused", "inline", in_shardings=None, out_shardings=None, donate_argnames=None,
    backend=None, compiler_options=None,
)  # fmt: skip
