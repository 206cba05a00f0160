"""L7. `export_c`: a function -> an object, a header, and a shared library where a compiler is.

    int name(const double *in0, ..., double *out0, ..., void *workspace);

All that the object calls is in it, but for `memmove`, `memset`, `malloc` and `free`, and what a
program asks of LAPACK, whose routines it calls by their Fortran names.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.aot.files import paths_of, version
from fgrad.aot.machine import (
    NOTED,
    SHARING,
    TABLE,
    WALK,
    Functions,
    Machine,
    Module,
    NotMachineCode,
    machine_of,
    merged,
)
from fgrad.aot.save import Exportable, exportable, refuse
from fgrad.aot.vector_products import vector_product
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.llvm import generator, interrupts
from fgrad.compile.llvm.runtime import target
from fgrad.compile.llvm.signals import CELLS
from fgrad.config import config
from fgrad.errors import ExportError
from fgrad.ir.aval import Aval
from fgrad.typing import PyTree

CALLER = "fgrad.export_c"
C_TYPES = {
    "b1": "uint8_t", "i1": "int8_t", "i2": "int16_t", "i4": "int32_t", "i8": "int64_t",
    "u1": "uint8_t", "u2": "uint16_t", "u4": "uint32_t", "u8": "uint64_t",
    "f2": "uint16_t", "f4": "float", "f8": "double", "c8": "float", "c16": "double",
}  # fmt: skip
_MOST_CONSTANTS = 256 << 20
_GUARDS = ("fgrad_get_threads", "fgrad_set_threads", "fgrad_running")
_C_WORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "main",
    ]
)


class CExport(NamedTuple):
    """What was written: the object, the header, the shared library or None, and the bytes of
    workspace that a call needs."""

    object: str
    header: str
    library: str | None
    workspace: int


@also_takes()
def export_c(
    f: Callable[..., PyTree],
    *example_args: PyTree,
    path: str | os.PathLike[str],
    name: str | None = None,
    threads: int = 1,
) -> CExport:
    """Write a function as an object and a header for C, compiled for arguments like the given ones.

    Arguments:
        f: a function, jitted or not; also `fgrad.grad(g)` and other transforms.
        example_args: arrays and numbers in tuples, lists and dictionaries; what counts is their
            shapes and dtypes.
        path: of the files, without an ending: `path.o`, `path.h`, and `path.so` (`.dylib`, `.dll`)
            where there is a C compiler, or `ziglang`.
        name: of the C function; by default the last part of `path`.
        threads: for how many threads work is cut into pieces; the function itself runs on one,
            unless it is given a function that shares pieces: `<name>_set_share` in the header.

    Returns:
        The names of the files, and the size of the workspace: `CExport(object, header, library,
        workspace)`.

    The C function takes a pointer for each leaf of the arguments, then one for each leaf of the
    result, then the workspace.  Arrays are contiguous in C order, results must not overlap
    arguments.  It returns 0, or the number of what failed, as singular matrices do.  It writes
    nothing but results and workspace, so it is re-entrant; products of large matrices take memory
    for copies of their operands from `malloc`, and give it back.

    Raises:
        ExportError: C cannot have the function: it calls NumPy, SciPy or Python, writes into its
            arguments, or takes or gives containers of other classes.

    Example:
        >>> import fgrad, numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "wave")
        >>> made = fgrad.export_c(lambda x: np.sin(x) * 2, np.zeros(100), path=path)
        >>> print(os.path.basename(made.header))
        wave.h
    """
    path = os.fspath(path)
    name = os.path.basename(path) if name is None else name
    if not name.isidentifier() or not name.isascii() or name in _C_WORDS:
        raise ExportError(
            f"{CALLER}: {name!r} is no name of a C function.", (("write", "name=..."),)
        )
    found = exportable(f, example_args, CALLER)
    machine = _machine(found, threads)
    if machine.image.steps and sum([x.nbytes for x in machine.image.consts]) > _MOST_CONSTANTS:
        raise ExportError(
            f"{CALLER}: the constants are larger than {_MOST_CONSTANTS >> 20} MB.",
            (("write", "large arrays as arguments"),),
        )
    text = _module(name, machine)
    with open(f"{path}.o", "wb") as file:
        file.write(generator.linkable_object(text))
    with open(f"{path}.h", "w", encoding="ascii") as file:
        file.write(_header(name, found, machine))
    library = None if _lapack(machine) else _linked(path)
    return CExport(f"{path}.o", f"{path}.h", library, _workspace(machine))


def _machine(found: Exportable, threads: int) -> Machine:
    try:
        with config.override(num_threads=threads):
            return machine_of(found.program, Module(), vector_products=vector_product)
    except NotMachineCode as error:
        refuse(CALLER, error.equation(found.traced), f"{error.what}, which C does not have.")


def _workspace(machine: Machine) -> int:
    """The bytes of the arena, of the word behind it, and what aligns them."""
    return machine.arena_bytes + 8 + LINE_BYTES


def _lapack(machine: Machine) -> list[str]:
    """The routines that the caller's library must have, by their Fortran names."""
    return [f"{n.removeprefix('fgrad_')}_" for n in machine.module.libraries if n not in _GUARDS]


