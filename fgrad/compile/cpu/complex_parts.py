"""L5. Native steps that take complex arrays apart and put them together: strided copies."""

from __future__ import annotations

from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.text import element_type, literal, range_loop
from fgrad.compile.tasks.routines import ComplexParts

_PLACES = "  %twice = mul i64 %i, 2\n  %other = add i64 %twice, 1\n"


def _load(kind: str, number: int, place: str) -> str:
    """The text of value = buffer[place]."""
    return (
        f"  %s{number} = getelementptr {kind}, ptr %b{number}, i64 {place}\n"
        f"  %v{number} = load {kind}, ptr %s{number}\n"
    )


def _store(kind: str, number: int, place: str, value: str) -> str:
    """The text of buffer[place] = value."""
    name = place.strip("%")
    return (
        f"  %{name}{number} = getelementptr {kind}, ptr %b{number}, i64 {place}\n"
        f"  store {kind} {value}, ptr %{name}{number}\n"
    )


def complex_parts(task: ComplexParts) -> int:
    """The address of a step; range: [0, size)."""
    name, dtype, _, constants = task
    kind, body, count = element_type(dtype), "", 0
    if name == "complex":
        values = []
        for constant in constants:
            if constant is None:
                body += _load(kind, count, "%i")
                values.append(f"%v{count}")
                count += 1
            else:
                values.append(literal(constant, dtype))
        body += _store(kind, count, "%twice", values[0]) + _store(kind, count, "%other", values[1])
    else:
        count = 1
        body = _load(kind, 0, "%twice" if name == "real" else "%other")
        body += _store(kind, 1, "%i", "%v0")

    def emit(symbol: str) -> tuple[str, set[str]]:
        return range_loop(symbol, count + 1, _PLACES + body), set()

    return build_counted([Source(f"complex_parts {name} {kind} {constants}", emit)])[0]
