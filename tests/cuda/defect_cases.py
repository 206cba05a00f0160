"""Small runs of every form of kernel, each in sizes that together use all of its guards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from defects import Call
from emulated_bodies import fold_body, run, scan_body
from kernel_runs import run_calls

import fgrad
from fgrad import tree
from fgrad.compile.kernel.text import parse_kernel
from fgrad.lower_cuda.schedule import launches, schedule


def threads(n: int) -> str:
    """Elements, four to a thread."""
    return f"""kernel k(x: in f32[{n}], y: out f32[{n}])
  parallel i in {n}:
    %0 = load x[i]
    %1 = mul f32 %0 %0
    store y[i] %1
"""


def product(n: int) -> str:
    """Squares of 4 x 4 results to a thread."""
    return f"""kernel k(x: in f32[{16 * n}], w: in f32[480], y: out f32[{30 * n}])
  parallel i in {n}:
    parallel j in 30:
      acc s = add f32 0.0
      reduce k in 16:
        %0 = load x[16*i + k]
        %1 = load w[30*k + j]
        %2 = mul f32 %0 %1
        update s %2
      %3 = read s
      store y[30*i + j] %3
"""


def rows(n: int) -> str:
    """Sums of rows, by warps or blocks."""
    return f"""kernel k(x: in f32[{9 * n}], y: out f32[9])
  parallel i in 9:
    acc s = add f32 0.0
    reduce j in {n}:
      %0 = load x[{n}*i + j]
      update s %0
    %1 = read s
    store y[i] %1
"""


def softmax(n: int) -> str:
    """Rows that pass three times through a block."""
    return f"""kernel k(x: in f32[{9 * n}], y: out f32[{9 * n}])
  parallel i in 9:
    acc m = max f32 -inf
    reduce j in {n}:
      %0 = load x[{n}*i + j]
      update m %0
    %1 = read m
    acc s = add f32 0.0
    reduce j in {n}:
      %2 = load x[{n}*i + j]
      %3 = sub f32 %2 %1
      %4 = exp f32 %3
      update s %4
    %5 = read s
    parallel j in {n}:
      %6 = load x[{n}*i + j]
      %7 = sub f32 %6 %1
      %8 = exp f32 %7
      %9 = div f32 %8 %5
      store y[{n}*i + j] %9
"""


def columns(n: int) -> str:
    """Sums of columns."""
    return f"""kernel k(x: in f32[{9 * n}], y: out f32[9])
  parallel j in 9:
    acc s = add f32 0.0
    reduce i in {n}:
      %0 = load x[9*i + j]
      update s %0
    %1 = read s
    store y[j] %1
"""


def turns(n: int) -> str:
    """A serial loop whose threads exchange what they have."""
    return f"""kernel k(x: in f32[{5 * n}], tmp: scratch f32[{n}], y: out f32[{5 * n}])
  serial t in 5:
    parallel i in {n}:
      %0 = load x[i + {n}*t]
      store tmp[i] %0
    parallel j in {n}:
      %1 = load tmp[-1*j + {n - 1}]
      store y[j + {n}*t] %1
"""


def tiles(n: int) -> str:
    """Squares that pass through shared memory."""
    return f"""kernel k(x: in f32[{n * (n + 8)}], y: out f32[{n * (n + 8)}])
  parallel i in {n}:
    parallel j in {n + 8}:
      %0 = load x[{n}*j + i]
      store y[{n + 8}*i + j] %0
"""


def long_sum(n: int) -> str:
    """A sum in two passes."""
    return f"""kernel k(x: in f32[{n}], y: out f32[1])
  acc s = add f32 0.0
  reduce i in {n}:
    %0 = load x[i]
    update s %0
  %1 = read s
  store y[0] %1
"""


def updates(count: int, dtype: str) -> str:
    """Additions at computed places: by columns, atomic, or by sorted runs."""
    return f"""kernel k(rows: in i64[{count}], x: in {dtype}[{5 * count}], y: inout {dtype}[35])
  serial i in {count}:
    %0 = load rows[i]
    parallel j in 5:
      %1 = load x[5*i + j]
      store y[j + 5*%0] add= %1
