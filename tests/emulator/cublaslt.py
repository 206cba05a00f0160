"""cuBLASLt without a device: descriptors as they were set, products on host memory.

What the library would refuse is refused here, with its status: layouts that do not fit, types and
epilogues that have no algorithm, addresses less aligned than was said.  Epilogues are computed as
it computes them: relu drops NaN, gelu is the approximation by tanh.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from emulator.driver import StubDriver
from fgrad.lower_cuda.device.driver import driver
from fgrad.lower_cuda.library import cublaslt as lt

INVALID, UNSUPPORTED = 7, 15  # CUBLAS_STATUS
WORK = 64  # bytes of work memory that are asked for
MARK, MARK_AT = 0x5EED, 60  # of the memory of a descriptor, behind all attributes
COMPUTE, SCALE = 0, 1  # attributes that a product's descriptor begins with
NAMES = {number: name for name, number in lt.DATA_TYPES.items()}

# The bytes of each attribute.
PRODUCT_SIZES = {
    lt.TRANSA: 4, lt.TRANSB: 4, lt.EPILOGUE: 4, lt.BIAS_POINTER: 8, lt.BIAS_TYPE: 4,
}  # fmt: skip
LAYOUT_SIZES = {lt.BATCH_COUNT: 4, lt.BATCH_STRIDE: 8, lt.BATCH_MODE: 4}
WISH_SIZES = {lt.MAX_WORKSPACE: 8, **{lt.MIN_ALIGNMENT + k: 4 for k in range(4)}}

# What can be computed: the types of the sums and of their scale, of operands, of results.
KINDS = {
    (lt.COMPUTE_32F, "float32", "float32", "float32"),
    (lt.COMPUTE_32F_FAST_TF32, "float32", "float32", "float32"),
    *[(lt.COMPUTE_32F, "float32", x, y) for x in ("float16", "bfloat16") for y in (x, "float32")],
    (lt.COMPUTE_32F, "complex64", "complex64", "complex64"),
    (lt.COMPUTE_32F_FAST_TF32, "complex64", "complex64", "complex64"),
    (lt.COMPUTE_64F, "float64", "float64", "float64"),
    (lt.COMPUTE_64F, "complex128", "complex128", "complex128"),
}
EPILOGUES = {lt.PLAIN, lt.BIAS, *[x | b for x in lt.ACTIVATIONS.values() for b in (0, lt.BIAS)]}


class Refused(Exception):
    """A call that the library does not make; `status` is what it answers."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def require(holds: bool, why: str, status: int = INVALID) -> None:
    """Refuse a call unless something holds."""
    if not holds:
        raise Refused(status, why)


class Layout(NamedTuple):
    """A batch of column-major matrices."""

    name: str
    rows: int
    columns: int
    leading: int
    count: int
    stride: int
    mode: int

    @property
    def dtype(self) -> np.dtype:
        """Of the elements; bfloat16 is in words."""
        return np.dtype(np.uint16 if self.name == "bfloat16" else self.name)

    @property
    def extent(self) -> int:
        """The elements from the first one to the last one of a matrix."""
        return (self.columns - 1) * self.leading + self.rows


class Task(NamedTuple):
    """All that descriptors say of a product; the operands as they lie in memory."""

    compute: int
    scale: str
    trans: tuple[bool, bool]
    epilogue: int
    bias: int
    a: Layout
    b: Layout
    d: Layout


