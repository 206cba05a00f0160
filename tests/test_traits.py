"""Traits: every primitive says what it is, and no pass asks for its name instead."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import load_primitives, python_files, relative, syntax_tree

import fgrad
from fgrad.errors import MissingRuleError
from fgrad.ir.primitive import REGISTRY, Primitive, Refusal
from fgrad.ir.traits import Cost, Holds, Rounding, Traits
from fgrad.tools.op import card
from fgrad.tools.pass_rules import PASS_RULES

load_primitives()
PRIMITIVES = sorted(REGISTRY.values(), key=lambda p: p.name)


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_trait_is_set_or_refused(prim: Primitive) -> None:
    for label, trait in zip(Traits._fields, prim.traits, strict=True):
        assert trait is not None, f"{prim.name}: {label}"
        if isinstance(trait, Refusal):
            assert trait.why


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_traits_agree_with_each_other(prim: Primitive) -> None:
    if prim.movement is not None:
        assert prim.cost is Cost.NOTHING and prim.fold is None and prim.holds is None
        assert prim.rounding is Rounding.COPIES or prim.movement.fills
    if prim.maps or prim.scalar:
        assert prim.elementwise
    if prim.fold is not None:
        assert {"axes", "axis"} & set(prim.params)
    if prim.holds is not None:
        assert {"program", "body", "branches"} & set(prim.params) and prim.multiple
    if prim.effect:
        assert prim.host is not None
    if prim.commutative or prim.operator:
        assert prim.scalar is not None
    if prim.finite:
        assert any(prim.maps)
    if prim.algorithm is not None or prim.flops_over_n3 is not None:
        assert isinstance(prim.traits.cost, Refusal)  # whole arrays, not elements
    assert (prim.holds is Holds.LOOP) == (prim.constants is not None)
    assert prim.constants is None or prim.constants in prim.params
    if prim.movement is not None:
        assert prim.addresses is not prim.movement.fixed


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_pass_has_a_rule_or_a_stated_default(prim: Primitive) -> None:
    for label, rule_of, default in PASS_RULES:
        assert rule_of(prim) is not None or default(prim), f"{prim.name}: pass {label}"


def test_cards_show_all_traits_and_passes() -> None:
    for name in ("sin", "permute", "reduce_sum", "scan", "cholesky", "io_callback", "barrier"):
        text = card(name)
        labels = [*Traits._fields, *[rule.label for rule in PASS_RULES], "laws", "effect"]
        assert not [label for label in labels if f"\n{label}: " not in text], name
        assert "missing" not in text


def _scanned(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fgrad.lax.scan(lambda c, _: (step(c), c), x, np.arange(3))[0]


HOLDERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "itself": lambda f: f,
    "jit": fgrad.jit,
    "checkpoint": fgrad.checkpoint,
    "scan": _scanned,
    "while": lambda f: lambda x: fgrad.lax.fori_loop(0, 2, lambda _, c: f(c), x),
    "cond": lambda f: lambda x: fgrad.lax.cond(np.True_, f, lambda y: y, x),
    "jit of scan": lambda f: fgrad.jit(_scanned(f)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_programs_are_linear_if_their_equations_are(holder: str) -> None:
    x = np.array([0.5, 1.0, 2.0])
    linear = HOLDERS[holder](lambda y: 3.0 * y - y[::-1])
    expected = fgrad.vjp(linear, x)[1](x)[0]
    np.testing.assert_allclose(fgrad.linear_transpose(linear, x)(x)[0], expected)
    for bent in (np.sin, lambda y: y * y, lambda y: np.floor(y)):
        with pytest.raises(MissingRuleError, match="is not linear"):
            fgrad.linear_transpose(HOLDERS[holder](bent), x)(x)


def test_a_custom_primitive_is_no_function_of_scipy() -> None:
    @fgrad.primitive(out=lambda x, s, g: x)
    def voigt_profile(x: Any, s: Any, g: Any) -> Any:
        return x + s + g

    x = np.ones(3)
    np.testing.assert_array_equal(fgrad.jit(lambda x: voigt_profile(x, x, x))(x), 3 * x)


def test_a_custom_primitive_takes_no_name_from_fgrad() -> None:
    """Neither from a module that is loaded later."""
    code = """if True:
        import numpy as np, fgrad
        @fgrad.primitive(out=lambda x: x)
        def lambertw(x):
            return x + 1
        import fgrad.scipy.special as special
        x = np.ones(3)
        print(fgrad.jit(lambertw)(x)[0], fgrad.jit(special.lambertw)(x)[0].real.round(3))
        """
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout.split() == ["2.0", "0.567"], shown.stderr


# --- no pass asks for names


def is_primitive_name(node: ast.AST) -> bool:
    """Whether an expression reads the name of a primitive."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Name) and owner.id in ("prim", "primitive")) or (
        isinstance(owner, ast.Attribute) and owner.attr == "prim"
    )


