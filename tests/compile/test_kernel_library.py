"""Library steps and host programs: products, callbacks, loops and branches over buffers."""

from __future__ import annotations

import ctypes
import itertools
import threading

import numpy as np
import pytest

import fgrad.compile.host.program as host
from fgrad.compile.cpu.kernels import build_kernel, kernel_call
from fgrad.compile.cpu.library import pieces, product_code
from fgrad.compile.host.program import (
    Advance,
    Branch,
    Call,
    Callback,
    Copy,
    Fill,
    HostProgram,
    PointAt,
    Repeat,
    Share,
    Swap,
    While,
)
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.schedule.order import schedule
from fgrad.compile.tasks.routines import Gemm, gemm_spec
from fgrad.config import config

SHAPES = [(3, 4, 5), (1, 4, 3), (4, 1, 3), (1, 1, 7), (0, 3, 2), (2, 3, 0), (2, 1, 0), (17, 33, 65)]
SHAPES += [(6, 6, 6), (3, 20, 2), (2, 2, 16), (130, 40, 70), (20, 150, 33)]


def multiply(spec: Gemm, arrays: list[np.ndarray]) -> None:
    """Run a product on arrays."""
    address, table = product_code(spec)
    run(address, pieces(spec).count, [*arrays, np.array(table, np.int64)])


def run(address: int, batch: int, arrays: list[np.ndarray]) -> None:
    """Run one step on arrays."""
    program = HostProgram([Call(address, 0, batch, tuple(range(len(arrays))))], len(arrays))
    program.run([a.ctypes.data for a in arrays])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("code", "fd")
def test_gemm(shape: tuple[int, int, int], code: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + 10 * n + 100 * k)
    dtype = np.dtype(code)
    for ta, tb, batch in itertools.product([False, True], [False, True], [1, 3]):
        a = rng.standard_normal((batch, k, m) if ta else (batch, m, k)).astype(dtype)
        b = rng.standard_normal((batch, n, k) if tb else (batch, k, n)).astype(dtype)
        c = np.full((batch, m, n), np.nan, dtype)
        left, right = (a.swapaxes(1, 2) if ta else a), (b.swapaxes(1, 2) if tb else b)
        spec = gemm_spec(dtype, m, n, k, batch, trans_a=ta, trans_b=tb)
        multiply(spec, [a, b, c])
        np.testing.assert_allclose(c, left @ right, 1e-4, 1e-4)


def test_gemm_strides_and_leading_dimensions() -> None:
    """Blocks of larger matrices, and one matrix for a whole batch."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 8, 9)), rng.standard_normal((6, 7))
    c = np.zeros((5, 8, 7))
    spec = gemm_spec(a.dtype, 3, 4, 6, 5, 9, 7, 7, stride_a=72, stride_b=0, stride_c=56)
    multiply(spec, [a, b, c])
    np.testing.assert_allclose(c[:, :3, :4], a[:, :3, :6] @ b[:, :4])
    assert not c[:, 3:].any() and not c[:, :, 4:].any()


def counter(cell: int) -> None:
    """Add 1 to the double at an address."""
    ctypes.c_double.from_address(cell).value += 1


def test_nested_repeats_and_places() -> None:
    cells = np.zeros(4)
    step = Callback(counter, 1)
    inner = Repeat(3, (Call(step.address, 0, 1, (1,)), Advance(1, 8)))
    program = HostProgram([Repeat(2, (PointAt(1, 0, 8), inner)), Repeat(0, (inner,))], 1, [step])
    program.run([cells.ctypes.data])
    assert cells.tolist() == [0, 2, 2, 2]
    program.run([cells.ctypes.data])
    assert cells.tolist() == [0, 4, 4, 4]


def test_while_swap_copy_fill() -> None:
    a, b, flag = np.zeros(1), np.full(1, 10.0), np.zeros(1, np.uint8)
    step = Callback(counter, 1)

    def below(x: int, y: int, out: int) -> None:
        smaller = ctypes.c_double.from_address(x).value < ctypes.c_double.from_address(y).value
        ctypes.c_uint8.from_address(out).value = smaller

    test = Callback(below, 3)
    loop = While((Call(test.address, 0, 1, (0, 1, 2)),), 2, (Call(step.address, 0, 1, (0,)),))
    steps = [loop, Swap(0, 1), Copy(0, 1, 8), Fill(1, 8)]
    HostProgram(steps, 3, [step, test]).run([x.ctypes.data for x in (a, b, flag)])
    assert (a[0], b[0]) == (0, 10)


def test_first_runs_are_walked_as_the_interpreter_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short programs run once without the interpreter: every kind of step does the same there."""
    asked: list[int] = []
    address = host.interpreter_address
    monkeypatch.setattr(host, "interpreter_address", lambda: asked.append(1) or address())
    step = Callback(counter, 1)
    steps = [Call(step.address, 0, 1, (0,)), PointAt(3, 1, 8), Share(step.address, 0, 1, 1, (3,))]
    steps += [Swap(0, 1), Copy(2, 1, 8), Advance(2, 8), Fill(2, 8), Fill(3, 1, 64)]
    program = HostProgram(steps, 3, [step])
    results = []
    for _ in range(3):
        arrays = [np.ones(1), np.ones(2), np.ones(2)]
        program.run([x.ctypes.data for x in arrays])
        results.append(np.concatenate(arrays).tolist())
        assert bool(asked) == (len(results) > 1)
    assert results[0] == results[1] == results[2]
    assert results[0][0] == 2 and results[0][3:] == [2, 0]


@pytest.mark.parametrize(("index", "expected"), [(-3, 1), (0, 1), (1, 2), (2, 0), (9, 0)])
def test_branch(index: int, expected: int) -> None:
    cell, choice = np.zeros(1), np.array([index])
    step = Callback(counter, 1)
    call = Call(step.address, 0, 1, (0,))
    program = HostProgram([Branch(1, ((call,), (call, call), ()))], 2, [step])
    program.run([cell.ctypes.data, choice.ctypes.data])
    assert cell[0] == expected


def test_callback_error_is_raised_after_the_run() -> None:
    def fail(cell: int) -> None:
        raise ValueError("no")

    cells = np.zeros(1)
    steps = [Callback(fail, 1), Callback(counter, 1)]
    program = HostProgram([Call(s.address, 0, 1, (0,)) for s in steps], 1, steps)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            program.run([cells.ctypes.data])
    assert cells[0] == 2


def test_long_kernels_are_shared_among_threads() -> None:
    """Any split of the range gives the same result, also from several threads at once."""
    count = 1 << 20
    text = f"""kernel k(x: in f32[{count}], y: out f32[{count}])
  parallel i in {count}:
    %0 = load x[i]
    %1 = exp f32 %0
    store y[i] %1
"""
    kernel = schedule(parse_kernel(text))
    with config.override(num_threads=3):
        step = kernel_call(kernel, build_kernel(kernel), (0, 1))
        assert isinstance(step, Share) and step.chunk % 16 == 0
        program = HostProgram([step], 2)
    single = HostProgram([Call(step.address, 0, count, (0, 1))], 2)
    x = np.linspace(-5, 5, count, dtype="f4")
    expected = np.zeros_like(x)
    single.run([x.ctypes.data, expected.ctypes.data])

    def check() -> None:
        for _ in range(5):
            y = np.zeros_like(x)
            program.run([x.ctypes.data, y.ctypes.data])
            equal.append(bool(np.array_equal(y, expected)))

    equal: list[bool] = []
    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 15
    short = kernel._replace(body=kernel.body[:-1])
    assert isinstance(kernel_call(short, 0, (0, 1)), Call)