class CublasLt:
    """The functions of cuBLASLt.

    Attributes:
        objects: handles and descriptors, by their numbers.
        alive: how many were made and not destroyed.
    """

    def __init__(self) -> None:
        self.objects: list[dict[Any, Any]] = [{}]
        self.alive = 0

    def new(self, out: int, **fields: Any) -> None:
        """Write the handle of a new object."""
        self.alive += 1
        self.objects.append(dict(fields))
        put(out, ctypes.c_uint64, len(self.objects) - 1)

    def end(self, handle: int) -> None:
        """Destroy an object."""
        self.alive -= 1
        self.objects[handle] = {}

    def cublasLt_Create(self, out: int) -> None:
        self.new(out)

    # The descriptor of a product is memory of the caller's, who may copy it.

    def cublasLt_MatmulDescInit_internal(
        self, at: int, nbytes: int, compute: int, scale: int
    ) -> None:
        require(nbytes >= 8 * (MARK_AT + 1), "too little memory for a descriptor", 3)
        words = _words(at)
        words[:] = 0
        words[MARK_AT], words[COMPUTE], words[SCALE] = MARK, compute, scale
        words[lt.EPILOGUE], words[lt.BIAS_TYPE] = lt.PLAIN, -1

    def cublasLt_MatmulDescSetAttribute(
        self, at: int, attribute: int, value: int, nbytes: int
    ) -> None:
        require(_words(at)[MARK_AT] == MARK, "no descriptor")
        _words(at)[attribute] = _given(PRODUCT_SIZES, attribute, value, nbytes)

    def cublasLt_MatrixLayoutCreate(
        self, out: int, kind: int, rows: int, columns: int, leading: int
    ) -> None:
        self.new(out, kind=kind, rows=rows, columns=columns, leading=leading)

    cublasLt_MatrixLayoutDestroy = cublasLt_MatmulPreferenceDestroy = end

    def cublasLt_MatrixLayoutSetAttribute(
        self, handle: int, attribute: int, value: int, nbytes: int
    ) -> None:
        self.objects[handle][attribute] = _given(LAYOUT_SIZES, attribute, value, nbytes)

    def cublasLt_MatmulPreferenceCreate(self, out: int) -> None:
        self.new(out)

    def cublasLt_MatmulPreferenceSetAttribute(
        self, handle: int, attribute: int, value: int, nbytes: int
    ) -> None:
        self.objects[handle][attribute] = _given(WISH_SIZES, attribute, value, nbytes)

    # Products.

    def cublasLt_MatmulAlgoGetHeuristic(self, *arguments: int) -> None:
        _, product, a, b, c, d, wish, wanted, results, count = arguments
        task = self.task(product, a, b, c, d)
        wishes = self.objects[wish]
        require(wanted == 1 and wishes[lt.MAX_WORKSPACE] >= WORK, "work memory")
        ctypes.memset(results, 0, lt.RESULT_BYTES)
        words = _memory(results, np.dtype(np.int64), 8)
        words[:4] = [wishes.get(lt.MIN_ALIGNMENT + k, 256) for k in range(4)]
        words[4] = _identity(task)
        put(results + lt.WORKSPACE_AT, ctypes.c_uint64, WORK)
        put(count, ctypes.c_int32, 1)

    def cublasLt_Matmul(self, *arguments: int) -> None:
        _, product, one, a, la, b, lb, zero, c, lc, d, ld, algorithm, work, size, stream = arguments
        require((c, lc) == (d, ld), "the result is written in place")
        task = self.task(product, la, lb, lc, ld)
        words = _memory(algorithm, np.dtype(np.int64), 8)
        require(int(words[4]) == _identity(task), "an algorithm for another product")
        require(size >= WORK and work % lt.WORK_ALIGNMENT == 0, "work memory")
        scale = np.dtype(task.scale)
        require(_memory(one, scale, 1)[0] == 1 and _memory(zero, scale, 1)[0] == 0, "factors")
        alignments = words[[0, 1, 3]].tolist()
        enqueue(lambda: _run(task, (a, b, d), alignments), stream)

    def task(self, product: int, a: int, b: int, c: int, d: int) -> Task:
        """What descriptors mean, if the library can do it."""
        words = _words(product)
        require(words[MARK_AT] == MARK, "no descriptor")
        require(c == d, "the result is written in place")
        left, right, results = (self._layout(handle) for handle in (a, b, d))
        trans = bool(words[lt.TRANSA]), bool(words[lt.TRANSB])
        scale, epilogue = NAMES[int(words[SCALE])], int(words[lt.EPILOGUE])
        bias = int(words[lt.BIAS_POINTER])
        task = Task(int(words[COMPUTE]), scale, trans, epilogue, bias, left, right, results)
        _check(task)
        if epilogue & lt.BIAS:
            kind = int(words[lt.BIAS_TYPE])
            same = kind in (-1, lt.DATA_TYPES[task.d.name])
            require(same, "a bias has the type of the result", UNSUPPORTED)
            require(bias != 0 and bias % 16 == 0, "the address of a bias")
        return task

    def _layout(self, handle: int) -> Layout:
        fields = self.objects[handle]
        count, stride = fields.get(lt.BATCH_COUNT, 1), fields.get(lt.BATCH_STRIDE, 0)
        rows, columns, leading = (fields[key] for key in ("rows", "columns", "leading"))
        mode = fields.get(lt.BATCH_MODE, lt.STRIDED)
        name = NAMES[fields["kind"]]
        return Layout(name, rows, columns, leading, count, stride, mode)


def enqueue(work: Callable[[], None], stream: int) -> None:
    """Do the work of a call in the order of a stream, in each launch of a graph that has it."""
    device = driver()
    if isinstance(device, StubDriver):
        device.library.enqueue(work, stream)
    else:
        work()


def put(address: int, kind: Any, value: Any) -> None:
    """Write a number."""
    kind.from_address(address).value = value


def _words(at: int) -> np.ndarray:
    require(at != 0, "no descriptor")
    return _memory(at, np.dtype(np.int64), MARK_AT + 1)


def _memory(at: int, dtype: np.dtype, count: int) -> np.ndarray:
    """Numbers at an address."""
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(at)
    return np.frombuffer(memory, dtype)


