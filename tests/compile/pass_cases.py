"""What the tests of passes share: text before, a pass, text after."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.jit import call  # noqa: F401 - defines the primitive that texts name
from fgrad.compile.passes.dce import dce
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import equal_programs, parse_program, print_program
from fgrad.ops import dot, elementwise, index, reduce, shape, window  # noqa: F401 - same

Pass = Callable[[Program], Program]


def assert_becomes(rewrite: Pass, before: str, after: str) -> None:
    """The pass, followed by dce, turns one text into the other; both are checked."""
    program = parse_program(before)
    check_program(program)
    result = dce(rewrite(program))
    check_program(result)
    expected = parse_program(after)
    assert equal_programs(result, expected), print_program(result)


def body(inputs: str, outputs: str, *lines: str) -> str:
    """The text of a program whose last line says what is returned."""
    *eqns, last = lines
    shown = "".join(f"  {line}\n" for line in eqns)
    return f"program f({inputs}) -> ({outputs}):\n{shown}  return {last}\n"
