"""L7. The card of a primitive: its traits, all rules of it and of the passes, test rows.

python -m fgrad.tools.op sin
python -m fgrad.tools.op --list
"""

from __future__ import annotations

import argparse
import difflib
import enum
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fgrad import compile as compiler
from fgrad import ops, transforms
from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.ir.primitive import REGISTRY, Primitive, Refusal
from fgrad.ir.traits import Traits
from fgrad.tools.pass_rules import PASS_RULES, laws_of
from fgrad.tools.source import captured_functions, source_of
from fgrad.typing import PyTree

# Tables of the backends: name, module, table; a backend that is not installed has no rows.
SCALAR_TABLES = (
    ("CPU row", "fgrad.compile.llvm.vector.scalar_llvm", "SCALAR_LLVM"),
    ("CUDA row", "fgrad.lower_cuda.emit.scalar_cuda", "SCALAR_CUDA"),
)
_TESTS = Path(ops.__path__[0]).parent.parent / "tests"
_OPTIONAL = ("save", "pullback", "accumulate")
_INDENT = "    "
_LONGEST = 40


def load_primitives() -> None:
    """Import every module that defines primitives.

    Example:
        >>> load_primitives()
        >>> "call" in REGISTRY
        True
    """
    for package in (ops, transforms, compiler):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def card(name: str) -> str:
    """The card of a primitive as text.

    Arguments:
        name: the name of a primitive, as the printed IR spells it.

    Raises:
        ValueError: if there is no such primitive; the message lists similar names.

    Example:
        >>> print(card("sin").splitlines()[0])
        primitive sin
    """
    load_primitives()
    prim = REGISTRY.get(name)
    if prim is None:
        near = ", ".join(difflib.get_close_matches(name, REGISTRY)) or "see --list"
        raise ValueError(f"there is no primitive {name!r}; similar: {near}")
    parts = _signature(prim), _traits(prim), _rules(prim), _passes(prim), _backends(prim)
    return "\n\n".join(["\n".join(part) for part in (*parts, _test_rows(name))]).rstrip()


def _signature(prim: Primitive) -> Iterator[str]:
    yield f"primitive {prim.name}"
    yield f"  params     {', '.join(prim.params) or 'none'}"
    yield f"  linear in  {prim.linear_in or 'nothing'}"
    yield f"  outputs    {'several' if prim.multiple else 'one'}"
    yield f"  scalar     {prim.scalar or 'none'}"


def _traits(prim: Primitive) -> Iterator[str]:
    """Each trait: its value, or why there is none."""
    for label, trait in zip(Traits._fields, prim.traits, strict=True):
        if isinstance(trait, Refusal):
            yield f"{label}: none, because it {trait.why}"
        elif isinstance(trait, enum.Enum):
            yield f"{label}: {trait.name.lower()}"
        elif isinstance(trait, tuple):
            yield f"{label}: {_fields(trait)}"
        elif isinstance(trait, (str, float)):
            yield f"{label}: {trait}"
        else:
            yield f"{label}: {'yes' if trait else 'no'}"
    yield f"effect: {'yes' if prim.effect else 'no'}"


def _fields(trait: Any) -> str:
    return ", ".join([f"{k}={getattr(v, 'value', v)}" for k, v in trait._asdict().items()])


def _rules(prim: Primitive) -> Iterator[str]:
    for slot in Primitive.SLOTS:
        yield from _entry(slot, prim.rules.get(slot))
    for i, rule in enumerate(prim.maps):
        yield from _entry(f"derivative in operand {i}", rule, empty="zero")
    for slot in _OPTIONAL:
        rule = getattr(prim, slot)
        if rule is not None:
            yield from _entry(slot, rule)


def _entry(label: str, rule: Any, empty: str = "missing") -> Iterator[str]:
    """A label with the place of a rule, then its text."""
    if rule is None:
        yield f"{label}: {empty}"
    elif isinstance(rule, Refusal):
        yield f"{label}: refused, because it {rule.why}"
    else:
        place, text = source_of(rule)
        yield f"{label}: {place}"
        lines = text.splitlines()
        yield from [_INDENT + line for line in lines[:_LONGEST]]
        if len(lines) > _LONGEST:
            yield f"{_INDENT}... {len(lines) - _LONGEST} more lines"
        yield from _captured(rule, _INDENT)


def _captured(rule: Callable[..., PyTree], indent: str) -> Iterator[str]:
    """The functions that a made-up rule is composed of."""
    for name, function in captured_functions(rule):
        yield f"{indent}with {name}: {_name_of(function)} at {source_of(function).place}"
        yield from _captured(function, indent + "  ")


def _name_of(function: Callable[..., PyTree]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _passes(prim: Primitive) -> Iterator[str]:
    for label, rule_of, default in PASS_RULES:
        rule = rule_of(prim)
        if rule is not None:
            yield from _entry(label, rule)
        else:
            yield f"{label}: by default, {default(prim) or 'missing'}"
    yield f"laws: {', '.join(laws_of(prim)) or 'none'}"


def _backends(prim: Primitive) -> Iterator[str]:
    if prim.scalar is None:
        return
    row = SCALAR_OPS.get(prim.scalar)
    if row is None:
        yield f"scalar row: none named {prim.scalar!r}; the compiler composes it or refuses it"
        return
    yield f"scalar row: {row.arity} operand(s) of kinds {row.kinds!r}, result {row.result}"
    for label, module, table_name in SCALAR_TABLES:
        yield from _entry(label, _table(module, table_name).get(prim.scalar))


def _table(module: str, name: str) -> Mapping[object, object]:
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        return {}


def _test_rows(name: str) -> Iterator[str]:
    """The lines of the table of test cases that mention the primitive as a word."""
    file = _TESTS / "op_cases.py"
    if not file.exists():
        return
    word = re.compile(rf"\b{re.escape(name)}\b")
    found = [
        (i, line) for i, line in enumerate(file.read_text().splitlines(), 1) if word.search(line)
    ]
    for i, line in found[:_LONGEST]:
        yield f"test row: tests/op_cases.py:{i}"
        yield _INDENT + line.strip()[:100]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print cards; the exit status is 1 if a name is unknown."""
    parser = argparse.ArgumentParser(prog="python -m fgrad.tools.op", description=__doc__)
    parser.add_argument("names", nargs="*", help="primitives, as the printed IR spells them")
    parser.add_argument("--list", action="store_true", help="the names of all primitives")
    options = parser.parse_args(arguments)
    load_primitives()
    if options.list or not options.names:
        print("\n".join(sorted(REGISTRY)))
    for name in options.names:
        try:
            print(card(name))
        except ValueError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
