"""The loader of machine code: relocations, memory that is used again, and what LLVM loads."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fgrad
from fgrad.compile.llvm import generator, loader, runtime
from fgrad.compile.llvm.code_memory import MEMORY, Block, CodeMemory, block_size
from fgrad.compile.llvm.elf import _APPLY, AARCH64, X86_64, ElfObject, UnsupportedObject
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.target import process_target
from fgrad.compile.llvm.text import Target
from fgrad.config import config

TARGETS = {
    "x86_64": Target("x86_64-unknown-linux-gnu", "x86-64", ""),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", ""),
}
MODULE = """
declare i64 @outside(i64)
@given = external global i64
@numbers = internal constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
@functions = internal constant [2 x ptr] [ptr @one, ptr @two]
@count = internal global i64 5
@cells = internal global [4 x i64] zeroinitializer
define internal i64 @one(i64 %x) noinline nounwind { %r = add i64 %x, 1
 ret i64 %r }
define internal i64 @two(i64 %x) noinline nounwind { %r = mul i64 %x, 3
 ret i64 %r }
define i64 @f(i64 %lo, i64 %hi) nounwind {
 %e = call i64 @outside(i64 %lo)
 %given_now = load i64, ptr @given
 %number_at = getelementptr [4 x i64], ptr @numbers, i64 0, i64 %hi
 %number = load i64, ptr %number_at
 %function_at = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %lo
 %function = load ptr, ptr %function_at
 %t = call i64 %function(i64 %number)
 %d = call i64 @two(i64 %t)
 %before = load i64, ptr @count
 %after = add i64 %before, %d
 store i64 %after, ptr @count
 %cell = getelementptr [4 x i64], ptr @cells, i64 0, i64 2
 store i64 %after, ptr %cell
 %kept = load i64, ptr %cell
 %s = add i64 %kept, %e
 %r = add i64 %s, %given_now
 ret i64 %r
}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="objects of Linux")
@pytest.mark.parametrize("glue", [False, True])
def test_a_module_with_all_that_ours_have(glue: bool) -> None:
    """Constants, tables of functions, variables, calls out of it, and symbols of others."""
    outside = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x + 100)
    given = ctypes.c_int64(7000)
    data = generator.compile_text(MODULE, glue=glue)
    imports = {
        "outside": ctypes.cast(outside, ctypes.c_void_p).value or 0,
        "given": ctypes.addressof(given),
    }
    code = loader.load(data, "f", ["f"], imports)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.functions["f"])
    found = [function(1, 2), function(1, 2), function(0, 3)]
    assert found == [101 + 7000 + 5 + 297, 101 + 7000 + 302 + 297, 100 + 7000 + 599 + 135]


@pytest.mark.parametrize("name", TARGETS)
def test_objects_of_both_processors_are_linked(name: str) -> None:
    """Every relocation is known, also those of a processor that this is not."""
    for glue in (False, True):
        found = ElfObject(generator.compile_text(MODULE, TARGETS[name], glue))
        assert sorted(found.undefined) == ["given", "outside"]
        imports = {"given": 0x7F12_3456_0000, "outside": 0x7F12_3457_0000}
        first = found.linked(0x4000_0000, 0x7E00_0000_0000, imports)
        second = found.linked(0x5000_0000, 0x7E00_0000_0000, imports)
        assert len(first.image) == found.size and len(first.data) == found.data_size
        assert second.functions["f"] - first.functions["f"] == 0x1000_0000
        assert second.data == first.data and second.image != first.image


def _bits(word: int, low: int, count: int) -> int:
    return word >> low & (1 << count) - 1


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


