"""L0. Arrays of other libraries become plain arrays; containers with other arithmetic are refused.

pandas and polars skip NaN, align indices, and have another `std`; xarray aligns by names; masked
arrays leave elements out; `np.matrix` has another product.  What says how it becomes an array, by
a method `to_numpy`, is none.  Tensors of torch and arrays of JAX are arrays, as `np.asarray` takes
them: without a copy where that can be.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable
from types import FrameType

import numpy as np

from fgrad.errors import FgradError, UnsupportedTypeError
from fgrad.typing import PyTree


def is_foreign(x: object) -> bool:
    """Whether an object holds numbers, but is not a plain array of them."""
    if isinstance(x, np.ndarray):
        return type(x) is not np.ndarray and isinstance(x, (np.ma.MaskedArray, np.matrix))
    return hasattr(type(x), "to_numpy") or is_scipy_sparse(x)


def refuse_foreign(x: object, what: str) -> None:
    """Raise a card for an object that holds numbers, but is not a plain array of them."""
    if is_foreign(x):
        raise foreign_container(x, what)


def foreign_container(x: object, what: str) -> UnsupportedTypeError:
    """The card that says how to make an array of it."""
    kind: type[object] = type(x)
    if isinstance(x, np.ma.MaskedArray):
        why = "its functions leave masked elements out; those of plain arrays do not."
        write = (("write", "x.filled(0.0)       and the mask x.mask as an argument of its own"),)
    elif isinstance(x, np.matrix):
        why = "its * is the product of matrices; that of arrays goes element by element."
        write = (("write", "np.asarray(x)       and @ for products"),)
    elif is_scipy_sparse(x):
        why = "of a sparse matrix products with traced arrays alone, A @ x, have a traced form."
        entries = "fgrad.sparse.csr(A.data, A.indices, A.indptr, A.shape)    of A.tocsr()"
        write = (("write", "A.toarray()"), ("or", entries))
    else:
        why = "it skips NaN, aligns labels, and has another std than arrays: numbers would differ."
        write = (("write", "x.to_numpy()        the plain array"),)
    return UnsupportedTypeError(
        f"fgrad traces plain arrays, but {what} is a {kind.__module__.split('.')[0]} "
        f"{kind.__name__}.",
        (("why", why), *write),
    )


def holds_array(x: object) -> bool:
    """Whether an object of another library can become a plain array."""
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__"):
        return True
    return isinstance(x, (memoryview, array))


def plain_array(x: object, what: str | Callable[[], str]) -> np.ndarray:
    """An array of another library as `np.asarray` takes it, or as DLPack gives it.

    Raises:
        UnsupportedTypeError: the library refuses, as for what is on a device or requires grad; or
            the object is no plain array.
    """
    giver: PyTree = x
    try:
        if not is_foreign(x):
            exports = hasattr(giver, "__dlpack__") and not hasattr(giver, "__array__")
            return np.from_dlpack(giver) if exports else np.asarray(giver)
    except FgradError:
        raise  # it is one of fgrad's own, and says more
    except Exception as error:
        raise _refused(x, what if isinstance(what, str) else what(), error) from error
    raise foreign_container(x, what if isinstance(what, str) else what())


def without_operators(x: object) -> bool:
    """Whether an object can become a plain array and has no arithmetic of its own: NumPy's arrays
    calculate with it, and so do traced ones."""
    return holds_array(x) and not hasattr(type(x), "__radd__")


def native_order(x: PyTree) -> PyTree:
    """An array with the byte order of the machine."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def shared_memory(x: object) -> np.ndarray | None:
    """An array over the memory of one of another library, if that can be written into."""
    if isinstance(x, np.ndarray) or not hasattr(type(x), "__dlpack__"):
        return None
    with contextlib.suppress(Exception):
        plain = plain_array(x, "an array")
        return plain if plain.flags.writeable else None
    return None


def _refused(x: object, what: str, error: Exception) -> UnsupportedTypeError:
    """The card for an array that its library does not give away."""
    kind: type[object] = type(x)
    library = kind.__module__.split(".")[0].removesuffix("lib")
    said = str(error).strip().partition("\n")[0]
    return UnsupportedTypeError(
        f"{what[0].upper()}{what[1:]} is a {library} {kind.__name__} that is no plain array.",
        (
            ("why", f"{library}: {said}"),
            *[("write", advice) for advice in _ways(x, library)],
            ("write", "np.asarray(x)                  once this works, fgrad takes x itself"),
        ),
    )


def _ways(x: PyTree, library: str) -> list[str]:
    """What makes a plain array of it, or a way without one."""
    if library == "jax":
        return ["fgrad.interop.jax.as_jax(f)    a function that JAX traces and differentiates"]
    if library != "torch":
        return []
    found = []
    if x.requires_grad:
        found.append("fgrad.interop.torch.as_torch(f)   for a gradient by torch's backward()")
    parts = {
        ".detach()": x.requires_grad,
        ".to_dense()": x.is_sparse,
        ".cpu()": not x.is_cpu,
        ".float()": str(x.dtype) == "torch.bfloat16",
        ".resolve_conj()": x.is_conj(),
        ".resolve_neg()": x.is_neg(),
    }
    calls = "".join([call for call, needed in parts.items() if needed])
    return [*found, f"x{calls}.numpy()"] if calls else found


_DISPATCH = ("_matmul_dispatch", "_rmatmul_dispatch", "_mul_dispatch", "_rmul_dispatch")


def is_scipy_sparse(x: object) -> bool:
    """Whether an object is a sparse matrix or a sparse array of SciPy."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(x))


def lists_of_sparse(x: object) -> list[object]:
    """The lists and dictionaries of Python that hold a sparse matrix of the formats lil and dok;
    those of other formats are held by arrays."""
    kind = getattr(x, "format", "")
    if kind == "dok":
        return [getattr(x, "_dict", None)]
    return [*getattr(x, "rows", ()), *getattr(x, "data", ())] if kind == "lil" else []


def asked_by_product(frame: FrameType, x: object) -> bool:
    """Whether this is the frame of a product of SciPy's, which asks what its operand `x` is: of an
    object that is no array it returns NotImplemented, and Python asks the operand."""
    module = str(frame.f_globals.get("__name__", ""))
    is_product = module.startswith("scipy.sparse.") and frame.f_code.co_name in _DISPATCH
    return is_product and frame.f_locals.get("other") is x  # not a list that `x` is in


def refused_by_sparse(frame: FrameType) -> UnsupportedTypeError | None:
    """The card for what a function of `scipy.sparse` cannot do with a traced array; None if this is
    not the frame of one."""
    module, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
    if not module.startswith("scipy.sparse."):
        return None
    name = "A @ x of a list" if name in _DISPATCH else name
    rows = [
        ("why", "scipy.sparse holds and reads plain numbers."),
        ("write", "A @ x, x @ A    products of constant sparse matrices with traced arrays"),
        ("or", "np.stack([x, y])    instead of lists of traced arrays"),
        ("or", "fgrad.sparse.csr(data, indices, indptr, shape)    where the entries are traced"),
        ("or", "fgrad.scipy.sparse.linalg    for its solvers"),
    ]
    return UnsupportedTypeError(f"scipy.sparse: {name} does not take traced arrays.", rows)
