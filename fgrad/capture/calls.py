"""L5. Calls of Python's and NumPy's functions that make plain numbers: what is called instead.

In an open trace `np.zeros(n)` is an array of the trace, into which traced values can be written;
`math.sin(x)` is `np.sin(x)`; `float(x)` is a number of dtype float64 that depends on x.  Where no
argument is traced, Python's own function is called.
"""

from __future__ import annotations

import builtins
import cmath
import functools
import math
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import numpy as fnp
from fgrad.base.lazy_import import lazy_module
from fgrad.base.sizes import is_symbolic
from fgrad.capture import iteration
from fgrad.capture.elements import made
from fgrad.capture.identity import id_
from fgrad.capture.listed import LISTED
from fgrad.capture.rounding import round_
from fgrad.capture.values import (
    PYTHON_NUMBERS,
    aval_of_value,
    common_type,
    is_unknown,
    is_weak,
)
from fgrad.errors import ArgumentError, UnsupportedNumpyError
from fgrad.numpy.masked import UnknownSize
from fgrad.numpy.promote import result_type, user_line, weakened
from fgrad.numpy.python_numbers import has_value, in_domain, whole
from fgrad.ops import erf_gamma
from fgrad.trace import Tracer, concrete, innermost, numpy_functions
from fgrad.tracing.capturing import not_recorded, rolls
from fgrad.tracing.carried import innermost_body
from fgrad.tracing.readout import differentiator
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.ops import special_functions
    from fgrad.transforms.custom import callback
else:
    special_functions = lazy_module("fgrad.ops.special_functions")
    callback = lazy_module("fgrad.transforms.custom.callback")

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for

Function = Callable[..., Any]


def has_tracer(xs: Iterable[Any]) -> bool:
    """Whether a traced value is among some, or in a list among them."""
    return any(
        [isinstance(x, Tracer) or (isinstance(x, (list, tuple)) and has_tracer(x)) for x in xs]
    )


# --- numbers --------------------------------------------------------------------------------------


def float_(*args: object) -> object:
    """`float`."""
    return _number(builtins.float, np.dtype(np.float64), args)


def int_(*args: Any) -> Any:
    """`int`: towards zero."""
    if len(args) == 1 and is_unknown(args[0]) and args[0].dtype.kind == "f":
        return _number(builtins.int, np.dtype(np.int64), (np.trunc(whole(args[0])),))
    return _number(builtins.int, np.dtype(np.int64), args)


def bool_(*args: object) -> object:
    """`bool`."""
    return _number(builtins.bool, np.dtype(np.bool_), args)


def complex_(*args: Any) -> object:
    """`complex`."""
    if len(args) == 2 and has_tracer(args):
        return weakened(args[0] + 1j * args[1])
    return _number(builtins.complex, np.dtype(np.complex128), args)


def _number(kind: type, dtype: np.dtype, args: tuple[Any, ...]) -> Any:
    if len(args) != 1 or not isinstance(args[0], Tracer):
        return kind(*args)
    x: Any = args[0]
    if not is_unknown(x) and (kind in (builtins.int, builtins.bool) or differentiator(x) is None):
        return kind(x)
    if x.size != 1:
        raise TypeError("only length-1 arrays can be converted to Python scalars")
    if x.dtype.kind == "c" and kind not in (builtins.complex, builtins.bool):
        raise TypeError(f"{kind.__name__}() argument must be a string or a real number")
    x = x.reshape(()) if x.shape else x
    if dtype.kind == "b":
        return weakened(x != 0 if x.dtype.kind != "b" else x.twin())
    return weakened(x.astype(dtype).twin())


def of_dtype(kind: type) -> Function:
    """`np.float64(x)` and its kin."""

    def convert(*args: object) -> object:
        if len(args) == 1 and isinstance(args[0], Tracer):
            return args[0].astype(kind)
        if len(args) == 1 and has_tracer(args):
            return fnp.array(args[0], kind)
        return kind(*args)

    return convert


