"""Functions that a lower layer calls and a higher one provides: each is declared by its name."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sources import MODULES, syntax_tree

from fgrad.base.provided import Provided
from fgrad.errors import CheckError


def assigned(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """The names that a module sets by statements of its own, and their values."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found += [(t.id, node.value) for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found.append((node.target.id, node.value))
    return found


DECLARED = [
    (module, name)
    for module, path in MODULES.items()
    for name, value in assigned(syntax_tree(path))
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "Provided"
]


@pytest.mark.parametrize(("module", "name"), DECLARED)
def test_what_is_declared_is_provided(module: str, name: str) -> None:
    provided = getattr(importlib.import_module(module), name)
    owner, _, function = provided.name.rpartition(".")
    importlib.import_module("fgrad.numpy")  # some are provided when its tables are filled
    found = getattr(importlib.import_module(owner), function)
    assert provided.provided
    assert provided.call is found


def declared() -> Provided[Callable[[int], int]]:
    return Provided(f"{__name__}.successor")


def successor(x: int) -> int:
    return x + 1


def test_a_provided_function_is_called() -> None:
    slot = declared()
    assert not slot.provided
    slot.provide(successor)
    assert slot.provided
    assert slot.call(1) == 2


def test_the_first_call_loads_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "provider_of_twice.py").write_text(PROVIDER)
    monkeypatch.syspath_prepend(tmp_path)
    slot: Provided[Callable[[int], int]] = Provided("provider_of_twice.twice")
    monkeypatch.setattr(sys.modules[__name__], "SLOT", slot)
    assert slot.call(3) == slot.call(3) == 6
    assert slot.provided
    monkeypatch.delitem(sys.modules, "provider_of_twice")


SLOT: object = None
PROVIDER = f"""
import {__name__}

def twice(x):
    return 2 * x

{__name__}.SLOT.provide(twice)
"""


def test_a_module_that_does_not_provide_it_is_named() -> None:
    slot = declared()
    with pytest.raises(CheckError, match=rf"{__name__} is imported and does not provide"):
        slot.call(1)


def test_another_provider_is_refused() -> None:
    slot = declared()
    slot.provide(successor)
    with pytest.raises(CheckError, match="is provided where"):
        slot.provide(declared)  # type: ignore[arg-type]
    assert slot.call is successor


def test_a_module_that_runs_again_provides_its_function_anew() -> None:
    slot = declared()
    made = []
    for _ in range(2):
        space: dict[str, Callable[[int], int]] = {"__name__": __name__}  # type: ignore[dict-item]
        exec("def successor(x): return x + 1", space)
        slot.provide(space["successor"])
        made.append(space["successor"])
    assert slot.call is made[1]
    assert made[0] is not made[1]


# No lists in the place of it.


def lists_of(tree: ast.Module) -> set[str]:
    """The names of the lists of a module."""
    return {
        name
        for name, value in assigned(tree)
        if isinstance(value, ast.List) or ast.unparse(value).startswith("list(")
    }


def one_element_hooks(tree: ast.Module, lists: set[str]) -> list[str]:
    """The lists that are called by a fixed place, or filled with one element in a place.

    hook[0](x)      hook[:] = [function]      hook[0] = function
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            places = [node.func]
        elif isinstance(node, ast.Assign) and not isinstance(node.value, (ast.Tuple, ast.ListComp)):
            places = node.targets
        else:
            places = []
        found += [
            place.value.id
            for place in places
            if isinstance(place, ast.Subscript)
            and isinstance(place.value, ast.Name)
            and place.value.id in lists
            and isinstance(place.slice, (ast.Constant, ast.Slice))
        ]
    return found


ALL_LISTS = set().union(*[lists_of(syntax_tree(path)) for path in MODULES.values()])


@pytest.mark.parametrize("module", MODULES)
def test_no_list_is_a_hook(module: str) -> None:
    tree = syntax_tree(MODULES[module])
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in ALL_LISTS
    }
    assert one_element_hooks(tree, lists_of(tree) | imported) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hook = []\ndef f(x): return hook[0](x)", ["hook"]),
        ("hook: list[int] = []\nhook[:] = [f]", ["hook"]),
        ("hook = [None]\ndef set(f): hook[0] = f", ["hook"]),
        ("hook = list()\nhook[0](1)", ["hook"]),
        ("watchers = []\nfor watch in watchers: watch(1)", []),
        ("watchers = []\nwatchers.append(f)", []),
    ],
)
def test_hooks_are_found(text: str, found: list[str]) -> None:
    tree = ast.parse(text)
    assert one_element_hooks(tree, lists_of(tree)) == found
