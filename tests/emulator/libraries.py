"""cuBLASLt, cuBLAS, cuSOLVER and cuFFT without a device: the work is done on host memory.

    library_functions.use(StubLibraries())

Each function is a callback with the signature of the real one.  Descriptors and plans are kept as
they were set, so that a call is computed from all that it would mean on a device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.cublaslt import UNSUPPORTED, CublasLt, Refused, enqueue, put, require
from emulator.cudnn import CudnnStub
from emulator.nccl import NcclStub
from fgrad.base.lazy_import import lazy_module
from fgrad.lower_cuda.library import cublaslt as lt
from fgrad.lower_cuda.library.functions import C_TYPES, LIBRARIES, SIGNATURES

scipy_lapack: Any = lazy_module("scipy.linalg.lapack")
scipy_blas: Any = lazy_module("scipy.linalg.blas")

FAILED = 14  # what a function gives that could not be computed
WORK = 64  # elements of work memory that is asked for
NUMBERS = {v: np.dtype(k) for k, v in lt.DATA_TYPES.items() if k != "bfloat16"}
_LETTERS = {"S": np.dtype("f"), "D": np.dtype("d"), "C": np.dtype("F"), "Z": np.dtype("D")}


def vector(address: int, dtype: Any, count: int) -> np.ndarray:
    """Numbers in memory."""
    dtype = np.dtype(dtype)
    memory = (ctypes.c_char * (dtype.itemsize * count)).from_address(address)
    return np.frombuffer(memory, dtype)


def strided(address: int, dtype: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """Numbers in memory, `steps` elements apart along each axis."""
    dtype = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    extent = 1 + sum([(n - 1) * s for n, s in zip(shape, steps, strict=True)])
    flat = vector(address, dtype, extent)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in steps])


def matrix(address: int, dtype: Any, rows: int, columns: int, leading: int) -> Any:
    """A column-major matrix in memory."""
    assert leading >= max(rows, 1), "leading dimension"
    return strided(address, dtype, (rows, columns), (1, leading))


class StubLibraries(CublasLt):
    """The C functions.

    Attributes:
        log: names of the functions that were called, in order.
        errors: what went wrong in a function that failed, unless it just cannot do it.
        cudnn: the functions of cuDNN.

    Arguments:
        nccl: the functions of NCCL, if it is there.
    """

    def __init__(self, nccl: NcclStub | None = None) -> None:
        super().__init__()
        self.log: list[str] = []
        self.errors: list[Exception] = []
        self.cudnn = CudnnStub()
        self.nccl = nccl
        self._callbacks: dict[str, Any] = {}

    def has(self, library: str) -> bool:
        """All are there, but for NCCL."""
        return self.nccl is not None if library == "nccl" else library in LIBRARIES

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none."""
        if name not in SIGNATURES:
            return 0
        if name.startswith("cudnn"):
            return self.cudnn.address(name)
        if name.startswith("nccl"):
            return 0 if self.nccl is None else self.nccl.address(name)
        if name not in self._callbacks:
            types = [C_TYPES[letter] for letter in SIGNATURES[name]]
            function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._callback(name))
            self._callbacks[name] = function
        return ctypes.cast(self._callbacks[name], ctypes.c_void_p).value or 0

    def _callback(self, name: str) -> Callable[..., int]:
        run = self._function(name)

        def call(*arguments: Any) -> int:
            self.log.append(name)
            try:
                run(*[0 if x is None else x for x in arguments])
            except Refused as refused:
                if refused.status != UNSUPPORTED:
                    self.errors.append(refused)
                return refused.status
            except Exception as error:
                self.errors.append(error)
                return FAILED
            return 0

        return call

    def _function(self, name: str) -> Callable[..., None]:
        """The work of a function: a method, which for typed functions gets the dtype first."""
        library = next(
            x for x in ("cublasLt", "cusolverDn", "cublas", "cufft") if name.startswith(x)
        )
        rest = name.removeprefix(library)
        if library == "cublasLt" or rest[0] == "X" or rest.startswith(("Create", "Destroy", "Set")):
            method = f"{library}_{rest}"
        elif library == "cufft":
            method = f"cufft_{rest}"
        else:
            dtype = _LETTERS[rest[0]]
            run = getattr(self, f"{library}_{rest[1:]}")
            return lambda *arguments: run(dtype, *arguments)
        return getattr(self, method)

    # Handles and objects.

    cublas_Create_v2 = cusolverDn_Create = cusolverDn_CreateParams = CublasLt.new

    cusolverDn_DestroyParams = cufft_Destroy = CublasLt.end

    def cublas_SetStream_v2(self, handle: int, stream: int) -> None:
        self.objects[handle].update(stream=stream, thread=threading.get_ident())

    cusolverDn_SetStream = cufft_SetStream = cublas_SetStream_v2

    # cuBLAS and cuSOLVER.

    def cublas_trsm_v2(
        self,
        dtype: Any,
        handle: int,
        side: int,
        uplo: int,
        trans: int,
        unit: int,
        m: int,
        n: int,
        alpha: int,
        a: int,
        lda: int,
        b: int,
        ldb: int,
    ) -> None:
        k = n if side else m
        factor, x = matrix(a, dtype, k, k, lda), matrix(b, dtype, m, n, ldb)
        (trsm,) = scipy_blas.get_blas_funcs(("trsm",), (x,))
        scale = vector(alpha, dtype, 1)[0]
        x[...] = trsm(scale, factor, x, side=side, lower=1 - uplo, trans_a=trans, diag=unit)

    def cublas_trsmBatched(self, dtype: Any, *arguments: int) -> None:
        *before, left, lda, right, ldb, count = arguments
        matrices = [vector(table, np.int64, count).tolist() for table in (left, right)]
        for a, b in zip(*matrices, strict=True):
            given: Any = (*before, a, lda, b, ldb)
            self.cublas_trsm_v2(dtype, *given)

    def cublas_getrfBatched(
        self,
        dtype: Any,
        handle: int,
        n: int,
        matrices: int,
        lda: int,
        pivots: int,
        info: int,
        count: int,
    ) -> None:
        for k, a in enumerate(vector(matrices, np.int64, count).tolist()):
            own = pivots + 4 * n * k
            self.cusolverDn_getrf(dtype, handle, n, n, a, lda, 0, own, info + 4 * k)

    def cusolverDn_potrfBatched(
        self,
        dtype: Any,
        handle: int,
        uplo: int,
        n: int,
        matrices: int,
        lda: int,
        info: int,
        count: int,
    ) -> None:
        for k, a in enumerate(vector(matrices, np.int64, count).tolist()):
            self.cusolverDn_potrf(dtype, handle, uplo, n, a, lda, 0, 0, info + 4 * k)

    def _ask(self, *arguments: Any) -> None:
        """Say how much work memory is needed."""
        put(arguments[-1], ctypes.c_int32, WORK)

    cusolverDn_potrf_bufferSize = cusolverDn_getrf_bufferSize = _ask
    cusolverDn_geqrf_bufferSize = cusolverDn_gesvd_bufferSize = _ask
    cusolverDn_orgqr_bufferSize = cusolverDn_ungqr_bufferSize = _ask
    cusolverDn_syevd_bufferSize = cusolverDn_heevd_bufferSize = _ask

    def cusolverDn_potrf(
        self,
        dtype: Any,
        handle: int,
        uplo: int,
        n: int,
        a: int,
        lda: int,
        work: int,
        size: int,
        info: int,
    ) -> None:
        x = matrix(a, dtype, n, n, lda)
        x[...], found = _lapack("potrf", x)(x, lower=1 - uplo, clean=0)
        put(info, ctypes.c_int32, found)

    def cusolverDn_getrf(
        self,
        dtype: Any,
        handle: int,
        m: int,
        n: int,
        a: int,
        lda: int,
        work: int,
        pivots: int,
        info: int,
    ) -> None:
        x = matrix(a, dtype, m, n, lda)
        x[...], found, status = _lapack("getrf", x)(x)
        vector(pivots, np.int32, min(m, n))[:] = found + 1
        put(info, ctypes.c_int32, status)

    def cusolverDn_geqrf(
        self,
        dtype: Any,
        handle: int,
        m: int,
        n: int,
        a: int,
        lda: int,
        tau: int,
        work: int,
        size: int,
        info: int,
    ) -> None:
        x = matrix(a, dtype, m, n, lda)
        x[...], scales, _, status = _lapack("geqrf", x)(x)
        vector(tau, dtype, min(m, n))[:] = scales
        put(info, ctypes.c_int32, status)

    def _vectors(
        self, name: str, dtype: Any, m: int, n: int, k: int, a: int, lda: int, tau: int, info: int
    ) -> None:
        x = matrix(a, dtype, m, n, lda)
        x[...], _, status = _lapack(name, x)(x.copy(order="F"), vector(tau, dtype, k))
        put(info, ctypes.c_int32, status)

    def cusolverDn_orgqr(
        self,
        dtype: Any,
        handle: int,
        m: int,
        n: int,
        k: int,
        a: int,
        lda: int,
        tau: int,
        work: int,
        size: int,
        info: int,
    ) -> None:
        self._vectors("ungqr" if dtype.kind == "c" else "orgqr", dtype, m, n, k, a, lda, tau, info)

    cusolverDn_ungqr = cusolverDn_orgqr

    def cusolverDn_syevd(
        self,
        dtype: Any,
        handle: int,
        vectors: int,
        uplo: int,
        n: int,
        a: int,
        lda: int,
        values: int,
        work: int,
        size: int,
        info: int,
    ) -> None:
        x = matrix(a, dtype, n, n, lda)
        name = "heevd" if dtype.kind == "c" else "syevd"
        found, x[...], status = _lapack(name, x)(x, compute_v=vectors, lower=1 - uplo)
        vector(values, found.dtype, n)[:] = found
        put(info, ctypes.c_int32, status)

    cusolverDn_heevd = cusolverDn_syevd

    def cusolverDn_XsyevBatched_bufferSize(self, *arguments: int) -> None:
        for out in arguments[-3:-1]:
            put(out, ctypes.c_uint64, WORK)

    def cusolverDn_Xgeev_bufferSize(self, *arguments: int) -> None:
        for out in arguments[-2:]:
            put(out, ctypes.c_uint64, WORK)

    def cusolverDn_Xgeev(self, handle: int, params: int, *arguments: int) -> None:
        left, right, n, kind, a, lda, _, values, _, _, _, _, vectors, ldv, *_, info = arguments
        x = matrix(a, NUMBERS[kind], n, n, lda)
        found, _, v, status = _lapack("geev", x)(x, compute_vl=left, compute_vr=right)
        vector(values, x.dtype, n)[:] = found
        if right:
            matrix(vectors, x.dtype, n, n, ldv)[...] = v
        put(info, ctypes.c_int32, status)

    def cusolverDn_XsyevBatched(
        self,
        handle: int,
        params: int,
        vectors: int,
        uplo: int,
        n: int,
        kind: int,
        a: int,
        lda: int,
        kind_w: int,
        values: int,
        compute: int,
        work: int,
        size: int,
        host: int,
        host_size: int,
        info: int,
        count: int,
    ) -> None:
        dtype, real = NUMBERS[kind], NUMBERS[kind_w]
        for k in range(count):
            one, w = a + k * lda * n * dtype.itemsize, values + k * n * real.itemsize
            self.cusolverDn_syevd(dtype, handle, vectors, uplo, n, one, lda, w, 0, 0, info + 4 * k)

    def cusolverDn_gesvd(
        self,
        dtype: Any,
        handle: int,
        job_u: int,
        job_v: int,
        m: int,
        n: int,
        a: int,
        lda: int,
        values: int,
        u: int,
        ldu: int,
        vt: int,
        ldvt: int,
        work: int,
        size: int,
        real: int,
        info: int,
    ) -> None:
        assert m >= n and job_u == job_v, "cuSOLVER's gesvd"
        x, k = matrix(a, dtype, m, n, lda), min(m, n)
        job = chr(job_u)
        left, s, right, status = _lapack("gesvd", x)(
            x, compute_uv=job != "N", full_matrices=job == "A"
        )
        vector(values, s.dtype, k)[:] = s
        if job != "N":
            matrix(u, dtype, m, left.shape[1], ldu)[...] = left
            matrix(vt, dtype, right.shape[0], n, ldvt)[...] = right
        put(info, ctypes.c_int32, status)

    # cuFFT.

    def cufft_Create(self, out: int) -> None:
        self.alive += 1
        self.objects.append({})
        put(out, ctypes.c_int32, len(self.objects) - 1)

    def cufft_XtMakePlanMany(
        self,
        plan: int,
        rank: int,
        n: int,
        in_embed: int,
        in_step: int,
        in_next: int,
        in_kind: int,
        out_embed: int,
        out_step: int,
        out_next: int,
        out_kind: int,
        count: int,
        size: int,
        compute: int,
    ) -> None:
        assert rank == 1 and in_embed and out_embed, "strides count only with embeddings"
        self.objects[plan].update(
            n=vector(n, np.int64, 1)[0], count=count,
            source=(NUMBERS[in_kind], in_next, in_step),
            target=(NUMBERS[out_kind], out_next, out_step),
        )  # fmt: skip
        put(size, ctypes.c_uint64, 0)

    def cufft_XtExec(self, plan: int, source: int, target: int, direction: int) -> None:
        spec = self.objects[plan]
        require(spec["thread"] == threading.get_ident(), "a plan that another thread uses")
        enqueue(lambda: self._transform(spec, source, target, direction), spec["stream"])

    def _transform(self, spec: dict[Any, Any], source: int, target: int, direction: int) -> None:
        n, count = int(spec["n"]), spec["count"]
        (kind, *steps), (out_kind, *out_steps) = spec["source"], spec["target"]
        half = n // 2 + 1
        lengths = (
            (n if kind.kind != "c" or out_kind.kind == "c" else half),
            (half if kind.kind != "c" else n),
        )
        x = strided(source, kind, (count, lengths[0]), tuple(steps))
        y = strided(target, out_kind, (count, lengths[1]), tuple(out_steps))
        if kind.kind != "c":
            y[...] = np.fft.rfft(x)
        elif out_kind.kind != "c":
            y[...] = np.fft.irfft(x, n) * n
            x[...] = np.nan  # cuFFT may overwrite its operand
        else:
            y[...] = np.fft.fft(x) if direction == -1 else np.fft.ifft(x) * n


def _lapack(name: str, x: np.ndarray) -> Any:
    """A routine of LAPACK for numbers like those of x."""
    (routine,) = scipy_lapack.get_lapack_funcs((name,), (x,))
    return routine
