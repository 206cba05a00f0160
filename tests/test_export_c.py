"""Functions for C: they compute what `jit` does, and touch no memory but their own."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_programs import PROGRAMS
from sources import ROOT

import fgrad
import fgrad.scipy.special as special
from fgrad.aot.c import CExport, compilers
from fgrad.aot.vector_products import vector_product
from fgrad.base.system import processor
from fgrad.compile.cpu.library import product_code
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.tasks.routines import gemm_spec
from fgrad.errors import ExportError

CC = next((c[0] for c in compilers() if len(c) == 1), None)
needs_cc = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")
EXAMPLES = ROOT / "examples" / "export"
# Without AVX-512, which valgrind does not know.
LEVEL = {**os.environ, "FGRAD_CPU": "x86-64-v3"} if " avx2 " in processor() else None


class Guarded:
    """Memory whose last byte is the last of a page, before one that nobody may touch."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        pages = -(-size // page) + 2
        self.map = mmap.mmap(-1, pages * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None)
        for guard in (start, start + (pages - 1) * page):
            assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        self.address = start + (pages - 1) * page - size
        self.bytes = (ctypes.c_uint8 * size).from_address(self.address)


def called(made: CExport, args: Any, expected: Any) -> tuple[int, list[np.ndarray]]:
    """The result of the C function, on memory between pages that nobody may touch."""
    assert made.library is not None
    name = os.path.basename(made.object).removesuffix(".o")
    function = getattr(ctypes.CDLL(made.library), name)
    ins = [np.ascontiguousarray(x) for x in fgrad.tree.leaves(args)]
    outs = [np.asarray(x) for x in fgrad.tree.leaves(expected)]
    places = [Guarded(x.nbytes) for x in (*ins, *outs)] + [Guarded(made.workspace)]
    for x, place in zip(ins, places, strict=False):
        ctypes.memmove(place.address, x.ctypes.data, x.nbytes)
    status = function(*[ctypes.c_void_p(place.address) for place in places])
    given = places[len(ins) : -1]
    found = [
        np.frombuffer(bytes(place.bytes), x.dtype).reshape(x.shape)
        for place, x in zip(given, outs, strict=True)
    ]
    return status, found


@needs_cc
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_same_bits(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    f, make = PROGRAMS[name]
    args = make(rng)
    expected = fgrad.jit(f)(*args)
    status, found = called(fgrad.export_c(f, *args, path=tmp_path / name), args, expected)
    assert status == 0
    pairs = zip(found, fgrad.tree.leaves(expected), strict=True)
    assert all([a.tobytes() == np.asarray(b).tobytes() for a, b in pairs])


KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda a, b: np.tanh(a @ b), (np.ones((70, 50)), np.ones((50, 90)))),
    "complex": (lambda x: np.exp(1j * x) * (x + 2j), (np.ones(9),)),
    "float16": (lambda x: np.tanh(x) * 2, (np.ones(9, np.float16),)),
    "sorted": (lambda x: np.sort(x), (np.arange(900.0)[::-1].copy(),)),
    "truth": (lambda x: x > 0, (np.ones(9),)),
    "known": (lambda x, n: (x, 2.0, {"b": [n]}), (np.ones(3), np.int32(4))),
    "nothing": (lambda x: x * 2, (np.zeros((0, 3)),)),
    "random": (lambda k: fgrad.random.normal(k, (5,)), (fgrad.random.key(3),)),
    "large": (lambda x: np.sum(np.exp(x)), (np.ones(400_000),)),
}


@needs_cc
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_programs(name: str, tmp_path: Path) -> None:
    f, args = KINDS[name]
    expected = fgrad.jit(f)(*args)
    status, found = called(fgrad.export_c(f, *args, path=tmp_path / name), args, expected)
    assert status == 0
    for a, b in zip(found, fgrad.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)


SIZES = [1, 2, 3, 7, 8, 9, 16, 31, 64, 100]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("side", ["A x", "x B"])
@pytest.mark.parametrize("batch", [1, 3])
def test_vector_products(
    dtype: Any, trans: bool, side: str, batch: int, rng: np.random.Generator
) -> None:
    for rows in SIZES:
        for k in (*SIZES, 257):
            _check_vector_product(np.dtype(dtype), trans, side, batch, rows, k, rng)


def _check_vector_product(
    dtype: np.dtype, trans: bool, side: str, batch: int, rows: int, k: int, rng: np.random.Generator
) -> None:
    matrix = rng.standard_normal((batch, k, rows) if trans else (batch, rows, k)).astype(dtype)
    vector = rng.standard_normal((batch, k)).astype(dtype)
    found = np.full((batch, rows), np.nan, dtype)
    if side == "A x":
        spec = gemm_spec(dtype, rows, 1, k, batch, trans_a=trans)
        operands = matrix, vector
    else:
        spec = gemm_spec(dtype, 1, rows, k, batch, trans_b=not trans)
        operands = vector, matrix
    table = np.array(product_code(spec).table, np.int64)
    (address,) = build_counted(
        [Source(f"vector product {dtype}", lambda symbol: vector_product(symbol, dtype))]
    )
    buffers = (ctypes.c_void_p * 4)(*[x.ctypes.data for x in (*operands, found, table)])
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    cells = int(table[8]) * batch
    kind(address)(buffers, 0, cells)
    expected = np.einsum("bkr,bk->br" if trans else "brk,bk->br", matrix, vector)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * k)


