"""FGRAD_CPU: code for a level of x86-64 has none of the instructions beyond it, and a name of its
own in the cache; what a processor lacks is refused."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys

import pytest

from fgrad.compile.cpu.kernels import asm_text
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.llvm.generator import host_target
from fgrad.compile.llvm.levels import LEVELS, level
from fgrad.compile.llvm.text import Target
from fgrad.compile.schedule.order import schedule
from fgrad.config import config
from fgrad.errors import ArgumentError

# A host that has everything, so that each level can be compiled for on any machine.
HOST = Target("x86_64-unknown-linux-gnu", "x86-64-v4", LEVELS["x86-64-v4"].replace(" ", ","))
BEYOND = {
    "x86-64-v2": r"%[yz]mm|\bv[a-z]+[ps][sd]\b",
    "x86-64-v3": r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])|%k[0-7]",
    "x86-64-v4": r"%tmm",
}
KERNEL = parse_kernel("""kernel k(x: in f32[1000], h: in f16[1000], y: out f32[1000])
  parallel i in 1000:
    %0 = load x[i]
    %1 = exp f32 %0
    %2 = load h[i]
    %3 = convert f32 %2
    %4 = mul f32 %1 %3
    store y[i] %4
""")
PROGRAM = """
import numpy as np
import fgrad
from fgrad.compile.llvm import runtime

def f(x, w, h):
    s = np.cumsum(x) + np.sort(x)[::-1]
    return np.exp(s / 99.0) @ w + np.sum(np.where(x > 0.5, h.astype(np.float64), np.floor(x * 9)))

rng = np.random.default_rng(0)
x, w, h = rng.random(999), rng.random((999, 7)), rng.random(999).astype(np.float16)
for _ in range(12):
    np.testing.assert_allclose(fgrad.jit(f)(x, w, h), f(x, w, h), rtol=1e-13)
g = fgrad.jit(fgrad.grad(lambda x: np.sum(f(x, w, h))))(x)
np.testing.assert_allclose(g, fgrad.grad(lambda x: np.sum(f(x, w, h)))(x), rtol=1e-12)
print(runtime.target().cpu, runtime.symbol("content"))
"""


def result_at(name: str) -> list[str]:
    """The processor and the name of some code, of a process that computed at this level."""
    env = {**os.environ, "FGRAD_CPU": name, "FGRAD_CHECK": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def is_here(name: str) -> bool:
    return set(LEVELS[name].split()) <= set(host_target().features.split(","))


@pytest.mark.parametrize("name", LEVELS)
def test_no_instruction_is_beyond_the_level(name: str) -> None:
    text = asm_text(schedule(KERNEL), level(name, HOST))
    assert not re.findall(BEYOND[name], text)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels are of x86-64")
def test_a_process_computes_at_its_level() -> None:
    names = [name for name in LEVELS if is_here(name)]
    found = [result_at(name) for name in names]
    assert [cpu for cpu, _ in found] == names
    assert len({symbol for _, symbol in [*found, result_at("native")]}) == len(names) + 1


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("x86-64-v5", HOST),
        ("x86-64-v4", level("x86-64-v3", HOST)),
        ("x86-64-v2", Target("aarch64-unknown-linux-gnu", "generic", "+neon")),
    ],
    ids=["unknown", "lower", "another"],
)
def test_what_is_not_there_is_refused(name: str, host: Target) -> None:
    with pytest.raises(ArgumentError, match=f"FGRAD_CPU={name}"):
        level(name, host)


def test_it_cannot_be_changed_later() -> None:
    with pytest.raises(AttributeError, match="before fgrad is imported"):
        config.cpu = "x86-64-v2"
