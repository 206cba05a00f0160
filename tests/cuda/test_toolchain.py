"""Kernel bodies become cubins with no GPU: what comes out, what is kept, what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fgrad.base.lazy_import import lazy_module
from fgrad.compile.llvm import runtime
from fgrad.config import config
from fgrad.errors import CheckError, MissingCudaError
from fgrad.lower_cuda.device import skeleton, store, toolchain
from fgrad.lower_cuda.device.cubin import Cubin, float64_opcodes, opcodes, resources, wide_accesses
from fgrad.lower_cuda.device.toolchain import body_ptx, compile_body

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA has no toolchain for it")

POINTER = "i8 addrspace(1)*"
FLOATS = "float addrspace(1)*"
FOURS = "<4 x float> addrspace(1)*"


def define(lines: str, arity: int = 2, before: str = "", after: str = "") -> str:
    """The text of a body; `%i` is the number of the thread."""
    pointers = ", ".join([f"{POINTER} %p{k}" for k in range(arity)])
    return f"""{before}
define void @fgrad_body(i32 %block, i32 %x, i32 %y, {pointers}) {{
entry:
  %m = mul i32 %block, 256
  %i = add i32 %m, %x
  {lines}
  ret void
}}
{after}
"""


def elementwise(operations: str, before: str = "", read: str = "") -> str:
    """A body that reads `%v` and writes `%w`."""
    return define(
        f"""%a = bitcast {POINTER} %p0 to {FLOATS}
  %b = bitcast {POINTER} %p1 to {FLOATS}
  %q = getelementptr float, {FLOATS} %a, i32 %i
  %r = getelementptr float, {FLOATS} %b, i32 %i
  %v = load float, {FLOATS} %q, align 4{read}
  {operations}
  store float %w, {FLOATS} %r, align 4""",
        before=before,
        after="!3 = !{}" if read else "",
    )


def of(function: str) -> str:
    return elementwise(
        f"%w = call float @{function}(float %v)", f"declare float @{function}(float)"
    )


CHAIN = elementwise(
    "%c0 = fadd float %v, 0.0\n"
    + "\n".join(
        f"%s{k} = fmul float %c{k}, %v\n%c{k + 1} = fadd float %s{k}, 1.0" for k in range(20)
    )
    + "\n%w = fadd float %c20, 1.0"
)
QUOTIENT = elementwise(
    "%d = fadd float %v, 1.0\n%e = fdiv float %v, %d\n%w = call float @llvm.sqrt.f32(float %e)",
    "declare float @llvm.sqrt.f32(float)",
)
FOUR_WIDE = define(
    f"""%a = bitcast {POINTER} %p0 to {FOURS}
  %b = bitcast {POINTER} %p1 to {FOURS}
  %q = getelementptr <4 x float>, {FOURS} %a, i32 %i
  %r = getelementptr <4 x float>, {FOURS} %b, i32 %i
  %v = load <4 x float>, {FOURS} %q, align 16, !invariant.load !0
  %w = fadd <4 x float> %v, %v
  store <4 x float> %w, {FOURS} %r, align 16""",
    after="!0 = !{}",
)
SHARED = define(
    f"""%a = bitcast {POINTER} %p0 to i32 addrspace(1)*
  %b = bitcast {POINTER} %p1 to i32 addrspace(1)*
  %q = getelementptr i32, i32 addrspace(1)* %a, i32 %i
  %r = getelementptr i32, i32 addrspace(1)* %b, i32 %i
  %v = load i32, i32 addrspace(1)* %q, align 4
  %s = getelementptr [256 x i32], [256 x i32] addrspace(3)* @shared0, i32 0, i32 %x
  store i32 %v, i32 addrspace(3)* %s, align 4
  call void @llvm.nvvm.barrier0()
  %n = xor i32 %x, 255
  %t = getelementptr [256 x i32], [256 x i32] addrspace(3)* @shared0, i32 0, i32 %n
  %u = load i32, i32 addrspace(3)* %t, align 4
  %w = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %u, i32 16, i32 31)
  store i32 %w, i32 addrspace(1)* %r, align 4""",
    before="""@shared0 = internal addrspace(3) global [256 x i32] undef, align 16
