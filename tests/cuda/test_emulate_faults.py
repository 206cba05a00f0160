"""What the emulator must find wrong: waits that nobody answers, accesses outside, races, no end."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_bodies import BLOCK_WAIT, ORDERS, WARP_WAIT, body, put, refuses, run, words
from emulator.run import Emulated

from fgrad.errors import CheckError

BRANCH = "  %c = icmp slt i32 %x, 40\n  br i1 %c, label %a, label %b\na:\n"


def test_threads_that_end_before_a_barrier() -> None:
    text = body(0, BRANCH + "  call void @llvm.nvvm.barrier0()\n  br label %b\nb:")
    refuses(text, [], 64, "others of the block have ended")


def test_different_barriers() -> None:
    lines = "  call void @llvm.nvvm.barrier0()\n  br label %e\n"
    refuses(body(0, f"{BRANCH}{lines}b:\n{lines}e:"), [], 64, "different barriers")


def test_lanes_that_do_not_come() -> None:
    warp, block = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n", f"  {BLOCK_WAIT}\n"
    text = body(0, f"{BRANCH}{warp}  br label %e\nb:\n{block}  br label %e\ne:")
    refuses(text, [], 64, "do not come")


def test_a_lane_outside_of_its_mask() -> None:
    refuses(body(0, "  call void @llvm.nvvm.bar.warp.sync(i32 1)"), [], 32, "without being one")


@pytest.mark.parametrize("index", ["-1", "32", "1000000"])
def test_an_index_outside_of_the_array(index: str) -> None:
    lines = f"  %far = icmp eq i32 %x, 31\n  %i = select i1 %far, i32 {index}, i32 %x\n"
    refuses(body(1, lines + put("%x", "%i")), [words()], 32, "outside of the arrays")


def test_an_index_outside_of_shared_memory() -> None:
    lines = """
  %s = getelementptr [32 x float], [32 x float] addrspace(3)* @s, i32 0, i32 %x
  store float 0.0, float addrspace(3)* %s"""
    shared = "@s = internal addrspace(3) global [32 x float] undef, align 16"
    run(body(0, lines, shared), [], 1, (32, 1))
    refuses(body(0, lines, shared), [], 33, "outside of the arrays")


def test_a_vector_that_is_not_aligned() -> None:
    lines = """
  %q = getelementptr i32, i32 addrspace(1)* %a0, i32 1
  %v = bitcast i32 addrspace(1)* %q to <4 x i32> addrspace(1)*
  store <4 x i32> zeroinitializer, <4 x i32> addrspace(1)* %v, align 16"""
    refuses(body(1, lines), [words()], 1, "not aligned")


def test_two_threads_that_write_one_element() -> None:
    lines = "  %half = lshr i32 %x, 1\n"
    refuses(body(1, lines + put("%x", "%half")), [words()], 32, "Two threads touch")


def test_two_blocks_that_write_one_element() -> None:
    with pytest.raises(CheckError, match="Two threads touch"):
        run(body(1, put("%block")), [words()], 2)


EXCHANGE = """
  %own = getelementptr [64 x i32], [64 x i32] addrspace(3)* @s, i32 0, i32 %x
  store i32 %x, i32 addrspace(3)* %own
  {wait}
  %o = xor i32 %x, {step}
  %other = getelementptr [64 x i32], [64 x i32] addrspace(3)* @s, i32 0, i32 %o
  %v = load i32, i32 addrspace(3)* %other
"""
SHARED = "@s = internal addrspace(3) global [64 x i32] undef, align 16"


@pytest.mark.parametrize("step, wait", [(1, BLOCK_WAIT), (32, BLOCK_WAIT), (1, WARP_WAIT)])
def test_an_exchange_in_shared_memory(step: int, wait: str) -> None:
    out = words(64)
    run(body(1, EXCHANGE.format(step=step, wait=wait) + put("%v"), SHARED), [out], 1, (64, 1), 4)
    np.testing.assert_array_equal(out, np.arange(64) ^ step)


@pytest.mark.parametrize("step, wait", [(1, ""), (32, ""), (32, WARP_WAIT)])
def test_an_exchange_without_the_barrier_that_it_needs(step: int, wait: str) -> None:
    text = body(1, EXCHANGE.format(step=step, wait=wait) + put("%v"), SHARED)
    refuses(text, [words(64)], 64, "Two threads touch")


def test_shared_memory_begins_as_nan() -> None:
    out = np.zeros(32, np.float32)
    lines = """
  %s = getelementptr [64 x i32], [64 x i32] addrspace(3)* @s, i32 0, i32 %x
  %v = load i32, i32 addrspace(3)* %s