@needs_cc
@pytest.mark.parametrize("shape", [(700, 900), (2000, 3)])
def test_large_matrices_and_vectors(shape: tuple[int, int], tmp_path: Path) -> None:
    a, x, y = np.ones(shape), np.arange(float(shape[1])), np.arange(float(shape[0]))

    def both(a: Any, x: Any, y: Any) -> Any:
        return a @ x, y @ a

    made = fgrad.export_c(both, a, x, y, path=tmp_path / "both")
    status, found = called(made, (a, x, y), both(a, x, y))
    assert status == 0
    for u, v in zip(found, both(a, x, y), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-12)


@needs_cc
def test_objects_need_malloc_and_no_more(tmp_path: Path) -> None:
    fgrad.export_c(lambda a, b: a @ b, np.ones((99, 99)), np.ones((99, 99)), path=tmp_path / "f")
    done = subprocess.run(
        ["nm", "-u", str(tmp_path / "f.o")], capture_output=True, text=True, check=True
    )
    wanted = set(re.findall(r"U (\w+)", done.stdout))
    assert wanted <= {"malloc", "free", "memmove", "memset", "memcpy"}


def test_lapack_is_left_to_the_caller(tmp_path: Path) -> None:
    made = fgrad.export_c(np.linalg.cholesky, np.eye(4), path=tmp_path / "f")
    header = Path(made.header).read_text()
    assert made.library is None
    assert "dpotrf_" in header
    assert "1: Matrix is not positive definite" in header


@needs_cc
def test_failures_are_numbers(tmp_path: Path) -> None:
    fgrad.export_c(np.linalg.cholesky, np.eye(2), path=tmp_path / "f")
    (tmp_path / "lapack.c").write_text(
        "void dpotrf_(char *u, int *n, double *a, int *lda, int *info) { *info = a[0] < 0; }"
    )
    library = tmp_path / "f.so"
    assert CC is not None
    command = [CC, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "f.o"), "lapack.c"]
    subprocess.run(command, check=True, cwd=tmp_path)
    workspace = int(re.findall(r"_WORKSPACE (\d+)", (tmp_path / "f.h").read_text())[0])
    made = CExport(str(tmp_path / "f.o"), "", str(library), workspace)
    assert called(made, (np.eye(2),), (np.eye(2),))[0] == 0
    assert called(made, (-np.eye(2),), (np.eye(2),))[0] == 1