# What an instruction says after the relocation, by the manuals: kind, instruction, value, place,
# what is to be read, and what it must be.
PLACE, FAR = 0x4000_1230, 0x1234_5678_9ABC_DEF0
INSTRUCTIONS = [
    (X86_64, 1, "<Q", 0, FAR, lambda w: w, FAR),
    (X86_64, 2, "<I", 0, PLACE - 0x1000, lambda w: _signed(w, 32), -0x1000),
    (X86_64, 24, "<Q", 0, FAR, lambda w: w, FAR - PLACE),
    (AARCH64, 257, "<Q", 0, FAR, lambda w: w, FAR),
    (AARCH64, 260, "<Q", 0, FAR, lambda w: w, FAR - PLACE),
    (AARCH64, 261, "<I", 0, PLACE + 64, lambda w: w, 64),
    *[
        (AARCH64, kind, "<I", 0xD2800001, FAR, lambda w: _bits(w, 5, 16), FAR >> shift & 0xFFFF)
        for kinds, shift in (((263, 264), 0), ((265, 266), 16), ((267, 268), 32), ((269,), 48))
        for kind in kinds
    ],
    *[
        (
            AARCH64, kind, "<I", 0x94000000, PLACE + move,
            lambda w: 4 * _signed(_bits(w, 0, 26), 26), move,
        )
        for kind in (282, 283)
        for move in (0x1000, -0x1000, (1 << 27) - 4, -(1 << 27))
    ],
    *[
        (
            AARCH64, kind, "<I", 0x90000001, PLACE + move,
            lambda w: _signed(_bits(w, 5, 19) << 2 | _bits(w, 29, 2), 21),
            (PLACE + move >> 12) - (PLACE >> 12),
        )
        for kind in (275, 276, 311)
        for move in (0, 0x5678, -0x12345, 1 << 31, -(1 << 31))
    ],
    *[
        (AARCH64, kind, "<I", 0xF9400021, 0x4567_8AB0, lambda w: _bits(w, 10, 12), 0xAB0 >> scale)
        for kind, scale in ((277, 0), (278, 0), (284, 1), (285, 2), (286, 3), (299, 4), (312, 3))
    ],
]  # fmt: skip


@pytest.mark.parametrize("case", INSTRUCTIONS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_relocations(case: tuple) -> None:
    machine, kind, layout, word, value, read, expected = case
    memory = bytearray(32)
    struct.pack_into(layout, memory, 8, word)
    _APPLY[machine][kind](memory, 8, value, PLACE)
    (found,) = struct.unpack_from(layout, memory, 8)
    assert read(found) == expected
    rest = {*range(32)} - {*range(8, 8 + struct.calcsize(layout))}
    assert not any(memory[k] for k in rest)


def test_every_relocation_has_a_case() -> None:
    known = {(machine, kind) for machine, kinds in _APPLY.items() for kind in kinds}
    assert known == {case[:2] for case in INSTRUCTIONS}


@pytest.mark.parametrize(
    ("machine", "kind", "value"),
    [(X86_64, 2, FAR), *[(AARCH64, kind, FAR) for kind in (261, 275, 283)], (AARCH64, 299, 8)],
)
def test_what_is_out_of_reach_is_refused(machine: int, kind: int, value: int) -> None:
    with pytest.raises(UnsupportedObject):
        _APPLY[machine][kind](bytearray(16), 0, value, PLACE)


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(100), b"\xcf\xfa\xed\xfe" + bytes(100)])
def test_other_formats_are_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedObject):
        ElfObject(data)


def test_what_refers_to_nothing_is_refused() -> None:
    text = "declare i64 @nobody(i64)\ndefine i64 @f(i64 %x) {\n"
    text += " %r = call i64 @nobody(i64 %x)\n ret i64 %r\n}\n"
    with pytest.raises(RuntimeError):
        loader.load(generator.compile_text(text), "f", ["f"], {})


