"""float16 on x86 processors without the instructions F16C, and without AVX: the same bits."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_CODE = """
import sys, warnings
import llvmlite.binding as llvm
import numpy as np

missing = tuple(sys.argv[1].split(","))
features = llvm.get_host_cpu_features
llvm.get_host_cpu_features = lambda: type(features())(
    {name: on and not name.startswith(missing) for name, on in features().items()})

import fgrad

np.seterr(all="ignore")
every = np.arange(2**16, dtype=np.uint16).view(np.float16)

def same(a, b):
    return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)))

wide = fgrad.jit(lambda x: x.astype(np.float32))(every)
assert same(wide, every.astype(np.float32)), "widen"
above, below = [np.nextafter(wide, np.float32(limit)) for limit in (np.inf, 0)]
edges = np.concatenate([wide, above, below])
middle = (wide[:-1].astype(np.float64) + wide[1:]).astype(np.float32) / 2
bits = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32).view(np.float32)
for x in (edges, middle, np.nextafter(middle, np.float32(0)), bits):
    assert same(fgrad.jit(lambda x: x.astype(np.float16))(x), x.astype(np.float16)), "narrow"
    x = x.astype(np.float64)
    assert same(fgrad.jit(lambda x: x.astype(np.float16))(x), x.astype(np.float16)), "float64"
x = every[10:40]
assert same(fgrad.jit(lambda x: x * x + np.float16(1))(x), x * x + np.float16(1))
print("good")
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="F16C is of x86")
@pytest.mark.parametrize("missing", ["f16c,avx512", "f16c,avx,fma"])
def test_float16_without_its_instructions(missing: str) -> None:
    env = {**os.environ, "FGRAD_CACHE": "0", "FGRAD_CHECK": "1"}
    command = [sys.executable, "-c", _CODE, missing]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "good", done.stderr