# --- Python's functions of several numbers --------------------------------------------------------


def _largest(plain: Function, ufunc: Function) -> Function:
    """`max` and `min`: `b if b > a else a`, from the left; `b if key(b) > key(a)`, with a key."""

    def of(*args: Any, key: Any = None, **kwargs: Any) -> Any:
        items = args if len(args) != 1 else tuple(args[0])
        keys = items if key is None else tuple([key(x) for x in items])
        if not any([is_unknown(x) for x in keys]):
            return plain(*(args if len(args) != 1 else (items,)), key=key, **kwargs)
        if any([np.shape(x) not in ((), (1,)) for x in keys]):
            raise ValueError("The truth value of an array with more than one element is "
                             "ambiguous. Use a.any() or a.all()")  # fmt: skip
        if any([not isinstance(x, (Tracer, *PYTHON_NUMBERS, np.generic)) for x in items]):
            raise not_recorded(f"{plain.__name__}() of what are no numbers, by traced keys")
        found, best = items[0], keys[0]
        for x, k in zip(items[1:], keys[1:], strict=True):
            is_better = ufunc(k, best)
            found = _chosen(is_better, x, found, f"the result of {plain.__name__}()")
            best = found if key is None else _chosen(is_better, k, best, "the largest key")
        return found

    return of


