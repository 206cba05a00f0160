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
    "capture": 5, "compile": 5,
    "lower_cuda": 6, "essentials": 6,
    "checkpoint_policies": 7, "sparse": 7,
    "lax": 7, "random": 7, "nn": 7, "optim": 7, "scipy": 7, "testing": 7, "tools": 7, "debug": 7,
    "interop": 7, "distributed": 7, "parallel": 7, "aot": 7,
    "interchange": 7,
    "command": 8, "__main__": 8,
}  # fmt: skip

# Where the layers alone would allow it, but the design does not: package -> what it never imports.
FORBIDDEN = {
    "transforms": {"numpy", "compile", "lower_cuda"},
    "capture": {"compile", "lower_cuda"},
    "compile": {"numpy", "lower_cuda"},
    "lower_cuda": {"numpy", "transforms", "trace", "ops"},
}

# The packages of `fgrad.compile` and what each imports of it, beside itself; "" is its root.
MIDDLE = ("kernel", "tasks", "products", "passes", "lower", "fuse", "loops")  # a row
CPU = ("cpu.emit", "cpu.gemm", "cpu.rows")
IN_COMPILER = {
    **{name: set(MIDDLE[:k]) for k, name in enumerate(MIDDLE)},
    "schedule": {"kernel", "tasks"},
    "llvm": set[str](),
    "llvm.vector": {"kernel", "llvm"},
    "host": {"kernel", "tasks", "llvm"},
    "cpu.emit": {"kernel", "llvm", "llvm.vector"},
    "cpu.gemm": {"kernel", "llvm", "cpu.emit"},
    "cpu.rows": {"kernel", "tasks", "llvm", "llvm.vector"},
    "entry": {"llvm"},
    "": {*MIDDLE, "schedule", "llvm", "entry"},  # the list of passes, and the contract of backends
    "cpu": {*MIDDLE, "schedule", "llvm", "llvm.vector", "host", "entry", "", *CPU},
    "jit": {*MIDDLE, "entry", ""},
    "prompt": {"entry", "", "jit"},
}

# Packages that take long to load, and the only parts of fgrad that may name each of them.
OWNERS = {"llvmlite": ("compile",), "numba": ("lower_cuda", "interop")}


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
        if top in OWNERS and part not in OWNERS[top]:
            owners = ", ".join(OWNERS[top])
            wrong.append(f"line {line}: {target} may only be imported by fgrad/{owners}")
        if top != "fgrad" or module == "fgrad":
            continue
        if layer_of(target) > layer_of(module):
            wrong.append(f"line {line}: {target} is layer {layer_of(target)}")
        elif part_of(target) in FORBIDDEN.get(part, ()):
            wrong.append(f"line {line}: {part} never imports {target}")
    assert not wrong, f"{module} (layer {layer_of(module)}): " + "; ".join(wrong)


# A folder is a package; these modules, which users import, belong to one of another name.
BELONGS_TO = {
    **dict.fromkeys(("fgrad.config", "fgrad.errors", "fgrad.tree", "fgrad.typing"), "fgrad.base"),
    "fgrad.trace": "fgrad.tracing",
}

IN_LOWER_CUDA = {
    "device": set[str](),
    "emit": set[str](),
    "library": {"device", "emit"},
    "": {"device", "emit", "library"},
}
ROWS = {"fgrad.compile": IN_COMPILER, "fgrad.lower_cuda": IN_LOWER_CUDA}


def package_of(module: str) -> str:
    """The folder of a module: `fgrad.compile.llvm` for fgrad/compile/llvm/text.py."""
    is_package = MODULES[module].name == "__init__.py" or module.count(".") == 1
    return BELONGS_TO.get(module, module if is_package else module.rpartition(".")[0])


@pytest.mark.parametrize(
    ("top", "module"),
    [(top, m) for top in ROWS for m in MODULES if m.startswith(f"{top}.")],
)
def test_compiler_and_backends_are_made_of_packages(top: str, module: str) -> None:
    package = package_of(module).removeprefix(top).removeprefix(".")
    allowed = {f"{top}.{name}".rstrip(".") for name in (package, *ROWS[top][package])}
    targets = [t for _, t in imports_of(syntax_tree(MODULES[module])) if t in MODULES]
    inside = [t for t in targets if t.startswith(top)]
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


BACKENDS = {"cpu": "fgrad.compile.cpu", "cuda": "fgrad.lower_cuda"}  # by device
BELOW_BACKENDS = ("fgrad.compile", "fgrad.tracing", "fgrad.trace", "fgrad.base", "fgrad.transforms")


