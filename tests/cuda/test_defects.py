"""Defects planted into the launches of kernels are found by the emulator or by their results."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from defects import Mutant, mutants
from kernel_runs import arrays_of, run_calls

from fgrad.compile.kernel.text import parse_kernel
from fgrad.lower_cuda.emit.schedule import launches, schedule
from fgrad.lower_cuda.library.calls import Calls, KernelCall

TAIL = """kernel k(x: in f32[4099], y: out f32[4099])
  parallel i in 4099:
    %0 = load x[i]
    %1 = mul f32 %0 %0
    store y[i] %1
"""
SOFTMAX = """kernel k(x: in f32[6300], y: out f32[6300])
  parallel i in 9:
    acc m = max f32 -inf
    reduce j in 700:
      %0 = load x[700*i + j]
      update m %0
    %1 = read m
    acc s = add f32 0.0
    reduce j in 700:
      %2 = load x[700*i + j]
      %3 = sub f32 %2 %1
      %4 = exp f32 %3
      update s %4
    %5 = read s
    parallel j in 700:
      %6 = load x[700*i + j]
      %7 = sub f32 %6 %1
      %8 = exp f32 %7
      %9 = div f32 %8 %5
      store y[700*i + j] %9
"""
COLUMNS = """kernel k(x: in f32[2700], y: out f32[9])
  parallel j in 9:
    acc s = add f32 0.0
    reduce i in 300:
      %0 = load x[9*i + j]
      update s %0
    %1 = read s
    store y[j] %1
"""
TURNS = """kernel k(x: in f32[640], tmp: scratch f32[64], y: out f32[640])
  serial t in 10:
    parallel i in 64:
      %0 = load x[i + 64*t]
      store tmp[i] %0
    parallel j in 64:
      %1 = load tmp[-1*j + 63]
      store y[j + 64*t] %1
"""
TRANSPOSED = """kernel k(x: in f32[3500], y: out f32[3500])
  parallel i in 70:
    parallel j in 50:
      %0 = load x[70*j + i]
      store y[50*i + j] %0
"""
KERNELS = {
    "tail": TAIL,
    "softmax": SOFTMAX,
    "columns": COLUMNS,
    "turns": TURNS,
    "transposed": TRANSPOSED,
}
EACH_KIND = 9  # mutants of one kind that are run


def chosen(body: str) -> list[Mutant]:
    """Some mutants of each kind."""
    found = list(mutants(body))
    random.Random(1).shuffle(found)
    count: Counter[str] = Counter()
    kept = []
    for mutant in found:
        count[mutant.kind] += 1
        if count[mutant.kind] <= EACH_KIND:
            kept.append(mutant)
    return kept


def results(calls: Calls, arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    copies = [a.copy() for a in arrays]
    run_calls(calls, copies, random.Random(seed))
    return copies


def is_caught(calls: Calls, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    try:
        found = results(calls, arrays, 2)
    except Exception:
        return True
    return any([not np.array_equal(a, b) for a, b in zip(found, expected, strict=True)])


@pytest.mark.parametrize("name", KERNELS)
def test_planted_defects(name: str) -> None:
    kernel = parse_kernel(KERNELS[name])
    calls, arrays = launches(schedule(kernel)), arrays_of(kernel, 1)
    expected = results(calls, arrays, 2)
    missed = []
    for k, call in enumerate(calls.calls):
        assert isinstance(call, KernelCall)
        for mutant in chosen(call.body):
            broken = call._replace(body=mutant.body)
            changed = calls._replace(calls=(*calls.calls[:k], broken, *calls.calls[k + 1 :]))
            if not is_caught(changed, arrays, expected):
                missed.append((mutant.kind, mutant.line))
    # What is left harms nothing: a guard that sends more threads into the checked tail, or one of
    # rows of a tile that no tile of this size ends in.
    kinds = Counter([kind for kind, _ in missed])
    assert kinds["barrier"] == 0 and kinds["lane"] == 0, missed
    assert kinds["guard"] <= (6 if name == "transposed" else 1) and kinds["stride"] <= 1, missed
