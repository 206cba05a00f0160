"""Loops of twelve kernels: instructions an element for AVX2 and NEON, without an Arm machine.

    python benchmarks/arm_kernels.py [--table benchmarks/results/arm_kernels.md]

Each kernel is scheduled for eight vectors of 64 bytes in registers, as both have, and compiled for
both; the instructions of all innermost loops are counted.  A register of NEON has half of the
bytes, so twice the instructions an element are par.  Where `llvm-mca` is installed, its cycles an
element stand beside, of processors that it knows: Haswell and Neoverse N1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ["FGRAD_CPU"] = "x86-64-v3"  # schedules of a processor with eight such vectors

import numpy as np

import fgrad
from fgrad.compile.cpu.gemm.micro import emit_tile, tiling
from fgrad.compile.cpu.kernels import asm_text
from fgrad.compile.kernel.ir import Kernel, Loop, Statement
from fgrad.compile.llvm import generator, interrupts
from fgrad.compile.llvm.levels import LEVELS
from fgrad.compile.llvm.text import ATTRIBUTES, Target

V3 = LEVELS["x86-64-v3"].replace(" ", ",")
TARGETS = {
    "AVX2": (Target("x86_64-unknown-linux-gnu", "x86-64-v3", V3), ("x86_64", "haswell")),
    "NEON": (
        Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon"),
        ("aarch64", "neoverse-n1"),
    ),
}
LEAST_TURNS = 256  # of a loop that counts
F32, F64 = np.float32, np.float64
SHAPE = (256, 4096)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layernorm(x: np.ndarray) -> np.ndarray:
    y = x - np.mean(x, axis=1, keepdims=True)
    return y / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + F32(1e-5))


def adam(p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    m = F32(0.9) * m + F32(0.1) * g
    v = F32(0.999) * v + F32(0.001) * g * g
    return p - F32(1e-3) * m / (np.sqrt(v) + F32(1e-8)), m, v


KERNELS: dict[str, tuple[Callable[..., object], type, int]] = {
    "a * b + c, float32": (lambda a, b, c: a * b + c, F32, 3),
    "sum, float32": (lambda x: np.sum(x), F32, 1),
    "dot product, float64": (lambda x, y: np.sum(x * y), F64, 2),
    "exp, float32": (lambda x: np.exp(x), F32, 1),
    "sin, float64": (lambda x: np.sin(x), F64, 1),
    "tanh, float32": (lambda x: np.tanh(x), F32, 1),
    "softmax of rows, float32": (softmax, F32, 1),
    "layernorm of rows, float32": (layernorm, F32, 1),
    "Adam step, float32": (adam, F32, 4),
    "a < b ? a : sqrt(b), float64": (lambda a, b: np.where(a < b, a, np.sqrt(b)), F64, 2),
    "a * b + c, float16": (lambda a, b, c: a * b + c, np.float16, 3),
}
PRODUCT = "tile of a product, float32"


class Count(NamedTuple):
    """Of one element: instructions, and cycles by `llvm-mca` (0 where it is missing)."""

    instructions: float
    cycles: float


def turns(body: tuple[Statement, ...], times: float = 1.0) -> list[float]:
    """How often each innermost loop of a kernel turns, in the order of their texts."""
    found: list[float] = []
    for s in body:
        if isinstance(s, Loop):
            inner = turns(s.body, times * s.extent)
            found += inner or [times * s.extent / (max(s.lanes, 1) * max(s.unroll, 1))]
    return found


def innermost_loops(text: str) -> list[list[str]]:
    """The instructions of each innermost loop of a function."""
    comment = r"\s+#.*" if "%rsp" in text or "%r" in text else r"\s+//.*"
    lines = [re.sub(comment, "", line).strip() for line in text.split("\n")]
    place = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    spans: list[tuple[int, int]] = []
    for k, line in enumerate(lines):
        target = re.fullmatch(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?(\.LBB\w+)", line)
        if target and place[target[1]] < k:
            spans.append((place[target[1]], k))
    inner = [(a, b) for a, b in spans if not any(a <= c and d < b for c, d in spans)]
    return [[s for s in lines[a : b + 1] if s and s[0] != "." and s[-1] != ":"] for a, b in inner]


def cycles(loop: list[str], processor: tuple[str, str]) -> float:
    """What llvm-mca says that one turn takes; 0 if it is missing, or does not know a word."""
    if shutil.which("llvm-mca") is None:
        return 0.0
    triple, cpu = processor
    text = "\n".join(loop[:-1]) + "\n"  # without the branch, whose label is elsewhere
    command = ["llvm-mca", f"-mtriple={triple}", f"-mcpu={cpu}", "-iterations=200"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    return int(found[1]) / 200 if found else 0.0


def count_kernels(kernels: tuple[Kernel, ...], side: str, size: int) -> Count:
    """All kernels of a function on an array of so many elements."""
    target, processor = TARGETS[side]
    instructions = total = 0.0
    for kernel in kernels:
        often = [n for n in turns(kernel.body) if n >= LEAST_TURNS]
        loops = innermost_loops(asm_text(kernel, target))
        longest = sorted(loops, key=len)[-len(often) :] if often else []
        for loop, times in zip([s for s in loops if s in longest], often, strict=True):
            instructions += len(loop) * times / size
            total += cycles(loop, processor) * times / size
    return Count(instructions, total)


def count_product(side: str) -> Count:
    """The largest tile of a product: of one multiplication and addition."""
    target, processor = TARGETS[side]
    tiles = tiling(np.dtype(F32), target.triple, target.features)
    text, declarations = emit_tile("tile", tiles, tiles.rows[0], 2)
    module = "\n".join([*sorted(declarations), text.replace("internal ", ""), ATTRIBUTES, ""])
    loop = max(innermost_loops(generator.assembly(module, target)), key=len)
    products = sum("fmla" in s or "vfmadd" in s for s in loop) * tiles.lanes
    return Count(len(loop) / products, cycles(loop, processor) / products)


def rows() -> list[tuple[str, Count, Count]]:
    """The counts of each kernel for both."""
    interrupts.HAS_KEEPING = False  # calls that ask for signals are not in assembly of x86
    found = []
    for name, (function, dtype, arity) in KERNELS.items():
        args = [np.ones(SHAPE, dtype) for _ in range(arity)]
        kernels = fgrad.inspect(function)(*args).kernels
        found.append((name, *[count_kernels(kernels, side, args[0].size) for side in TARGETS]))
    return [*found, (PRODUCT, *[count_product(side) for side in TARGETS])]


def table() -> str:
    """The table of all kernels."""
    lines = [
        "| kernel | AVX2, instructions an element | NEON | NEON / AVX2, par is 2 "
        "| Haswell, cycles an element | Neoverse N1 | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one, other in rows():
        ratio = other.instructions / one.instructions
        slower = f"{other.cycles / one.cycles:.2f}" if one.cycles and other.cycles else "-"
        numbers = f"{one.instructions:.3f} | {other.instructions:.3f} | {ratio:.2f}"
        cycle = f"{one.cycles:.3f} | {other.cycles:.3f} | {slower}"
        lines.append(f"| {name.replace('|', '')} | {numbers} | {cycle} |")
    return "\n".join(lines) + "\n"


HEAD = """# Kernels of Arm

What `python benchmarks/arm_kernels.py` counted in the code of both, on an x86 machine: the
instructions of all innermost loops for each element of 256 x 4096 (of the product: for each
multiplication with addition), and the cycles that `llvm-mca` gives for them, from the first cache.
A register of NEON has 16 bytes, one of AVX2 32: twice the instructions are par.

"""


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", type=Path, help="the file to write")
    options = parser.parse_args()
    text = table()
    print(text)
    if options.table:
        options.table.write_text(HEAD + text, encoding="utf-8")


if __name__ == "__main__":
    main()