def bound_names(function: ast.AST) -> set[str]:
    """The local variables that are names of primitives."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                found |= {
                    t.id for t, v in pairs if isinstance(t, ast.Name) and is_primitive_name(v)
                }
    return found


def asks_for_names(tree: ast.Module) -> list[int]:
    """The lines that compare names of primitives, or look them up in tables."""
    found: set[int] = set()
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.Module)):
            continue
        local = bound_names(function) if isinstance(function, ast.FunctionDef) else set()

        def is_name(node: ast.AST, local: set[str] = local) -> bool:
            return is_primitive_name(node) or (isinstance(node, ast.Name) and node.id in local)

        for node in ast.walk(function):
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Subscript):
                parts = [node.slice]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                looks_up = node.func.attr in ("get", "startswith", "endswith", "pop")
                parts = [node.func.value, *node.args] if looks_up else []
            else:
                continue
            if any(map(is_name, parts)):
                found.add(node.lineno)
    return sorted(found)


# Tables from the names of primitives to those of the operators of another format.
TRANSLATORS = ("fgrad/interchange/onnx_writer.py", "fgrad/interchange/stablehlo_writer.py")


@pytest.mark.parametrize("path", python_files("fgrad"), ids=relative)
def test_no_pass_asks_for_the_name_of_a_primitive(path: Path) -> None:
    lines = asks_for_names(syntax_tree(path))

    assert not lines or relative(path) in TRANSLATORS, (
        f"{relative(path)}: lines {lines}: ask for a trait, or use `is`"
    )


BY_NAME = {
    "fgrad/ir/text.py": "the parser of printed programs",
    "fgrad/ir/primitive.py": "the table itself",
    "fgrad/tools/op.py": "the card of a name that the user gives",
    "fgrad/interchange/onnx_rules.py": "the names of operators of another format",
    "fgrad/interchange/stablehlo_rules.py": "the same",
}


@pytest.mark.parametrize("path", python_files("fgrad"), ids=relative)
def test_no_primitive_is_looked_up_by_name(path: Path) -> None:
    """`prims.convert` names one; a string is not checked by anybody."""
    lines = [
        node.lineno
        for node in ast.walk(syntax_tree(path))
        if (isinstance(node, ast.Subscript) and ast.unparse(node.value) == "REGISTRY")
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "REGISTRY.get")
    ]
    assert not lines or relative(path) in BY_NAME, f"{relative(path)}: lines {lines}"


# A pass has a table of rules, which functions are; what a primitive is stands in its block.
RULE_TABLES = {
    "fgrad/compile/passes/fold_sizes.py": ("_FUNCTIONS",),
    "fgrad/capture/limits.py": ("_RULES",),
    "fgrad/capture/windows.py": ("_LINEAR",),
    "fgrad/compile/host/control.py": ("_STEPS",),
    "fgrad/compile/loops/branches.py": ("LOOP_RULES",),
    "fgrad/compile/loops/components.py": ("_WITHOUT",),
    "fgrad/compile/loops/find_batch_axes.py": ("LANE_RULES",),
    "fgrad/compile/loops/linalg.py": ("LINALG_RULES",),
    "fgrad/compile/loops/rules.py": ("RULES",),
    "fgrad/compile/lower/groups.py": ("LIBRARY_STEPS",),
    "fgrad/compile/lower/linalg.py": ("NATIVE",),
    "fgrad/compile/lower/nest.py": ("NESTS",),
    "fgrad/compile/lower/rules.py": ("VALUE_RULES",),
    "fgrad/compile/lower/writes.py": ("_WRITERS",),
    "fgrad/compile/passes/complex_functions.py": ("FUNCTIONS",),
    "fgrad/compile/passes/compositions.py": ("EXPANSIONS",),
    "fgrad/compile/passes/inline.py": ("IDENTITIES",),
    "fgrad/compile/passes/legalize_complex.py": ("OTHERS", "RULES", "_ORDER"),
    "fgrad/compile/passes/ranges.py": ("_FITS", "_OF_EQUALS", "_RULES", "_TESTS"),
    "fgrad/compile/passes/simplify.py": ("EXACT", "FASTMATH"),
    "fgrad/compile/products/views.py": ("VIEWS",),
    "fgrad/compile/prompt/warned.py": ("_AGAIN", "_ALL", "_FIRST", "_OF_PROGRAMS", "_SILENT"),
    "fgrad/ops/linalg_compositions.py": ("COMPOSITIONS",),
    "fgrad/ops/varying.py": ("_RULES",),
    "fgrad/transforms/sparse/pattern.py": ("PATTERN_RULES",),
}


def is_primitive(node: ast.AST | None) -> bool:
    """Whether an expression is a primitive: `prims.sin`, `sin_p`, or of the table by its name."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "prims"
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) == "REGISTRY"
    return isinstance(node, ast.Name) and node.id.endswith("_p")


def tables_of_primitives(tree: ast.Module) -> list[str]:
    """The names of a module whose values hold primitives, as keys or as members."""
    found = []
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        inside = list(ast.walk(node.value))
        keys = [k for n in inside if isinstance(n, ast.Dict) for k in n.keys]
        members = [
            m for n in inside if isinstance(n, (ast.Set, ast.List, ast.Tuple)) for m in n.elts
        ]
        if any(map(is_primitive, [*keys, *members])):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(ast.unparse(target))
    return sorted(found)


@pytest.mark.parametrize("path", python_files("fgrad"), ids=relative)
def test_tables_of_primitives_hold_rules(path: Path) -> None:
    found = tables_of_primitives(syntax_tree(path))
    assert tuple(found) == RULE_TABLES.get(relative(path), ()), "is it a trait?"


def test_tables_of_primitives_are_found() -> None:
    source = """
MOVES = frozenset({prims.permute, prims.reshape})
COSTS = {prims.sin: 3}
PAIR = (scan_p, while_p)
NAMED = {REGISTRY["eig"]: 1}
sin = prims.sin
"""
    assert tables_of_primitives(ast.parse(source)) == ["COSTS", "MOVES", "NAMED", "PAIR"]


def test_what_asks_for_names_is_found() -> None:
    source = """
def f(eqn, prim, table):
    if eqn.prim.name == "add" or prim.name in table:
        return table[eqn.prim.name]
    name, params = eqn.prim.name, eqn.params
    return name != "sub", table.get(name), f"{prim.name}"
"""
    assert asks_for_names(ast.parse(source)) == [3, 4, 6]
