"""Command-line tools: cards of primitives, passes on text."""

from __future__ import annotations

import functools
import io

import numpy as np
import pytest

from fgrad.errors import CheckError
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.text import parse_program
from fgrad.ops import erf_gamma
from fgrad.tools import op, run
from fgrad.tools.source import source_of

op.load_primitives()
TEXT = """\
program f(a: f64[3]) -> (f64[3]):
  b: f64[3] = sin a
  c: f64[3] = sin a
  d: f64[3] = add b c
  e: f64[3] = neg d
  return d
"""


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_primitive_has_a_card(name):
    lines = op.card(name).splitlines()
    assert lines[0] == f"primitive {name}"
    for slot in ("type_rule", "evaluate", "jvp", "transpose", "batch"):
        assert any(line.startswith(f"{slot}: ") for line in lines)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if ".py:" in line and not line.startswith(" "):
            assert following.startswith("    "), f"no source text below {line!r}"


def test_card_of_sin():
    card = op.card("sin")
    for part in (
        "scalar     sin",
        "numpy.sin",
        "lambda t, x, out: mul(t, cos(x))",
        "transpose: refused, because it is not linear",
        "CPU row: fgrad/compile/llvm/",
        "lowering: fgrad/compile/lower/rules.py",
        "cost: function",
        "commutative: no",
        "movement: none, because it computes its results",
        "complex numbers as parts: fgrad/compile/passes/",
        "sparsity: by default, follows from its traits",
        "test row: tests/op_cases.py",
    ):
        assert part in card


def test_card_of_a_linear_primitive():
    card = op.card("permute")
    assert "linear in  all" in card and "transpose: fgrad/ops/shape.py:" in card


def test_lambdas_on_one_line():
    pair = (lambda x: x + 1.0, lambda x: x + 2.0)
    assert [source_of(f).text[-3:] for f in pair] == ["1.0", "2.0"]


def test_source_of_other_functions():
    assert source_of(np.sin) == ("compiled", "numpy.sin")
    partial = functools.partial(erf_gamma.trigamma)
    assert source_of(partial).text.startswith("def trigamma")


def test_op_command(capsys):
    assert op.main(["mul", "dot_general"]) == 0
    printed = capsys.readouterr().out
    assert "primitive mul" in printed and "primitive dot_general" in printed
    assert op.main(["sinn"]) == 1
    assert "similar: sin" in capsys.readouterr().out
    assert op.main(["--list"]) == 0
    assert capsys.readouterr().out.split() == sorted(REGISTRY)


def test_run_command(capsys, tmp_path):
    file = tmp_path / "program.txt"
    file.write_text(TEXT)
    assert run.main([str(file), "--passes", "cse,dce"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("= sin") == 1 and "neg" not in printed
    assert run.main([str(file), "--passes", "cse,dce", "--each"]) == 0
    printed = capsys.readouterr().out
    assert "# after cse" in printed and "# after dce" in printed and printed.count("neg") == 1
    assert run.main([str(file), "--passes", "nope"]) == 1
    assert "there is no pass 'nope'" in capsys.readouterr().err


def test_run_reads_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert run.main(["-"]) == 0
    assert "neg" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT.replace("sin", "sinn")))
    assert run.main(["-"]) == 1


def test_run_checks_programs():
    wrong = parse_program(TEXT.replace("d: f64[3]", "d: f64[4]"))
    with pytest.raises(CheckError):
        run.run_passes(wrong, ["dce"])
