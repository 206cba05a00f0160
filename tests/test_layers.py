"""Imports stand at the top of the file and point down the layers of docs/design.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sources import MODULES, ROOT, python_files, relative, syntax_tree

LAYERS = {
    "base": 0, "errors": 0, "config": 0, "tree": 0, "typing": 0,
    "ir": 1,
    "tracing": 2, "trace": 2,
    "ops": 3,
    "numpy": 4, "transforms": 4,
    "compile": 5,
    "lower_cuda": 6,
    "checkpoint_policies": 7, "sparse": 7,
    "lax": 7, "random": 7, "nn": 7, "optim": 7, "scipy": 7, "testing": 7, "tools": 7, "debug": 7,
}  # fmt: skip

# Where the layers alone would allow it, but the design does not: package -> what it never imports.
FORBIDDEN = {
    "transforms": {"numpy", "compile", "lower_cuda"},
    "compile": {"numpy", "lower_cuda"},
    "lower_cuda": {"numpy", "transforms", "trace", "ops"},
}

# The packages of `fgrad.compile` and what each imports of it, beside itself.  Every one but `jit`'s
# row stands before the backends, which are siblings: nothing of one imports the other.
MIDDLE = ("kernel", "tasks", "products", "passes", "lower", "fuse", "loops")  # a row
IN_COMPILER = {
    **{name: set(MIDDLE[:k]) for k, name in enumerate(MIDDLE)},
    "schedule": {"kernel", "tasks"},
    "llvm": set[str](),
    "llvm.vector": {"kernel", "llvm"},
    "host": {"kernel", "tasks", "llvm"},
    "cpu.emit": {"kernel", "llvm", "llvm.vector"},
    "cpu.gemm": {"kernel", "llvm", "cpu.emit"},
    "cpu.rows": {"kernel", "tasks", "llvm", "llvm.vector"},
    "cpu.entry": {"llvm"},
}

# Packages that take long to load, and the only part of fgrad that may name each of them.
OWNERS = {"llvmlite": "compile", "numba": "lower_cuda"}


def part_of(module: str) -> str:
    """The entry of LAYERS for a module: `ir` for fgrad.ir.aval."""
    return module.split(".")[1] if "." in module else "__init__"


def layer_of(module: str) -> int:
    return 8 if module == "fgrad" else LAYERS[part_of(module)]


def imports_of(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and full name of every import, `from a import b` as `a.b` where that is a module."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found.append((node.lineno, name if name in MODULES else base))
    return found


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    wrong = []
    part = part_of(module)
    for line, target in imports_of(syntax_tree(MODULES[module])):
        top = target.split(".")[0]
        if top in OWNERS and part != OWNERS[top]:
            wrong.append(f"line {line}: {target} may only be imported by fgrad/{OWNERS[top]}")
        if top != "fgrad" or module == "fgrad":
            continue
        if layer_of(target) > layer_of(module):
            wrong.append(f"line {line}: {target} is layer {layer_of(target)}")
        elif part_of(target) in FORBIDDEN.get(part, ()):
            wrong.append(f"line {line}: {part} never imports {target}")
    assert not wrong, f"{module} (layer {layer_of(module)}): " + "; ".join(wrong)


def package_of(module: str) -> str:
    """The folder of a module: `fgrad.compile.llvm` for fgrad/compile/llvm/text.py."""
    return module if MODULES[module].stem == "__init__" else module.rpartition(".")[0]


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("fgrad.compile.")])
def test_the_compiler_is_made_of_packages(module: str) -> None:
    package = package_of(module).removeprefix("fgrad.compile").removeprefix(".")
    if package not in IN_COMPILER:
        return
    allowed = {f"fgrad.compile.{name}" for name in (package, *IN_COMPILER[package])}
    targets = [t for _, t in imports_of(syntax_tree(MODULES[module])) if t in MODULES]
    inside = [t for t in targets if t.startswith("fgrad.compile")]
    wrong = [t for t in inside if package_of(t) not in allowed]
    assert not wrong, f"{module}: {package} stands before {wrong}"


def test_backends_are_siblings() -> None:
    """What two backends need stands below both of them."""
    wrong = [
        (module, target)
        for module, path in MODULES.items()
        if module.startswith("fgrad.lower_cuda")
        for _, target in imports_of(syntax_tree(path))
        if target.startswith("fgrad.compile.cpu")
    ]
    assert not wrong


# In `ops` the one equation, in `numpy` what converts and broadcasts first.
AT_TWO_LEVELS = {"broadcast", "concatenate", "convert", "reshape"}
MANY = 4  # modules that import a function make it one that readers know by its name


def test_what_many_modules_import_has_a_name_of_its_own() -> None:
    users: dict[str, Counter[str]] = defaultdict(Counter)
    for path in MODULES.values():
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module in MODULES:
                tree = syntax_tree(MODULES[node.module])
                made = {f.name for f in tree.body if isinstance(f, ast.FunctionDef)}
                for alias in node.names:
                    if alias.name in made:
                        users[alias.name][node.module] += 1
    several = {
        name: sorted(m for m, count in modules.items() if count >= MANY)
        for name, modules in users.items()
        if name not in AT_TWO_LEVELS
    }
    assert not {name: modules for name, modules in several.items() if len(modules) > 1}


def for_types_only(tree: ast.Module) -> set[int]:
    """The lines under `if TYPE_CHECKING:`, which do not run."""
    return {
        line
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def test_imports_have_no_cycles() -> None:
    graph = {}
    for module, path in MODULES.items():
        tree = syntax_tree(path)
        skipped = for_types_only(tree)
        needs = {t for line, t in imports_of(tree) if t in MODULES and line not in skipped}
        graph[module] = needs - {module}
    done: set[str] = set()
    while True:
        ready = {m for m, needs in graph.items() if m not in done and needs <= done | {"fgrad"}}
        if not ready:
            break
        done |= ready
    assert set(graph) == done, f"modules that import each other: {sorted(set(graph) - done)}"


@pytest.mark.parametrize(
    "path", python_files("fgrad", "tests", "benchmarks", "examples"), ids=relative
)
def test_no_import_inside_a_function(path: Path) -> None:
    inner = [
        node.lineno
        for function in ast.walk(syntax_tree(path))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not inner, f"{relative(path)}: imports in functions at lines {inner}"


@pytest.mark.parametrize("module", [m for m in MODULES if m != "fgrad"])
def test_module_docstring_names_its_layer(module: str) -> None:
    text = ast.get_docstring(syntax_tree(MODULES[module])) or ""
    start = f"L{layer_of(module)}. "
    assert text.startswith(start), (
        f"{module}: its docstring starts with {start!r}, not {text[:40]!r}"
    )


def test_import_is_light() -> None:
    heavy = ["llvmlite", "numba", "scipy.linalg", "scipy.special", "jax", "torch", "matplotlib"]
    code = f"import sys, fgrad; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert result.stdout.strip() == "[]"
