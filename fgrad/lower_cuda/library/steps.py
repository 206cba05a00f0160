"""L6. Library steps of the compiler on the device: calls of CUDA's libraries, or own kernels.

    gemm, product   cuBLASLt, or a tiled kernel where that is not installed
    factor, svd ...  cuSOLVER and cuBLAS        fft   cuFFT        library_conv   cuDNN
    psum ...        NCCL
    walk, sort, top, search, complex_parts, external     own kernels
    host            the user's callbacks run on the host

Anything else that NumPy evaluates on the CPU raises a card with its primitive and the user's line.
With FGRAD_HOST_FALLBACK=1 its equation is evaluated on the host, between the calls of the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.base.source import resolve
from fgrad.compile.llvm.text import element_type, literal
from fgrad.compile.tasks.routines import (
    ComplexParts,
    Evaluation,
    FusedProduct,
    Gemm,
    MatrixRoutine,
    RowSearch,
    RowSort,
    RowTop,
    RowWalk,
    special_function,
)
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.config import config
from fgrad.errors import UnsupportedDeviceError
from fgrad.ir.program import Eqn, Lit
from fgrad.ir.traits import Algorithm, Host
from fgrad.lower_cuda.emit.calls import Address, Calls, HostCall
from fgrad.lower_cuda.emit.text import BodyText
from fgrad.lower_cuda.library import cublaslt as library_cublaslt
from fgrad.lower_cuda.library.cudnn import conv_calls
from fgrad.lower_cuda.library.fourier import Transform, fourier_calls
from fgrad.lower_cuda.library.functions import functions
from fgrad.lower_cuda.library.gemm import epilogue_kernel, gemm_kernels
from fgrad.lower_cuda.library.lapack import LAPACK, eig
from fgrad.lower_cuda.library.nccl import collective_calls
from fgrad.lower_cuda.library.plan import Planner
from fgrad.lower_cuda.library.products import Product, product_of
from fgrad.lower_cuda.library.sort import search_calls, top_calls, with_work
from fgrad.lower_cuda.library.special import special_calls
from fgrad.lower_cuda.library.walks import walk_calls


def calls_of(step: LibraryStep, eqn: Eqn | None = None) -> Calls:
    """The calls that do a step on the device; `eqn` is the equation that the step computes.

    Control equations are lowered elsewhere.

    Raises:
        UnsupportedDeviceError: it is not implemented for the device.
        MissingCudaError: a library is not installed.
    """
    routine = step.routine
    if isinstance(routine, MatrixRoutine) and routine.name in LAPACK:
        return LAPACK[routine.name](**dict(routine.params), buffers=len(step.args))
    calls = LIBRARY_CUDA[type(routine)](routine, step)
    if calls is not None:
        return calls
    assert eqn is not None
    if not config.host_fallback:
        raise _unsupported(eqn)
    return _evaluated(step, eqn)


def _product(_routine: Gemm | FusedProduct, step: LibraryStep) -> Calls:
    return _product_calls(product_of(step), len(step.args))


def _product_calls(product: Product, buffers: int) -> Calls:
    """cuBLASLt with the epilogue, a tiled kernel, or one of them with a kernel for the epilogue."""
    libraries = functions()
    if product.gemm.k and libraries.has("cublasLt"):
        found = library_cublaslt.product_calls(libraries, product, buffers)
        if found is not None:
            return found
    if product.is_plain:
        return Calls(gemm_kernels(product))
    plain = _product_calls(product.plain, buffers)
    return plain._replace(calls=(*plain.calls, epilogue_kernel(product, buffers)))


def _complex_parts(parts: ComplexParts, step: LibraryStep) -> Calls:
    """`real`, `imag` (buffers: z, x) or `complex` (x, y, z); constants have no buffer."""
    name, dtype, size, constants = parts
    part = element_type(dtype)
    pair = f"<2 x {part}>"

    def write(body: BodyText, e: str) -> None:
        if name != "complex":
            z = body.load(body.pointer(0, pair), e)
            value = body.emit(f"extractelement {pair} {z}, i32 {int(name == 'imag')}")
            body.store(value, body.pointer(1, part), e)
            return
        z, buffers = "undef", 0
        for k, constant in enumerate(constants):
            if constant is None:
                value = body.load(body.pointer(buffers, part), e)
                buffers += 1
            else:
                value = literal(constant, dtype)
            z = body.emit(f"insertelement {pair} {z}, {part} {value}, i32 {k}")
        body.store(z, body.pointer(buffers, pair), e)

    plan = Planner(len(step.args))
    plan.each(size, write, *[Address(k) for k in range(len(step.args))])
    return plan.finish()


def _check(routine: MatrixRoutine, step: LibraryStep) -> Calls | None:
    """`in_range` and `checked` as plain copies, since kernels cannot raise (buffers: n, copy, or x,
    passed, copy); None for `required`, as nothing that the user asserts is passed over."""
    if routine.name == "required":
        return None
    params = dict(routine.params)
    kind = f"i{8 * (params.get('itemsize') or params['dtype'].itemsize)}"
    last = len(step.args) - 1

    def write(body: BodyText, e: str) -> None:
        body.store(body.load(body.pointer(0, kind), e), body.pointer(1, kind), e)

    plan = Planner(len(step.args))
    plan.each(params["size"], write, Address(0), Address(last))
    return plan.finish()


# --- equations that NumPy evaluates on the CPU ----------------------------------------------------


def _evaluated(step: LibraryStep, eqn: Eqn) -> Calls:
    """The evaluation of an equation on copies of its operands, on the host."""
    return Calls((HostCall(eqn, tuple([Address(k) for k in range(len(step.args))])),))


def _host(call: Evaluation, step: LibraryStep) -> Calls | None:
    """What NumPy evaluates on the CPU; None if it is not implemented for the device."""
    eqn = call.eqn
    if eqn.prim.across is not None:
        return collective_calls(eqn, len(step.args))
    if eqn.prim.host is Host.CALLBACK:
        return _evaluated(step, eqn)
    if eqn.prim.host is Host.SCIPY:
        real = eqn.outputs[0].aval.dtype.kind == "f"
        return special_calls(special_function(eqn), len(step.args)) if real else None
    algorithm = eqn.prim.algorithm
    lowering = None if algorithm is None else _ALGORITHMS.get(algorithm)
    if lowering is None or any([isinstance(a, Lit) for a in eqn.inputs]):
        return None
    return lowering(eqn, len(step.args))


def _searched(eqn: Eqn, _buffers: int) -> Calls:
    table, values = [a.aval for a in eqn.inputs]
    rows, columns = values.shape
    return search_calls(RowSearch(table.dtype, rows, table.shape[1], columns, eqn.params["right"]))


def _selected(eqn: Eqn, _buffers: int) -> Calls:
    aval, count = eqn.inputs[0].aval, eqn.params["k"]
    columns = aval.shape[-1]
    return top_calls(RowTop(aval.dtype, aval.size // columns, columns, count))


def _fourier(eqn: Eqn, buffers: int) -> Calls:
    x, out, kind = eqn.inputs[0].aval, eqn.outputs[0].aval, eqn.params["kind"]
    (axis,) = eqn.params["axes"]
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    n, m = x.shape[axis], out.shape[axis]
    points, inverse = eqn.params["n"] or n, kind in ("ifft", "irfft")
    t = Transform(x.dtype, out.dtype, outer, inner, n, m, points, inverse)
    return fourier_calls(t, buffers)


def _eigenvalues(eqn: Eqn, buffers: int) -> Calls:
    a = eqn.inputs[0].aval
    n = a.shape[-1]
    return eig(a.dtype, n, a.size // (n * n), buffers, len(eqn.outputs) > 1)


_ALGORITHMS: dict[Algorithm, Callable[[Eqn, int], Calls | None]] = {
    Algorithm.EIGENVALUES: _eigenvalues,
    Algorithm.SEARCH: _searched,
    Algorithm.SELECT: _selected,
    Algorithm.FOURIER: _fourier,
    Algorithm.CONVOLUTION: conv_calls,
}


LIBRARY_CUDA: dict[type, Callable[[Any, LibraryStep], Calls | None]] = {
    Gemm: _product,
    FusedProduct: _product,
    RowWalk: lambda walk, _: walk_calls(walk),
    RowSort: lambda sort, step: with_work(sort, len(step.args)),
    RowTop: lambda top, _: top_calls(top),
    RowSearch: lambda search, _: search_calls(search),
    ComplexParts: _complex_parts,
    MatrixRoutine: _check,
    Evaluation: _host,
}


def _unsupported(eqn: Eqn) -> UnsupportedDeviceError:
    """The card for an equation that has no form on the device."""
    evaluate, used = eqn.prim.evaluate_rule, []
    name = evaluate.__name__ if isinstance(evaluate, np.ufunc) else eqn.prim.name
    if eqn.loc is not None:
        loc = resolve(eqn.loc)
        used = [("used", f"{loc}:  {loc.text()}")]
    return UnsupportedDeviceError(
        f"{name} of {', '.join([str(a.aval.dtype) for a in eqn.inputs])} does not run on a GPU.",
        (
            *used,
            ("why", "on the CPU NumPy or SciPy computes it; it has no GPU implementation."),
            ("write", "with fgrad.config.override(host_fallback=True):   or FGRAD_HOST_FALLBACK=1"),
            ("write", f"    {name} runs on the CPU then, on copies of its operands"),
            ("write", f"fgrad.pure_callback(g, like, x)     where g calls {name} on the host"),
            ("write", "jit(f) on the CPU for the part of the program that needs it"),
        ),
    )