"""
    run(body(1, lines + put("%v"), SHARED), [out], 1)
    assert np.isnan(out).all()


def test_a_wrong_number_of_arrays() -> None:
    with pytest.raises(CheckError, match="1 arrays was given 0"):
        Emulated(body(1, put("%x")), 1).run(1, (1, 1), [])


@pytest.mark.parametrize("name", ["no.such.thing", "floor", "shfl.sync.left.i32"])
def test_an_unknown_instruction(name: str) -> None:
    text = body(1, f"  %v = call i32 @llvm.nvvm.{name}(i32 %x)\n" + put("%v"))
    with pytest.raises(CheckError, match=name.replace(".", r"\.")):
        run(text, [words()])


PLUS = {
    "integer": "  %old = atomicrmw add i32 addrspace(1)* %a0, i32 1 seq_cst\n",
    "float": """  %f = bitcast i32 addrspace(1)* %a0 to float addrspace(1)*
  %old = call float @llvm.nvvm.atomic.load.add.f32.p1f32(float addrspace(1)* %f, float 1.0)
""",
    "plain": """  %v = load i32, i32 addrspace(1)* %a0
  %w = add i32 %v, 1
  store i32 %w, i32 addrspace(1)* %a0
""",
}


@pytest.mark.parametrize("blocks", [False, True], ids=["threads", "blocks"])
@pytest.mark.parametrize("kind", PLUS)
def test_sums_that_meet_are_atomic(kind: str, blocks: bool) -> None:
    """Of threads of a block, or of one thread in each block."""
    out, threads = words(1), 1 if blocks else 64
    for seed in ORDERS:
        if kind == "plain":
            with pytest.raises(CheckError, match="Two threads touch"):
                run(body(1, PLUS[kind]), [out], 64 // threads, (threads, 1), seed)
        else:
            out[:] = 0
            run(body(1, PLUS[kind]), [out], 64 // threads, (threads, 1), seed)
            assert out[0] == 64 or out.view(np.float32)[0] == 64


@pytest.mark.parametrize("kind", ["integer", "float"])
@pytest.mark.parametrize(
    "other", ["  %v = load i32, i32 addrspace(1)* %a0\n", put("7", "0")], ids=["load", "store"]
)
def test_atomic_and_plain_accesses_of_one_element(kind: str, other: str) -> None:
    """They race, whoever comes first, unless a barrier is between them."""
    lines = f"""  %last = icmp eq i32 %x, 63
  br i1 %last, label %plain, label %atomic
plain:
{other}  br label %end
atomic:
{PLUS[kind]}  br label %end
end:"""
    refuses(body(1, lines), [words(1)], 64, "Two threads touch")
    waits = f"""{PLUS[kind]}  call void @llvm.nvvm.barrier0()
  %last = icmp eq i32 %x, 63
  br i1 %last, label %plain, label %end
plain:
{other}  br label %end
end:"""
    for seed in ORDERS:
        run(body(1, waits), [words(1)], 1, (64, 1), seed)


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_an_atomic_operation_outside_of_the_array(kind: str) -> None:
    lines = "  %far = getelementptr i32, i32 addrspace(1)* %a0, i32 1\n"
    refuses(body(1, lines + PLUS[kind].replace("%a0", "%far")), [words(1)], 1, "outside")


def loop(condition: str, inside: str = "") -> str:
    """Lines that count %k while a condition holds."""
    return f"""  br label %head
head:
  %k = phi i32 [ 0, %entry ], [ %k.next, %head ]
  %k.next = add i32 %k, 1
{inside}  %more = {condition}
  br i1 %more, label %head, label %end
end:
"""


@pytest.mark.parametrize("inside", ["", f"  {BLOCK_WAIT}\n"], ids=["alone", "waiting"])
def test_a_loop_that_ends(inside: str) -> None:
    out = words()
    run(body(1, loop("icmp slt i32 %k.next, 100", inside) + put("%k")), [out])
    np.testing.assert_array_equal(out, 99)


@pytest.mark.parametrize("ends", ["", f"  {BLOCK_WAIT}\n"], ids=["of a loop", "by turns"])
def test_a_thread_that_does_not_end(ends: str) -> None:
    """It is named; other threads and a later run are as before."""
    text = body(1, loop("icmp ne i32 %x, 5") + ends)
    for _ in range(2):
        with pytest.raises(CheckError, match="more than 1000 times") as caught:
            emulate(text, words(), 1000)
        assert "block 0, thread 0: br i1 %more, label %head" in str(caught.value)


@pytest.mark.parametrize("wait", [BLOCK_WAIT, WARP_WAIT])
def test_threads_that_wait_for_each_other_without_end(wait: str) -> None:
    text = body(1, loop("icmp sge i32 %k, 0", f"  {wait}\n"))
    with pytest.raises(CheckError, match="have waited 98 times and go on"):
        emulate(text, words(), 100_000)


def emulate(text: str, out: np.ndarray, steps: int) -> None:
    """Run one block of a body that may make so many steps."""
    place = out.ctypes.data
    Emulated(text, 1).run(1, (32, 1), [place], bounds=[(place, out.nbytes)], steps=steps)