# --- the module


def _module(name: str, machine: Machine) -> str:
    functions: Functions = dict(machine.module.functions)
    for old in machine.module.libraries:
        if old not in _GUARDS:
            functions = {s: _renamed(f, old) for s, f in functions.items()}
    functions[interrupts.POLL] = _returning_zero(interrupts.POLL), set()
    if interrupts.HAS_KEEPING:
        keeping = f"define i64 @{interrupts.KEEPING}() naked {{\n"
        zero = 'call void asm sideeffect "xorl %eax, %eax\\0Aretq", ""()'
        functions[interrupts.KEEPING] = f"{keeping}  {zero}\n  unreachable\n}}", set()
    functions["helpers"] = _HELPERS.replace("NAME", name), set()
    functions["main"] = _main(name, machine), {"declare ptr @memmove(ptr, ptr, i64)"}
    lines = merged(functions, ["main"])
    text = "\n".join([*_constants(machine), machine.table(), *lines])
    return text.replace(f"define internal void @{name}_set_share", f"define void @{name}_set_share")


def _renamed(function: tuple[str, set[str]], old: str) -> tuple[str, set[str]]:
    text, needs = function
    new = f"@{old.removeprefix('fgrad_')}_("
    return text.replace(f"@{old}(", new), {d.replace(f"@{old}(", new) for d in needs}


def _returning_zero(name: str) -> str:
    return f"define i64 @{name}() #0 {{\n  ret i64 0\n}}"


_HELPERS = f"""@{CELLS} = internal global [8 x i64] zeroinitializer
@fgrad_running = internal global [3 x i64] zeroinitializer
@fgrad_share_at = internal global ptr null
@fgrad_pool_at = internal global ptr null
define i32 @fgrad_get_threads() #0 {{
  ret i32 1
}}
define void @fgrad_set_threads(i32 %n) #0 {{
  ret void
}}
define void @{NOTED}(i64 %number) #0 {{
  ret void
}}
define void @NAME_set_share(ptr %share, ptr %pool) #0 {{
  store ptr %share, ptr @fgrad_share_at, align 8
  store ptr %pool, ptr @fgrad_pool_at, align 8
  ret void
}}
{SHARING}"""


def _constants(machine: Machine) -> list[str]:
    """The arrays that the program reads, and the numbers that are results."""
    arrays = [(f"const{k}", x) for k, x in enumerate(machine.image.consts)]
    arrays += [(f"fill{k}", np.asarray(lit.value)) for k, lit in machine.image.literals]
    return [_constant(f"fgrad_{name}", x) for name, x in arrays]


def _constant(name: str, x: np.ndarray) -> str:
    data = np.ascontiguousarray(x).tobytes()
    text = "".join([f"\\{byte:02x}" for byte in data])
    value = f'c"{text}"' if data else "zeroinitializer"
    return f"@{name} = internal constant [{len(data)} x i8] {value}, align {LINE_BYTES}"


