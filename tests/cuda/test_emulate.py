"""The emulator: threads, barriers, shuffles, atomic operations, arithmetic of the device."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from emulated_bodies import ORDERS, body, fold_body, numbers, put, run, scan_body, words
from emulator.text import width_of

from fgrad.compile.llvm import runtime
from fgrad.lower_cuda.device.skeleton import padded, skeleton
from fgrad.lower_cuda.device.toolchain import inlined
from fgrad.lower_cuda.emit.text import BodyText

# Threads.


@pytest.mark.parametrize("bounds", [False, True])
def test_a_body_of_threads_that_do_not_wait(bounds: bool, rng: np.random.Generator) -> None:
    x = rng.normal(size=1001).astype(np.float32)
    out = np.full(1008, 7, np.float32)
    text = BodyText()
    index = text.number(128)
    with text.when(text.compare("slt", "i64", index, x.size)):
        value = text.load(text.pointer(0, "float"), index)
        text.store(text.op("fmul", "float", value, value), text.pointer(1, "float"), index)
    run(text.finish(2), [x, out], 8, (128, 1), bounds=bounds)
    np.testing.assert_array_equal(out[:1001], x * x)
    np.testing.assert_array_equal(out[1001:], 7)


def test_threads_have_two_numbers() -> None:
    out = words(48)
    lines = (
        "  %row = mul i32 %y, 4\n  %i0 = add i32 %row, %x\n  %b = mul i32 %block, 24\n"
        "  %i = add i32 %i0, %b\n"
    )
    run(body(1, lines + put("%i0", "%i")), [out], 2, (4, 6))
    np.testing.assert_array_equal(out, np.tile(np.arange(24), 2))


def test_vectors_halves_bools_and_words(rng: np.random.Generator) -> None:
    given = rng.normal(size=8).astype(np.float16)
    flags = np.zeros(8, np.bool_)
    wide = np.zeros(8, np.uint64)
    lines = """
  %h = bitcast i8 addrspace(1)* %p0 to <4 x half> addrspace(1)*
  %f = bitcast i8 addrspace(1)* %p1 to <4 x i8> addrspace(1)*
  %w = bitcast i8 addrspace(1)* %p2 to i64 addrspace(1)*
  %hx = getelementptr <4 x half>, <4 x half> addrspace(1)* %h, i32 %x
  %v = load <4 x half>, <4 x half> addrspace(1)* %hx, align 8
  %s = fpext <4 x half> %v to <4 x float>
  %c = fcmp ogt <4 x float> %s, <float 0.0, float 0.0, float 0.0, float 0.0>
  %z = zext <4 x i1> %c to <4 x i8>
  %fx = getelementptr <4 x i8>, <4 x i8> addrspace(1)* %f, i32 %x
  store <4 x i8> %z, <4 x i8> addrspace(1)* %fx, align 4
  %wx = getelementptr i64, i64 addrspace(1)* %w, i32 %x
  %n = sext i32 %x to i64
  %m = xor i64 %n, -1
  store i64 %m, i64 addrspace(1)* %wx, align 8"""
    run(body(3, lines), [given, flags, wide], 1, (2, 1))
    np.testing.assert_array_equal(flags, given > 0)
    np.testing.assert_array_equal(wide[:2], ~np.arange(2, dtype=np.uint64))


def test_arrays_of_arrays() -> None:
    out = words()
    array = "[2 x [4 x [4 x i32]]]"
    shared = f"@t = internal addrspace(3) global {array} undef, align 16"
    lines = f"""
  %z = lshr i32 %x, 4
  %r0 = lshr i32 %x, 2
  %r = and i32 %r0, 3
  %c = and i32 %x, 3
  %q = getelementptr {array}, {array} addrspace(3)* @t, i32 0, i32 %z, i32 %r, i32 %c
  store i32 %x, i32 addrspace(3)* %q
  call void @llvm.nvvm.barrier0()
  %s = getelementptr {array}, {array} addrspace(3)* @t, i32 0, i32 %z, i32 %c, i32 %r
  %v = load i32, i32 addrspace(3)* %s
