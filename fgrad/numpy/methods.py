"""L4. The operators, methods and properties of `ndarray` that tracers have."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fgrad.base.foreign import asked_by_product, is_scipy_sparse, refused_by_sparse
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, TracedArrayError, UnsupportedNumpyError
from fgrad.numpy import arrange, creation, inplace, other_libraries, reductions
from fgrad.numpy.at_indexing import At
from fgrad.numpy.indexing import getitem
from fgrad.numpy.operators import OPERATORS
from fgrad.numpy.promote import refuse_argument, user_line
from fgrad.numpy.views import bits_view, same_view
from fgrad.ops import complex as cx
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.readout import array_of, number_of
from fgrad.tracing.tables import numpy_functions
from fgrad.tracing.trace_errors import needs_value
from fgrad.typing import ArrayLike, Casting, DTypeLike, Order

if TYPE_CHECKING:
    from fgrad.numpy import common
    from fgrad.numpy import sparse_matrices as sparse
else:
    common = lazy_module("fgrad.numpy.common")
    sparse = lazy_module("fgrad.numpy.sparse_matrices")


def astype(
    self: Tracer,
    dtype: DTypeLike | None,
    order: Order = "K",
    casting: Casting = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Value:
    """The values with another dtype."""
    if not np.can_cast(self.dtype, np.dtype(dtype), casting):
        raise ArgumentError(
            f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the "
            f"rule {casting!r}",
        )
    return creation.astype(self, dtype, copy=copy)


def copy(self: Tracer, order: Order = "C") -> Value:
    """The same values, which later assignments do not change."""
    return arrange.copy(self, order) if self.shape or self.memory is not None else self.twin()


def reshape(self: Tracer, *new_shape: Any, order: Order = "C", copy: bool | None = None) -> Value:
    """x.reshape(2, 3) or x.reshape((2, 3))."""
    given = new_shape[0] if len(new_shape) == 1 else new_shape
    if order == "C" and type(given) is tuple and not self.weak:
        size = math.prod(given)
        if size == self.size and size > 0 and -1 not in given:
            return sh.reshape(self, given)
    return arrange.reshape_(self, given, order)


def transpose(self: Tracer, *axes: Any) -> Value:
    """x.transpose(), x.transpose(1, 0) or x.transpose((1, 0))."""
    if not axes:
        return arrange.transpose(self)
    return arrange.transpose(self, axes[0] if len(axes) == 1 and np.ndim(axes[0] or ()) else axes)


def _matmul(self: Tracer, other: Value) -> Value:
    if not isinstance(other, (Tracer, np.ndarray, np.generic, list, tuple)):
        return self @ sparse.constant_matrix(other) if is_scipy_sparse(other) else NotImplemented
    return common.products.matmul(self, other)


def _rmatmul(self: Tracer, other: Value) -> Value:
    if is_scipy_sparse(other):
        return sparse.constant_matrix(other) @ self
    return common.products.matmul(other, self)


def _array(self: Tracer, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
    """A copy of known values, as in `table[np.argsort(x)]`, where no derivative is lost."""
    if asked_by_product(sys._getframe(1), self):
        return np.array(None, object)  # SciPy then leaves the product to `_rmatmul`
    try:
        return array_of(self, concrete(self), dtype, copy)
    except TracedArrayError as error:
        raise refused_by_sparse(sys._getframe(1)) or error from None


def _later(name: str) -> Callable[..., object]:
    """A method that is a NumPy function of its object."""
    target = getattr(np, name)

    def method(self: Tracer, *args: ArrayLike, **kwargs: object) -> object:
        return numpy_functions[target](self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"`np.{name}` of this array."
    return method


def _of_value(name: str) -> Callable[..., object]:
    """A method that gives the numbers away: it works where they are known, and no derivative is
    lost."""

    def method(self: Tracer, *args: ArrayLike, **kwargs: object) -> object:
        return getattr(np.asarray(number_of(self, concrete(self)))[()], name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"`ndarray.{name}` of known values."
    return method


def _refused(name: str, advice: str) -> Callable[..., object]:
    def method(self: Tracer, *_args: object, **_kwargs: object) -> NoReturn:
        raise UnsupportedNumpyError(
            f"A traced array has no {name}.", (*user_line(), ("write", advice))
        )

    method.__name__ = name
    method.__doc__ = f"`ndarray.{name}` has no traced form."
    return method


def view(self: Tracer, dtype: DTypeLike | None = None) -> Value:
    """The array itself, or its bits read as a dtype of the same size."""
    if dtype is None or dtype is np.ndarray:
        return same_view(self)
    kind = np.dtype(dtype)
    if kind.itemsize != self.dtype.itemsize or "c" in (kind.kind, self.dtype.kind):
        raise refuse_argument("ndarray.view", "dtype", "x.astype(dtype), x.real, x.imag")
    return bits_view(self, kind)


def compress(
    self: Tracer, condition: ArrayLike, axis: int | None = None, **kwargs: object
) -> Value:
    """The elements along an axis where a condition holds."""
    return numpy_functions[np.compress](condition, self, axis, **kwargs)


def conjugate(self: Tracer) -> Value:
    """The complex conjugate; any other array as it is."""
    return cx.conj(self) if cx.is_complex(self) else self


def contains(self: Tracer, value: ArrayLike) -> bool:
    """Whether an element is equal to a value."""
    return bool(reductions.any_(np.equal(self, value)))


def _delete(self: Tracer, _index: object) -> None:
    raise ArgumentError("cannot delete array elements")


_MEMORY = "a traced array has no memory of its own: fgrad.stop_gradient(x) outside of jit"
REFUSED = {
    "setfield": _MEMORY, "getfield": _MEMORY, "setflags": _MEMORY, "byteswap": _MEMORY,
    "resize": "x = np.resize(x, shape)",
    "__setstate__": _MEMORY,
}  # fmt: skip
REFUSED_PROPERTIES = {name: _MEMORY for name in ("data", "ctypes", "strides", "flags", "base")}
OF_VALUES = ("item", "tolist", "tobytes", "tofile", "dump", "dumps", "__reduce__")
SAME_FUNCTION = (
    "argmax", "argmin", "argsort", "argpartition", "choose", "clip", "cumprod",
    "cumsum", "diagonal", "dot", "nonzero", "repeat", "round", "searchsorted", "squeeze",
    "swapaxes", "take", "trace",
)  # fmt: skip


def _hash(x: Tracer) -> int:
    """No key of a dictionary: keys are found by their values."""
    raise needs_value("key", x)


def _is_integer(x: Tracer) -> Callable[[], Value]:
    """`x.is_integer` of a number."""
    _check_number(x, "is_integer", "f")
    return lambda: np.isfinite(x) & (np.floor(x) == x)


def _bit_length(x: Tracer) -> Callable[[], Value]:
    """`n.bit_length` of one of Python's integers."""
    _check_number(x, "bit_length", "i" if x.weak else "")
    return lambda: np.sum(np.abs(x) >> np.arange(63) != 0)