def sorted_(items: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    """`sorted` of numbers."""
    found = list(items)
    if not any([is_unknown(x) for x in found]):
        return builtins.sorted(found, key=key, reverse=reverse)
    if key is not None or any([np.shape(x) for x in found]):
        raise not_recorded("sorted() of traced values by a key, or of arrays")
    weak = all([is_weak(x) for x in found])
    ordered = np.sort(np.stack([np.negative(x) if reverse else x for x in found]))
    ordered = -ordered if reverse else ordered
    return made([weakened(x) if weak else x for x in ordered])


def _chosen(test: Any, a: Any, b: Any, name: str) -> Any:
    """`a if test else b` of numbers: a number, where `np.where` gives an array of rank 0."""
    if not (np.shape(a) or np.shape(b)):
        common_type(aval_of_value(a), aval_of_value(b), name)
    out = np.where(test, a, b)[()]
    return weakened(out) if is_weak(a) and is_weak(b) else out


def sum_(items: Any, /, start: Any = 0) -> Any:
    """`sum`: in the dtype of `start + item`, where `np.sum` of small integers takes a wider one."""
    if isinstance(items, Tracer) and items.shape and items.shape[0] and is_unknown(items):
        total = np.sum(items, axis=0, dtype=result_type(items, start))
        return total if type(start) is builtins.int and start == 0 else total + start
    return builtins.sum(items, start)


def any_(items: object) -> object:
    """`any`."""
    return _truths(items, builtins.any, np.logical_or)


def all_(items: object) -> object:
    """`all`."""
    return _truths(items, builtins.all, np.logical_and)


def _truths(items: Any, plain: Function, ufunc: Function) -> object:
    if not isinstance(items, Tracer):
        items = list(items)
        if not any([is_unknown(x) for x in items]):
            return plain(items)
    elif not is_unknown(items):
        return plain(items)
    return weakened(functools.reduce(ufunc, [bool_(x) for x in items]))


def isinstance_(x: Any, kinds: Any) -> bool:
    """`isinstance`: a traced array is an `np.ndarray`, a traced number one of NumPy or Python."""
    if isinstance(x, UnknownSize):
        return isinstance(np.empty(0), kinds) or isinstance(x, kinds)
    if not isinstance(x, Tracer) or x.builder.what == "device":
        return isinstance(x, kinds)
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if x.shape or x.memory is not None:
        like: Any = np.empty((0,) * len(x.shape), x.dtype)
    else:
        like = x.dtype.type(0).item() if x.weak else x.dtype.type(0)
    return any(
        [isinstance_(x, k) if isinstance(k, tuple) else isinstance(like, k) for k in wanted]
    ) or (isinstance(x, kinds))


def print_(*args: Any, **kwargs: Any) -> None:
    """`print`: when the program runs, in each step of a loop."""
    if kwargs.get("file") is not None or not rolls():
        builtins.print(*args, **kwargs)
        return

    def show(*xs: Any) -> None:
        builtins.print(*xs, **kwargs)

    callback.debug_callback(show, *args)


def len_(x: Any) -> Any:
    """`len`: traced, of what a mask selects and of a ragged slice; for all lengths of an axis."""
    known = isinstance(x, UnknownSize) or (isinstance(x, Tracer) and is_symbolic(x.shape[:1]))
    return x.shape[0] if known else builtins.len(x)


def isscalar_(x: object) -> bool:
    """`np.isscalar`."""
    return not (x.shape or x.memory is not None) if isinstance(x, Tracer) else np.isscalar(x)


def type_(*args: object) -> object:
    """`type`: what the value of a traced one would have."""
    if len(args) == 1 and isinstance(args[0], UnknownSize):
        return np.ndarray
    if len(args) != 1 or not isinstance(args[0], Tracer) or args[0].builder.what == "device":
        return type(*args)
    x = args[0]
    if x.shape or x.memory is not None:
        return np.ndarray
    return type(x.dtype.type(0).item()) if x.weak else x.dtype.type


def class_of(x: Any) -> Any:
    """`x.__class__`."""
    return type_(x) if isinstance(x, (Tracer, UnknownSize)) else x.__class__


def list_(*args: object) -> object:
    """`list`."""
    return made(builtins.list(*args))


def dict_(*args: object, **kwargs: object) -> object:
    """`dict`."""
    return made(builtins.dict(*args, **kwargs))


# --- math -----------------------------------------------------------------------------------------


def _of_math(plain: Function, ufunc: Function, bad: tuple[float, ...] = ()) -> Function:
    def of(*args: Any) -> Any:
        if not has_tracer(args):
            return plain(*args)
        xs = _as_floats(plain, args)
        if not has_tracer(xs):
            return plain(*xs)  # known, and not differentiated
        if len(xs) == 1:
            return weakened(ufunc(in_domain(plain, xs[0])))
        out = weakened(ufunc(*xs))
        return has_value(plain, xs, out, bad) if bad else out

    return of


def _as_floats(plain: Function, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a function of `math`; its error if they are known and have none."""
    xs = tuple([_as_float(x) for x in args])
    known = [concrete(x) if isinstance(x, Tracer) else x for x in xs]
    if not any([x is None for x in known]):
        plain(*known)
    return xs


def _as_float(x: Any) -> Any:
    """An argument of a function of `math`, which takes numbers alone."""
    if isinstance(x, Tracer):
        return float_(x)
    return x


def _log(x: Any, base: Any = None) -> Any:
    if not has_tracer((x, base)):
        return math.log(x) if base is None else math.log(x, base)
    xs = _as_floats(math.log, (x,) if base is None else (x, base))
    parts = [
        weakened(np.log(in_domain(math.log, y))) if isinstance(y, Tracer) else math.log(y)
        for y in xs
    ]
    return parts[0] if base is None else parts[0] / parts[1]


def _whole(plain: Function, ufunc: Function) -> Function:
    def of(x: Any) -> Any:
        return int_(ufunc(x)) if isinstance(x, Tracer) else plain(x)

    return of


def _fsum(items: Any) -> object:
    found = list(items)
    return functools.reduce(np.add, found, 0.0) if has_tracer(found) else math.fsum(found)


def _sign_free(plain: Function, ufunc: Function) -> Function:
    """Tests of `math`, whose result is a truth value."""

    def of(x: Any) -> Any:
        return weakened(ufunc(x)) if isinstance(x, Tracer) else plain(x)

    return of


_UFUNCS = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "atan2": np.arctan2, "exp": np.exp, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "expm1": np.expm1, "sqrt": np.sqrt, "pow": np.power, "fabs": np.abs,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "hypot": np.hypot, "copysign": np.copysign, "fmod": np.fmod,
    "degrees": np.degrees, "radians": np.radians, "erf": erf_gamma.erf,
    "erfc": erf_gamma.erfc, "lgamma": erf_gamma.lgamma,
    "gamma": lambda x: special_functions.gamma(x),
}  # fmt: skip
_COMPLEX = ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt")  # functions of `cmath`


def _of_cmath(plain: Function, ufunc: Function) -> Function:
    def of(x: Any) -> Any:
        return weakened(ufunc(complex_(x))) if isinstance(x, Tracer) else plain(x)

    return of


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    if not has_tracer((a, b, rel_tol, abs_tol)):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    a, b = _as_float(a), _as_float(b)
    largest = np.maximum(np.abs(a), np.abs(b))
    room = np.maximum(rel_tol * largest, abs_tol)
    return weakened((a == b) | ((np.abs(a - b) <= room) & np.isfinite(largest)))


_BAD = {"pow": (-1.0, 0.5), "fmod": (1.0, 0.0)}


def _math_table() -> dict[object, Function]:
    table: dict[object, Function] = {math.log: _log, math.fsum: _fsum, math.isclose: _isclose}
    for name in _COMPLEX:
        table[getattr(cmath, name)] = _of_cmath(getattr(cmath, name), getattr(np, name))
    for name, ufunc in _UFUNCS.items():
        table[getattr(math, name)] = _of_math(getattr(math, name), ufunc, _BAD.get(name, ()))
    for name, ufunc in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}.items():
        table[getattr(math, name)] = _whole(getattr(math, name), ufunc)
    for name, ufunc in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
        table[getattr(math, name)] = _sign_free(getattr(math, name), ufunc)
    return table


# --- NumPy's functions that make arrays -----------------------------------------------------------

BUFFERS = ("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like")
FROM_VALUES = ("array", "asarray", "copy", "eye", "identity", "arange", "linspace")


def _buffer(name: str) -> Function:
    """What makes an array that programs fill."""
    plain, traced = getattr(np, name), getattr(fnp, name)

    @functools.wraps(plain)
    def make(*args: object, **kwargs: object) -> object:
        if innermost() is None or _is_other_dtype(args, kwargs):
            return plain(*args, **kwargs)
        return traced(*args, **kwargs)

    return make


def _is_other_dtype(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether an array of no numbers is asked for."""
    if len(args) == 1 and not kwargs:
        return False
    found = [kwargs.get("dtype"), *[x for x in args[1:] if isinstance(x, (type, np.dtype, str))]]
    return any([x is not None and np.dtype(x).kind not in "biufcV" for x in found])


def _of_lists(plain: Function) -> Function:
    """A function of arrays, to which lists of traced values may be given."""

    @functools.wraps(plain)
    def of(*args: object, **kwargs: object) -> object:
        return plain(*[_array_of(x) for x in args], **kwargs)

    return of


def _array_of(x: object) -> object:
    is_list = isinstance(x, (list, tuple)) and has_tracer(x)
    return fnp.array(x) if is_list else x


OF_LISTS = tuple([
    getattr(place, name) for name in LISTED for place in (np, np.linalg) if hasattr(place, name)
])  # fmt: skip
FILLED = frozenset([getattr(np, name) for name in FROM_VALUES if name != "asarray"])


def _values(name: str) -> Function:
    """What makes an array of numbers: a traced one if they are traced."""
    plain = getattr(np, name)

    @functools.wraps(plain)
    def make(*args: object, **kwargs: object) -> object:
        if is_symbolic(args) and plain in numpy_functions:
            return numpy_functions[plain](*args, **kwargs)
        return (getattr(fnp, name) if has_tracer(args) else plain)(*args, **kwargs)

    return make


def own(x: Any) -> Any:
    """A new plain array of which the function writes elements, as an array of the trace."""
    if type(x) is np.ndarray and innermost() is not None and x.dtype.kind in "biufc":
        return fnp.array(x)
    return x


def ready(value: object, x: object) -> object:
    """A new array that has no other name, for `value` to be written into it: an array of the trace
    from where that may be traced on."""
    if type(x) is not np.ndarray or isinstance(value, _UNTRACED):
        return x
    return own(x)


_UNTRACED = (float, int, complex, np.ndarray, np.generic)
_NEW = frozenset({"copy", "astype", "flatten", "repeat"})  # methods that make new arrays


def filling(function: Any) -> Function | None:
    """The form of a function whose result is a new array that is to be filled; None if it may
    give one that is there already."""
    made = isinstance(function, np.ufunc) or _is_one_of(function, FILLED)
    if type(function) is types.BuiltinMethodType and function.__name__ in _NEW:
        made = type(function.__self__) is np.ndarray
    if not made:
        return None

    def make(*args: Any, **kwargs: Any) -> object:
        return own(function(*args, **kwargs))

    return make


def _is_one_of(function: object, functions: frozenset[object]) -> bool:
    try:
        return function in functions
    except TypeError:
        return False


def ndarray_(shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    """`np.ndarray(shape)`."""
    if args or kwargs or innermost() is None:
        return np.ndarray(shape, dtype, *args, **kwargs)
    return fnp.empty(shape, dtype)


def nditer_(op: PyTree, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """`np.nditer`, which puts an error of its own in place of a traced array's card."""
    if has_tracer(op if isinstance(op, (list, tuple)) else (op,)):
        raise UnsupportedNumpyError(
            "np.nditer does not take traced arrays.",
            (
                *user_line(),
                ("why", "it walks over memory, and a traced array has none."),
                ("write", "for v in x.ravel():"),
                ("write", "for i in np.ndindex(x.shape):      x[i]"),
            ),
        )
    return np.nditer(op, *args, **kwargs)


def _table() -> dict[object, Function]:
    table: dict[object, Function] = {
        range: iteration.range_, enumerate: iteration.enumerate_, zip: iteration.zip_,
        reversed: iteration.reversed_, float: float_, int: int_, bool: bool_, complex: complex_,
        max: _largest(max, np.greater), min: _largest(min, np.less), sum: sum_,
        sorted: sorted_, any: any_,
        all: all_, isinstance: isinstance_, print: print_, list: list_, dict: dict_,
        id: id_, len: len_, np.isscalar: isscalar_, type: type_, round: round_,
        np.ndarray: ndarray_, np.nditer: nditer_, np.ndenumerate: _values("ndenumerate"),
    }  # fmt: skip
    table |= {getattr(np, name): _buffer(name) for name in BUFFERS}
    table |= {getattr(np, name): _values(name) for name in FROM_VALUES}
    kinds = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32",
             "uint16", "uint8", "complex128", "complex64", "bool_")  # fmt: skip
    table |= {function: _of_lists(function) for function in OF_LISTS}
    table |= {getattr(np, name): of_dtype(getattr(np, name)) for name in kinds}
    return table | _math_table()


TABLE = _table()
CHANGING = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "add",
    "discard", "setdefault", "popitem", "popleft", "appendleft", "extendleft", "write", "fill",
    "put", "itemset", "resize", "partition", "setflags", "setfield",
})  # fmt: skip


def refuse_random(function: Any) -> None:
    """Refuse draws from NumPy's generator in a body that runs once for all steps."""
    owner = getattr(function, "__self__", None)
    if innermost_body() is not None and isinstance(
        owner, (np.random.Generator, np.random.RandomState)
    ):
        raise not_recorded("random numbers are drawn at trace time")


def refused_shape(name: str) -> ArgumentError:
    """The card for an array whose shape is traced."""
    return ArgumentError(f"np.{name}: the shape depends on a traced value")
