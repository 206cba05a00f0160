"""Traits: every primitive says what it is, and no pass asks for its name instead."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import load_primitives, python_files, relative, syntax_tree

from fgrad.ir.primitive import REGISTRY, Primitive, Refusal
from fgrad.ir.traits import Cost, Rounding, Traits

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
    if prim.commutative:
        assert prim.scalar is not None


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


@pytest.mark.parametrize("path", python_files("fgrad"), ids=relative)
def test_no_pass_asks_for_the_name_of_a_primitive(path: Path) -> None:
    lines = asks_for_names(syntax_tree(path))

    assert not lines, f"{relative(path)}: lines {lines}: ask for a trait, or use `is`"


def test_what_asks_for_names_is_found() -> None:
    source = """
def f(eqn, prim, table):
    if eqn.prim.name == "add" or prim.name in table:
        return table[eqn.prim.name]
    name, params = eqn.prim.name, eqn.params
    return name != "sub", table.get(name), f"{prim.name}"
"""
    assert asks_for_names(ast.parse(source)) == [3, 4, 6]
