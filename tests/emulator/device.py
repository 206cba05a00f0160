"""Names of the device that a body calls -> LLVM text of functions that a CPU can run.

Functions of libdevice are NVIDIA's own: its bitcode is disassembled once, and each function that
is needed is taken with those that it calls.  What these and the emitters call below that is one
instruction of the device each, and defined here: exactly where the device is exact.  Its
approximate instructions (1 to 2 ulp) become the nearest float to the true value, so what is
measured here is the accuracy of NVIDIA's formulas with the best form of those instructions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from emulator.entry import AND, BARRIER, OR, POPC, SHUFFLE, VOTE, WARP
from fgrad.compile.llvm.generator import disassemble
from fgrad.errors import CheckError
from fgrad.lower_cuda.device.toolchain import libdevice

_CALLEE = re.compile(r"@([\w.$]+)\(")
_SINGLE, _DOUBLE = ("float", "f32"), ("double", "f64")
_TYPES = {"f": _SINGLE, "f32": _SINGLE, "d": _DOUBLE, "f64": _DOUBLE}
# Operations rounded to nearest: the number of operands, and the text.
_NEAREST = {
    "add": (2, "fadd {t} %a, %b"),
    "sub": (2, "fsub {t} %a, %b"),
    "mul": (2, "fmul {t} %a, %b"),
    "div": (2, "fdiv {t} %a, %b"),
    "fma": (3, "call {t} @llvm.fma.{s}({t} %a, {t} %b, {t} %c)"),
    "sqrt": (1, "call {t} @llvm.sqrt.{s}({t} %a)"),
    "rcp": (1, "fdiv {t} 1.0, %a"),
}
_WORDS = {"ui": ("i32", "i64"), "ull": ("i64", "i128")}  # of unsigned products
# a b + c rounded in a direction: the product of two floats is exact as a double.
_FUSED = """define internal float @nvvm.fma.{mode}.f(float %a, float %b, float %c) {{
  %wide.a = fpext float %a to double
  %wide.b = fpext float %b to double
  %wide.c = fpext float %c to double
  %product = fmul double %wide.a, %wide.b
  %r = call float @emulate.{function}(double %product, double %wide.c)
  ret float %r
}}"""
_NEAREST_FLOAT = """define internal float @nvvm.{name}(float %a) {{
  %wide = fpext float %a to double
  %value = call double @{function}(double %wide)
  %result = fptrunc double %value to float
  ret float %result
}}"""
_THREAD = ["%t = load i64, ptr @emulate.thread", "%nx = load i64, ptr @emulate.nx"]
_REGISTERS = {
    "ctaid": {"x": ["%r = load i32, ptr @emulate.block"]},
    "tid": {
        "x": [*_THREAD, "%word = urem i64 %t, %nx", "%r = trunc i64 %word to i32"],
        "y": [*_THREAD, "%word = udiv i64 %t, %nx", "%r = trunc i64 %word to i32"],
    },
}
_UNARY = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "fabs": "fabs"}

# Instructions of the device that are written out: name -> definition.
_INSTRUCTIONS = {
    # a handle is the address of its number
    "cudaGraphSetConditional": """define internal void @cudaGraphSetConditional(i64 %a, i32 %b) {
  %cell = inttoptr i64 %a to ptr
  %number = zext i32 %b to i64
  store i64 %number, ptr %cell
  ret void
}""",
    "nvvm.d2i.lo": """define internal i32 @nvvm.d2i.lo(double %a) {
  %bits = bitcast double %a to i64
  %word = trunc i64 %bits to i32
  ret i32 %word
}""",
    "nvvm.d2i.hi": """define internal i32 @nvvm.d2i.hi(double %a) {
  %bits = bitcast double %a to i64
  %high = lshr i64 %bits, 32
  %word = trunc i64 %high to i32
  ret i32 %word
}""",
    "nvvm.lohi.i2d": """define internal double @nvvm.lohi.i2d(i32 %low, i32 %high) {
  %below = zext i32 %low to i64
  %wide = zext i32 %high to i64
  %above = shl i64 %wide, 32
  %bits = or i64 %below, %above
  %value = bitcast i64 %bits to double
  ret double %value
}""",
    "nvvm.f2i.rn": """define internal i32 @nvvm.f2i.rn(float %a) {
  %whole = call float @llvm.rint.f32(float %a)
  %word = call i32 @llvm.fptosi.sat.i32.f32(float %whole)
  ret i32 %word
}""",
    "nvvm.d2i.rn": """define internal i32 @nvvm.d2i.rn(double %a) {
  %whole = call double @llvm.rint.f64(double %a)
  %word = call i32 @llvm.fptosi.sat.i32.f64(double %whole)
  %nan = fcmp uno double %a, %a
  %result = select i1 %nan, i32 -2147483648, i32 %word
  ret i32 %result
}""",
    **{
        f"nvvm.fma.{mode}.f": _FUSED.format(mode=mode, function=function)
        for mode, function in (("rm", "sum_down"), ("rz", "sum_to_zero"))
    },
    "nvvm.add.rz.f": """define internal float @nvvm.add.rz.f(float %a, float %b) {
  %wide.a = fpext float %a to double
  %wide.b = fpext float %b to double
  %r = call float @emulate.sum_to_zero(double %wide.a, double %wide.b)
  ret float %r
}""",
    # the largest float that is not above a + b
    "emulate.sum_down": """define internal float @emulate.sum_down(double %a, double %b) {
  %sum = fadd double %a, %b
  %b.part = fsub double %sum, %a
  %a.part = fsub double %sum, %b.part
  %a.rest = fsub double %a, %a.part
  %b.rest = fsub double %b, %b.part
  %error = fadd double %a.rest, %b.rest
  %near = fptrunc double %sum to float
  %back = fpext float %near to double
  %above = fcmp ogt double %back, %sum
  %same = fcmp oeq double %back, %sum
  %negative = fcmp olt double %error, 0.0
  %just = and i1 %same, %negative
  %down = or i1 %above, %just
  %bits = bitcast float %near to i32
  %positive = fcmp ogt float %near, 0.0
  %step = select i1 %positive, i32 -1, i32 1
  %next = add i32 %bits, %step
  %zero = fcmp oeq float %near, 0.0
  %lower = select i1 %zero, i32 -2147483647, i32 %next
  %chosen = select i1 %down, i32 %lower, i32 %bits
  %r = bitcast i32 %chosen to float
  ret float %r
}""",
    "emulate.sum_to_zero": """define internal float @emulate.sum_to_zero(double %a, double %b) {
  %sum = fadd double %a, %b
  %negative = fcmp olt double %sum, 0.0
  %minus.a = fsub double -0.0, %a
  %minus.b = fsub double -0.0, %b
  %first = select i1 %negative, double %minus.a, double %a
  %second = select i1 %negative, double %minus.b, double %b
  %size = call float @emulate.sum_down(double %first, double %second)
  %minus.size = fsub float -0.0, %size
  %r = select i1 %negative, float %minus.size, float %size
  ret float %r
}""",
    "nvvm.saturate.f": """define internal float @nvvm.saturate.f(float %a) {
  %positive = fcmp ogt float %a, 0.0
  %from_zero = select i1 %positive, float %a, float 0.0
  %below = fcmp olt float %from_zero, 1.0
  %result = select i1 %below, float %from_zero, float 1.0
  ret float %result
}""",
    **{
        f"nvvm.{name}": _NEAREST_FLOAT.format(name=name, function=function)
        for name, function in (("ex2.approx.f32", "exp2"), ("lg2.approx.f", "log2"))
    },
    "nvvm.ex2.approx.ftz.f32": """define internal float @nvvm.ex2.approx.ftz.f32(float %a) {
  %power = call float @nvvm.ex2.approx.f32(float %a)
  %result = call float @emulate.flush(float %power)
  ret float %result
}""",
    "nvvm.rsqrt.approx.f": """define internal float @nvvm.rsqrt.approx.f(float %a) {
  %wide = fpext float %a to double
  %root = call double @llvm.sqrt.f64(double %wide)
  %inverse = fdiv double 1.0, %root
  %result = fptrunc double %inverse to float
  ret float %result
}""",
    "nvvm.rsqrt.approx.d": """define internal double @nvvm.rsqrt.approx.d(double %a) {
  %root = call double @llvm.sqrt.f64(double %a)
  %r = fdiv double 1.0, %root
  ret double %r
}""",
    "nvvm.div.approx.f": """define internal float @nvvm.div.approx.f(float %a, float %b) {
  %result = fdiv float %a, %b
  ret float %result
}""",
    "asm.rcp.approx.ftz.f32": """define internal float @asm.rcp.approx.ftz.f32(float %a) {
  %from = call float @emulate.flush(float %a)
  %inverse = fdiv float 1.0, %from
  %result = call float @emulate.flush(float %inverse)
  ret float %result
}""",
    "nvvm.rcp.approx.ftz.d": """define internal double @nvvm.rcp.approx.ftz.d(double %a) {
  %inverse = fdiv double 1.0, %a
  %result = call double @emulate.high_word(double %inverse)
  ret double %result
}""",
    "asm.rsqrt.approx.ftz.f64": """define internal double @asm.rsqrt.approx.ftz.f64(double %a) {
  %root = call double @llvm.sqrt.f64(double %a)
  %inverse = fdiv double 1.0, %root
  %result = call double @emulate.high_word(double %inverse)
  ret double %result
}""",
    "emulate.word_and_bit": """define internal { i32, i1 } @emulate.word_and_bit(i64 %both) {
  %word = trunc i64 %both to i32
  %high = lshr i64 %both, 32
  %bit = trunc i64 %high to i1
  %first = insertvalue { i32, i1 } undef, i32 %word, 0
  %result = insertvalue { i32, i1 } %first, i1 %bit, 1
  ret { i32, i1 } %result
}""",
    # what a device does without other threads in between is done here without more
    **{
        name: f"define internal void @{name}() {{\n  ret void\n}}"
        for name in ("nvvm.membar.cta", "nvvm.membar.gl", "nvvm.membar.sys")
    },
    "exp2": "declare double @exp2(double)",
    "log2": "declare double @log2(double)",
    # the upper half of a double, which is all that the approximate instructions give
    "emulate.high_word": """define internal double @emulate.high_word(double %a) {
  %bits = bitcast double %a to i64
  %upper = and i64 %bits, -4294967296
  %result = bitcast i64 %upper to double
  ret double %result
}""",
    # denormals become zeros of their sign
    "emulate.flush": """define internal float @emulate.flush(float %a) {
  %size = call float @llvm.fabs.f32(float %a)
  %denormal = fcmp olt float %size, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %a)
  %result = select i1 %denormal, float %zero, float %a
  ret float %result
}""",
    # c where a and b are equal or one is NaN, else d
    "asm.setp.equ.f64": """define internal double @asm.setp.equ.f64(
    double %a, double %b, double %c, double %d) {
  %equal = fcmp ueq double %a, %b
  %r = select i1 %equal, double %c, double %d
  ret double %r
}""",
}

# Instructions that wait for other threads: name -> (result, parameters, request).
_WAITING: dict[str, tuple[str, str, tuple[str | int, ...]]] = {
    "emulate.barrier": ("void", "i32 %place", (BARRIER, "%place")),
    **{
        f"emulate.barrier.{name}": ("i32", "i32 %place, i32 %given", (kind, "%place", "%given"))
        for name, kind in (("popc", POPC), ("and", AND), ("or", OR))
    },
    "nvvm.bar.warp.sync": ("void", "i32 %mask", (WARP, "%mask")),
    "nvvm.shfl.sync.i32": (
        "{ i32, i1 }",
        "i32 %mask, i32 %mode, i32 %value, i32 %lane, i32 %clamp",
        (SHUFFLE, "%mask", "%mode", "%value", "%lane", "%clamp"),
    ),
    **{
        f"nvvm.shfl.sync.{name}.i32": (
            "i32",
            "i32 %mask, i32 %value, i32 %lane, i32 %clamp",
            (SHUFFLE, "%mask", mode, "%value", "%lane", "%clamp"),
        )
        for mode, name in enumerate(("idx", "up", "down", "bfly"))
    },
    "nvvm.vote.sync": (
        "{ i32, i1 }",
        "i32 %mask, i32 %mode, i1 %given",
        (VOTE, "%mask", "%mode", "%given"),
    ),
}

# What inline assembly does in words of two registers, low one first: name -> (bits of a register,
# number of operands, the lines that make %r of %a, %b, ..., all of the double width).
_PAIRS = {
    "asm.mad.32": (32, 3, ["%ab = mul i64 %a, %b", "%r = add i64 %ab, %c"]),
    "asm.mul.64": (64, 2, ["%r = mul i128 %a, %b"]),
    "asm.mad.64": (64, 3, ["%ab = mul i128 %a, %b", "%r = add i128 %ab, %c"]),
    **{
        f"asm.{name}.64": (
            64,
            4,
            [
                "%b.up = shl i128 %b, 64",
                "%d.up = shl i128 %d, 64",
                "%first = or i128 %a, %b.up",
                "%second = or i128 %c, %d.up",
                f"%r = {name} i128 %first, %second",
            ],
        )
        for name in ("add", "sub")
    },
}


def definitions(callees: Iterable[str]) -> list[str]:
    """The text of all functions that are needed to call these; the names of libm have none."""
    found: dict[str, str] = {}
    todo = list(callees)
    while todo:
        name = todo.pop()
        if name in found or name.startswith("llvm."):
            continue
        text = _definition(name)
        if text is not None:
            found[name] = text
            todo += _CALLEE.findall(text)
    return list(found.values())


def _definition(name: str) -> str | None:
    """The definition of a function of libdevice or an instruction; None for one of libm."""
    if name.startswith(("__nv_", "__internal_")):
        functions, _ = _libdevice_text()
        if name not in functions:
            raise CheckError(f"libdevice has no function {name}.")
        return functions[name]
    if name in _INSTRUCTIONS:
        return _INSTRUCTIONS[name]
    if name in _WAITING:
        return _wait(name, *_WAITING[name])
    if name in _PAIRS:
        return _pair(name, *_PAIRS[name])
    return _instruction(name) if name.startswith(("nvvm.", "asm.")) else None


def _instruction(name: str) -> str:
    """nvvm.fma.rm.f, nvvm.floor.d, nvvm.fabs.f32, nvvm.atomic.load.add.f32.p1f32, ..."""
    _, operation, *details = [*name.split("."), ""]
    last = details[-2] if len(details) > 1 else ""
    if name.startswith("nvvm.read.ptx.sreg.") and details[-3] in _REGISTERS:
        return _register(name, details[-3], last)
    if operation == "mulhi" and details[0] in _WORDS:
        word, wide = _WORDS[details[0]]
        return _high_word(name, word, wide)
    if operation in _UNARY and last in _TYPES:
        kind, suffix = _TYPES[last]
        return _define(name, kind, 1, f"call {kind} @llvm.{_UNARY[operation]}.{suffix}({kind} %a)")
    if operation in _NEAREST and details[0] == "rn" and last in _TYPES:
        kind, suffix = _TYPES[last]
        arity, value = _NEAREST[operation]
        return _define(name, kind, arity, value.format(t=kind, s=suffix))
    if name.startswith("nvvm.atomic.load.add.f"):
        kind, _ = _TYPES[details[2]]
        body = f"%r = atomicrmw fadd ptr %p, {kind} %a seq_cst"
        return (
            f"define internal {kind} @{name}(ptr %p, {kind} %a) {{\n  {body}\n  ret {kind} %r\n}}"
        )
    raise CheckError(
        f"The emulator of the device does not know the instruction llvm.{name}.",
        [("write", "its meaning in tests/emulator/device.py")],
    )


def _wait(name: str, result: str, parameters: str, request: tuple[str | int, ...]) -> str:
    """A request of a thread, and its answer."""
    lines = [f"define internal {result} @{name}({parameters}) {{"]
    if "i1 %given" in parameters:
        lines.append("  %bit = zext i1 %given to i32")
        request = tuple(["%bit" if word == "%given" else word for word in request])
    words = [*request, *[0] * (6 - len(request))]
    given = ", ".join([f"i32 {word}" for word in words])
    lines.append(f"  %answer = call i64 @emulate_wait({given})")
    if result == "i32":
        lines.append("  %r = trunc i64 %answer to i32")
    elif result != "void":
        lines.append(f"  %r = call {result} @emulate.word_and_bit(i64 %answer)")
    return "\n".join([*lines, f"  ret {result}{'' if result == 'void' else ' %r'}", "}"])


def _register(name: str, register: str, axis: str) -> str:
    """The number of the block or of the thread along an axis."""
    value = _REGISTERS[register].get(axis, ["%r = add i32 0, 0"])
    lines = "".join([f"  {line}\n" for line in value])
    return f"define internal i32 @{name}() {{\n{lines}  ret i32 %r\n}}"


def _define(name: str, kind: str, arity: int, value: str) -> str:
    parameters = ", ".join(f"{kind} %{letter}" for letter in "abc"[:arity])
    return f"define internal {kind} @{name}({parameters}) {{\n  %r = {value}\n  ret {kind} %r\n}}"


def _high_word(name: str, word: str, wide: str) -> str:
    """The upper half of a product of unsigned words."""
    return "\n".join(
        [
            f"define internal {word} @{name}({word} %a, {word} %b) {{",
            f"  %wide.a = zext {word} %a to {wide}",
            f"  %wide.b = zext {word} %b to {wide}",
            f"  %product = mul {wide} %wide.a, %wide.b",
            f"  %above = lshr {wide} %product, {word[1:]}",
            f"  %r = trunc {wide} %above to {word}",
            f"  ret {word} %r",
            "}",
        ]
    )


def _pair(name: str, bits: int, arity: int, lines: list[str]) -> str:
    """A function of words whose result is two words."""
    word, wide, both = f"i{bits}", f"i{2 * bits}", f"{{ i{bits}, i{bits} }}"
    letters = "abcd"[:arity]
    return "\n".join(
        [
            f"define internal {both} @{name}({', '.join(f'{word} %{x}.word' for x in letters)}) {{",
            *[f"  %{x} = zext {word} %{x}.word to {wide}" for x in letters],
            *[f"  {line}" for line in lines],
            f"  %low = trunc {wide} %r to {word}",
            f"  %above = lshr {wide} %r, {bits}",
            f"  %high = trunc {wide} %above to {word}",
            f"  %half = insertvalue {both} undef, {word} %low, 0",
            f"  %pair = insertvalue {both} %half, {word} %high, 1",
            f"  ret {both} %pair",
            "}",
        ]
    )


# libdevice.


def libdevice_globals() -> list[str]:
    """The tables that functions of libdevice read."""
    return _libdevice_text()[1]


@functools.cache
def _libdevice_text() -> tuple[dict[str, str], list[str]]:
    """Functions of libdevice by name, for a CPU, and its tables and types."""
    text = disassemble(libdevice())
    text = _without_device_words(text)
    functions = {}
    for found in re.finditer(r"^define [^@]*@([\w.]+)\(.*?^}$", text, re.MULTILINE | re.DOTALL):
        functions[found[1]] = found[0].replace("define ", "define internal ", 1)
    tables = re.findall(
        r"^(?:@[\w.]+ = .*(?:constant|global)|%[\w.]+ = type).*$", text, re.MULTILINE
    )
    return functions, tables


def _without_device_words(text: str) -> str:
    """Drop address spaces, attributes and metadata; name the inline assembly; answer reflection.

    Denormals are kept, and divisions and square roots are exact, as the toolchain compiles.
    """
    text = re.sub(r" addrspace\(\d+\)", "", text)
    text = re.sub(r",? ![\w.]+ !\d+", "", text)
    text = re.sub(r" #\d+", "", text)
    text = re.sub(r"^define internal ", "define ", text, flags=re.MULTILINE)
    text = re.sub(r"@llvm\.(nvvm\.[\w.]+)", lambda found: f"@{_kept_name(found[1])}", text)
    text = text.replace("call i32 @__nvvm_reflect(ptr @.str)", "add i32 0, 0")
    text = text.replace("call i32 @__nvvm_reflect(ptr @.str.2)", "add i32 0, 1")
    text = text.replace("call i32 @__nvvm_reflect(ptr @.str.1)", "add i32 0, 900")
    return re.sub(r'asm "([^"]*)", "[^"]*"\(', lambda found: f"@{_asm_name(found[1])}(", text)


def _kept_name(instruction: str) -> str:
    """The variant that keeps denormals, where not both are used."""
    return instruction if instruction in _INSTRUCTIONS else instruction.replace(".ftz", "")


def _asm_name(assembly: str) -> str:
    """rcp.approx.ftz.f32 $0,$1; -> asm.rcp.approx.ftz.f32; of several lines the first to compute"""
    assembly = re.sub(r"\\[0-9A-F]{2}", " ", assembly)
    if "mad.lo" in assembly and ".reg" not in assembly:
        return "asm.mad.32"
    first = re.search(r"(?<![.\w])(setp|mul|mad|add|sub|rcp|rsqrt)\.([\w.]+)", assembly)
    if first and ".reg .u32" in assembly:
        return f"asm.{first[1]}.64"
    return f"asm.{first[1]}.{first[2]}" if first else "asm.unknown"
