"""Kernel text and checks: every invariant refuses a kernel that breaks it."""

from __future__ import annotations

import pytest

from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.text import canonical, parse_kernel, print_kernel
from fgrad.errors import CheckError

GOOD = """kernel k(x: in f32[6], n: in i64[2], y: inout f32[8], t: scratch f32[3])
  %9 = const f32 -inf
  acc s = add f32 0.0
  acc c = carry f32 %9
  reduce i in 6 lanes 4 unroll 2:
    %0 = load x[i]
    %1 = sin f32 %0
    update s %1
  serial t in 2:
    %2 = load n[t]
    %3 = const i64 3
    %4 = lt bool %2 %3
    %5 = load x[3 + -1*t + 2*%2] if %4 else -1.5
    store y[t] add= %5
    store y[2*%2] %5 if %4
    update c %5
  %6 = read s
  parallel j in 3:
    %7 = index f32 1 + 2*j
    %8 = add f32 %7 %6
    store y[2 + 2*j] %8
"""
BROKEN = {
    "K1: %7 is not in scope": ("load x[i]\n", "load x[i]\n    %20 = neg f32 %7\n"),
    "K1: %1 is defined twice": ("%6 = read s", "%1 = read s"),
    "K1: axis t is not in scope": ("store y[2 + 2*j] %8", "store y[t] %8"),
    "K1: no buffer z": ("load x[i]", "load z[i]"),
    "K1: x is read only": ("store y[2 + 2*j] %8", "store x[2*j] %8"),
    "K1: axis i is in use": ("%0 = load x[i]", "serial i in 1:\n      %0 = load x[0]"),
    "K1: accumulator s is live": ("acc c = carry f32 %9", "acc s = mul f32 1.0"),
    "K2: index [1, 6] leaves x[6]": ("load x[i]", "load x[1 + i]"),
    "K2: index [-1, 4] leaves x[6]": ("load x[i]", "load x[-1 + i]"),
    "K3: unknown operation sinus": ("sin f32", "sinus f32"),
    "K3: sin gives float32": ("%1 = sin f32", "%1 = sin f64"),
    "K3: sin takes 1 operands": ("sin f32 %0", "sin f32 %0 %0"),
    "K3: predicate %9 is not bool": ("if %4 else", "if %9 else"),
    "K3: indirect index %9": ("2*%2] if %4 else", "2*%9] if %4 else"),
    "K3: update of s": ("update s %1", "update s %1\n    %30 = const f64 1.0\n    update s %30"),
    "K3: operands of lt differ": ("lt bool %2 %3", "lt bool %2 %9"),
    "K3: no accumulator carry of bool": ("acc c = carry f32 %9", "acc q = div f32 0.0"),
    "K5: all iterations of j": ("store y[2 + 2*j] %8", "store y[2] %8"),
    "K6: accumulator q is not live": ("%6 = read s", "%6 = read q"),
    "K6: s is updated from a parallel": ("store y[2 + 2*j] %8", "update s %8\n    store y[j] %8"),
    "K6: carry c is updated from a reduce": ("update s %1", "update s %1\n    update c %1"),
}


def test_text_round_trip() -> None:
    kernel = parse_kernel(GOOD)
    assert print_kernel(kernel) == GOOD
    assert parse_kernel(print_kernel(kernel)) == kernel
    check_kernel(kernel)


def test_canonical_text_forgets_names() -> None:
    renamed = GOOD.replace("x:", "image:").replace("x[", "image[").replace(" i ", " row ")
    renamed = renamed.replace("[i]", "[row]").replace("%1", "%77")
    first, second = (print_kernel(canonical(parse_kernel(t))) for t in (GOOD, renamed))
    assert first == second
    assert print_kernel(canonical(parse_kernel(first))) == first


@pytest.mark.parametrize("why", BROKEN)
def test_broken_kernels(why: str) -> None:
    old, new = BROKEN[why]
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new)
    if "serial i in 1" in new:
        text = text.replace("    %1 = sin f32 %0\n", "      %1 = sin f32 %0\n")
        text = text.replace("    update s %1\n", "      update s %1\n")
    expected = "K3: no accumulator div" if "div f32 0.0" in new else why
    with pytest.raises(CheckError) as caught:
        check_kernel(parse_kernel(text))
    assert str(caught.value).startswith(expected)


def test_an_output_must_be_stored() -> None:
    with pytest.raises(CheckError, match="K4"):
        check_kernel(parse_kernel("kernel k(y: out f32[1])\n"))
    check_kernel(parse_kernel("kernel k(y: out f32[0])\n"))


def test_overlapping_parallel_stores() -> None:
    text = """kernel k(y: out f32[20])
  %0 = const f32 1.0
  parallel i in 5:
    parallel j in 4:
      store y[STRIDE*i + j] %0
"""
    check_kernel(parse_kernel(text.replace("STRIDE", "4")))
    with pytest.raises(CheckError, match="K5"):
        check_kernel(parse_kernel(text.replace("STRIDE", "3")))


def test_vector_loops_nest_only_as_tiles() -> None:
    text = """kernel k(x: in f32[64], y: out f32[64])
  parallel i in 8 lanes 4:
    parallel j in 8 lanes 4:
      %0 = load x[8*i + j]
      store y[i + 8*j] %0
"""
    check_kernel(parse_kernel(text))
    with pytest.raises(CheckError, match="K1"):
        check_kernel(
            parse_kernel(text.replace("  parallel j", "  %9 = const f32 0.0\n    parallel j"))
        )