declare void @llvm.nvvm.barrier0()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)""",
)
SIN = of("__nv_sinf")
BODIES = {
    "exp": of("__nv_expf"),
    "tanh": of("__nv_tanhf"),
    "sin": SIN,
    "chain": CHAIN,
    "quotient": QUOTIENT,
    "four": FOUR_WIDE,
    "shared": SHARED,
}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """An empty cache on disk and in memory."""
    with config.override(cache=True, cache_dir=str(tmp_path / "cache")):
        compile_body.cache_clear()
        yield tmp_path / "cache"
    compile_body.cache_clear()


@pytest.mark.parametrize("name", BODIES)
def test_bodies_compile_within_budget(name: str) -> None:
    cubin = compile_body(BODIES[name], 2, 256)
    taken = cubin.resources
    assert cubin.image.startswith(b"\x7fELF")
    assert cubin.entry.encode() in cubin.image
    assert taken.spill_bytes == 0 and taken.registers <= 32
    assert taken.stack_bytes <= (32 if name == "sin" else 0)
    assert taken.shared_bytes == (1024 if name == "shared" else 0)
    assert 0 < taken.code_bytes < len(cubin.image)


@pytest.mark.parametrize("name", BODIES)
def test_the_body_is_inlined_and_float64_stays_away(name: str) -> None:
    ptx = body_ptx(BODIES[name], 2, 256)
    counts = opcodes(ptx)
    assert not [code for code in counts if code.startswith("call")]
    assert bool(float64_opcodes(ptx)) == (name == "sin")  # libdevice's, far from 0
    assert counts["ret"] == 1


def test_arithmetic_is_precise_and_not_fused() -> None:
    chain, quotient = opcodes(body_ptx(CHAIN, 2, 256)), opcodes(body_ptx(QUOTIENT, 2, 256))
    assert chain["mul.rn.f32"] == 20 and not chain["fma.rn.f32"]
    assert quotient["div.rn.f32"] == 1 and quotient["sqrt.rn.f32"] == 1
    assert not [code for code in (*chain, *quotient) if "ftz" in code]


def test_wide_and_read_only_accesses() -> None:
    ptx = body_ptx(FOUR_WIDE, 2, 256)
    assert opcodes(ptx)["ld.global.nc.v4.f32"] == opcodes(ptx)["st.global.v4.f32"] == 1
    assert wide_accesses(ptx) == (1, 1)
    assert opcodes(body_ptx(CHAIN, 2, 256))["ld.global.f32"] == 1
    assert wide_accesses(body_ptx(CHAIN, 2, 256)) == (0, 0)
    constant = elementwise("%w = fadd float %v, 1.0", read=", !invariant.load !3")
    assert opcodes(body_ptx(constant, 2, 256))["ld.global.nc.f32"] == 1


@pytest.mark.parametrize("arity", [1, 2, 4, 5, 16, 17, 100, 256])
def test_pointers_are_padded(arity: int) -> None:
    ptx = body_ptx(define("", arity), arity, 32, entry="named")
    assert ptx.count(".param .u64 named_param_") == skeleton.padded(arity)
    assert skeleton.padded(arity) >= arity


def test_the_bound_of_a_block_limits_registers() -> None:
    lines = [f"%q{k} = getelementptr float, {FLOATS} %a, i32 %g{k}" for k in range(150)]
    lines = [f"%g{k} = add i32 %i, {7 * k * k}" for k in range(150)] + lines
    lines += [f"%v{k} = load volatile float, {FLOATS} %q{k}, align 4" for k in range(150)]
    lines += [f"store float %v{k}, {FLOATS} %q{149 - k}, align 4" for k in range(150)]
    body = define(f"%a = bitcast {POINTER} %p0 to {FLOATS}\n" + "\n".join(lines), 1)
    assert ".maxntid 1024, 1, 1" in body_ptx(body, 1, 1024)
    wide, narrow = compile_body(body, 1, 64).resources, compile_body(body, 1, 1024).resources
    assert wide.registers > 64 and not wide.spill_bytes
    assert narrow.registers <= 64 and narrow.spill_bytes > 0


def test_resources_agree_with_the_log() -> None:
    image, log = toolchain._link(body_ptx(SHARED, 2, 256), "sm_90")
    taken = resources(image, log)
    assert f"used {taken.registers} registers" in log
    assert taken.shared_bytes == 1024


def test_opcodes_are_counted_by_name() -> None:
    text = "\n".join(
        [
            ".visible .entry f(",
            "  .param .u64 p )",
            "// add.f32 in a comment",
            "  @%p1 bra $L__BB0_2;",
            "  @!%p12 st.global.f32 [%rd1], %f1;",
            "  add.f32 \t%f1, %f2, %f3;",
            "$L__BB0_2:",
            "  ret;",
        ]
    )
    assert opcodes(text) == {"bra": 1, "st.global.f32": 1, "add.f32": 1, "ret": 1}


def test_wide_accesses_have_128_bits() -> None:
    names = (
        "ld.global.nc.v4.u32 ld.global.v2.f64 ld.global.v2.f32 ld.shared.v4.f32 st.global.v4.b32"
    )
    assert wide_accesses("\n".join([f"  {name} a, b;" for name in names.split()])) == (2, 1)


def test_a_kernel_is_compiled_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubin = compile_body(SIN, 2, 256)
    assert compile_body(SIN, 2, 256) is cubin
    compile_body.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(toolchain, "body_ptx", None)
        assert compile_body(SIN, 2, 256) == cubin
    for path in fresh.glob("*/c_*"):
        path.unlink()
    compile_body.cache_clear()
    assert compile_body(SIN, 2, 256) == cubin  # the same again, to the bit


def test_every_condition_has_its_own_kernel(fresh: Path) -> None:
    cubins = [
        compile_body(SIN, 2, 256),
        compile_body(SIN, 2, 128),
        compile_body(SIN, 2, 256, "sm_80"),
        compile_body(SIN.replace("256", "512"), 2, 256),
        compile_body(CHAIN, 2, 256),
    ]
    assert len({cubin.entry for cubin in cubins}) == len(cubins) == len(list(fresh.glob("*/c_*")))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_damaged_files_are_compiled_anew(fresh: Path, damage: str) -> None:
    cubin = compile_body(SIN, 2, 256)
    for path in [*fresh.glob("*/c_*"), *fresh.glob("*/s_*")]:
        data = bytearray(path.read_bytes())
        data[100] ^= 4 if damage == "flipped" else 0
        path.write_bytes(data[: {"truncated": 90, "flipped": len(data), "empty": 0}[damage]])
    compile_body.cache_clear()
    skeleton.skeleton.cache_clear()
    assert compile_body(SIN, 2, 256) == cubin
    compile_body.cache_clear()
    assert store.recall(_key_of_sin()) == cubin


def _key_of_sin() -> str:
    return store.key_of(SIN, (2, 256, "sm_90", toolchain.versions()))


def test_what_others_can_write_is_not_read(fresh: Path) -> None:
    cubin = compile_body(SIN, 2, 256)
    os.chmod(fresh, 0o770)
    with config.override(cache_dir=str(fresh.parent)):
        runtime.store()  # leaves the directory, so that the next one looks at it again
    with pytest.warns(RuntimeWarning, match="rm -r"):
        assert store.recall(_key_of_sin()) is None
    compile_body.cache_clear()
    assert compile_body(SIN, 2, 256) == cubin


def test_no_cache_and_no_disk(fresh: Path) -> None:
    with config.override(cache=False):
        cubin = compile_body(SIN, 2, 256)
    assert not fresh.exists()
    fresh.write_text("a file where the directory would be")
    compile_body.cache_clear()
    assert compile_body(SIN, 2, 256) == cubin


def test_threads_compile_at_once(fresh: Path) -> None:
    bodies = [CHAIN.replace("256", str(256 + k % 4)) for k in range(16)]
    with ThreadPoolExecutor(8) as pool:
        cubins = list(pool.map(lambda body: compile_body(body, 2, 256), bodies))
    compile_body.cache_clear()
    with config.override(cache=False):
        assert cubins == [compile_body(body, 2, 256) for body in bodies]


_OTHER = """
import sys
from fgrad.lower_cuda.device.toolchain import compile_body
text = sys.stdin.read()
for k in range(4):
    print(compile_body(text.replace("256", str(300 + k)), 2, 256).entry)