# Where the name of a device stands all the same.
NAMED = {
    "fgrad.tracing.on_device": ["cpu"],  # `HOST`, where NumPy's arrays are
    "fgrad.compile.llvm.runtime": ["cpu"],  # a folder whose text is part of the key of code
}


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(BELOW_BACKENDS)])
def test_backends_are_known_by_their_contract_alone(module: str) -> None:
    """No other part imports a backend or names its device."""
    if module.startswith(BACKENDS["cpu"]):
        return
    tree = syntax_tree(MODULES[module])
    packages = tuple(BACKENDS.values())
    imported = [t for _, t in imports_of(tree) if t.startswith(packages)]
    documented = {id(s.value) for s in ast.walk(tree) if isinstance(s, ast.Expr)}
    named = [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in documented
        if n.value in BACKENDS or n.value.startswith(packages)
    ]
    assert (imported, named) == ([], NAMED.get(module, []))


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


def needs_of(module: str) -> set[str]:
    """The modules that a module imports, now or later, but for its types.

    What is loaded late is a string, `lazy_module("fgrad.compile.jit.costs")`: any string that is
    the name of a module counts.  The names of `Provided(...)` are those of functions.
    """
    tree = syntax_tree(MODULES[module])
    skipped = for_types_only(tree)
    named = {t for line, t in imports_of(tree) if line not in skipped}
    named |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in MODULES}
    return {t for t in named if t in MODULES} - {module, "fgrad"}


GRAPH = {module: needs_of(module) for module in MODULES}


def in_cycles(graph: dict[str, set[str]]) -> list[str]:
    """What needs itself, through others."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            fresh = graph[waiting.pop()] - found
            found |= fresh
            waiting.extend(fresh)
        return found

    return sorted(start for start in graph if start in reached(start))


def test_imports_have_no_cycles() -> None:
    assert in_cycles(GRAPH) == []


def test_packages_have_no_cycles() -> None:
    arrows: dict[str, set[str]] = {package_of(module): set() for module in MODULES}
    for module, needs in GRAPH.items():
        arrows[package_of(module)] |= {package_of(t) for t in needs} - {package_of(module)}
    tied = in_cycles(arrows)
    imports = [
        f"{module} -> {target}"
        for module, needs in GRAPH.items()
        for target in sorted(needs)
        if package_of(module) != package_of(target)
        and {package_of(module), package_of(target)} <= set(tied)
    ]
    assert not tied, f"packages that need each other: {tied}; imports between them: {imports}"


# What a lower layer calls and cannot import, and why it is there.
UPWARD = {
    "fgrad.compile.jit.staged.lowered": "a jitted function tells of itself what `inspect` finds",
    "fgrad.tracing.tables.unsupported_card": "NumPy calls a tracer, which has no card for names",
    "fgrad.tracing.tables.store_out": "NumPy calls a tracer with `out=`, an assignment",
    "fgrad.tracing.tables.essentials": "the first trace loads NumPy's functions of tracers",
    "fgrad.tracing.capturing.captured": "transforms call functions whose loops are rewritten",
    "fgrad.tracing.trace_errors.not_captured": "cards say why a function was not rewritten",
    "fgrad.base.pickling.at_prompt": "calls of `grad(f)` at the prompt compile themselves",
    "fgrad.capture.explain.why_interpreted": "`explain_capture` says what these calls do",
    "fgrad.capture.ragged.fold": "a sum of a slice is a loop, whose body indexes",
    "fgrad.tracing.axes.aligned": "operands in a trace with named axes are made to vary: `pvary`",
    "fgrad.tracing.axes.typed": "over which axes results vary follows from what a primitive is",
    "fgrad.tracing.axes.bind_over_axes": "`bind` meets a collective, which one trace alone records",
    "fgrad.tracing.on_device.bind_on_device": "`bind` meets an array on a device: it is traced",
    "fgrad.tracing.device_tracing.evaluate_on_device": "an equation at the prompt is compiled",
    "fgrad.tracing.device_tracing.compute_on_device": "a program in an equation is compiled",
}


def test_calls_upward_are_few_and_have_reasons() -> None:
    declared = {
        f"{module}.{ast.unparse(node.target)}"
        for module, path in MODULES.items()
        for node in syntax_tree(path).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "Provided"
    }
    assert declared == set(UPWARD)


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
