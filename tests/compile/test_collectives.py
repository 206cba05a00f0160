"""Collectives in programs of ranks: kept in their order, joined where they are small."""

from __future__ import annotations

import pytest
from pass_cases import Pass, assert_becomes, body

from fgrad.compile.fuse.partition import fuse
from fgrad.compile.passes.collectives import SMALL, collectives
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.ir.text import equal_programs, parse_program
from fgrad.ir.walk import communicates
from fgrad.ops import collectives as _  # noqa: F401 - defines the primitives that texts name

D = "axis='data' places=2"


def test_sums_that_do_not_depend_on_each_other_are_one() -> None:
    before = body(
        "a: f64[3], b: f64[2,2]", "f64[3], f64[2,2], f64[3]",
        f"c: f64[3] = psum[{D}] a",
        "d: f64[2,2] = sin b",
        f"e: f64[2,2] = psum[{D}] d",
        "g: f64[3] = sin c",
        f"h: f64[3] = psum[{D}] g",
        "c e h",
    )  # fmt: skip
    after = body(
        "a: f64[3], b: f64[2,2]", "f64[3], f64[2,2], f64[3]",
        "d: f64[2,2] = sin b",
        "i: f64[3] = reshape[shape=(3,)] a",
        "j: f64[4] = reshape[shape=(4,)] d",
        "k: f64[7] = concatenate[axis=0] i j",
        f"l: f64[7] = psum[{D}] k",
        "m: f64[3] = slice[start=(0,) stop=(3,) step=(1,)] l",
        "c: f64[3] = reshape[shape=(3,)] m",
        "n: f64[4] = slice[start=(3,) stop=(7,) step=(1,)] l",
        "e: f64[2,2] = reshape[shape=(2, 2)] n",
        "g: f64[3] = sin c",
        f"h: f64[3] = psum[{D}] g",
        "c e h",
    )  # fmt: skip
    assert_becomes(collectives, before, after)


APART = {
    "axes": ("f64[3]", "f64[3]", "axis='data' places=2", "axis='model' places=2"),
    "dtypes": ("f64[3]", "f32[3]", D, D),
    "large": (f"f64[{SMALL // 8 + 1}]", f"f64[{SMALL // 8 + 1}]", D, D),
    "empty": ("f64[0]", "f64[0]", D, D),
}


@pytest.mark.parametrize("name", APART)
def test_sums_that_stay_apart(name: str) -> None:
    one, two, first, second = APART[name]
    text = body(
        f"a: {one}, b: {two}", f"{one}, {two}",
        f"c: {one} = psum[{first}] a", f"d: {two} = psum[{second}] b", "c d",
    )  # fmt: skip
    assert_becomes(collectives, text, text)


def test_extrema_are_gathered() -> None:
    before = body("a: f64[3]", "f64[3]", f"b: f64[3] = pmax[{D}] a", "b")
    after = body(
        "a: f64[3]", "f64[3]",
        f"b: f64[2,3] = all_gather[{D}] a",
        "c: f64[3] = reduce_max[axes=(0,)] b",
        "d: f64[3] = reshape[shape=(3,)] c",
        "d",
    )  # fmt: skip
    assert_becomes(collectives, before, after)


def test_what_is_summed_along_axes_is_summed_before_it_is_sent() -> None:
    """But not where others read it."""
    before = body(
        "a: f64[5,3], b: f64[5,3]", "f64[3], f64[3], f64[5,3]",
        f"c: f64[5,3] = psum[{D}] a",
        "d: f64[5,3] = psum[axis='model' places=2] b",
        "e: f64[3] = reduce_sum[axes=(0,)] c",
        "g: f64[3] = reduce_sum[axes=(0,)] d",
        "e g d",
    )  # fmt: skip
    after = body(
        "a: f64[5,3], b: f64[5,3]", "f64[3], f64[3], f64[5,3]",
        "c: f64[3] = reduce_sum[axes=(0,)] a",
        f"e: f64[3] = psum[{D}] c",
        "d: f64[5,3] = psum[axis='model' places=2] b",
        "g: f64[3] = reduce_sum[axes=(0,)] d",
        "e g d",
    )  # fmt: skip
    assert_becomes(collectives, before, after)


@pytest.mark.parametrize(
    ("dtype", "wide"), [("f16", "f32"), ("i16", "i32"), ("u8", "i32"), ("i8", "i32")]
)
@pytest.mark.parametrize("prim", ["psum", "psum_scatter"])
def test_sums_of_few_bits_are_of_32(dtype: str, wide: str, prim: str) -> None:
    out = "[2,3]" if prim == "psum" else "[3]"
    before = body(f"a: {dtype}[2,3]", f"{dtype}{out}", f"b: {dtype}{out} = {prim}[{D}] a", "b")
    after = body(
        f"a: {dtype}[2,3]", f"{dtype}{out}",
        f"b: {wide}[2,3] = convert[dtype={wide}] a",
        f"c: {wide}{out} = {prim}[{D}] b",
        f"d: {dtype}{out} = convert[dtype={dtype}] c",
        "d",
    )  # fmt: skip
    assert_becomes(collectives, before, after)


# Two equal sums, and one that nobody reads: other ranks may read it.
KEPT = body(
    "a: f64[3]", "f64[3], f64[3]",
    f"b: f64[3] = psum[{D}] a", f"c: f64[3] = psum[{D}] a", f"d: f64[3] = psum[{D}] c", "b c",
)  # fmt: skip


@pytest.mark.parametrize("rewrite", [cse, dce, fold])
def test_collectives_are_neither_merged_nor_dropped(rewrite: Pass) -> None:
    program = parse_program(KEPT)
    assert equal_programs(rewrite(program), program)


def test_collectives_of_constants_are_not_evaluated() -> None:
    text = body("", "f64[]", f"a: f64[] = psum[{D}] 1.0", f"b: f64[] = psum[{D}] a", "b")
    program = parse_program(text)
    assert equal_programs(fold(program), program)


def test_groups_keep_the_order_of_collectives() -> None:
    text = body(
        "a: f64[3], b: f64[4096]", "f64[3], f64[4096], f64[2,3]",
        "c: f64[4096] = sin b", "d: f64[4096] = exp c", f"e: f64[4096] = psum[{D}] d",
        f"g: f64[3] = psum[{D}] a", f"h: f64[2,3] = all_gather[{D}] a", "g e h",
    )  # fmt: skip
    groups = fuse(parse_program(text)).groups
    met = [e.outputs[0].aval.shape for g in groups for e in g.eqns if communicates(e)]
    assert met == [(4096,), (3,), (2, 3)]