def _main(name: str, machine: Machine) -> str:
    image = machine.image
    ins = [f"%in{k}" for k in range(len(image.in_avals))]
    outs = [f"%out{k}" for k in range(len(image.out_avals))]
    consts = [f"@fgrad_const{k}" for k in range(len(image.consts))]
    given = [*ins, *consts, *outs, "%arena"]
    lines = [
        f"define i32 @{name}({', '.join([f'ptr {p}' for p in (*ins, *outs, '%workspace')])}) #0 {{",
        f"  %given = alloca ptr, i64 {len(given)}, align 16",
        "  %start = ptrtoint ptr %workspace to i64",
        f"  %beyond = add i64 %start, {LINE_BYTES - 1}",
        f"  %line = and i64 %beyond, {-LINE_BYTES}",
        "  %arena = inttoptr i64 %line to ptr",
        f"  %status_at = getelementptr i8, ptr %arena, i64 {machine.arena_bytes}",
        "  store i64 0, ptr %status_at, align 8",
    ]
    for k, pointer in enumerate(given):
        lines += [
            f"  %given{k} = getelementptr ptr, ptr %given, i64 {k}",
            f"  store ptr {pointer}, ptr %given{k}, align 8",
        ]
    if image.steps:
        lines.append(f"  call void @{WALK}(ptr @{TABLE}, ptr %given)")
    for k, lit in image.literals:
        size = np.asarray(lit.value).nbytes
        lines.append(f"  call ptr @memmove(ptr %out{k}, ptr @fgrad_fill{k}, i64 {size})")
    lines += [
        "  %status = load i64, ptr %status_at, align 8",
        "  %result = trunc i64 %status to i32",
        "  ret i32 %result",
        "}",
    ]
    return "\n".join(lines)


# --- the header


def _declared(aval: Aval, name: str, path: str, is_const: bool) -> str:
    kind = C_TYPES[f"{aval.dtype.kind}{aval.dtype.itemsize}"]
    shape = "".join([f"[{n}]" for n in aval.shape]) or "one number"
    parts = {"c": ", real and imaginary parts", "b": ", 0 or 1"}.get(aval.dtype.kind, "")
    parts = (
        ", the words of float16" if aval.dtype.kind == "f" and aval.dtype.itemsize == 2 else parts
    )
    return f"    {'const ' if is_const else ''}{kind} *{name},  /* {path}: {shape}{parts} */"


def _header(name: str, found: Exportable, machine: Machine) -> str:
    image = machine.image
    guard = f"{name.upper()}_H"
    given, gives = paths_of(found.arguments, "argument "), paths_of(found.results, "result ")
    ins = [_declared(a, f"in{k}", given[k], True) for k, a in enumerate(image.in_avals)]
    outs = [_declared(a, f"out{k}", gives[k], False) for k, a in enumerate(image.out_avals)]
    needs = _lapack(machine)
    lines = [
        f"/* {name}: {found.program.name}, written by fgrad {version()} for {target().triple},",
        f"   a processor as {target().cpu} or newer. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* Bytes of the workspace, which may be anywhere; one for each call that runs. */",
        f"#define {name.upper()}_WORKSPACE {_workspace(machine)}",
        "",
        *(["/* Link a library with " + ", ".join(needs) + ". */"] if needs else []),
        "/* Arrays are contiguous in C order; results do not overlap arguments.  Returns 0"
        + ("," if machine.module.messages else ". */"),
        *[f"   or {k + 1}: {m}" for k, m in enumerate(machine.module.messages)],
        *(["*/"] if machine.module.messages else []),
        f"int {name}(",
        *ins,
        *outs,
        "    void *workspace);",
        "",
        "/* From now on pieces of work are shared by this function, which calls f(bufs, i, j) for",
        "   parts of [lo, hi), `chunk` long, by several threads, and returns when all are done. */",
        f"void {name}_set_share(void (*share)(void *pool, void (*f)(void **, int64_t, int64_t),",
        "    void **bufs, int64_t lo, int64_t hi, int64_t chunk), void *pool);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


# --- the shared library


def compilers() -> list[list[str]]:
    """Commands that link, the preferred first."""
    found = [[name] for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if name]
    known = [command for command in found if shutil.which(command[0])]
    if importlib.util.find_spec("ziglang") is not None:
        known.append([sys.executable, "-m", "ziglang", "cc"])
    return known


def _linked(path: str) -> str | None:
    """The shared library of an object; None if nothing here can link it."""
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    library = f"{path}.{ending}"
    for command in compilers():
        done = _run([*command, "-shared", "-o", library, f"{path}.o"])
        if done:
            return library
    return None


def _run(command: Sequence[str]) -> bool:
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode == 0
