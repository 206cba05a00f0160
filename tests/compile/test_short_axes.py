"""Nests of many short loops, as in arrays of shape (2, 2, 2, ...), are not written out whole."""

from __future__ import annotations

from fgrad.compile.kernel.ir import Loop
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.schedule.order import UNROLL_STATEMENTS, schedule

SUM_OVER_QUBITS = """
kernel sums(b0: in f64[1024], b1: in f64[1024], b2: out f64[4])
  parallel a0 in 2:
    parallel a1 in 2:
      acc s0 = add f64 0.0
      reduce a2 in 2:
        reduce a3 in 2:
          reduce a4 in 2:
            reduce a5 in 2:
              reduce a6 in 8:
                reduce a7 in 2:
                  %0 = load b0[2*a0 + 4*a2 + 64*a3 + 8*a4 + 32*a5 + 128*a6 + a7]
                  %1 = load b1[4*a1 + 64*a2 + 2*a3 + 32*a4 + 16*a5 + 128*a6 + a7]
                  %2 = mul f64 %0 %1
                  update s0 %2
      %3 = read s0
      store b2[2*a0 + a1] %3
"""


def statements(body: tuple[object, ...]) -> int:
    """How many statements are written out for a body."""
    return sum([max(s.unroll, 1) * statements(s.body) if isinstance(s, Loop) else 1 for s in body])


def test_nests_of_short_loops() -> None:
    kernel = schedule(parse_kernel(SUM_OVER_QUBITS))
    assert statements(kernel.body) <= 4 * UNROLL_STATEMENTS