"""


def of_kernel(text: str) -> Call:
    """A run of a kernel's launches on the same arrays each time."""
    kernel = parse_kernel(text)
    calls, rng = launches(schedule(kernel)), np.random.default_rng(len(text))
    arrays = []
    for b in kernel.buffers:
        if b.name == "rows":
            arrays.append(rng.integers(0, 7, b.size))
        elif b.role != "scratch":
            arrays.append((16 * rng.normal(size=b.size)).astype(b.dtype))

    def call() -> list[np.ndarray]:
        copies = [a.copy() for a in arrays]
        run_calls(calls, copies, random.Random(2))
        return copies

    return call


def of_sums(text: str, count: int = 64) -> Call:
    """A run of a body that adds the numbers of each of six blocks."""
    x = np.random.default_rng(0).permutation(6 * count).astype(np.float32)
    out = np.zeros_like(x)

    def call() -> list[np.ndarray]:
        out[:] = np.nan
        run(text, [x, out], 6, (count, 1), 1)
        return [out]

    return call


def of_function(fun: Callable[..., Any], *shapes: tuple[int, ...]) -> Call:
    """A call of a function that is compiled for the device."""
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    jitted = fgrad.jit(fun, device="cuda")
    return lambda: [x.numpy() for x in tree.leaves(jitted(*args))]


def solve(a: Any) -> Any:
    """Factors of small matrices."""
    square = a @ np.swapaxes(a, 1, 2) + np.eye(a.shape[1], dtype=a.dtype)
    return np.linalg.solve(a, a[..., :2]), np.linalg.cholesky(square)


ALL, WAITS = "barrier guard stride lane", "barrier lane"
# Of each form the kinds of defects, and runs.
FORMS: dict[str, tuple[str, Callable[[], list[Call]]]] = {
    "threads": (ALL, lambda: [of_kernel(threads(515))]),
    "product": (ALL, lambda: [of_kernel(product(10))]),
    "rows by warps": (ALL, lambda: [of_kernel(rows(39))]),
    "rows by blocks": (ALL, lambda: [of_kernel(rows(1001))]),
    "softmax": (ALL, lambda: [of_kernel(softmax(n)) for n in (700, 704)]),
    "columns": (ALL, lambda: [of_kernel(columns(300))]),
    "turns": (ALL, lambda: [of_kernel(turns(33))]),
    "tiles": (ALL, lambda: [of_kernel(tiles(n)) for n in (41, 49, 57, 65)]),
    "long sum": (ALL, lambda: [of_kernel(long_sum(65537))]),
    "few updates": (ALL, lambda: [of_kernel(updates(60, "f32"))]),
    "atomic updates": (ALL, lambda: [of_kernel(updates(201, "i32"))]),
    "sorted updates": (WAITS, lambda: [of_kernel(updates(201, "f32"))]),
    "fold": (ALL, lambda: [of_sums(fold_body(64))]),
    "scans": (ALL, lambda: [of_sums(scan_body(64, 2))]),
    "matrices": (WAITS, lambda: [of_function(solve, (5, 18, 18))]),
    "sort": (WAITS, lambda: [of_function(lambda x: np.sort(x), (2, 150))]),
    "argmax": (WAITS, lambda: [of_function(lambda x: np.argmax(x, 1), (40, 300))]),
    "running sums": (WAITS, lambda: [of_function(lambda x: np.cumsum(x, 1), (3, 300))]),
}
# What no run can find, for it changes nothing: form, kind, pattern of the line -> why, how many.
HARMLESS: dict[tuple[str, str, str], tuple[str, int]] = {
    ("threads", "guard", r"icmp slt i32 %, 129"): (
        "a group of elements after the last one is refused one by one", 1),
    ("threads", "stride", r"add i32 %, 4"): ("a whole group is written one by one", 1),
    ("few updates", "stride", r"mul i32 %, \d+"): ("there is one block, of number 0", 1),
    ("fold", "barrier", r"barrier0"): ("nothing is shared after the last sum", 1),
    ("scans", "barrier", r"barrier0"): ("nothing is shared after the last sum", 1),
    ("matrices", "barrier", r"barrier0"): (
        "a lane first reads the row that it has written, and waits before it reads another", 2),
    ("argmax", "lane", r"shfl"): ("the upper words of places are zero in all lanes", 5),
}  # fmt: skip
