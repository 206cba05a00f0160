"""The code cache, its files, other processors, accuracy of sums, and empty loops."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kernel_oracle import compare, run_native

from fgrad.compile.cpu.kernels import asm_text, build_kernels, kernel_source, llvm_text
from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.llvm import generator
from fgrad.compile.llvm.generator import compile_text
from fgrad.compile.llvm.runtime import module_text
from fgrad.compile.llvm.store import DiskStore
from fgrad.compile.llvm.text import Target
from fgrad.compile.schedule.order import schedule
from fgrad.config import config

SOFTMAX = """kernel softmax(x: in f32[ALL], o: out f32[ALL])
  parallel i in ROWS:
    acc m = max f32 -inf
    reduce j in COLUMNS:
      %0 = load x[COLUMNS*i + j]
      update m %0
    %1 = read m
    acc s = add f32 0.0
    reduce j in COLUMNS:
      %2 = load x[COLUMNS*i + j]
      %3 = sub f32 %2 %1
      %4 = exp f32 %3
      store o[COLUMNS*i + j] %4
      update s %4
    %5 = read s
    parallel k in COLUMNS:
      %6 = load o[COLUMNS*i + k]
      %7 = div f32 %6 %5
      store o[COLUMNS*i + k] %7
"""
TARGETS = {
    "avx512": Target("x86_64-unknown-linux-gnu", "x86-64-v4", ""),
    "avx2": Target("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
    "sse4.2": Target("x86_64-unknown-linux-gnu", "x86-64-v2", ""),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", ""),
}


def softmax(rows: int, columns: int):
    text = SOFTMAX.replace("ALL", str(rows * columns)).replace("COLUMNS", str(columns))
    return parse_kernel(text.replace("ROWS", str(rows)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (3, 17), (7, 1000), (50, 3)])
def test_softmax(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    for pieces in (1, 3):
        compare(softmax(*shape), [x, np.zeros_like(x)], pieces=pieces)


def test_nan_reaches_maxima_and_sums() -> None:
    x = np.zeros((3, 40), "f4")
    x[1, 33] = np.nan
    out = np.zeros_like(x)
    run_native(schedule(softmax(3, 40)), [x, out])
    assert np.isnan(out).all(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("name", TARGETS)
def test_other_processors(name: str) -> None:
    """The same text compiles for every processor, with vectors as wide as it has."""
    asm = asm_text(schedule(softmax(8, 256)), TARGETS[name])
    assert ("zmm" in asm, "ymm" in asm) == {
        "avx512": (True, True),
        "avx2": (False, True),
        "sse4.2": (False, False),
        "aarch64": (False, False),
    }[name]


def test_multiply_and_add_fuse_in_sums_alone() -> None:
    """An element may be computed again elsewhere: it must come out with the same bits."""
    elements = parse_kernel("""kernel k(x: in f64[64], y: in f64[64], z: out f64[64])
  parallel i in 64:
    %0 = load x[i]
    %1 = load y[i]
    %2 = mul f64 %0 %1
    %3 = add f64 %2 %1
    store z[i] %3
""")
    product = parse_kernel("""kernel k(x: in f64[64], y: in f64[64], z: out f64[1])
  acc s = add f64 0.0
  reduce i in 64:
    %0 = load x[i]
    %1 = load y[i]
    %2 = mul f64 %0 %1
    update s %2
  %3 = read s
  store z[0] %3
""")
    assert "vfmadd" in asm_text(schedule(product), TARGETS["avx512"])
    assert "vfmadd" not in asm_text(schedule(elements), TARGETS["avx512"])
    assert "define void @k(ptr %bufs, i64 %lo, i64 %hi)" in llvm_text(schedule(elements))


@pytest.mark.parametrize("code", ["f4", "f8", "f2"])
def test_long_sums_are_accurate(code: str) -> None:
    """A sum of 3 million terms has the error of NumPy's pairwise sum, not of a plain loop."""
    count = 3_000_017 if code != "f2" else 5000
    x = np.random.default_rng(1).random(count).astype(code)
    name = {"f4": "f32", "f8": "f64", "f2": "f16"}[code]
    kernel = parse_kernel(f"""kernel k(x: in {name}[{count}], y: out {name}[1])
  acc s = add {name} 0.0
  reduce i in {count}:
    %0 = load x[i]
    update s %0
  %1 = read s
  store y[0] %1
""")
    out = np.zeros(1, code)
    run_native(schedule(kernel), [x, out])
    exact = math.fsum(x.tolist())
    assert abs(out[0] - exact) <= 2 * np.finfo(code).eps * exact


def test_equal_structure_is_compiled_once() -> None:
    kernel = schedule(softmax(4, 5))
    other = kernel._replace(name="another")
    assert len(set(build_kernels([kernel, other, kernel]))) == 1


def test_two_threads_share_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts are two modules; their functions, and the errors of both, are as those of one."""
    shapes = [(5, n) for n in range(30, 42)]
    helped: list[str] = []
    helper = generator._Helper
    monkeypatch.setattr(generator, "_Helper", lambda *a: helped.append(a[0]) or helper(*a))
    with config.override(num_threads=2, cache=False):
        addresses = build_kernels([schedule(softmax(*shape)) for shape in shapes])
    assert len(helped) == 1 and len(set(addresses)) == len(shapes)
    rng = np.random.default_rng(0)
    for rows, columns in shapes:
        x = rng.normal(size=(rows, columns)).astype("f4")
        compare(softmax(rows, columns), [x, np.zeros_like(x)])
    bad = helper("not a module", False)
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        bad.result()


def test_threads_build_the_same_code() -> None:
    found: list[Sequence[int]] = []
    kernels = [schedule(softmax(2, n)) for n in range(2, 8)]
    threads = [
        threading.Thread(target=lambda: found.append(build_kernels(kernels))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(addresses == found[0] for addresses in found)


def test_objects_are_the_same_every_time() -> None:
    source = kernel_source(schedule(softmax(3, 20)))
    assert compile_text(module_text({"a": source})) == compile_text(module_text({"a": source}))


CHILD = """
import sys
from kernel_oracle import compare
from test_kernel_runtime import softmax
import numpy as np
import fgrad.compile.llvm.generator as generator
compiled = []
real = generator.objects
generator.objects = lambda texts, glue: compiled.append(1) or real(texts, glue)
for rows in (2, 3):
    compare(softmax(rows, 5), [np.ones((rows, 5), "f4"), np.zeros((rows, 5), "f4")])