print(sorted({name.split(".")[0] for name in sys.modules} & {"numba", "cuda"}))
"""


def _start(env: dict[str, str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    code = [sys.executable, "-c", _OTHER]
    return subprocess.Popen(code, env=env, stdin=pipe, stdout=pipe, text=True)


def test_processes_share_what_they_compile(fresh: Path) -> None:
    """Numba is loaded where there is no skeleton yet; then nothing of CUDA is."""
    skeleton.skeleton.cache_clear()
    compile_body(CHAIN, 2, 256)
    env = {**os.environ, "FGRAD_CACHE_DIR": str(fresh), "FGRAD_CACHE": "1"}
    env.update(PATH="/usr/bin:/bin", CUDA_HOME="", CUDA_PATH="", LD_LIBRARY_PATH="")
    running = [_start(env) for _ in range(3)]
    texts = [process.communicate(CHAIN, timeout=120)[0].splitlines() for process in running]
    assert [lines[:4] for lines in texts] == [texts[0][:4]] * 3
    assert {lines[4] for lines in texts} <= {"['cuda']", "[]"}
    last = _start(env).communicate(CHAIN, timeout=120)[0].splitlines()
    assert last == [*texts[0][:4], "[]"]


BAD = SIN.replace("%w = call", "%w = coll")


def test_a_bad_body_is_shown_with_the_log(fresh: Path) -> None:
    line = BAD.splitlines().index("  %w = coll float @__nv_sinf(float %v)") + 1
    with pytest.raises(CheckError, match="libNVVM does not accept") as caught:
        compile_body(BAD, 2, 256)
    text = str(caught.value)
    assert "expected instruction opcode" in text
    assert re.search(rf"> +{line}   %w = coll float", text)
    assert not list(fresh.glob("*/c_*"))
    with pytest.raises(CheckError, match="libNVVM"):
        compile_body(BAD, 2, 256)


def test_an_unknown_function_is_named(fresh: Path) -> None:
    with pytest.raises(CheckError, match="nvJitLink does not accept") as caught:
        compile_body(of("__nv_nonsense"), 2, 256)
    assert "Undefined reference to '__nv_nonsense'" in str(caught.value)


def test_bodies_that_are_none() -> None:
    with pytest.raises(CheckError, match="no `define void @fgrad_body"):
        compile_body("define void @other() { ret void }", 2, 256)
    with pytest.raises(CheckError, match="takes 2 pointers, and not 3"):
        compile_body(SIN, 3, 256)
    with pytest.raises(CheckError, match="256 pointers at most, not 257"):
        compile_body(define("", 257), 257, 256)
    with pytest.raises(CheckError, match="sm_12"):
        compile_body(SIN, 2, 256, "sm_12")


@pytest.mark.parametrize("piece", ["nvvm", "nvjitlink"])
def test_missing_libraries(fresh: Path, monkeypatch: pytest.MonkeyPatch, piece: str) -> None:
    monkeypatch.setattr(toolchain, piece, lazy_module(f"cuda.bindings.absent_{piece}"))
    with pytest.raises(MissingCudaError) as caught:
        compile_body(SIN, 2, 256)
    assert str(caught.value) == (
        f"To compile CUDA kernels, the module cuda.bindings.absent_{piece} is needed.\n"
        "\n"
        f"  found   ModuleNotFoundError: No module named 'cuda.bindings.absent_{piece}'\n"
        "  write   pip install 'fgrad[cuda]'       in a terminal; no GPU is needed for it\n"
        "  more    docs/errors.md#missingcudaerror"
    )


def test_missing_numba(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise RuntimeError('Failure finding "libcudart.so.13"\n' + "  listed\n" * 100)

    monkeypatch.setattr(skeleton, "_texts", absent)
    skeleton.skeleton.cache_clear()
    with pytest.raises(MissingCudaError, match="numba-cuda is needed") as caught:
        compile_body(SIN, 2, 256)
    assert "libcudart" in str(caught.value) and str(caught.value).count("listed") < 10


def test_numba_without_numba_cuda(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skeleton, "version_of", lambda name: "absent")
    skeleton.skeleton.cache_clear()
    with pytest.raises(MissingCudaError, match="numba-cuda is needed") as caught:
        compile_body(SIN, 2, 256)
    assert "numba absent, numba-cuda absent" in str(caught.value)


def test_the_simulator_compiles_nothing(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skeleton.numba.config, "ENABLE_CUDASIM", 1)
    skeleton.skeleton.cache_clear()
    with pytest.raises(MissingCudaError, match="unset NUMBA_ENABLE_CUDASIM"):
        compile_body(SIN, 2, 256)


def test_missing_libdevice(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for beside libNVVM first; a body without its functions does without."""
    monkeypatch.setattr(toolchain, "_libdevice_file", lambda: Path("absent"))
    toolchain.libdevice.cache_clear()
    with pytest.raises(MissingCudaError, match="libdevice"):
        body_ptx(SIN, 2, 256)
    assert opcodes(body_ptx(CHAIN, 2, 256))["ret"] == 1


def test_numpy_is_as_before_after_numba() -> None:
    names = set(vars(skeleton.np))
    with skeleton._numpy_of_numba():
        assert callable(vars(skeleton.np)["row_stack"])
    assert set(vars(skeleton.np)) == names


def test_a_cubin_is_kept_whole(fresh: Path) -> None:
    cubin = compile_body(SHARED, 2, 256)
    store.keep("c_test", cubin)
    known = store.recall("c_test")
    assert known == cubin and isinstance(known, Cubin)
    assert known.resources.shared_bytes == 1024
