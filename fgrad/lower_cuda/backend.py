"""L6. The GPU backend: which steps are kernels, and which are library calls."""

from __future__ import annotations

from fgrad.compile.backend import Backend
from fgrad.compile.fuse.epilogues import with_epilogues
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import Kernel, Loop
from fgrad.compile.kernel.machine import WHILE_TURNS
from fgrad.compile.kernel.rewrite import Body
from fgrad.compile.passes.im2col import im2col
from fgrad.compile.passes.legalize_complex import legalize_all_complex
from fgrad.compile.passes.library_conv import library_conv
from fgrad.compile.passes.mixed_precision_matmul import mixed_precision_matmul
from fgrad.config import config
from fgrad.lower_cuda.emit.machine import PASS_CYCLES
from fgrad.lower_cuda.executable import link
from fgrad.lower_cuda.library import cudnn
from fgrad.lower_cuda.schedule import schedule
from fgrad.lower_cuda.texts import texts


def in_kernel(kernel: Kernel) -> bool:
    """Whether a loop that can be one kernel should be: not if each pass takes a thread so long that
    launches for the parts of the body, which all threads share, are less."""
    return _pass_cycles(kernel.body) <= PASS_CYCLES


def _pass_cycles(body: Body) -> float:
    """The cycles of a pass of the longest loop; threads share parallel loops around it."""
    loops = [s for s in body if isinstance(s, Loop)]
    cycles = [_pass_cycles(s.body) if s.kind == "parallel" else _cycles(s.body) for s in loops]
    return max(cycles, default=0.0)


def _cycles(body: Body) -> float:
    total = 0.0
    for s in body:
        if isinstance(s, Loop):
            total += (WHILE_TURNS if s.kind == "while" else s.extent) * (_cycles(s.body) + 1)
        else:
            total += weight(s)
    return total


BACKEND = Backend(
    schedule,
    link,
    in_kernel,
    threads=False,
    convs=lambda program: library_conv(program, cudnn.takes),
    prepare=lambda program: legalize_all_complex(im2col(program)),
    products=mixed_precision_matmul,
    join=lambda fusion, program: with_epilogues(fusion, program, config.epilogues),
    texts=texts,
    topics=("llvm", "asm", "cuda"),
    on_host=False,
    stored=lambda _program, _donated, compiled: compiled(),
    steps=None,
)