from fgrad.compile.schedule.order import schedule
from fgrad.compile.cpu.kernels import build_kernels
build_kernels([schedule(softmax(rows, 6)) for rows in (2, 3, 4)])
print(len(compiled))
"""


def test_disk_cache(tmp_path: Path) -> None:
    """A second process compiles nothing; damaged files are ignored; FGRAD_CACHE=0 turns it off."""
    tests = Path(__file__).parent
    environment = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path), "FGRAD_CACHE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), str(tests.parent.parent)])
    environment["FGRAD_NUM_THREADS"] = "1"  # one module for all that is missing

    def child(**extra: str) -> int:
        command = [sys.executable, "-c", CHILD]
        done = subprocess.run(command, env={**environment, **extra}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert child() == 3
    assert child() == 0
    for path in tmp_path.rglob("k_*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert child() == 3
    assert child(FGRAD_CACHE="0") == 3
    assert child() == 0


def test_store_forgets_the_oldest(tmp_path: Path) -> None:
    store = DiskStore(str(tmp_path), size_limit=10_000)
    for k in range(20):
        store.put(f"k{k:02}", bytes(1000))
        path = store.path(f"k{k:02}")
        if os.path.exists(path):
            os.utime(path, (k, k))
    store.trim()
    kept = [k for k in range(20) if store.get(f"k{k:02}") is not None]
    assert kept and kept == list(range(kept[0], 20)) and len(kept) <= 10
    assert DiskStore("/dev/null/no").get("k") is None
    DiskStore("/dev/null/no").put("k", b"x")


COLUMNS = """
kernel k(x: in DT[ALL], w: in DT[ROWS], b: in DT[COLS], y: out DT[COLS], z: out DT[COLS])
  parallel j in COLS:
    %0 = load b[j]
    acc s = add DT %0
    acc m = max DT -3
    reduce i in ROWS:
      %1 = load x[COLS*i + j]
      %2 = load w[i]
      %3 = mul DT %1 %2
      update s %3
      update m %1
    %4 = read s
    %5 = read m
    %6 = mul DT %4 %0
    store y[j] %6
    store z[j] %5
"""


@pytest.mark.parametrize(
    ("rows", "columns", "code"),
    [(17, 2100, "f4"), (300, 70, "f8"), (16, 4096, "i4"), (5000, 16, "f4"), (40, 900, "f2")],
)
def test_reductions_down_columns(rows: int, columns: int, code: str) -> None:
    """Long and short columns, several strips, two accumulators, a start and an end."""
    rng, name = np.random.default_rng(0), {"f4": "f32", "f8": "f64", "i4": "i32", "f2": "f16"}[code]
    text = COLUMNS.replace("DT", name).replace("ALL", str(rows * columns))
    kernel = parse_kernel(text.replace("ROWS", str(rows)).replace("COLS", str(columns)))
    check_kernel(kernel)
    scheduled = schedule(kernel)
    check_kernel(scheduled)
    x, w, b = ((rng.standard_normal(n) * 3).astype(code) for n in ((rows, columns), rows, columns))
    y, z = np.zeros(columns, code), np.zeros(columns, code)
    run_native(scheduled, [x, w, b, y, z], pieces=2)
    wide = "f8" if code != "i4" else code
    sums = (x.astype(wide) * w.astype(wide)[:, None]).sum(axis=0) + b.astype(wide)
    error = 1e-2 if code == "f2" else 1e-5
    scale = np.abs(x.astype("f8") * w.astype("f8")[:, None]).sum(axis=0).max()
    np.testing.assert_allclose(y, sums * b.astype(wide), error, error * scale)
    np.testing.assert_array_equal(z, np.maximum(x.max(axis=0), -3))


@pytest.mark.parametrize("code", ["f4", "f8", "i2", "u1", "bool"])
@pytest.mark.parametrize("shape", [(64, 64), (70, 33), (8, 200), (128, 320), (5, 6)])
def test_transposes(shape: tuple[int, int], code: str) -> None:
    rows, columns = shape
    name = {"f4": "f32", "f8": "f64", "i2": "i16", "u1": "u8", "bool": "bool"}[code]
    size = rows * columns
    kernel = parse_kernel(
        f"""kernel k(x: in {name}[{size}], w: in {name}[{rows}], y: out {name}[{size}])
  parallel j in {columns}:
    parallel i in {rows}:
      %0 = load x[{columns}*i + j]
      %1 = load w[i]
      %2 = or {"bool" if code == "bool" else name} %0 %1
      store y[{rows}*j + i] %2
""".replace("or f", "max f")
    )
    check_kernel(kernel)
    x = (np.random.default_rng(0).random(shape) * 100).astype(code)
    w = (np.random.default_rng(1).random(rows) * 100).astype(code)
    y = np.zeros((columns, rows), code)
    for pieces in (1, 3):
        run_native(schedule(kernel), [x, w, y], pieces)
        op = np.maximum if code[0] == "f" else np.bitwise_or
        np.testing.assert_array_equal(y, op(x, w[:, None]).T)
        y[:] = 0