def _given(sizes: dict[int, int], attribute: int, value: int, nbytes: int) -> int:
    """The number that an attribute gets."""
    require(sizes.get(attribute) == nbytes, f"attribute {attribute} of {nbytes} bytes")
    return {4: ctypes.c_int32, 8: ctypes.c_int64}[nbytes].from_address(value).value


def _identity(task: Task) -> int:
    """What an algorithm was chosen for, as a number."""
    return hash(task._replace(bias=0)) & (1 << 62) - 1


def _check(task: Task) -> None:
    """Refuse what cannot be, then what there is no algorithm for."""
    layouts = (task.a, task.b, task.d)
    for x in layouts:
        require(x.rows > 0 and x.columns > 0, "empty matrices")
        require(x.leading >= x.rows, "leading dimension")
        require((x.count, x.mode) == (task.d.count, task.d.mode), "batches differ")
    (m, k), (rows, n) = (
        (x.columns, x.rows) if trans else (x.rows, x.columns)
        for x, trans in zip(layouts, task.trans, strict=False)
    )
    require((rows, task.d.rows, task.d.columns) == (k, m, n), "sizes differ")
    if task.d.count > 1 and task.d.mode == lt.STRIDED:
        require(task.d.stride >= task.d.extent, "results overlap")
    require(task.a.name == task.b.name, "types of operands differ", UNSUPPORTED)
    kinds = task.compute, task.scale, task.a.name, task.d.name
    require(kinds in KINDS, f"no algorithm for {kinds}", UNSUPPORTED)
    require(task.epilogue in EPILOGUES, "no such epilogue")
    if task.epilogue != lt.PLAIN:
        require(task.d.mode == lt.STRIDED, "batches by addresses have no epilogue", UNSUPPORTED)
        single = task.compute != lt.COMPUTE_64F and task.scale == "float32"
        require(single, f"no epilogue of {task.scale}", UNSUPPORTED)


def _batch(address: int, layout: Layout, alignment: int) -> list[np.ndarray]:
    """The matrices of a batch; an address may be one of addresses."""
    size = layout.dtype.itemsize
    if layout.mode == lt.POINTERS:
        require(address % 8 == 0, "a table of addresses is not aligned")
        table = (ctypes.c_int64 * layout.count).from_address(address)
        addresses = list(table)
    else:
        addresses = [address + k * layout.stride * size for k in range(layout.count)]
    found = []
    for at in addresses:
        require(at % max(alignment, size) == 0, f"{at:#x} is not aligned to {alignment}")
        flat = _memory(at, layout.dtype, layout.extent)
        shape, steps = (layout.rows, layout.columns), (size, layout.leading * size)
        found.append(np.lib.stride_tricks.as_strided(flat, shape, steps))
    return found


def _run(task: Task, places: Sequence[int], alignments: Sequence[int]) -> None:
    """All products of a call."""
    layouts = (task.a, task.b, task.d)
    given = zip(places, layouts, alignments, strict=True)
    left, right, results = (_batch(*one) for one in given)
    for x, y, out in zip(left, right, results, strict=True):
        _multiply(task, x, y, out)


def _multiply(task: Task, x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """One product, in the numbers of its sums."""
    left, right = (
        _wide(z.T if trans else z, task.a.name) for z, trans in zip((x, y), task.trans, strict=True)
    )
    if task.compute == lt.COMPUTE_32F_FAST_TF32:
        left, right = _tf32(left), _tf32(right)
    with np.errstate(all="ignore"):
        sums = np.matmul(left, right)
        if task.epilogue & lt.BIAS:
            bias = _memory(task.bias, task.d.dtype, len(out))
            sums = sums + _wide(bias, task.d.name)[:, None]
        if task.epilogue & lt.ACTIVATIONS["relu"]:
            sums = np.where(sums > 0, sums, np.float32(0))  # NaN is not greater
        if task.epilogue & lt.ACTIVATIONS["gelu"]:
            cubic = np.float32(math.sqrt(2 / math.pi)) * (sums + np.float32(0.044715) * sums**3)
            sums = np.float32(0.5) * sums * (1 + np.tanh(cubic))
        out[...] = _narrow(sums, task.d.name)


def _wide(x: np.ndarray, name: str) -> np.ndarray:
    """Numbers as they are added up."""
    if name == "bfloat16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32) if name == "float16" else x


def _narrow(x: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers of a type, ties to even."""
    if name != "bfloat16":
        return x.astype(name)
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    up = bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))
    return (np.where(np.isnan(x), np.uint32(0x7FFF0000), up) >> 16).astype(np.uint16)


def _tf32(x: np.ndarray) -> np.ndarray:
    """float32, or the parts of complex64, rounded to the 10 bits of mantissa that TF32 has."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x1000) & np.uint32(0xFFFFE000)).view(x.dtype).reshape(x.shape)