"""
    run(body(1, lines + put("%v"), shared), [out])
    np.testing.assert_array_equal(out, np.arange(32).reshape(2, 4, 4).transpose(0, 2, 1).ravel())


def with_skeleton(text: str, arity: int) -> str:
    """A body that runs the kernel of Numba around another one."""
    kernel = skeleton(padded(arity)).replace('"fgrad_body"', '"inner_body"')
    inner = inlined(text, arity).replace("@fgrad_body", "@inner_body").replace("linkonce_odr ", "")
    numbers = range(padded(arity))
    casts = "".join(f"  %c{k} = addrspacecast i8 addrspace(1)* %p{k} to i8*\n" for k in numbers)
    given = ", ".join(f"i8* %c{k}" for k in numbers)
    return body(len(numbers), f"{casts}  call void @fgrad_kernel({given})", f"{inner}\n{kernel}")


@pytest.mark.parametrize("arity", [1, 4, 5, 16])
def test_the_kernel_around_a_body(arity: int) -> None:
    """All arrays arrive in their places, and the block and the thread have their numbers."""
    outs = [words(12) for _ in range(arity)]
    lines = (
        "  %b6 = mul i32 %block, 6\n  %y3 = mul i32 %y, 3\n"
        "  %i0 = add i32 %b6, %y3\n  %i = add i32 %i0, %x\n"
    )
    for k in range(arity):
        lines += f"  %v{k} = add i32 %i, {100 * k}\n"
        lines += put(f"%v{k}", "%i", f"put{k}").replace("%a0", f"%a{k}")
    padding = [words(1) for _ in range(padded(arity) - arity)]
    run(with_skeleton(body(arity, lines), arity), [*outs, *padding], 2, (3, 2))
    for k, out in enumerate(outs):
        np.testing.assert_array_equal(out, np.arange(12) + 100 * k)


# Waiting.


def totals(x: np.ndarray) -> np.ndarray:
    """What `scan_body` makes."""
    return np.cumsum(x, 1) - x + x.sum(1, keepdims=True)


@pytest.mark.parametrize("seed", ORDERS)
@pytest.mark.parametrize("threads", [32, 64, 256, 1024])
def test_running_totals_of_a_block(threads: int, seed: int | None) -> None:
    x = numbers(3, threads)
    out = np.zeros_like(x)
    run(scan_body(threads), [x, out], 3, (threads, 1), seed)
    np.testing.assert_array_equal(out, totals(x))


@pytest.mark.parametrize("seed", ORDERS)
def test_folds_that_share_memory(seed: int | None) -> None:
    x = numbers(4, 128)
    out = np.zeros_like(x)
    run(fold_body(128), [x, out], 4, (128, 1), seed)
    expected = x.sum(1, keepdims=True) / x.max(1, keepdims=True)
    np.testing.assert_array_equal(out, np.broadcast_to(expected, x.shape))


def shuffled(values: np.ndarray, mode: int, lanes: np.ndarray, clamp: int) -> list[int]:
    """shfl.sync as the manual of PTX writes it"""
    segment, limit = clamp >> 8 & 31, clamp & 31
    result = []
    for lane, b in enumerate(lanes):
        last = (lane & segment) | (limit & ~segment)
        first = lane & segment
        source = [first | (b & ~segment), lane - b, lane + b, lane ^ b][mode]
        inside = source >= last if mode == 1 else source <= last
        result.append(values[source if inside else lane] * 2 + inside)
    return result


@pytest.mark.parametrize("clamp", [31, 0, 0x181F, 0x1C03, 0x1800])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_shuffles(mode: int, clamp: int) -> None:
    values, lanes = np.arange(100, 132, dtype=np.int32), np.arange(32, dtype=np.int32) * 7 % 16
    out = words()
    lines = f"""
  %vx = getelementptr i32, i32 addrspace(1)* %a1, i32 %x
  %v = load i32, i32 addrspace(1)* %vx
  %lx = getelementptr i32, i32 addrspace(1)* %a2, i32 %x
  %l = load i32, i32 addrspace(1)* %lx
  %r = call {{i32, i1}} @llvm.nvvm.shfl.sync.i32(i32 -1, i32 {mode}, i32 %v, i32 %l, i32 {clamp})
  %w = extractvalue {{i32, i1}} %r, 0
  %b = extractvalue {{i32, i1}} %r, 1
  %z = zext i1 %b to i32
  %d = mul i32 %w, 2
  %s = add i32 %d, %z
"""
    run(body(3, lines + put("%s")), [out, values, lanes])
    np.testing.assert_array_equal(out, shuffled(values, mode, lanes, clamp))


def test_shuffles_whose_mode_is_in_their_name() -> None:
    out = words()
    name = "llvm.nvvm.shfl.sync.bfly.i32"
    lines = f"  %v = call i32 @{name}(i32 -1, i32 %x, i32 5, i32 31)\n"
    run(body(1, lines + put("%v")), [out])
    np.testing.assert_array_equal(out, np.arange(32) ^ 5)


def test_votes() -> None:
    out = words(128)
    lines = "  %odd = trunc i32 %x to i1\n"
    for mode in range(4):
        lines += f"""
  %r{mode} = call {{i32, i1}} @llvm.nvvm.vote.sync(i32 -1, i32 {mode}, i1 %odd)
  %w{mode} = extractvalue {{i32, i1}} %r{mode}, {int(mode != 3)}
  %z{mode} = {f"zext i1 %w{mode} to i32" if mode != 3 else f"add i32 %w{mode}, 0"}
  %i{mode} = add i32 %x, {32 * mode}