def _check_number(x: Tracer, name: str, kinds: str) -> None:
    if x.shape or x.memory is not None or x.dtype.kind not in kinds:
        raise AttributeError(f"'Tracer' object has no attribute {name!r}", name=name, obj=x)


def _for_ctypes(x: Tracer) -> object:
    """What a function of `ctypes` is given, which asks for it; a card where there is no number."""
    return np.asarray(x) if x.shape else number_of(x, concrete(x)).item()


METHODS: dict[str, object] = {
    "__hash__": _hash,
    "is_integer": property(_is_integer),
    "bit_length": property(_bit_length),
    "_as_parameter_": property(_for_ctypes),
    **OPERATORS,
    "__getitem__": getitem,
    "__array__": _array,
    "__matmul__": _matmul,
    "__rmatmul__": _rmatmul,
    "__imatmul__": _matmul,
    "sum": reductions.sum_,
    "mean": reductions.mean,
    "prod": reductions.prod,
    "max": reductions.max_,
    "min": reductions.min_,
    "any": reductions.any_,
    "all": reductions.all_,
    "var": reductions.var,
    "std": reductions.std,
    "ptp": reductions.ptp,
    "astype": astype,
    "reshape": reshape,
    "transpose": transpose,
    "ravel": arrange.ravel,
    "flatten": arrange.flatten,
    "copy": copy,
    "T": property(arrange.transpose),
    "mT": property(arrange.matrix_transpose),
    "at": property(At),
    "real": property(lambda x: numpy_functions[np.real](x)),
    "imag": property(lambda x: numpy_functions[np.imag](x)),
    "device": property(lambda x: "cpu"),
    "to_device": lambda x, device, stream=None: x,
    "view": view,
    "compress": compress,
    "conj": conjugate,
    "conjugate": conjugate,
    "__contains__": contains,
    "__delitem__": _delete,
    "__dlpack_device__": lambda x: (1, 0),
    **other_libraries.METHODS,
    **{name: _of_value(name) for name in OF_VALUES},
    **{name: _refused(name, advice) for name, advice in REFUSED.items()},
    **{name: property(_refused(name, advice)) for name, advice in REFUSED_PROPERTIES.items()},
    **{name: _later(name) for name in SAME_FUNCTION},
}


def install(namespace: ModuleType) -> None:
    """Give tracers their operators, methods and properties; `namespace` has their functions."""
    methods = METHODS | {"__array_namespace__": lambda x, api_version=None: namespace}
    for name, method in inplace.install(methods).items():
        setattr(Tracer, name, method)