@needs_cc
def test_work_is_shared_if_somebody_shares_it(tmp_path: Path) -> None:
    x = np.linspace(0.0, 1.0, 400_000)
    made = fgrad.export_c(lambda x: np.sqrt(np.exp(x)), x, path=tmp_path / "f", threads=4)
    assert made.library is not None
    library = ctypes.CDLL(made.library)
    out, workspace = np.zeros_like(x), np.zeros(made.workspace, np.uint8)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, out, workspace)]
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    pieces: list[int] = []

    def share(_pool: int, f: int, bufs: int, lo: int, hi: int, chunk: int) -> None:
        starts = range(lo, hi, chunk)
        pieces.extend(starts)
        threads = [
            threading.Thread(target=kernel(f), args=(bufs, i, min(i + chunk, hi))) for i in starts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    types = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
    given = ctypes.CFUNCTYPE(None, *types)(share)
    library.f(*pointers)
    alone, out[:] = out.copy(), 0.0
    library.f_set_share(given, None)
    library.f(*pointers)
    assert len(pieces) > 1
    assert alone.tobytes() == out.tobytes()


REFUSED: dict[str, Callable[..., Any]] = {
    "fft": lambda x: np.fft.fft(x).real,
    "j0": special.j0,
    "pure_callback": lambda x: fgrad.pure_callback(lambda y: y * 2, x, x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_c_does_not_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=name) as caught:
        fgrad.export_c(REFUSED[name], np.ones(8), path=tmp_path / "f")
    assert name == "j0" or "test_export_c.py" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a-b", "3f", "int", "for", "f()", "é"])
def test_names_of_c_functions(name: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no name of a C function"):
        fgrad.export_c(np.sin, np.ones(3), path=tmp_path / "f", name=name)


# --- the examples


def _built(folder: Path, command: Sequence[str], *arguments: str) -> str:
    exporting = [sys.executable, str(EXAMPLES / "export_fit.py"), str(folder)]
    subprocess.run(exporting, check=True, env=LEVEL)
    program = str(folder / "program")
    subprocess.run([*command, "-o", program], check=True, cwd=EXAMPLES)
    return _run([program, *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_cc
def test_example_in_c(tmp_path: Path) -> None:
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    given = [CC or "", *flags, "fit.c", str(tmp_path / "fit.o"), "-lm"]
    assert _built(tmp_path, given).startswith("loss ")


@needs_cc
def test_example_in_c_with_sanitizers(tmp_path: Path) -> None:
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{tmp_path}"]
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }")
    command = [CC or "", *flags, str(probe), "-o", str(tmp_path / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("the compiler has no sanitizers")
    given = [CC or "", *flags, "fit.c", str(tmp_path / "fit.o"), "-lm"]
    assert _built(tmp_path, given).startswith("loss ")


@needs_cc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_example_in_c_under_valgrind(tmp_path: Path) -> None:
    given = [CC or "", "-g", f"-I{tmp_path}", "fit.c", str(tmp_path / "fit.o"), "-lm"]
    _built(tmp_path, given)
    _under_valgrind(str(tmp_path / "program"))


def _under_valgrind(program: str) -> None:
    command = ["valgrind", "--error-exitcode=9", "--leak-check=full", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == -4 or "unrecognised instruction" in done.stderr:
        pytest.skip("valgrind does not know the instructions of this processor")
    assert done.returncode == 0, done.stderr
    assert "ERROR SUMMARY: 0 errors" in done.stderr
    assert "no leaks are possible" in done.stderr


EXPORT_ALL = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from export_programs import PROGRAMS
import fgrad
for name, (f, make) in PROGRAMS.items():
    fgrad.export_c(f, *make(np.random.default_rng(0)), path=f"{sys.argv[2]}/{name}")
"""


@needs_cc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_programs_under_valgrind(tmp_path: Path) -> None:
    """All in one program, with memory of exactly the sizes that the headers say."""
    command = [sys.executable, "-c", EXPORT_ALL, str(ROOT / "tests"), str(tmp_path)]
    subprocess.run(command, check=True, env=LEVEL)
    includes = [f'#include "{name}.h"' for name in PROGRAMS]
    calls = [_call_in_c(name, (tmp_path / f"{name}.h").read_text()) for name in PROGRAMS]
    text = ["#include <stdlib.h>", *includes, MEMORY, "int main(void) {", *calls, "return 0;", "}"]
    (tmp_path / "main.c").write_text("\n".join(text))
    objects = [f"{name}.o" for name in PROGRAMS]
    built = [CC or "", "-g", "main.c", *objects, "-lm", "-o", "all"]
    subprocess.run(built, check=True, cwd=tmp_path)
    _under_valgrind(str(tmp_path / "all"))


MEMORY = """
static void *filled(size_t count, size_t size, int kind) {
    char *p = malloc(count * size ? count * size : 1);
    for (size_t i = 0; i < count; i++) {
        double x = 1.0 + (double)((i * 7) % 11);
        if (kind == 0 && size == 8) ((double *)p)[i] = x;
        else if (kind == 0) ((float *)p)[i] = (float)x;
        else for (size_t j = 0; j < size; j++) p[i * size + j] = 0;
    }
    return p;
}"""


def _call_in_c(name: str, header: str) -> str:
    """A call on memory from `malloc`, which is given back."""
    found = re.findall(r"^    (const )?(\w+) \*(\w+),  /\* .*: (.*) \*/$", header, re.MULTILINE)
    lines = [f"void *workspace = malloc({name.upper()}_WORKSPACE);"]
    for const, kind, pointer, shape in found:
        count = int(np.prod([int(n) for n in re.findall(r"\[(\d+)\]", shape)], dtype=int))
        made = f"filled({count}, sizeof({kind}), {int(kind not in ('float', 'double'))})"
        lines.append(
            f"{kind} *{pointer} = {made if const else f'malloc({count} * sizeof({kind}))'};"
        )
    pointers = [pointer for *_, pointer, _ in found]
    lines.append(f"if ({name}({', '.join([*pointers, 'workspace'])})) return 1;")
    lines += [f"free({pointer});" for pointer in (*pointers, "workspace")]
    return "{ " + "\n".join(lines) + " }"


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_example_in_cpp(tmp_path: Path) -> None:
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    assert _built(tmp_path, ["c++", *flags, "fit.cpp", str(tmp_path / "fit.o")]).startswith("loss")


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs Rust")
def test_example_in_rust(tmp_path: Path) -> None:
    given = ["rustc", "fit.rs", "-C", f"link-arg={tmp_path / 'fit.o'}"]
    probe = subprocess.run(["rustc", "--version"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("there is no toolchain of Rust")
    assert _built(tmp_path, given, "4096").startswith("loss ")


@needs_cc
def test_example_with_ctypes(tmp_path: Path) -> None:
    _run([sys.executable, str(EXAMPLES / "export_fit.py"), str(tmp_path)])
    found = _run([sys.executable, str(EXAMPLES / "fit_ctypes.py"), str(tmp_path)])
    assert float(found.split()[1]) < 1e-3