""" + put(f"%z{mode}", f"%i{mode}", f"put{mode}")
    run(body(1, lines), [out])
    assert out.reshape(4, 32)[:, 0].view(np.uint32).tolist() == [0, 1, 0, 0xAAAAAAAA]
    assert (out.reshape(4, 32) == out.reshape(4, 32)[:, :1]).all()


def test_barriers_that_count() -> None:
    out = words(192)
    lines = (
        "  %third = urem i32 %x, 3\n  %not = icmp eq i32 %third, 0\n  %g = zext i1 %not to i32\n"
    )
    for k, name in enumerate(("popc", "and", "or")):
        lines += f"  %r{k} = call i32 @llvm.nvvm.barrier0.{name}(i32 %g)\n"
        lines += f"  %i{k} = add i32 %x, {64 * k}\n" + put(f"%r{k}", f"%i{k}", f"put{k}")
    run(body(1, lines), [out], 1, (64, 1), 5)
    np.testing.assert_array_equal(out, np.repeat([22, 0, 1], 64))


def test_a_part_of_a_warp_can_come_together() -> None:
    out = words()
    lines = """
  %low = icmp slt i32 %x, 16
  br i1 %low, label %first, label %second
first:
  %r = call {i32, i1} @llvm.nvvm.shfl.sync.i32(i32 65535, i32 3, i32 %x, i32 1, i32 31)
  %v = extractvalue {i32, i1} %r, 0
  br label %second
second:
  %w = phi i32 [ %v, %first ], [ -1, %entry ]
"""
    run(body(1, lines + put("%w")), [out])
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 16, np.arange(32) ^ 1, -1))


# Atomic operations, arithmetic of the device.


@pytest.mark.parametrize("seed", ORDERS)
def test_atomic_operations(seed: int | None) -> None:
    out, total = words(64), np.zeros(2, np.float32)
    lines = """
  %f = bitcast i8 addrspace(1)* %p1 to float addrspace(1)*
  %old = atomicrmw add i32 addrspace(1)* %a0, i32 1 seq_cst
  %m = getelementptr i32, i32 addrspace(1)* %a0, i32 1
  %most = atomicrmw max i32 addrspace(1)* %m, i32 %x seq_cst
  %c = getelementptr i32, i32 addrspace(1)* %a0, i32 2
  %pair = cmpxchg i32 addrspace(1)* %c, i32 0, i32 7 seq_cst seq_cst
  %g = sitofp i32 %x to float
  %sum = call float @llvm.nvvm.atomic.load.add.f32.p1f32(float addrspace(1)* %f, float %g)
  call void @llvm.nvvm.barrier0()"""
    run(body(2, lines), [out, total], 2, (64, 1), seed)
    assert out[:3].tolist() == [128, 63, 7]
    assert total[0] == 2 * sum(range(64))


def nearest_float(value: Fraction, mode: str) -> float:
    """The float32 next to a number, toward zero ("rz") or down ("rm")."""
    near = np.float32(float(value))  # at most one float away
    candidates = [
        near,
        np.nextafter(near, np.float32(-np.inf)),
        np.nextafter(near, np.float32(np.inf)),
    ]
    if mode == "rz":
        fitting = [c for c in candidates if abs(Fraction(float(c))) <= abs(value)]
        return float(max(fitting, key=abs))
    return float(max(c for c in candidates if Fraction(float(c)) <= value))


@pytest.mark.parametrize("mode", ["rm", "rz"])
def test_rounding_in_a_direction(mode: str, rng: np.random.Generator) -> None:
    """libdevice reduces arguments with these."""
    a, b, c = rng.normal(size=(3, 256)).astype(np.float32)
    c[:64] = -(a[:64] * b[:64])
    c[64:128] *= np.float32(2.0**-40)
    out = np.zeros(256, np.float32)
    text = BodyText()
    values = ", ".join(
        [f"float {text.load(text.pointer(k, 'float'), '%x', 'i32')}" for k in range(3)]
    )
    result = text.emit(f"call float @llvm.nvvm.fma.{mode}.f({values})")
    text.store(result, text.pointer(3, "float"), "%x", "i32")
    run(text.finish(4), [a, b, c, out], 1, (256, 1))
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(out, [nearest_float(value, mode) for value in exact])


@pytest.mark.parametrize(
    "kind, width", [("i1", 1), ("half", 2), ("<4 x float>", 16), ("[3 x [2 x double]]", 48)]
)
def test_widths_of_types(kind: str, width: int) -> None:
    assert width_of(kind) == width


# Again, at the same time, with defects.


def test_a_second_run_compiles_nothing() -> None:
    x, out = numbers(1, 64), np.zeros((1, 64), np.float32)
    run(scan_body(64), [x, out], 1, (64, 1))
    before = runtime.spent()
    run(scan_body(64), [x, out], 1, (64, 1))
    assert runtime.spent() == before


def test_two_threads_of_python_run_one_body() -> None:
    x, text = numbers(8, 64), scan_body(64)
    results = [np.zeros_like(x) for _ in range(4)]
    workers = [
        threading.Thread(target=run, args=(text, [x, out], 8, (64, 1), k))
        for k, out in enumerate(results)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for out in results:
        np.testing.assert_array_equal(out, totals(x))