def test_hardened_systems_use_the_loader_of_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory that was written may not be executed, or there are no files in memory."""
    loaded = []
    real = generator.load
    monkeypatch.setattr(loader.generator, "load", lambda *a: loaded.append(a[1]) or real(*a))
    monkeypatch.setattr(loader, "MEMORY", CodeMemory())
    loader.MEMORY.refused = True
    with config.override(cache=False):
        x = np.arange(5.0)
        np.testing.assert_allclose(fgrad.jit(lambda x: np.sin(x) * 1.2345)(x), np.sin(x) * 1.2345)
    assert loaded


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Block]]:
    """The blocks that are given back in a process that keeps little and shares no code."""
    found: list[Block] = []
    give_back = CodeMemory.give_back

    def noted(memory: CodeMemory, block: Block) -> None:
        found.append(block)
        give_back(memory, block)

    monkeypatch.setattr(runtime, "RECENT_CODE", 4)
    monkeypatch.setattr(runtime._SESSION, "recent", OrderedDict())  # without other tests' code
    monkeypatch.setattr(CodeMemory, "give_back", noted)
    with config.override(shared_kernels=False):
        yield found


needs_memory = pytest.mark.skipif(MEMORY.refused, reason="the loader of LLVM is in use")


@needs_memory
@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="there is no /proc")
def test_functions_that_are_dropped_leave_no_memory_behind(freed: list[Block]) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count("fgrad-code")

    def once(k: int) -> None:
        assert fgrad.jit(lambda x: x * k)(np.ones(3))[0] == k

    for k in range(-10, 2):
        once(k)
    before, arenas = MEMORY.bytes_in_use(), maps()
    for k in range(3, 60):
        once(k)
    assert MEMORY.bytes_in_use() <= before + (8 << 10) and maps() == arenas
    assert len(freed) >= 50


@needs_memory
def test_blocks_are_used_again() -> None:
    memory = CodeMemory()
    first = [memory.put(size) for size in (10, 1000, 5000)]
    used = memory.bytes_in_use()
    for block in first:
        memory.give_back(block)
    again = [memory.put(size) for size in (10, 1000, 5000)]
    assert [b.offset for b in again] == [b.offset for b in first] and memory.bytes_in_use() == used
    memory.forking()
    assert memory.put(10).arena is not first[0].arena
    memory.give_back(again[0])
    memory.reclaim()
    assert not first[0].arena.free[block_size(10)]  # a child may execute it


@pytest.mark.parametrize("size", [0, 1, 64, 65, 1000, 4097, 123_456])
def test_sizes_of_blocks(size: int) -> None:
    found = block_size(size)
    assert max(size, 0) <= found <= max(size * 1.13, size + 64) and found % 64 == 0


def test_addresses_keep_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "RECENT_CODE", 4)

    def source(k: int) -> Source:
        text = "define i64 @{0}() {{ ret i64 {1} }}"
        return Source(f"kept {k}", lambda symbol: (text.format(symbol, k), set()))

    function = ctypes.CFUNCTYPE(ctypes.c_int64)
    kept = {k: build_counted([source(k)])[0] for k in range(0, 60, 7)}
    for k in range(60):
        build_counted([source(k)])
    assert all(function(address)() == k for k, address in kept.items())


@needs_memory
def test_threads_that_drop_and_call_at_once(freed: list[Block]) -> None:
    """Each runs functions that it drops, while the others' take their memory."""
    wrong: list[float] = []

    def work(seed: int) -> None:
        kept = {}
        for k in range(60):
            n = seed * 1000 + k
            kept[k % 3] = n, fgrad.jit(lambda x, n=n: x * n + 1.0)
            for n_kept, f in kept.values():
                found = float(f(np.full(4, 2.0))[0])
                if found != 2.0 * n_kept + 1.0:
                    wrong.append(found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(freed) >= 100


FORKS = """
import os, sys
import numpy as np
import fgrad
from fgrad.compile.llvm import runtime
from fgrad.compile.llvm.code_memory import CodeMemory

runtime.RECENT_CODE, freed = 4, []
give_back = CodeMemory.give_back
CodeMemory.give_back = lambda memory, block: freed.append(block) or give_back(memory, block)
old = [fgrad.jit(lambda x, k=k: x * k) for k in range(20)]
for k, f in enumerate(old):
    assert f(np.ones(3))[0] == k

def churn(seed):
    for k in range(40):
        n = seed * 100 + k
        assert fgrad.jit(lambda x: x - n)(np.ones(3))[0] == 1 - n
    assert all(f(np.ones(3))[0] == k for k, f in enumerate(old) if f is not None)

ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    os.read(ready, 1)  # until the parent has freed and loaded other code
    churn(1)
    os._exit(len(freed) < 20)
os.close(ready)
whole, old[::2] = list(old), [None] * 10
del whole
churn(2)
os.close(go)
assert os.waitpid(child, 0)[1] == 0
churn(3)
assert len(freed) > 40
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_keeps_the_code_that_its_parent_frees() -> None:
    environment = {**os.environ, "FGRAD_CACHE": "0", "PYTHONWARNINGS": "ignore"}
    environment["FGRAD_SHARED_KERNELS"] = "0"  # code for each number
    subprocess.run([sys.executable, "-c", FORKS], env=environment, check=True, timeout=300)


def test_the_processor_is_known_without_llvm(tmp_path: Path) -> None:
    """Once one process has asked LLVM, others that find their code never load it."""
    program = """
import sys
import numpy as np
import fgrad
f = fgrad.jit(lambda x: np.sort(np.tanh(x @ x)) + np.exp(x))
for _ in range(3):
    f(np.ones((20, 20)))
print("llvmlite" in sys.modules)
"""
    environment = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path), "FGRAD_CACHE": "1"}

    def child() -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert child() == "True"
    if not MEMORY.refused:
        assert child() == "False"
    assert process_target(None) == generator.host_target()
